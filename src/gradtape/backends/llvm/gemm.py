"""Matrix products of our own: c = a·b (or c += a·b) for small and medium matrices, in any layout.

One library for the process, kept on disk like any object code, made of the tiles of `tiles.py`. Panels of b (and, where that
helps, blocks of a) are packed first. Every element of c is one sum in the order of k whatever the size of the whole, so
cutting c among threads changes nothing. Large products are BLAS's. Knows no programs: `products.py` calls `gt_mm_float` and
`gt_mm_double`, for windows `gt_windows_…`.

Matrices are given by the address of their first element and the steps of rows and columns; those of c lie densely in rows.
"""

from __future__ import annotations

import threading
from typing import Any

from gradtape.backends.llvm import blas, machine, threads
from gradtape.backends.llvm.text import Module, Writer
from gradtape.backends.llvm.tiles import MANY_ROWS, ROWS, Tiles

BLOCK_K = 256  # terms of a sum that are added up at a time
BLOCK_M = 120  # rows of a packed block of a
BLOCK_N = 1024  # columns of a packed block of b
WIDE = {1: 8, 2: 4, 3: 4}  # vectors of a tile of few rows: enough sums at a time to keep the units busy
LONG_SUM = 64  # terms of a sum that take longer than to begin with it
SHARE = 1 << 20  # multiplications from which on threads help
LARGE = 8 << 20  # multiplications from which on BLAS is called
SLOTS = 64  # blocks of memory for packing

ENTRY = "i64 %m, i64 %n, i64 %k, ptr %a, i64 %ra, i64 %ca, ptr %b, i64 %rb, i64 %cb, ptr %c, i64 %rc, i1 %add"
WINDOWS = (
    "i64 %p, i64 %pa, i64 %pc, i64 %m, i64 %n, i64 %q, i64 %qa, i64 %qb, i64 %k, ptr %a, i64 %ra, i64 %ca, ptr %b, i64"
    " %rb, i64 %cb,"
    " ptr %c, i64 %rc, i1 %add"
)
WINDOW = 768  # terms of a sum over windows that are added up at a time


