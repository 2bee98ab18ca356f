"""Forward mode of structured operations: values and tangents side by side in one new operation.

A branch, call or loop becomes one that takes tangents of its moving inputs too and gives those of its results; a loop carries
them. An operation with effects must not run twice: its tangents come from reverse mode, transposed, which uses what the one
run saved. Tangents are values of the program, so they can be differentiated again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradtape.ad.activity import differentiable, loop_varied, varied
from gradtape.ad.checkpointing import all_at_once
from gradtape.ad.forward import jvp_of
from gradtape.ad.recording import Recording
from gradtape.ad.regions import region_vjp
from gradtape.ad.replaying import replay
from gradtape.ad.sites import region, zeros_for
from gradtape.core.opdef import Op
from gradtape.core.record import Record, current_scope
from gradtape.errors import UnimplementedError
from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.walk import has_effect
from gradtape.ops.structured import CALL, CHECKPOINTED, COND, CUSTOM, SCAN, WHILE, body_result, loop_result
from gradtape.trace.tracing import Trace, current_trace, params_of, traced, tracing, type_of

Tensors = Sequence[Any]
Pair = tuple[list[Any], tuple[Any, ...]]  # values of the results, and tangents: None where nothing moves


def region_jvp(operation: Operation, inputs: Tensors, tangents: Tensors, out: Tensors) -> tuple[Any, ...] | None:
    """Tangents of the results of an operation that stands in the program, given its recorded results."""
    moving, own = _moving(operation, tangents)
    if not moving:
        return None
    if operation.op is CUSTOM or has_effect(operation):
        if has_effect(operation) and any(not recorder.key.holds for recorder in current_scope().recorders):
            raise UnimplementedError(
                f"nested ForwardAccumulators around the {operation.op.name} at {operation.loc}, which prints, asserts, draws "
                "random numbers or calls Python inside: use a GradientTape for one of them, or take that out of it"
            )
        return _transposed(out[0]._node.nodes[0], operation, own, moving)
    return _RULES[operation.op](operation, inputs, own, moving)[1]


def _moving(operation: Operation, tangents: Tensors) -> tuple[set[int], list[Any]]:
    """Which operands move, and the tangents as tensors of the program."""
    trace = current_trace()
    moving = {i for i, t in enumerate(tangents) if t is not None and differentiable(operation.operands[i])}
    return moving, [trace.own(t) if i in moving else None for i, t in enumerate(tangents)]


def _transposed(record: Record, operation: Operation, tangents: Tensors, moving: set[int]) -> tuple[Any, ...]:
    """J·t as the cotangent of v, where v ↦ vjp(v) has the cotangent t."""
    recording = Recording()
    with recording.recording():
        places = [i for i, v in enumerate(operation.results) if differentiable(v)]
        # vjp is linear in v, so its derivative is the same at every v: zeros will do
        seeds = {i: recording.watched(zeros_for(traced(operation.results[i]))) for i in places}
        needed = tuple(i in moving for i in range(len(record.nodes)))
        cts = region_vjp(record, [seeds.get(i) for i in range(len(operation.results))], needed)
    pairs = [(ct, tangents[i]) for i, ct in enumerate(cts) if ct is not None and i in moving]
    nodes: list[Any] = [seeds[i]._node for i in places]
    answers = recording.cotangents([ct for ct, _ in pairs], [t for _, t in pairs], nodes, boxed=True)
    recording.close()
    return _placed(len(record.shape), places, answers)


def _placed(count: int, places: Sequence[int], values: Sequence[Any]) -> tuple[Any, ...]:
    known = dict(zip(places, values, strict=True))
    return tuple(known.get(i) for i in range(count))


# -- blocks ------------------------------------------------------------------------------------------------------------


def jvp_block(block: Block, moving: Sequence[int], results: Sequence[int]) -> Block:
    """parameters, tangents of `moving` → results, tangents of `results` (zeros where a result does not move)."""
    root = Block([p.type for p in block.params], [p.name for p in block.params], block.name)
    trace = Trace(root)
    with tracing(trace):
        inputs = params_of(root)
        # parameters behind the block's own: a caller gives values first, then tangents
        seeds = {i: traced(root.add_param(block.params[i].type)) for i in moving}
        outs, slopes = pushed(block, inputs, seeds)
        ends = [slopes[i] if slopes.get(i) is not None else zeros_for(outs[i]) for i in results]
        root.give(outputs=[trace.operand(t) for t in outs], tangents=[trace.operand(t) for t in ends])
    return root


def pushed(block: Block, inputs: Tensors, seeds: dict[int, Any]) -> tuple[list[Any], dict[int, Any]]:
    """Run a block on tensors and push tangents along: (results, tangents of results by position)."""
    trace = current_trace()
    known: dict[Value, Any] = dict(zip(block.params, inputs, strict=True))
    moves: dict[Value, Any] = {block.params[i]: t for i, t in seeds.items()}
    before = trace.loc
    for operation in block.operations:
        trace.loc = operation.loc
        operands = [known[v] for v in operation.operands]
        outs, tangents = _step(operation, operands, [moves.get(v) for v in operation.operands])
        known.update(zip(operation.results, outs, strict=True))
        pairs = zip(operation.results, tangents, strict=True)
        moves.update({v: t for v, t in pairs if t is not None and differentiable(v)})
    trace.loc = before
    return [known[v] for v in block.results], {i: moves[v] for i, v in enumerate(block.results) if v in moves}


def _step(operation: Operation, operands: list[Any], tangents: list[Any]) -> Pair:
    """One operation on values and tangents."""
    nothing = (None,) * len(operation.results)
    # nothing moves: no tangent is carried along, not even zeros
    if all(t is None for t in tangents):
        return replay(_alone(operation), operands, sizes="same"), nothing
    if operation.op.kind == "region":
        moving, own = _moving(operation, tangents)
        if not moving:
            return replay(_alone(operation), operands, sizes="same"), nothing
        if operation.op is CUSTOM or has_effect(operation):
            return _run_and_transposed(operation, operands, own, moving)
        return _RULES[operation.op](operation, operands, own, moving)
    outs = replay(_alone(operation), operands, sizes="same")
    if operation.op.outputs == 1:
        return outs, (jvp_of(operation.op, tuple(operands), tuple(tangents), outs[0], operation.attrs),)
    return outs, jvp_of(operation.op, tuple(operands), tuple(tangents), tuple(outs), operation.attrs) or nothing


def _run_and_transposed(operation: Operation, operands: list[Any], tangents: list[Any], moving: set[int]) -> Pair:
    recording = Recording()
    with recording.recording():
        given = [recording.watched(t) if i in moving else t for i, t in enumerate(operands)]
        outs = replay(_alone(operation), given, sizes="same")
    node = next((out._node for out in outs if out._node is not None), None)
    if node is None:
        return outs, (None,) * len(outs)
    # the results are parts of one record, which has the operation as it stands in the program, with residuals it may get
    record: Any = node.nodes[0]
    slopes = _transposed(record, record.attrs["operation"], tangents, moving)
    recording.close()
    # residuals have become results behind the operation's own
    return outs, slopes[: len(outs)]


def _alone(operation: Operation) -> Block:
    """A block of one operation."""
    block = Block([v.type for v in operation.operands])
    types = [v.type for v in operation.results]
    alone = Operation(
        operation.op, block.params, types, operation.attrs, operation.regions, operation.loc, operation.layout,
        operation.result_layout,
    )  # fmt: skip
    block.append(alone)
    return block.give(outputs=alone.results)


# -- the rules ---------------------------------------------------------------------------------------------------------


def _moving_results(block: Block, moving: Sequence[int]) -> set[int]:
    moved = varied(block, [block.params[i] for i in moving])
    return {i for i, v in enumerate(block.results) if v in moved}


def _cond(operation: Operation, inputs: Tensors, tangents: Tensors, moving: set[int]) -> Pair:
    # without the predicate, as the branches count their parameters
    places = sorted(i - 1 for i in moving if i > 0)
    # what moves in either side has a tangent in both: `jvp_block` gives zeros where it does not move
    results = sorted(set().union(*(_moving_results(b, places) for b in operation.regions.values())))
    regions = {}
    for name, block in operation.regions.items():
        both = regions[name] = jvp_block(block, places, results)
        both.give(outputs=both.results)
        both.layout = {"inputs": len(both.params)}
    given = [*inputs[1:], *(tangents[i + 1] for i in places)]
    types = _types(operation, results)
    outs = current_trace().structured(COND, {"pred": [inputs[0]], "inputs": given}, regions, {}, types)["outputs"]
    return _halves(operation, results, outs)


def _call(operation: Operation, inputs: Tensors, tangents: Tensors, moving: set[int]) -> Pair:
    callee = operation.attrs["callee"]
    places = sorted(moving)
    results = sorted(_moving_results(callee, places))
    # one dual of a callee for all its calls: else a program that calls a function n times would have n copies of it
    key = (callee, tuple(places))
    known: dict[Any, Block] = current_trace().memory
    both = known[key] if key in known else known.setdefault(key, jvp_block(callee, places, results))
    both.give(outputs=both.results)
    given = [*inputs, *(tangents[i] for i in places)]
    outs = current_trace().structured(CALL, {"inputs": given}, {}, {"callee": both}, _types(operation, results))["outputs"]
    return _halves(operation, results, outs)


def _types(operation: Operation, places: list[int]) -> tuple[list[Any], dict[str, int]]:
    """Of results, then of tangents."""
    types = [*(v.type for v in operation.results), *(operation.results[i].type for i in places)]
    return types, {"outputs": len(types)}


def _halves(operation: Operation, places: list[int], outs: list[Any]) -> Pair:
    count = len(operation.results)
    return outs[:count], _placed(count, places, outs[count:])


def _checkpointed(operation: Operation, inputs: Tensors, tangents: Tensors, moving: set[int]) -> Pair:
    """As of a call of `reverse` on all iterations."""
    block = operation.regions["backward"]
    given = all_at_once(operation, inputs)
    skipped = operation.layout["length"]
    call = Operation(CALL, block.params, [v.type for v in operation.results], {"callee": block})
    # its region takes the first index and the count in the place of the length
    return _call(call, given, [None, None, *tangents[skipped:]], {i + 2 - skipped for i in moving})


def _loop(operation: Operation, inputs: Tensors, tangents: Tensors, moving: set[int]) -> Pair:
    body = operation.regions["body"]
    skipped = operation.layout.get("length", 0)
    carried, consts = operation.layout["carried"], operation.layout["consts"]
    params, results = loop_varied(operation, moving)
    active = [j for j in range(carried) if j + 1 in params]
    moved_consts = [p for p in sorted(params) if carried < p <= carried + consts]
    moved_xs = [p for p in sorted(params) if p > carried + consts]
    places = [body_result(operation, i) for i in sorted(results)]
    moved_ys = [k for k in places if k is not None and k >= carried]
    order = [*(j + 1 for j in active), *moved_consts, *moved_xs]
    both = jvp_block(body, order, [*active, *moved_ys])
    block = _dual_body(both, body, active, moved_consts, moved_xs, carried)
    # a carried value that moves after the first iteration only starts with a tangent of zero
    starts = [tangents[j + skipped] if tangents[j + skipped] is not None else zeros_for(inputs[j + skipped]) for j in active]
    flat = list(inputs)
    given: dict[str, list[Any]] = {}
    if "length" in operation.layout:
        given["length"] = flat[:skipped]
    given["carried"] = [*flat[skipped : skipped + carried], *starts]
    own = flat[skipped + carried : skipped + carried + consts]
    given["consts"] = [*own, *(tangents[p - 1 + skipped] for p in moved_consts)]
    regions = {"body": block}
    if operation.op is SCAN:
        given["xs"] = [*flat[skipped + carried + consts :], *(tangents[p - 1 + skipped] for p in moved_xs)]
    else:
        regions = {"test": _dual_test(operation.regions["test"], starts, given["consts"][consts:]), "body": block}
    outs = current_trace().structured(operation.op, given, regions, operation.attrs)
    ys = len(body.results) - carried
    values = [*outs["carried"][:carried], *outs.get("count", ()), *outs["ys"][:ys]]
    # tangents stand behind the values in each group
    ends = dict(zip(active, outs["carried"][carried:], strict=True))
    ends.update(zip((loop_result(operation, k) for k in moved_ys), outs["ys"][ys:], strict=True))
    return values, tuple(ends.get(i) for i in range(len(operation.results)))


def _dual_body(both: Block, body: Block, active: list[int], consts: list[int], xs: list[int], carried: int) -> Block:
    """The body on (index, carried + tangents, consts + tangents, xs + tangents)."""
    names = body.layout
    n_consts, n_xs = names["consts"], names.get("xs", 0)
    types = [p.type for p in body.params]
    order = [
        0,
        *range(1, 1 + carried), *(("t", j + 1) for j in active),
        *range(1 + carried, 1 + carried + n_consts), *(("t", p) for p in consts),
        *range(1 + carried + n_consts, 1 + carried + n_consts + n_xs), *(("t", p) for p in xs),
    ]  # fmt: skip
    layout = {"index": 1, "carried": carried + len(active), "consts": n_consts + len(consts)}
    if "xs" in names:
        layout["xs"] = n_xs + len(xs)
    moving = [*(j + 1 for j in active), *consts, *xs]

    def build(*params: Any) -> dict[str, Any]:
        by_place = dict(zip(order, params, strict=True))
        outs = replay(both, [*(by_place[i] for i in range(len(types))), *(by_place["t", p] for p in moving)])
        count = len(body.results)
        values, tangents = outs[:count], outs[count:]
        return {"carried": [*values[:carried], *tangents[: len(active)]], "ys": [*values[carried:], *tangents[len(active) :]]}

    return region([types[o] if isinstance(o, int) else types[o[1]] for o in order], build, layout)


def _dual_test(test: Block, starts: Tensors, extra: Tensors) -> Block:
    """The test looks at the values only."""
    carried = test.group("carried")
    consts = test.group("consts")
    types = [
        *(v.type for v in carried), *(type_of(t) for t in starts), *(v.type for v in consts), *(type_of(t) for t in extra)
    ]  # fmt: skip

    def build(*params: Any) -> dict[str, Any]:
        own = [*params[: len(carried)], *params[len(carried) + len(starts) : len(carried) + len(starts) + len(consts)]]
        return {"flag": replay(test, own)}

    return region(types, build, {"carried": len(carried) + len(starts), "consts": len(consts) + len(extra)})


_RULES: dict[Op, Callable[..., Pair]] = {
    COND: _cond, WHILE: _loop, SCAN: _loop, CALL: _call, CHECKPOINTED: _checkpointed,
}  # fmt: skip
