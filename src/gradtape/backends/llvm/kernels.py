"""Kernels: one loop nest that computes the elements of its roots, and folds those of its reductions.

Elements are asked of `Scope.element`, which writes the whole recipe where it is needed. A nest over arrays of one shape is a
single loop; a fold over the last axes keeps its value in a register, over others in memory. What is read and what is written
never overlaps inside a kernel, and LLVM is told so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gradtape.backends.llvm.plan import Kernel
from gradtape.backends.llvm.scope import Note, Scope
from gradtape.backends.llvm.text import Index
from gradtape.backends.llvm.types import MEMORY, REGISTER, name_of
from gradtape.backends.llvm.values import Array, Flat, Lazy, Place, Scalar
from gradtape.ir.graph import Operation, Value


@dataclass(slots=True)
class Folding:
    """A reduction in a kernel: where its value is while the loops run."""

    operation: Operation
    rule: Any  # reductions.Fold
    source: Value
    axes: tuple[int, ...]
    depth: int  # loops from this one on fold into the cell
    cell: str
    kept: list[int]  # axes of the source that the result has, in order
    home: Array | None  # None for a result of rank 0
    in_memory: bool  # other axes are folded too: the cell's value is folded into `home`


def write_kernel(scope: Scope, kernel: Kernel) -> None:
    """The code of a kernel; its roots have values afterwards."""
    w, program = scope.writer, scope.program
    dims = program.dims(kernel.space)
    flat = all(_is_flat(scope, root, kernel.space) for root in kernel.roots)
    foldings: list[Folding] = []
    outputs: list[tuple[Operation, Array]] = []
    for root in kernel.roots:
        if scope.plan.kinds[root] == "reduce":
            foldings.append(_folding(scope, root, len(dims), flat))
        else:
            outputs.append((root, scope.room(root.result)))
    program.notes.append(Note("kernel", tuple(_names(scope, kernel.roots)), kernel.roots[0].loc, "flat" if flat else ""))
    with Access(scope) as access:
        for fold in foldings:
            if fold.in_memory:
                _start(scope, fold, access)
        nest = [w.product(dims)] if flat else list(dims)

        def body(place: tuple[Index, ...]) -> None:
            at: Place = Flat(place[0]) if flat else place
            for root in kernel.roots:
                for operation, home in outputs:
                    if operation is root:
                        register = program.tables.element[root.op.name](scope, root, at)
                        scope.know(root.result, at, register)
                        scope.store(register, home, at, access.writing)
                for fold in foldings:
                    if fold.operation is root:
                        _step(scope, fold, scope.element(fold.source, at))

        _nest(scope, nest, foldings, access, body)
        for fold in foldings:
            if fold.in_memory:
                _end(scope, fold, access)
    for operation, home in outputs:
        scope.values[operation.result] = home
    for fold in foldings:
        result = fold.operation.result
        if fold.home is None:
            register = w.load(REGISTER[name_of(result.type.dtype)], fold.cell)
            scope.values[result] = Scalar(_finished(scope, fold, register), result.type.dtype)
        else:
            scope.values[result] = fold.home


def fill(scope: Scope, value: Value, home: Array) -> None:
    """The elements of a recipe, to memory."""
    w = scope.writer
    flat = isinstance(scope.values[value], Lazy) and _is_flat(scope, value.producer, tuple(value.type.shape))  # type: ignore[arg-type]
    with Access(scope) as access:
        nest = [w.product(home.dims)] if flat else list(home.dims)

        def body(place: tuple[Index, ...]) -> None:
            at: Place = Flat(place[0]) if flat else place
            scope.store(scope.element(value, at), home, at, access.writing)

        _nest(scope, nest, [], access, body)


class Access:
    """Metadata of one kernel: what it reads and what it writes are different memory, and iterations are independent."""

    def __init__(self, scope: Scope) -> None:
        module = scope.program.module
        self.scope = scope
        self.group = module.metadata("distinct !{}".replace("{}", "{ }"))
        domain = module.metadata("distinct !{ {} }".replace("{ {} }", "{{}}"))
        read = module.metadata(f"distinct !{{{{}}, {domain}}}")
        written = module.metadata(f"distinct !{{{{}}, {domain}}}")
        self.reads = module.metadata(f"!{{{read}}}")
        self.writes = module.metadata(f"!{{{written}}}")
        self.reading = f", !llvm.access.group {self.group}, !alias.scope {self.reads}, !noalias {self.writes}"
        self.writing = f", !llvm.access.group {self.group}, !alias.scope {self.writes}, !noalias {self.reads}"

    def __enter__(self) -> Access:
        scope = self.scope
        for names in (self.reads, self.writes):
            scope.writer.do(f"call void @llvm.experimental.noalias.scope.decl(metadata {names})")
        scope.enter()
        self._before, scope.access = scope.access, self.reading
        return self

    def __exit__(self, *ignored: Any) -> None:
        self.scope.leave()
        self.scope.access = self._before

    def loop(self) -> str:
        """Metadata for the branch back of an innermost loop."""
        module = self.scope.program.module
        parallel = module.metadata(f'!{{!"llvm.loop.parallel_accesses", {self.group}}}')
        return f", !llvm.loop {module.metadata(f'distinct !{{{{}}, {parallel}}}')}"


def _nest(scope: Scope, dims: Sequence[Index], foldings: Sequence[Folding], access: Access, body: Any) -> None:
    w = scope.writer
    place: list[Index] = []

    def level(d: int) -> None:
        for fold in foldings:
            if fold.depth == d:
                w.store(REGISTER[name_of(fold.operation.result.type.dtype)], fold.rule.start(fold.operation), fold.cell)
        if d == len(dims):
            body(tuple(place))
        else:
            last = d == len(dims) - 1
            with w.loop(dims[d], extra=access.loop() if last else "") as counter:
                scope.enter()
                place.append(counter)
                level(d + 1)
                place.pop()
                scope.leave()
        for fold in foldings:
            if fold.depth == d and fold.home is not None:
                _leave(scope, fold, place, access)

    level(0)


def _folding(scope: Scope, root: Operation, rank: int, flat: bool) -> Folding:
    result = root.result
    rule = scope.program.tables.reduce[root.op.name]
    axes = rule.axes(root)
    trailing = 0
    while rank - 1 - trailing in axes:
        trailing += 1
    kept = [axis for axis in range(rank) if axis not in axes]
    cell = scope.writer.cell(REGISTER[name_of(result.type.dtype)])
    if len(result.type.shape) == 0:
        return Folding(root, rule, root.operands[0], axes, 0, cell, kept, None, False)
    home = scope.room(result)
    depth = 0 if flat else rank - trailing
    return Folding(root, rule, root.operands[0], axes, depth, cell, kept, home, len(axes) > trailing)


def _step(scope: Scope, fold: Folding, register: str) -> None:
    w = scope.writer
    dtype = fold.operation.result.type.dtype
    kind = REGISTER[name_of(dtype)]
    before = w.load(kind, fold.cell)
    w.store(kind, fold.rule.combine(scope, fold.operation, before, register), fold.cell)


def _where(fold: Folding, place: Sequence[Index]) -> tuple[Index, ...]:
    """The index into the result, keeping axes of size 1 where the op does."""
    if len(fold.operation.result.type.shape) == len(fold.kept):
        return tuple([place[axis] for axis in fold.kept])
    return tuple([place[axis] if axis in fold.kept else 0 for axis in range(len(fold.operation.result.type.shape))])


def _leave(scope: Scope, fold: Folding, place: Sequence[Index], access: Access) -> None:
    w = scope.writer
    assert fold.home is not None
    register = w.load(REGISTER[name_of(fold.operation.result.type.dtype)], fold.cell)
    at = _where(fold, [*place, *[0] * 32])
    if fold.in_memory:
        address = w.at(MEMORY[name_of(fold.home.dtype)], fold.home.address, scope.offset(fold.home.dims, at))
        kind = MEMORY[name_of(fold.home.dtype)]
        before = scope.from_memory(w.load(kind, address, access.writing), fold.home.dtype)
        after = fold.rule.combine(scope, fold.operation, before, register)
        w.store(kind, scope.to_memory(after, fold.home.dtype), address, access.writing)
    else:
        scope.store(_finished(scope, fold, register), fold.home, at, access.writing)


def _finished(scope: Scope, fold: Folding, register: str) -> str:
    return str(fold.rule.finish(scope, fold.operation, register)) if fold.rule.finish is not None else register


def _start(scope: Scope, fold: Folding, access: Access) -> None:
    assert fold.home is not None
    with scope.writer.loop(scope.writer.product(fold.home.dims), extra=access.loop()) as i:
        scope.store(fold.rule.start(fold.operation), fold.home, Flat(i), access.writing)


def _end(scope: Scope, fold: Folding, access: Access) -> None:
    if fold.rule.finish is None:
        return
    assert fold.home is not None
    w = scope.writer
    kind = MEMORY[name_of(fold.home.dtype)]
    with w.loop(w.product(fold.home.dims), extra=access.loop()) as i:
        before = scope.from_memory(w.load(kind, w.at(kind, fold.home.address, i), access.writing), fold.home.dtype)
        scope.store(_finished(scope, fold, before), fold.home, Flat(i), access.writing)


def _is_flat(scope: Scope, operation: Operation, space: tuple[Any, ...]) -> bool:
    """Whether element i of the whole needs only elements i of arrays of the same number of elements, and scalars."""
    facts = scope.program.tables.facts
    if facts.kind(operation) == "reduce":
        if len(operation.result.type.shape) != 0:
            return False
        stack = list(operation.operands[:1])
    else:
        if not facts.pointwise(operation):
            return False
        stack = list(operation.operands)
    seen = set()
    while stack:
        value = stack.pop()
        if value in seen or not len(value.type.shape):
            continue
        seen.add(value)
        if tuple(value.type.shape) != space:
            return False
        if scope.plan.is_lazy(value) or isinstance(scope.values.get(value), Lazy):
            producer = value.producer
            if producer is None or not facts.pointwise(producer):
                return False
            stack += producer.operands
    return True


def _names(scope: Scope, roots: Sequence[Operation]) -> list[str]:
    """The ops a kernel computes, in the order of the program."""
    found: dict[Operation, None] = {}
    stack = list(roots)
    while stack:
        operation = stack.pop()
        if operation in found:
            continue
        found[operation] = None
        stack += [v.producer for v in operation.operands if scope.plan.is_lazy(v) and v.producer is not None]
    return [operation.op.name for operation in sorted(found, key=lambda o: scope.plan.at.get(o, -1))]
