"""Moments, normalisation, dropout and bias: the small layers between the large ones.

`normalize` is one primitive (the derivative through mean and variance has a short closed form); the rest are composites.
Gradients flow through mean and variance everywhere, at every order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape.core import batching, inference
from gradtape.core.arguments import real_number
from gradtape.core.bfloat16 import rounded_once
from gradtape.core.dispatch import apply, convert, plain, promote, twin
from gradtape.core.opdef import Op, Sample, composite, general
from gradtape.core.tensor import Readable, Tensor
from gradtape.core.typing import Array, Axes, Axis, Dims, Real, Shape, TensorLike
from gradtape.errors import InvalidArgumentError
from gradtape.ir.types import TensorShape
from gradtape.ops.activations import floating, real_floating
from gradtape.ops.create import static_shape
from gradtape.ops.random import uniform
from gradtape.ops.reduce import normal_axes
from gradtape.ops.sampling import normal, positive


@composite(samples=lambda: [Sample(normal(3, 4), [0]), Sample(normal(2, 3, 2), [0, 2], None, True), Sample(normal(4), 0)])
def moments(
    x: TensorLike, axes: Axes, shift: TensorLike | None = None, keepdims: bool = False, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Mean and variance over the given axes; `shift` is accepted and not needed (the variance is computed stably).

    >>> mean, variance = gt.nn.moments(gt.constant([1.0, 3.0]), axes=[0])
    >>> mean.numpy(), variance.numpy()
    (np.float32(2.0), np.float32(1.0))
    """
    x = floating(x)
    kind = x.dtype
    if kind.size == 2:  # half precision would lose the variance
        x = cast(x, "float32")
    axes = normal_axes(axes, x.ndim, "moments")
    mean = reduce_mean(x, axes, True)
    variance = reduce_mean(square(x - mean), axes, keepdims)
    if not keepdims:
        mean = reshape(mean, inference.reduced_shape(x.shape, axes, False))
    return (mean, variance) if x.dtype == kind else (cast(mean, kind), cast(variance, kind))


@composite(
    samples=lambda: [
        Sample(normal(3, 2), normal(2), positive(2), normal(2), positive(2), 1e-3),
        Sample(normal(3, 2), normal(2), positive(2), None, None, 1e-3),
        Sample(normal(2, 3, 2), normal(1, 3, 1), positive(1, 3, 1), None, normal(1, 3, 1), 0.1),
    ]
)
def batch_normalization(
    x: TensorLike, mean: TensorLike, variance: TensorLike, offset: TensorLike | None, scale: TensorLike | None,
    variance_epsilon: TensorLike, name: str | None = None,
) -> Tensor:  # fmt: skip
    """(x - mean) / sqrt(variance + variance_epsilon) · scale + offset; offset and scale may be None.

    >>> gt.nn.batch_normalization([1.0, 3.0], 2.0, 1.0, None, None, 0.0).numpy()
    array([-1.,  1.], dtype=float32)
    """
    x, mean, variance = promote(floating(x), mean, variance)
    factor = rsqrt(variance + variance_epsilon)
    if scale is not None:
        factor = factor * scale
    shift = -mean * factor if offset is None else offset - mean * factor
    return x * factor + shift


# -- layer normalisation -----------------------------------------------------------------------------------------------


@rounded_once
def _normalize_impl(x: Array, *, axis: tuple[int, ...], epsilon: float) -> Array:
    out = x - x.mean(axis=axis, keepdims=True, dtype=x.dtype)
    return out / np.sqrt((out * out).mean(axis=axis, keepdims=True, dtype=x.dtype) + epsilon)


def normalize_tangent(t: Tensor, x: Tensor, out: Tensor, axis: tuple[int, ...], epsilon: float) -> Tensor:
    """(t - mean(t) - y·mean(t·y)) / σ, a symmetric map: it serves both modes."""
    inverse = rsqrt(reduce_mean(square(x - reduce_mean(x, axis, True)), axis, True) + epsilon)
    return (t - reduce_mean(t, axis, True) - out * reduce_mean(t * out, axis, True)) * inverse