class Library(Tiles):
    """The text of all functions for one element type."""

    def write(self) -> None:
        for rows in range(1, MANY_ROWS + 1):
            self.tile(rows, 1, partial=True)
        for rows in range(1, ROWS + 1):
            self.tile(rows, 2, partial=True)
            self.tile(rows, 2)
        self.tile(ROWS, 2, packed=True)
        for rows, vectors in WIDE.items():
            self.tile(rows, vectors)
        self.pack_b()
        self.pack_rows()
        self.pack_a()
        self.panel()
        self.blocked()
        self.few()
        self.dots()
        self.serial()
        self.chunk()
        self.entry()
        self.windows()

    # --- whole products

    def panel(self) -> None:
        """All rows times one panel of columns. `packed`: a is as `pack_a` makes it."""
        sizes, matrices = (
            "i64 %m, i64 %n, i64 %q, i64 %qa, i64 %k",
            "ptr %a, i64 %ra, i64 %ca, i1 %packed, ptr %b, i64 %rb, ptr %c",
        )
        w = self.writer("panel", f"{sizes}, {matrices}, i64 %rc, i1 %add")
        whole = w.let(f"icmp eq i64 %n, {self.columns}")
        single = w.let(f"icmp sle i64 %n, {self.lanes}")
        narrow, usual, done = w.label("narrow"), w.label("usual"), w.label("done")
        w.branch(w.let(f"and i1 {single}, {w.let('xor i1 %packed, true')}"), narrow, usual)
        w.start(narrow)  # a single vector of columns: more rows, so that there are sums enough at a time
        # of long sums, the last rows are halved if they are more than one tile: few rows take as long as some
        long = w.let(f"icmp sge i64 {w.multiply('%q', '%k')}, {LONG_SUM}")
        left = w.let(f"select i1 {long}, i64 {w.larger(w.subtract('%m', ROWS), 0)}, i64 %m")
        full = w.quotient(left, MANY_ROWS)
        rest = w.subtract("%m", w.multiply(full, MANY_ROWS))
        two = w.let(f"icmp sgt i64 {rest}, {MANY_ROWS}")
        half = w.let(f"select i1 {two}, i64 {w.quotient(w.add(rest, 1), 2)}, i64 {rest}")
        some = w.let(f"zext i1 {w.let(f'icmp sgt i64 {rest}, 0')} to i64")
        count = w.add(w.add(full, some), w.let(f"zext i1 {two} to i64"))
        with self.loop(w, count) as number:
            whole_tile = w.let(f"icmp slt i64 {number}, {full}")
            last = w.let(f"icmp sgt i64 {number}, {full}")
            first = w.add(w.multiply(w.smaller(number, full), MANY_ROWS), w.let(f"select i1 {last}, i64 {half}, i64 0"))
            end = w.let(f"select i1 {last}, i64 {w.subtract(rest, half)}, i64 {half}")
            some_rows = w.let(f"select i1 {whole_tile}, i64 {MANY_ROWS}, i64 {end}")
            tile, to = self.at(w, "%a", w.multiply(first, "%ra")), self.at(w, "%c", w.multiply(first, "%rc"))
            after = w.label("computed")
            self._tiles_of(w, some_rows, MANY_ROWS, "1p", (tile, "%ra", "%ca"), to, after)
            w.start(after)
        w.go(done)
        w.start(usual)
        with self.loop(w, "%m", step=ROWS) as i:
            rows = w.smaller(w.subtract("%m", i), ROWS)
            tile = self.at(w, "%a", w.multiply(i, w.let("select i1 %packed, i64 %k, i64 %ra")))
            ra = w.let("select i1 %packed, i64 1, i64 %ra")
            ca = w.let(f"select i1 %packed, i64 {rows}, i64 %ca")
            to = self.at(w, "%c", w.multiply(i, "%rc"))
            sides = {"2": w.label("whole"), "1p": w.label("single"), "2p": w.label("double")}
            best, less, other, after = w.label("best"), w.label("less"), w.label("other"), w.label("computed")
            all_rows = w.let(f"and i1 {whole}, {w.let(f'icmp eq i64 {rows}, {ROWS}')}")
            w.branch(w.let(f"and i1 {all_rows}, %packed"), best, less)
            w.start(best)
            self.call_tile(w, f"{ROWS}.2k", "%q", "%qa", "%k", tile, 1, ROWS, "%b", self.columns, to, "%rc", "%add", "%n")
            w.go(after)
            w.start(less)
            w.branch(whole, sides["2"], other)
            w.start(other)
            w.branch(single, sides["1p"], sides["2p"])
            for form, side in sides.items():
                w.start(side)
                self._tiles_of(w, rows, ROWS, form, (tile, ra, ca), to, after)
            w.start(after)
        w.go(done)
        w.start(done)
        self.end(w)

    def _tiles_of(self, w: Writer, rows: Any, most: int, form: str, a: tuple[str, str, str], to: str, after: str) -> None:
        """The tile of a form with as many rows as there are, then on at `after`."""
        labels = {r: w.label("rows") for r in range(1, most + 1)}
        cases = " ".join(f"i64 {r}, label %{labels[r]}" for r in range(1, most))
        w.do(f"switch i64 {rows}, label %{labels[most]} [ {cases} ]")
        for r, label in labels.items():
            w.start(label)
            self.call_tile(w, f"{r}.{form}", "%q", "%qa", "%k", *a, "%b", "%rb", to, "%rc", "%add", "%n")
            w.go(after)

    def blocked(self) -> None:
        """Four rows or more: blocks of columns, of k, of rows, panels of columns."""
        w = self.writer("blocked", ENTRY)
        N = self.columns
        room = w.cell(self.kind, BLOCK_K * N, 64)
        # packing a pays where many panels read it, or some and its rows are far from dense
        apart = w.let(f"and i1 {w.let('icmp sge i64 %ca, 256')}, {w.let('icmp sge i64 %k, 64')}")
        often = w.let(f"icmp sge i64 %n, {w.let(f'select i1 {apart}, i64 {2 * N}, i64 {8 * N}')}")
        wanted = w.let(f"and i1 {often}, {w.let('icmp sge i64 %k, 16')}")
        slot = w.cell("ptr")
        w.store("ptr", "null", slot)
        with w.when(wanted):
            w.store("ptr", w.let("call ptr @gt.mm.take()"), slot)
        block = w.load("ptr", slot)
        packed = w.let(f"icmp ne ptr {block}, null")
        # panels of b are packed where they are read: all of a block first if several blocks of rows read them; never if one or
        # two tiles do and they are dense
        several = w.let(f"and i1 {packed}, {w.let(f'icmp sgt i64 %m, {BLOCK_M}')}")
        direct = w.let(f"and i1 {w.let('icmp eq i64 %cb, 1')}, {w.let(f'icmp sle i64 %m, {2 * ROWS}')}")
        direct = w.let(f"and i1 {direct}, {w.let(f'xor i1 {packed}, true')}")
        panels = w.at("i8", block, BLOCK_M * BLOCK_K * 8)
        with self.loop(w, "%n", step=BLOCK_N) as first, self.loop(w, "%k", step=BLOCK_K) as p:
            terms = w.smaller(w.subtract("%k", p), BLOCK_K)
            end = w.smaller(w.add(first, BLOCK_N), "%n")
            add = w.let(f"or i1 %add, {w.let(f'icmp ne i64 {p}, 0')}")

            def pack(j: Any, columns: Any, to: str, p: str = p, terms: Any = terms) -> str:
                b = self.at(w, "%b", w.add(w.multiply(p, "%rb"), w.multiply(j, "%cb")))
                return f"call void @pack_b.{self.kind}(i64 {terms}, i64 {columns}, ptr {b}, i64 %rb, i64 %cb, ptr {to})"

            with w.when(several):
                rows_dense = w.let("icmp eq i64 %cb, 1")
                done = w.multiply(w.quotient(w.subtract(end, first), N), N)
                with w.when(rows_dense):
                    b = self.at(w, "%b", w.add(w.multiply(p, "%rb"), first))
                    w.do(f"call void @pack_rows.{self.kind}(i64 {terms}, i64 {done}, ptr {b}, i64 %rb, ptr {panels})")
                left = w.let(f"select i1 {rows_dense}, i64 {w.add(first, done)}, i64 {first}")
                with self.loop(w, end, step=N, start=left) as j:
                    w.do(
                        pack(j, w.smaller(w.subtract("%n", j), N), self.at(w, panels, w.multiply(w.subtract(j, first), terms)))
                    )
            with self.loop(w, "%m", step=BLOCK_M) as i:
                rows = w.smaller(w.subtract("%m", i), BLOCK_M)
                a = self.at(w, "%a", w.add(w.multiply(i, "%ra"), w.multiply(p, "%ca")))
                with w.when(packed):
                    w.do(f"call void @pack_a.{self.kind}(i64 {rows}, i64 {terms}, ptr {a}, i64 %ra, i64 %ca, ptr {block})")
                source = w.let(f"select i1 {packed}, ptr {block}, ptr {a}")
                with self.loop(w, end, step=N, start=first) as j:
                    columns = w.smaller(w.subtract("%n", j), N)
                    b = self.at(w, "%b", w.add(w.multiply(p, "%rb"), w.multiply(j, "%cb")))
                    c = self.at(w, "%c", w.add(w.multiply(i, "%rc"), j))
                    as_it_lies = w.let(f"and i1 {direct}, {w.let(f'icmp eq i64 {columns}, {N}')}")
                    there = w.let(f"or i1 {as_it_lies}, {several}")
                    with w.when(w.let(f"xor i1 {there}, true")):
                        w.do(pack(j, columns, room))
                    ready = self.at(w, panels, w.multiply(w.subtract(j, first), terms))
                    panel = w.let(f"select i1 {several}, ptr {ready}, ptr {room}")
                    panel = w.let(f"select i1 {as_it_lies}, ptr {b}, ptr {panel}")
                    step = w.let(f"select i1 {as_it_lies}, i64 %rb, i64 {N}")
                    w.do(
                        f"call void @panel.{self.kind}(i64 {rows}, i64 {columns}, i64 1, i64 0, i64 {terms}, ptr {source},"
                        f" i64 %ra, i64 %ca, i1 {packed}, ptr {panel}, i64 {step}, ptr {c}, i64 %rc, i1 {add})"
                    )
        with w.when(packed):
            w.do(f"call void @gt.mm.give(ptr {block})")
        self.end(w)

    def few(self) -> None:
        """One to three rows times a dense b: tiles of many columns, b as it lies."""
        w = self.writer("few", ENTRY)
        labels = {r: w.label("rows") for r in WIDE}
        done = w.label("done")
        cases = " ".join(f"i64 {r}, label %{labels[r]}" for r in WIDE)
        w.do(f"switch i64 %m, label %{done} [ {cases} ]")
        for r, vectors in WIDE.items():
            w.start(labels[r])
            wide = vectors * self.lanes
            whole = w.multiply(w.quotient("%n", wide), wide)
            with self.loop(w, whole, step=wide) as j:
                b, c = self.at(w, "%b", j), self.at(w, "%c", j)
                self.call_tile(w, f"{r}.{vectors}", 1, 0, "%k", "%a", "%ra", "%ca", b, "%rb", c, "%rc", "%add", wide)
            rest = w.subtract("%n", whole)
            with w.when(w.let(f"icmp sgt i64 {rest}, 0")):
                b, c = self.at(w, "%b", whole), self.at(w, "%c", whole)
                w.do(
                    f"call void @blocked.{self.kind}(i64 %m, i64 {rest}, i64 %k, ptr %a, i64 %ra, i64 %ca, ptr {b}, i64"
                    f" %rb, i64 1,"
                    f" ptr {c}, i64 %rc, i1 %add)"
                )
            w.go(done)
        w.start(done)
        self.end(w)

    def dots(self) -> None:
        """Rows of a and columns of b that are dense: c[i, j] is the inner product of two vectors; four columns at a time."""
        w = self.writer("dots", ENTRY.replace("i64 %rc", "i64 %rc, i64 %cc"))
        V, n = self.vector, self.lanes
        whole = w.multiply(w.quotient("%k", n), n)
        with self.loop(w, "%m") as i, self.loop(w, "%n", step=4) as j:
            count = w.smaller(w.subtract("%n", j), 4)
            row = self.at(w, "%a", w.multiply(i, "%ra"))
            # beyond the end the last column is computed again
            columns = []
            for q in range(4):
                place = w.add(j, w.smaller(q, w.subtract(count, 1)))
                columns.append(self.at(w, "%b", w.multiply(place, "%cb")))
            cells = [w.cell(V, align=64) for _ in range(4)]
            rests = [w.cell(self.kind) for _ in range(4)]
            for q in range(4):
                w.store(V, "zeroinitializer", cells[q])
                w.store(self.kind, "0.0", rests[q])
            with self.loop(w, whole, step=n) as p:
                x = w.load(V, self.at(w, row, p), f", align {self.align}")
                for q in range(4):
                    y = w.load(V, self.at(w, columns[q], p), f", align {self.align}")
                    product = w.let(f"fmul contract {V} {x}, {y}")
                    w.store(V, w.let(f"fadd contract {V} {w.load(V, cells[q])}, {product}"), cells[q])
            with self.loop(w, "%k", start=whole) as p:
                x = w.load(self.kind, self.at(w, row, p))
                for q in range(4):
                    product = w.let(f"fmul contract {self.kind} {x}, {w.load(self.kind, self.at(w, columns[q], p))}")
                    w.store(self.kind, w.let(f"fadd contract {self.kind} {w.load(self.kind, rests[q])}, {product}"), rests[q])
            for q in range(4):
                lanes = w.let(
                    f"call reassoc {self.kind} @llvm.vector.reduce.fadd.{self.suffix}({self.kind} 0.0, {V}"
                    f" {w.load(V, cells[q])})"
                )
                total = w.let(f"fadd {self.kind} {lanes}, {w.load(self.kind, rests[q])}")
                with w.when(w.let(f"icmp slt i64 {q}, {count}")):
                    spot = self.at(w, "%c", w.add(w.multiply(i, "%rc"), w.multiply(w.add(j, q), "%cc")))
                    more = w.let(f"fadd {self.kind} {w.load(self.kind, spot)}, {total}")
                    w.store(self.kind, w.let(f"select i1 %add, {self.kind} {more}, {self.kind} {total}"), spot)
        self.end(w)

    def serial(self) -> None:
        """One thread, whatever the shapes."""
        w = self.writer("serial", ENTRY)
        done = w.label("done")

        def case(flag: str, call: str) -> None:
            yes, no = w.label("case"), w.label("or")
            w.branch(flag, yes, no)
            w.start(yes)
            w.do(f"call void {call}")
            w.go(done)
            w.start(no)

        def both(*flags: str) -> str:
            found = flags[0]
            for flag in flags[1:]:
                found = w.let(f"and i1 {found}, {flag}")
            return found

        def test(how: str) -> str:
            return w.let(f"icmp {how}")

        turned = "i64 %n, i64 %m, i64 %k, ptr %b, i64 %cb, i64 %rb, ptr %a, i64 %ca, i64 %ra, ptr %c"  # cᵀ = bᵀ·aᵀ
        few, narrow = test("sle i64 %m, 3"), test("sle i64 %n, 3")
        case(both(few, test("eq i64 %cb, 1")), f"@few.{self.kind}({ENTRY})")
        column = both(test("eq i64 %n, 1"), test("eq i64 %rc, 1"), test("eq i64 %ra, 1"))
        case(column, f"@few.{self.kind}({turned}, i64 1, i1 %add)")
        inner = both(test("eq i64 %ca, 1"), test("eq i64 %rb, 1"))
        case(both(inner, narrow), f"@dots.{self.kind}({turned}, i64 1, i64 %rc, i1 %add)")
        case(both(inner, few), f"@dots.{self.kind}({ENTRY.replace('i64 %rc', 'i64 %rc, i64 1')})")
        w.do(f"call void @blocked.{self.kind}({ENTRY})")
        w.go(done)
        w.start(done)
        self.end(w)

    # --- threads

    FIELDS = ("m", "n", "k", "a", "ra", "ca", "b", "rb", "cb", "c", "rc", "add", "rows", "columns", "across")

    def chunk(self) -> None:
        """Some chunks of a product: blocks of `rows` × `columns` of c, `across` of them side by side."""
        w = self.writer("chunk", "ptr %data, i64 %first, i64 %end")
        kinds = {"a": "ptr", "b": "ptr", "c": "ptr", "add": "i1"}
        f = {name: w.load(kinds.get(name, "i64"), w.at("i64", "%data", i)) for i, name in enumerate(self.FIELDS)}
        with self.loop(w, "%end", start="%first") as chunk:
            i = w.multiply(w.quotient(chunk, f["across"]), f["rows"])
            j = w.multiply(w.remainder(chunk, f["across"]), f["columns"])
            rows, columns = (w.smaller(w.subtract(f[x], y), f[z]) for x, y, z in (("m", i, "rows"), ("n", j, "columns")))
            a = self.at(w, f["a"], w.multiply(i, f["ra"]))
            b = self.at(w, f["b"], w.multiply(j, f["cb"]))
            c = self.at(w, f["c"], w.add(w.multiply(i, f["rc"]), j))
            w.do(
                f"call void @serial.{self.kind}(i64 {rows}, i64 {columns}, i64 {f['k']}, ptr {a}, i64 {f['ra']}, i64"
                f" {f['ca']}, ptr {b},"
                f" i64 {f['rb']}, i64 {f['cb']}, ptr {c}, i64 {f['rc']}, i1 {f['add']})"
            )
        self.end(w)

    def entry(self) -> None:
        """The one function that others call: alone, with threads, or BLAS."""
        w = self.writer(f"gt_mm_{self.kind}", ENTRY, visible=True)
        work = w.multiply(w.multiply("%m", "%n"), "%k")
        alone, large, shared, done = (w.label(s) for s in ("alone", "large", "shared", "done"))
        w.branch(w.let(f"icmp slt i64 {work}, {SHARE}"), alone, large)
        w.start(alone)
        w.do(f"call void @serial.{self.kind}({ENTRY})")
        w.go(done)
        w.start(large)
        self._blas(w, work, shared, done)
        w.start(shared)
        # about so much work in each chunk; columns are cut in panels, rows in tiles
        pieces = w.smaller(w.quotient(work, SHARE // 2), 32)
        tall = w.let("icmp sgt i64 %m, %n")

        def cut(size: str, unit: int) -> Any:
            return w.multiply(w.quotient(w.add(w.quotient(w.add(size, w.subtract(pieces, 1)), pieces), unit - 1), unit), unit)

        rows = w.let(f"select i1 {tall}, i64 {cut('%m', 4 * ROWS)}, i64 %m")
        columns = w.let(f"select i1 {tall}, i64 %n, i64 {cut('%n', 2 * self.columns)}")
        across = w.quotient(w.add("%n", w.subtract(columns, 1)), columns)
        down = w.quotient(w.add("%m", w.subtract(rows, 1)), rows)
        data = w.cell("i64", len(self.FIELDS))
        values = {**{name: f"%{name}" for name in self.FIELDS[:12]}, "rows": rows, "columns": columns, "across": across}
        kinds = {"a": "ptr", "b": "ptr", "c": "ptr", "add": "i1"}
        for i, name in enumerate(self.FIELDS):
            w.store(kinds.get(name, "i64"), values[name], w.at("i64", data, i))
        w.do(f"call void @gt_parallel(ptr @chunk.{self.kind}, ptr {data}, i64 {w.multiply(across, down)})")
        w.go(done)
        w.start(done)
        self.end(w)

    def windows(self) -> None:
        """c[p, m, n] = Σ a[p, m, q, k] b[q, k, n] for windows, which may overlap; one thread, b is packed once."""
        w = self.writer(f"gt_windows_{self.kind}", WINDOWS, visible=True)
        N = self.columns
        room = w.cell(self.kind, WINDOW * N, 64)
        most = w.quotient(WINDOW, "%k")  # stretches of k that the room has place for; the caller sees to it that there is one
        blocks = w.quotient(w.add("%q", w.subtract(most, 1)), most)
        with self.loop(w, "%n", step=N) as j, self.loop(w, blocks) as block:
            first = w.multiply(block, most)
            stretches = w.smaller(w.subtract("%q", first), most)
            columns = w.smaller(w.subtract("%n", j), N)
            add = w.let(f"or i1 %add, {w.let(f'icmp ne i64 {block}, 0')}")
            with self.loop(w, stretches) as q:
                b = self.at(w, "%b", w.add(w.multiply(w.add(first, q), "%qb"), w.multiply(j, "%cb")))
                to = self.at(w, room, w.multiply(w.multiply(q, "%k"), N))
                w.do(f"call void @pack_b.{self.kind}(i64 %k, i64 {columns}, ptr {b}, i64 %rb, i64 %cb, ptr {to})")
            with self.loop(w, "%p") as p:
                a = self.at(w, "%a", w.add(w.multiply(p, "%pa"), w.multiply(first, "%qa")))
                c = self.at(w, "%c", w.add(w.multiply(p, "%pc"), j))
                w.do(
                    f"call void @panel.{self.kind}(i64 %m, i64 {columns}, i64 {stretches}, i64 %qa, i64 %k, ptr {a}, i64"
                    f" %ra, i64 %ca,"
                    f" i1 false, ptr {room}, i64 {N}, ptr {c}, i64 %rc, i1 {add})"
                )
        self.end(w)

    def _blas(self, w: Writer, work: Any, shared: str, done: str) -> None:
        """Large products in layouts that BLAS knows: it goes on at `done`, all others at `shared`."""

        def stored(rows: str, columns: str, row: str, column: str) -> tuple[str, str, str]:
            """Whether a matrix is one BLAS knows, whether it lies transposed, and the step between what is dense."""
            plain = w.let(f"and i1 {w.let(f'icmp eq i64 {column}, 1')}, {w.let(f'icmp sge i64 {row}, {columns}')}")
            turned = w.let(f"and i1 {w.let(f'icmp eq i64 {row}, 1')}, {w.let(f'icmp sge i64 {column}, {rows}')}")
            step = w.let(f"select i1 {plain}, i64 {row}, i64 {column}")
            return w.let(f"or i1 {plain}, {turned}"), w.let(f"xor i1 {plain}, true"), step

        good_a, turn_a, step_a = stored("%m", "%k", "%ra", "%ca")
        good_b, turn_b, step_b = stored("%k", "%n", "%rb", "%cb")
        flags = [good_a, good_b, *(w.let(f"icmp sgt i64 {x}, 3") for x in ("%m", "%n")), w.let(f"icmp sge i64 {work}, {LARGE}")]
        all_of = flags[0]
        for flag in flags[1:]:
            all_of = w.let(f"and i1 {all_of}, {flag}")
        call = w.label("blas")
        w.branch(all_of, call, shared)
        w.start(call)
        beta = w.let(f"uitofp i1 %add to {self.kind}")
        w.do(
            f"call void {blas.gemm(self.module, self.kind)}(i1 {turn_a}, i1 {turn_b}, i64 %m, i64 %n, i64 %k, ptr %a, i64"
            f" {step_a},"
            f" ptr %b, i64 {step_b}, {self.kind} {beta}, ptr %c, i64 %rc)"
        )
        w.go(done)


_SCRATCH = f"""
@gt.mm.blocks = internal global [{SLOTS} x ptr] zeroinitializer
@gt.mm.taken = internal global [{SLOTS} x i32] zeroinitializer
declare ptr @aligned_alloc(i64, i64)
declare void @gt_parallel(ptr, ptr, i64)

define internal ptr @gt.mm.take() nounwind {{
start:
  br label %look
look:
  %i = phi i64 [ 0, %start ], [ %next, %other ]
  %flag = getelementptr [{SLOTS} x i32], ptr @gt.mm.taken, i64 0, i64 %i
  %pair = cmpxchg ptr %flag, i32 0, i32 1 seq_cst seq_cst
  %mine = extractvalue {{ i32, i1 }} %pair, 1
  br i1 %mine, label %have, label %other
other:
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, {SLOTS}
  br i1 %more, label %look, label %none
none:
  ret ptr null
have:
  %place = getelementptr [{SLOTS} x ptr], ptr @gt.mm.blocks, i64 0, i64 %i
  %block = load ptr, ptr %place
  %old = icmp ne ptr %block, null
  br i1 %old, label %known, label %make
known:
  ret ptr %block
make:
  %new = call ptr @aligned_alloc(i64 64, i64 {8 * BLOCK_K * (BLOCK_M + BLOCK_N)})
  store ptr %new, ptr %place
  %good = icmp ne ptr %new, null
  br i1 %good, label %given, label %free
free:
  store atomic i32 0, ptr %flag seq_cst, align 4
  ret ptr null
given:
  ret ptr %new
}}

define internal void @gt.mm.give(ptr %block) nounwind {{
start:
  br label %look
look:
  %i = phi i64 [ 0, %start ], [ %next, %other ]
  %place = getelementptr [{SLOTS} x ptr], ptr @gt.mm.blocks, i64 0, i64 %i
  %have = load ptr, ptr %place
  %mine = icmp eq ptr %have, %block
  br i1 %mine, label %found, label %other
other:
  %next = add i64 %i, 1
  br label %look
found:
  %flag = getelementptr [{SLOTS} x i32], ptr @gt.mm.taken, i64 0, i64 %i
  store atomic i32 0, ptr %flag seq_cst, align 4
  ret void
}}
"""


def text(kind: str, vector: int) -> str:
    """The IR of the library for one element type, for vectors of so many bytes."""
    module = Module()
    Library(module, kind, vector).write()
    return _SCRATCH + str(module)


_LOCK = threading.Lock()
machine.held_by_forks(_LOCK.acquire, _LOCK.release)
_STATE: dict[str, Any] = {}


def function(module: Module, kind: str) -> str:
    """The product of matrices of one element type, for native code to call: see `ENTRY`."""
    with _LOCK:
        if kind not in _STATE:
            threads.pool()
            blas.source()
            library = _STATE[kind] = machine.Library(text(kind, machine.vector_bytes()), level=2)
            for name in (f"gt_mm_{kind}", f"gt_windows_{kind}"):
                machine.symbol(name, library.address(name))
    return module.declare(f"gt_mm_{kind}", "void (i64, i64, i64, ptr, i64, i64, ptr, i64, i64, ptr, i64, i1)")


def windows(module: Module, kind: str) -> str:
    """Sums of products over windows: see `WINDOWS`."""
    function(module, kind)
    types = ", ".join(part.split()[0] for part in WINDOWS.split(", "))
    return module.declare(f"gt_windows_{kind}", f"void ({types})")
