"""Element operations: one register from the registers of the operands' elements at the same place.

The formulas are in `formulas.py` and `integers.py`; here operands are fetched, broadcast and brought to the dtype that NumPy
computes in. Where that is not the dtype of the program's types, the op is left to NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gradtape.backends.llvm.kernels.code import Code, converted, kind_of
from gradtape.backends.llvm.kernels.scope import Scope
from gradtape.backends.llvm.planning.lowering import Asked, Lowering, always, never
from gradtape.backends.llvm.planning.values import Flat, Place
from gradtape.backends.llvm.writing.element_types import is_native
from gradtape.core.opdef import Op
from gradtape.dtypes import DType, as_dtype
from gradtape.ir.graph import Operation, Value
from gradtape.ops.elementwise import CAST
from gradtape.ops.select import WHERE

Formula = Callable[..., str]  # (code, *registers) → register


def operand_place(place: Place, shape: tuple[object, ...], result: tuple[object, ...]) -> Place:
    """The index into an operand that is broadcast to the result's shape."""
    if not shape:
        return ()
    if shape == result:
        return place
    if isinstance(place, Flat):
        if all(size.__class__ is int and size == 1 for size in shape):
            return (0,) * len(shape)
        raise AssertionError("a flat index into arrays of different shapes")
    offset = len(result) - len(shape)
    return tuple([0 if size == 1 and size.__class__ is int else place[offset + k] for k, size in enumerate(shape)])


def operands_at(scope: Scope, operation: Operation, place: Place) -> list[str]:
    """The elements of all operands at an index of the result."""
    shape = tuple(operation.result.type.shape)
    return [scope.element(v, operand_place(place, tuple(v.type.shape), shape)) for v in operation.operands]


def computes_in(dtype: DType, given: Sequence[DType]) -> bool:
    """Whether NumPy computes with operands of these dtypes in that one."""
    if all(d == dtype for d in given):
        return True
    floats = kind_of(dtype) == "f"
    if floats != any(kind_of(d) == "f" for d in given):
        return False
    return as_dtype(np.result_type(*(d.dtype for d in given))) == dtype


def lane(
    formula: Formula, kinds: str, cost: int = 1, *, accepts: Asked | None = None, fails: Asked = never,
    rewrite: Callable[..., Value | None] | None = None,
) -> Lowering:  # fmt: skip
    """An op that a formula computes, in the dtype of its result."""

    def holds(operation: Operation) -> bool:
        result = operation.result.type.dtype
        return kind_of(result) in kinds and computes_in(result, [v.type.dtype for v in operation.operands])

    return Lowering(
        element=_by_formula(formula, lambda operation: operation.result.type.dtype), accepts=accepts or holds, cost=cost,
        kinds=kinds, pointwise=always, broadcasts=True, fails=fails, rewrite=rewrite,
    )  # fmt: skip


def predicate(formula: Formula, kinds: str, floating: bool = False) -> Lowering:
    """A truth value that a formula computes, in the dtype that operands have together; `floating`: and a float has."""

    def dtype_of(operation: Operation) -> DType:
        dtypes = dict.fromkeys(v.type.dtype for v in operation.operands)
        if len(dtypes) == 1 and not floating:
            return operation.operands[0].type.dtype
        return as_dtype(np.result_type(*(d.dtype for d in dtypes), *([1.0] if floating else [])))

    def holds(operation: Operation) -> bool:
        dtype = dtype_of(operation)
        # NumPy compares signed with unsigned 64-bit integers exactly, though they have no common type
        return is_native(dtype) and kind_of(dtype) in kinds and computes_in(dtype, [v.type.dtype for v in operation.operands])

    return Lowering(
        element=_by_formula(formula, dtype_of), accepts=holds, kinds=kinds, pointwise=always, broadcasts=True
    )  # fmt: skip


def _by_formula(formula: Formula, dtype_of: Callable[[Operation], DType]) -> Callable[[Scope, Operation, Place], str]:
    def write(scope: Scope, operation: Operation, place: Place) -> str:
        w, dtype = scope.writer, dtype_of(operation)
        pairs = zip(operands_at(scope, operation, place), operation.operands, strict=True)
        registers = [converted(w, register, v.type.dtype, dtype) for register, v in pairs]
        alone = not len(operation.result.type.shape)
        return formula(Code(w, dtype, operation.attrs, scope, operation, alone), *registers)

    return write


def _cast(scope: Scope, operation: Operation, place: Place) -> str:
    (x,) = operation.operands
    return converted(scope.writer, scope.element(x, place), x.type.dtype, operation.result.type.dtype)


def _where(scope: Scope, operation: Operation, place: Place) -> str:
    flag, x, y = operands_at(scope, operation, place)
    w, dtype = scope.writer, operation.result.type.dtype
    flag = converted(w, flag, operation.operands[0].type.dtype, np.dtype("bool"))
    x, y = (converted(w, r, v.type.dtype, dtype) for r, v in zip((x, y), operation.operands[1:], strict=True))
    return Code(w, dtype, {}).select(flag, x, y)


def _chooses(operation: Operation) -> bool:
    return computes_in(operation.result.type.dtype, [v.type.dtype for v in operation.operands[1:]])


LOWERINGS: dict[Op, Lowering] = {
    CAST: Lowering(element=_cast, pointwise=always, broadcasts=True),
    WHERE: Lowering(element=_where, accepts=_chooses, pointwise=always, broadcasts=True),
}
