"""Which values of a program a derivative can pass through: forwards from what varies, backwards from what counts.

Pure analysis of blocks, regions included; loops run to a fixed point. A value is *varied* if it depends differentiably on
one of the given parameters, *useful* if one of the given results depends differentiably on it. What other ranks send may vary
with theirs, and what is sent to them may count there. `always` asks for what varies whichever way branches and loops go: what
some run leaves constant does not count.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gradtape.core.opdef import Op
from gradtape.ir.graph import Block, Operation, Value
from gradtape.ops.collective import RECV, SEND
from gradtape.ops.structured import CALL, CHECKPOINTED, COND, CUSTOM, LEAF, body_result, loop_result


def differentiable(value: Value) -> bool:
    """Whether values of this type have derivatives."""
    return bool(value.type.dtype.is_differentiable)


def passes_derivative(op: Op, index: int) -> bool:
    """Whether the derivative of an ordinary op with respect to its input `index` exists."""
    if not op.differentiable:
        return False
    if op.vjp is not None:
        return True
    # an op of any number of operands (`*xs`) has one rule for all the last ones
    table: tuple[Any, ...] = op.partials or op.vjps
    return table[min(index, len(table) - 1)] is not None if table else False


def varied(block: Block, params: Iterable[Value], always: bool = False) -> set[Value]:
    """Every value of the block that depends differentiably on `params`, these included."""
    moving = {p for p in params if differentiable(p)}
    for operation in block.operations:
        if operation.op.kind == "region":
            places = varied_results(operation, {i for i, v in enumerate(operation.operands) if v in moving}, always)
            moving.update(operation.results[i] for i in places)
        # what arrives may depend on another rank's parameters, whatever it depends on here
        elif operation.op is RECV or any(
            v in moving and passes_derivative(operation.op, i) for i, v in enumerate(operation.operands)
        ):
            moving.update(v for v in operation.results if differentiable(v))
    return moving


def useful(block: Block, results: Iterable[Value]) -> set[Value]:
    """Every value of the block on which one of `results` depends differentiably, these included."""
    needed = {v for v in results if differentiable(v)}
    for operation in reversed(block.operations):
        # what is sent counts on the rank that gets it, even if nothing here depends on it
        if operation.op is not SEND and not any(v in needed for v in operation.results):
            continue
        if operation.op.kind == "region":
            places = useful_operands(operation, {i for i, v in enumerate(operation.results) if v in needed})
            needed.update(operation.operands[i] for i in places)
            continue
        for i, v in enumerate(operation.operands):
            if differentiable(v) and passes_derivative(operation.op, i):
                needed.add(v)
    return needed


def varied_results(operation: Operation, operands: set[int], always: bool = False) -> set[int]:
    """The results of a structured operation that depend differentiably on these operands (positions)."""
    if operation.op is COND:
        # operand 0 is the predicate, which the branches do not take and no derivative passes
        branches = [_results_of(b, {i - 1 for i in operands if i > 0}, always) for b in operation.regions.values()]
        # "always": both ways must vary
        return set.intersection(*branches) if always else set.union(*branches)
    if operation.op is CALL:
        return _results_of(operation.attrs["callee"], operands, always)
    if operation.op is CUSTOM:
        moving = not operands.isdisjoint(_rule_places(operation))
        return {i for i, v in enumerate(operation.results) if moving and differentiable(v)}
    if operation.op is CHECKPOINTED:
        shift = 2 - operation.layout["length"]  # its region takes the first index and the count instead of the length
        return _results_of(operation.regions["backward"], {i + shift for i in operands}, always)
    return (loop_always_varied if always else loop_varied)(operation, operands)[1]


def useful_operands(operation: Operation, results: set[int]) -> set[int]:
    """The operands of a structured operation on which these results (positions) depend differentiably."""
    if operation.op is COND:
        branches = [_params_of(b, results) for b in operation.regions.values()]
        # behind the predicate
        return {i + 1 for i in set().union(*branches)}
    if operation.op is CALL:
        return _params_of(operation.attrs["callee"], results)
    if operation.op is CUSTOM:
        return set(_rule_places(operation)) if results else set()
    if operation.op is CHECKPOINTED:
        shift = 2 - operation.layout["length"]
        return {i - shift for i in _params_of(operation.regions["backward"], results) if i >= 2}
    return loop_useful(operation, results)[1]


def _rule_places(operation: Operation) -> tuple[int, ...]:
    """The operands of a `custom` that its derivative may go to."""
    places: tuple[int, ...] = operation.attrs["places"]
    return (*places, operation.layout["inputs"]) if operation.attrs.get(LEAF) else places


def _results_of(block: Block, params: set[int], always: bool = False) -> set[int]:
    moving = varied(block, [block.params[i] for i in params], always)
    return {i for i, v in enumerate(block.results) if v in moving}


def _params_of(block: Block, results: set[int]) -> set[int]:
    needed = useful(block, [block.results[i] for i in results])
    return {i for i, v in enumerate(block.params) if v in needed}


def loop_varied(operation: Operation, operands: set[int]) -> tuple[set[int], set[int]]:
    """(parameters of the body, results of the operation) that vary, at the fixed point."""
    params, carried = _body_params(operation, operands), operation.layout["carried"]
    while True:
        results = _results_of(operation.regions["body"], params)
        # parameter 0 is the index: carried value i is parameter i + 1, in all the functions below
        grown = params | {i + 1 for i in results if i < carried}
        if grown == params:
            break
        params = grown
    ends = {i for i in range(carried) if i + 1 in params}  # the initial value may be the final one
    return params, ends | {loop_result(operation, i) for i in results if i >= carried}


def loop_always_varied(operation: Operation, operands: set[int]) -> tuple[set[int], set[int]]:
    """(parameters of the body that vary in every iteration, results that vary however many there are)."""
    params, carried = _body_params(operation, operands), operation.layout["carried"]
    while True:
        results = _results_of(operation.regions["body"], params, always=True)
        # what an iteration leaves constant, the next one begins with: the first alone is no measure
        left = {p for p in params if not 1 <= p <= carried or p - 1 in results}
        if left == params:
            break
        params = left
    ends = {p - 1 for p in params if 1 <= p <= carried}
    return params, ends | {loop_result(operation, i) for i in results if i >= carried}


def _body_params(operation: Operation, operands: set[int]) -> set[int]:
    """The parameters of a loop's body that are given these operands."""
    skipped = operation.layout.get("length", 0)  # the body has its index there instead
    return {i - skipped + 1 for i in operands if i >= skipped and differentiable(operation.operands[i])}


def loop_useful(operation: Operation, results: set[int]) -> tuple[set[int], set[int]]:
    """(results of the body, operands of the operation) that are useful, at the fixed point."""
    body = operation.regions["body"]
    carried = operation.layout["carried"]
    wanted = {place for i in results if (place := body_result(operation, i)) is not None}
    while True:
        params = _params_of(body, wanted)
        # a carried value that an iteration needs, the iteration before must give
        grown = wanted | {i - 1 for i in params if 1 <= i <= carried}
        if grown == wanted:
            break
        wanted = grown
    skipped = operation.layout.get("length", 0)
    # a wanted carried value is itself an operand that counts, even if no iteration reads it: there may be none
    used = {i - 1 + skipped for i in params if i > 0} | {i + skipped for i in wanted if i < carried}
    return wanted, {i for i in used if differentiable(operation.operands[i])}
