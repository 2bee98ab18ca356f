"""The ways inside a program: what a result of a compiled function has to do with one of its inputs.

The same question as in `explain_paths.py`, asked of a block: operations in order, regions from inside, loops until nothing
changes. Nothing runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradtape.ad.activity import differentiable, passes_derivative
from gradtape.ir.graph import Block, Location, Operation
from gradtape.ops.elementwise import CAST
from gradtape.ops.structured import CALL, CHECKPOINTED, COND, CUSTOM, LEAF, loop_result
from gradtape.tools.explain_cuts import CONNECTED, Cut, best, op_cut

States = list[Cut | None]


def program_way(block: Block, param: int, result: int, call: Location | None) -> Cut | None:
    """What stands between one parameter and one result of a program; None if they have nothing to do with each other. `call` is
    the user's line that called it, for operations without one."""
    if result >= len(block.results):  # a residual: part of a derivative
        return CONNECTED
    given: States = [None] * len(block.params)
    given[param] = CONNECTED if differentiable(block.params[param]) else Cut("integer_or_bool_on_path", "function", call)
    return _block(block, given, call)[result]


def operation_way(operation: Operation, operand: int, result: int) -> Cut | None:
    """The same for a structured operation of a program that is being traced."""
    if result >= len(operation.results):
        return CONNECTED
    given: States = [None] * len(operation.operands)
    given[operand] = CONNECTED
    return _structured(operation, given, operation.loc)[result]


def _block(block: Block, given: Sequence[Cut | None], call: Location | None) -> States:
    known: dict[Any, Cut] = {}
    for param, state in zip(block.params, given, strict=True):
        if state is not None:
            known[param] = state
    for operation in block.operations:
        states = [known.get(v) for v in operation.operands]
        if all(state is None for state in states):
            continue
        place = operation.loc or call
        results = _structured(operation, states, place) if operation.op.kind == "region" else _plain(operation, states, place)
        for value, state in zip(operation.results, results, strict=True):
            if state is not None:
                known[value] = state
    return [known.get(v) for v in block.results]


def _plain(operation: Operation, states: States, place: Location | None) -> States:
    op = operation.op
    ways = []
    for index, state in enumerate(states):
        if state is None:
            continue
        if state is CONNECTED and op is not CAST and not passes_derivative(op, index):
            state = op_cut(op, place)
        ways.append(state)
    state = best(ways)
    whole = Cut("integer_or_bool_on_path", op.name, place)
    return [whole if state is CONNECTED and not differentiable(v) else state for v in operation.results]


def _structured(operation: Operation, states: States, place: Location | None) -> States:
    if operation.op is COND:
        return _cond(operation, states, place)
    if operation.op is CALL:
        return _block(operation.attrs["callee"], states, place)
    if operation.op is CUSTOM:
        return _custom(operation, states, place)
    if operation.op is CHECKPOINTED:
        return [best([s for s in states if s is not None])] * len(operation.results)
    return _loop(operation, states, place)


def _cond(operation: Operation, states: States, place: Location | None) -> States:
    # Which side runs is not known: a result is connected if it is on any of them.
    branches = [_block(block, states[1:], place) for block in operation.regions.values()]
    chosen = [] if states[0] is None else [Cut("independent", operation.op.name, place, {"branch": True})]
    return [_merged([*ways, *chosen]) for ways in zip(*branches, strict=True)]


def _custom(operation: Operation, states: States, place: Location | None) -> States:
    """The user's rule decides: inputs it has no answer for are cut, and so is what the function used besides its inputs."""
    if operation.attrs.get(LEAF):
        return [best([state for state in states if state is not None])] * len(operation.results)
    name = operation.regions["vjp"].name
    places = operation.attrs["places"]
    ways = []
    for index, state in enumerate(states):
        if state is CONNECTED and index not in places:
            detail: dict[str, Any] = {"function": name}
            if index < operation.layout["inputs"]:
                detail["argument"] = index
            state = Cut("rule_returned_none", operation.op.name, place, detail)
        if state is not None:
            ways.append(state)
    return [best(ways)] * len(operation.results)


def _loop(operation: Operation, states: States, place: Location | None) -> States:
    body = operation.regions["body"]
    skipped = operation.layout.get("length", 0)  # the body has its index there instead
    carried = operation.layout["carried"]
    given: States = [None, *states[skipped:]]
    while True:
        results = _block(body, given, place)
        # What an iteration connects, the next one begins with; each round adds a connection or is the last.
        grown = [_merged([given[i + 1], results[i]]) for i in range(carried)]
        if grown == given[1 : carried + 1]:
            break
        given[1 : carried + 1] = grown
    of_results: States = [None] * len(operation.results)
    of_results[:carried] = grown
    for i in range(carried, len(results)):
        of_results[loop_result(operation, i)] = results[i]
    return of_results


def _merged(ways: Sequence[Cut | None]) -> Cut | None:
    open_ways = [way for way in ways if way is not None]
    return best(open_ways) if open_ways else None
