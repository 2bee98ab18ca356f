"""Kernels: loop nests that compute the elements of their roots, and fold those of their reductions.

Elements are asked of `Scope.element`, which writes the whole recipe where it is needed. A nest over arrays of one shape is a
single loop; a fold over the last axes keeps its value in a register, over others in memory. Phases of a kernel run one after
the other inside shared outer loops (`grouping.py`). A kernel with enough work is a function over chunks of its outermost loop,
which threads run; long sums are made of blocks, so that they lose no more digits than pairwise ones.

One invariant: what a phase reads and what it writes never overlaps, and LLVM is told so.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from gradtape.backends.llvm.kernels import joining
from gradtape.backends.llvm.kernels.folding import Folding, finished, folding, leave, only, prepare, start, step
from gradtape.backends.llvm.kernels.parallel import shared
from gradtape.backends.llvm.kernels.scope import Scope
from gradtape.backends.llvm.planning import nests
from gradtape.backends.llvm.planning.grouping import Kernel, Phase
from gradtape.backends.llvm.planning.nests import Access, Level, loops, rolled
from gradtape.backends.llvm.planning.values import Array, Flat, Lazy, MemorySlot, Place, Scalar
from gradtape.backends.llvm.runtime.notes import Note
from gradtape.backends.llvm.writing.element_types import MEMORY, bytes_of, name_of
from gradtape.backends.llvm.writing.ir_text import Index
from gradtape.ir.graph import Operation, Value
from gradtape.ops.shape import TRANSPOSE

BLOCK = 4096  # elements of a sum that are added up before the result is added to the whole
WORTH = 400_000  # units of work from which on a kernel is cut into chunks: some 20 µs
CHUNK = 100_000  # units of work in a chunk, at least
MOST = 64  # chunks
TILE = 32  # rows and columns of the squares in which arrays are read that lie transposed
SHORT = 128  # iterations of an innermost loop that a chunk has at least
NARROW = 4  # elements of a last axis that is written out, so that the loop around it is the one that uses vectors
WIDE = 8  # iterations of that loop, at least
WRITTEN = 300  # operations that are written out for it, or written several times, at most
COSTLY = 8  # the cost of an operation that is a mathematical function
LONG = 4096  # iterations of a loop that may have more code
SMALL = 1 << 15  # bytes of a row that is kept for one iteration only


def write_kernel(scope: Scope, kernel: Kernel) -> None:
    """The code of a kernel; its roots have values afterwards."""
    for root in kernel.roots:
        for leaf in scope.plan.leaves(root):
            # numbers (rank 0) that the loops read are computed in front of them
            scope.early(leaf)
        scope.prepare_parts(root)
    Nest(scope, kernel).write()


def fill(scope: Scope, value: Value, home: Array) -> None:
    """The elements of a recipe, to memory."""
    w = scope.writer
    lowered = scope.find(value)
    flat = isinstance(lowered, Lazy) and is_flat(scope, lowered.operation, tuple(value.type.shape))
    # one long loop where every operand lies like the result: no index has to be put together
    dims = [w.product(home.dims)] if flat else list(home.dims)

    with Access(scope) as access:

        def body(place: Sequence[Index]) -> None:
            at: Place = Flat(place[0]) if flat else tuple(place)
            scope.store(scope.element(value, at), home, at, access.writing)

        loops(scope, dims, body, access)


class Nest:
    """One kernel while its code is written."""

    def __init__(self, scope: Scope, kernel: Kernel) -> None:
        self.scope = scope
        self.kernel = kernel
        self.prefix = kernel.prefix if len(kernel.phases) > 1 else 0
        self.dims = [scope.program.dims(phase.space) for phase in kernel.phases]
        first = kernel.phases[0]
        # phases that share outer loops need those as loops
        self.flat = not self.prefix and all(is_flat(scope, root, first.space) for root in first.roots)
        self.tail = 0 if self.flat or self.prefix else self._narrow(first)  # of the last axis, if that is written out
        self.homes: dict[Operation, Array] = {}
        self.slots: list[MemorySlot] = []  # memory of single iterations
        self.axis = 0  # the loop that chunks are cut from

    # --- the whole

    def write(self) -> None:
        scope, kernel = self.scope, self.kernel
        private = scope.plan.private
        roots = kernel.roots
        self.folds = {root: folding(scope, root, self.tail) for root in roots if scope.plan.kinds[root] == "reduce"}
        self.kept: list[Operation] = []  # roots whose memory is that of one iteration
        self.passing: set[Operation] = set()  # roots that only their own phase reads: no memory at all
        for root in roots:
            # a number needs no memory: it is a register after the loops
            if not len(root.result.type.shape):
                continue
            if root.op is joining.PIECE:
                self.homes[root] = joining.piece_home(scope, root)
            # somebody outside of this kernel reads it
            elif private.get(root) is not kernel:
                self.homes[root] = scope.room(root.result)
            # one nest and read at its own index only: the element is still in a register
            elif not self.prefix and root not in self.folds:
                self.passing.add(root)
            elif self._row(root) is None:
                self.homes[root] = scope.room(root.result)
            else:
                self.kept.append(root)
        # asked before code is written: what threads run becomes a function of its own
        chunks = self._chunks()
        words = ("flat" * self.flat, f"{len(kernel.phases)} phases" if self.prefix else "", "threads" if chunks else "")
        detail = " ".join(filter(None, words))
        scope.program.notes.append(Note("kernel", tuple(names_of(scope, roots)), roots[0].loc, detail))
        for fold in self._closed_folds():
            # a cell and not a register: the loops may be in another function, which threads run (`_in_chunks`)
            fold.result = scope.writer.cell(fold.kind)
        self._whole(chunks)
        for root, home in self.homes.items():
            scope.values[root.result] = home
        for fold in self._closed_folds():
            self._result(fold, scope.writer.load(fold.kind, fold.result))
        for slot in self.slots:
            scope.give(slot)

    def _whole(self, chunks: tuple[Index, Index] | None) -> None:
        """All loops; closed folds leave their results in cells."""
        scope, w = self.scope, self.scope.writer
        for fold in self._open_folds():
            # before all loops, as each iteration adds to what is there
            nests.fill(scope, fold, self.homes[fold.operation])
        if chunks is None or not self._in_chunks(*chunks):
            self.axis = 0
            self._prepare(None)
            with self._level():
                self._run(0, self._sizes()[0] if self._sizes() else 1)
            for fold in self._closed_folds():
                w.store(fold.kind, only(scope, fold), fold.result)
        for fold in self._open_folds():
            nests.finish(scope, fold, self.homes[fold.operation])

    def _open_folds(self) -> list[Folding]:
        """Folds over outer axes into memory, made ready before all loops and finished after them."""
        return [fold for fold in self.folds.values() if fold.in_memory and not self.prefix]

    def _closed_folds(self) -> list[Folding]:
        """Folds of everything to a single register."""
        return [fold for fold in self.folds.values() if fold.closed]

    def _result(self, fold: Folding, register: str) -> None:
        result, register = fold.operation.result, finished(self.scope, fold, register)
        if fold.rank:
            self.scope.store(register, self.homes[fold.operation], Flat(0))
        else:
            self.scope.values[result] = Scalar(register, result.type.dtype)

    def _row(self, root: Operation) -> int | None:
        """The bytes of a root's part in one iteration of the outer loops; None if it is large or not known."""
        shape = tuple(root.result.type.shape)
        # its part of an iteration is reused by the next one, so its size has to be known when the code is written
        if not self.prefix or len(shape) < self.prefix or not all(isinstance(n, int) for n in shape[self.prefix :]):
            return None
        total = bytes_of(root.result.type.dtype) * prod(shape[self.prefix :])
        return total if total <= SMALL else None

    def _prepare(self, chunk: Index | None) -> None:
        """Cells of folds and memory for single iterations, in the function that is being written."""
        scope, w = self.scope, self.scope.writer
        for fold in self.folds.values():
            prepare(scope, fold)
        for root in self.kept:
            row = self._row(root)
            assert row is not None
            if chunk is None:
                slot = scope.take(row)
                self.slots.append(slot)
                address = slot.address
            else:
                # each thread has its own; 64: a cache line, which two threads must not share
                address = w.cell("i8", max(row, 1), 64)
            scope.values[root.result] = Array(address, scope.dims(root.result), root.result.type.dtype, self.prefix)
        for fold in self._closed_folds():
            start(scope, fold)
        for root, home in self.homes.items():
            scope.values[root.result] = home

    def _level(self) -> Any:
        return Level(self.scope)

    # --- chunks

    def _chunks(self) -> tuple[Index, Index] | None:
        """How many chunks, and how many iterations of the loop over `self.axis` in each; None if one thread is enough."""
        scope, w = self.scope, self.scope.writer
        axis = self._cut_axis()
        if axis is None:
            return None
        self.axis = axis
        # (4: what a loop and a store cost by themselves)
        unit = 4 + sum(scope.plan.work(root) for root in self.kernel.roots)  # of work, for each element of the first space
        total, outer = w.product(self.dims[0]), self._sizes()[axis]
        most = MOST
        for fold in self._cut_folds():
            if not fold.closed:  # each chunk has memory of its own for the result
                size = w.product(self.homes[fold.operation].dims)
                # the parts are folded once more at the end: that must be little beside the work itself
                if not isinstance(size, int) or not isinstance(total, int) or size * 16 > total:
                    return None
                most = 8
        if not isinstance(total, int) or not isinstance(outer, int):
            # in a loop's body the question would be asked in each turn
            return None if scope.block.layout else self._chunks_at_run_time(total, outer, unit, most)
        if total * unit < WORTH:
            return None
        count = max(1, min(most, total * unit // CHUNK, outer))
        if axis == len(self._sizes()) - 1 and not self.flat:
            # the innermost loop is the one that vectors run along: pieces of it must not get short
            count = max(1, min(count, outer // SHORT))
        size = -(-outer // count)
        if self.flat:
            # chunks end where blocks of a sum end
            size = -(-size // BLOCK) * BLOCK
        return (-(-outer // size), size) if size < outer else None

    def _chunks_at_run_time(self, total: Index, outer: Index, unit: int, most: int) -> tuple[Index, Index]:
        w = self.scope.writer
        work = w.multiply(total, unit)
        pieces = w.smaller(w.smaller(w.quotient(work, CHUNK), most), outer)
        enough = w.let(f"icmp sge i64 {work}, {WORTH}")
        pieces = w.larger(w.let(f"select i1 {enough}, i64 {pieces}, i64 1"), 1)
        size = w.larger(w.quotient(w.add(outer, w.subtract(pieces, 1)), pieces), 1)
        if self.flat:
            size = w.multiply(w.quotient(w.add(size, BLOCK - 1), BLOCK), BLOCK)
        return w.quotient(w.add(outer, w.subtract(size, 1)), size), size

    def _sizes(self) -> list[Index]:
        """The loops of the first phase."""
        dims = self.dims[0]
        return [self.scope.writer.product(dims)] if self.flat else self._loops_of(dims)

    def _loops_of(self, dims: Sequence[Index]) -> list[Index]:
        """The axes that are loops."""
        return list(dims[: len(dims) - (self.tail > 0)])

    def _narrow(self, phase: Phase) -> int:
        """The size of the last axis if it is better written out: it is narrow, the one before it is not, a fold keeps it.

        The loop over the other one uses vectors then, and the fold keeps its values in registers.
        """
        plan = self.scope.plan
        if len(phase.space) < 2:
            return 0
        before, last = phase.space[-2:]
        if not isinstance(last, int) or not 1 < last <= NARROW or (isinstance(before, int) and before < WIDE):
            return 0
        folds = [plan.table.axes(root) for root in phase.roots if plan.kinds[root] == "reduce"]
        parts = set().union(*(plan.parts(root) for root in phase.roots))
        if all(len(phase.space) - 1 in axes for axes in folds) or len(parts) * last > WRITTEN:
            return 0
        return last

    def _cut_axis(self) -> int | None:
        """The loop that chunks are cut from: best one that nothing is folded over, and as far outside as there is enough."""
        sizes = self._sizes()
        allowed = range(self.prefix or len(sizes))
        # what is folded element after element, in order, cannot be cut along its axes
        ordered = {
            axis for fold in self.folds.values() if fold.rule.ordered for axis in (allowed if fold.closed else fold.axes)
        }
        folded = {axis for fold in self.folds.values() for axis in (allowed if fold.closed else fold.axes)}
        # by the sizes alone, never by the number of threads: a sum cut elsewhere would round differently on another machine
        possible = [axis for axis in allowed if sizes[axis] != 1 and axis not in ordered]
        last = len(sizes) - 1

        def known(axis: int) -> int:
            size = sizes[axis]
            return size if isinstance(size, int) else 1 << 20

        def enough(axis: int) -> bool:
            return known(axis) >= (8 if axis != last or self.flat else 2 * SHORT)

        for group in ([axis for axis in possible if axis not in folded], possible):
            good = [axis for axis in group if enough(axis)]
            if good:
                return good[0]
        return max(possible, key=known, default=None)

    def _cut_folds(self) -> list[Folding]:
        """Folds of which each chunk computes a part."""
        return [fold for fold in self.folds.values() if fold.closed or (self.axis in fold.axes and not self.prefix)]

    def _in_chunks(self, count: Index, size: Index) -> bool:
        """The kernel as a function over chunks, which threads run; False if it cannot be one."""
        scope, w = self.scope, self.scope.writer
        outer = self._sizes()[self.axis]
        closed, open_ = ([fold for fold in self._cut_folds() if fold.closed is flag] for flag in (True, False))
        parts: dict[Operation, Any] = {}
        for fold in (*closed, *open_):
            # a part of the result for each chunk: threads never write to one place
            elements = 1 if fold.closed else w.product(self.homes[fold.operation].dims)
            most = count if isinstance(count, int) else MOST
            parts[fold.operation] = (scope.take(w.multiply(w.multiply(most, elements), bytes_of(fold.dtype))), elements)

        def some(begin: str, end: str) -> None:
            with w.loop(end, start=begin) as chunk:
                self._prepare(chunk)
                for fold in open_:
                    slot, elements = parts[fold.operation]
                    home = self.homes[fold.operation]
                    address = w.at(MEMORY[name_of(fold.dtype)], slot.address, w.multiply(chunk, elements))
                    fold.home = Array(address, home.dims, home.dtype)
                    nests.fill(scope, fold, fold.home)
                first = w.multiply(chunk, size)
                with self._level():
                    self._run(first, w.smaller(w.add(first, size), outer))
                for fold in closed:
                    slot, _ = parts[fold.operation]
                    folded = scope.to_memory(only(scope, fold), fold.dtype)
                    w.store(MEMORY[name_of(fold.dtype)], folded, w.at(MEMORY[name_of(fold.dtype)], slot.address, chunk))

        # False if the code uses something that a function of its own cannot have: then it is written here
        moved = shared(scope, count, some)
        for fold in open_:
            fold.home = self.homes[fold.operation]
            if moved and not fold.in_memory:
                nests.fill(scope, fold, fold.home)
        for fold in (*closed, *open_) if moved else ():
            self._combine(fold, parts[fold.operation][0].address, parts[fold.operation][1], count)
        for slot, _ in parts.values():
            scope.give(slot)
        return moved

    def _combine(self, fold: Folding, parts: str, elements: Index, count: Index) -> None:
        """The results of all chunks, in order."""
        scope, w = self.scope, self.scope.writer
        kind = MEMORY[name_of(fold.dtype)]
        if fold.closed:
            prepare(scope, fold)
            start(scope, fold)
            with w.loop(count) as chunk:
                step(scope, fold, scope.from_memory(w.load(kind, w.at(kind, parts, chunk)), fold.dtype))
            w.store(fold.kind, only(scope, fold), fold.result)
            return
        home = self.homes[fold.operation]
        with Access(scope) as access, w.loop(count, extra=rolled(scope, count, elements)) as chunk:
            base = w.at(kind, parts, w.multiply(chunk, elements))
            with w.loop(elements, extra=access.loop(elements)) as i:
                spot = w.at(kind, home.address, i)
                have = scope.from_memory(w.load(kind, spot, access.writing), fold.dtype)
                more = scope.from_memory(w.load(kind, w.at(kind, base, i), access.reading), fold.dtype)
                total = fold.rule.combine(scope, fold.operation, have, more)
                w.store(kind, scope.to_memory(total, fold.dtype), spot, access.writing)

    # --- loops

    def _run(self, first: Index, end: Index) -> None:
        """The loops, of the outermost one the iterations from `first` to `end`."""
        if not self.prefix:
            self._phase(self.kernel.phases[0], self.dims[0], [], (first, end))
            return
        place: list[Index] = []

        def level(d: int) -> None:
            if d == self.prefix:
                for phase, dims in zip(self.kernel.phases, self.dims, strict=True):
                    self._phase(phase, dims, place, None)
                return
            start, stop = (first, end) if d == self.axis else (0, self.dims[0][d])
            with self.scope.writer.loop(stop, start=start, extra=rolled(self.scope, stop, 1 << 10)) as counter, self._level():
                place.append(counter)
                level(d + 1)
                place.pop()

        level(0)

    def _phase(self, phase: Phase, dims: Sequence[Index], outer: Sequence[Index], span: tuple[Index, Index] | None) -> None:
        """The nest of one phase inside outer loops."""
        scope, w = self.scope, self.scope.writer
        folds = [self.folds[root] for root in phase.roots if root in self.folds]
        with Access(scope) as access:
            for fold in folds:
                if fold.in_memory and self.prefix:
                    nests.fill(scope, fold, self._place_of(fold), outer)

            def body(place: Sequence[Index]) -> None:
                for lane in range(self.tail):
                    element((*place, lane), lane)
                if not self.tail:
                    element(Flat(place[0]) if self.flat else tuple(place), 0)

            def element(at: Place, lane: int) -> None:
                for root in phase.roots:
                    if root in self.folds:
                        step(scope, self.folds[root], scope.element(root.operands[0], at), lane)
                        continue
                    register = scope.computed_element(root, at)
                    scope.know(root.result, at, register)
                    if root in self.passing:
                        continue
                    target = scope.values[root.result]
                    assert isinstance(target, Array)
                    scope.store(register, target, at, access.writing)

            nest = [w.product(dims)] if self.flat else self._loops_of(dims)
            turned = None if self.flat or self.prefix or folds else self._turned_axis(phase)
            if turned is None:
                self._loops(phase, nest, list(outer), folds, access, body, span)
            else:
                self._tiles(nest, turned, access, body, span or (0, nest[0]))
            for fold in folds:
                if fold.in_memory and self.prefix:
                    nests.finish(scope, fold, self._place_of(fold), outer)

    def _turned_axis(self, phase: Phase) -> int | None:
        """The axis along which a large array that is read transposed is dense, if there is one."""
        plan, rank = self.scope.plan, len(phase.space)
        sizes = [n if isinstance(n, int) else 1 << 10 for n in phase.space]
        if rank < 2 or (self.scope.block.layout and any(not isinstance(n, int) for n in phase.space)):
            return None
        for part in {part for root in phase.roots for part in plan.parts(root)}:
            if part.op is TRANSPOSE and tuple(part.result.type.shape) == tuple(phase.space):
                perm = part.attrs["perm"]
                axis = perm.index(rank - 1) if perm else rank - 1
                if axis != rank - 1 and min(sizes[axis], sizes[-1]) >= 2 * TILE:
                    return int(axis)
        return None

    def _tiles(self, dims: Sequence[Index], turned: int, access: Access, body: Any, span: tuple[Index, Index]) -> None:
        """Squares of two axes, so that lines of memory that are read across are still near when they are needed again."""
        scope, w = self.scope, self.scope.writer
        last = len(dims) - 1
        ends = [span if d == self.axis else (0, dims[d]) for d in range(len(dims))]
        place: dict[int, Index] = {}
        rest = [d for d in range(last) if d != turned]

        def level(k: int) -> None:
            if k < len(rest):
                d = rest[k]
                with w.loop(ends[d][1], start=ends[d][0], extra=rolled(scope, dims[d], TILE)) as counter, self._level():
                    place[d] = counter
                    level(k + 1)
                return
            (low, high), (start, stop) = ends[turned], ends[last]
            plain = rolled(scope, TILE, TILE)
            with (
                w.loop(high, step=TILE, start=low, extra=plain) as i0,
                w.loop(stop, step=TILE, start=start, extra=plain) as j0,
                w.loop(w.smaller(w.add(i0, TILE), high), start=i0, extra=plain) as i,
                w.loop(w.smaller(w.add(j0, TILE), stop), start=j0, extra=access.loop()) as j,
                self._level(),
            ):
                place[turned], place[last] = i, j
                body(tuple([place[d] for d in range(len(dims))]))

        level(0)

    def _place_of(self, fold: Folding) -> Array:
        memory = self.scope.values[fold.operation.result] if fold.home is None else fold.home
        assert isinstance(memory, Array)
        return memory

    def _together(self, phase: Phase, count: Index) -> int:
        """How many vectors are computed side by side; 0: as many as LLVM thinks.

        A mathematical function is a long chain of instructions that wait for each other, and LLVM counts registers only.
        """
        plan = self.scope.plan
        costs = [plan.table.cost(part) for part in set().union(*(plan.parts(root) for root in phase.roots))]
        if max(costs) < COSTLY or sum(costs) > 2 * WRITTEN or (isinstance(count, int) and count < SHORT):
            return 0
        return 4 if isinstance(count, int) and count >= LONG and sum(costs) <= WRITTEN else 2

    def _loops(
        self, phase: Phase, dims: Sequence[Index], place: list[Index], folds: Sequence[Folding], access: Access, body: Any,
        span: tuple[Index, Index] | None,
    ) -> None:  # fmt: skip
        scope, w = self.scope, self.scope.writer
        depth = len(place)

        def level(d: int) -> None:
            for fold in folds:
                if fold.depth == d and not fold.closed:
                    start(scope, fold)
            if d == len(dims):
                body(tuple(place))
            else:
                first, stop = span if span is not None and d == self.axis else (0, dims[d])
                sums = [fold for fold in folds if fold.depth <= d and fold.rule.blocked] if d == len(dims) - 1 else []
                if sums and not (isinstance(size := dims[d], int) and size <= 2 * BLOCK):
                    in_blocks(first, stop, sums, d)
                else:
                    inner(first, stop, d)
            for fold in folds:
                if fold.depth == d and not fold.closed:
                    leave(scope, fold, self._place_of(fold), place, access)

        def inner(first: Index, stop: Index, d: int) -> None:
            last = d == len(dims) - 1
            if last:
                extra = access.loop(dims[d], whole=self.tail > 0, together=self._together(phase, dims[d]))
            else:
                extra = rolled(scope, dims[d], w.product(dims[d + 1 :]))
            with w.loop(stop, start=first, extra=extra) as counter, self._level():
                place.append(counter)
                level(d + 1)
                place.pop()

        def in_blocks(first: Index, stop: Index, sums: Sequence[Folding], d: int) -> None:
            """Each block is added up by itself, then to the whole."""
            totals = [fold.cells for fold in sums]
            with w.loop(stop, step=BLOCK, start=first, extra=rolled(scope, stop, 1)) as block:
                for fold in sums:
                    prepare(scope, fold)
                    start(scope, fold)
                inner(block, w.smaller(w.add(block, BLOCK), stop), d)
                for fold, total in zip(sums, totals, strict=True):
                    parts, fold.cells = [w.load(fold.kind, cell) for cell in fold.cells], total
                    for lane, part in enumerate(parts):
                        step(scope, fold, part, lane)

        level(depth)


def is_flat(scope: Scope, operation: Operation, space: tuple[Any, ...]) -> bool:
    """Whether element i of the whole needs only elements i of arrays of the same number of elements, and scalars."""
    table = scope.program.tables.lowerings
    if scope.plan.kinds.get(operation) == "reduce":
        if len(table.axes(operation)) != len(operation.operands[0].type.shape):
            return False
        stack = list(operation.operands[:1])
    else:
        if not table[operation.op].pointwise(operation) or (operation.op is joining.PIECE and not joining.is_dense(operation)):
            return False
        stack = list(operation.operands)
    seen = set()
    while stack:
        value = stack.pop()
        shape = tuple(value.type.shape)
        if value in seen or (all(n.__class__ is int and n == 1 for n in shape) and shape != space):
            continue
        seen.add(value)
        if shape != space:
            return False
        lowered = scope.find(value)
        if isinstance(lowered, Lazy):
            if not table[lowered.operation.op].pointwise(lowered.operation):
                return False
            stack += lowered.operation.operands
    return True


def names_of(scope: Scope, roots: Sequence[Operation]) -> list[str]:
    """The ops a kernel computes, in the order of the program."""
    reached: dict[Operation, None] = {}
    stack = list(roots)
    while stack:
        operation = stack.pop()
        if operation in reached:
            continue
        reached[operation] = None
        stack += [v.producer for v in operation.operands if scope.plan.is_lazy(v) and v.producer is not None]
    return [operation.op.name for operation in sorted(reached, key=lambda o: scope.plan.at.get(o, -1))]


__all__ = ["Access", "fill", "loops", "rolled", "write_kernel"]
