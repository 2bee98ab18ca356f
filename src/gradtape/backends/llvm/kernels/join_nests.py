"""Arrays made of several: each part is written to its place by a loop nest of its own, as a recipe where it is one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gradtape.backends.llvm.kernels.callback_code import write_callback
from gradtape.backends.llvm.kernels.code import converted, plain_sum
from gradtape.backends.llvm.kernels.joining import concatenated, stacked, sum_of_paddings
from gradtape.backends.llvm.kernels.kernel_code import Access, loops
from gradtape.backends.llvm.kernels.scope import Scope
from gradtape.backends.llvm.planning.lowering import Lowering, Lowerings, always, computable
from gradtape.backends.llvm.planning.values import Array, Lowered, Place
from gradtape.backends.llvm.runtime.notes import Note
from gradtape.backends.llvm.writing.element_types import name_of
from gradtape.backends.llvm.writing.ir_text import Index
from gradtape.core.opdef import Op
from gradtape.ir.graph import Operation, Value
from gradtape.ops.composite import ADD_N
from gradtape.ops.shape import CONCAT, STACK

Spot = Callable[[Sequence[Index]], Sequence[Index]]  # the place in the whole of a place in the part


def supported(operation: Operation) -> bool:
    return all(computable(value.type) for value in (*operation.operands, operation.result))


def _concat(scope: Scope, operation: Operation) -> list[Lowered]:
    if not supported(operation):
        return write_callback(scope, operation)
    w, axis = scope.writer, operation.attrs["axis"]
    parts = [scope.dims(value) for value in operation.operands]
    total: Index = 0
    for dims in parts:
        total = w.add(total, dims[axis])
    scope.sized(operation, operation.result.type, [total if k == axis else n for k, n in enumerate(parts[0])])
    home = scope.room(operation.result)
    start: Index = 0
    for value, dims in zip(operation.operands, parts, strict=True):
        _fits(scope, operation, [n for k, n in enumerate(dims) if k != axis], [n for k, n in enumerate(home.dims) if k != axis])

        def spot(place: Sequence[Index], start: Index = start) -> Sequence[Index]:
            return [w.add(i, start) if k == axis else i for k, i in enumerate(place)]

        _part(scope, value, dims, home, spot)
        start = w.add(start, dims[axis])
    scope.program.notes.append(Note("kernel", (operation.op.name,), operation.loc, "in parts"))
    return [home]


def _stack(scope: Scope, operation: Operation) -> list[Lowered]:
    if not supported(operation):
        return write_callback(scope, operation)
    axis = operation.attrs["axis"]
    home = scope.room(operation.result)
    for k, value in enumerate(operation.operands):
        dims = scope.dims(value)
        _fits(scope, operation, dims, [*home.dims[:axis], *home.dims[axis + 1 :]])

        def spot(place: Sequence[Index], k: int = k) -> Sequence[Index]:
            return [*place[:axis], k, *place[axis:]]

        _part(scope, value, dims, home, spot)
    scope.program.notes.append(Note("kernel", (operation.op.name,), operation.loc, "in parts"))
    return [home]


def _fits(scope: Scope, operation: Operation, dims: Sequence[Index], wanted: Sequence[Index]) -> None:
    w = scope.writer
    for n, m in zip(dims, wanted, strict=True):
        if n != m:
            scope.fail_if(w.let(f"icmp ne i64 {n}, {m}"), operation)


def _part(scope: Scope, value: Value, dims: Sequence[Index], home: Array, spot: Spot) -> None:
    """The elements of one part, each where `spot` says."""

    def one(place: Sequence[Index], writing: str = "") -> None:
        register = converted(scope.writer, scope.element(value, tuple(place)), value.type.dtype, home.dtype)
        scope.store(register, home, tuple(spot(place)), writing)

    if not dims:
        one(())
        return
    with Access(scope) as access:
        loops(scope, dims, lambda place: one(place, access.writing), access)


def _add_n(scope: Scope, operation: Operation, place: Place) -> str:
    """One after the other, as NumPy adds them."""
    total, *rest = (scope.element(value, place) for value in operation.operands)
    for register in rest:
        total = plain_sum(scope.writer, operation.result.type.dtype, total, register)
    return total


def _of_one_type(operation: Operation) -> bool:
    values = (*operation.operands, operation.result)
    kinds = {(tuple(value.type.shape), name_of(value.type.dtype)) for value in values}
    return len(kinds) == 1 and name_of(operation.result.type.dtype) != "bool"


def _reads(operation: Operation, value: Value, table: Lowerings) -> str:
    return "recipe" if supported(operation) else "memory"


LOWERINGS: dict[Op, Lowering] = {
    CONCAT: Lowering(memory=_concat, rewrite=concatenated, reads=_reads, finds_sizes=True),
    STACK: Lowering(memory=_stack, rewrite=stacked, reads=_reads),
    ADD_N: Lowering(element=_add_n, accepts=_of_one_type, pointwise=always, broadcasts=True, rewrite=sum_of_paddings),
}
