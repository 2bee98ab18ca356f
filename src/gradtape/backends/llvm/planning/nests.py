"""Loops that LLVM can make vectors of, and the starts and ends of folds in memory.

`Access` tells what a loop reads and writes, so that its iterations are known to be independent; `loops` is a plain nest. Loops
that are not tiny stay loops: LLVM would write out long ones of known length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradtape.backends.llvm.kernels.folding import Folding, finished
from gradtape.backends.llvm.kernels.scope import Scope
from gradtape.backends.llvm.planning.values import Array, Flat, Place
from gradtape.backends.llvm.runtime import machine
from gradtape.backends.llvm.writing.element_types import MEMORY, name_of
from gradtape.backends.llvm.writing.ir_text import Index

INTERLEAVED = '!{{!"llvm.loop.interleave.count", i32 {}}}'
UNROLLED = 64  # elements of a nest that is written out
MASKED = 8  # iterations: a short loop that such vectors do not fill has a mask


class Access:
    """Metadata of one phase: what it reads and what it writes are different memory, and iterations are independent."""

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
        self._before, scope.access = scope.access, self.reading
        return self

    def __exit__(self, *ignored: Any) -> None:
        self.scope.access = self._before

    def loop(self, count: Index = "", whole: bool = False, together: int = 0, masked: bool = False) -> str:
        """Metadata for the branch back of an innermost loop.

        `whole`: it is not written out even if it is short. `together`: how many vectors are computed side by side, if not as
        many as LLVM thinks. `masked`: the last vector has a mask, where that costs nothing; as in short loops.
        """
        module = self.scope.program.module
        parallel = module.metadata(f'!{{!"llvm.loop.parallel_accesses", {self.group}}}')
        nodes = [parallel, *([_vectors_only(self.scope)] if _is_long(count, 1) else [])]
        if whole:
            nodes.append(_no_unrolling(self.scope))
        # without a mask, what does not fill a vector is done one by one: of a short loop that may be most of it
        short = isinstance(count, int) and MASKED < count < UNROLLED and count % MASKED > 0
        if (masked or short) and machine.vector_bytes() == 64:
            nodes.append(self.scope.program.module_node("masked", '!{!"llvm.loop.vectorize.predicate.enable", i1 1}'))
        if together:
            nodes.append(self.scope.program.module_node(f"together{together}", INTERLEAVED.format(together)))
        listed = ", ".join(nodes)
        return f", !llvm.loop {module.metadata(f'distinct !{{{{}}, {listed}}}')}"


def rolled(scope: Scope, count: Index, inner: Index) -> str:
    """Metadata for the branch back of an outer loop: one that is not tiny stays a loop."""
    if not _is_long(count, inner):
        return ""
    return f", !llvm.loop {scope.program.module.metadata(f'distinct !{{{{}}, {_no_unrolling(scope)}}}')}"


def _no_unrolling(scope: Scope) -> str:
    return scope.program.module_node("rolled", '!{!"llvm.loop.unroll.disable"}')


def _is_long(count: Index, inner: Index) -> bool:
    return not isinstance(count, int) or not isinstance(inner, int) or count * inner > UNROLLED


def _vectors_only(scope: Scope) -> str:
    """For a loop that is not tiny: once it uses vectors, several at a time, it is not unrolled any further."""
    program = scope.program
    parts = [_no_unrolling(scope), program.module_node("vectorized", '!{!"llvm.loop.isvectorized", i32 1}')]
    return program.module_node("vectors", f'!{{!"llvm.loop.vectorize.followup_all", {", ".join(parts)}}}')


class Level:
    """A loop or branch begins: what it finds out is forgotten at its end."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def __enter__(self) -> None:
        self.scope.enter()

    def __exit__(self, *ignored: Any) -> None:
        self.scope.leave()


def loops(scope: Scope, dims: Sequence[Index], body: Any, access: Access | None, masked: bool = False) -> None:
    """A plain nest; the innermost loop has the metadata of the access, which is None where iterations may meet at one place."""
    place: list[Index] = []

    def level(d: int) -> None:
        if d == len(dims):
            body(tuple(place))
            return
        # only the innermost loop is vectorised, so only there does LLVM have to know that nothing overlaps
        if access is not None and d == len(dims) - 1:
            extra = access.loop(dims[d], masked=masked)
        else:
            extra = rolled(scope, dims[d], scope.writer.product(dims[d + 1 :]))
        with scope.writer.loop(dims[d], extra=extra) as counter, Level(scope):
            place.append(counter)
            level(d + 1)
            place.pop()

    with Level(scope):
        level(0)


def fill(scope: Scope, fold: Folding, home: Array, outer: Sequence[Index] = ()) -> None:
    """The start of a fold in its memory: in all of it, or in that of one iteration of outer loops."""
    _each(scope, home, outer, lambda at, access: scope.store(fold.rule.start(fold.operation), home, at, access.writing))


def finish(scope: Scope, fold: Folding, home: Array, outer: Sequence[Index] = ()) -> None:
    """The end of a fold in its memory."""

    def body(at: Place, access: Access) -> None:
        before = scope.writer.load(MEMORY[name_of(home.dtype)], scope.address(home, at), access.writing)
        scope.store(finished(scope, fold, scope.from_memory(before, home.dtype)), home, at, access.writing)

    if fold.rule.finish is not None:
        _each(scope, home, outer, body)


def _each(scope: Scope, home: Array, outer: Sequence[Index], body: Callable[[Place, Access], None]) -> None:
    dims = home.dims[len(outer) :] if outer else [scope.writer.product(home.dims)]
    with Access(scope) as access:
        loops(scope, dims, lambda place: body((*outer, *place) if outer else Flat(place[0]), access), access)
