"""Functions of one or two arrays, element by element.

The tables say which of gradtape's ops does it; `_unary` and `_binary` give it the standard's signature. Special
values are those of IEEE 754 and C99, which the ops keep; numbers next to arrays take their dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from gradtape.core.arguments import numeric, promoted
from gradtape.core.dispatch import convert
from gradtape.core.typing import TensorLike
from gradtape.interop import numpy_ufuncs as u
from gradtape.ops import compare as c, elementwise as e, select as s
from gradtape.ops.composite import nextafter as next_number
from gradtape.ops.stop import identity

_FUNCTIONS: set[Callable[..., Any]] = set()  # of the tables: named at the end, as they are bound


def _unary(rule: Callable[..., Any]) -> Callable[..., Any]:
    def function(x: TensorLike, /) -> Any:
        try:
            return rule(x)
        except (TypeError, ValueError):
            numeric(x, "x", function.__name__)  # names the argument, if that is what is wrong
            raise

    _FUNCTIONS.add(function)
    return function


def _binary(rule: Callable[..., Any]) -> Callable[..., Any]:
    def function(x1: TensorLike, x2: TensorLike, /) -> Any:
        try:
            return rule(x1, x2)
        except (TypeError, ValueError):
            promoted(function.__name__, x1=x1, x2=x2)
            raise

    _FUNCTIONS.add(function)
    return function


def clip(x: TensorLike, /, min: TensorLike | None = None, max: TensorLike | None = None) -> Any:
    """`x` limited to [min, max], in its own dtype; NaN where any of the three is."""
    x = convert(x)
    low, high = (None if v is None else e.cast(convert(v, hint=x.dtype), x.dtype) for v in (min, max))
    if high is not None:
        x = s.minimum(x, high)
    if low is not None:
        x = s.maximum(x, low)
    return identity(x) if low is None and high is None else x


abs = _unary(e.abs)
acos = _unary(e.acos)
acosh = _unary(e.acosh)
asin = _unary(e.asin)
asinh = _unary(e.asinh)
atan = _unary(e.atan)
atanh = _unary(e.atanh)
bitwise_invert = _unary(u.UFUNCS[np.invert])
ceil = _unary(s.ceil)
conj = _unary(e.conj)
cos = _unary(e.cos)
cosh = _unary(e.cosh)
exp = _unary(e.exp)
expm1 = _unary(e.expm1)
floor = _unary(s.floor)
imag = _unary(e.imag)
isfinite = _unary(c.is_finite)
isinf = _unary(c.is_inf)
isnan = _unary(c.is_nan)
log = _unary(e.log)
log1p = _unary(e.log1p)
log2 = _unary(u.log2)
log10 = _unary(u.log10)
logical_not = _unary(u.UFUNCS[np.logical_not])
negative = _unary(e.negative)
positive = _unary(identity)
real = _unary(e.real)
reciprocal = _unary(e.reciprocal)
round = _unary(s.round)
sign = _unary(e.sign)
signbit = _unary(c.sign_bit)
sin = _unary(e.sin)
sinh = _unary(e.sinh)
square = _unary(e.square)
sqrt = _unary(e.sqrt)
tan = _unary(e.tan)
tanh = _unary(e.tanh)
trunc = _unary(u.trunc)
add = _binary(e.add)
atan2 = _binary(e.atan2)
bitwise_and = _binary(u.UFUNCS[np.bitwise_and])
bitwise_left_shift = _binary(c.left_shift)
bitwise_or = _binary(u.UFUNCS[np.bitwise_or])
bitwise_right_shift = _binary(c.right_shift)
bitwise_xor = _binary(u.UFUNCS[np.bitwise_xor])
copysign = _binary(u.copysign)
divide = _binary(e.divide)
equal = _binary(c.equal)
floor_divide = _binary(s.floordiv)
greater = _binary(c.greater)
greater_equal = _binary(c.greater_equal)
hypot = _binary(u.hypot)
less = _binary(c.less)
less_equal = _binary(c.less_equal)
logaddexp = _binary(u.logaddexp)
logical_and = _binary(u.UFUNCS[np.logical_and])
logical_or = _binary(u.UFUNCS[np.logical_or])
logical_xor = _binary(u.UFUNCS[np.logical_xor])
maximum = _binary(s.maximum)
minimum = _binary(s.minimum)
multiply = _binary(e.multiply)
nextafter = _binary(next_number)
not_equal = _binary(c.not_equal)
pow = _binary(e.pow)
remainder = _binary(s.mod)
subtract = _binary(e.subtract)

for _name, _function in [*globals().items()]:
    if isinstance(_function, FunctionType) and _function in _FUNCTIONS:
        _function.__name__ = _function.__qualname__ = _name
        _function.__doc__ = f"`{_name}` of the array API standard."


__all__ = [
    "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and", "bitwise_invert",
    "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "ceil", "clip", "conj", "copysign", "cos",
    "cosh", "divide", "equal", "exp", "expm1", "floor", "floor_divide", "greater", "greater_equal", "hypot", "imag",
    "isfinite", "isinf", "isnan", "less", "less_equal", "log", "log1p", "log2", "log10", "logaddexp", "logical_and",
    "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "multiply", "negative", "nextafter", "not_equal",
    "positive", "pow", "real", "reciprocal", "remainder", "round", "sign", "signbit", "sin", "sinh", "sqrt", "square",
    "subtract", "tan", "tanh", "trunc",
]  # fmt: skip
