"""Checks of values: a copy that notes on the way whether all is well; the call ends after the loop if it is not."""

from __future__ import annotations

from gradtape.backends.llvm.kernels.code import Code
from gradtape.backends.llvm.kernels.kernel_code import Access
from gradtape.backends.llvm.kernels.native_program import Note
from gradtape.backends.llvm.kernels.scope import Scope
from gradtape.backends.llvm.planning.lowering import Lowering
from gradtape.backends.llvm.planning.values import Flat, Lowered, Scalar
from gradtape.backends.llvm.runtime.callbacks import write_callback
from gradtape.backends.llvm.writing.element_types import is_float
from gradtape.core.opdef import Op
from gradtape.ir.graph import Operation
from gradtape.ops.check_numerics import CHECK_NUMERICS


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


LOWERINGS: dict[Op, Lowering] = {CHECK_NUMERICS: Lowering(memory=_check_numerics)}
