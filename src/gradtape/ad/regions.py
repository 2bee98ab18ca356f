"""Derivatives of structured operations: cond, while, scan, call (those of loops in reverse mode are in `ad/loops.py`).

Reverse mode: each region is split (`ad/reverse.py`) into a forward and a backward block. The operation that already stands
in the program is *augmented*, in place, to give the residuals as further results; the backward pass is another structured
operation. A loop's residuals are lists with one item per iteration, which the backward loop (a scan from the last index to
the first) reads: values of the program, so the backward pass can be differentiated again and run twice.
Forward mode runs values and tangents side by side in one new operation.

Invariant: an input that no result depends on differentiably gets None, never zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from gradtape.ad.activity import differentiable, loop_varied, varied
from gradtape.ad.backward import REGION_RULE
from gradtape.ad.budget import limited
from gradtape.ad.checkpointing import all_at_once, expanded_vjp
from gradtape.ad.loops import loop_vjp
from gradtape.ad.reverse import Split, split
from gradtape.ad.sites import Site, region, zeros_for, zeros_of_type
from gradtape.ad.tracing import Trace, current_trace, params_of, renamed_types, replay, traced, tracing
from gradtape.ir.dims import Dim, fresh_symbol
from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.types import ListSpec, TensorSpec
from gradtape.ops import staged
from gradtape.ops.record import Record
from gradtape.ops.regions import CALL, COND, CUSTOM, SCAN, body_result, loop_result
from gradtape.ops.tensor import Tensor

Tensors = Sequence[Any]


def region_vjp(record: Record, cts: Sequence[Any], needed: tuple[bool, ...]) -> list[Any]:
    """Cotangents of the inputs of a recorded structured operation; `cts` has None where none arrived."""
    attrs: Any = record.attrs
    if "rule" in attrs:  # a compiled function: it brings its own
        found: list[Any] = attrs["rule"](record, cts, needed)
        return found
    operation: Operation = attrs["operation"]
    inputs = [reidentified(t, node) for t, node in zip(attrs["inputs"], record.nodes, strict=True)]
    wanted = {i for i, want in enumerate(needed) if want and differentiable(operation.operands[i])}
    trace = current_trace()
    seeds = {i: trace.own(ct) for i, ct in enumerate(cts) if ct is not None and differentiable(operation.results[i])}
    rule = _REVERSE[operation.op.name]
    answers = rule(Site(record, operation), inputs, wanted, seeds) if wanted and seeds else {}
    return [answers.get(i) for i in range(len(inputs))]


def reidentified(tensor: Any, node: Record | None) -> Any:
    """The tensor as the record's tapes know it."""
    if not isinstance(tensor, Tensor) or tensor._node is node:
        return tensor
    twin = tensor.__copy__()
    twin._node = node
    return twin


# -- cond ------------------------------------------------------------------------------------------------------------


def _cond_vjp(site: Site, inputs: Tensors, wanted: set[int], seeds: dict[int, Any]) -> dict[int, Any]:
    operation = site.operation
    places = sorted(seeds)
    names = list(operation.regions)
    own = range(len(operation.operands) - 1)
    free = {i for i in own if _counts(operation.operands[i + 1].type)}
    halves = [split(operation.regions[name], {i - 1 for i in wanted}, places, free=free, near=own) for name in names]
    answers = sorted({i for half in halves for i in half.answers})
    if not answers:
        return {}
    partly = [i for i in answers if any(i not in half.answers for half in halves)]
    missing = {i for i in partly if isinstance(operation.operands[i + 1].type, ListSpec)}
    used = sorted(missing.union(*(half.params for half in halves)))
    types = [[_placeholder(t) for t in half.saved] for half in halves]
    for k, name in enumerate(names):
        before, after = [t for ts in types[:k] for t in ts], [t for ts in types[k + 1 :] for t in ts]
        operation.regions[name] = _padded(halves[k].forward, before, after)
    residuals = site.extend([t for ts in types for t in ts])
    groups = [*residuals, *(inputs[i + 1] for i in used), *(seeds[i] for i in places)]
    regions = {}
    start = 0
    for k, name in enumerate(names):
        block_types = [t._data.type for t in groups]
        mine = slice(start, start + len(types[k]))
        start = mine.stop
        block_types[mine] = halves[k].saved
        build = _branch(halves[k], mine, used, len(residuals), answers, operation)
        regions[name] = region(block_types, build, {"inputs": len(groups)})
    found = current_trace().structured(COND, {"pred": [inputs[0]], "inputs": groups}, regions, {})["outputs"]
    return {i + 1: ct for i, ct in zip(answers, found, strict=True)}