def _expand_normalize(x: Tensor, *, axis: tuple[int, ...], epsilon: float) -> Tensor:
    centred = x - reduce_mean(x, axis, True)
    return centred / sqrt(reduce_mean(centred * centred, axis, True) + epsilon)


NORMALIZE: Op = general(
    "normalize", "x", _normalize_impl,
    vjps=(lambda ct, x, out, axis, epsilon: normalize_tangent(ct, x, out, axis, epsilon),),
    jvps=(lambda t, x, out, axis, epsilon: normalize_tangent(t, x, out, axis, epsilon),),
    expand=_expand_normalize, infer=inference.same, batch=batching.shifted("axis"),
    call=lambda x, axis, epsilon: apply(NORMALIZE, floating(x), axis=axis, epsilon=epsilon),
    samples=lambda: [
        Sample(normal(3, 4), (1,), 1e-3),
        Sample(normal(2, 3, 4), (1, 2), 0.1),
        Sample(normal(3), (0,), 1e-5),
        Sample(normal(0, 3), (1,), 1e-5),
    ],
)  # fmt: skip


@composite(
    samples=lambda: [
        Sample(normal(3, 4)),
        Sample(normal(2, 3, 4), normal(4), positive(4)),
        Sample(normal(2, 3, 4), normal(3, 4), None, [1, 2]),
        Sample(normal(2, 3), None, None, 2, raises=(ValueError, "out of range")),
    ]
)
def layer_norm(
    x: TensorLike, offset: TensorLike | None = None, scale: TensorLike | None = None, axis: Axis = -1,
    variance_epsilon: TensorLike = 1e-3, name: str | None = None,
) -> Tensor:  # fmt: skip
    """Each example shifted and scaled to mean 0 and variance 1 over the given axes, then · scale + offset.

    >>> gt.nn.layer_norm([[1.0, 3.0]], variance_epsilon=0.0).numpy()
    array([[-1.,  1.]], dtype=float32)
    """
    x = real_floating(x, "layer_norm")
    axes = normal_axes(axis, x.ndim, "layer_norm")
    if isinstance(variance_epsilon, (Tensor, Readable)):
        centred = x - reduce_mean(x, axes, True)
        out = centred * rsqrt(reduce_mean(square(centred), axes, True) + cast(variance_epsilon, x.dtype))
    else:
        out = apply(NORMALIZE, x, axis=axes, epsilon=real_number(variance_epsilon, "variance_epsilon", "layer_norm"))
    if scale is not None:
        out = out * scale
    return out if offset is None else out + offset


# -- bias and dropout --------------------------------------------------------------------------------------------------


@composite(
    samples=lambda: [
        Sample(normal(2, 3), normal(3)),
        Sample(normal(2, 3, 4), normal(3), "NCHW"),
        Sample(normal(2, 3), normal(2), raises=(ValueError, "2 elements")),
        Sample(normal(2, 3), normal(1, 3), raises=(ValueError, "vector")),
    ]
)
def bias_add(value: TensorLike, bias: TensorLike, data_format: str | None = None, name: str | None = None) -> Tensor:
    """`value` plus a vector along its channels: the last axis, or axis 1 for data formats that begin with "NC".

    >>> gt.nn.bias_add([[1.0, 2.0]], [10.0, 20.0]).numpy()
    array([[11., 22.]], dtype=float32)
    """
    value, bias = promote(value, bias)
    if data_format is not None and not data_format.startswith("N"):
        raise InvalidArgumentError(f'bias_add: data_format must be of the form "N...C" or "NC...", got {data_format!r}')
    if bias.ndim != 1 or value.ndim < 2:
        raise InvalidArgumentError(
            f"bias_add: the bias must be a vector and the value have rank 2 or more, got shapes {tuple(bias.shape)} and "
            f"{tuple(value.shape)}"
        )
    first = data_format is not None and data_format.startswith("NC")
    channels = value.shape[1 if first else -1]
    if bias.shape[0] != channels:
        raise InvalidArgumentError(
            f"bias_add: a bias of {bias.shape[0]} elements does not fit the {channels} channels of a value of shape "
            f"{tuple(value.shape)}"
        )
    return value + (reshape(bias, (-1, *([1] * (value.ndim - 2)))) if first else bias)


