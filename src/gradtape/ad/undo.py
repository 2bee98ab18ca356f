"""Going back through updates: a loop that replaces elements of an array saves the elements, not the array at every iteration.

The backward pass of `x[i] = v` in a loop may need x, or a slice of it, as it was before, iteration by iteration. It starts from
x as it is after the loop and puts back what each iteration replaced: one element, row or column saved and written where the
whole array, or the slice, would be. Only for arrays that an iteration changes so and in no other way, and where less is saved
then; short ones are saved as they are. A loop inside an iteration is gone back through by its own backward pass, which ends
with the array as it was in front of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from math import inf, prod
from typing import Any

from gradtape.ad.replaying import replay
from gradtape.ad.reverse import Split, extract, had_again
from gradtape.core.dispatch import apply
from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.slots import Slot
from gradtape.ir.types import TensorSpec
from gradtape.ir.walk import has_effect
from gradtape.ops.dynamic import GETITEM_AT, UPDATE_AT
from gradtape.ops.index import GETITEM, UPDATE

SHORT = 32  # elements up to which an array is saved whole


@dataclass(frozen=True)
class Undo:
    """One carried array: the updates of an iteration, in order, and which saved values are versions of it."""

    carried: int
    loops: list[Value]  # in front of the updates: what loops make of the array, one after the other
    links: list[Operation]
    versions: dict[int, int]  # position among the values saved before → number of loops and updates done by then
    parts: dict[int, tuple[int, list[Operation]]]  # the same for slices (of slices) of a version, and what reads them


@dataclass(frozen=True)
class Undoing:
    """What a backward loop does to have the versions that are no longer saved."""

    undos: list[Undo]
    kept: list[int]  # positions of the values that are saved as before
    places: Block  # gives the places of all updates and slices, from what is saved of them and the index of the iteration
    has_index: bool
    reading: Block  # gives the slices, from the versions they are read from and their places

    def carried(self) -> list[int]:
        """The carried values whose last version the backward loop starts from."""
        return [undo.carried for undo in self.undos]

    def versions(self, saved: Sequence[Any], index: Any, after: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """All values that were saved before, and the arrays as they are at the start of the iteration: None of those that the
        backward pass of a loop puts back."""
        count = len(self.kept) + sum(len(undo.versions) + len(undo.parts) for undo in self.undos)
        states: list[Any] = [None] * count
        for position, value in zip(self.kept, saved, strict=False):
            states[position] = value
        # saved, in this order by `undoing`: what is kept, replaced elements, and what the places are computed from
        rest = list(saved[len(self.kept) :])
        replaced = [rest.pop(0) for undo in self.undos for _ in undo.links]
        places = replay(self.places, [*rest, *([index] if self.has_index else [])])
        starts, read = [], []
        for undo, array in zip(self.undos, after, strict=True):
            versions = [array]
            steps = []
            for link in undo.links:
                # operands: array, element, indices
                taken = len(link.operands) - 2
                steps.append((replaced.pop(0), [places.pop(0) for _ in range(taken)], link.attrs["key"]))
            # the last update is taken back first: two updates may be at one place
            for element, indices, key in reversed(steps):
                array = apply(UPDATE_AT, array, element, *indices, key=key)
                versions.append(array)
            # versions[k]: with k updates done. (For versions before a loop something stands here that nobody reads.)
            versions.reverse()
            first = len(undo.loops)
            for position, done in undo.versions.items():
                states[position] = versions[max(done - first, 0)]
            read += [versions[done - first] for done, _ in undo.parts.values()]
            starts.append(None if undo.loops else array)
        positions = [position for undo in self.undos for position in undo.parts]
        for position, part in zip(positions, replay(self.reading, [*read, *places]), strict=True):
            states[position] = part
        return states, starts


def undoing(half: Split, carried: int) -> tuple[Split, Undoing | None]:
    """The halves of a loop's body with elements saved in the place of arrays, if there are such arrays."""
    forward = half.forward
    outputs, saved = forward.result_group("outputs"), forward.result_group("saved")
    undos = []
    instead: dict[Value, Value] = {}  # parameters of the backward half → what loops in it put back
    for j in range(carried):
        loops, links = _links(forward, j, outputs[j], half.restored)
        # the array before each loop, before each update and after the last
        chain = [*map(_start, loops), *(link.operands[0] for link in links), outputs[j]] if loops or links else []
        versions = {k: chain.index(value) for k, value in enumerate(saved) if value in chain}
        sources = {k: _source(value) for k, value in enumerate(saved)} if chain else {}
        late = chain[len(loops) :]
        parts = {k: (chain.index(start), reads) for k, (start, reads) in sources.items() if reads and start in late}
        # an array nobody saved needs no undoing: elements would be saved for nothing
        before = sum(_elements(saved[k].type) for k in (*versions, *parts))
        if not _short(outputs[j].type) and before > 2 * sum(_elements(_replaced(link)) for link in links):
            backs = {half.backward.params[k]: half.restored[loops[done]] for k, done in versions.items() if done < len(loops)}
            if not loops or _rerouted(half.backward, instead | backs) is not None:
                instead |= backs
                undos.append(Undo(j, loops, links, versions, parts))
    if not undos:
        return half, None
    if instead or any(undo.loops for undo in undos):
        _reroute(half, instead, [half.restored[undo.loops[0]] for undo in undos if undo.loops])
    gone = {k for undo in undos for k in (*undo.versions, *undo.parts)}
    kept = [k for k in range(len(saved)) if k not in gone]
    replaced = [_before(forward, link) for undo in undos for link in undo.links]
    indices = [value for undo in undos for link in undo.links for value in link.operands[2:]]
    slices = [reads for undo in undos for _, reads in undo.parts.values()]
    taken = [value for reads in slices for read in reads for value in read.operands[1:]]
    # where an iteration wrote is often a function of its index alone (x[i], x[i + 1]): then nothing is saved for it
    places, keep, has_index = had_again(forward, [*indices, *taken], 0)
    starts = [reads[0].operands[0] for reads in slices]
    operations = [read for reads in slices for read in reads]
    reading = extract([*starts, *taken], operations, forward.name, outputs=[reads[-1].result for reads in slices])
    now = [*(saved[k] for k in kept), *replaced, *keep]
    forward.give(outputs=outputs, saved=now)
    return replace(half, saved=[value.type for value in now]), Undoing(undos, kept, places, has_index, reading)


