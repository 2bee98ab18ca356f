"""`copy` and `dataclasses` in converted code: the parts of an object from outside are read one by one, as converted code reads.

Python's own copies look into objects by themselves: what they found would be a constant of the trace. Objects whose class says
how they are copied are left to it.
"""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

from gradtape.core.tensor import Readable, Tensor
from gradtape.functions.autograph.reading import attr, taken
from gradtape.functions.outside_containers import pairs
from gradtape.functions.staging.staged_values import staged_items
from gradtape.trace.effects import KEYS, LENGTH, active

_SAYING_HOW = ("__copy__", "__deepcopy__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__new__")


def _is_plain_object(value: Any) -> bool:
    """Whether an object is copied by copying its attributes."""
    kind: Any = type(value)
    if isinstance(value, (type, Tensor, Readable)) or not hasattr(value, "__dict__") or hasattr(kind, "__slots__"):
        return False
    return all(getattr(kind, name, None) is getattr(object, name, None) for name in _SAYING_HOW)


def _copy(value: Any) -> Any:
    if not _is_plain_object(value):
        return copy.copy(taken(value))
    twin = object.__new__(type(value))
    for name in vars(value):
        vars(twin)[name] = attr(value, name)
    return twin


def _deepcopy(value: Any, memo: Any = None) -> Any:
    memo = {} if memo is None else memo
    if id(value) in memo:
        return memo[id(value)]
    tracer, kind = active(), value.__class__
    if kind is list and staged_items(value) is None:
        items = memo[id(value)] = []
        items += [_deepcopy(tracer.item(value, i, item), memo) for i, item in pairs(value)]
        tracer.item(value, LENGTH, len(value))
        return items
    if kind is dict:
        entries: dict[Any, Any] = {}
        memo[id(value)] = entries
        entries |= {key: _deepcopy(tracer.item(value, key, item), memo) for key, item in pairs(value)}
        tracer.item(value, KEYS, tuple(value))
        return entries
    if kind is tuple:
        return tuple([_deepcopy(tracer.item(value, i, item), memo) for i, item in pairs(value)])
    if isinstance(value, Tensor) and value.wraps:
        return value.__copy__()
    if not _is_plain_object(value):
        return copy.deepcopy(value, memo)
    twin = memo[id(value)] = object.__new__(kind)
    for name in vars(value):
        vars(twin)[name] = _deepcopy(attr(value, name), memo)
    return twin


def _with_fields(function: Any) -> Any:
    """A function of `dataclasses` that reads the fields of what it is given."""

    def overload(value: Any, /, *args: Any, **kwargs: Any) -> Any:
        return function(_copy(value) if _is_plain_object(value) else value, *args, **kwargs)

    return overload


COPIES: dict[Any, Any] = {
    copy.copy: _copy, copy.deepcopy: _deepcopy,
    **{f: _with_fields(f) for f in (dataclasses.asdict, dataclasses.astuple, dataclasses.replace)},
}  # fmt: skip
