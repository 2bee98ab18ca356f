"""Several elements as one, and one as several: batch, padded_batch, unbatch, window."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

import numpy as np

from gradtape.core.strings import Text
from gradtape.core.typing import Array
from gradtape.data.elements import DatasetSpec, ElementStructure, Leaves, mapped, row_spec, rows_spec
from gradtape.data.selecting import RepeatedStream
from gradtape.data.sources import Listed, TextRowsStream
from gradtape.data.streams import UNKNOWN, Stage, Step, StepStream, Stream, rows_in
from gradtape.errors import InvalidArgumentError
from gradtape.ir.types import TensorSpec


class BatchStream(StepStream):
    """Blocks of the source as elements."""

    def __init__(self, source: Stream, size: int, drop_remainder: bool) -> None:
        super().__init__(source)
        self.size, self.drop = size, drop_remainder

    def __next__(self) -> Leaves:
        block = self.source.block(self.size)
        if rows_in(block) < self.size:
            with suppress(StopIteration):  # the end of the source; or else its failure, which is that of the batch
                self.source.block(1)
            if self.drop:
                raise StopIteration
        return block


class Batched(Step):
    """So many elements together, with a leading axis."""

    rearranges = True

    def __init__(self, source: Stage, size: int, drop_remainder: bool) -> None:
        super().__init__(source)
        self.size, self.drop = size, drop_remainder

    def element_structure(self) -> ElementStructure:
        count = self.size if self.drop else None
        return ElementStructure(mapped(lambda spec: rows_spec(spec, count), self.source.structure.template))

    def open(self) -> Stream:
        return BatchStream(self.source.open(), self.size, self.drop)

    def remainder(self) -> int:
        size = self.source.cardinality()
        return size % self.size if size > self.size and not self.drop else 0

    def cardinality(self) -> int:
        size = self.source.cardinality()
        return size if size < 0 else size // self.size if self.drop else -(-size // self.size)


class PaddedBatchStream(StepStream):
    """Elements of different shapes together, each filled up."""

    def __init__(self, source: Stream, stage: PaddedBatch) -> None:
        super().__init__(source)
        self.stage = stage

    def __next__(self) -> Leaves:
        rows = list(islice(self.source, self.stage.size))
        if not rows or (self.stage.drop and len(rows) < self.stage.size):
            raise StopIteration
        parts = zip(zip(*rows, strict=True), self.stage.shapes, self.stage.fillers, strict=True)
        return tuple([_padded(column, shape, filler, i) for i, (column, shape, filler) in enumerate(parts)])


def _padded(column: Sequence[Any], shape: tuple[int | None, ...] | None, filler: Any, component: int) -> Array:
    """Arrays of one rank as rows of one that is as large as the largest, or as is said."""
    first = column[0]
    if any(leaf.ndim != first.ndim for leaf in column) or (shape is not None and len(shape) != first.ndim):
        raise InvalidArgumentError(
            f"Dataset.padded_batch: component {component} needs elements of one rank, "
            f"{'' if shape is None else f'that of padded_shapes {shape}, '}got shapes {sorted({leaf.shape for leaf in column})}"
        )
    largest = [max(leaf.shape[axis] for leaf in column) for axis in range(first.ndim)]
    sizes: list[Any] = [n if shape is None or shape[axis] is None else shape[axis] for axis, n in enumerate(largest)]
    for axis, (n, size) in enumerate(zip(largest, sizes, strict=True)):
        if size is not None and n > size:
            raise InvalidArgumentError(
                f"Dataset.padded_batch: component {component} has an element with {n} entries along axis {axis}, more than the "
                f"{size} of padded_shapes"
            )
    whole = np.full((len(column), *sizes), filler, first.dtype)
    for row, leaf in zip(whole, column, strict=True) if first.ndim else ():
        row[tuple(slice(n) for n in leaf.shape)] = leaf
    if not first.ndim:
        whole[:] = [leaf[()] for leaf in column]
    return whole.view(Text) if first.dtype == object else whole


class PaddedBatch(Step):
    """Batches of elements that differ in shape."""

    def __init__(
        self, source: Stage, size: int, shapes: Sequence[tuple[int | None, ...] | None], fillers: Sequence[Any], drop: bool
    ) -> None:
        super().__init__(source)
        self.size, self.shapes, self.fillers, self.drop = size, shapes, fillers, drop

    def element_structure(self) -> ElementStructure:
        count, shapes = self.size if self.drop else None, iter(self.shapes)

        def spec(leaf: TensorSpec) -> TensorSpec:
            shape = next(shapes)
            return TensorSpec(None if shape is None else (count, *shape), leaf.dtype)

        return ElementStructure(mapped(spec, self.source.structure.template))

    def open(self) -> Stream:
        return PaddedBatchStream(self.source.open(), self)

    def cardinality(self) -> int:
        size = self.source.cardinality()
        return size if size < 0 else size // self.size if self.drop else -(-size // self.size)


class UnbatchedStream(RepeatedStream):
    """The rows of the elements, one after the other."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage, None)
        self.source = stage.open()

    def _opened(self) -> Stream:
        if self.current is None:
            element = next(self.source)
            counts = {leaf.shape[0] for leaf in element if leaf.ndim}
            if len(counts) != 1 or not all(leaf.ndim for leaf in element):
                shapes = [leaf.shape for leaf in element]
                raise InvalidArgumentError(f"Dataset.unbatch: all parts of an element need as many rows, got shapes {shapes}")
            self.current = TextRowsStream(element, counts.pop())
        return self.current

    def close(self) -> None:
        self.source.close()


