"""Arrays made of several: each part is written to its place by a loop nest of its own, as a recipe where it is one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradtape.backends.llvm.callbacks import write_callback
from gradtape.backends.llvm.code import converted
from gradtape.backends.llvm.kernels import Access, loops
from gradtape.backends.llvm.scope import Note, Scope, computable
from gradtape.backends.llvm.text import Index
from gradtape.backends.llvm.types import REGISTER, is_float, name_of
from gradtape.backends.llvm.values import Array, Lowered, Place
from gradtape.ir.graph import Operation, Value


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
    scope.program.notes.append(Note("kernel", ("concat",), operation.loc, "in parts"))
    return [home]


def _stack(scope: Scope, operation: Operation) -> list[Lowered]:
    if not supported(operation):
        return write_callback(scope, operation)
    axis = operation.attrs["axis"]
    home = scope.room(operation.result)
    for k, value in enumerate(operation.operands):
        dims = scope.dims(value)
        _fits(scope, operation, dims, [*home.dims[:axis], *home.dims[axis + 1 :]])
        _part(scope, value, dims, home, lambda place, k=k: [*place[:axis], k, *place[axis:]])
    scope.program.notes.append(Note("kernel", ("stack",), operation.loc, "in parts"))
    return [home]


def _fits(scope: Scope, operation: Operation, dims: Sequence[Index], wanted: Sequence[Index]) -> None:
    w = scope.writer
    for n, m in zip(dims, wanted, strict=True):
        if n != m:
            scope.fail_if(w.let(f"icmp ne i64 {n}, {m}"), operation)


def _part(scope: Scope, value: Value, dims: Sequence[Index], home: Array, spot: Any) -> None:
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
    first, *rest = (scope.element(value, place) for value in operation.operands)
    dtype = operation.result.type.dtype
    word = f"{'fadd' if is_float(dtype) else 'add'} {REGISTER[name_of(dtype)]}"
    for register in rest:
        first = scope.writer.let(f"{word} {first}, {register}")
    return first


MEMORY_OPS: dict[str, Any] = {"concat": _concat, "stack": _stack}
ELEMENT: dict[str, Any] = {"add_n": _add_n}


def accepts(operation: Operation) -> bool:
    values = (*operation.operands, operation.result)
    kinds = {(tuple(value.type.shape), name_of(value.type.dtype)) for value in values}
    return len(kinds) == 1 and name_of(operation.result.type.dtype) != "bool"
