"""Folds: how a reduction starts, combines two values and ends.

Sums and products may be taken in any order (`reassoc`), which is what lets them use vector registers; the result differs from
NumPy's pairwise sum within the error bound of summation. Extremes propagate NaN as NumPy does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtape.backends.llvm.scope import Scope
from gradtape.backends.llvm.types import REGISTER, is_float, is_signed, literal, name_of
from gradtape.ir.graph import Operation


@dataclass(frozen=True, slots=True)
class Fold:
    start: Callable[[Operation], str]
    combine: Callable[[Scope, Operation, str, str], str]
    finish: Callable[[Scope, Operation, str], str] | None = None
    blocked: bool = False  # long ones lose digits unless they are made of blocks

    @staticmethod
    def axes(operation: Operation) -> tuple[int, ...]:
        """The axes that go away, in order."""
        rank = len(operation.operands[0].type.shape)
        axis = operation.attrs.get("axis")
        if axis is None:
            return tuple(range(rank))
        return tuple(sorted(a % rank for a in ((axis,) if isinstance(axis, int) else axis)))


def _of(operation: Operation) -> Any:
    return operation.result.type.dtype


def _sum(scope: Scope, operation: Operation, a: str, b: str) -> str:
    dtype = _of(operation)
    return scope.writer.let(f"fadd reassoc contract {REGISTER[name_of(dtype)]} {a}, {b}" if is_float(dtype)
                            else f"add {REGISTER[name_of(dtype)]} {a}, {b}")  # fmt: skip


def _mean(scope: Scope, operation: Operation, total: str) -> str:
    w = scope.writer
    dims = scope.program.dims(operation.operands[0].type.shape)
    count = w.product([dims[axis] for axis in Fold.axes(operation)])
    kind = REGISTER[name_of(_of(operation))]
    number = literal(count, _of(operation)) if isinstance(count, int) else w.let(f"uitofp i64 {count} to {kind}")
    return w.let(f"fdiv {kind} {total}, {number}")


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
        dtype = _of(operation)
        kind = REGISTER[name_of(dtype)]
        if is_float(dtype):
            name = "maximum" if largest else "minimum"
        else:
            name = ("s" if is_signed(dtype) else "u") + ("max" if largest else "min")
        suffix = {"float": "f32", "double": "f64"}.get(kind, kind)
        return scope.writer.let(f"call {kind} @llvm.{name}.{suffix}({kind} {a}, {kind} {b})")

    return Fold(start, combine)


def _logical(word: str) -> Any:
    return lambda scope, operation, a, b: scope.writer.let(f"{word} i1 {a}, {b}")


FOLDS = {
    "reduce_sum": Fold(lambda operation: literal(0, _of(operation)), _sum, blocked=True),
    "reduce_mean": Fold(lambda operation: literal(0, _of(operation)), _sum, _mean, blocked=True),
    "reduce_max": _extreme(True),
    "reduce_min": _extreme(False),
    "reduce_all": Fold(lambda operation: "true", _logical("and")),
    "reduce_any": Fold(lambda operation: "false", _logical("or")),
}
