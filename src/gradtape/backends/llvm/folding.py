"""A reduction inside a kernel: where its value is while the loops run, and what happens at each element."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gradtape.backends.llvm.scope import Scope
from gradtape.backends.llvm.text import Index
from gradtape.backends.llvm.types import MEMORY, REGISTER, name_of
from gradtape.backends.llvm.values import Array
from gradtape.ir.graph import Operation


@dataclass(slots=True)
class Folding:
    """A reduction in a kernel: where its value is while the loops run."""

    operation: Operation
    rule: Any  # reductions.Fold
    axes: tuple[int, ...]
    depth: int  # loops from this one on fold into the cell
    rank: int  # of the result
    kept: list[int]  # axes of the source that the result has, in order
    in_memory: bool  # outer axes are folded too: the cell's value is folded into memory
    cell: str = ""
    result: str = ""  # the cell that has the result of a closed one in the end
    home: Array | None = None  # where it goes, if not where the scope says

    @property
    def closed(self) -> bool:
        """Whether all loops fold into the one cell."""
        return self.depth == 0

    @property
    def dtype(self) -> Any:
        return self.operation.result.type.dtype

    @property
    def kind(self) -> str:
        return REGISTER[name_of(self.dtype)]


def folding(scope: Scope, root: Operation) -> Folding:
    """What a reduction is in the loops over its operand."""
    rule = scope.program.tables.reduce[root.op.name]
    axes = rule.axes(root)
    source, rank = len(root.operands[0].type.shape), len(root.result.type.shape)
    trailing = 0
    while source - 1 - trailing in axes:
        trailing += 1
    kept = [axis for axis in range(source) if axis not in axes]
    return Folding(root, rule, axes, source - trailing, rank, kept, len(axes) > trailing)


def step(scope: Scope, fold: Folding, register: str) -> None:
    """One more element."""
    w = scope.writer
    before = w.load(fold.kind, fold.cell)
    w.store(fold.kind, fold.rule.combine(scope, fold.operation, before, register), fold.cell)


def finished(scope: Scope, fold: Folding, register: str) -> str:
    """The result, when all elements are folded: of a mean, the quotient."""
    return str(fold.rule.finish(scope, fold.operation, register)) if fold.rule.finish is not None else register


def leave(scope: Scope, fold: Folding, home: Array, place: Sequence[Index], access: Any) -> None:
    """The loops that fold into the cell are over: its value goes where it belongs."""
    w = scope.writer
    register = w.load(fold.kind, fold.cell)
    at = _where(fold, place)
    if fold.in_memory:
        kind = MEMORY[name_of(home.dtype)]
        address = scope.address(home, at)
        before = scope.from_memory(w.load(kind, address, access.writing), home.dtype)
        after = fold.rule.combine(scope, fold.operation, before, register)
        w.store(kind, scope.to_memory(after, home.dtype), address, access.writing)
    else:
        register = finished(scope, fold, register)
        scope.store(register, home, at, access.writing)
        scope.know(fold.operation.result, at, register)


def _where(fold: Folding, place: Sequence[Index]) -> tuple[Index, ...]:
    """The index into the result, keeping axes of size 1 where the op does."""
    if fold.rank == len(fold.kept):
        return tuple([place[axis] for axis in fold.kept])
    return tuple([place[axis] if axis in fold.kept else 0 for axis in range(fold.rank)])
