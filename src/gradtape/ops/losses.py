"""Losses on logits: cross entropies whose forward cannot overflow and whose derivative needs no division.

Each cross entropy is one fused primitive. The derivative with respect to the logits is softmax·Σlabels - labels, which is
TensorFlow's softmax - labels when the labels sum to one, and stays the true derivative (at every order) when they do not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape.core import batching
from gradtape.core.arguments import broadcasting, numeric, real_floats, real_numbers
from gradtape.core.dispatch import apply, promote
from gradtape.core.forms import binary
from gradtape.core.opdef import Fails, Sample, composite, elementwise, general
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Array, Axis, TensorLike
from gradtape.errors import InvalidArgumentError
from gradtape.ir.types import TensorSpec
from gradtape.ops.activations import floating
from gradtape.ops.sampling import away, integers, normal, unit
from gradtape.ops.shape import normal_axis

# -- softmax cross entropy ---------------------------------------------------------------------------------------------


def _log_normalised(logits: Array) -> Array:
    """Minus log softmax along the last axis."""
    # max - x is never negative, so that exp(-shifted) is at most 1 and one of them is 1: no overflow, and a sum of 1 at least.
    shifted = np.maximum.reduce(logits, axis=-1, keepdims=True, initial=-np.inf) - logits
    shifted += np.log(np.add.reduce(np.exp(-shifted), axis=-1, keepdims=True))
    return shifted


def _cross_entropy_impl(labels: Array, logits: Array) -> Array:
    terms = _log_normalised(logits)
    with np.errstate(invalid="ignore"):
        terms *= labels
    out = np.add.reduce(terms, axis=-1)
    if not np.isfinite(out).all():  # a label of 0 cancels a logit of -inf
        out = np.add.reduce(np.where(labels == 0, np.zeros_like(terms), terms), axis=-1)
    return out


def softmax_rows(logits: Tensor) -> Tensor:
    """The softmax over the last axis."""
    return apply(SOFTMAX, logits, axis=logits.ndim - 1)


def log_softmax_rows(logits: Tensor) -> Tensor:
    """The log softmax over the last axis."""
    return apply(LOG_SOFTMAX, logits, axis=logits.ndim - 1)


def logits_slope(labels: Tensor, logits: Tensor) -> Tensor:
    """∂loss/∂logits = softmax·Σlabels - labels."""
    return softmax_rows(logits) * reduce_sum(labels, -1, True) - labels


def _expand_cross_entropy(labels: Tensor, logits: Tensor) -> Tensor:
    """-Σ labels·log softmax, where -log softmax = log(total) - shifted; a label of 0 cancels a logit of -inf."""
    shifted, total = shifted_rows(logits, logits.ndim - 1)
    terms = (log(total) - shifted) * labels
    return reduce_sum(where(equal(labels, 0), zeros_like(terms), terms), -1)


SOFTMAX_CROSS_ENTROPY = general(
    "softmax_cross_entropy", "labels logits", _cross_entropy_impl,
    vjps=(
        lambda ct, logits: -expand_dims(ct, -1) * log_softmax_rows(logits),
        lambda ct, labels, logits: expand_dims(ct, -1) * logits_slope(labels, logits),
    ),
    jvps=(
        lambda t, logits: -reduce_sum(t * log_softmax_rows(logits), -1),
        lambda t, labels, logits: reduce_sum(t * logits_slope(labels, logits), -1),
    ),
    expand=_expand_cross_entropy,
    infer=lambda labels, logits: TensorSpec(logits.shape[:-1], logits.dtype),
    batch=batching.leading,
    call=lambda labels, logits, axis=-1: softmax_cross_entropy_with_logits(labels, logits, axis),
    samples=lambda: [
        Sample(np.array([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]]), normal(2, 3)),
        Sample(normal(2, 3, 2), normal(2, 3, 2), 1),
        Sample(normal(3), normal(3)),
        Sample(normal(0, 3), normal(0, 3)),
        Sample(normal(2, 3), normal(3)),
        Sample(np.array([0.5, 0.5]), np.array([1000.0, -1000.0])),
        Sample(normal(2, 3), normal(2, 4), raises=(ValueError, "broadcast")),
    ],
)  # fmt: skip


def softmax_cross_entropy_with_logits(
    labels: TensorLike, logits: TensorLike, axis: Axis = -1, name: str | None = None
) -> Tensor:
    """Cross entropy between label distributions and softmax(logits) along an axis; gradients flow to both.

    >>> gt.nn.softmax_cross_entropy_with_logits(labels=[[1.0, 0.0]], logits=[[0.0, 0.0]]).numpy()
    array([0.6931472], dtype=float32)
    """
    op = "softmax_cross_entropy_with_logits"
    logits = real_floats(logits, "logits", op)
    labels = cast(real_numbers(labels, "labels", op, logits.dtype), logits.dtype)
    if not fits(labels.shape, logits.shape):
        shape = broadcasting(op, labels=labels, logits=logits)
        labels, logits = broadcast_to(labels, shape), broadcast_to(logits, shape)
    place = normal_axis(axis, logits.ndim, op)
    if place != logits.ndim - 1:
        order = (*(i for i in range(logits.ndim) if i != place), place)
        labels, logits = transpose(labels, order), transpose(logits, order)
    return apply(SOFTMAX_CROSS_ENTROPY, labels, logits)


# -- the same with class numbers as labels -----------------------------------------------------------------------------


def _sparse_impl(labels: Array, logits: Array) -> Array:
    return np.take_along_axis(_log_normalised(logits), np.asarray(labels)[..., None], axis=-1)[..., 0][()]


def sparse_slope(labels: Tensor, logits: Tensor) -> Tensor:
    """∂loss/∂logits = softmax - one_hot(label)."""
    return softmax_rows(logits) - cast(apply(ONE_HOT, labels, depth=logits.shape[-1], axis=-1), logits.dtype)


SPARSE_CROSS_ENTROPY = general(
    "sparse_softmax_cross_entropy", "labels logits", _sparse_impl,
    vjps=(None, lambda ct, labels, logits: expand_dims(ct, -1) * sparse_slope(labels, logits)),
    jvps=(None, lambda t, labels, logits: reduce_sum(t * sparse_slope(labels, logits), -1)),
    infer=lambda labels, logits: TensorSpec(logits.shape[:-1], logits.dtype),
    batch=batching.leading,
    call=lambda labels, logits: sparse_softmax_cross_entropy_with_logits(labels, logits),
    fails=Fails.VALUES,
    samples=lambda: [
        Sample(np.array([0, 2]), normal(2, 3)),
        Sample(integers(3, 2, 2), normal(2, 2, 3)),
        Sample(np.array(1), normal(3)),
        Sample(integers(3, 0), normal(0, 3)),
        Sample(np.array([0, 3]), normal(2, 3), raises=(ValueError, "label 3")),
        Sample(np.array([0]), normal(2, 3), raises=(ValueError, "shape")),
        Sample(np.array([0.0]), normal(1, 3), raises=(ValueError, "integers")),
    ],
)  # fmt: skip


def sparse_softmax_cross_entropy_with_logits(labels: TensorLike, logits: TensorLike, name: str | None = None) -> Tensor:
    """Cross entropy of softmax(logits) over the last axis with class numbers as labels.

    >>> gt.nn.sparse_softmax_cross_entropy_with_logits(labels=[1], logits=[[0.0, 0.0]]).numpy()
    array([0.6931472], dtype=float32)
    """
    op = "sparse_softmax_cross_entropy_with_logits"
    labels, logits = numeric(labels, "labels", op), real_floats(logits, "logits", op)
    if not labels.dtype.is_integer:
        raise InvalidArgumentError(
            f"{op}: labels must be integers, got dtype {labels.dtype.name}; for label distributions use "
            "softmax_cross_entropy_with_logits"
        )
    if not logits.ndim or not fits(labels.shape, logits.shape[:-1]):
        raise InvalidArgumentError(
            f"{op}: labels must have the shape of the logits without the last axis, got labels {tuple(labels.shape)} "
            f"and logits {tuple(logits.shape)}"
        )
    return apply(SPARSE_CROSS_ENTROPY, check_range(labels, logits.shape[-1], op, "label"), logits)


# -- sigmoid cross entropy ---------------------------------------------------------------------------------------------


def _sigmoid_impl(labels: Array, logits: Array) -> Array:
    # -z·log σ(x) - (1 - z)·log(1 - σ(x)) = max(x, 0) - x·z + log(1 + e^-|x|)
    return np.maximum(logits, 0) - logits * labels + np.log1p(np.exp(-np.abs(logits)))


# In the logit x and label z: d/dz = -x, d/dx = σ(x) - z.
SIGMOID_CROSS_ENTROPY = elementwise(
    "sigmoid_cross_entropy", "labels logits", _sigmoid_impl,
    lambda logits: -logits,
    lambda labels, logits: sigmoid(logits) - labels,
    call=lambda labels, logits: sigmoid_cross_entropy_with_logits(labels, logits),
    samples=lambda: [
        Sample(unit(3, 2), away(3, 2)),
        Sample(unit(), away()),
        Sample(unit(0), away(0)),
        Sample(np.array([1.0, 0.0]), np.array([9.0, -9.0])),
        Sample(unit(3), away(2), raises=(ValueError, "same shape")),
    ],
)  # fmt: skip
_sigmoid_cross_entropy = binary(SIGMOID_CROSS_ENTROPY)


def sigmoid_cross_entropy_with_logits(
    labels: TensorLike | None = None, logits: TensorLike | None = None, name: str | None = None
) -> Tensor:
    """Cross entropy of independent binary labels with sigmoid(logits), element by element.

    >>> gt.nn.sigmoid_cross_entropy_with_logits(labels=[1.0, 0.0], logits=[0.0, 1000.0]).numpy()
    array([6.931472e-01, 1.000000e+03], dtype=float32)
    """
    return _sigmoid_cross_entropy(*_binary(labels, logits, "sigmoid_cross_entropy_with_logits"))


def _binary(labels: Any, logits: Any, op: str) -> tuple[Tensor, Tensor]:
    """Labels between 0 and 1, and as many logits."""
    x = real_floats(logits, "logits", op)
    z, x = promote(real_numbers(labels, "labels", op, x.dtype), x)
    if not fits(z.shape, x.shape):
        raise InvalidArgumentError(
            f"{op}: labels and logits must have the same shape, got {tuple(z.shape)} and {tuple(x.shape)}"
        )
    return z, x


@composite(
    samples=lambda: [
        Sample(unit(3, 2), away(3, 2), 2.0),
        Sample(unit(3), away(3), np.array([0.5, 1.0, 3.0])),
        Sample(np.array([1.0, 0.0]), np.array([-90.0, 90.0]), 0.5),
        Sample(unit(3), away(2), 1.0, raises=(ValueError, "same shape")),
    ]
)
def weighted_cross_entropy_with_logits(
    labels: TensorLike, logits: TensorLike, pos_weight: TensorLike, name: str | None = None
) -> Tensor:
    """As `sigmoid_cross_entropy_with_logits`, the positive labels counted `pos_weight` times.

    >>> gt.nn.weighted_cross_entropy_with_logits([1.0, 0.0], [0.0, 0.0], pos_weight=2.0).numpy()
    array([1.3862944, 0.6931472], dtype=float32)
    """
    op = "weighted_cross_entropy_with_logits"
    labels, logits = _binary(labels, logits, op)
    pos_weight = real_numbers(pos_weight, "pos_weight", op, logits.dtype)
    broadcasting(op, pos_weight=pos_weight, logits=logits)
    # (1 - z)·x + (1 + (q - 1)·z)·log(1 + e^-x), with softplus for the logarithm, which cannot overflow
    return (1.0 - labels) * logits + (1.0 + (pos_weight - 1.0) * labels) * softplus(-logits)


@composite(samples=lambda: [Sample(normal(2, 3)), Sample(normal()), Sample(normal(0))])
def l2_loss(t: TensorLike, name: str | None = None) -> Tensor:
    """Half the sum of squares.

    >>> gt.nn.l2_loss([3.0, 4.0]).numpy()
    np.float32(12.5)
    """
    return reduce_sum(square(floating(t))) * 0.5


OPS = (SOFTMAX_CROSS_ENTROPY, SPARSE_CROSS_ENTROPY, SIGMOID_CROSS_ENTROPY)

from gradtape.ops.activations import LOG_SOFTMAX, SOFTMAX, shifted_rows, sigmoid, softplus
from gradtape.ops.compare import equal
from gradtape.ops.create import ONE_HOT, fits, zeros_like
from gradtape.ops.elementwise import cast, log, square
from gradtape.ops.index import check_range
from gradtape.ops.reduce import reduce_sum
from gradtape.ops.select import where
from gradtape.ops.shape import broadcast_to, expand_dims, transpose
