"""Checks of values: a copy that notes on the way whether all is well; the call ends after the loop if it is not."""

from __future__ import annotations

from typing import Any

from gradtape.backends.llvm.callbacks import write_callback
from gradtape.backends.llvm.code import Code
from gradtape.backends.llvm.kernels import Access
from gradtape.backends.llvm.scope import Note, Scope
from gradtape.backends.llvm.types import is_float
from gradtape.backends.llvm.values import Flat, Lowered, Scalar
from gradtape.ir.graph import Operation


def _check_numerics(scope: Scope, operation: Operation) -> list[Lowered]:
    (x,) = operation.operands
    dtype, w = x.type.dtype, scope.writer
    if not is_float(dtype):
        return write_callback(scope, operation)
    code = Code(w, dtype, operation.attrs, scope, operation)
    scope.program.notes.append(Note("kernel", ("check_numerics",), operation.loc))
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


MEMORY_OPS: dict[str, Any] = {"check_numerics": _check_numerics}
