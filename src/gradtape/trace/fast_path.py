"""The short way from an elementwise op on traced tensors to an operation of the program.

What tracing a Python loop costs is decided here. The short way is open for ordinary traced tensors of one floating dtype and
Python numbers while nobody records inside the trace; everything else (other dtypes, weak numbers, symbolic sizes, concrete
tensors) goes the general way, `Trace.emit`. Invariant: the program is the same either way.
"""

from __future__ import annotations

from math import isfinite
from typing import Any

from gradtape.core.hooks import HOOKS
from gradtape.core.opdef import Op
from gradtape.core.record import SCOPE
from gradtape.ir.dims import symbols_in
from gradtape.ir.graph import Operation, Value, simple
from gradtape.ir.types import TensorSpec
from gradtape.ops import staged
from gradtape.trace.tracing import LEVEL, TRACE, Trace, TracedTensor, traced


def quick(op: Op, x: Any, y: Any = None) -> TracedTensor | None:
    """The result of an op on one or two values, or None where the general way must be taken."""
    trace = TRACE.get()
    scope = SCOPE.get()
    if trace is None or trace.types is not None or (scope is not None and scope.recorders):
        return None
    block = trace.blocks[-1]
    # Classes are compared by identity: subclasses (lists, Python numbers, slices of variables) take the general way.
    if x.__class__ is TracedTensor:
        a = x._data
        kind = a.type
        owner = a.owner
        if (owner.home if owner.__class__ is Operation else owner) is not block:
            a = trace.use(x)
    elif x.__class__ is float or x.__class__ is int:
        kind = y._data.type
        a = None
    else:
        return None
    if y is None:
        operands = [a]
        question: Any = (op, id(kind))
    else:
        if y.__class__ is TracedTensor:
            b = y._data
            owner = b.owner
            if (owner.home if owner.__class__ is Operation else owner) is not block:
                b = trace.use(y)
        elif y.__class__ is float or y.__class__ is int:
            b = None
        else:
            return None
        if a is None or b is None:
            number = _number(trace, x if a is None else y, kind)
            if number is None:
                return None
            if a is None:
                a = number
            else:
                b = number
        operands = [a, b]
        question = (op, id(a.type), id(b.type))
    # The same operation on the same types has been asked before, in all but a few cases.
    answers = trace.typing.quick
    known = answers.get(question)
    if known is None:
        known = _result_type(trace, op, [v.type for v in operands])
        if known is None:
            return None
        answers[question] = known
    value = simple(op, operands, known[0], trace.location(), block)
    out = TracedTensor()
    out._data = value
    out._node = None
    out.level = LEVEL
    return out


def _result_type(trace: Trace, op: Op, types: list[Any]) -> tuple[Any, ...] | None:
    """The type of the result, with the types it follows from (so that these stay what their ids say)."""
    first = types[0]
    for kind in types:
        if kind.__class__ is not TensorSpec or kind.dtype is not first.dtype or kind.dtype.kind not in "fc" or symbols_in(kind):
            return None
    inferred = trace.typing.of(op, types, {})
    return (inferred, *types) if inferred.__class__ is TensorSpec else None


def _number(trace: Trace, number: float, like: TensorSpec) -> Value | None:
    """A Python number as a constant of a tensor's dtype."""
    if like.__class__ is not TensorSpec or like.dtype.kind not in "fc":
        return None
    try:
        value = like.dtype.as_numpy_dtype(number)
    except OverflowError:
        return None
    if not isfinite(number) or not isfinite(value.real):  # what does not fit the dtype is said elsewhere
        return None
    key = (value.dtype.char, (), value.tobytes())
    constants = trace.constants[-1]
    known = constants.get(key)
    if known is not None:
        value_of_program: Value = known._data
        return value_of_program
    kind = _SCALARS.get(like.dtype) or _SCALARS.setdefault(like.dtype, TensorSpec((), like.dtype))
    constant = simple(staged.CONSTANT, [], kind, trace.location(), trace.blocks[-1], {"value": value})
    constants[key] = traced(constant)
    return constant


_SCALARS: dict[Any, TensorSpec] = {}  # one type per dtype, so that what follows from it is found again


HOOKS.quick[TracedTensor] = quick
