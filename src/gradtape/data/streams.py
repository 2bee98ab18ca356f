"""The two halves of a pipeline: a `Stage` says what a step of it is, a `Stream` is one pass through it.

A stage is immutable but for what must outlive a pass (a cache, the number of passes so far). A stream gives elements as tuples
of bare leaves, or `block`s: so many elements at once, as arrays with a leading axis, no Python object for each; a block is
short only where the stream ends. Whoever opens a stream closes it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from itertools import islice

import numpy as np

from gradtape.core.typing import Array
from gradtape.data.elements import ElementStructure, Leaves, NestedStage, stacked

INFINITE = -1
UNKNOWN = -2


class Stream:
    """One pass through a stage."""

    def __iter__(self) -> Iterator[Leaves]:
        return self

    def __next__(self) -> Leaves:
        raise NotImplementedError

    def block(self, count: int) -> Leaves:
        """The next elements, `count` of them unless the stream ends; StopIteration if there are none."""
        # of a stream that has elements only: those that have arrays give blocks of their own, without an object for each
        # element
        rows = list(islice(self, count))
        if not rows:
            raise StopIteration
        return joined_rows(rows)

    def close(self) -> None:
        """Let go of what the pass holds: threads, generators, the streams below."""


def joined_rows(rows: list[Leaves]) -> Leaves:
    """Elements as one block."""
    return tuple(stacked(list(column), "Dataset.batch", i) for i, column in enumerate(zip(*rows, strict=True)))


def joined_blocks(blocks: list[Leaves]) -> Leaves:
    """Blocks one after the other."""
    if len(blocks) == 1:
        return blocks[0]
    return tuple(np.concatenate(column) for column in zip(*blocks, strict=True))


class Stage(NestedStage):
    """One step of a pipeline, with all that lead to it."""

    parents: tuple[Stage, ...] = ()
    rearranges = False  # elements of its parents, and runs no code of the user's

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

    # Where elements can be had by their numbers, shuffling moves numbers and batching gathers rows.
    def rows(self) -> int | None:
        """How many elements can be had by their numbers; None if they cannot."""
        return None

    def gather(self, places: Array) -> Leaves:
        """The elements at these places, as a block."""
        raise NotImplementedError


class Step(Stage):
    """A stage with one stage before it; elements have that one's structure unless it says otherwise."""

    def __init__(self, source: Stage) -> None:
        self.source = source
        self.parents = (source,)

    def element_structure(self) -> ElementStructure:
        return self.source.structure

    def cardinality(self) -> int:
        return self.source.cardinality()


class StepStream(Stream):
    """A pass that reads one other."""

    def __init__(self, source: Stream) -> None:
        self.source = source

    def close(self) -> None:
        self.source.close()
