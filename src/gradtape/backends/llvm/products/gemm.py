"""Matrix products: c = a·b (or c += a·b) in any layout, by tiles of our own or by BLAS, whichever is faster.

`python -m benchmarks.products` compares the two. Tiles win where matrices are small or narrow and for windows that overlap, and
BLAS, which packs both matrices, where they are large: a product is one or the other by its sizes and the machine's vectors
alone, so its bits do not depend on anything else. By tiles, each element of c is one sum in the order of k (or in blocks of
it), so cutting c among threads changes nothing. Knows no programs: `product_code.py` asks for calls.

Matrices are given by the address of their first element and the steps of rows and columns; rows of c lie densely.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from gradtape.backends.llvm.products import blas
from gradtape.backends.llvm.products.tiles import MANY_ROWS, ROWS, Strided, Tiles
from gradtape.backends.llvm.runtime import machine
from gradtape.backends.llvm.runtime.threads import by_format, gt_parallel
from gradtape.backends.llvm.writing.algebra import I64, Flag, Format, Kind, Whole, select
from gradtape.backends.llvm.writing.builder import FLAG, PTR, Builder, Member, Number, Pointer
from gradtape.backends.llvm.writing.ir_text import Index, ModuleText

PANEL = 16 << 10  # bytes of a panel of columns, which is to stay in the nearest cache
BLOCK = 30 << 10  # elements of a block of rows, which are multiplied with one panel after the other
WIDE = {1: 8, 2: 4, 3: 4}  # vectors of a tile of few rows: enough sums at a time to keep the units busy
LONG_SUM = 64  # terms of a sum that take longer than to begin with it
SHARE = 1 << 20  # multiplications from which on threads help
FEW_ROWS, FEW_COLUMNS = 2 * ROWS, 32  # up to which tiles are faster at any size
AT_ONCE = 4  # inner products
WINDOW = 768  # terms of a sum over windows that are added up at a time

# a chunk's data: the product, and how it is cut
WORDS: list[Kind[Any]] = [I64, I64, I64, PTR, I64, I64, PTR, I64, I64, PTR, I64, FLAG, I64, I64, I64]
FIELDS = [Member(8 * i, kind) for i, kind in enumerate(WORDS)]


def large() -> int:
    """Multiplications from which on BLAS is called, unless a side is short: tiles of 512 bits keep up with it for longer."""
    # One pool of threads is better than two that wait actively for the same cores: BLAS is to be faster than tiles by much.
    return (64 if machine.vector_bytes() == 64 else 2) << 20


def for_blas(m: Whole | int, n: Whole | int, k: Whole | int) -> Flag | bool:
    """Whether a product is BLAS's: asked of sizes that are known now, and of registers."""
    few_terms = 0 if machine.vector_bytes() == 64 else 8
    return (m * n * k >= large()) & (m > FEW_ROWS) & (n > FEW_COLUMNS) & (k > few_terms)  # type: ignore[operator]


