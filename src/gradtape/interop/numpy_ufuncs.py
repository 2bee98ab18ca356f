"""NumPy's elementwise functions written in gradtape's ops: the table behind `Tensor.__array_ufunc__`.

Each entry takes what the ufunc takes and is differentiable wherever the mathematics is. Integer inputs of functions with
real results become float32, as everywhere in gradtape. SciPy's ufuncs are found by name, so SciPy is not imported here.
"""

# ruff: noqa: D103  (each function does what NumPy documents under its name)

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape.core.arguments import numeric
from gradtape.core.dispatch import convert, promote, twin
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Axes, TensorLike
from gradtape.dtypes import float32, float64
from gradtape.ops import compare as c, elementwise as e, select as s
from gradtape.ops.activations import softplus
from gradtape.ops.composite import gcd, nextafter, truncatemod
from gradtape.ops.create import zeros_like
from gradtape.ops.cumulative import cumprod, cumsum
from gradtape.ops.matmul import matmul as matrix_product
from gradtape.ops.operators import matmul_operator
from gradtape.ops.reduce import reduce_all, reduce_any, reduce_logsumexp, reduce_max, reduce_min, reduce_prod, reduce_sum
from gradtape.ops.shape import expand_dims, reshape, squeeze

Rule = Callable[..., Any]


def floats(x: TensorLike) -> Tensor:
    """`x` as a floating tensor; integers become float32."""
    x = convert(x)
    return x if x.dtype.is_differentiable else e.cast(x, float32)


def exp2(x: TensorLike) -> Any:
    return e.exp(floats(x) * math.log(2.0))


def log2(x: TensorLike) -> Any:
    return _log(x, math.log(2.0))


def log10(x: TensorLike) -> Any:
    return _log(x, math.log(10.0))


def _log(x: TensorLike, base: float) -> Any:
    """The logarithm to another base: both parts divided, since a complex quotient makes NaN of infinite ones."""
    out = e.log(x)
    if out.dtype.is_complex:
        return e.complex(e.real(out) / base, e.imag(out) / base)
    return out * (1.0 / base)


def cbrt(x: TensorLike) -> Any:
    x = floats(x)
    return e.sign(x) * e.pow(e.abs(x), 1.0 / 3.0)


def hypot(x: TensorLike, y: TensorLike) -> Any:
    """|x + iy|: no overflow, and a gradient of zero at the origin."""
    x, y = promote(x, y)
    return e.abs(e.complex(floats(x), floats(y)))


def logaddexp(x: TensorLike, y: TensorLike) -> Any:
    """log(eˣ + eʸ) = x + log(1 + eʸ⁻ˣ) for the larger x: nothing is lost or overflows, and all orders are exact where x = y."""
    x, y = promote(floats(x), floats(y))
    gap = s.where(c.logical_and(c.is_inf(x), c.equal(x, y)), e.cast(0, x.dtype), y - x)  # ∞ - ∞
    return s.where(c.greater_equal(x, y), x + softplus(gap), y + softplus(-gap))


def logaddexp2(x: TensorLike, y: TensorLike) -> Any:
    scale = math.log(2.0)
    return logaddexp(floats(x) * scale, floats(y) * scale) * (1.0 / scale)


def trunc(x: TensorLike) -> Tensor:
    x = convert(x)
    return s.where(x < 0, s.ceil(x), s.floor(x))


def fmod(x: TensorLike, y: TensorLike) -> Any:
    """The remainder with the sign of x."""
    return truncatemod(x, y)


def fmax(x: TensorLike, y: TensorLike) -> Any:
    x, y = promote(x, y)
    return s.where(c.is_nan(x), y, s.where(c.is_nan(y), x, s.maximum(x, y)))


def fmin(x: TensorLike, y: TensorLike) -> Any:
    x, y = promote(x, y)
    return s.where(c.is_nan(x), y, s.where(c.is_nan(y), x, s.minimum(x, y)))


def heaviside(x: TensorLike, y: TensorLike) -> Any:
    x, y = promote(floats(x), y)
    return s.where(c.equal(x, 0), y, e.cast(c.greater(x, 0), x.dtype))


def copysign(x: TensorLike, y: TensorLike) -> Any:
    x, y = promote(floats(x), y)
    # The sign of a zero counts, so the comparison y < 0 would not do.
    return s.where(c.sign_bit(y), -e.abs(x), e.abs(x))


def float_power(x: TensorLike, y: TensorLike) -> Any:
    x, y = (t if t.dtype.is_complex else e.cast(t, float64) for t in (convert(x), convert(y)))
    return e.pow(x, y)


def conjugated(x: Tensor) -> Tensor:
    return e.conj(x) if x.dtype.is_complex else x


def vecdot(x: TensorLike, y: TensorLike) -> Any:
    x, y = promote(x, y)
    return reduce_sum(conjugated(x) * y, axis=-1)


def matvec(x: TensorLike, y: TensorLike) -> Any:
    return squeeze(matrix_product(x, expand_dims(y, -1)), -1)


def vecmat(x: TensorLike, y: TensorLike) -> Any:
    x = convert(x)
    return squeeze(matrix_product(expand_dims(conjugated(x), -2), y), -2)


def divmod_(x: TensorLike, y: TensorLike) -> Any:
    return s.floordiv(x, y), s.mod(x, y)


def lcm(x: TensorLike, y: TensorLike) -> Any:
    x, y = promote(x, y)
    divisor = gcd(x, y)
    return s.where(c.equal(divisor, 0), zeros_like(divisor), s.floordiv(e.abs(x), s.maximum(divisor, 1)) * e.abs(y))


