"""The heart of a matrix product: a tile of the result in registers, and panels of columns packed for it.

A tile is a few rows of a times one or more vectors of columns of b. Packed, a panel of b is [k, columns], so that tiles read it
in order; a is read where it lies. `gemm.py` makes whole products of tiles.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple, cast

from gradtape.backends.llvm.runtime.support import Part
from gradtape.backends.llvm.writing.algebra import Flag, Format, Real, Whole
from gradtape.backends.llvm.writing.builder import PTR, Builder, Number, Pointer

ROWS = 6  # of a tile: with two vectors of columns, as many sums as 16 registers and latency ask for
MANY_ROWS = 12  # of a tile with a single vector, or with 32 registers
GROUP = 3  # rows of such a tile that are read from one address


class Strided(NamedTuple):
    """A matrix in memory: where it begins, and the steps from row to row and from column to column."""

    start: Pointer[Real]
    row: Number
    column: Number

    def at(self, i: Number, j: Number) -> Pointer[Real]:
        return self.start.at(i * self.row + j * self.column)


class Tiles:
    """Tiles and packing for one element type."""

    def __init__(self, format: Format, vector: int) -> None:
        self.part = Part(__name__, long=True)
        self.format = format
        self.lanes = vector // format.align
        self.vector = format.vector(self.lanes)
        self.rows, self.columns = MANY_ROWS if vector == 64 else ROWS, 2 * self.lanes  # of an ordinary tile
        self._tiles: dict[tuple[int, int], Callable[..., None]] = {}
        self.pack_b = self.part.add("pack_b", self._pack_b())

    # --- tiles

    def tile(self, rows: int, vectors: int) -> Callable[..., None]:
        """c[rows, n] = Σ a[:, q, k] b[q, k, :], or added to c: `q` stretches of k, so many elements of a apart.

        There are n columns: all of the vectors, or fewer of the last one.
        """
        if (rows, vectors) not in self._tiles:
            self._tiles[rows, vectors] = self.part.add(f"tile{rows}x{vectors}", self._tile(rows, vectors))
        return self._tiles[rows, vectors]

    def _tile(self, rows: int, vectors: int) -> Callable[..., None]:
        cells = list(itertools.product(range(rows), range(vectors)))
        # Rows are read at an address plus a multiple of the step. Many rows would need more multiples than there are registers:
        # they are read from several addresses, which LLVM is not to take for one that goes from row to row.
        group = GROUP if rows > ROWS else rows

        def body(
            f: Builder, q: Whole, qa: Whole, k: Whole, a: Pointer, ra: Whole, ca: Whole, b: Pointer, rb: Whole, c: Pointer,
            rc: Whole, add: Flag, n: Whole,
        ) -> None:  # fmt: skip
            left, out = Strided(a.to(self.format), ra, ca), Strided(c.to(self.format), rc, 1)
            sums = {cell: f.variable(self.vector, 0.0) for cell in cells}
            starts = [left.start, *(_opaque(left.at(row, 0)) for row in range(group, rows, group))]
            steps = [row * ra for row in range(group)]
            right = f.variable(PTR, b)
            with f.loop(q) as stretch:
                places = [f.variable(PTR, start.at(stretch * qa)) for start in starts]
                with f.loop(k):
                    panel = right.value.to(self.format)
                    columns = [panel.at(j * self.lanes).to(self.vector).value for j in range(vectors)]
                    for i in range(rows):
                        number = places[i // group].value.to(self.format)[steps[i % group]].spread(self.lanes)
                        for j in range(vectors):
                            sums[i, j].value = number.fma(columns[j], sums[i, j].value)
                    for place in places:
                        place.value = place.value.to(self.format).at(ca)
                    right.value = panel.at(rb)

            def epilogue(mask: str | None) -> None:
                spots = {(i, j): out.at(i, j * self.lanes).to(self.vector) for i, j in cells}
                masks = [None] * (vectors - 1) + [mask]
                with f.if_(add):
                    for i, j in cells:
                        sums[i, j].value = load(spots[i, j], masks[j]) + sums[i, j].value
                for i, j in cells:
                    store(spots[i, j], sums[i, j].value, masks[j])

            with f.if_else(n.equals(vectors * self.lanes)) as (whole, partial):
                with whole:
                    epilogue(None)
                with partial:
                    epilogue(first_lanes(f, self.vector, n - (vectors - 1) * self.lanes))

        return body

    # --- packing

    def _pack_b(self) -> Callable[..., None]:
        """Columns of b to a panel [k, columns]; missing ones are zeros."""
        N, panel_row = self.columns, self.format.vector(self.columns)

        def body(f: Builder, k: Whole, n: Whole, b: Pointer, rb: Whole, cb: Whole, to: Pointer) -> None:
            source, panel = Strided(b.to(self.format), rb, cb), Strided(to.to(self.format), N, 1)

            def element_by_element(p: Whole, count: Number) -> None:
                with f.loop(count) as j:
                    panel.at(p, j).value = source.at(p, j).value

            full = n.equals(N)
            with f.if_(full & cb.equals(1)):
                with f.loop(k) as p:
                    panel.at(p, 0).to(panel_row).value = source.at(p, 0).to(panel_row).value
                f.leave()
            with f.if_(full & rb.equals(1)):  # b lies transposed: squares of it are turned in registers
                square = k & -self.lanes
                with f.loop(square, step=self.lanes) as p:
                    for part in (0, self.lanes):
                        self._turn(source, panel, p, part)
                with f.loop(k, square) as p:
                    element_by_element(p, N)
                f.leave()
            with f.if_(cb.equals(1)):
                mask = first_lanes(f, panel_row, n)
                with f.loop(k) as p:
                    panel.at(p, 0).to(panel_row).value = load(source.at(p, 0).to(panel_row), mask)
                f.leave()
            with f.loop(k) as p:
                panel.at(p, 0).to(panel_row).value = 0.0
                element_by_element(p, n)

        return body

    def _turn(self, source: Strided, panel: Strided, p: Whole, column: int) -> None:
        """lanes × lanes elements from rows to columns: a perfect shuffle, as many times as lanes has bits."""
        n = self.lanes
        vectors = [source.at(p, column + r).to(self.vector).value for r in range(n)]
        halves = [[x for i in range(first, first + n // 2) for x in (i, i + n)] for first in (0, n // 2)]
        for _ in range(n.bit_length() - 1):
            vectors = [vectors[i].shuffled(vectors[i + n // 2], half) for i in range(n // 2) for half in halves]
        for r in range(n):
            panel.at(p + r, column).to(self.vector).value = vectors[r]


# -- instructions that only tiles use


def _opaque(pointer: Pointer[Real]) -> Pointer[Real]:
    """An address that LLVM does not see through."""
    return pointer.like(pointer.writer.let(f'call ptr asm "", "=r,0"(ptr {pointer.register})'))


def first_lanes(f: Builder, kind: Format, count: Whole) -> str:
    """A mask of the first lanes of a vector."""
    type, n = kind.whole.type, kind.lanes
    number = count.resized(kind.whole).register
    one = f.writer.let(f"insertelement <{n} x {type}> poison, {type} {number}, i64 0")
    limit = f.writer.let(f"shufflevector <{n} x {type}> {one}, <{n} x {type}> poison, <{n} x i32> zeroinitializer")
    return f.writer.let(f"icmp slt <{n} x {type}> <{', '.join(f'{type} {lane}' for lane in range(n))}>, {limit}")


def load(place: Pointer[Real], mask: str | None) -> Real:
    """A vector; zeros where a mask is not set."""
    kind = cast("Format", place.kind)
    if mask is None:
        return place.value
    address = f"ptr align {kind.align} {place.register}"
    text = f"@llvm.masked.load.{kind.suffix}.p0({address}, <{kind.lanes} x i1> {mask}, {kind.type} zeroinitializer)"
    return kind.wrap(place.writer, place.writer.let(f"call {kind.type} {text}"))


def store(place: Pointer[Real], value: Real, mask: str | None) -> None:
    """A vector, where a mask is set."""
    kind = value.format
    if mask is None:
        place.value = value
        return
    address = f"ptr align {kind.align} {place.register}, <{kind.lanes} x i1> {mask}"
    place.writer.do(f"call void @llvm.masked.store.{kind.suffix}.p0({kind.type} {value.register}, {address})")
