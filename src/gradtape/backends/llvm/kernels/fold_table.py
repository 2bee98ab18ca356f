"""Folds: how a reduction starts, combines two values and ends.

Sums may be taken in any order (`reassoc`), which is what lets them use vector registers; the result differs from NumPy's
pairwise sum within the error bound of summation. Products are taken in order. Extremes propagate NaN as NumPy does. Operands
have the dtype of the result: their `expand` sees to that.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gradtape.backends.llvm.kernels.code import Code
from gradtape.backends.llvm.kernels.scope import Scope
from gradtape.backends.llvm.planning.lowering import Fold, Lowering, folded_axes
from gradtape.backends.llvm.writing.element_types import REGISTER, is_float, literal, name_of
from gradtape.core.opdef import Op
from gradtape.dtypes import DType
from gradtape.ir.graph import Operation
from gradtape.ops.reduce import PROD_LAST, REDUCE_ALL, REDUCE_ANY, REDUCE_MAX, REDUCE_MEAN, REDUCE_MIN, REDUCE_SUM


def _of(operation: Operation) -> DType:
    return operation.result.type.dtype


def _nothing(operation: Operation) -> str:
    """What sums start with: -0, so that a sum of -0 is -0, unless there may be nothing to add."""
    shape = operation.operands[0].type.shape
    some = all(shape[axis].__class__ is int and shape[axis] > 0 for axis in folded_axes(operation))
    return literal(-0.0 if some and is_float(_of(operation)) else 0, _of(operation))


def _sum(scope: Scope, operation: Operation, a: str, b: str) -> str:
    dtype = _of(operation)
    return scope.writer.let(f"fadd reassoc contract {REGISTER[name_of(dtype)]} {a}, {b}" if is_float(dtype)
                            else f"add {REGISTER[name_of(dtype)]} {a}, {b}")  # fmt: skip


def _mean(scope: Scope, operation: Operation, total: str) -> str:
    w = scope.writer
    dims = scope.program.dims(operation.operands[0].type.shape)
    count = w.product([dims[axis] for axis in folded_axes(operation)])
    kind = REGISTER[name_of(_of(operation))]
    number = literal(count, _of(operation)) if isinstance(count, int) else w.let(f"uitofp i64 {count} to {kind}")
    return w.let(f"fdiv {kind} {total}, {number}")


def extreme(c: Code, largest: bool, a: str, b: str) -> str:
    """The larger (smaller) of two; NaN if one of them is. LLVM knows how to take these in any order."""
    if c.floating:  # which of two zeros is taken does not matter
        name = f"{'maximum' if largest else 'minimum'}.{c.suffix}"
        return c.let(f"call nsz {c.type} @llvm.{name}({c.type} {a}, {c.type} {b})")
    return c.call(("s" if c.signed else "u") + ("max" if largest else "min"), a, b)


def _product(scope: Scope, operation: Operation, a: str, b: str) -> str:
    # in order: products in another order may overflow where these do not
    dtype = _of(operation)
    word = "fmul" if is_float(dtype) else "and" if name_of(dtype) == "bool" else "mul"
    return scope.writer.let(f"{word} {REGISTER[name_of(dtype)]} {a}, {b}")


def _extreme(largest: bool) -> Fold:
    def start(operation: Operation) -> str:
        dtype = _of(operation)
        if is_float(dtype):
            return literal(-np.inf if largest else np.inf, dtype)
        if name_of(dtype) == "bool":
            return literal(not largest, dtype)
        info = np.iinfo(dtype.as_numpy_dtype)
        return literal(info.min if largest else info.max, dtype)

    def combine(scope: Scope, operation: Operation, a: str, b: str) -> str:
        return extreme(Code(scope.writer, _of(operation), {}), largest, a, b)

    return Fold(start, combine)


def _logical(word: str) -> Callable[[Scope, Operation, str, str], str]:
    return lambda scope, operation, a, b: scope.writer.let(f"{word} i1 {a}, {b}")


def _last_axis(operation: Operation) -> tuple[int, ...]:
    return (len(operation.operands[0].type.shape) - 1,)


def _floating(operation: Operation) -> bool:
    return is_float(operation.operands[0].type.dtype)


LOWERINGS: dict[Op, Lowering] = {
    REDUCE_SUM: Lowering(fold=Fold(_nothing, _sum, blocked=True)),
    REDUCE_MEAN: Lowering(fold=Fold(_nothing, _sum, _mean, blocked=True), accepts=_floating),
    PROD_LAST: Lowering(fold=Fold(lambda operation: literal(1, _of(operation)), _product, ordered=True, axes=_last_axis)),
    REDUCE_MAX: Lowering(fold=_extreme(True)),
    REDUCE_MIN: Lowering(fold=_extreme(False)),
    REDUCE_ALL: Lowering(fold=Fold(lambda operation: "true", _logical("and"))),
    REDUCE_ANY: Lowering(fold=Fold(lambda operation: "false", _logical("or"))),
}