def ldexp(x: TensorLike, i: TensorLike) -> Any:
    """x·2ⁱ in two factors: 2ⁱ alone may overflow where the product does not."""
    x = floats(x)
    power = numeric(i, "x2", "ldexp")
    if not power.dtype.is_integer:
        raise TypeError(f"ldexp: x2 must be integers, got dtype {power.dtype.name}")
    half = s.floordiv(power, 2)
    return x * exp2(e.cast(half, x.dtype)) * exp2(e.cast(power - half, x.dtype))


def modf(x: TensorLike) -> Any:
    x = floats(x)
    whole = trunc(x)
    return x - whole, whole


def logical(operate: Rule) -> Rule:
    """NumPy's logical functions take any number: non-zero is true."""

    def rule(*values: Any) -> Any:
        return operate(*(as_bool(v) for v in values))

    return rule


def as_bool(x: TensorLike) -> Tensor:
    x = convert(x)
    return x if x.dtype.is_bool else c.not_equal(x, zeros_like(x))


def bits_or_logic(bits: Rule, operate: Rule) -> Rule:
    def rule(*values: Any) -> Any:
        tensors = promote(*values) if len(values) > 1 else [convert(v) for v in values]
        return operate(*tensors) if all(t.dtype.is_bool for t in tensors) else bits(*tensors)

    return rule


UFUNCS: dict[Any, Rule] = {
    np.add: e.add, np.subtract: e.subtract, np.multiply: e.multiply, np.divide: e.divide,
    np.floor_divide: s.floordiv, np.remainder: s.mod, np.fmod: fmod, np.divmod: divmod_, np.power: e.pow,
    np.float_power: float_power, np.negative: e.negative, np.positive: lambda x: twin(convert(x)),
    np.absolute: e.abs, np.fabs: e.abs,
    np.sign: e.sign, np.square: e.square, np.sqrt: e.sqrt, np.cbrt: cbrt, np.reciprocal: e.reciprocal,
    np.exp: e.exp, np.exp2: exp2, np.expm1: e.expm1, np.log: e.log, np.log2: log2, np.log10: log10, np.log1p: e.log1p,
    np.logaddexp: logaddexp, np.logaddexp2: logaddexp2,
    np.sin: e.sin, np.cos: e.cos, np.tan: e.tan, np.arcsin: e.asin, np.arccos: e.acos, np.arctan: e.atan,
    np.arctan2: e.atan2, np.sinh: e.sinh, np.cosh: e.cosh, np.tanh: e.tanh, np.arcsinh: e.asinh, np.arccosh: e.acosh,
    np.arctanh: e.atanh, np.hypot: hypot,
    np.deg2rad: lambda x: floats(x) * (math.pi / 180.0), np.radians: lambda x: floats(x) * (math.pi / 180.0),
    np.rad2deg: lambda x: floats(x) * (180.0 / math.pi), np.degrees: lambda x: floats(x) * (180.0 / math.pi),
    np.maximum: s.maximum, np.minimum: s.minimum, np.fmax: fmax, np.fmin: fmin,
    np.floor: s.floor, np.ceil: s.ceil, np.rint: s.round, np.trunc: trunc, np.modf: modf,
    np.heaviside: heaviside, np.copysign: copysign, np.nextafter: nextafter, np.gcd: gcd, np.lcm: lcm, np.ldexp: ldexp,
    np.conjugate: e.conj,
    np.equal: c.equal, np.not_equal: c.not_equal, np.less: c.less, np.less_equal: c.less_equal,
    np.greater: c.greater, np.greater_equal: c.greater_equal,
    np.isnan: c.is_nan, np.isinf: c.is_inf, np.isfinite: c.is_finite, np.signbit: c.sign_bit,
    np.logical_and: logical(c.logical_and), np.logical_or: logical(c.logical_or),
    np.logical_xor: logical(c.logical_xor), np.logical_not: logical(c.logical_not),
    np.bitwise_and: bits_or_logic(c.bitwise_and, c.logical_and),
    np.bitwise_or: bits_or_logic(c.bitwise_or, c.logical_or),
    np.bitwise_xor: bits_or_logic(c.bitwise_xor, c.logical_xor), np.invert: bits_or_logic(c.invert, c.logical_not),
    np.left_shift: c.left_shift, np.right_shift: c.right_shift,
    np.matmul: matmul_operator, np.vecdot: vecdot,
}  # fmt: skip
for _name, _rule in (("matvec", matvec), ("vecmat", vecmat)):  # since NumPy 2.2
    if _name in np.__dict__:
        UFUNCS[np.__dict__[_name]] = _rule


def _summed(x: Tensor, axis: Axes, keepdims: bool) -> Any:
    return reduce_sum(e.cast(x, np.int64) if x.dtype.is_bool else x, axis, keepdims)


REDUCERS: dict[Any, Rule] = {
    np.add: _summed, np.multiply: reduce_prod, np.maximum: reduce_max, np.minimum: reduce_min,
    np.logical_and: lambda x, axis, keepdims: reduce_all(as_bool(x), axis, keepdims),
    np.logical_or: lambda x, axis, keepdims: reduce_any(as_bool(x), axis, keepdims),
    np.logaddexp: lambda x, axis, keepdims: reduce_logsumexp(x, axis, keepdims),
}  # fmt: skip
ACCUMULATORS: dict[Any, Rule] = {np.add: cumsum, np.multiply: cumprod}


def outer(rule: Rule, x: TensorLike, y: TensorLike) -> Any:
    """`ufunc.outer`: every element of x with every element of y."""
    x, y = convert(x), convert(y)
    return rule(reshape(x, (*tuple(x.shape), *([1] * y.ndim))), y)
