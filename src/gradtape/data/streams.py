"""The two halves of a pipeline: a `Stage` says what a step of it is, a `Stream` is one pass through it.

A stage is immutable but for what must outlive a pass (a cache, the number of passes so far). A stream gives elements as tuples
of bare leaves, or `block`s: so many elements at once, as arrays with a leading axis, no Python object for each. A block is
short only where the stream ends or fails, which the next one tells. Whoever opens a stream closes it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import numpy as np

from gradtape.core.typing import Array
from gradtape.data.elements import ElementStructure, Leaves, NestedStage, stacked
from gradtape.ir.types import TensorSpec

_BLOCK = 1 << 15  # bytes of a block, at most
_MANY = 4096  # elements: each saves some microseconds, and compiling takes some ten milliseconds
INFINITE = -1
UNKNOWN = -2


class Stream:
    """One pass through a stage."""

    def __iter__(self) -> Iterator[Leaves]:
        return self

    def __next__(self) -> Leaves:
        raise NotImplementedError

    failure: Exception | None = None  # of the element after the last block

    def block(self, count: int) -> Leaves:
        """The next elements, `count` of them unless the stream ends or fails before; StopIteration if there are none."""
        # of a stream that has elements only: those that have arrays give blocks of their own, without an object for each
        # element
        return joined_rows(self.collected(count, lambda _: next(self), lambda _: 1))

    def collected(self, count: int, take: Callable[[int], Leaves], size: Callable[[Leaves], int]) -> list[Leaves]:
        """What `take(so many)` gives until there are `count` elements, or until it ends or fails; if at once, that."""
        if self.failure is not None:
            raise self.failure
        pieces: list[Leaves] = []
        while count:
            try:
                pieces.append(take(count))
            except Exception as error:  # its turn comes after the pieces before it
                if not pieces:
                    raise
                self.failure = error
                break
            count -= size(pieces[-1])
        return pieces

    def close(self) -> None:
        """Let go of what the pass holds: threads, generators, the streams below."""


def joined_rows(rows: list[Leaves]) -> Leaves:
    """Elements as one block."""
    return tuple(stacked(list(column), "Dataset.batch", i) for i, column in enumerate(zip(*rows, strict=True)))


def rows_in(block: Leaves) -> int:
    """How many elements a block has."""
    return len(block[0])


def joined_blocks(blocks: list[Leaves]) -> Leaves:
    """Blocks one after the other."""
    if len(blocks) == 1:
        return blocks[0]
    return tuple(np.concatenate(column) for column in zip(*blocks, strict=True))


class Pace:
    """How many elements to take at once: doubled and halved by the seconds they really take, so that neither the cost of each
    time nor a long wait for the last of them prevails."""

    _LEAST = 2e-4  # seconds that are worth a switch of threads, or a call of a program

    def __init__(self, most: int) -> None:
        self.count, self.most = 1, most

    def took(self, seconds: float) -> None:
        """What the last ones took."""
        if seconds < self._LEAST and self.count < self.most:
            self.count *= 2
        elif seconds > 4 * self._LEAST and self.count > 1:
            self.count //= 2


class Stage(NestedStage):
    """One step of a pipeline, with all that lead to it."""

    parents: tuple[Stage, ...] = ()
    rearranges = False  # elements of its parents, or draws numbers, and runs no code of the user's

    @functools.cached_property
    def structure(self) -> ElementStructure:  # type: ignore[override]  # asked for late: a function's result needs tracing
        return self.element_structure()

    def element_structure(self) -> ElementStructure:
        raise NotImplementedError

    def open(self) -> Stream:
        raise NotImplementedError

    def cardinality(self) -> int:
        """How many elements a pass has: a number, INFINITE or UNKNOWN."""
        return UNKNOWN

    def unseen(self) -> bool:
        """Whether elements can be read before they are asked for without anybody's noticing."""
        return self.rows() is not None or (self.rearranges and all(stage.unseen() for stage in self.parents))

    def in_a_block(self) -> int:
        """How many elements may be read at once: 1 if somebody could notice, or if they are large or of unknown size."""
        specs = self.structure.specs
        if not self.unseen() or not all(isinstance(spec, TensorSpec) and _is_fixed(spec) for spec in specs):
            return 1
        size = sum(spec.shape.num_elements() * spec.dtype.dtype.itemsize for spec in specs)
        return max(1, _BLOCK // max(size, 1))

    def has_many(self) -> bool:
        """Whether there are so many elements that a program for blocks of them is worth compiling."""
        size = self.cardinality()
        return any(stage.has_many() for stage in self.parents) if size == UNKNOWN else size == INFINITE or size >= _MANY

    def remainder(self) -> int:
        """How many rows the last element has, if it is known to be a smaller batch than those before it; else 0."""
        return 0

    # Where elements can be had by their numbers, shuffling moves numbers and batching gathers rows.
    def rows(self) -> int | None:
        """How many elements can be had by their numbers; None if they cannot."""
        return None

    def gather(self, places: Array) -> Leaves:
        """The elements at these places, as a block."""
        raise NotImplementedError


def _is_fixed(spec: TensorSpec) -> bool:
    return spec.shape.is_fully_defined() and spec.dtype.dtype.kind != "O"


class Step(Stage):
    """A stage with one stage before it; elements have that one's structure unless it says otherwise."""

    def __init__(self, source: Stage) -> None:
        self.source = source
        self.parents = (source,)

    def element_structure(self) -> ElementStructure:
        return self.source.structure

    def cardinality(self) -> int:
        return self.source.cardinality()

    def remainder(self) -> int:
        size = self.cardinality()
        return self.source.remainder() if size == INFINITE or size >= self.source.cardinality() else 0


class StepStream(Stream):
    """A pass that reads one other."""

    def __init__(self, source: Stream) -> None:
        self.source = source

    def close(self) -> None:
        self.source.close()
