"""Going back through updates: a loop that replaces elements of an array saves the elements, not the array at every iteration.

The backward pass of `x[i] = v` in a loop may need x as it was before, iteration by iteration. It starts from x as it is after
the loop and puts back what each iteration replaced: one element saved and one written where the whole array would be. Only
for arrays that an iteration changes element by element and nothing else; short ones are saved as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gradtape.ad.reverse import Split, had_again
from gradtape.ad.tracing import replay
from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.slots import Slot
from gradtape.ir.types import TensorSpec
from gradtape.ops.dispatch import apply
from gradtape.ops.dynamic import GETITEM_AT, UPDATE_AT
from gradtape.ops.index import UPDATE

SHORT = 32  # elements up to which an array is saved whole


@dataclass(frozen=True)
class Undo:
    """One carried array: the updates of an iteration, in order, and which saved values are versions of it."""

    carried: int
    links: list[Operation]
    versions: dict[int, int]  # position among the values saved before → number of updates done by then


@dataclass(frozen=True)
class Undoing:
    """What a backward loop does to have the versions that are no longer saved."""

    undos: list[Undo]
    kept: list[int]  # positions of the values that are saved as before
    places: Block  # gives the places of all updates, from what is saved of them and the index of the iteration
    has_index: bool

    def carried(self) -> list[int]:
        """The carried values whose last version the backward loop starts from."""
        return [undo.carried for undo in self.undos]

    def versions(self, saved: Sequence[Any], index: Any, after: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """All values that were saved before, and the arrays as they are at the start of the iteration."""
        count = len(self.kept) + sum(len(undo.versions) for undo in self.undos)
        found: list[Any] = [None] * count
        for position, value in zip(self.kept, saved, strict=False):
            found[position] = value
        rest = list(saved[len(self.kept) :])
        replaced = [rest.pop(0) for undo in self.undos for _ in undo.links]
        places = replay(self.places, [*rest, *([index] if self.has_index else [])])
        starts = []
        for undo, array in zip(self.undos, after, strict=True):
            versions = [array]
            steps = []
            for link in undo.links:
                taken = len(link.operands) - 2
                steps.append((replaced.pop(0), [places.pop(0) for _ in range(taken)], link.attrs["key"]))
            for element, indices, key in reversed(steps):
                array = apply(UPDATE_AT, array, element, *indices, key=key)
                versions.append(array)
            versions.reverse()
            for position, done in undo.versions.items():
                found[position] = versions[done]
            starts.append(array)
        return found, starts


def undoing(half: Split, carried: int) -> tuple[Split, Undoing | None]:
    """The halves of a loop's body with elements saved in the place of arrays, if there are such arrays."""
    forward = half.forward
    outputs, saved = forward.result_group("outputs"), forward.result_group("saved")
    undos = []
    for j in range(carried):
        links = _links(forward, j, outputs[j])
        chain = [link.operands[0] for link in links] + [outputs[j]]
        versions = {k: chain.index(value) for k, value in enumerate(saved) if links and value in chain}
        if versions and not _short(outputs[j].type):
            undos.append(Undo(j, links, versions))
    if not undos:
        return half, None
    gone = {k for undo in undos for k in undo.versions}
    kept = [k for k in range(len(saved)) if k not in gone]
    replaced = [_before(forward, link) for undo in undos for link in undo.links]
    indices = [value for undo in undos for link in undo.links for value in link.operands[2:]]
    places, keep, has_index = had_again(forward, indices, 0)
    now = [*(saved[k] for k in kept), *replaced, *keep]
    forward.give(outputs=outputs, saved=now)
    return replace(half, saved=[value.type for value in now]), Undoing(undos, kept, places, has_index)


def _links(block: Block, j: int, value: Value) -> list[Operation]:
    """The updates of single elements that lead from carried value j to what becomes of it; none if there is anything else."""
    found = []
    start = block.params[1 + j]
    while value is not start:
        made = value.producer
        if made is None or made.op not in (UPDATE, UPDATE_AT) or not _is_element(made):
            return []
        found.append(made)
        value = made.operands[0]
    return found[::-1]


def _is_element(update: Operation) -> bool:
    """Whether an update replaces one element."""
    x, _, *indices = update.operands
    key = update.attrs["key"]
    if not isinstance(x.type, TensorSpec) or len(key) != len(x.type.shape):
        return False
    return all(part.__class__ is int or (isinstance(part, Slot) and not len(indices[part.index].type.shape)) for part in key)


def _short(type: Any) -> bool:
    size = 1
    for n in type.shape:
        if not isinstance(n, int):
            return False
        size *= n
    return size <= SHORT


def _before(block: Block, update: Operation) -> Value:
    """The element that an update replaces, read before it."""
    x, _, *indices = update.operands
    attrs = {"key": update.attrs["key"], "size": None}
    read = Operation(GETITEM_AT, [x, *indices], [TensorSpec((), x.type.dtype)], attrs, loc=update.loc)
    block.operations.insert(block.operations.index(update), read)
    return read.result
