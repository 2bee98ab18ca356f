"""One element of each row, and the sparse cross entropy that picks it: in simpler ops, which become phases of one kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape.backends.llvm.kernels.scope import Scope
from gradtape.backends.llvm.planning.lowering import Lowering
from gradtape.backends.llvm.planning.values import Array, Flat, Lowered, Place, Scalar
from gradtape.backends.llvm.planning.writing_out import Maker, native_op
from gradtape.backends.llvm.runtime.notes import Note
from gradtape.backends.llvm.writing.element_types import MEMORY, REGISTER, is_float, is_signed, name_of
from gradtape.core.opdef import Op
from gradtape.ir.graph import Operation, Value
from gradtape.ir.types import TensorSpec
from gradtape.ops.elementwise import EXP, LOG, SUBTRACT
from gradtape.ops.losses import SPARSE_CROSS_ENTROPY
from gradtape.ops.reduce import REDUCE_MAX, REDUCE_SUM
from gradtape.ops.shape import RESHAPE


def _sparse_cross_entropy(make: Maker, labels: Value, logits: Value) -> Value:
    *lead, size = logits.type.shape
    rows = {"axis": (len(lead),), "keepdims": True}
    shifted = make(SUBTRACT, logits, make(REDUCE_MAX, logits, **rows))
    total = make(REDUCE_SUM, make(EXP, shifted), **rows)
    # -log softmax = log(total) - shifted, at the label
    picked = make(ROW_PICK, shifted, make(IN_RANGE, labels, size=size))
    return make(SUBTRACT, make(RESHAPE, make(LOG, total), shape=tuple(lead)), picked)


# -- ops that only stand in expanded programs


def _in_range_impl(x: Any, *, size: int) -> Any:
    return np.arange(size)[x].astype(x.dtype)


def _row_pick_impl(x: Any, index: Any) -> Any:
    return np.take_along_axis(x, np.asarray(index)[..., None], -1)[..., 0]


# indices as numbers from 0 on; an index out of range ends the program
IN_RANGE = native_op("in_range", "x", lambda x, *, size: x, _in_range_impl)
# one element of each row
ROW_PICK = native_op("row_pick", "x index", lambda x, index: TensorSpec(x.shape[:-1], x.dtype), _row_pick_impl)


def _in_range(scope: Scope, operation: Operation) -> list[Lowered]:
    w, program = scope.writer, scope.program
    (x,) = operation.operands
    dtype, size = x.type.dtype, program.index(operation.attrs["size"])
    kind = REGISTER[name_of(dtype)]
    bad = w.cell("i1")
    w.store("i1", "false", bad)

    def checked(place: Place) -> str:
        register = scope.element(x, place)
        wide = register if kind == "i64" else w.let(f"{'sext' if is_signed(dtype) else 'zext'} {kind} {register} to i64")
        moved = w.from_end(wide, size)
        outside = w.let(f"icmp uge i64 {moved}, {size}")
        w.store("i1", w.let(f"or i1 {w.load('i1', bad)}, {outside}"), bad)
        safe = w.let(f"select i1 {outside}, i64 0, i64 {moved}")
        return safe if kind == "i64" else w.let(f"trunc i64 {safe} to {kind}")

    program.notes.append(Note("kernel", (operation.op.name,), operation.loc))
    result: Lowered
    if not len(x.type.shape):
        result = Scalar(checked(()), dtype)
    else:
        source, home = scope.memory(x), scope.room(operation.result)
        with w.loop(w.product(home.dims)) as i:
            scope.enter()
            w.store(MEMORY[name_of(dtype)], checked(Flat(i)), w.at(MEMORY[name_of(dtype)], home.address, i))
            scope.leave()
        result = Array(home.address, source.dims, dtype)
    scope.fail_if(w.load("i1", bad), operation)
    return [result]


def _row_pick(scope: Scope, operation: Operation, place: Place) -> str:
    x, index = operation.operands
    register = scope.element(index, place)
    kind = name_of(index.type.dtype)
    if kind not in ("int64", "uint64"):
        how = "sext" if kind.startswith("int") else "zext"
        register = scope.writer.let(f"{how} {REGISTER[kind]} {register} to i64")
    return scope.element(x, (*place, register))


LOWERINGS: dict[Op, Lowering] = {
    SPARSE_CROSS_ENTROPY: Lowering(rewrite=_sparse_cross_entropy),
    ROW_PICK: Lowering(
        element=_row_pick, accepts=lambda operation: is_float(operation.result.type.dtype), cost=0,
        aligned=lambda operation, shape, result: len(result),
    ),
    IN_RANGE: Lowering(memory=_in_range),
}  # fmt: skip