@composite(
    samples=lambda: [
        Sample(normal(2, 3), 0.0),
        Sample(normal(2, 3), 1.5, raises=(ValueError, "[0, 1)")),
        Sample(np.arange(3), 0.5, raises=(ValueError, "floating")),
    ]
)
def dropout(
    x: TensorLike, rate: Real, noise_shape: Shape | None = None, seed: int | None = None, name: str | None = None
) -> Tensor:
    """Each element kept with probability 1 - rate and scaled by 1/(1 - rate), else zero.

    `noise_shape` (broadcast to the shape of x) makes whole slices share their fate.

    >>> gt.random.set_seed(1)
    >>> sorted(set(gt.nn.dropout(gt.ones(100), 0.5).numpy().tolist()))
    [0.0, 2.0]
    """
    x = convert(x)
    if not x.dtype.is_floating:
        raise InvalidArgumentError(f"dropout: x must be floating, got dtype {x.dtype.name}; use gt.cast first")
    share = plain(rate)
    if not isinstance(share, Tensor):
        share = float(share)
        if not 0.0 <= share < 1.0:
            raise InvalidArgumentError(f"dropout: rate must be in [0, 1), got {share}")
        if share == 0.0:
            return twin(x)
    return dropped(x, share, noise_shape, lambda shape: uniform(shape, dtype=x.dtype, seed=seed))


def dropped(x: Tensor, rate: Tensor | float, noise_shape: Shape | None, draw: Callable[[Dims], Tensor]) -> Tensor:
    """Dropout with its uniform numbers from `draw(shape)`."""
    shape = tuple(x.shape) if noise_shape is None else _noise_shape(noise_shape, tuple(x.shape))
    keep = draw(shape) >= rate
    return where(keep, x * (1.0 / (1.0 - rate)), zeros_like(x))


def _noise_shape(noise_shape: Shape, shape: Dims) -> Dims:
    parts: Any = noise_shape.as_list() if isinstance(noise_shape, TensorShape) else noise_shape
    if isinstance(parts, (list, tuple)):  # None stands for the dimension of x
        parts = [d if p is None else p for p, d in zip(parts, shape, strict=False)] if len(parts) == len(shape) else parts
    wanted = static_shape(parts)
    fits = len(wanted) <= len(shape) and all(w in (1, d) for w, d in zip(wanted[::-1], shape[::-1], strict=False))
    if not fits:
        raise InvalidArgumentError(f"dropout: noise_shape {wanted} does not broadcast to the shape {shape} of x")
    return wanted


@composite(
    samples=lambda: [
        Sample(normal(4, 3), np.array([2, 0, 2])),
        Sample(normal(4, 3), np.array([4]), raises=(ValueError, "not in [0, 4)")),
    ]
)
def embedding_lookup(params: TensorLike, ids: TensorLike, max_norm: float | None = None, name: str | None = None) -> Tensor:
    """Rows of a table by number; the gradient of a Variable is sparse. `max_norm` limits the length of each row.

    >>> gt.nn.embedding_lookup([[1.0, 2.0], [3.0, 4.0]], [1]).numpy()
    array([[3., 4.]], dtype=float32)
    """
    rows = gather(params, ids, axis=0)
    if max_norm is None:
        return rows
    rank = convert(ids).ndim
    total = reduce_sum(square(rows), tuple(range(rank, rows.ndim)), True)
    # rows longer than max_norm shrink to it; sqrt of a safe value keeps the gradient of zero rows finite
    long = total > max_norm * max_norm
    return where(long, rows * (rsqrt(where(long, total, ones_like(total))) * max_norm), rows)


OPS = (NORMALIZE,)

from gradtape.ops.create import ones_like, zeros_like
from gradtape.ops.elementwise import cast, rsqrt, sqrt, square
from gradtape.ops.index import gather
from gradtape.ops.reduce import reduce_mean, reduce_sum
from gradtape.ops.select import where
from gradtape.ops.shape import reshape

__all__ = ["batch_normalization", "bias_add", "dropout", "embedding_lookup", "layer_norm", "moments"]
