"""NumPy's functions, called by converted code with tensors where NumPy does not ask them: inside lists, and to fill arrays.
And SciPy's functions that are written in Python, which convert their arguments: where `gt.scipy` has them, that is called.

NumPy asks its arguments what a function means for them, but not the items of a list: `np.array([a, b])`, `np.sum([a, b])`,
`np.full(3, a)` and `np.r_[a, b]` make arrays, which a value of the program cannot be in. Here such lists become tensors first,
of the dtype that NumPy gives them. One tensor alone is left to NumPy, which does not get its value: `np.array(a)` leaves tapes.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from types import BuiltinFunctionType
from typing import Any

import numpy as np

from gradtape.core.dispatch import convert
from gradtape.core.hooks import HOOKS
from gradtape.core.tensor import Readable, Tensor
from gradtape.functions.staging.staged_values import Maybe, staged_items
from gradtape.ops.create import constant
from gradtape.trace.tracing import TracedList

_MAKERS = frozenset({np.array, np.asarray, np.asanyarray, np.ascontiguousarray, np.asfortranarray})
_OF_SHAPE: frozenset[Any] = frozenset(
    {np.zeros, np.ones, np.empty, np.full}
)  # whose shape, too, may be known only when the program runs
_DISPATCHED = type(np.sum)
_JOINERS = (np.r_, np.c_)


class ListArgument(list[Any]):
    """A list with tensors in it, as an argument: where NumPy asks it, it is one tensor."""

    def __array_function__(self, function: Any, types: Iterable[type], args: Any, kwargs: Any) -> Any:
        # Which lists are arrays and which only hold some is NumPy's to know: it asks `self`, so those at its level are arrays.
        deep = not any(value is self for value in (*args, *kwargs.values()))
        # Where a tensor stands beside the list, NumPy asks it in eager code too, and its rule takes the list as it is.
        asked = any(issubclass(kind, (Tensor, Readable)) for kind in types)

        def opened(value: Any) -> Any:
            if not isinstance(value, ListArgument) or asked:
                return _plain(value) if isinstance(value, ListArgument) else value
            return [_tensor(v) if isinstance(v, ListArgument) else v for v in value] if deep else _tensor(value)

        return function(*map(opened, args), **{name: opened(value) for name, value in kwargs.items()})


def numpy_call(callee: Any) -> Any:
    """What to call instead of a function of NumPy; itself if that makes no difference."""
    if callee in _OF_SHAPE:
        return partial(_filled, callee)
    if callee.__class__ is _DISPATCHED:
        return partial(_asked, callee)
    if isinstance(callee, np.ufunc):
        return partial(_elementwise, callee)
    if isinstance(callee, BuiltinFunctionType):
        if callee in _MAKERS:
            return partial(_made, callee)
        if isinstance(callee.__self__, np.ufunc):  # np.add.reduce
            return partial(_elementwise, callee)
    return callee


def scipy_call(callee: Any) -> Any:
    """What to call instead of a function or method of SciPy that is written in Python."""
    return partial(_on_tensors, callee)


def _on_tensors(callee: Any, *args: Any, **kwargs: Any) -> Any:
    traced = _traced((*args, *kwargs.values())) is not None
    rule = HOOKS.scipy_rule(callee, args[0] if args else None) if traced else None
    return (rule or callee)(*args, **kwargs)


def joined(joiner: Any, key: Any) -> Any:
    """`np.r_[key]` or `np.c_[key]` with tensors of the program in it; None for anything else."""
    parts = key if isinstance(key, tuple) else (key,)
    if not any(joiner is known for known in _JOINERS) or _traced(parts) is None:
        return None
    if any(isinstance(part, str) for part in parts):
        raise TypeError("np.r_ and np.c_ with directions in a string take no tensors; use np.concatenate or np.stack")
    arrays = [np.arange(part.start or 0, part.stop, part.step) if isinstance(part, slice) else part for part in parts]
    arrays = [_tensor(part) if isinstance(part, (list, tuple)) else part for part in arrays]
    # a number takes the dtype of the arrays beside it
    dtype = np.result_type(*(part if isinstance(part, (bool, int, float, complex)) else _dtype(part) for part in arrays))
    pieces = [part.astype(dtype) if np.ndim(part) else _tensor([part], dtype, parts) for part in arrays]
    if joiner is np.r_:
        return np.concatenate(pieces)
    return np.concatenate([np.reshape(piece, (-1, 1)) if np.ndim(piece) == 1 else piece for piece in pieces], axis=-1)


def _traced(values: Iterable[Any]) -> Any:
    """Some tensor of the program, or variable, among values or in lists of them."""
    for value in values:
        if isinstance(value, Readable) or (isinstance(value, Tensor) and value.wraps):
            return value
        if (items := staged_items(value)) is not None:
            return items.items
        if isinstance(value, (list, tuple)) and (inside := _traced(value)) is not None:
            return inside
    return None


def _operand(value: Any) -> Any:
    if value.__class__ not in (list, tuple) or _traced([value]) is None:
        return value
    return convert(value) if staged_items(value) is not None else ListArgument(map(_operand, value))


def _asked(callee: Any, *args: Any, **kwargs: Any) -> Any:
    return callee(*map(_operand, args), **{name: _operand(value) for name, value in kwargs.items()})


def _elementwise(callee: Any, *args: Any, **kwargs: Any) -> Any:
    return callee(*(_tensor(v) if v.__class__ in (list, tuple) and _traced([v]) is not None else v for v in args), **kwargs)


def _made(callee: Any, *args: Any, **kwargs: Any) -> Any:
    given = args[0] if args else kwargs.get("a", kwargs.get("object"))
    if given.__class__ not in (list, tuple) or (inside := _traced([given])) is None:
        return callee(*args, **kwargs)
    rest = {name: value for name, value in kwargs.items() if name not in ("a", "object")}
    return callee(_plain(given), *args[1:], **{"like": _asking(inside), **rest})


def _filled(callee: Any, *args: Any, **kwargs: Any) -> Any:
    # the shape, or what fills it; a dtype is no part of the program
    inside = _traced([*args, *kwargs.values()])
    if inside is None:
        return callee(*args, **kwargs)
    like = _asking(kwargs.pop("like", inside))  # asked without NumPy, which wants to know a shape before it asks
    return like.__array_function__(callee, (type(like),), args, kwargs)


def _tensor(values: Any, dtype: Any = None, among: Any = None) -> Any:
    return np.array(_plain(values), dtype, like=_asking(_traced([values if among is None else among])))


def _plain(values: Any) -> Any:
    """Lists as NumPy's functions on tensors take them: one that a loop filled is a tensor already."""
    if staged_items(values) is not None:
        return convert(values)
    return [_plain(value) for value in values] if isinstance(values, (list, tuple)) else values


def _asking(inside: Any) -> Any:
    """Whom NumPy shall ask: any tensor."""
    return constant(0.0) if isinstance(inside, (TracedList, Maybe)) else inside


def _dtype(value: Any) -> np.dtype[Any]:
    return convert(value).dtype.dtype if isinstance(value, (Tensor, Readable)) else np.asarray(value).dtype
