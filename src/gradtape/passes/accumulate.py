"""Sums with a value that is zero almost everywhere become additions at a place.

The derivative of reading a part is that part put into zeros (`put_slice`, `put_at`, an item added to a list of zeros), and
cotangents of several readings are added up; in a loop that costs the whole array at each step. `add_at(acc, v, key)` costs
the part, once `bufferize` has made it in place. Invariant: every element keeps its value. One bit may differ, the sign of a
zero: an element that is not touched stays -0.0, where -0.0 + 0.0 is 0.0. That is how eager code adds cotangents too.
"""

from __future__ import annotations

from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.walk import Rebuild, rebuild
from gradtape.ops.dynamic import ADD_AT, PUT_AT
from gradtape.ops.elementwise import ADD
from gradtape.ops.index import PUT_SLICE
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
