"""Flags of the program that are computed only if somebody needs them.

A flag is a bool, a scalar of the program, or a `Condition` on flags. Making a `Condition` puts nothing into the program;
`emitted` does, once per place where the result can be used again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any

from gradtape.functions.staging.joins import FLAG, TensorPhi
from gradtape.ops.compare import equal, logical_and, logical_not, logical_or
from gradtape.trace.tracing import TracedTensor, current_trace


class Condition:
    """A flag not computed yet: `and`, `or`, `not` of flags, `one slot` of two indices, or `unknown`: nobody can say."""

    __slots__ = ("kind", "known", "parts")

    def __init__(self, kind: str, *parts: Any) -> None:
        self.kind = kind
        self.parts = parts
        self.known: Any = None  # where it was computed last


Flag = Any  # a bool, a scalar of the program, or a Condition


def both(a: Flag, b: Flag) -> Flag:
    """`a and b`."""
    if a is False or b is False:
        return False
    return b if a is True or _implies(b, a) else a if b is True or _implies(a, b) else Condition("and", a, b)


def either(a: Flag, b: Flag) -> Flag:
    """`a or b`."""
    if a is True or b is True:
        return True
    return b if a is False or _implies(a, b) else a if b is False or _implies(b, a) else Condition("or", a, b)


def _implies(a: Flag, b: Flag) -> bool:
    """Whether b surely holds where a does. Objects share roots by several ways, most of which say the same: without this, each
    would be computed."""
    return alike(a, b) or (isinstance(a, Condition) and a.kind == "and" and any(_implies(part, b) for part in a.parts))


def any_of(flags: Iterable[Flag]) -> Flag:
    """Whether one of them holds."""
    return reduce(either, flags, False)


def opposite(a: Flag) -> Flag:
    """`not a`."""
    if isinstance(a, bool):
        return not a
    return a.parts[0] if isinstance(a, Condition) and a.kind == "not" else Condition("not", a)


def one_slot(i: Any, j: Any) -> Flag:
    """Whether two indices are equal; None is the index of some item, nobody knows which."""
    if i is None or j is None:
        return Condition("unknown")
    return i == j if isinstance(i, int) and isinstance(j, int) else i is j or Condition("one slot", i, j)


_CONNECTIVES: dict[str, Any] = {"not": logical_not, "and": logical_and, "or": logical_or, "one slot": equal}


def emitted(flag: Flag) -> Any:
    """A flag as a bool or a scalar of the program, computed here unless it was already."""
    if not isinstance(flag, Condition):
        return flag
    if flag.kind == "unknown":
        return True  # only asked about objects that must not change any more
    # what was computed in a block that is closed by now has no value here
    if flag.known is None or current_trace()._home(flag.known._data) is None:
        flag.known = _CONNECTIVES[flag.kind](*map(emitted, flag.parts))
    return flag.known


def alike(a: Flag, b: Flag) -> bool:
    """Whether two flags are surely equal."""
    if isinstance(a, TracedTensor) and isinstance(b, TracedTensor):
        return a._data is b._data
    # (one level is enough: `opposite` never makes a `not` of a `not`)
    if isinstance(a, Condition) and isinstance(b, Condition) and a.kind == b.kind == "not":
        return alike(a.parts[0], b.parts[0])
    return a is b


def decided(flag: Flag, assumed: Sequence[tuple[Flag, bool]], cache: dict[int, bool | None]) -> bool | None:
    """What a flag is where others are `assumed` to be known; None if these do not decide it."""
    if isinstance(flag, bool):
        return flag
    if id(flag) not in cache:
        cache[id(flag)] = _decided(flag, assumed, cache)
    return cache[id(flag)]


def _decided(flag: Flag, assumed: Sequence[tuple[Flag, bool]], cache: dict[int, bool | None]) -> bool | None:
    for other, value in assumed:
        if alike(other, flag):
            return value
    if not isinstance(flag, Condition) or flag.kind in ("one slot", "unknown"):
        return None
    parts = [decided(part, assumed, cache) for part in flag.parts]
    if flag.kind == "not":
        return None if parts[0] is None else not parts[0]
    # `True` decides an "or" and `False` an "and", whatever the rest
    ends = flag.kind == "or"
    return ends if ends in parts else None if None in parts else not ends


class FlagPhi(TensorPhi):
    """One flag."""

    def __init__(self) -> None:
        super().__init__(FLAG, weak=False)

    def tensors(self, value: Flag) -> list[Any]:
        return super().tensors(emitted(value))
