"""Structured operations on batches, in a program: one operation whose regions work on all examples at once.

What a region is given for each example it is given for all of them, with a leading axis; its operations run through their
batch rules. Carried values get the axis as soon as something they depend on has it. So Jacobians of loops and branches inside
a function are loops and branches over whole batches. Where a test differs between the examples, `ad/batch_masks.py` takes over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gradtape.ad.batch import BatchedTensor, batched
from gradtape.ad.batch_masks import masked_branch, masked_loop, masked_scan
from gradtape.ad.replaying import replay
from gradtape.ad.sites import region, zeros_of_type
from gradtape.core.dispatch import apply
from gradtape.core.hooks import HOOKS
from gradtape.core.opdef import Op
from gradtape.core.record import current_scope, scope_of
from gradtape.errors import InvalidArgumentError, UnimplementedError
from gradtape.ir.dims import symbols_in
from gradtape.ir.graph import Block, Value
from gradtape.ir.types import TensorSpec
from gradtape.ir.walk import program
from gradtape.ops.collective import COMMUNICATIONS
from gradtape.ops.list_values import spread_spec
from gradtape.ops.lists import LIST_COLLAPSE, LIST_SPREAD
from gradtape.ops.staged import VOID
from gradtape.ops.structured import CALL, CHECKPOINTED, COND, CUSTOM, SCAN, WHILE
from gradtape.trace.tracing import LEVEL, Trace, type_of

Groups = Mapping[str, Sequence[Any]]
Results = dict[str, list[Any]]
INNER = LEVEL + 1  # of the batched parameters of a region: nothing else is batched there


class Batch:
    """Operands by group with the batch axis where they have it, and flags that say so."""

    def __init__(self, trace: Trace, groups: Groups, level: int) -> None:
        self.trace = trace
        self.level = level
        self.flags = {name: [_at(t, level) for t in group] for name, group in groups.items()}
        self.wide = {
            name: [trace.own(t._data) if _at(t, level) else t for t in group] for name, group in groups.items()
        }  # fmt: skip
        # there is one: else the operation would not have come here
        first = next(t for group in groups.values() for t in group if _at(t, level))
        self.size = _size(type_of(first._data))

    def spread(self, tensor: Any, flag: bool) -> Any:
        """The operand with the batch axis."""
        return tensor if flag else apply(LIST_SPREAD, tensor, size=self.size, axis=0)

    def type(self, spec: Any, flag: bool) -> Any:
        return spread_spec(spec, self.size) if flag else spec

    def result(self, tensor: Any, flag: bool) -> Any:
        return batched(tensor, self.level) if flag else tensor

    def region(self, block: Block, flags: Sequence[bool], ends: Sequence[bool]) -> Block:
        """The block on batches: parameters with `flags` have the axis, results with `ends` get it."""
        types = [self.type(p.type, flag) for p, flag in zip(block.params, flags, strict=True)]

        def build(*params: Any) -> dict[str, Any]:
            # a region is isolated: in it this is the only batch, whatever the level outside
            given = [batched(p, INNER) if flag else p for p, flag in zip(params, flags, strict=True)]
            outs = [self._end(t, flag) for t, flag in zip(replay(block, given), ends, strict=True)]
            feed = iter(outs)
            return {
                name: [next(feed) for _ in range(count)] for name, count in (block.result_layout or {"": len(outs)}).items()
            }

        return region(types, build, dict(block.layout))

    def _end(self, tensor: Any, flag: bool) -> Any:
        if _at(tensor, INNER):
            # without the axis: the cotangent of an input that is one for all examples (`_custom`), the sum over them
            return tensor._data if flag else apply(LIST_COLLAPSE, tensor._data, size=self.size, axis=0)
        spec = type_of(tensor)
        if flag and _is_void(tensor._data) and isinstance(spec, TensorSpec) and not symbols_in(spec):
            tensor = zeros_of_type(spec)  # what is chosen example by example has the shape that its type says
        return self.spread(tensor, not flag)


def over_batch(
    trace: Trace, op: Op, groups: Groups, regions: Mapping[str, Block], attrs: Mapping[str, Any], layout: Mapping[str, int]
) -> Results:
    """A structured operation of which some operands are batched: its results by group."""
    tensors = [t for group in groups.values() for t in group]
    level = max(t.level for t in tensors if isinstance(t, BatchedTensor))
    scope = current_scope()
    if scope.inside(level).recorders and any(t._node is not None and t._node.keys for t in tensors):
        raise UnimplementedError(
            f"a tape inside vectorized_map cannot record the {op.name} of a traced function: open it around the map"
        )
    # who records inside the map sees single examples; the operation on the whole batch is recorded by those around it
    with scope_of(scope.below(level)):
        batch = Batch(trace, groups, level)
        return _RULES[op](batch, op, dict(regions), dict(attrs), layout)


def _is_void(value: Value) -> bool:
    """Whether a value is a placeholder."""
    return value.producer is not None and value.producer.op is VOID


def _at(tensor: Any, level: int) -> bool:
    return isinstance(tensor, BatchedTensor) and tensor.level == level


def _size(spec: Any) -> Any:
    # the axis of a batch of lists is the first of its items
    while hasattr(spec, "item"):
        spec = spec.item
    return spec.shape[0]


def _depends(block: Block, flags: Sequence[bool]) -> list[bool]:
    """Which results are computed from the flagged parameters."""
    known = {p for p, flag in zip(block.params, flags, strict=True) if flag}
    for operation in block.operations:
        # regions inside count as one operation: too many results may get the axis, never too few
        if not known.isdisjoint(operation.operands) and not operation.op.alike:
            known.update(operation.results)
    return [v in known for v in block.results]


def _refuse(what: str) -> None:
    raise InvalidArgumentError(
        f"{what} differs between the examples of a batch (vectorized_map, or the rows of a Jacobian), which take one course: "
        "use gt.where, or map_fn, which runs example by example"
    )


def _refuse_exchanges(what: str, blocks: Mapping[str, Block]) -> None:
    """An operation between ranks waits for all of them, also for those whose example takes another course."""
    for operation in (operation for block in blocks.values() for operation in program(block)):
        if operation.op in COMMUNICATIONS:
            _refuse(f"{operation.loc}: {what} of an operation between ranks ({operation.op.name})")


def _cond(batch: Batch, op: Op, regions: dict[str, Block], attrs: dict[str, Any], layout: Mapping[str, int]) -> Results:
    flags = batch.flags["inputs"]
    if batch.flags["pred"][0]:
        _refuse_exchanges("the branch", regions)
        sides = {name: batch.region(block, flags, [True] * len(block.results)) for name, block in regions.items()}
        only = [_giver(*pair) for pair in zip(regions["then"].results, regions["orelse"].results, strict=True)]
        outs = masked_branch(batch.wide["pred"][0], sides, flags, batch.wide["inputs"], only)
        return {"outputs": [batch.result(t, True) for t in outs]}
    ends = [any(pair) for pair in zip(*(_depends(block, flags) for block in regions.values()), strict=True)]
    wide = {name: batch.region(block, flags, ends) for name, block in regions.items()}
    outs = batch.trace.structured(COND, batch.wide, wide, attrs)["outputs"]
    return {"outputs": [batch.result(t, flag) for t, flag in zip(outs, ends, strict=True)]}


def _giver(then: Value, orelse: Value) -> str | None:
    """The side that alone gives a result of a branch; None if both do."""
    empty = [_is_void(v) for v in (then, orelse)]
    # both empty: nobody reads it, and either side will do
    return None if not any(empty) else "orelse" if empty[0] else "then"


def _call(batch: Batch, op: Op, regions: dict[str, Block], attrs: dict[str, Any], layout: Mapping[str, int]) -> Results:
    callee = attrs["callee"]
    flags = batch.flags["inputs"]
    ends = _depends(callee, flags)
    wide = batch.region(callee, flags, ends)
    # for messages and profiles: it is the user's function still
    wide.name = callee.name
    outs = batch.trace.structured(CALL, batch.wide, {}, {**attrs, "callee": wide})["outputs"]
    return {"outputs": [batch.result(t, flag) for t, flag in zip(outs, ends, strict=True)]}


def _loop(batch: Batch, op: Op, regions: dict[str, Block], attrs: dict[str, Any], layout: Mapping[str, int]) -> Results:
    if any(batch.flags.get("length", ())):
        return _longer_for_some(batch, regions["body"], attrs)
    body = regions["body"]
    carried, consts, xs = list(batch.flags["carried"]), batch.flags["consts"], batch.flags.get("xs", [])
    while True:
        ends = _depends(body, [False, *carried, *consts, *xs])
        grown = [a or b for a, b in zip(carried, ends, strict=False)]
        if grown == carried:
            break
        # a carried value that depends on a batch in one iteration has the axis from the start: the loop has one type for it
        carried = grown
    ys = ends[len(carried) :]
    wide = {"body": batch.region(body, [False, *carried, *consts, *xs], [*carried, *ys])}
    if op is WHILE:
        # only now: whether the test differs between examples depends on what the body makes of the carried values
        (flag,) = _depends(regions["test"], [*carried, *consts])
        if flag:
            return _masked(batch, regions)
        wide = {"test": batch.region(regions["test"], [*carried, *consts], [False]), **wide}
    given = dict(batch.wide)
    given["carried"] = [
        batch.spread(t, own) if flag else t
        for t, own, flag in zip(batch.wide["carried"], batch.flags["carried"], carried, strict=True)
    ]
    outs = batch.trace.structured(op, given, wide, attrs)
    outs["carried"] = [batch.result(t, flag) for t, flag in zip(outs["carried"], carried, strict=True)]
    outs["ys"] = [batch.result(t, flag) for t, flag in zip(outs["ys"], ys, strict=True)]
    return outs


def _masked(batch: Batch, regions: dict[str, Block]) -> Results:
    """A `while` that some examples leave before others."""
    _refuse_exchanges("the loop", regions)
    state, consts = _all_spread(batch, "carried"), batch.flags["consts"]
    every = [*(True for _ in state), *consts]
    test = batch.region(regions["test"], every, [True])
    body = batch.region(regions["body"], [False, *every], [True] * len(regions["body"].results))
    ends = masked_loop({"test": test, "body": body}, state, batch.wide["consts"], consts)
    return {name: [batch.result(t, True) for t in group] for name, group in ends.items()}


def _longer_for_some(batch: Batch, body: Block, attrs: dict[str, Any]) -> Results:
    """A `scan` whose length is one for each example."""
    _refuse_exchanges("the loop", {"body": body})
    flags = {"consts": batch.flags["consts"], "xs": batch.flags["xs"]}
    groups = {"carried": _all_spread(batch, "carried"), "consts": batch.wide["consts"], "xs": batch.wide["xs"]}
    every = [False, *(True for _ in groups["carried"]), *flags["consts"], *flags["xs"]]
    wide = batch.region(body, every, [True] * len(body.results))
    ends = masked_scan(wide, batch.wide["length"][0], groups, flags, bool(attrs["reverse"]))
    return {name: [batch.result(t, True) for t in group] for name, group in ends.items()}


def _all_spread(batch: Batch, name: str) -> list[Any]:
    return [batch.spread(t, own) for t, own in zip(batch.wide[name], batch.flags[name], strict=True)]


def _custom(batch: Batch, op: Op, regions: dict[str, Block], attrs: dict[str, Any], layout: Mapping[str, int]) -> Results:
    inputs, values = batch.flags["inputs"], batch.flags["values"]
    vjp = batch.region(regions["vjp"], [*values, *batch.flags["consts"]], [inputs[i] for i in attrs["places"]])
    types = [type_of(t) for t in batch.wide["values"]]
    outs = batch.trace.structured(CUSTOM, batch.wide, {"vjp": vjp}, attrs, (types, dict(layout)))["outputs"]
    return {"outputs": [batch.result(t, flag) for t, flag in zip(outs, values, strict=True)]}


def _checkpointed(batch: Batch, op: Op, regions: dict[str, Block], attrs: dict[str, Any], layout: Mapping[str, int]) -> Results:
    """A call of `reverse` on all iterations: the limit does not hold."""
    from gradtape.ad.checkpointing import bounds

    length = batch.wide["length"]
    if any(batch.flags["length"]):
        _refuse("the length of a loop that is differentiated within a memory limit")
    rest = [name for name in batch.wide if name != "length"]
    batch.wide = {"inputs": [*bounds(attrs["length"], length), *(t for name in rest for t in batch.wide[name])]}
    batch.flags = {"inputs": [False, False, *(flag for name in rest for flag in batch.flags[name])]}
    outs = iter(_call(batch, CALL, {}, {"callee": regions["backward"]}, {})["outputs"])
    return {name: [next(outs) for _ in range(count)] for name, count in layout.items()}


_RULES: dict[Op, Callable[..., Results]] = {
    COND: _cond, CALL: _call, SCAN: _loop, WHILE: _loop, CUSTOM: _custom, CHECKPOINTED: _checkpointed,
}  # fmt: skip


HOOKS.over_batch = over_batch
