"""Places in attributes that are filled with operands when an operation runs: `x[i, 2:n]` is a key with two slots.

A template is an attribute: a tuple of static parts and slots. What a filled template means is the business of the op that
has it (an index in `ops/dynamic.py`, a text in `ops/staged.py`). Slots compare by number, so templates compare by value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Slot:
    """Operand number `index` of those the template belongs to."""

    index: int

    def __repr__(self) -> str:
        return f"Slot({self.index})"


@dataclass(frozen=True, slots=True)
class Field:
    """A slot in a text, as in an f-string: `{t!r:>10}`.

    `conversion` is "", "r", "s" or "a" as there, or "number": the value as the Python number or list it stands for.
    """

    slot: Slot
    conversion: str = ""
    spec: str = ""

    def __repr__(self) -> str:
        return f"Field({self.slot!r}, {self.conversion!r}, {self.spec!r})"


_FIRST = tuple([Slot(i) for i in range(64)])  # NumPy's arrays have no more axes


def slots(count: int) -> tuple[Slot, ...]:
    """The template that is nothing but the first operands."""
    return _FIRST[:count]


def filled(part: Any, values: Sequence[Any]) -> Any:
    """A part of a template with its slots replaced, inside slices and tuples too."""
    kind = part.__class__
    if kind is Slot:
        return values[part.index]
    if kind is slice:
        return slice(filled(part.start, values), filled(part.stop, values), filled(part.step, values))
    if kind is tuple:
        return tuple([values[p.index] if p.__class__ is Slot else filled(p, values) for p in part])
    return part


def slots_in(part: Any) -> list[Slot]:
    """All slots of a template, in order."""
    kind = part.__class__
    if kind is Slot:
        return [part]
    if kind is Field:
        return [part.slot]
    if kind is slice:
        return [s for p in (part.start, part.stop, part.step) for s in slots_in(p)]
    return [s for p in part for s in slots_in(p)] if kind is tuple else []
