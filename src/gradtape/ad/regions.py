"""Reverse mode of structured operations: cond, call, custom (loops are in `ad/loop_rules.py`, forward mode in `ad/dual.py`).

Each region is split (`ad/reverse.py`) into a forward and a backward block. The operation that already stands
in the program is *augmented*, in place, to give the residuals as further results; the backward pass is another structured
operation. A loop's residuals are lists with one item per iteration, which the backward loop (a scan from the last index to
the first) reads: values of the program, so the backward pass can be differentiated again and run twice.

Invariant: an input that no result depends on differentiably gets None, never zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from gradtape.ad.activity import differentiable
from gradtape.ad.binding import OWN_PULLS, joint_pull
from gradtape.ad.budget import BUDGET, limited
from gradtape.ad.checkpointing import expanded_vjp
from gradtape.ad.leaves import depends, undecided_inside
from gradtape.ad.loop_rules import loop_vjp
from gradtape.ad.replaying import replay
from gradtape.ad.reverse import Split, split
from gradtape.ad.sites import Site, region, zeros_for, zeros_of_type
from gradtape.core.opdef import Op
from gradtape.core.record import Record
from gradtape.core.tensor import Tensor
from gradtape.errors import UnimplementedError
from gradtape.ir.dims import Dim, fresh_symbol
from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.types import ListSpec, TensorSpec
from gradtape.ir.walk import callee_of, program
from gradtape.ops import staged
from gradtape.ops.structured import CALL, CHECKPOINTED, COND, CUSTOM, LEAF, SCAN, WHILE
from gradtape.trace.sizing import renamed_types
from gradtape.trace.tracing import current_trace, params_of, traced, type_of

Tensors = Sequence[Any]


def region_vjp(record: Record, cts: Sequence[Any], needed: tuple[bool, ...]) -> list[Any]:
    """Cotangents of the inputs of a recorded structured operation; `cts` has None where none arrived."""
    attrs: Any = record.attrs
    operation: Operation = attrs["operation"]
    # as they were known when the operation was recorded: the walk may run under other tapes
    inputs = [reidentified(t, node) for t, node in zip(attrs["inputs"], record.nodes, strict=True)]
    asked = {i for i, want in enumerate(needed) if want and differentiable(operation.operands[i])}
    wanted = asked
    if asked and _has_leaves(operation):  # what is asked for or not: a version is a leaf if nothing watched is in it
        wanted = {i for i, node in enumerate(record.nodes) if differentiable(operation.operands[i]) and depends(node)}
        asked &= wanted
        _decided(operation, wanted, {i for i in wanted if depends(record.nodes[i], always=True)}, asked)
    trace = current_trace()
    # a cotangent may be a concrete tensor (zeros, ones): in a region it must be a value of the program
    seeds = {i: trace.own(ct) for i, ct in enumerate(cts) if ct is not None and differentiable(operation.results[i])}
    rule = _REVERSE[operation.op]
    answers = rule(Site(record, operation), inputs, wanted, seeds) if wanted and seeds else {}
    return [answers.get(i) if i in asked else None for i in range(len(inputs))]


def _has_leaves(operation: Operation) -> bool:
    """Whether versions of variables are made inside that may be leaves."""
    inside = [*operation.regions.values(), *filter(None, [callee_of(operation)])]
    return bool(operation.attrs.get(LEAF)) or any(inner.attrs.get(LEAF) for block in inside for inner in program(block))


def _decided(operation: Operation, some: set[int], every: set[int], asked: set[int]) -> None:
    """Refuse a variable some of whose versions are leaves in one iteration or branch and not in another: a program cannot
    tell these apart. (A compiled function with the tape around it records such a call operation by operation.)"""
    undecided = undecided_inside(operation, some, every)
    for i in asked & undecided.keys():
        raise UnimplementedError(
            f"the derivative with respect to a variable that is assigned at {undecided[i].loc}, in a {operation.op.name} of a "
            "compiled function: what is assigned depends on something watched in one iteration or branch and not in another; "
            "only a run can tell whether it is a version of its own. Take the tape out of the gt.function, or assign the "
            "variable in the same way on every path"
        )


def reidentified(tensor: Any, node: Record | None) -> Any:
    """The tensor as the record's tapes know it; one that they do not know keeps the identity that tapes further out know."""
    if not isinstance(tensor, Tensor) or node is None or tensor._node is node:
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
    # the inputs of a cond are there in the backward pass: as `near`, what is read of them is not saved; what is computed from
    # an index alone is not either
    free = {i for i in own if _counts(operation.operands[i + 1].type)}
    halves = [split(operation.regions[name], {i - 1 for i in wanted}, places, free=free, near=own) for name in names]
    answers = sorted({i for half in halves for i in half.answers})
    if not answers:
        return {}
    # both sides must answer: zeros where a side does not depend on an input
    partly = [i for i in answers if any(i not in half.answers for half in halves)]
    # zeros for a list need the list: its length is in no type
    missing = {i for i in partly if isinstance(operation.operands[i + 1].type, ListSpec)}
    used = sorted(missing.union(*(half.params for half in halves)))
    types = [[_placeholder(t) for t in half.saved] for half in halves]
    for k, name in enumerate(names):
        before, after = [t for ts in types[:k] for t in ts], [t for ts in types[k + 1 :] for t in ts]
        # Both sides give the residuals of both, in the same order: a cond has one type. Those of the other side are
        # placeholders, which its backward side never reads.
        operation.regions[name] = _padded(halves[k].forward, before, after)
    residuals = site.extend([t for ts in types for t in ts])
    groups = [*residuals, *(inputs[i + 1] for i in used), *(seeds[i] for i in places)]
    regions = {}
    start = 0
    for k, name in enumerate(names):
        block_types = [type_of(t) for t in groups]
        mine = slice(start, start + len(types[k]))
        start = mine.stop
        # inside its own side a residual has its own sizes by name; outside they are unknown (`_placeholder`)
        block_types[mine] = halves[k].saved
        build = _branch(halves[k], mine, used, len(residuals), answers, operation)
        regions[name] = region(block_types, build, {"inputs": len(groups)})
    result = [operation.operands[i + 1].type for i in answers], {"outputs": len(answers)}
    cotangents = current_trace().structured(COND, {"pred": [inputs[0]], "inputs": groups}, regions, {}, result)["outputs"]
    return {i + 1: ct for i, ct in zip(answers, cotangents, strict=True)}


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
    places = sorted(seeds)
    half = _callee_halves(operation, wanted, places)
    if not half.answers:
        return {}
    if half.saved:
        forward = half.forward
        # outputs and residuals in one group, as a callee has it
        forward.give(outputs=forward.results)
        operation.attrs = {**operation.attrs, "callee": forward}
    residuals = site.extend(renamed_types(half.forward, [v.type for v in operation.operands], half.saved))
    given = [*residuals, *(inputs[p] for p in half.params), *(seeds[i] for i in places)]
    types = [operation.operands[i].type for i in half.answers], {"outputs": len(half.answers)}
    cotangents = current_trace().structured(CALL, {"inputs": given}, {}, {"callee": half.backward}, types)["outputs"]
    return dict(zip(half.answers, cotangents, strict=True))