def _counts(spec: Any) -> bool:
    """Whether it is the type of integer scalars: what is computed from them alone (indices) is computed again."""
    return isinstance(spec, TensorSpec) and spec.dtype.is_integer and not len(spec.shape)


def _placeholder(spec: Any) -> Any:
    """The type by which a residual of one branch is known outside, where it may be a placeholder: its sizes tell nothing."""
    if isinstance(spec, ListSpec):
        return spec
    return TensorSpec([fresh_symbol("n") if isinstance(d, Dim) else d for d in spec.shape], spec.dtype)


def _padded(block: Block, before: list[Any], after: list[Any]) -> Block:
    """The residuals of this branch among placeholders for those of the others; outputs first, residuals last."""
    outputs, saved = block.result_group("outputs"), block.result_group("saved")

    def void(spec: Any) -> Value:
        return block.append(Operation(staged.VOID, (), [spec], {"type": spec})).result

    block.give(outputs=[*outputs, *(void(t) for t in before), *saved, *(void(t) for t in after)])
    block.layout = {"inputs": len(block.params)}
    return block


def _branch(
    half: Split, own: slice, used: list[int], count: int, answers: list[int], operation: Operation
) -> Callable[..., Any]:
    """(residuals of both branches, inputs of the cond that are `used`, cotangents) → cotangents of the inputs `answers`."""

    def build(*params: Any) -> dict[str, Any]:
        inputs = dict(zip(used, params[count:], strict=False))
        grads = replay(half.backward, [*params[own], *(inputs[i] for i in half.params), *params[count + len(used) :]])
        known = dict(zip(half.answers, grads, strict=True))
        return {"outputs": [known[i] if i in known else _zeros_of(operation.operands[i + 1], inputs.get(i)) for i in answers]}

    return build


def _zeros_of(value: Value, tensor: Any) -> Any:
    """Zeros for an input that a branch does not use; a list needs its length."""
    return zeros_for(tensor) if isinstance(value.type, ListSpec) else zeros_of_type(value.type)


# -- call ------------------------------------------------------------------------------------------------------------


def _call_vjp(site: Site, inputs: Tensors, wanted: set[int], seeds: dict[int, Any]) -> dict[int, Any]:
    operation = site.operation
    callee: Block = operation.attrs["callee"]
    places = sorted(seeds)
    again = bool(operation.attrs.get("recompute"))
    own = range(len(callee.params))
    limit = operation.attrs.get("memory_limit")  # its own; otherwise that of the program around it
    with limited(limit) if limit is not None else nullcontext():
        half = split(callee, wanted, places, free=own if again else (), near=own, recompute=again)
    if not half.answers:
        return {}
    if half.saved:
        forward = half.forward
        forward.give(outputs=forward.results)
        operation.attrs = {**operation.attrs, "callee": forward}
    residuals = site.extend(renamed_types(callee, [v.type for v in operation.operands], half.saved))
    given = [*residuals, *(inputs[p] for p in half.params), *(seeds[i] for i in places)]
    types = [operation.operands[i].type for i in half.answers], {"outputs": len(half.answers)}
    found = current_trace().structured(CALL, {"inputs": given}, {}, {"callee": half.backward}, types)["outputs"]
    return dict(zip(half.answers, found, strict=True))


# -- custom ----------------------------------------------------------------------------------------------------------


def stage_custom(inputs: Tensors, outputs: Tensors, function: Callable[[tuple[Any, ...], tuple[bool, ...]], Any]) -> list[Any]:
    """Twins of `outputs` whose derivative in `inputs` is `function(cts, needed)`, traced now as a region."""
    trace = current_trace()
    given, values = [trace.own(t) for t in inputs], [trace.own(t) for t in outputs]
    block = Block([t._data.type for t in values], layout={"cts": len(values)})
    with trace.region(block):
        grads = list(function(tuple(params_of(block)), (True,) * len(given)))
        places = tuple(i for i, g in enumerate(grads) if g is not None and given[i].dtype.is_differentiable)
        block.give(grads=[trace.operand(grads[i]) for i in places])
    consts = trace.close([(block, trace.last_captures())], "consts")
    groups = {"inputs": given, "values": values, "consts": consts}
    types = [t._data.type for t in values]
    return trace.structured(CUSTOM, groups, {"vjp": block}, {"places": places}, (types, {"outputs": len(types)}))["outputs"]


