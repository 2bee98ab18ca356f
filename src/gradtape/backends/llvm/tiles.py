"""The heart of a matrix product: a tile of the result in registers, and matrices packed for it.

A tile is a few rows of a times one or two vectors of columns of b. Packed, a panel of b is [k, columns] and a block of a is
[tile, k, rows of the tile], so that tiles read memory in order. Writes LLVM IR; `gemm.py` makes whole products of it.
"""

from __future__ import annotations

from typing import Any

from gradtape.backends.llvm.text import Module, Writer

ROWS = 6  # of a tile
MANY_ROWS = 12  # of a tile with a single vector
GROUP = 8  # tiles of a transposed matrix that are packed together
BYTES = {"float": 4, "double": 8}


class Tiles:
    """The text of tiles and packing for one element type."""

    def __init__(self, module: Module, kind: str, vector: int) -> None:
        self.module = module
        self.kind = kind
        self.lanes = vector // BYTES[kind]
        self.vector = f"<{self.lanes} x {kind}>"
        self.columns = 2 * self.lanes  # of an ordinary tile
        self.align = BYTES[kind]
        self.suffix = f"v{self.lanes}f{8 * BYTES[kind]}"
        # loops stay as they are written here: vectors are written out
        hints = [
            module.metadata(text) for text in ('!{!"llvm.loop.unroll.disable"}', '!{!"llvm.loop.vectorize.enable", i1 false}')
        ]
        self.plain = f", !llvm.loop {module.metadata(f'distinct !{{{{}}, {hints[0]}, {hints[1]}}}')}"

    def writer(self, name: str, params: str, visible: bool = False, attributes: str = "nounwind") -> Writer:
        linkage = "" if visible else "internal "
        return Writer(self.module, f"{name}.{self.kind}" if not visible else name, params, f"{linkage}void", attributes)

    def at(self, w: Writer, base: str, index: Any) -> str:
        return w.at(self.kind, base, index)

    def end(self, w: Writer) -> None:
        w.do("ret void")
        w.finish()

    def loop(self, w: Writer, count: Any, step: int = 1, start: Any = 0) -> Any:
        return w.loop(count, step, start, self.plain)

    # --- tiles

    def tile(self, rows: int, vectors: int, partial: bool = False, packed: bool = False) -> None:
        """c[rows, vectors] = Σ a[:, q, k] b[q, k, :], or added to c: `q` stretches of k, so many elements of a apart.

        Of a partial tile, only some elements of the last vector are there: `n` columns in all. For a packed one, a is as
        `pack_a` makes it, and its steps are known.
        """
        params = (
            "i64 %q, i64 %qa, i64 %k, ptr noalias %a, i64 %ra, i64 %ca, ptr noalias %b, i64 %rb, ptr noalias %c, i64 %rc,"
            " i1 %add,"
            " i64 %n"
        )
        w = self.writer(
            f"tile{rows}.{vectors}{'p' if partial else 'k' if packed else ''}", params, attributes="nounwind noinline"
        )
        V, flags = self.vector, f"<{self.lanes} x i1>"
        if partial:
            left = w.subtract("%n", (vectors - 1) * self.lanes)
            one = w.let(f"insertelement <{self.lanes} x i64> poison, i64 {left}, i64 0")
            limit = w.let(
                f"shufflevector <{self.lanes} x i64> {one}, <{self.lanes} x i64> poison, <{self.lanes} x i32> zeroinitializer"
            )
            numbers = ", ".join(f"i64 {lane}" for lane in range(self.lanes))
            mask = w.let(f"icmp slt <{self.lanes} x i64> <{numbers}>, {limit}")
        cells = [(i, j) for i in range(rows) for j in range(vectors)]
        offsets = [i if packed else w.multiply(i, "%ra") for i in range(rows)]
        if packed:  # the result is needed in the end only
            for i in range(rows):
                w.do(f"call void @llvm.prefetch.p0(ptr {self.at(w, '%c', w.multiply(i, '%rc'))}, i32 1, i32 3, i32 1)")
        # many rows are read from several addresses, which LLVM is not to take for one that goes from row to row
        groups = range(0, rows, 3) if rows > ROWS else (0,)
        first = ["%a"]
        for group in groups[1:]:
            start_a = self.at(w, "%a", offsets[group])
            first.append(w.let(f'call ptr asm "", "=r,0"(ptr {start_a})'))
        before = w.current
        outer, head, after = w.label("stretch"), w.label("head"), w.label("after")
        some = w.let(f"and i1 {w.let('icmp sgt i64 %k, 0')}, {w.let('icmp sgt i64 %q, 0')}")
        w.branch(some, outer, "nothing")
        w.start(outer)
        stretch, start_b = w.fresh(), w.fresh()
        base = [w.fresh() for _ in groups]
        begin = {cell: w.fresh() for cell in cells}
        mark_outer = len(w.lines)
        w.go(head)
        w.start(head)
        counter, pb = w.fresh(), w.fresh()
        pa = [w.fresh() for _ in groups]
        sums = {cell: w.fresh() for cell in cells}
        mark = len(w.lines)
        b = [w.load(V, self.at(w, pb, j * self.lanes), f", align {self.align}") for j in range(vectors)]
        following: dict[tuple[int, int], str] = {}
        for i in range(rows):
            spot = self.at(w, pa[i // 3], offsets[i % 3]) if len(groups) > 1 else self.at(w, pa[0], offsets[i])
            number = w.load(self.kind, spot)
            one = w.let(f"insertelement {V} poison, {self.kind} {number}, i64 0")
            spread = w.let(f"shufflevector {V} {one}, {V} poison, <{self.lanes} x i32> zeroinitializer")
            for j in range(vectors):
                product = w.let(f"fmul contract {V} {spread}, {b[j]}")
                following[i, j] = w.let(f"fadd contract {V} {sums[i, j]}, {product}")
        next_a = [self.at(w, pointer, rows if packed else "%ca") for pointer in pa]
        next_b = self.at(w, pb, self.columns if packed else "%rb")
        again = w.let(f"add nuw nsw i64 {counter}, 1")
        w.branch(w.let(f"icmp slt i64 {again}, %k"), head, after, "" if rows * vectors >= 8 else self.plain)
        w.start(after)
        next_base, next_stretch = [self.at(w, b, "%qa") for b in base], w.let(f"add nuw nsw i64 {stretch}, 1")
        end = w.label("end")
        w.branch(w.let(f"icmp slt i64 {next_stretch}, %q"), outer, end, self.plain)
        phis = [
            f"  {counter} = phi i64 [ 0, %{outer} ], [ {again}, %{head} ]",
            *(f"  {p} = phi ptr [ {b}, %{outer} ], [ {n}, %{head} ]" for p, b, n in zip(pa, base, next_a, strict=True)),
            f"  {pb} = phi ptr [ {start_b}, %{outer} ], [ {next_b}, %{head} ]",
            *(f"  {sums[cell]} = phi {V} [ {begin[cell]}, %{outer} ], [ {following[cell]}, %{head} ]" for cell in cells),
        ]
        w.lines[mark:mark] = phis
        w.lines[mark_outer:mark_outer] = [
            f"  {stretch} = phi i64 [ 0, %{before} ], [ {next_stretch}, %{after} ]",
            *(f"  {p} = phi ptr [ {a}, %{before} ], [ {n}, %{after} ]" for p, a, n in zip(base, first, next_base, strict=True)),
            f"  {start_b} = phi ptr [ %b, %{before} ], [ {next_b}, %{after} ]",
            *(f"  {begin[cell]} = phi {V} [ zeroinitializer, %{before} ], [ {following[cell]}, %{after} ]" for cell in cells),
        ]
        w.start("nothing")
        w.go(end)
        w.start(end)
        total = {cell: w.let(f"phi {V} [ {following[cell]}, %{after} ], [ zeroinitializer, %nothing ]") for cell in cells}
        spots = {(i, j): self.at(w, "%c", w.add(w.multiply(i, "%rc"), j * self.lanes)) for i, j in cells}
        plus, put = w.label("plus"), w.label("put")
        w.branch("%add", plus, put)
        for label in (plus, put):
            w.start(label)
            for cell in cells:
                value, spot = total[cell], spots[cell]
                masked = partial and cell[1] == vectors - 1
                if label == plus:
                    if masked:
                        address = f"ptr align {self.align} {spot}"
                        have = w.let(
                            f"call {V} @llvm.masked.load.{self.suffix}.p0({address}, {flags} {mask}, {V} zeroinitializer)"
                        )
                    else:
                        have = w.load(V, spot, f", align {self.align}")
                    value = w.let(f"fadd {V} {have}, {value}")
                if masked:
                    w.do(
                        f"call void @llvm.masked.store.{self.suffix}.p0({V} {value}, ptr align {self.align} {spot},"
                        f" {flags} {mask})"
                    )
                else:
                    w.store(V, value, spot, f", align {self.align}")
            if label == plus:
                w.do("ret void")
        self.end(w)

    def call_tile(self, w: Writer, name: str, *arguments: Any) -> None:
        """q, qa, k, a, ra, ca, b, rb, c, rc, add, n"""
        kinds = ("i64", "i64", "i64", "ptr", "i64", "i64", "ptr", "i64", "ptr", "i64", "i1", "i64")
        listed = ", ".join(f"{kind} {argument}" for kind, argument in zip(kinds, arguments, strict=True))
        w.do(f"call void @tile{name}.{self.kind}({listed})")

    # --- packing

    def pack_b(self) -> None:
        """Columns of b to a panel [k, columns]; missing ones are zeros."""
        w = self.writer("pack_b", "i64 %k, i64 %n, ptr noalias %b, i64 %rb, i64 %cb, ptr noalias %to")
        N, V = self.columns, f"<{self.columns} x {self.kind}>"
        full = w.let(f"icmp eq i64 %n, {N}")
        dense, other, rows, partial, done = (w.label(s) for s in ("dense", "other", "rows", "partial", "done"))
        w.branch(w.let(f"and i1 {full}, {w.let('icmp eq i64 %cb, 1')}"), dense, other)
        w.start(dense)
        with self.loop(w, "%k") as p:
            row = w.load(V, self.at(w, "%b", w.multiply(p, "%rb")), f", align {self.align}")
            w.store(V, row, self.at(w, "%to", w.multiply(p, N)), ", align 64")
        w.go(done)
        w.start(other)
        w.branch(w.let(f"and i1 {full}, {w.let('icmp eq i64 %rb, 1')}"), rows, partial)
        w.start(rows)  # b lies transposed: squares of it are turned in registers
        square = w.let(f"and i64 %k, {-self.lanes}")
        with self.loop(w, square, step=self.lanes) as p:
            for part in range(2):
                self._turned(w, p, part)
        with self.loop(w, "%k", start=square) as p:
            self._row(w, p, N)
        w.go(done)
        w.start(partial)
        masked, single = w.label("masked"), w.label("single")
        w.branch(w.let("icmp eq i64 %cb, 1"), masked, single)
        w.start(masked)
        one = w.let(f"insertelement <{N} x i64> poison, i64 %n, i64 0")
        limit = w.let(f"shufflevector <{N} x i64> {one}, <{N} x i64> poison, <{N} x i32> zeroinitializer")
        mask = w.let(f"icmp slt <{N} x i64> <{', '.join(f'i64 {lane}' for lane in range(N))}>, {limit}")
        with self.loop(w, "%k") as p:
            spot = f"ptr align {self.align} {self.at(w, '%b', w.multiply(p, '%rb'))}"
            name = f"llvm.masked.load.v{N}f{8 * BYTES[self.kind]}.p0"
            row = w.let(f"call {V} @{name}({spot}, <{N} x i1> {mask}, {V} zeroinitializer)")
            w.store(V, row, self.at(w, "%to", w.multiply(p, N)), ", align 64")
        w.go(done)
        w.start(single)
        with self.loop(w, "%k") as p:
            w.store(V, "zeroinitializer", self.at(w, "%to", w.multiply(p, N)), ", align 64")
            self._row(w, p, "%n")
        w.go(done)
        w.start(done)
        self.end(w)

    def _row(self, w: Writer, p: str, count: Any) -> None:
        with self.loop(w, count) as q:
            spot = self.at(w, "%b", w.add(w.multiply(p, "%rb"), w.multiply(q, "%cb")))
            w.store(self.kind, w.load(self.kind, spot), self.at(w, "%to", w.add(w.multiply(p, self.columns), q)))

    def _turned(self, w: Writer, p: str, part: int) -> None:
        """lanes × lanes elements from rows to columns: a perfect shuffle, as many times as lanes has bits."""
        n, V = self.lanes, self.vector
        vectors = [
            w.load(V, self.at(w, "%b", w.add(w.multiply(part * n + r, "%cb"), p)), f", align {self.align}") for r in range(n)
        ]
        low = ", ".join(f"i32 {x}" for i in range(n // 2) for x in (i, i + n))
        high = ", ".join(f"i32 {x}" for i in range(n // 2, n) for x in (i, i + n))
        for _ in range(n.bit_length() - 1):
            mixed = []
            for i in range(n // 2):
                for mask in (low, high):
                    pair = f"{V} {vectors[i]}, {V} {vectors[i + n // 2]}"
                    mixed.append(w.let(f"shufflevector {pair}, <{n} x i32> <{mask}>"))
            vectors = mixed
        for r in range(n):
            spot = self.at(w, "%to", w.add(w.multiply(w.add(p, r), self.columns), part * n))
            w.store(V, vectors[r], spot, f", align {self.align}")

    def pack_rows(self) -> None:
        """Whole panels of a b with dense rows, row by row: memory is read in order, however far rows are apart."""
        w = self.writer("pack_rows", "i64 %k, i64 %n, ptr noalias %b, i64 %rb, ptr noalias %to")
        N, V = self.columns, f"<{self.columns} x {self.kind}>"
        step = w.multiply("%k", N)
        with self.loop(w, "%k") as p:
            row, to = self.at(w, "%b", w.multiply(p, "%rb")), self.at(w, "%to", w.multiply(p, N))
            with self.loop(w, w.quotient("%n", N)) as j:
                part = w.load(V, self.at(w, row, w.multiply(j, N)), f", align {self.align}")
                w.store(V, part, self.at(w, to, w.multiply(j, step)), ", align 64")
        self.end(w)

    def pack_a(self) -> None:
        """Rows of a, tile by tile: [tile, k, rows of the tile]."""
        w = self.writer("pack_a", "i64 %m, i64 %k, ptr noalias %a, i64 %ra, i64 %ca, ptr noalias %to")
        turned, other, rest = w.label("turned"), w.label("other"), w.label("rest")
        whole = w.multiply(w.quotient("%m", ROWS), ROWS)
        tiles = w.quotient("%m", ROWS)
        w.branch(w.let("icmp eq i64 %ra, 1"), turned, other)
        w.start(turned)  # columns are dense: some tiles at a time, so that what is read together is used together
        with self.loop(w, tiles, step=GROUP) as first:
            end = w.smaller(w.add(first, GROUP), tiles)
            with self.loop(w, "%k") as p, self.loop(w, end, start=first) as t:
                spot = self.at(w, "%a", w.add(w.multiply(p, "%ca"), w.multiply(t, ROWS)))
                out = self.at(w, "%to", w.multiply(w.add(w.multiply(t, "%k"), p), ROWS))
                for r in range(ROWS):
                    w.store(self.kind, w.load(self.kind, self.at(w, spot, r)), self.at(w, out, r))
        w.go(rest)
        w.start(other)
        with self.loop(w, tiles) as t:
            tile, to = (
                self.at(w, "%a", w.multiply(w.multiply(t, ROWS), "%ra")),
                self.at(w, "%to", w.multiply(w.multiply(t, ROWS), "%k")),
            )
            with self.loop(w, "%k") as p:
                spot, out = self.at(w, tile, w.multiply(p, "%ca")), self.at(w, to, w.multiply(p, ROWS))
                for r in range(ROWS):
                    w.store(self.kind, w.load(self.kind, self.at(w, spot, w.multiply(r, "%ra"))), self.at(w, out, r))
        w.go(rest)
        w.start(rest)
        rows = w.subtract("%m", whole)
        tile, to = self.at(w, "%a", w.multiply(whole, "%ra")), self.at(w, "%to", w.multiply(whole, "%k"))
        with self.loop(w, "%k") as p, self.loop(w, rows) as r:
            spot = self.at(w, tile, w.add(w.multiply(p, "%ca"), w.multiply(r, "%ra")))
            w.store(self.kind, w.load(self.kind, spot), self.at(w, to, w.add(w.multiply(p, rows), r)))
        self.end(w)
