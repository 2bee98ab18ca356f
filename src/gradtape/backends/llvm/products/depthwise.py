"""Convolutions of each channel with a filter of its own: sums over taps, vectors over the channels, threads over rows.

out[n, o, c] = Σ_t x[n, place(o, t), c] w[t, c] is the convolution and its derivative with respect to the input alike: only the
place of the element that a tap meets differs, (o·a + t·b + offset) / divisor where that is a whole number inside the array.
So nothing is padded, spread or turned. All geometry is given at run time (`GEOMETRY`), for three axes of space; those that a
convolution does not have are of size 1.

A row of the result (all but its last axis of space fixed) is cut into runs of columns that the same taps meet; each run has a
table of its taps, and the loops over columns and channels ask nothing. `convolution.py` asks for calls; knows no programs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from gradtape.backends.llvm.products.tiles import first_lanes, load, store
from gradtape.backends.llvm.runtime.support import Part
from gradtape.backends.llvm.runtime.threads import by_format, gt_parallel
from gradtape.backends.llvm.writing.algebra import I64, Format, Kind, Real, Whole, select
from gradtape.backends.llvm.writing.builder import PTR, Builder, Member, Pointer

MOST_TAPS = 512  # of a window: their tables are on the stack
COLUMNS = 4  # of the result at a time, and taps of the filter's derivative
VECTORS = 2  # of channels at a time
SHARE = 1 << 18  # multiplications from which on threads help
CHUNKS = 64  # pieces of work, at most
PARTS = 8  # pieces of a sum over positions, each with a filter of its own
BLOCK = 4096  # elements of a row, at least one column, whose products are added up at a time
BIAS = 1 << 40  # larger than any place: division rounds towards zero

AXES = 3
PER_AXIS = ("kernel", "out", "source", "a", "b", "offset", "divisor")
WORDS: list[Kind[Any]] = [PTR, PTR, PTR, PTR, *[I64] * (2 + AXES * len(PER_AXIS) + 1)]
FIELDS = [Member(8 * i, kind) for i, kind in enumerate(WORDS)]
GEOMETRY = len(WORDS) - 1  # the words that a caller fills in; the last one says how rows are cut


class Space(NamedTuple):
    """One axis of space."""

    kernel: Whole
    out: Whole
    source: Whole
    a: Whole
    b: Whole
    offset: Whole
    divisor: Whole

    def place(self, o: Whole, tap: Whole) -> tuple[Whole, Whole]:
        """Where tap meets the source at position o, in front of the array perhaps; and what is left, 0 if it meets any."""
        # moved up first and back after the division, which rounds towards zero and not down
        at = o * self.a + tap * self.b + self.offset + self.divisor * BIAS
        return at // self.divisor - BIAS, at % self.divisor


class Task(NamedTuple):
    """What a call is asked to do. Of a sum over positions, `result` is read and `filters` are made."""

    source: Pointer
    filters: Pointer
    result: Pointer
    parts: Pointer
    batch: Whole
    channels: Whole
    space: list[Space]
    rows: Whole  # in a chunk

    @staticmethod
    def of(data: Pointer) -> Task:
        words = [data[field] for field in FIELDS]
        source, filters, result, parts, batch, channels, *axes, rows = words
        count = len(PER_AXIS)
        space = [Space(*axes[k * count : (k + 1) * count]) for k in range(AXES)]
        return Task(source, filters, result, parts, batch, channels, space, rows)

    @property
    def lines(self) -> Whole:
        """Rows of the result."""
        return self.batch * self.space[0].out * self.space[1].out

    @property
    def taps(self) -> Whole:
        return self.space[0].kernel * self.space[1].kernel * self.space[2].kernel


class Depthwise:
    """The routines for one element type."""

    def __init__(self, format: Format, vector: int) -> None:
        self.part = Part(__name__, long=True)
        self.format = format
        self.lanes = vector // format.align
        self.vector = format.vector(self.lanes)
        add: Callable[[str, Callable[..., Any]], Callable[..., Any]] = self.part.add
        name = format.scalar
        self.columns = {n: add(f"columns{n}", self._columns(n)) for n in (COLUMNS, 1)}
        self.products = {n: add(f"products{n}", self._products(n)) for n in range(1, COLUMNS + 1)}
        self.row = add("row", self._row)
        self.sums = add("sums", self._sums)
        add("rows", self._rows)
        add("chunks", self._chunks)
        add(f"gt_depthwise_{name}", self._entry)
        add(f"gt_depthwise_filter_{name}", self._filter_entry)

    # --- runs of columns

    def _across(self, f: Builder, channels: Whole, body: Callable[[Whole, int, str | None], None]) -> None:
        """`body(first channel, vectors, mask)` for all channels: some vectors at a time, one, and what is left of one."""
        wide = VECTORS * self.lanes
        # two vectors at a time: one multiplication alone would wait for the one before it
        most = channels // wide * wide
        whole = channels & -self.lanes
        with f.loop(most, step=wide) as c:
            body(c, VECTORS, None)
        with f.loop(whole, most, self.lanes) as c:
            body(c, 1, None)
        # (a mask and not a loop of single channels: the last ones take as long as a whole vector, not as several)
        with f.if_(whole < channels):
            body(whole, 1, first_lanes(f, self.vector, channels - whole))

    def _columns(self, count: int) -> Callable[..., None]:
        """So many columns of the result: each the sum of what its taps meet."""

        def body(
            f: Builder, table: Pointer, taps: Whole, channels: Whole, source: Pointer, step: Whole, filters: Pointer,
            out: Pointer, out_step: Whole,
        ) -> None:  # fmt: skip
            entries = table.to(I64)
            x, w, y = (pointer.to(self.format) for pointer in (source, filters, out))

            def block(c: Whole, vectors: int, mask: str | None) -> None:
                cells = list(itertools.product(range(count), range(vectors)))
                sums = {cell: f.variable(self.vector, 0.0) for cell in cells}
                with f.loop(taps) as tap:
                    start, weights = x.at(entries[tap * 2] + c), w.at(entries[tap * 2 + 1] + c)
                    factors = [load(weights.at(v * self.lanes).to(self.vector), mask) for v in range(vectors)]
                    for j, v in cells:
                        number = load(start.at(step * j + v * self.lanes).to(self.vector), mask)
                        sums[j, v].value = number.fma(factors[v], sums[j, v].value)
                for j, v in cells:
                    store(y.at(out_step * j + c + v * self.lanes).to(self.vector), sums[j, v].value, mask)

            self._across(f, channels, block)

        return body

    def _products(self, count: int) -> Callable[..., None]:
        """So many taps of the filter's derivative: to each is added the sum over columns of what it meets, times cotangents."""

        def body(
            f: Builder, table: Pointer, columns: Whole, channels: Whole, source: Pointer, step: Whole, filters: Pointer,
            cts: Pointer, ct_step: Whole,
        ) -> None:  # fmt: skip
            entries = table.to(I64)
            x, w, y = (pointer.to(self.format) for pointer in (source, filters, cts))
            starts = [x.at(entries[2 * tap]) for tap in range(count)]
            places = [w.at(entries[2 * tap + 1]) for tap in range(count)]

            def block(c: Whole, vectors: int, mask: str | None) -> None:
                cells = list(itertools.product(range(count), range(vectors)))
                sums = {cell: f.variable(self.vector, 0.0) for cell in cells}
                with f.loop(columns) as j:
                    at, to = j * step + c, j * ct_step + c
                    factors = [load(y.at(to + v * self.lanes).to(self.vector), mask) for v in range(vectors)]
                    for tap, v in cells:
                        number = load(starts[tap].at(at + v * self.lanes).to(self.vector), mask)
                        sums[tap, v].value = number.fma(factors[v], sums[tap, v].value)
                for tap, v in cells:
                    place = places[tap].at(c + v * self.lanes).to(self.vector)
                    store(place, load(place, mask) + sums[tap, v].value, mask)

            self._across(f, channels, block)

        return body

    # --- rows

    def _runs(self, f: Builder, task: Task, line: Whole, run: Callable[..., None]) -> None:
        """`run(table, taps, columns, first of the source, of the result, step of each)` for one row of the result.

        `table` has two numbers for each tap: how far its elements are from the first of the source, its weights from the first
        of the filter.
        """
        first, second, last = task.space
        channels = task.channels
        rest, o1 = line // second.out, line % second.out
        n, o0 = rest // first.out, rest % first.out
        source = task.source.to(self.format).at(n * first.source * second.source * last.source * channels)
        result = task.result.to(self.format).at(line * last.out * channels)
        outer, outer_count = self._outer(f, task, o0, o1)
        inner, inner_count = f.array(I64, 2 * MOST_TAPS), f.variable(I64, 0)
        table = f.array(I64, 2 * MOST_TAPS)
        # columns a divisor apart meet the same taps: a run of them is one table and one inner loop
        with f.loop(last.divisor) as phase, f.if_(phase < last.out):
            count = (last.out - phase + (last.divisor - 1)) // last.divisor
            column = f.variable(I64, 0)
            with f.forever() as runs:
                runs.leave_if(column.value >= count)
                o = phase + column.value * last.divisor
                # as far as the same taps stay inside the array: at borders runs are short, in between one run is the row
                length = f.variable(I64, count - column.value)
                inner_count.value = 0
                with f.loop(last.kernel) as tap:
                    place, left = last.place(o, tap)
                    with f.if_(left.equals(0) & (place < last.source)), f.if_else(place < 0) as (before, there):
                        with before:
                            length.value = length.value.at_most((0 - place + (last.a - 1)) // last.a)
                        with there:
                            length.value = length.value.at_most((last.source - 1 - place) // last.a + 1)
                            inner[inner_count.value * 2] = place * channels
                            inner[inner_count.value * 2 + 1] = tap * channels
                            inner_count.value = inner_count.value + 1
                taps = inner_count.value
                with f.loop(outer_count) as i, f.loop(taps) as j:
                    entry = (i * taps + j) * 2
                    table[entry] = outer[i * 2] + inner[j * 2]
                    table[entry + 1] = outer[i * 2 + 1] + inner[j * 2 + 1]
                to = result.at(o * channels)
                run(table, outer_count * taps, length.value, source, last.a * channels, to, last.divisor * channels)
                column.value = column.value + length.value

    def _outer(self, f: Builder, task: Task, o0: Whole, o1: Whole) -> tuple[Pointer[Whole], Whole]:
        """The taps of the first two axes that meet the source: how far their rows are from its first, and from the filter's."""
        first, second, last = task.space
        channels = task.channels
        outer, count = f.array(I64, 2 * MOST_TAPS), f.variable(I64, 0)
        with f.loop(first.kernel) as t0:
            p0, left0 = first.place(o0, t0)
            with f.if_(left0.equals(0) & (p0 >= 0) & (p0 < first.source)), f.loop(second.kernel) as t1:
                p1, left1 = second.place(o1, t1)
                with f.if_(left1.equals(0) & (p1 >= 0) & (p1 < second.source)):
                    outer[count.value * 2] = (p0 * second.source + p1) * last.source * channels
                    outer[count.value * 2 + 1] = (t0 * second.kernel + t1) * last.kernel * channels
                    count.value = count.value + 1
        return outer, count.value

    def _row(self, f: Builder, data: Pointer, line: Whole) -> None:
        """One row of the result."""
        task = Task.of(data)

        def run(table: Pointer, taps: Whole, columns: Whole, source: Pointer, step: Whole, to: Pointer, to_step: Whole) -> None:
            whole = columns // COLUMNS * COLUMNS

            def some(count: int, j: Whole) -> None:
                places = (source.at(j * step), step, task.filters, to.at(j * to_step), to_step)
                self.columns[count](f, table, taps, task.channels, *places)

            with f.loop(whole, step=COLUMNS) as j:
                some(COLUMNS, j)
            with f.loop(columns, whole) as j:
                some(1, j)

        self._runs(f, task, line, run)

    def _sums(self, f: Builder, data: Pointer, line: Whole, filters: Pointer) -> None:
        """What one row of cotangents adds to a filter."""
        task = Task.of(data)
        # all taps over one block of columns before the next: the block stays in the cache
        width = (f.number(BLOCK) // task.channels.at_least(1)).at_least(8)

        def run(
            table: Pointer, taps: Whole, columns: Whole, source: Pointer, step: Whole, cts: Pointer, ct_step: Whole
        ) -> None:
            groups = (taps + (COLUMNS - 1)) // COLUMNS  # of taps, of about the same size
            # nine taps as 3 + 3 + 3 and not 4 + 4 + 1: the last would use a quarter of the registers
            each = (taps + (groups.at_least(1) - 1)) // groups.at_least(1)
            with f.loop((columns + (width - 1)) // width) as block, f.loop(groups) as group:
                j, tap = block * width, group * each
                count = (columns - j).at_most(width)
                places = (source.at(j * step), step, filters, cts.at(j * ct_step), ct_step)
                arguments = (f, table.at(tap * 2), count, task.channels, *places)
                some = (taps - tap).at_most(each)
                with f.if_(some > 0):
                    f.switch(some, {n: partial(self.products[n], *arguments) for n in range(1, COLUMNS + 1)})

        self._runs(f, task, line, run)

    # --- with threads

    def _rows(self, f: Builder, data: Pointer, first: Whole, end: Whole) -> None:
        """Some chunks of the result."""
        task = Task.of(data)
        with f.loop((end * task.rows).at_most(task.lines), first * task.rows) as line:
            self.row(f, data, line)

    def _chunks(self, f: Builder, data: Pointer, first: Whole, end: Whole) -> None:
        """Some chunks of a sum over all positions, each to a filter of its own."""
        task = Task.of(data)
        size = task.taps * task.channels
        with f.loop(end, first) as chunk:
            filters = task.parts.to(self.format).at(chunk * size)
            # (memory that is taken has what was there before)
            filters.to(I64).fill(0, size * self.format.align)
            with f.loop(((chunk + 1) * task.rows).at_most(task.lines), chunk * task.rows) as line:
                self.sums(f, data, line, filters)

    def _cut(self, task: Task, most: int) -> Whole:
        """How many rows a chunk has; by sizes alone, so that results do not depend on threads."""
        work = task.lines * task.space[2].out * task.taps * task.channels
        pieces = (work // (SHARE // 2)).at_most(most).at_least(1)
        pieces = select(work < SHARE, pieces.like("1"), pieces)
        return ((task.lines + (pieces - 1)) // pieces).at_least(1)

    def _entry(self, f: Builder, data: Pointer) -> None:
        """A convolution, or its derivative with respect to the input."""
        task = Task.of(data)
        rows = self._cut(task, CHUNKS)
        data[FIELDS[-1]] = rows
        gt_parallel(f, Pointer(f.writer, "@rows"), data, (task.lines + (rows - 1)) // rows)

    def _filter_entry(self, f: Builder, data: Pointer) -> None:
        """The derivative with respect to the filter; `parts` has room for as many filters as there are chunks."""
        task = Task.of(data)
        rows = self._cut(task, PARTS)
        data[FIELDS[-1]] = rows
        chunks = (task.lines + (rows - 1)) // rows
        gt_parallel(f, Pointer(f.writer, "@chunks"), data, chunks)
        size = task.taps * task.channels
        out, parts = task.filters.to(self.format), task.parts.to(self.format)
        whole = size & -self.lanes

        def total(i: Whole, kind: Format) -> None:
            sum_: Pointer[Real] = f.variable(kind, 0.0)
            with f.loop(chunks) as chunk:
                sum_.value = sum_.value + parts.at(chunk * size + i).to(kind).value
            out.at(i).to(kind).value = sum_.value

        with f.loop(whole, step=self.lanes) as i:
            total(i, self.vector)
        with f.loop(size, whole) as i:
            total(i, self.format)


library = by_format(Depthwise)