def _custom_vjp(site: Site, inputs: Tensors, wanted: set[int], seeds: dict[int, Any]) -> dict[int, Any]:
    operation = site.operation
    count = operation.layout["inputs"] + operation.layout["values"]
    cts = [seeds[i] if i in seeds else zeros_for(traced(v)) for i, v in enumerate(operation.results)]
    found = replay(operation.regions["vjp"], [*cts, *inputs[count:]])
    return {i: g for i, g in zip(operation.attrs["places"], found, strict=True) if i in wanted}


def _custom_jvp(operation: Operation, inputs: Tensors, tangents: Tensors, moving: set[int]) -> tuple[Any, ...] | None:
    """J·t as the gradient of Re⟨vjp(v), t⟩ in v."""
    from gradtape.ad.forward import inner
    from gradtape.ad.recording import Recording

    count = operation.layout["inputs"] + operation.layout["values"]
    recording = Recording()
    with recording.recording():
        seeds = [recording.watched(zeros_for(traced(v))) for v in operation.results]
        found = replay(operation.regions["vjp"], [*seeds, *inputs[count:]])
        parts = [inner(g, tangents[i]) for i, g in zip(operation.attrs["places"], found, strict=True) if i in moving]
        total = None
        for part in parts:
            total = part if total is None else total + part
    if total is None:
        return None
    nodes: list[Any] = [s._node for s in seeds]
    answer = recording.cotangents([total], [zeros_for(total) + 1.0], nodes, boxed=True)
    recording.close()
    return tuple(answer)


_REVERSE: dict[str, Callable[..., dict[int, Any]]] = {
    "cond": _cond_vjp, "while": loop_vjp, "scan": loop_vjp, "call": _call_vjp,
    "custom": _custom_vjp, "checkpointed": expanded_vjp,
}  # fmt: skip


# -- forward mode ----------------------------------------------------------------------------------------------------


def region_jvp(operation: Operation, inputs: Tensors, tangents: Tensors) -> tuple[Any, ...] | None:
    """Tangents of the results of a structured operation, None where nothing moves."""
    moving = {i for i, t in enumerate(tangents) if t is not None and differentiable(operation.operands[i])}
    if not moving:
        return None
    trace = current_trace()
    own = [None if t is None else trace.own(t) for t in tangents]
    return _FORWARD[operation.op.name](operation, inputs, own, moving)


def jvp_block(block: Block, moving: Sequence[int], results: Sequence[int]) -> Block:
    """parameters, tangents of `moving` → results, tangents of `results` (zeros where a result does not move)."""
    root = Block([p.type for p in block.params], [p.name for p in block.params], block.name)
    trace = Trace(root)
    with tracing(trace):
        inputs = params_of(root)
        seeds = {i: traced(root.add_param(block.params[i].type)) for i in moving}
        outs, found = pushed(block, inputs, seeds)
        ends = [found[i] if found.get(i) is not None else zeros_for(outs[i]) for i in results]
        root.give(outputs=[trace.operand(t) for t in outs], tangents=[trace.operand(t) for t in ends])
    return root


def pushed(block: Block, inputs: Tensors, seeds: dict[int, Any]) -> tuple[list[Any], dict[int, Any]]:
    """Run a block on tensors and push tangents along: (results, tangents of results by position)."""
    from gradtape.ad.forward import jvp_of

    trace = current_trace()
    known: dict[Value, Any] = dict(zip(block.params, inputs, strict=True))
    moves: dict[Value, Any] = {block.params[i]: t for i, t in seeds.items()}
    for operation in block.operations:
        single = Block([v.type for v in operation.operands])
        alone = Operation(
            operation.op, single.params, [v.type for v in operation.results], operation.attrs, operation.regions, operation.loc,
            operation.layout, operation.result_layout,
        )  # fmt: skip
        single.append(alone).home = None
        single.give(outputs=alone.results)
        operands = [known[v] for v in operation.operands]
        outs = replay(single, operands)
        known.update(zip(operation.results, outs, strict=True))
        tangents = tuple(moves.get(v) for v in operation.operands)
        if all(t is None for t in tangents):
            continue
        trace.loc = operation.loc
        several = operation.op.outputs != 1
        attrs = {"operation": operation} if operation.op.kind == "region" else operation.attrs
        found = jvp_of(operation.op, tuple(operands), tangents, tuple(outs) if several else outs[0], attrs)
        trace.loc = None
        if found is not None:
            pairs = zip(operation.results, found if several else (found,), strict=True)
            moves.update({v: t for v, t in pairs if t is not None and differentiable(v)})
    return [known[v] for v in block.results], {i: moves.get(v) for i, v in enumerate(block.results) if v in moves}


