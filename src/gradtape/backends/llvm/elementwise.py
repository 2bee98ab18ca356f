"""Element operations: one register from the registers of the operands' elements at the same place.

The formulas are in `formulas.py` and `integers.py`; here operands are fetched, broadcast and brought to the dtype that NumPy
computes in. Where that is not the dtype of the program's types, the op is left to NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape.backends.llvm import formulas, integers
from gradtape.backends.llvm.code import Code, converted, kind_of
from gradtape.backends.llvm.formulas import Formula
from gradtape.backends.llvm.scope import Scope
from gradtape.backends.llvm.types import is_native
from gradtape.backends.llvm.values import Flat, Place
from gradtape.dtypes import as_dtype
from gradtape.ir.graph import Operation, Value

FORMULAS: dict[str, tuple[Formula, str]] = {**formulas.FORMULAS, **integers.FORMULAS}
PREDICATES = formulas.PREDICATES


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


def _common(operands: list[Value]) -> Any:
    """The dtype in which NumPy compares, or computes, operands."""
    kinds = {v.type.dtype for v in operands}
    if len(kinds) == 1:
        return operands[0].type.dtype
    return as_dtype(np.result_type(*(d.dtype for d in kinds)))


def _computes_in(operation: Operation) -> Any:
    """The dtype of a formula's operands."""
    name, operands = operation.op.name, operation.operands
    if name == "is_close":  # NumPy makes y a float, and x follows
        return as_dtype(np.result_type(*(v.type.dtype.dtype for v in operands), 1.0))
    return _common(operands) if name in PREDICATES else operation.result.type.dtype


def pointwise(formula: Formula) -> Any:
    """The element function of an op computed by a formula."""

    def write(scope: Scope, operation: Operation, place: Place) -> str:
        dtype = _computes_in(operation)
        found = operands_at(scope, operation, place)
        w = scope.writer
        registers = [converted(w, r, v.type.dtype, dtype) for r, v in zip(found, operation.operands, strict=True)]
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


def _add_n(scope: Scope, operation: Operation, place: Place) -> str:
    code = Code(scope.writer, operation.result.type.dtype, {})
    total, *rest = [scope.element(v, place) for v in operation.operands]
    for register in rest:
        total = code.add(total, register)
    return total


ELEMENT: dict[str, Any] = {
    **{name: pointwise(formula) for name, (formula, _) in (FORMULAS | PREDICATES).items()},
    "cast": _cast,
    "where": _where,
    "add_n": _add_n,
}
COSTS = {**formulas.COSTS, **integers.COSTS}


def accepts(operation: Operation) -> bool:
    """Whether the op's formula holds for the dtypes at hand, and is what NumPy computes."""
    name, result = operation.op.name, operation.result.type.dtype
    given = [v.type.dtype for v in operation.operands]
    if name == "cast":
        return True
    if name == "where":
        return _fits(result, given[1:])
    if name == "add_n":
        return kind_of(result) != "b" and all(d == result for d in given)
    if name in PREDICATES:
        dtype = _computes_in(operation)
        # NumPy compares signed with unsigned 64-bit integers exactly, though they have no common type
        return is_native(dtype) and kind_of(dtype) in PREDICATES[name][1] and _fits(dtype, given)
    if kind_of(result) not in FORMULAS[name][1]:
        return False
    if name == "divide" and not any(kind_of(d) in "fc" for d in given):
        return True  # the quotient of integers
    if name == "power" and kind_of(result) != "f":
        exponent = operation.attrs["exponent"]
        return isinstance(exponent, int) and exponent >= 0
    return _fits(result, given)


def _fits(dtype: Any, given: list[Any]) -> bool:
    """Whether NumPy computes with operands of these dtypes in that one."""
    if all(d == dtype for d in given):
        return True
    floats = kind_of(dtype) == "f"
    if floats != any(kind_of(d) == "f" for d in given):
        return False
    return as_dtype(np.result_type(*(d.dtype for d in given))) == dtype


def fails(operation: Operation) -> bool:
    """Whether it may leave the program: an integer divided by what may be zero, or raised to what may be negative."""
    if operation.op.name not in ("floordiv", "mod", "pow") or kind_of(operation.result.type.dtype) == "f":
        return False
    producer = operation.operands[1].producer
    if producer is None or producer.op.name != "constant":
        return True
    return bool(np.any(producer.attrs["value"] == 0 if operation.op.name != "pow" else producer.attrs["value"] < 0))
