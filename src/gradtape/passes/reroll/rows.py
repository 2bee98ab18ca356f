"""Slices of one tensor made ahead of the loop that uses them, as `unstack` and the derivative of `stack` make them.

They become items of the list of all slices, read where they are used: the loop then reads item i. Items of that list are
views with the layout the slices have (sums depend on it, in the last bit). Only finds them; `line` puts the list in.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from gradtape.ir.graph import Block, Operation, Value
from gradtape.ops.shape import RESHAPE, SLICE_AXIS

MANY = 8  # slices of one tensor


class Row(NamedTuple):
    """Slice `number` of a tensor along an axis."""

    x: Value
    axis: int
    number: int


def find_rows(block: Block) -> tuple[dict[Value, Row], set[Operation]]:
    """Values that are such slices, and the operations that cut them out for nobody else."""
    cuts = [o for o in block.operations if o.op is SLICE_AXIS and o.attrs["size"] == 1 and o.attrs["start"].__class__ is int]
    if len(cuts) < MANY:
        return {}, set()
    wanted = {cut.result for cut in cuts}
    uses = Counter(v for o in block.operations for v in o.operands if v in wanted)
    uses.update(v for v in block.results if v in wanted)
    rows: dict[Value, Row] = {}
    dropped: dict[Value, Operation] = {}
    for operation in block.operations:
        if operation.op is RESHAPE and operation.operands[0] in wanted and uses[operation.operands[0]] == 1:
            (part,) = operation.operands
            cut = part.producer
            assert cut is not None
            (x,) = cut.operands
            axis = cut.attrs["axis"]
            if tuple(operation.result.type.shape) == (*x.type.shape[:axis], *x.type.shape[axis + 1 :]):
                rows[operation.result] = Row(x, axis, cut.attrs["start"])
                dropped[operation.result] = cut
    counts = Counter((row.x, row.axis) for row in rows.values())
    kept = {value: row for value, row in rows.items() if counts[row.x, row.axis] >= MANY}
    return kept, {dropped[value] for value in kept}