def _moving_results(block: Block, moving: Sequence[int]) -> set[int]:
    found = varied(block, [block.params[i] for i in moving])
    return {i for i, v in enumerate(block.results) if v in found}


def _cond_jvp(operation: Operation, inputs: Tensors, tangents: Tensors, moving: set[int]) -> tuple[Any, ...]:
    places = sorted(i - 1 for i in moving if i > 0)
    results = sorted(set().union(*(_moving_results(b, places) for b in operation.regions.values())))
    regions = {}
    for name, block in operation.regions.items():
        both = jvp_block(block, places, results)
        regions[name] = both.give(outputs=both.result_group("tangents"))
        both.layout = {"inputs": len(both.params)}
    given = [*inputs[1:], *(tangents[i + 1] for i in places)]
    found = current_trace().structured(COND, {"pred": [inputs[0]], "inputs": given}, regions, {})["outputs"]
    return _placed(operation, results, found)


def _call_jvp(operation: Operation, inputs: Tensors, tangents: Tensors, moving: set[int]) -> tuple[Any, ...]:
    callee = operation.attrs["callee"]
    places = sorted(moving)
    results = sorted(_moving_results(callee, places))
    both = jvp_block(callee, places, results)
    both.give(outputs=both.result_group("tangents"))
    given = [*inputs, *(tangents[i] for i in places)]
    types = [operation.results[i].type for i in results], {"outputs": len(results)}
    found = current_trace().structured(CALL, {"inputs": given}, {}, {"callee": both}, types)["outputs"]
    return _placed(operation, results, found)


def _checkpointed_jvp(operation: Operation, inputs: Tensors, tangents: Tensors, moving: set[int]) -> tuple[Any, ...]:
    """As of a call of `reverse` on all iterations."""
    block = operation.regions["reverse"]
    given = all_at_once(operation, inputs)
    skipped = operation.layout["length"]
    call = Operation(CALL, block.params, [v.type for v in block.results], {"callee": block})
    return _call_jvp(call, given, [None, None, *tangents[skipped:]], {i + 2 - skipped for i in moving})


def _loop_jvp(operation: Operation, inputs: Tensors, tangents: Tensors, moving: set[int]) -> tuple[Any, ...]:
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
    ys = len(body.results) - carried
    block = _dual_loop(both, body, active, moved_consts, moved_xs, carried)
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
        regions["test"] = _dual_test(operation.regions["test"], starts, given["consts"][consts:])
    found = current_trace().structured(operation.op, given, regions, operation.attrs)
    ends = dict(zip(active, found["carried"][carried:], strict=True))
    ends.update(zip((loop_result(operation, k) for k in moved_ys), found["ys"][ys:], strict=True))
    return tuple(ends.get(i) for i in range(len(operation.results)))


def _dual_loop(both: Block, body: Block, active: list[int], consts: list[int], xs: list[int], carried: int) -> Block:
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
        return {
            "carried": [*values[:carried], *tangents[: len(active)]],
            "ys": [*values[carried:], *tangents[len(active) :]],
        }

    return region([types[o] if isinstance(o, int) else types[o[1]] for o in order], build, layout)


def _dual_test(test: Block, starts: Tensors, extra: Tensors) -> Block:
    """The test looks at the values only."""
    carried = test.group("carried")
    consts = test.group("consts")
    types = [
        *(v.type for v in carried), *(t._data.type for t in starts), *(v.type for v in consts), *(t._data.type for t in extra)
    ]  # fmt: skip

    def build(*params: Any) -> dict[str, Any]:
        own = [*params[: len(carried)], *params[len(carried) + len(starts) : len(carried) + len(starts) + len(consts)]]
        return {"flag": replay(test, own)}

    return region(types, build, {"carried": len(carried) + len(starts), "consts": len(consts) + len(extra)})


def _placed(operation: Operation, places: Sequence[int], values: Sequence[Any]) -> tuple[Any, ...]:
    known = dict(zip(places, values, strict=True))
    return tuple(known.get(i) for i in range(len(operation.results)))


_FORWARD: dict[str, Callable[..., tuple[Any, ...] | None]] = {
    "cond": _cond_jvp, "while": _loop_jvp, "scan": _loop_jvp, "call": _call_jvp,
    "custom": _custom_jvp, "checkpointed": _checkpointed_jvp,
}  # fmt: skip

REGION_RULE.append(region_vjp)
