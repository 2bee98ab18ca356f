"""Algebra that holds for floating-point numbers bit by bit: with NaN, infinities and both zeros, of any dtype.

So x + (-0.0), x - 0.0, x · 1 and x / 1 are x, but x + 0.0 is not (at -0.0), nor is x · 0 zero (at NaN), and products of complex
numbers are left alone (1 is 1 + 0i, and 0 · inf is NaN). A rule is a function of the operation and its operands that gives
the value that stands for the result, or None. Invariant: types and bits stay (NaN payloads aside), and so do derivatives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.types import ListSpec
from gradtape.ir.walk import Rebuild, rebuild
from gradtape.ops.dynamic import whole_key
from gradtape.ops.elementwise import ADD, DIVIDE, MULTIPLY, NEGATIVE, POWER, SUBTRACT
from gradtape.ops.index import GETITEM, PUT_SLICE
from gradtape.ops.reduce import REDUCE_MEAN, REDUCE_SUM
from gradtape.ops.select import WHERE
from gradtape.ops.shape import RESHAPE, SLICE_AXIS
from gradtape.ops.staged import MASKED_MULTIPLY
from gradtape.passes.facts import attr_key, emit_constant, is_number, same_type, static_bytes, uniform

FEW_BYTES = 4096

Rule = Callable[[Rebuild, Operation, list[Value]], "Value | None"]


def simplify(block: Block) -> Block:
    """The program with exact algebraic rules applied once, operands before results."""
    return rebuild(block, _visit)


def _visit(scope: Rebuild, operation: Operation) -> None:
    rules = RULES.get(operation.op)
    if rules is not None:
        operands = scope.operands(operation)
        # a sum of two lists is an operation item by item; none of the rules is about those
        if not any(v.type.__class__ is ListSpec for v in operands):
            wanted = operation.results[0].type
            for rule in rules:
                value = rule(scope, operation, operands)
                # x + 0 may be wider than x by broadcasting, or of another dtype: then x cannot stand for it
                if value is not None and same_type(value.type, wanted):
                    scope.replace(operation, [value])
                    return
    scope.copy(operation)


def _producer(value: Value, op: Any) -> Operation | None:
    producer = value.producer
    return producer if producer is not None and producer.op is op else None


def _is_complex(value: Value) -> bool:
    return bool(value.type.dtype.kind == "c")


# -- sums


def _add_nothing(scope: Rebuild, operation: Operation, operands: list[Value]) -> Value | None:
    """x + (-0.0) = x; of integers x + 0."""
    x, y = operands
    if is_number(y, -0.0):
        return x
    return y if is_number(x, -0.0) else None


def _subtract_nothing(scope: Rebuild, operation: Operation, operands: list[Value]) -> Value | None:
    """x - 0.0 = x, for x = -0.0 too."""
    x, y = operands
    return x if is_number(y, 0.0) else None


def _add_negative(scope: Rebuild, operation: Operation, operands: list[Value]) -> Value | None:
    """x + (-y) = x - y, (-x) + y = y - x."""
    x, y = operands
    if (minus := _producer(y, NEGATIVE)) is not None:
        return _emitted(scope, SUBTRACT, [x, minus.operands[0]], operation)
    if (minus := _producer(x, NEGATIVE)) is not None:
        return _emitted(scope, SUBTRACT, [y, minus.operands[0]], operation)
    return None


def _subtract_negative(scope: Rebuild, operation: Operation, operands: list[Value]) -> Value | None:
    """x - (-y) = x + y."""
    x, y = operands
    minus = _producer(y, NEGATIVE)
    return None if minus is None else _emitted(scope, ADD, [x, minus.operands[0]], operation)


def _emitted(scope: Rebuild, op: Any, operands: list[Value], like: Operation) -> Value:
    return scope.emit(op, operands, [like.results[0].type]).result


# -- products


def _multiply_one(scope: Rebuild, operation: Operation, operands: list[Value]) -> Value | None:
    """x · 1 = x, x · (-1) = -x; masked too, since ±1 is finite and not 0."""
    if _is_complex(operation.results[0]):
        return None
    for x, y in (operands, operands[::-1]):
        if is_number(y, 1):
            return x
        # of unsigned integers -x is no negative, of booleans it is an error
        if y.type.dtype.kind in "if" and same_type(x.type, operation.results[0].type) and is_number(y, -1):
            return _emitted(scope, NEGATIVE, [x], operation)
    return None


def _multiply_negatives(scope: Rebuild, operation: Operation, operands: list[Value]) -> Value | None:
    """(-x) · (-y) = x · y."""
    x, y = (_producer(v, NEGATIVE) for v in operands)
    if x is None or y is None or _is_complex(operation.results[0]):
        return None
    return _emitted(scope, MULTIPLY, [x.operands[0], y.operands[0]], operation)


def _divide_one(scope: Rebuild, operation: Operation, operands: list[Value]) -> Value | None:
    """x / 1 = x."""
    x, y = operands
    return x if not _is_complex(operation.results[0]) and is_number(y, 1) else None


def _divide_power_of_two(scope: Rebuild, operation: Operation, operands: list[Value]) -> Value | None:
    """x / 2ⁿ = x · 2⁻ⁿ: both are the exact quotient, rounded once."""
    x, y = operands
    if y.type.shape or y.type.dtype.name not in ("float32", "float64") or x.type.dtype is not y.type.dtype:
        return None
    number = uniform(y)
    if number is None or not np.isfinite(number) or abs(np.frexp(number)[0]) != 0.5:
        return None
    with np.errstate(all="ignore"):
        inverse = number.dtype.type(1) / number
    # the inverse of a huge power is subnormal, and flushed to 0 by some machines; that of a tiny one is infinite
    limits = np.finfo(number.dtype)
    if not limits.tiny <= abs(inverse) <= limits.max:
        return None
    return _emitted(scope, MULTIPLY, [x, emit_constant(scope, inverse)], operation)


def _power_one(scope: Rebuild, operation: Operation, operands: list[Value]) -> Value | None:
    """x¹ = x."""
    return operands[0] if operation.attrs["exponent"] == 1 and not _is_complex(operands[0]) else None


# -- choices and parts


def _where_known(scope: Rebuild, operation: Operation, operands: list[Value]) -> Value | None:
    """A choice between equals, or one that is made."""
    condition, x, y = operands
    if x is y:
        return x
    chosen = uniform(condition)
    return None if chosen is None else x if chosen else y


def _whole(scope: Rebuild, operation: Operation, operands: list[Value]) -> Value | None:
    """The part that is the whole: x[:], x[:, :], x[...]."""
    full = all(k is Ellipsis or (k.__class__ is slice and k == slice(None)) for k in operation.attrs["key"])
    return operands[0] if full else None


def _read_back(scope: Rebuild, operation: Operation, operands: list[Value]) -> Value | None:
    """What was just put into zeros, read from the same place."""
    # what the backward pass of a slice of a slice consists of
    put = _producer(operands[0], PUT_SLICE)
    if put is None or attr_key(put.attrs["key"]) != attr_key(operation.attrs["key"]):
        return None
    return put.operands[0]


def _turned(scope: Rebuild, operation: Operation, operands: list[Value]) -> Value | None:
    """Put into zeros that it covers, each axis as it is or from its end on: read in the same way."""
    (x,) = operands
    key = operation.attrs["key"]
    full = all(k.__class__ is slice and k.start is None and k.stop is None and k.step in (None, 1, -1) for k in key)
    if not full or len(key) > len(x.type.shape) or not same_type(x.type, operation.results[0].type):
        return None
    return scope.emit(GETITEM, [x], [operation.results[0].type], {"key": key}).result


def _covering(scope: Rebuild, operation: Operation, operands: list[Value]) -> Value | None:
    """Put into zeros that it covers, with other axes of one element: the same elements in the same order."""
    (x,), key, result = operands, operation.attrs["key"], operation.results[0]
    axes = zip(whole_key(tuple(k for k in key if k is not None), len(result.type.shape)), result.type.shape, strict=True)
    full = all(k == slice(None) if k.__class__ is slice else k in (0, -1) and size == 1 for k, size in axes)
    same = [n for n in x.type.shape if n != 1] == [n for n in result.type.shape if n != 1]
    # a small one is put into memory: many elements read each of its own, and as a part of their kernel would compute it anew
    if None in key and (static_bytes(result.type) or 0) <= FEW_BYTES:
        return None
    return scope.emit(RESHAPE, [x], [result.type], {"shape": tuple(result.type.shape)}).result if full and same else None


def _whole_axis(scope: Rebuild, operation: Operation, operands: list[Value]) -> Value | None:
    """A part of an axis that is all of it (the types say so)."""
    return operands[0] if operation.attrs["start"].__class__ is int and operation.attrs["start"] == 0 else None


def _no_axes(scope: Rebuild, operation: Operation, operands: list[Value]) -> Value | None:
    """A sum or mean over no axes."""
    return operands[0] if tuple(operation.attrs["axis"]) == () else None


RULES: dict[Any, tuple[Rule, ...]] = {
    ADD: (_add_nothing, _add_negative),
    SUBTRACT: (_subtract_nothing, _subtract_negative),
    MULTIPLY: (_multiply_one, _multiply_negatives),
    MASKED_MULTIPLY: (_multiply_one,),
    DIVIDE: (_divide_one, _divide_power_of_two),
    POWER: (_power_one,),
    WHERE: (_where_known,),
    GETITEM: (_whole, _read_back),
    PUT_SLICE: (_turned, _covering),
    SLICE_AXIS: (_whole_axis,),
    REDUCE_SUM: (_no_axes,),
    REDUCE_MEAN: (_no_axes,),
}
