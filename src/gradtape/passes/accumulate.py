"""Sums with a value that is zero almost everywhere become additions at a place.

The derivative of reading a part is that part put into zeros (`put_slice`, `put_at`, `index_add`, `take_add`, an item added to a
list of zeros), and cotangents of several readings are added up; in a loop that costs the whole array at each step.
`add_at(acc, v, key)` costs the part, once `bufferize` has made it in place. Invariant: the same sums, added as eager code adds
cotangents. So two things may differ in the last bits: an element that is not touched stays -0.0 (-0.0 + 0.0 is 0.0), and where
an index array names a place twice, both values are added to the total one after the other.
"""

from __future__ import annotations

from typing import Any

from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.slots import Slot
from gradtape.ir.walk import Rebuild, rebuild
from gradtape.ops.dynamic import ADD_AT, PUT_AT
from gradtape.ops.elementwise import ADD
from gradtape.ops.index import INDEX_ADD, PUT_SLICE, TAKE_ADD
from gradtape.ops.lists import LIST_ADD, LIST_ADD_AT, LIST_ZEROS_LIKE
from gradtape.passes.facts import same_type


def accumulate(block: Block) -> Block:
    """The program with sparse sums."""
    return rebuild(block, _visit)


def _visit(scope: Rebuild, operation: Operation) -> None:
    if operation.op is ADD or operation.op is LIST_ADD:
        x, y = scope.operands(operation)
        # the right operand first: a reverse walk adds what is new to what it has
        for total, part in ((x, y), (y, x)):
            found = _added(scope, total, part, operation)
            if found is not None:
                scope.replace(operation, [found])
                return
    scope.copy(operation)


def _added(scope: Rebuild, total: Value, part: Value, operation: Operation) -> Value | None:
    """`total` with what is not zero in `part` added at its place; None where `part` is no such value."""
    producer = part.producer
    wanted = operation.results[0].type
    if producer is None or not same_type(total.type, wanted) or not same_type(part.type, wanted):
        return None
    key, operands = _place(total, producer)
    if key is not None:
        value, *places = operands
        return scope.emit(ADD_AT, [total, value, *places], [wanted], {"key": key}).result
    if producer.op is LIST_ADD_AT:
        zeros, place, value = producer.operands
        if zeros.producer is not None and zeros.producer.op is LIST_ZEROS_LIKE:
            return scope.emit(LIST_ADD_AT, [total, place, value], [wanted]).result
    return None


def _place(total: Value, producer: Operation) -> tuple[tuple[Any, ...] | None, list[Value]]:
    """The key at which an operation puts its first operand into zeros, and all its operands; None for other operations."""
    op, attrs, operands = producer.op, producer.attrs, producer.operands
    if op is PUT_SLICE or op is PUT_AT:
        return attrs["key"], operands
    if op is INDEX_ADD:
        return tuple(Slot(i) for i in range(len(operands) - 1)), operands
    # not only from derivatives: users sum segments too, and expect the sum of sums, except where the total goes on and on
    if op is TAKE_ADD and total.producer is None:
        return (*((slice(None),) * attrs["axis"]), Slot(0)), operands
    return None, operands
