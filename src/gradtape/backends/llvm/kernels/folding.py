"""A reduction inside a kernel: where its value is while the loops run, and what happens at each element.

The last axis of a nest may be written out instead of being a loop (`tail`): a fold that keeps that axis then has a cell for
each index of it, its lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gradtape.backends.llvm.kernels.scope import Scope
from gradtape.backends.llvm.planning.lowering import Fold
from gradtape.backends.llvm.planning.values import Array
from gradtape.backends.llvm.writing.element_types import MEMORY, REGISTER, name_of
from gradtape.backends.llvm.writing.ir_text import Index
from gradtape.ir.graph import Operation


@dataclass(slots=True)
class Folding:
    """A reduction in a kernel: where its value is while the loops run."""

    operation: Operation
    rule: Fold
    axes: tuple[int, ...]
    depth: int  # loops from this one on fold into the cell
    rank: int  # of the result
    kept: list[int]  # axes of the source that the result has, in order
    in_memory: bool  # outer axes are folded too: the cell's value is folded into memory
    tail: int = 0  # elements of the last axis of the source, if that is written out
    cells: list[str] = field(default_factory=list)  # one, or one per lane
    result: str = ""  # the cell that has the result of a closed one in the end
    home: Array | None = None  # where it goes, if not where the scope says

    @property
    def closed(self) -> bool:
        """Whether all loops fold into the one cell."""
        return self.depth == 0 and self.lanes == 1

    @property
    def lanes(self) -> int:
        """How many cells it has."""
        return self.tail if self.tail and self.kept and self.kept[-1] == self.last else 1

    @property
    def last(self) -> int:
        """The last axis of the source."""
        return len(self.operation.operands[0].type.shape) - 1

    @property
    def dtype(self) -> Any:
        return self.operation.result.type.dtype

    @property
    def kind(self) -> str:
        return REGISTER[name_of(self.dtype)]


def folding(scope: Scope, root: Operation, tail: int = 0) -> Folding:
    """What a reduction is in the loops over its operand, of which the last axis is written out if it has a tail."""
    rule = scope.program.tables.lowerings[root.op].fold
    assert rule is not None
    axes = rule.axes(root)
    source, rank = len(root.operands[0].type.shape), len(root.result.type.shape)
    loops = source - (tail > 0)
    depth = loops
    while depth - 1 in axes:
        depth -= 1
    kept = [axis for axis in range(source) if axis not in axes]
    return Folding(root, rule, axes, depth, rank, kept, any(axis < depth for axis in axes), tail)


def prepare(scope: Scope, fold: Folding) -> None:
    """New cells."""
    fold.cells = [scope.writer.cell(fold.kind) for _ in range(fold.lanes)]


def start(scope: Scope, fold: Folding) -> None:
    """Nothing is folded yet."""
    for cell in fold.cells:
        scope.writer.store(fold.kind, fold.rule.start(fold.operation), cell)


def step(scope: Scope, fold: Folding, register: str, lane: int = 0) -> None:
    """One more element; of a fold with lanes, to the one of this index."""
    w = scope.writer
    cell = fold.cells[lane if fold.lanes > 1 else 0]
    before = w.load(fold.kind, cell)
    w.store(fold.kind, fold.rule.combine(scope, fold.operation, before, register), cell)


def only(scope: Scope, fold: Folding) -> str:
    """The value of a fold with one cell."""
    (cell,) = fold.cells
    return scope.writer.load(fold.kind, cell)


def finished(scope: Scope, fold: Folding, register: str) -> str:
    """The result, when all elements are folded: of a mean, the quotient."""
    return fold.rule.finish(scope, fold.operation, register) if fold.rule.finish is not None else register


def leave(scope: Scope, fold: Folding, home: Array, place: Sequence[Index], access: Any) -> None:
    """The loops that fold into the cells are over: their values go where they belong."""
    w = scope.writer
    for lane, cell in enumerate(fold.cells):
        register = w.load(fold.kind, cell)
        at = _where(fold, place if fold.lanes == 1 else [*place, *[0] * (fold.last - len(place)), lane])
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
