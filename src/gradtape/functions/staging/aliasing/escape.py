"""Escape analysis: is an object reachable from outside a known set of references, or only through them?

Answered by counting: every reference that starts at the given roots, or at a container reached from them, is known; whatever
CPython counts beyond that is somebody else's (a name of the user's, an attribute, a closure). An object inside a container
that somebody else holds is held by somebody else. A reference nobody told about makes the answer "held", never "not held".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from sys import getrefcount
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from gradtape.functions.staging.staged_values import Maybe, StagedItems

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type, ModuleType, FunctionType, BuiltinFunctionType, MethodType)
_LIST = [object()]
_HELD_ONCE = getrefcount(_LIST[0])  # what the count is for an object in one list


class Held:
    """A record of staging's own: its attributes are known references, and nobody else has it."""


class Escape:
    """References from known places, counted. `besides` says how many more references to an object are known; the attributes
    of objects in `opened` are looked at like the items of containers."""

    def __init__(self, besides: Callable[[Any], int], opened: Iterable[Any] = ()) -> None:
        self._besides = besides
        self._opened = {id(value) for value in opened}
        self._met: dict[int, list[Any]] = {}  # id → [the object, references known, ids of what it holds]
        self._escaping: set[int] = set()

    def reference(self, value: Any) -> None:
        """One more known reference to a value; what it holds is looked at the first time."""
        if isinstance(value, _PLAIN):
            return
        met = self._met.get(id(value))
        if met is not None:
            met[1] += 1
            return
        self._met[id(value)] = met = [value, 1, ()]
        children = self._children(value)
        met[2] = [id(child) for child in children]
        self.references(children)

    def references(self, values: Iterable[Any]) -> None:
        """One more known reference to each."""
        for value in values:
            self.reference(value)

    def _children(self, value: Any) -> Iterable[Any]:
        if isinstance(value, Mapping):
            return value.values()
        if isinstance(value, (list, tuple)):
            return value
        if isinstance(value, Maybe):
            return (value.flag, value.value)
        if isinstance(value, StagedItems):
            return (value.items,)
        opened = isinstance(value, Held) or (id(value) in self._opened and hasattr(value, "__dict__"))
        return vars(value).values() if opened else ()

    def count(self) -> Escape:
        """Compare with what CPython counts; `escapes` can be asked from now on."""
        # known references + those of the trace (`besides`) = all that CPython counts, or somebody else holds the object. An
        # unknown reference only makes the answer "escapes", which costs a phi; a reference counted twice would lose a write.
        pending = []
        for key, met in self._met.items():
            unknown = getrefcount(met[0]) - _HELD_ONCE - met[1]
            if unknown > 0 and not isinstance(met[0], Held) and unknown > self._besides(met[0]):
                pending.append(key)
        while pending:  # what an escaping container holds escapes with it
            key = pending.pop()
            if key not in self._escaping:
                self._escaping.add(key)
                pending += [child for child in self._met[key][2] if child in self._met]
        return self

    def escapes(self, value: Any) -> bool:
        """Whether somebody else holds a value (one that no root led to is somebody else's)."""
        return id(value) in self._escaping or id(value) not in self._met
