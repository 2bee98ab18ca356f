"""Hashable stand-ins for Python values: what decides whether two values are the same to a traced function.

Numbers, text and dtypes by type and value (1, 1.0 and True are three values; so are 0.0 and -0.0; NaN equals itself);
functions, classes, modules and other objects by identity, held weakly where Python allows it. A token never keeps a
weakly referable object alive, and equals another only while its object lives. Tensors are not this file's business.
"""

from __future__ import annotations

import weakref
from array import array
from collections import deque
from collections.abc import Callable
from types import MethodType, ModuleType
from typing import Any

import numpy as np

from gradtape.dtypes import DType
from gradtape.tree import LeafTuple


class ObjectIdentity:
    """One object, by identity. Dead objects equal nothing, so a reused address is no match."""

    __slots__ = ("_hash", "_ref", "weak")

    def __init__(self, target: Any) -> None:
        self._hash = id(target)
        try:
            self._ref: Callable[[], Any] = weakref.ref(target)
            self.weak = True
        except TypeError:
            # objects that cannot be held weakly (lists, numbers of NumPy) are kept alive, so that their address is theirs
            self._ref = lambda: target
            self.weak = False

    @property
    def target(self) -> Any:
        return self._ref()

    @property
    def dead(self) -> bool:
        return self.weak and self._ref() is None

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not ObjectIdentity:
            return False
        target = self._ref()
        # two dead objects at one address are not one; None itself is held strongly
        return target is other._ref() and (target is not None or not self.weak)

    def __repr__(self) -> str:
        return f"<identity of {self._ref()!r}>"


def _float(value: float) -> Any:
    # by bits: 0.0 and -0.0 are different programs, and NaN equals itself
    return float, value.hex()


def _complex(value: complex) -> Any:
    return complex, value.real.hex(), value.imag.hex()


def _method(value: Any) -> Any:
    return value.__class__, ObjectIdentity(value.__self__), ObjectIdentity(value.__func__)


def _by_value(value: Any) -> Any:
    return value.__class__, value


def _set(value: Any) -> Any:
    return value.__class__, frozenset(token(item) for item in value)


# exact classes only: a subclass may carry more than its value
_TOKENS: dict[type, Callable[[Any], Any]] = {
    int: _by_value, bool: _by_value, str: _by_value, bytes: _by_value, type(None): _by_value, range: _by_value,
    float: _float, complex: _complex, MethodType: _method, DType: lambda v: (DType, v.name),
    set: _set, frozenset: _set, bytearray: lambda v: (bytearray, bytes(v)), array: lambda v: (array, v.typecode, bytes(v)),
    slice: lambda v: (slice, token(v.start), token(v.stop), token(v.step)),
}  # fmt: skip
BOUND: set[type] = {MethodType}  # kinds of bound methods: made at each access, so they count by their object and function


def add_bound(kind: type) -> None:
    """Another kind of bound method, with `__self__` and `__func__`."""
    BOUND.add(kind)
    _TOKENS[kind] = _method


SCALARS = (int, bool, str, bytes, type(None), float, complex)


def token(value: Any) -> Any:
    """The stand-in of one value that is not a container.

    >>> token(1) == token(True), token(0.0) == token(-0.0), token(float("nan")) == token(float("nan"))
    (False, False, True)
    """
    make = _TOKENS.get(value.__class__)
    if make is not None:
        return make(value)
    if isinstance(value, np.dtype):
        return np.dtype, value
    # (the bytes of an object array are addresses)
    if isinstance(value, np.generic) and value.dtype != object:
        return value.__class__, value.tobytes()
    if isinstance(value, LeafTuple):  # a shape
        return value.__class__, tuple([token(item) for item in value])
    return ObjectIdentity(value)


def frozen(value: Any, limit: int = 64) -> Any:
    """The stand-in of a value with everything in its lists, tuples and dicts; None when there are more than `limit` leaves.

    >>> frozen([1, (2.0, "a")]) == frozen([1, (2.0, "a")]), frozen([1]) == frozen([True]), frozen([0] * 100)
    (True, False, None)
    """
    try:
        return _Freezer(limit).freeze(value)
    except _TooMuchError:
        return None


class _TooMuchError(Exception):
    """The container holds more than is worth comparing at each call."""


class _Freezer:
    def __init__(self, limit: int) -> None:
        self.left = limit
        self.open: set[int] = set()

    def freeze(self, value: Any) -> Any:
        kind = value.__class__
        if isinstance(value, (list, dict, tuple, deque)) and not isinstance(value, LeafTuple):
            if id(value) in self.open:
                raise _TooMuchError  # it contains itself
            self.open.add(id(value))
            items = [part for pair in value.items() for part in pair] if isinstance(value, dict) else value
            frozen_items = (kind, *[self.freeze(item) for item in items])
            self.open.discard(id(value))
            return frozen_items
        # comparing a large container at each call would cost more than the call
        self.left -= 1
        if self.left < 0:
            raise _TooMuchError
        return token(value)


def identities(stand_in: Any) -> list[ObjectIdentity]:
    """The objects a token (or a tuple of tokens) stands for by identity."""
    if stand_in.__class__ is ObjectIdentity:
        return [stand_in]
    if isinstance(stand_in, (tuple, frozenset)):
        return [identity for part in stand_in for identity in identities(part)]
    return []


def shown(value: Any) -> str:
    """A value in a message: short, and for objects their kind and name instead of an address."""
    if value.__class__ in SCALARS:
        text = repr(value)
        return text if len(text) <= 40 else f"{text[:20]}...{text[-15:]}"
    if isinstance(value, ModuleType):
        return f"module {value.__name__}"
    name = getattr(value, "__qualname__", None)
    if isinstance(name, str):
        return name
    if isinstance(value, (DType, range, LeafTuple, np.dtype)) or (isinstance(value, np.generic) and value.dtype != object):
        return repr(value)
    if isinstance(value, (list, tuple, dict, set, frozenset)):
        text = repr(value)
        return text if len(text) <= 40 and " at 0x" not in text else f"a {type(value).__name__} of {len(value)}"
    label = getattr(value, "name", None)
    return f"{type(value).__name__} '{label}'" if isinstance(label, str) else f"a {type(value).__name__} object"
