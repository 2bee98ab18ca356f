"""Checks of values: a copy that notes on the way whether all is well; the call ends after the loop if it is not."""

from __future__ import annotations

import numpy as np

from gradtape.backends.llvm.kernels.callback_code import write_callback
from gradtape.backends.llvm.kernels.code import Code, converted
from gradtape.backends.llvm.kernels.kernel_code import Access
from gradtape.backends.llvm.kernels.scope import Scope
from gradtape.backends.llvm.planning.lowering import Lowering
from gradtape.backends.llvm.planning.values import Flat, Lowered, Scalar
from gradtape.backends.llvm.runtime.notes import Note
from gradtape.backends.llvm.writing.element_types import is_float, name_of
from gradtape.core.opdef import Op
from gradtape.ir.graph import Operation
from gradtape.ops.check_numerics import CHECK_NUMERICS
from gradtape.ops.staged import EXACT, NARROW

# LLVM's names of sums and products that tell whether they fit
_CHECKED = {"add": "sadd", "subtract": "ssub", "multiply": "smul"}


def _check_numerics(scope: Scope, operation: Operation) -> list[Lowered]:
    (x,) = operation.operands
    dtype, w = x.type.dtype, scope.writer
    if not is_float(dtype):
        return write_callback(scope, operation)
    code = Code(w, dtype, operation.attrs, scope, operation)
    scope.program.notes.append(Note("kernel", (operation.op.name,), operation.loc))
    if not len(x.type.shape):
        number = scope.scalar(x)
        code.fail_if(code.opposite(code.finite(number)))
        return [Scalar(number, dtype)]
    source, home = scope.memory(x), scope.room(operation.result)
    bad = w.cell("i1")
    w.store("i1", "false", bad)
    count = w.product(home.dims)
    with Access(scope) as access, w.loop(count, extra=access.loop(count)) as i:
        element = scope.load(source, Flat(i))
        w.store("i1", code.either(w.load("i1", bad), code.opposite(code.finite(element))), bad)
        scope.store(element, home, Flat(i), access.writing)
    code.fail_if(w.load("i1", bad))
    return [home]


def _narrow(scope: Scope, operation: Operation) -> list[Lowered]:
    (x,), (result,) = operation.operands, operation.results
    if len(x.type.shape) or name_of(x.type.dtype) != "int64":
        return write_callback(scope, operation)
    w, dtype = scope.writer, result.type.dtype
    number = scope.scalar(x)
    narrow = converted(w, number, x.type.dtype, dtype)
    # what comes back as it was did fit (uint64 is as wide: only a negative number does not)
    wide = dtype.dtype == np.uint64
    lost = w.let(f"icmp slt i64 {number}, 0" if wide else f"icmp ne i64 {number}, {converted(w, narrow, dtype, x.type.dtype)}")
    scope.fail_if(lost, operation)
    return [Scalar(narrow, dtype)]


def _exact(scope: Scope, operation: Operation) -> list[Lowered]:
    name = _CHECKED.get(operation.attrs["form"])
    if name is None or any(len(v.type.shape) or name_of(v.type.dtype) != "int64" for v in operation.operands):
        return write_callback(scope, operation)
    w = scope.writer
    x, y = (scope.scalar(value) for value in operation.operands)
    function = w.module.declare(f"llvm.{name}.with.overflow.i64", "{i64,i1} (i64, i64)")
    pair = w.let(f"call {{i64, i1}} {function}(i64 {x}, i64 {y})")
    scope.fail_if(w.let(f"extractvalue {{i64, i1}} {pair}, 1"), operation)
    return [Scalar(w.let(f"extractvalue {{i64, i1}} {pair}, 0"), operation.result.type.dtype)]


LOWERINGS: dict[Op, Lowering] = {
    CHECK_NUMERICS: Lowering(memory=_check_numerics),
    NARROW: Lowering(memory=_narrow),
    EXACT: Lowering(memory=_exact),
}
