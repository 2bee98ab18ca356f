"""Functions of one or two arrays, element by element.

The tables say which of gradtape's ops does it; `_unary` and `_binary` give it the standard's name and signature. Special
values are those of IEEE 754 and C99, which the ops keep; numbers next to arrays take their dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape.frontend import numpy_ufuncs as u
from gradtape.ops import compare as c, elementwise as e, select as s
from gradtape.ops.composite import nextafter as next_number
from gradtape.ops.dispatch import convert
from gradtape.ops.stop import identity


def _unary(name: str, rule: Callable[..., Any]) -> Callable[..., Any]:
    def function(x: Any, /) -> Any:
        return rule(x)

    return _named(function, name)


def _binary(name: str, rule: Callable[..., Any]) -> Callable[..., Any]:
    def function(x1: Any, x2: Any, /) -> Any:
        return rule(x1, x2)

    return _named(function, name)


def _named(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`{name}` of the array API standard."
    return function


def clip(x: Any, /, min: Any = None, max: Any = None) -> Any:
    """`x` limited to [min, max], in its own dtype; NaN where any of the three is."""
    x = convert(x)
    low, high = (None if v is None else e.cast(convert(v, hint=x.dtype), x.dtype) for v in (min, max))
    if high is not None:
        x = s.minimum(x, high)
    if low is not None:
        x = s.maximum(x, low)
    return identity(x) if low is None and high is None else x


abs = _unary("abs", e.abs)
acos = _unary("acos", e.acos)
acosh = _unary("acosh", e.acosh)
asin = _unary("asin", e.asin)
asinh = _unary("asinh", e.asinh)
atan = _unary("atan", e.atan)
atanh = _unary("atanh", e.atanh)
bitwise_invert = _unary("bitwise_invert", u.UFUNCS[np.invert])
ceil = _unary("ceil", s.ceil)
conj = _unary("conj", e.conj)
cos = _unary("cos", e.cos)
cosh = _unary("cosh", e.cosh)
exp = _unary("exp", e.exp)
expm1 = _unary("expm1", e.expm1)
floor = _unary("floor", s.floor)
imag = _unary("imag", e.imag)
isfinite = _unary("isfinite", c.is_finite)
isinf = _unary("isinf", c.is_inf)
isnan = _unary("isnan", c.is_nan)
log = _unary("log", e.log)
log1p = _unary("log1p", e.log1p)
log2 = _unary("log2", u.log2)
log10 = _unary("log10", u.log10)
logical_not = _unary("logical_not", u.UFUNCS[np.logical_not])
negative = _unary("negative", e.negative)
positive = _unary("positive", identity)
real = _unary("real", e.real)
reciprocal = _unary("reciprocal", e.reciprocal)
round = _unary("round", s.round)
sign = _unary("sign", e.sign)
signbit = _unary("signbit", c.sign_bit)
sin = _unary("sin", e.sin)
sinh = _unary("sinh", e.sinh)
square = _unary("square", e.square)
sqrt = _unary("sqrt", e.sqrt)
tan = _unary("tan", e.tan)
tanh = _unary("tanh", e.tanh)
trunc = _unary("trunc", u.trunc)
add = _binary("add", e.add)
atan2 = _binary("atan2", e.atan2)
bitwise_and = _binary("bitwise_and", u.UFUNCS[np.bitwise_and])
bitwise_left_shift = _binary("bitwise_left_shift", c.left_shift)
bitwise_or = _binary("bitwise_or", u.UFUNCS[np.bitwise_or])
bitwise_right_shift = _binary("bitwise_right_shift", c.right_shift)
bitwise_xor = _binary("bitwise_xor", u.UFUNCS[np.bitwise_xor])
copysign = _binary("copysign", u.copysign)
divide = _binary("divide", e.divide)
equal = _binary("equal", c.equal)
floor_divide = _binary("floor_divide", s.floordiv)
greater = _binary("greater", c.greater)
greater_equal = _binary("greater_equal", c.greater_equal)
hypot = _binary("hypot", u.hypot)
less = _binary("less", c.less)
less_equal = _binary("less_equal", c.less_equal)
logaddexp = _binary("logaddexp", u.logaddexp)
logical_and = _binary("logical_and", u.UFUNCS[np.logical_and])
logical_or = _binary("logical_or", u.UFUNCS[np.logical_or])
logical_xor = _binary("logical_xor", u.UFUNCS[np.logical_xor])
maximum = _binary("maximum", s.maximum)
minimum = _binary("minimum", s.minimum)
multiply = _binary("multiply", e.multiply)
nextafter = _binary("nextafter", next_number)
not_equal = _binary("not_equal", c.not_equal)
pow = _binary("pow", e.pow)
remainder = _binary("remainder", s.mod)
subtract = _binary("subtract", e.subtract)