class Products(Tiles):
    """Whole products of one element type."""

    def __init__(self, format: Format, vector: int) -> None:
        super().__init__(format, vector)
        add: Callable[[str, Callable[..., Any]], Callable[..., Any]] = self.part.add  # arguments may be Python numbers
        name = format.scalar
        self.panel = add("panel", self._panel)
        self.blocked = add("blocked", self._blocked)
        self.few = add("few", self._few)
        self.dots = add("dots", self._dots)
        self.serial = add(f"gt_tiled_{name}", self._serial)
        self.by_blas = add("by_blas", self._by_blas)
        add("chunk", self._chunk)
        add(f"gt_mm_{name}", self._entry)
        add(f"gt_windows_{name}", self._windows)

    def strided(self, start: Pointer, row: Number, column: Number) -> Strided:
        return Strided(start.to(self.format), row, column)

    # --- by tiles

    def _panel(
        self, f: Builder, m: Whole, n: Whole, q: Whole, qa: Whole, k: Whole, a: Pointer, ra: Whole, ca: Whole, b: Pointer,
        rb: Whole, c: Pointer, rc: Whole, add: Flag,
    ) -> None:  # fmt: skip
        """All rows times one panel of columns, over `q` stretches of k."""
        left, out = self.strided(a, ra, ca), self.strided(c, rc, 1)

        def tile(first: Whole, rows: Whole, counts: Sequence[int], vectors: int) -> None:
            """The tile with as many rows as there are."""
            arguments = (f, q, qa, k, left.at(first, 0), ra, ca, b, rb, out.at(first, 0), rc, add, n)
            f.switch(rows, {count: partial(self.tile(count, vectors), *arguments) for count in counts})

        with f.if_else(n <= self.lanes) as (single, double):
            with single:  # one vector of columns: more rows, so that there are sums enough at a time
                # of long sums, the last rows are halved if they are more than one tile: few rows take as long as some
                long = q * k >= LONG_SUM
                full = select(long, (m - ROWS).at_least(0), m) // MANY_ROWS
                rest = m - full * MANY_ROWS
                halved = rest > MANY_ROWS
                half = select(halved, (rest + 1) // 2, rest)
                with f.loop(full + (rest > 0).count() + halved.count()) as number:
                    last = number > full
                    first = number.at_most(full) * MANY_ROWS + select(last, half, 0)
                    rows = select(number < full, f.number(MANY_ROWS), select(last, rest - half, half))
                    tile(first, rows, range(1, MANY_ROWS + 1), 1)
            with double:
                whole = m // self.rows * self.rows
                with f.loop(whole, step=self.rows) as i:
                    tile(i, f.number(self.rows), [self.rows], 2)
                with f.loop(m, whole, step=ROWS) as i:
                    tile(i, (m - i).at_most(ROWS), range(1, ROWS + 1), 2)

    def _blocked(
        self, f: Builder, m: Whole, n: Whole, k: Whole, a: Pointer, ra: Whole, ca: Whole, b: Pointer, rb: Whole, cb: Whole,
        c: Pointer, rc: Whole, add: Flag,
    ) -> None:  # fmt: skip
        """Four rows or more: blocks of rows, panels of columns, blocks of k."""
        left, right, out = self.strided(a, ra, ca), self.strided(b, rb, cb), self.strided(c, rc, 1)
        most = PANEL // (self.columns * self.format.align)  # terms of a sum that are added up at a time
        room = f.array(self.format, most * self.columns, 64)
        few_readers = cb.equals(1) & (m <= 2 * ROWS)  # of a panel: to pack it takes as long as to read it
        # rows that many panels read are to stay in the cache meanwhile; to pack panels again for the next rows costs little
        height = select(n > self.columns, f.number(BLOCK // most), m.at_least(1))
        with f.loop((m + (height - 1)) // height) as block, f.loop(n, step=self.columns) as j:
            i = block * height
            rows, columns = (m - i).at_most(height), (n - j).at_most(self.columns)
            as_it_lies = few_readers & columns.equals(self.columns)
            with f.loop(k, step=most) as p:
                terms = (k - p).at_most(most)
                start = right.at(p, j)
                with f.if_(~as_it_lies):
                    self.pack_b(f, terms, columns, start, rb, cb, room)
                panel, step = select(as_it_lies, start, room), select(as_it_lies, rb, self.columns)
                more = add | p.differs(0)
                self.panel(f, rows, columns, 1, 0, terms, left.at(i, p), ra, ca, panel, step, out.at(i, j), rc, more)

    def _few(
        self, f: Builder, m: Whole, n: Whole, k: Whole, a: Pointer, ra: Whole, ca: Whole, b: Pointer, rb: Whole, c: Pointer,
        rc: Whole, add: Flag,
    ) -> None:  # fmt: skip
        """One to three rows times a dense b: tiles of many columns, b as it lies."""
        right, out = b.to(self.format), c.to(self.format)

        def rows(count: int, wide: int) -> None:
            whole = n // wide * wide
            with f.loop(whole, step=wide) as j:
                tile = self.tile(count, WIDE[count])
                tile(f, 1, 0, k, a, ra, ca, right.at(j), rb, out.at(j), rc, add, wide)
            with f.if_(whole < n):
                self.blocked(f, m, n - whole, k, a, ra, ca, right.at(whole), rb, 1, out.at(whole), rc, add)

        f.switch(m, {count: partial(rows, count, WIDE[count] * self.lanes) for count in WIDE})

    def _dots(
        self, f: Builder, m: Whole, n: Whole, k: Whole, a: Pointer, ra: Whole, b: Pointer, cb: Whole, c: Pointer, rc: Whole,
        cc: Whole, add: Flag,
    ) -> None:  # fmt: skip
        """Rows of a and columns of b that are dense: c[i, j] is the inner product of two vectors; four columns at a time."""
        left, right, out = self.strided(a, ra, 1), self.strided(b, 1, cb), self.strided(c, rc, cc)
        whole = k & -self.lanes
        with f.loop(m) as i, f.loop(n, step=AT_ONCE) as j:
            row = left.at(i, 0)
            columns = [right.at(0, (j + q).at_most(n - 1)) for q in range(AT_ONCE)]  # the last one again beyond the end
            vectors = [f.variable(self.vector, 0.0) for _ in columns]
            rests = [f.variable(self.format, 0.0) for _ in columns]
            with f.loop(whole, step=self.lanes) as p:
                x = row.at(p).to(self.vector).value
                for column, total in zip(columns, vectors, strict=True):
                    total.value = x.fma(column.at(p).to(self.vector).value, total.value)
            with f.loop(k, whole) as p:
                number = row[p]
                for column, rest in zip(columns, rests, strict=True):
                    rest.value = number.fma(column[p], rest.value)
            for q in range(AT_ONCE):
                with f.if_(j + q < n):
                    place = out.at(i, j + q)
                    dot = f.variable(self.format, vectors[q].value.total() + rests[q].value)
                    with f.if_(add):
                        dot.value = place.value + dot.value
                    place.value = dot.value

    def _serial(
        self, f: Builder, m: Whole, n: Whole, k: Whole, a: Pointer, ra: Whole, ca: Whole, b: Pointer, rb: Whole, cb: Whole,
        c: Pointer, rc: Whole, add: Flag,
    ) -> None:  # fmt: skip
        """One thread, whatever the shapes."""
        # Few rows or columns fill no tile: rows of b are read as they lie, or columns as inner products, whichever is dense.
        few, narrow = m <= max(WIDE), n <= max(WIDE)
        with f.if_(few & cb.equals(1)):
            self.few(f, m, n, k, a, ra, ca, b, rb, c, rc, add)
            f.leave()
        with f.if_(n.equals(1) & rc.equals(1) & ra.equals(1)):  # cᵀ = bᵀ·aᵀ
            self.few(f, n, m, k, b, cb, rb, a, ca, c, 1, add)
            f.leave()
        dense = ca.equals(1) & rb.equals(1)
        with f.if_(dense & narrow):
            self.dots(f, n, m, k, b, cb, a, ra, c, 1, rc, add)
            f.leave()
        with f.if_(dense & few):
            self.dots(f, m, n, k, a, ra, b, cb, c, rc, 1, add)
            f.leave()
        self.blocked(f, m, n, k, a, ra, ca, b, rb, cb, c, rc, add)

    def _windows(
        self, f: Builder, p: Whole, pa: Whole, pc: Whole, m: Whole, n: Whole, q: Whole, qa: Whole, qb: Whole, k: Whole,
        a: Pointer, ra: Whole, ca: Whole, b: Pointer, rb: Whole, cb: Whole, c: Pointer, rc: Whole, add: Flag,
    ) -> None:  # fmt: skip
        """c[p, m, n] = Σ a[p, m, q, k] b[q, k, n] for windows, which may overlap; one thread, b is packed once."""
        left, right, out = self.strided(a, pa, qa), self.strided(b, qb, cb), self.strided(c, pc, 1)
        room = f.array(self.format, WINDOW * self.columns, 64)
        most = WINDOW // k  # stretches of k that the room has place for; the caller sees to it that there is one
        with f.loop(n, step=self.columns) as j, f.loop((q + (most - 1)) // most) as block:
            first = block * most
            stretches, columns = (q - first).at_most(most), (n - j).at_most(self.columns)
            with f.loop(stretches) as stretch:
                to = room.at(stretch * k * self.columns)
                self.pack_b(f, k, columns, right.at(first + stretch, j), rb, cb, to)
            with f.loop(p) as window:
                start, to = left.at(window, first), out.at(window, j)
                more = add | block.differs(0)
                self.panel(f, m, columns, stretches, qa, k, start, ra, ca, room, self.columns, to, rc, more)

    # --- with threads, or by BLAS

    def _by_blas(
        self, f: Builder, m: Whole, n: Whole, k: Whole, a: Pointer, ra: Whole, ca: Whole, b: Pointer, rb: Whole, cb: Whole,
        c: Pointer, rc: Whole, add: Flag,
    ) -> Flag:  # fmt: skip
        """A product by BLAS; False if it does not know how an operand lies."""

        def stored(rows: Whole, columns: Whole, row: Whole, column: Whole) -> tuple[Flag, Flag, Whole]:
            """Whether BLAS can read a matrix, whether transposed, and the step between what is dense."""
            plain = column.equals(1) & (row >= columns)
            turned = row.equals(1) & (column >= rows) & ~plain
            return plain | turned, turned, select(plain, row, column)

        known_a, turn_a, step_a = stored(m, k, ra, ca)
        known_b, turn_b, step_b = stored(k, n, rb, cb)
        with f.if_(known_a & known_b):
            blas.PRODUCT[self.format.scalar](f, turn_a, turn_b, m, n, k, a, step_a, b, step_b, c, rc, add)
        return known_a & known_b

    def _chunk(self, f: Builder, data: Pointer, first: Whole, end: Whole) -> None:
        """Some chunks of a product: blocks of `rows` × `columns` of c, `across` of them side by side."""
        m, n, k, a, ra, ca, b, rb, cb, c, rc, add, rows, columns, across = (data[field] for field in FIELDS)
        left, right, out = self.strided(a, ra, ca), self.strided(b, rb, cb), self.strided(c, rc, 1)
        with f.loop(end, first) as chunk:
            i, j = chunk // across * rows, chunk % across * columns
            m_, n_ = (m - i).at_most(rows), (n - j).at_most(columns)
            self.serial(f, m_, n_, k, left.at(i, 0), ra, ca, right.at(0, j), rb, cb, out.at(i, j), rc, add)

    def _entry(
        self, f: Builder, m: Whole, n: Whole, k: Whole, a: Pointer, ra: Whole, ca: Whole, b: Pointer, rb: Whole, cb: Whole,
        c: Pointer, rc: Whole, add: Flag,
    ) -> None:  # fmt: skip
        """The one function that others call: alone, by BLAS, or with threads."""
        product = (m, n, k, a, ra, ca, b, rb, cb, c, rc, add)
        work = m * n * k
        with f.if_(work < SHARE):
            self.serial(f, *product)
            f.leave()
        with f.if_(for_blas(m, n, k)), f.if_(self.by_blas(f, *product)):  # type: ignore[arg-type]
            f.leave()
        # about so much work in each chunk; columns are cut in panels, rows in tiles
        pieces = (work // (SHARE // 2)).at_most(32)
        tall = m > n

        def cut(size: Whole, unit: int) -> Whole:
            return ((size + (pieces - 1)) // pieces + (unit - 1)) // unit * unit

        rows, columns = select(tall, cut(m, 4 * ROWS), m), select(tall, n, cut(n, 2 * self.columns))
        across, down = (n + (columns - 1)) // columns, (m + (rows - 1)) // rows
        data = f.array(I64, len(FIELDS))
        values: tuple[Any, ...] = (*product, rows, columns, across)
        for field, value in zip(FIELDS, values, strict=True):
            data[field] = value
        gt_parallel(f, Pointer(f.writer, "@chunk"), data, across * down)


# -- the text of calls

Sizes = tuple[Index, Index, Index]
Layout = tuple[str, Index, Index]  # of a matrix: its address, the steps of rows and columns

library = by_format(Products)


def call(module: ModuleText, kind: str, sizes: Sizes, a: Layout, b: Layout, c: tuple[str, Index], add: str) -> str:
    """A call that multiplies an m × k by a k × n matrix: of BLAS if that is known now, so that no tiles are compiled."""
    m, n, k = sizes
    if isinstance(m, int) and isinstance(n, int) and isinstance(k, int) and for_blas(m, n, k):
        steps = [_leading(m, k, *a[1:]), _leading(k, n, *b[1:])]
        if None not in steps:
            turns = [str(matrix[2] != 1).lower() for matrix in (a, b)]
            return blas.BLAS.call(module, f"gt_blas_{kind}", *turns, *sizes, a[0], steps[0], b[0], steps[1], *c, add)
    return library(kind).part.call(module, f"gt_mm_{kind}", *sizes, *a, *b, *c, add)


def _leading(rows: int, columns: int, row: Index, column: Index) -> int | None:
    """The step between what is dense in a matrix that BLAS knows, which is transposed if the step of columns is not 1."""
    if column == 1 and isinstance(row, int) and row >= columns:
        return row
    return column if row == 1 and isinstance(column, int) and column >= rows and column != 1 else None


def windows_call(module: ModuleText, kind: str, arguments: Sequence[Index]) -> str:
    """A call of p, pa, pc, m, n, q, qa, qb, k, a, ra, ca, b, rb, cb, c, rc, add: see `_windows`."""
    return library(kind).part.call(module, f"gt_windows_{kind}", *arguments)