class Unbatched(Step):
    """Each row an element."""

    rearranges = True

    def element_structure(self) -> ElementStructure:
        return ElementStructure(mapped(row_spec, self.source.structure.template))

    def open(self) -> Stream:
        return UnbatchedStream(self.source)

    def cardinality(self) -> int:
        size = self.source.cardinality()
        counts = {spec.shape[0] for spec in self.source.structure.specs if spec.shape.rank}
        count = counts.pop() if len(counts) == 1 else None
        return size if size in (0, -1) else UNKNOWN if size < 0 or count is None else size * count


class WindowStream(StepStream):
    """Elements that follow each other, as one dataset per leaf."""

    def __init__(self, source: Stream, stage: Window) -> None:
        super().__init__(source)
        self.stage = stage
        self.held: deque[Leaves] = deque()  # elements from the start of the next window on
        self.skip = 0

    def __next__(self) -> Leaves:
        stage, held = self.stage, self.held
        span = (stage.size - 1) * stage.stride + 1
        for _ in zip(range(self.skip), self.source, strict=False):
            pass
        self.skip = 0
        held.extend(islice(self.source, span - len(held)))
        if not held or (stage.drop and len(held) < span):
            raise StopIteration
        rows = list(islice(held, 0, None, stage.stride))
        passed = min(stage.shift, len(held))
        for _ in range(passed):
            held.popleft()
        # windows that lie further apart than they are long: elements between them are passed over when the next one is asked
        # for
        self.skip = stage.shift - passed
        return tuple(
            [
                Listed([(leaf,) for leaf in column], inner)
                for column, inner in zip(zip(*rows, strict=True), stage.inner, strict=True)
            ]
        )


class Window(Step):
    """Datasets of elements that follow each other."""

    def __init__(self, source: Stage, size: int, shift: int, stride: int, drop: bool) -> None:
        super().__init__(source)
        self.size, self.shift, self.stride, self.drop = size, shift, stride, drop

    def element_structure(self) -> ElementStructure:
        return ElementStructure(mapped(DatasetSpec, self.source.structure.template))

    @property
    def inner(self) -> list[ElementStructure]:
        return [ElementStructure(spec) for spec in self.source.structure.specs]

    def open(self) -> Stream:
        return WindowStream(self.source.open(), self)

    def cardinality(self) -> int:
        size = self.source.cardinality()
        if size < 0:
            return size
        span = (self.size - 1) * self.stride + 1
        return max((size - span) // self.shift + 1, 0) if self.drop else -(-size // self.shift)
