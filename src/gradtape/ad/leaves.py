"""Which versions of a variable are leaves, as far as a program tells: what is assigned depends on nothing watched.

A version made by an operation marked `LEAF` (see `variables/leaf_versions.py`) is one in some runs and not in others where the
value assigned meets another in a branch or changes from one iteration to the next. Such a version is *undecided*: only a run
that records every operation can tell.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gradtape.ad.activity import loop_always_varied, loop_varied, varied, varied_results
from gradtape.core.dispatch import PART
from gradtape.core.record import Record
from gradtape.ir.graph import Block, Operation, Value
from gradtape.ops.structured import CALL, COND, LEAF, UNDECIDED


def depends(node: Record | None, always: bool = False) -> bool:
    """Whether a recorded value depends differentiably on something watched; `always`: whichever way the branches and loops
    before it go. A record of a structured operation covers all its results, also those that nothing watched is in."""
    if node is None or not node.keys:
        return False
    known: dict[Record, bool] = {}
    pending = [node]
    while pending:  # what a record follows from comes first; one watched input is enough for an ordinary operation
        latest = pending[-1]
        record: Any = latest.nodes[0] if latest.op is PART else latest
        inputs = [] if record.op is None else [n for n in record.nodes if n is not None and n.keys]
        is_region = record.op is not None and "operation" in (record.attrs or {})
        unknown = [n for n in inputs if n not in known]
        # An ordinary operation needs one watched input, so its inputs are asked one at a time and the rest of the past is not
        # walked. Which results of a region vary depends on all of its inputs.
        if unknown and (is_region or not any(known.get(n) for n in inputs)):
            pending += unknown if is_region else unknown[:1]
            continue
        if is_region:
            moving = {i for i, n in enumerate(record.nodes) if n is not None and known.get(n)}
            places = varied_results(record.attrs["operation"], moving, always)
            known[latest] = not places.isdisjoint([latest.attrs["index"]] if latest.op is PART and latest.attrs else places)
        else:
            known[latest] = record.op is None or any(known.get(n) for n in inputs)
        pending.pop()
    return known[node]


def undecided_leaves(block: Block, params: Iterable[int], always: Iterable[int]) -> dict[int, Operation]:
    """The parameters that stand for leaf versions of a variable (`LEAF`) which only a run can tell: a version that follows
    from what is watched (`params`; in every run: `always`) in one iteration or branch and not in another. With the assignment.
    """
    # Two analyses of the same block: what varies in some run, and what varies in every run. Between the two lies what nobody
    # can say before it runs.
    may, must = varied(block, [block.params[i] for i in params]), varied(block, [block.params[i] for i in always], always=True)
    undecided: dict[Value, Operation] = {}
    for operation in block.operations:
        if operation.attrs.get(LEAF):
            stand_in, value = operation.operands[0], operation.group("values")[0]
            # In `must`: never a leaf. Not in `may`: always one. Neither needs a run to tell.
            if stand_in in may and value in may and value not in must:
                undecided.setdefault(stand_in, operation)
        elif operation.op.kind == "region":
            some, every = ({i for i, v in enumerate(operation.operands) if v in moving} for moving in (may, must))
            inner = undecided_inside(operation, some, every)
            # (the assignment that is named is the first one: what was noted before goes over what is noted here)
            undecided = {operation.operands[i]: where for i, where in inner.items()} | undecided
    return {i: undecided[param] for i, param in enumerate(block.params) if param in undecided}


def undecided_inside(operation: Operation, some: set[int], every: set[int]) -> dict[int, Operation]:
    """`undecided_leaves` of the regions of an operation, by its operands: those that may vary, and do in every run."""
    if operation.op is CALL:
        return undecided_leaves(operation.attrs["callee"], some, every)
    if operation.op is COND:
        regions = [
            undecided_leaves(b, [i - 1 for i in some if i], [i - 1 for i in every if i]) for b in operation.regions.values()
        ]
        return {i + 1: where for inner in regions for i, where in inner.items()}
    if operation.attrs.get(LEAF) == UNDECIDED:
        return {0: operation}
    if "body" not in operation.regions:  # rules of their own; what a derivative is computed with has no leaves
        return {}
    always = loop_always_varied(operation, every)[0]
    inner = undecided_leaves(operation.regions["body"], loop_varied(operation, some)[0], always)
    # From the body's parameters to the loop's operands: the body has the index in front, the loop its length, if that is an
    # operand.
    return {i - 1 + operation.layout.get("length", 0): where for i, where in inner.items()}
