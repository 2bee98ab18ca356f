"""Python's `math` on numbers of the program: its functions are operations in float64, the results Python's numbers again.

No derivative goes through them, as through Python's own floats. Invariant: where `math` raises, the program does. Functions
whose last bit matters (`log10`, of which one takes the floor) or that know integers of any size are called when it runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from gradtape.dtypes import int64
from gradtape.functions.staging.staged_values import require
from gradtape.ir.dims import Dim
from gradtape.ir.types import TensorSpec
from gradtape.ops import elementwise, staged
from gradtape.ops.compare import is_finite, is_inf, is_nan, logical_and, logical_not
from gradtape.ops.select import ceil, floor, where
from gradtape.ops.stop import stop_gradient
from gradtape.trace.tracing import current_trace
from gradtape.trace.weak import WeakTensor, weak

_LARGEST = math.log(2.0) * 1024  # of e^x


def _trunc(x: Any) -> Any:
    return where(x < 0.0, ceil(x), floor(x))


# where a function of one number has no value, and where it is too large; no comparison holds for a NaN, which passes
_BAD: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("sin", "cos", "tan"), is_inf), **dict.fromkeys(("asin", "acos"), lambda x: abs(x) > 1.0),
    "sqrt": lambda x: x < 0.0, "log": lambda x: x <= 0.0, "log1p": lambda x: x <= -1.0, "acosh": lambda x: x < 1.0,
    "atanh": lambda x: abs(x) >= 1.0,
}  # fmt: skip
_LARGE: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("exp", "expm1"), lambda x: logical_and(x >= _LARGEST, is_finite(x))),
    **dict.fromkeys(("sinh", "cosh"), lambda x: logical_and(abs(x) >= _LARGEST + math.log(2.0), is_finite(x))),
}
_OPERATIONS: dict[str, Callable[[Any], Any]] = {
    **{name: getattr(elementwise, name) for name in (*_BAD, *_LARGE, "atan", "tanh", "asinh")},
    "fabs": abs, "isnan": is_nan, "isinf": is_inf, "isfinite": is_finite,
}  # fmt: skip
_WHOLE: dict[str, Callable[[Any], Any]] = {"floor": floor, "ceil": ceil, "trunc": _trunc}
_INTEGERS = ("gcd", "lcm", "isqrt", "factorial", "comb", "perm")
_CALLED = (
    "log", "log2", "log10", "pow", "hypot", "fmod", "remainder", "copysign", "atan2", "erf", "erfc", "gamma", "lgamma",
    "degrees", "radians", "cbrt", "exp2", "isclose", *_INTEGERS,
)  # fmt: skip
FUNCTIONS = [getattr(math, name) for name in {**_OPERATIONS, **_WHOLE, **dict.fromkeys(_CALLED)} if hasattr(math, name)]


def call(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A function of `math`, of which an argument is a number of the program."""
    name = function.__name__
    trace = current_trace()
    numbers = [weak(trace.dim(arg)._data).recast(int64) if isinstance(arg, Dim) else arg for arg in args]
    if len(args) != 1 or kwargs or not (name in _WHOLE or name in _OPERATIONS):
        return _when_it_runs(function, numbers, kwargs)
    number = numbers[0]
    if name in _WHOLE and not number.dtype.is_floating:
        return number
    x = elementwise.cast(stop_gradient(number.strong()), "float64")
    if name in _WHOLE:
        require(logical_not(is_nan(x)), ValueError, "cannot convert float NaN to integer")
        require(is_finite(x), OverflowError, "cannot convert float infinity to integer")
        return weak(elementwise.cast(_WHOLE[name](x), "int64")._data)
    for where_not, exception, text in ((_BAD, ValueError, "math domain error"), (_LARGE, OverflowError, "math range error")):
        if name in where_not:
            require(logical_not(where_not[name](x)), exception, text)
    return weak(_OPERATIONS[name](x)._data)


def _when_it_runs(function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    places = [i for i, arg in enumerate(args) if isinstance(arg, WeakTensor)]
    kind = "int64" if function.__name__ in _INTEGERS else "bool" if function.__name__ == "isclose" else "float64"

    def run(*tensors: Any) -> Any:
        filled = list(args)
        for place, tensor in zip(places, tensors, strict=True):
            filled[place] = args[place].python_type(tensor)
        return function(*filled, **kwargs)

    attrs = {"function": run, "types": (TensorSpec((), kind),)}
    (result,) = current_trace().emit(staged.PY_CALL, [stop_gradient(args[i].strong()) for i in places], attrs)
    return weak(result._data)
