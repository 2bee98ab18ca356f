"""The code that takes the arguments of one signature apart: written once, so that later calls walk no structure.

`ArgumentReader` turns a call that was served (`signature.Call`) into lines of Python which bind the tensors of another call to
names, or give `MISS` where that call is not of the same signature. Invariant: what passes has the same `BoundCall.key` but for
shapes and dtypes, which machine code compares itself; what has no short test (`NotReadableError`) is left to `BoundCall`.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradtape.core.dispatch import convert
from gradtape.core.tensor import Tensor
from gradtape.dtypes import DType
from gradtape.functions.signature import Binder, BoundCall
from gradtape.functions.tokens import ObjectIdentity, token
from gradtape.tree import LeafTuple

MISS: Any = object()
SPACE = {
    "_gt_miss": MISS,
    "_gt_Tensor": Tensor,
    "_gt_array": np.ndarray,
    "_gt_convert": convert,
    "_gt_len": len,
    "_gt_id": id,
    "_gt_tuple": tuple,
    "_gt_list": list,
    "_gt_dict": dict,
    "_gt_int": int,
    "_gt_float": float,
    "_gt_str": str,
    "_gt_bytes": bytes,
}  # fmt: skip  (the names of a function's parameters may be those of builtins)


class NotReadableError(Exception):
    """An argument has no short test."""


class ArgumentReader:
    """Lines for the body of a function with the parameters of `binder`. After them the names in `tensors` have the tensors, in
    the order of `BoundCall.tensors`, and those in `containers` the lists and dicts; `space` has what the lines refer to."""

    def __init__(self, call: BoundCall, binder: Binder) -> None:
        self.lines: list[str] = []
        self.space: dict[str, Any] = dict(SPACE)
        self.tensors: list[str] = []
        self.containers: list[str] = []
        self._first: dict[int, str] = {}  # tensors and containers by identity: the name that holds them
        names = list(binder.positional)
        if binder.rest is not None:
            rest = call.args[len(names) :]
            names += self._spread(binder.rest, rest)
        for name, value in zip(names, call.args, strict=True):
            self._read(name, value)
        given = dict(call.kwargs)
        for parameter in binder.parameters:
            if parameter.kind is parameter.KEYWORD_ONLY:
                self._read(parameter.name, given.pop(parameter.name))
            elif parameter.kind is parameter.VAR_KEYWORD:
                self._items(parameter.name, given)
        if len(self._first) == 2:
            self._require(" is not ".join(self._first.values()))
        elif len(self._first) > 2:
            ids = ", ".join([f"_gt_id({name})" for name in self._first.values()])
            self._require(f"_gt_len({{{ids}}}) == {len(self._first)}")

    def _require(self, condition: str) -> None:
        self.lines.append(f"if not ({condition}): return _gt_miss")

    def _names(self, count: int) -> list[str]:
        """New names of local variables."""
        self.space["_gt_count"] = before = self.space.get("_gt_count", 0) + count
        return [f"_gt_{before - i}" for i in range(count)]

    def _constant(self, value: Any) -> str:
        name = f"_gt_c{len(self.space)}"
        self.space[name] = value
        return name

    def _spread(self, name: str, values: Sequence[Any], items: str = "") -> list[str]:
        """The items of a sequence of this length."""
        self._require(f"_gt_len({name}) == {len(values)}")
        names = self._names(len(values))
        if names:
            self.lines.append(f"{', '.join(names)}, = {name}{items}")
        return names

    def _items(self, name: str, values: dict[str, Any]) -> None:
        """The values of a dict with these keys, in this order."""
        if not all(key.__class__ is str for key in values):
            raise NotReadableError
        for key, expected in zip(self._spread(name, list(values)), values, strict=True):
            constant = self._constant(expected)
            self._require(f"{key} is {constant} or {key}.__class__ is _gt_str and {key} == {constant}")
        for item, value in zip(self._spread(name, list(values), ".values()"), values.values(), strict=True):
            self._read(item, value)

    def _read(self, name: str, value: Any) -> None:
        kind: Any = value.__class__
        if kind is Tensor or kind is np.ndarray or kind is list or kind is dict:
            known = self._first.get(id(value))
            if known is not None:
                self._require(f"{name} is {known}")
                return
            self._first[id(value)] = name
        if kind is Tensor or kind is np.ndarray:
            self._tensor(name, value._data.dtype if kind is Tensor else value.dtype)
        elif kind is dict:
            self.containers.append(name)
            self._require(f"{name}.__class__ is _gt_dict")
            self._items(name, value)
        elif kind is list or kind is tuple or _is_named_tuple(kind):
            if kind is list:
                self.containers.append(name)
            self._require(f"{name}.__class__ is {self._constant(kind)}")
            for item, child in zip(self._spread(name, value), value, strict=True):
                self._read(item, child)
        else:
            self._require(self._equality(name, value))

    def _tensor(self, name: str, dtype: np.dtype[Any]) -> None:
        """A tensor, or an array of numbers: both have the same key."""
        if dtype.kind not in "biufc":
            raise NotReadableError
        (tensor,) = self._names(1)
        self.lines += [
            f"if {name}.__class__ is _gt_Tensor: {tensor} = {name}",
            f"elif {name}.__class__ is _gt_array and {name}.dtype == {self._constant(dtype)}: {tensor} = _gt_convert({name})",
            "else: return _gt_miss",
        ]
        self.tensors.append(tensor)

    def _equality(self, name: str, value: Any) -> str:
        """Whether a static argument is the same to a traced function (`tokens.token`)."""
        kind = value.__class__
        if value is None or kind is bool or kind is DType:
            return f"{name} is {self._constant(value)}"
        if kind in (int, str, bytes):
            return f"{name}.__class__ is _gt_{kind.__name__} and {name} == {self._constant(value)}"
        if kind is float:  # by bits: 0.0 is not -0.0, and NaN is NaN
            return f"{name}.__class__ is _gt_float and {name}.hex() == {value.hex()!r}"
        stand_in = token(value)
        if stand_in.__class__ is not ObjectIdentity:
            raise NotReadableError
        if stand_in.weak:
            return f"{name} is {self._constant(weakref.ref(value))}()"
        return f"{name} is {self._constant(value)}"


def _is_named_tuple(kind: type) -> bool:
    return (
        issubclass(kind, tuple) and not issubclass(kind, LeafTuple)
        and getattr(kind, "_fields", None) is not None and kind.__iter__ is tuple.__iter__
    )  # fmt: skip
