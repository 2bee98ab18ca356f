"""Sizes that only run time knows, compared where the program counts on them: equal ones, and ones that memory can hold.

The tracer has checked before, or while the program runs, what it could (`trace/sizing.py`); what it could not put into
words must not become a loop that leaves an array. A check that fails ends the call, and the reference says what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gradtape.backends.llvm.writing.element_types import bytes_of
from gradtape.backends.llvm.writing.ir_text import Index
from gradtape.ir.dims import Dim, symbols_in
from gradtape.ir.graph import Operation, Value

MOST = 1 << 46  # bytes of an array, or elements of a loop: no machine has that much memory


def check(scope: Any, kernel: Any) -> None:
    """What a kernel reads is as large as what it computes, and that is not too much for any loop."""
    if not scope.program.sizes:
        return
    compare(scope, sorted(kernel.parts, key=scope.plan.at.__getitem__))
    for phase in kernel.phases:
        if sum(isinstance(size, Dim) for size in phase.space) > 1:
            _fits(scope, phase.roots[0], scope.program.dims(phase.space), 1)


def compare(scope: Any, operations: Iterable[Operation]) -> None:
    """Operands that are broadcast against each other have the sizes of the result."""
    program = scope.program
    for operation in operations:
        if not program.sizes or not program.tables.lowerings[operation.op].broadcasts:
            continue
        shape = tuple(operation.result.type.shape)
        for value in operation.operands:
            for pair in zip(tuple(value.type.shape)[::-1], shape[::-1], strict=False):
                if pair[0] == pair[1] or pair[0] == 1 or pair in scope.compared or not symbols_in(pair) <= program.sizes.keys():
                    continue
                scope.compared.add(pair)
                size, wanted = program.dims(pair)
                if size != wanted:
                    scope.fail_if(scope.writer.let(f"icmp ne i64 {size}, {wanted}"), operation)


def needed(scope: Any, value: Value, dims: Sequence[Index]) -> Index:
    """The bytes of a value, if an array can have so many; else the call ends."""
    w, each = scope.writer, bytes_of(value.type.dtype)
    count: Index = w.multiply(w.product(dims), each)
    if not isinstance(count, int):
        _fits(scope, value.producer, dims, each)
    elif count > MOST:
        _fail(scope, "true", value.producer)
        return 0
    return count


def together(scope: Any, factors: Sequence[Index]) -> Index:
    """A product of numbers that are not negative, as bytes of memory; too many for any machine end the call for lack of it."""
    w = scope.writer
    count: Index = w.product(factors)
    if isinstance(count, int):
        if count > MOST:
            scope.program.no_memory_if("true")
        return min(count, MOST)
    scope.program.no_memory_if(w.let(f"fcmp ugt double {_product(scope, factors)}, {float(MOST):e}"))
    return count


def _fits(scope: Any, operation: Operation | None, dims: Sequence[Index], each: int) -> None:
    _fail(scope, scope.writer.let(f"fcmp ogt double {_product(scope, [each, *dims])}, {float(MOST):e}"), operation)


def _product(scope: Any, factors: Sequence[Index]) -> str:
    """In floating point, which does not wrap around."""
    w, total = scope.writer, "1.0"
    for size in factors:
        number = f"{float(size):e}" if isinstance(size, int) else w.let(f"uitofp i64 {size} to double")
        total = w.let(f"fmul double {total}, {number}")
    return str(total)


def _fail(scope: Any, flag: str, operation: Operation | None) -> None:
    """The reference says that it is too much; where it cannot run the operation by itself, there is no memory for it."""
    if operation is None or operation.regions or scope.program.effects:
        scope.program.no_memory_if(flag)
    else:
        scope.fail_if(flag, operation)