def _links(block: Block, j: int, value: Value, restored: dict[Value, Value]) -> tuple[list[Value], list[Operation]]:
    """The loops and then the updates that lead from carried value j to what becomes of it; none if there is anything else."""
    loops, updates = list[Value](), list[Operation]()
    # parameter 0 is the index
    start, type = block.params[1 + j], value.type
    while value is not start:
        producer = value.producer
        if value in restored and _start(value).type == type:
            loops.append(value)
            value = _start(value)
        elif loops or producer is None or producer.op not in (UPDATE, UPDATE_AT) or _replaced(producer) is None:
            return [], []
        else:
            updates.append(producer)
            value = producer.operands[0]
    return loops[::-1], updates[::-1]


def _start(after: Value) -> Value:
    """The array that a loop begins with, from what becomes of it."""
    loop: Operation = after.producer  # type: ignore[assignment]
    return loop.group("carried")[loop.results.index(after)]


def _rerouted(block: Block, instead: dict[Value, Value]) -> list[Operation] | None:
    """The operations of a block in an order in which other values can stand for some parameters; None if there is none."""
    waiting, there, ordered = block.operations, set(block.params), list[Operation]()
    while waiting:
        late = []
        for operation in waiting:
            if all(instead.get(value, value) in there for value in operation.operands):
                ordered.append(operation)
                there.update(operation.results)
            else:
                late.append(operation)
        if len(late) == len(waiting) or (late and any(map(has_effect, block.operations))):
            return None
        waiting = late
    return ordered


def _reroute(half: Split, instead: dict[Value, Value], backs: list[Value]) -> None:
    """The backward half with other values for some parameters; it gives these arrays, too."""
    block = half.backward
    ordered = _rerouted(block, instead)
    assert ordered is not None
    for operation in ordered:
        operation.operands = [instead.get(value, value) for value in operation.operands]
    block.operations = ordered
    block.give(outputs=[*(instead.get(value, value) for value in block.results), *backs])


def _replaced(update: Operation) -> TensorSpec | None:
    """The type of the element, row or column that an update replaces; None if that is not what it does."""
    x, _, *indices = update.operands
    key = update.attrs["key"]
    if not isinstance(x.type, TensorSpec) or len(key) > len(x.type.shape):
        return None
    sizes = []
    for part, size in zip_longest(key, x.type.shape, fillvalue=slice(None)):
        if part.__class__ is slice and part == slice(None):
            sizes.append(size)
        elif part.__class__ is not int and not (isinstance(part, Slot) and not len(indices[part.index].type.shape)):
            return None
    return TensorSpec(sizes, x.type.dtype)


def _source(value: Value) -> tuple[Value, list[Operation]]:
    """What a slice of slices is read from, and the operations that read it, in order."""
    reads: list[Operation] = []
    while value.producer is not None and _is_part(value.producer):
        reads.append(value.producer)
        value = value.producer.operands[0]
    return value, reads[::-1]


def _is_part(read: Operation) -> bool:
    """Whether an operation reads a slice that is worth having again: not a short one."""
    if read.op not in (GETITEM, GETITEM_AT) or read.attrs.get("size") is not None or _short(read.result.type):
        return False
    ends = [end for part in read.attrs["key"] if isinstance(part, slice) for end in (part.start, part.stop, part.step)]
    scalar = all(not len(value.type.shape) for value in read.operands[1:])
    return scalar and all(part is None or part.__class__ in (int, Slot, slice) for part in read.attrs["key"]) and all(
        end is None or end.__class__ in (int, Slot) for end in ends
    )  # fmt: skip


def _elements(type: Any) -> float:
    """How many there are: a size that only run time knows counts as long."""
    return prod(n if isinstance(n, int) else inf for n in type.shape)


def _short(type: Any) -> bool:
    return _elements(type) <= SHORT


def _before(block: Block, update: Operation) -> Value:
    """What an update replaces, read before it."""
    x, _, *indices = update.operands
    attrs = {"key": update.attrs["key"], "size": None}
    read = Operation(GETITEM_AT, [x, *indices], [_replaced(update)], attrs, loc=update.loc)
    # in front of the update, which may be done in place
    block.operations.insert(block.operations.index(update), read)
    return read.result
