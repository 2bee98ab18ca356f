"""Which elements a dataset has, how often, and beside which others: take, skip, repeat, shard, concatenate, zip, enumerate,
cache. Elements themselves are not changed here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape.core.typing import Array
from gradtape.data.elements import ElementStructure, Leaves, common
from gradtape.data.sources import ListedStream
from gradtape.data.streams import INFINITE, UNKNOWN, Stage, Step, StepStream, Stream, joined_blocks, rows_in
from gradtape.errors import FailedPreconditionError
from gradtape.ir.types import TensorSpec


class TakenStream(StepStream):
    """At most so many elements."""

    def __init__(self, source: Stream, count: int) -> None:
        super().__init__(source)
        self.left = count

    def __next__(self) -> Leaves:
        # closed at once and not when the reader goes: threads below have nothing more to do
        if self.left <= 0:
            self.close()
            raise StopIteration
        self.left -= 1
        return next(self.source)

    def block(self, count: int) -> Leaves:
        count = min(count, self.left)
        if count <= 0:
            self.close()
            raise StopIteration
        self.left -= count
        return self.source.block(count)


class Taken(Step):
    """The first elements; all if the number is negative."""

    rearranges = True

    def __init__(self, source: Stage, count: int) -> None:
        super().__init__(source)
        self.count = count

    def open(self) -> Stream:
        return self.source.open() if self.count < 0 else TakenStream(self.source.open(), self.count)

    def cardinality(self) -> int:
        size = self.source.cardinality()
        if self.count < 0:
            return size
        return self.count if size == INFINITE else size if size == UNKNOWN else min(size, self.count)

    def rows(self) -> int | None:
        size = self.source.rows()
        return size if size is None or self.count < 0 else min(size, self.count)

    def gather(self, places: Array) -> Leaves:
        return self.source.gather(places)


class SkippedStream(StepStream):
    """All but the first elements."""

    def __init__(self, source: Stream, count: int) -> None:
        super().__init__(source)
        self.left = count

    def _skip(self) -> None:
        # when the first element is asked for: opening a pass must not cost what skipping does
        while self.left > 0:
            count, self.left = self.left, 0
            for _ in zip(range(count), self.source, strict=False):
                pass

    def __next__(self) -> Leaves:
        if self.left:
            self._skip()
        return next(self.source)

    def block(self, count: int) -> Leaves:
        if self.left:
            self._skip()
        return self.source.block(count)


class Skipped(Step):
    """Without the first elements; without any if the number is negative."""

    rearranges = True

    def __init__(self, source: Stage, count: int) -> None:
        super().__init__(source)
        self.count = count

    def open(self) -> Stream:
        return TakenStream(self.source.open(), 0) if self.count < 0 else SkippedStream(self.source.open(), self.count)

    def cardinality(self) -> int:
        size = self.source.cardinality()
        if self.count < 0:
            return 0
        return size if size < 0 else max(size - self.count, 0)

    def rows(self) -> int | None:
        size = self.source.rows()
        return None if size is None else 0 if self.count < 0 else max(size - self.count, 0)

    def gather(self, places: Array) -> Leaves:
        return self.source.gather(places + self.count)


class RepeatedStream(Stream):
    """Pass after pass, each opened when the one before has ended."""

    def __init__(self, stage: Stage, times: int | None) -> None:
        self.stage, self.left = stage, times
        self.current: Stream | None = None
        self.some = True  # whether the current pass has given anything: empty ones would be opened for ever

    def _opened(self) -> Stream:
        if self.current is None:
            if self.left == 0 or not self.some:
                raise StopIteration
            if self.left is not None:
                self.left -= 1
            self.current, self.some = self.stage.open(), False
        return self.current

    def _ended(self) -> None:
        if self.current is not None:
            self.current.close()
            self.current = None

    def _of_passes(self, take: Callable[[Stream], Leaves]) -> Leaves:
        while True:
            try:
                leaves = take(self._opened())
                self.some = True
                return leaves
            except StopIteration:
                if self.current is None:
                    raise
                self._ended()

    def __next__(self) -> Leaves:
        return self._of_passes(next)

    def block(self, count: int) -> Leaves:
        # A block may span passes: the last one of a pass is short, and `batch` after `repeat` goes across the seam.
        return joined_blocks(self.collected(count, lambda count: self._of_passes(lambda source: source.block(count)), rows_in))

    def close(self) -> None:
        self.left = 0
        self._ended()


class Repeated(Step):
    """So many passes, or passes without end."""

    rearranges = True

    def __init__(self, source: Stage, times: int | None) -> None:
        super().__init__(source)
        self.times = times

    def open(self) -> Stream:
        return RepeatedStream(self.source, self.times)

    def cardinality(self) -> int:
        size = self.source.cardinality()
        if self.times == 0 or size == 0:
            return 0
        if self.times is None:
            return INFINITE  # of an unknown number too: TensorFlow has it so
        return size if size < 0 else size * self.times


class ChainedStream(RepeatedStream):
    """One stage's pass after another's."""

    def __init__(self, stages: list[Stage]) -> None:
        super().__init__(stages[0], None)
        self.stages = list(reversed(stages))

    def _opened(self) -> Stream:
        if self.current is None:
            if not self.stages:
                raise StopIteration
            self.current = self.stages.pop().open()
        return self.current

    def close(self) -> None:
        self.stages.clear()
        self._ended()


class Chained(Stage):
    """The elements of one dataset, then those of another."""

    rearranges = True

    def __init__(self, first: Stage, second: Stage) -> None:
        self.parents = (first, second)

    def element_structure(self) -> ElementStructure:
        first, second = self.parents
        return common(first.structure, second.structure, "Dataset.concatenate")

    def open(self) -> Stream:
        return ChainedStream(list(self.parents))

    def cardinality(self) -> int:
        sizes = [stage.cardinality() for stage in self.parents]
        return INFINITE if INFINITE in sizes else UNKNOWN if UNKNOWN in sizes else sum(sizes)


class ZippedStream(Stream):
    """One element of each, until one ends."""

    def __init__(self, sources: list[Stream]) -> None:
        self.sources = sources

    def __next__(self) -> Leaves:
        return tuple([leaf for source in self.sources for leaf in next(source)])

    def block(self, count: int) -> Leaves:
        blocks = [source.block(count) for source in self.sources]
        # a block is short only where its stream ends, so what is cut off here nobody would have come to
        shortest = min(len(block[0]) for block in blocks)
        return tuple([leaf[:shortest] for block in blocks for leaf in block])

    def close(self) -> None:
        for source in self.sources:
            source.close()


class Zipped(Stage):
    """Corresponding elements of several datasets, in a structure around them."""

    rearranges = True

    def __init__(self, stages: list[Stage], pack: Callable[[list[Any]], Any]) -> None:
        self.parents, self.pack = tuple(stages), pack

    def element_structure(self) -> ElementStructure:
        return ElementStructure(self.pack([stage.structure.template for stage in self.parents]))

    def open(self) -> Stream:
        return ZippedStream([stage.open() for stage in self.parents])

    def cardinality(self) -> int:
        sizes = [stage.cardinality() for stage in self.parents]
        known = [size for size in sizes if size >= 0]
        return 0 if 0 in known else UNKNOWN if UNKNOWN in sizes else min(known) if known else INFINITE

    def rows(self) -> int | None:
        sizes = [stage.rows() for stage in self.parents]
        return None if None in sizes else min(size for size in sizes if size is not None)

    def gather(self, places: Array) -> Leaves:
        return tuple([leaf for stage in self.parents for leaf in stage.gather(places)])


class NumberedStream(StepStream):
    """Elements behind their numbers."""

    def __init__(self, source: Stream, start: int) -> None:
        super().__init__(source)
        self.number = start

    def __next__(self) -> Leaves:
        element = next(self.source)
        self.number += 1
        return (np.int64(self.number - 1), *element)

    def block(self, count: int) -> Leaves:
        block = self.source.block(count)
        start, self.number = self.number, self.number + len(block[0])
        return (np.arange(start, self.number, dtype=np.int64), *block)


class Counted(Step):
    """`enumerate`."""

    rearranges = True

    def __init__(self, source: Stage, start: int) -> None:
        super().__init__(source)
        self.start = start

    def element_structure(self) -> ElementStructure:
        return ElementStructure((TensorSpec((), "int64"), self.source.structure.template))

    def open(self) -> Stream:
        return NumberedStream(self.source.open(), self.start)

    def rows(self) -> int | None:
        return self.source.rows()

    def gather(self, places: Array) -> Leaves:
        return (places.astype(np.int64) + self.start, *self.source.gather(places))


class ShardStream(StepStream):
    """Every so manieth element."""

    def __init__(self, source: Stream, count: int, index: int) -> None:
        super().__init__(source)
        self.count, self.skip = count, index

    def __next__(self) -> Leaves:
        # the elements of other shards, which follow one of ours
        for _ in range(self.skip):
            next(self.source)
        self.skip = self.count - 1
        return next(self.source)


class Shard(Step):
    """One of `count` parts, whose elements are that far apart."""

    def __init__(self, source: Stage, count: int, index: int) -> None:
        super().__init__(source)
        self.count, self.index = count, index

    def open(self) -> Stream:
        return ShardStream(self.source.open(), self.count, self.index)

    def cardinality(self) -> int:
        size = self.source.cardinality()
        return size if size < 0 else (size - self.index + self.count - 1) // self.count

    def rows(self) -> int | None:
        size = self.source.rows()
        return None if size is None else max((size - self.index + self.count - 1) // self.count, 0)

    def gather(self, places: Array) -> Leaves:
        return self.source.gather(places * self.count + self.index)


class CachingStream(StepStream):
    """A pass that keeps what it gives; if it comes to the end, the stage has it from then on."""

    def __init__(self, source: Stream, stage: Cached) -> None:
        super().__init__(source)
        self.stage, self.kept = stage, list[Leaves]()

    def __next__(self) -> Leaves:
        try:
            element = next(self.source)
        except StopIteration:
            # (two passes may run at the same time: the first that ends has it)
            if self.stage.elements is None:
                self.stage.elements = self.kept
            raise
        self.kept.append(element)
        return element


class Cached(Step):
    """Elements kept in memory after the first whole pass. A pass that is left early keeps nothing."""

    rearranges = True

    def __init__(self, source: Stage) -> None:
        super().__init__(source)
        self.elements: list[Leaves] | None = None

    def open(self) -> Stream:
        if self.source.rows() is not None:  # in memory already
            return self.source.open()
        return CachingStream(self.source.open(), self) if self.elements is None else ListedStream(self.elements)

    def rows(self) -> int | None:
        return self.source.rows()

    def gather(self, places: Array) -> Leaves:
        return self.source.gather(places)


class SizedStream(StepStream):
    """A pass that must have so many elements."""

    def __init__(self, source: Stream, count: int) -> None:
        super().__init__(source)
        self.count, self.number = count, 0

    def __next__(self) -> Leaves:
        try:
            element = next(self.source)
        except StopIteration:
            if self.count not in (self.number, UNKNOWN):
                raise FailedPreconditionError(
                    f"assert_cardinality: {'an infinite number of' if self.count == INFINITE else self.count} elements were "
                    f"expected, the dataset has {self.number}"
                ) from None
            raise
        self.number += 1
        if 0 <= self.count < self.number:
            raise FailedPreconditionError(f"assert_cardinality: {self.count} elements were expected, the dataset has more")
        return element


class Sized(Step):
    """A dataset whose number of elements the user knows."""

    def __init__(self, source: Stage, count: int) -> None:
        super().__init__(source)
        self.count = count

    def open(self) -> Stream:
        return SizedStream(self.source.open(), self.count)

    def cardinality(self) -> int:
        return self.count
