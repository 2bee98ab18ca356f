"""What a loop learned about its state, kept for when the loop around it is traced again.

A loop is traced until its phis fit, at least twice; a loop inside it would be, too, in each of these traces, and loops inside
that again: 2^depth traces. But from one trace of a body to the next what is known of its values only becomes less, so the phis
that an inner loop needed last time it needs again: it starts with them, and is traced once. They are a guess: a loop that does
not change a piece of state that was guessed to change begins anew without guesses. Invariant: the phis in the end are those
that the loop finds without a memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import CodeType
from typing import Any, NamedTuple

from gradtape.functions.staging.bodies import reached
from gradtape.functions.staging.joins import (
    ListPhi,
    MaybePhi,
    Phi,
    TensorPhi,
    is_missing,
    is_tensor_like,
    is_weak,
    spec_of,
    tensors_in,
)
from gradtape.functions.staging.places import Place
from gradtape.functions.staging.staged_values import Maybe, staged_items
from gradtape.ir.dims import symbols_in


class Guess(NamedTuple):
    """A phi to begin with, if there is one; `place` is where it is carried, None for a name."""

    place: Place | None
    phi: Phi | None


class Remembered(NamedTuple):
    """The class of what a piece of state was before the loop, and the phi it got."""

    before: Any
    phi: Phi | None

    def fits(self, start: Any) -> bool:
        """Whether the phi can be guessed for what is `start` before the loop now."""
        if self.phi is None or class_of(start) != self.before or not all(map(reached, tensors_in(start))):
            return False
        items = staged_items(start)
        return items is None or not isinstance(self.phi, ListPhi) or items.items.spec == self.phi.spec


class RememberedLoop:
    """The phis of a loop when it was last staged, and what the loops inside it remember; none of the user's objects."""

    def __init__(self) -> None:
        self.inner = LoopMemory()
        self.around: Mapping[Any, Place] = {}  # places that the loop around it is known to write; it holds their objects
        self._names: list[Remembered] = []
        self._places: dict[Any, Remembered] = {}  # by key

    def keep(self, names: Sequence[tuple[Any, Phi]], places: Sequence[tuple[Place, Any, Phi]]) -> None:
        """The loop is staged with these phis: each name and place with what it was before the loop."""
        self._names = [_remembered(start, phi) for start, phi in names]
        self._places = {place.key: _remembered(start, phi) for place, start, phi in places}

    def guesses(self, starts: Sequence[Any]) -> list[Guess]:
        """Phis for the names, which are `starts` before the loop, and for places; none if a name was something else then."""
        if [class_of(start) for start in starts] != [known.before for known in self._names]:
            return []
        names = [known.phi if known.fits(start) else None for start, known in zip(starts, self._names, strict=True)]
        places = [(self.around[key], known) for key, known in self._places.items() if key in self.around]
        fitting = [Guess(place, known.phi) for place, known in places if known.fits(place.taken())]
        return [*(Guess(None, phi) for phi in names), *fitting]


class LoopMemory:
    """The loops inside one that is being traced: by their code, and how many with that code came before it in this trace."""

    def __init__(self) -> None:
        self._loops: dict[tuple[CodeType, int], RememberedLoop] = {}
        self._met: Counter[CodeType] = Counter()
        self._places: Mapping[Any, Place] = {}

    def begin(self, places: Mapping[Any, Place]) -> None:
        """The body is traced once more, from its first loop on; it is known to write these places."""
        self._met.clear()
        self._places = places

    def loop(self, code: CodeType) -> RememberedLoop:
        """The memory of the loop that comes now."""
        self._met[code] += 1
        memory = self._loops.setdefault((code, self._met[code]), RememberedLoop())
        memory.around = self._places
        return memory


def _remembered(start: Any, phi: Phi) -> Remembered:
    return Remembered(class_of(start), phi if _says_the_same_elsewhere(phi, start) else None)


def _says_the_same_elsewhere(phi: Phi, start: Any) -> bool:
    """Whether a phi can be one of another trace, too: sizes that only this trace knows have other names there."""
    if isinstance(phi, MaybePhi):
        return isinstance(phi.inner, TensorPhi) and not symbols_in(phi.types())
    if isinstance(phi, TensorPhi):
        return symbols_in(phi.spec) <= symbols_in(spec_of(start))
    return isinstance(phi, ListPhi) and not symbols_in(phi.spec)


def class_of(value: Any) -> Any:
    """What of a value stays when less is known of it: a number or list may become one of the program, what is missing may be
    there."""
    if is_missing(value) or isinstance(value, Maybe):
        return Maybe
    if is_tensor_like(value):
        return is_weak(value), spec_of(value)
    return type(value)