def _callee_halves(operation: Operation, wanted: set[int], places: list[int]) -> Split:
    """The callee in two halves, the same for all calls that want the same; under a memory limit for each anew."""
    callee: Block = operation.attrs["callee"]
    again = bool(operation.attrs.get("recompute"))
    own = range(len(callee.params))
    limit = operation.attrs.get("memory_limit")  # its own; otherwise that of the program around it
    key = (callee, frozenset(wanted), tuple(places), again)
    known: dict[Any, Split] = current_trace().memory
    # under a limit each call takes its part of the budget: two calls of one function may be split differently
    if limit is None and BUDGET.get() is None and key in known:
        return known[key]
    with limited(limit) if limit is not None else nullcontext():
        half = split(callee, wanted, places, free=own if again else (), near=own, recompute=again)
    if limit is None and BUDGET.get() is None:
        known[key] = half
    return half


# -- custom ----------------------------------------------------------------------------------------------------------


def stage_custom(
    inputs: Tensors, outputs: Tensors, function: Callable[[tuple[Any, ...], tuple[bool, ...]], Any], name: str = ""
) -> list[Any]:
    """Twins of `outputs` whose derivative in `inputs` is `function(cts, needed)`, traced now as a region with the name of the
    user's function."""
    trace = current_trace()
    given, values = [trace.own(t) for t in inputs], [trace.own(t) for t in outputs]
    block = Block([type_of(t) for t in values], name=name, layout={"cts": len(values)})
    with trace.region(block):
        # traced for all inputs, as nobody knows yet which will be asked for; what is not needed is dropped with the dead code
        grads = list(function(tuple(params_of(block)), (True,) * len(given)))
        places = tuple(i for i, g in enumerate(grads) if g is not None and given[i].dtype.is_differentiable)
        block.give(grads=[trace.operand(grads[i]) for i in places])
    consts = trace.close([(block, trace.last_captures())], "consts")
    groups = {"inputs": given, "values": values, "consts": consts}
    types = [type_of(t) for t in values]
    return trace.structured(CUSTOM, groups, {"vjp": block}, {"places": places}, (types, {"outputs": len(types)}))["outputs"]


def _custom_vjp(site: Site, inputs: Tensors, wanted: set[int], seeds: dict[int, Any]) -> dict[int, Any]:
    operation = site.operation
    count = operation.layout["inputs"] + operation.layout["values"]
    cts = [seeds[i] if i in seeds else zeros_for(traced(v)) for i, v in enumerate(operation.results)]
    if operation.attrs.get(LEAF) and operation.layout["inputs"] in wanted:
        # a version of a variable that is a leaf: its cotangent is the answer, and goes no further
        return {operation.layout["inputs"]: cts[0]}
    cotangents = replay(operation.regions["vjp"], [*cts, *inputs[count:]], sizes="new")
    return {i: g for i, g in zip(operation.attrs["places"], cotangents, strict=True) if i in wanted}


_REVERSE: dict[Op, Callable[..., dict[int, Any]]] = {
    COND: _cond_vjp, WHILE: loop_vjp, SCAN: loop_vjp, CALL: _call_vjp, CUSTOM: _custom_vjp, CHECKPOINTED: expanded_vjp,
}  # fmt: skip
OWN_PULLS.update({op: joint_pull(region_vjp) for op in _REVERSE})
