"""Activation functions: relu and its relatives, sigmoid, softplus, gelu, softmax.

Primitives are those whose forward needs care with overflow or whose derivative is cheap from the output; the rest are
composites. At a kink the derivative is TensorFlow's: relu, relu6 take 0, leaky_relu takes alpha. No losses here.
Integer inputs become float32, except where the function keeps integers (relu, relu6).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradtape.core import batching, inference
from gradtape.core.arguments import real_floats, real_number, real_numbers
from gradtape.core.bfloat16 import rounded_once
from gradtape.core.dispatch import apply, convert
from gradtape.core.forms import unary
from gradtape.core.opdef import Cost, Sample, composite, elementwise, general
from gradtape.core.tensor import Readable, Tensor
from gradtape.core.typing import Array, Axis, TensorLike
from gradtape.dtypes import float32
from gradtape.ops.sampling import away, normal, spread
from gradtape.ops.shape import normal_axis


def floating(x: TensorLike) -> Tensor:
    """`x` as a tensor with a floating (or complex) dtype: integers and booleans become float32."""
    x = convert(x)
    return x if x.dtype.is_differentiable else cast(x, float32)


def real_floating(x: TensorLike, op: str) -> Tensor:
    """As `floating`, refusing complex numbers."""
    return real_floats(x, "the input", op)


def _lanes() -> list[Sample]:
    return [Sample(away(3, 2)), Sample(away()), Sample(away(0, 2)), Sample(away(2, 3)[:, ::-2])]


def _smooth() -> list[Sample]:
    return [*_lanes(), Sample(normal(2) + 1j * normal(2)), Sample(np.array([-40.0, 8.0]))]


# -- sigmoid and softplus --------------------------------------------------------------------------------------------


def _sigmoid_impl(x: Array) -> Array:
    if x.dtype.kind == "c":
        return np.tanh(x * 0.5) * 0.5 + 0.5
    with np.errstate(over="ignore"):  # exp(-x) may be inf; 1/inf is the right 0
        out = 1 / (1 + np.exp(-x))
        return out if out.all() else np.where(out == 0, np.exp(x), out)[()]  # e⁻ˣ overflows before eˣ underflows


def _softplus_impl(x: Array) -> Array:
    if x.dtype.kind == "c":
        return np.log1p(np.exp(x))
    # log(1 + eˣ) = max(x, 0) + log(1 + e^-|x|): nothing overflows
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


SIGMOID = elementwise(
    "sigmoid", "x", _sigmoid_impl,
    lambda out: out * (1.0 - out),
    floating=True, infer=inference.elementwise_float,
    samples=_smooth,
)  # fmt: skip
SOFTPLUS = elementwise(
    "softplus", "x", _softplus_impl,
    lambda x: sigmoid(x),
    floating=True, infer=inference.elementwise_float,
    samples=_smooth,
)  # fmt: skip
_sigmoid, _softplus = unary(SIGMOID), unary(SOFTPLUS)


def sigmoid(x: TensorLike, name: str | None = None) -> Tensor:
    """1 / (1 + exp(-x)), without overflow.

    >>> gt.sigmoid([0.0, -1000.0]).numpy()
    array([0.5, 0. ], dtype=float32)
    """
    return _sigmoid(x)


def softplus(features: TensorLike, name: str | None = None) -> Tensor:
    """log(1 + exp(x)), without overflow.

    >>> gt.nn.softplus([0.0, 1000.0]).numpy()
    array([6.931472e-01, 1.000000e+03], dtype=float32)
    """
    return _softplus(features)


@composite(samples=_lanes)
def log_sigmoid(x: TensorLike, name: str | None = None) -> Tensor:
    """log(sigmoid(x)), exact where the sigmoid underflows.

    >>> gt.nn.log_sigmoid(-1000.0).numpy()
    np.float32(-1000.0)
    """
    return -_softplus(-floating(x))


# -- the relu family -------------------------------------------------------------------------------------------------


def _relu_impl(x: Array) -> Array:
    if x.dtype.kind == "b":
        raise TypeError(inference.NO_BOOLEANS)
    return np.maximum(x, 0)


def _relu6_impl(x: Array) -> Array:
    return np.minimum(_relu_impl(x), 6)


def _leaky_impl(x: Array, *, alpha: float) -> Array:
    return np.where(x > 0, x, x * x.dtype.type(alpha))[()]  # a bare float would widen bfloat16


def _elu_impl(x: Array) -> Array:
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))[()]


SELU_SCALE = 1.0507009873554805
SELU_ALPHA = 1.7580993408473766  # scale times the alpha of Klambauer et al. 2017, "Self-normalizing neural networks"


def _selu_impl(x: Array) -> Array:
    scale, alpha = x.dtype.type(SELU_SCALE), x.dtype.type(SELU_ALPHA)
    return np.where(x > 0, x * scale, np.expm1(np.minimum(x, 0)) * alpha)[()]


def _step_impl(x: Array) -> Array:
    return (x > 0).astype(x.dtype)


# piecewise constant: its derivative is 0, not missing, so second derivatives of the relu family are zeros, not None
STEP = elementwise("step", "x", _step_impl, lambda x: x * 0.0, samples=_lanes)
step = unary(STEP)
RELU = elementwise(
    "relu", "x", _relu_impl,
    lambda out: step(out),
    infer=inference.numbers,
    cost=Cost.CHEAP,
    samples=lambda: [*_lanes(), Sample(np.arange(-2, 2))],
)  # fmt: skip
RELU6 = elementwise(
    "relu6", "x", _relu6_impl,
    lambda out: step(out) * step(6.0 - out),
    infer=inference.numbers,
    samples=lambda: [*_lanes(), Sample(spread(3, 8) * 3.0), Sample(np.arange(-2, 2))],
)  # fmt: skip
LEAKY_RELU = elementwise(
    "leaky_relu", "x", _leaky_impl,
    lambda x, alpha: step(x) * (1.0 - alpha) + alpha,
    samples=lambda: [Sample(away(3, 2), 0.2), Sample(away(), 1.5), Sample(away(0), 0.0)],
)  # fmt: skip
# eˣ = out + 1 where x < 0
ELU = elementwise(
    "elu", "x", _elu_impl,
    lambda out: where(out < 0, out + 1.0, ones_like(out)),
    floating=True, infer=inference.elementwise_float,
    samples=_lanes,
)  # fmt: skip
SELU = elementwise(
    "selu", "x", _selu_impl,
    lambda out: where(out < 0, out + SELU_ALPHA, ones_like(out) * SELU_SCALE),
    floating=True, infer=inference.elementwise_float,
    samples=_lanes,
)  # fmt: skip
_relu, _relu6, _elu, _selu = unary(RELU), unary(RELU6), unary(ELU), unary(SELU)


def relu(features: TensorLike, name: str | None = None) -> Tensor:
    """max(x, 0); the derivative at 0 is 0.

    >>> gt.nn.relu([-1.0, 2.0]).numpy()
    array([0., 2.], dtype=float32)
    """
    return _relu(features)


def relu6(features: TensorLike, name: str | None = None) -> Tensor:
    """min(max(x, 0), 6).

    >>> gt.nn.relu6([-1.0, 2.0, 9.0]).numpy()
    array([0., 2., 6.], dtype=float32)
    """
    return _relu6(features)


def leaky_relu(features: TensorLike, alpha: TensorLike = 0.2, name: str | None = None) -> Tensor:
    """x where positive, alpha·x elsewhere. A tensor or variable as alpha is broadcast, and has a gradient.

    >>> gt.nn.leaky_relu([-1.0, 2.0]).numpy()
    array([-0.2,  2. ], dtype=float32)
    """
    x = real_floating(features, "leaky_relu")
    if isinstance(alpha, (Tensor, Readable)):
        return where(x > 0.0, x, cast(real_numbers(alpha, "alpha", "leaky_relu", x.dtype), x.dtype) * x)
    return apply(LEAKY_RELU, x, alpha=real_number(alpha, "alpha", "leaky_relu"))


def elu(features: TensorLike, name: str | None = None) -> Tensor:
    """x where positive, exp(x) - 1 elsewhere.

    >>> gt.nn.elu([0.0, 2.0]).numpy()
    array([0., 2.], dtype=float32)
    """
    return _elu(features)


def selu(features: TensorLike, name: str | None = None) -> Tensor:
    """The elu scaled so that activations keep zero mean and unit variance.

    >>> gt.nn.selu([0.0, 2.0]).numpy()
    array([0.      , 2.101402], dtype=float32)
    """
    return _selu(features)


# -- gelu ------------------------------------------------------------------------------------------------------------


_ROOT_2PI_INVERSE = 1.0 / math.sqrt(2.0 * math.pi)
_ROOT_2_OVER_PI = math.sqrt(2.0 / math.pi)
_CUBIC = 0.044715


def normal_density(x: Tensor) -> Tensor:
    """The density of the standard normal distribution."""
    return exp(x * x * -0.5) * _ROOT_2PI_INVERSE


def gelu_angle(x: Tensor) -> Tensor:
    """tanh √(2/π)(x + 0.044715 x³): the approximation of 2Φ(x) - 1."""
    return tanh((x + x * x * x * _CUBIC) * _ROOT_2_OVER_PI)


def gelu_partial(x: Tensor, approximate: bool) -> Tensor:
    """The derivative of gelu."""
    # exact: (xΦ)' = Φ + xφ;  approximate: ½(1 + t) + ½x(1 - t²)·√(2/π)(1 + 3·0.044715 x²)
    if not approximate:
        return ndtr(x) + x * normal_density(x)
    t = gelu_angle(x)
    return (t + 1.0) * 0.5 + x * (1.0 - t * t) * (x * x * (3.0 * _CUBIC) + 1.0) * (0.5 * _ROOT_2_OVER_PI)


def _gelu_impl(x: Array, *, approximate: bool) -> Array:
    if not approximate:
        return x * NDTR.impl(x)
    cubic, root, half = (x.dtype.type(c) for c in (_CUBIC, _ROOT_2_OVER_PI, 0.5))
    return (np.tanh((x + x * x * x * cubic) * root) + 1) * x * half


GELU = elementwise(
    "gelu", "x", _gelu_impl,
    gelu_partial,
    samples=lambda: [Sample(normal(3, 2), False), Sample(normal(3), True), Sample(normal(), False), Sample(normal(0), True)],
)  # fmt: skip


def gelu(features: TensorLike, approximate: bool = False, name: str | None = None) -> Tensor:
    """x·Φ(x) with the normal distribution function Φ, or its tanh approximation.

    >>> gt.nn.gelu([-1.0, 1.0]).numpy()
    array([-0.15865526,  0.8413448 ], dtype=float32)
    """
    return apply(GELU, real_floating(features, "gelu"), approximate=bool(approximate))


# -- softmax ---------------------------------------------------------------------------------------------------------


@rounded_once
def _softmax_impl(x: Array, *, axis: int) -> Array:
    if not x.size:
        return x.copy()
    out = np.exp(x - np.maximum.reduce(x, axis=axis, keepdims=True))
    out /= np.add.reduce(out, axis=axis, keepdims=True)
    return out


@rounded_once
def _log_softmax_impl(x: Array, *, axis: int) -> Array:
    if not x.size:
        return x.copy()
    out = x - np.maximum.reduce(x, axis=axis, keepdims=True)
    out -= np.log(np.add.reduce(np.exp(out), axis=axis, keepdims=True))
    return out


def shifted_rows(x: Tensor, axis: int) -> tuple[Any, Any]:
    """x minus its maximum along an axis, and the sum of its exponentials: none of them overflows."""
    shifted = x - reduce_max(x, axis, True)
    return shifted, reduce_sum(exp(shifted), axis, True)


def _expand_softmax(x: Tensor, *, axis: int) -> Tensor:
    shifted, total = shifted_rows(x, axis)
    return exp(shifted) / total


def _expand_log_softmax(x: Tensor, *, axis: int) -> Tensor:
    shifted, total = shifted_rows(x, axis)
    return shifted - log(total)


def softmax_tangent(t: Tensor, out: Tensor, axis: int) -> Tensor:
    """(diag(y) - y yᵀ) t, a symmetric map: it serves both modes."""
    return (t - reduce_sum(t * out, axis, True)) * out


def _rows() -> list[Sample]:
    return [
        Sample(normal(3, 4), -1),
        Sample(normal(2, 3, 2), 1),
        Sample(normal(3), 0),
        Sample(normal(0, 3), -1),
        Sample(np.array([[1000.0, 1001.0], [-1000.0, 3.0]]), -1),
        Sample(normal(3), 1, raises=(ValueError, "out of range")),
    ]


SOFTMAX = general(
    "softmax", "x", _softmax_impl,
    vjps=(lambda ct, out, axis: softmax_tangent(ct, out, axis),),
    jvps=(lambda t, out, axis: softmax_tangent(t, out, axis),),
    expand=_expand_softmax, infer=inference.same, batch=batching.shifted("axis"),
    samples=_rows,
)  # fmt: skip
LOG_SOFTMAX = general(
    "log_softmax", "x", _log_softmax_impl,
    # ∂out_i/∂x_j = δ_ij - softmax_j
    vjps=(lambda ct, out, axis: ct - exp(out) * reduce_sum(ct, axis, True),),
    jvps=(lambda t, out, axis: t - reduce_sum(t * exp(out), axis, True),),
    expand=_expand_log_softmax, infer=inference.same, batch=batching.shifted("axis"),
    samples=_rows,
)  # fmt: skip


def softmax(logits: TensorLike, axis: Axis | None = None, name: str | None = None) -> Tensor:
    """exp(x) / sum(exp(x)) along an axis (the last by default), without overflow.

    >>> gt.nn.softmax([0.0, 0.0]).numpy()
    array([0.5, 0.5], dtype=float32)
    """
    x = real_floating(logits, "softmax")
    return apply(SOFTMAX, x, axis=normal_axis(-1 if axis is None else axis, x.ndim, "softmax"))


def log_softmax(logits: TensorLike, axis: Axis | None = None, name: str | None = None) -> Tensor:
    """log(softmax(x)) along an axis (the last by default), exact where the softmax underflows.

    >>> gt.nn.log_softmax([0.0, -1000.0]).numpy()
    array([    0., -1000.], dtype=float32)
    """
    x = real_floating(logits, "log_softmax")
    return apply(LOG_SOFTMAX, x, axis=normal_axis(-1 if axis is None else axis, x.ndim, "log_softmax"))


# -- composites ------------------------------------------------------------------------------------------------------


@composite(samples=lambda: [*_lanes(), Sample(normal(3), normal()), Sample(normal(3) + 1j * normal(3))])
def silu(features: TensorLike, beta: TensorLike = 1.0, name: str | None = None) -> Tensor:
    """x·sigmoid(beta·x); also called swish.

    >>> gt.nn.silu([0.0, 1.0]).numpy()
    array([0.       , 0.7310586], dtype=float32)
    """
    x = floating(features)
    plain = beta.__class__ is float and beta == 1.0
    return x * sigmoid(x if plain else x * beta)


swish = silu


@composite(samples=_lanes)
def softsign(features: TensorLike, name: str | None = None) -> Tensor:
    """x / (1 + |x|).

    >>> gt.nn.softsign([-1.0, 3.0]).numpy()
    array([-0.5 ,  0.75], dtype=float32)
    """
    x = real_floating(features, "softsign")
    return x / (abs(x) + 1.0)


@composite(samples=lambda: [Sample(away(3, 2)), Sample(away(2, 3), 0)])
def crelu(features: TensorLike, axis: Axis = -1, name: str | None = None) -> Tensor:
    """relu(x) and relu(-x), concatenated along an axis.

    >>> gt.nn.crelu([-1.0, 2.0]).numpy()
    array([0., 2., 1., 0.], dtype=float32)
    """
    x = convert(features)
    return concat([_relu(x), _relu(-x)], axis)


OPS = (SIGMOID, SOFTPLUS, STEP, RELU, RELU6, LEAKY_RELU, ELU, SELU, GELU, SOFTMAX, LOG_SOFTMAX)

from gradtape.ops.create import ones_like
from gradtape.ops.elementwise import abs, cast, exp, log, tanh
from gradtape.ops.reduce import reduce_max, reduce_sum
from gradtape.ops.select import where
from gradtape.ops.shape import concat
from gradtape.ops.special import NDTR, ndtr

__all__ = [
    "crelu", "elu", "gelu", "leaky_relu", "log_sigmoid", "log_softmax", "relu", "relu6", "selu", "sigmoid", "silu", "softmax",
    "softplus", "softsign", "swish",
]  # fmt: skip
