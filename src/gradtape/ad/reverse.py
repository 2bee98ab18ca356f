"""Reverse mode of a block: a forward block that also gives what the backward block needs.

The block is traced again under a recorder, the one reverse walk (`ad/backward.py`) runs on the traced tensors, and the
joint program is cut in two: what the first half computed and the second half uses are the residuals. Saved is only what
cannot be had again cheaply: constants, values computed from `free` parameters alone, and cheap functions of other residuals
are computed again in the backward block. Effects and random keys stay in the forward block.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from gradtape.ad.keeping import cheapest
from gradtape.ad.recording import Recording
from gradtape.ad.replaying import replay
from gradtape.core.opdef import Cost
from gradtape.core.record import RecordingScope, scope_of
from gradtape.ir.dims import symbols_in
from gradtape.ir.garbage import uncollected
from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.sizes import free_sizes, sizes_of
from gradtape.ir.types import TensorSpec
from gradtape.ir.walk import groups_of, has_effect
from gradtape.ops.collective import MESSAGES
from gradtape.ops.lists import LIST_GET, LIST_LEN, LIST_LENGTHS
from gradtape.ops.staged import CONSTANT, FILLED
from gradtape.trace.sizing import witness
from gradtape.trace.tracing import LEVEL, Trace, TracedTensor, params_of, traced, tracing


@dataclass(frozen=True)
class Split:
    """A block in two halves.

    `forward`: the block's parameters → its results, then the residuals that must be saved (`saved` types, in order).
    `backward`: parameters saved residuals, then `params` (positions of the block's own parameters that it uses), then
    cotangents of the seeded results → cotangents of the parameters in `answers` (positions).
    `restored`: arrays that a loop of `forward` gives → the values of `backward` that are these arrays before the loop.
    """

    forward: Block
    backward: Block
    saved: list[Any]
    params: list[int]
    answers: list[int]
    restored: dict[Value, Value]


@uncollected()
def split(
    block: Block, wanted: Collection[int], seeded: Sequence[int], free: Collection[int] = (),
    near: Collection[int] = (), recompute: bool = False,
) -> Split:  # fmt: skip
    """Reverse mode of `block` with respect to the parameters `wanted`, cotangents given for the results `seeded`.

    Parameters in `free` and `near` are at hand in the backward pass: they appear in `params`, never in `saved`. What
    comes from `free` ones alone (loop constants, the loop index) is computed again; what comes from `near` ones (inputs of
    a branch or call) is saved, as everything else. `recompute` runs everything again that has no effect, structured
    operations included.
    """
    root = Block([p.type for p in block.params], [p.name for p in block.params], block.name)
    trace = Trace(root)
    recording = Recording()
    with tracing(trace):
        inputs = [recording.watched(t) if i in wanted else t for i, t in enumerate(params_of(root))]
        nodes = [inputs[i]._node for i in sorted(wanted)]
        with scope_of(RecordingScope((recording,), (None,))):
            recording.level = LEVEL
            world = _other_ranks(trace, recording, block)
            outs = replay(block, inputs, sizes="same", world=world)
        # The cut: what stands before is the forward half. The cotangents come in as parameters only now, so that nothing of the
        # first half can depend on them.
        boundary = len(root.operations)
        cts = [traced(root.add_param(outs[i]._data.type)) for i in seeded]
        trace.constants[-1].clear()
        if world is not None:
            # asked for like an input, so that the walk visits the messages even where no wanted parameter depends on them
            nodes.append(world._node)
        cotangents = recording.cotangents([outs[i] for i in seeded], cts, nodes, boxed=True)  # type: ignore[arg-type]
    recording.close()
    results = [trace_value(trace, t) for t in outs]
    # (strict=False: the cotangent of the other ranks, if any, comes last and is nobody's)
    answers = [(i, g) for i, g in zip(sorted(wanted), cotangents, strict=False) if g is not None]
    grads = [trace_value(trace, g) for _, g in answers]
    positions, count = [i for i, _ in answers], len(block.params)
    return _cut(root, boundary, results, grads, positions, count, set(free), set(near), recompute, trace.restored)


def _other_ranks(trace: Trace, recording: Recording, block: Block) -> Any:
    """What stands for the other ranks in a block that sends or receives: both ends of a message answer in the backward pass,
    whether or not what is asked for depends on it here."""
    if not any(operation.op in MESSAGES for operation in block.operations):
        return None
    return recording.watched(traced(trace.operand(0.0)))


def trace_value(trace: Trace, tensor: Any) -> Value:
    """The value of a tensor at the end of a trace; a concrete one (a constant result) becomes a constant."""
    if isinstance(tensor, TracedTensor):
        return tensor._data
    with tracing(trace):
        return trace.operand(tensor)


def extract(params: Sequence[Value], operations: Sequence[Operation], name: str, **results: Sequence[Value]) -> Block:
    """A block of its own with copies of these operations; regions, which are isolated, are shared."""
    block = Block([p.type for p in params], [p.name for p in params], name)
    known = dict(zip(params, block.params, strict=True))
    for op in operations:
        copy = Operation(
            op.op, [known[v] for v in op.operands], [v.type for v in op.results], op.attrs, op.regions, op.loc, op.layout,
            op.result_layout,
        )  # fmt: skip
        known.update(zip(op.results, copy.results, strict=True))
        block.append(copy)
    return block.give(**{group: [known[v] for v in values] for group, values in results.items()})


def _cut(
    root: Block, boundary: int, results: list[Value], grads: list[Value], answers: list[int], count: int,
    free: set[int], near: set[int], recompute: bool, restored: dict[Value, Value],
) -> Split:  # fmt: skip
    """Two blocks out of the joint one."""
    late = {id(op) for op in root.operations[boundary:]}
    if late:  # constants made at the very end for results
        # they stand behind the boundary but belong to the forward half
        late -= {id(v.producer) for v in results if v.producer is not None}
    late_ops = _needed_ops([op for op in root.operations if id(op) in late], grads)
    # before anything is counted as wanted: a list that is only read at one place must not be kept for that
    late -= _readable_early(late_ops, root.params[count:])
    early_ops = [op for op in root.operations if id(op) not in late]
    late_ops = [op for op in late_ops if id(op) in late]
    wanted = _outside_values(late_ops, grads, late, root.params[count:])
    own = root.params[:count]
    free_values = {own[i] for i in free}
    # Only a loop has free parameters, and only there is a minimum cut worth its time: what is kept is kept once per iteration.
    items = {own[i] for i in near} if free and not recompute else None  # of a loop: the items of lists
    again, saved = _recomputed(early_ops, wanted, free_values, recompute, items)
    used_params = [i for i, p in enumerate(own) if p in saved and (i in free or i in near)]
    # a parameter that the caller still has when the backward half runs is passed again, not saved
    at_hand = {own[i] for i in used_params}
    keep = [v for v in saved if v not in at_hand]
    first_half = [*own, *(v for op in early_ops for v in op.results)]
    witnesses = _witnesses([*keep, *(own[i] for i in used_params), *root.params[count:]], first_half, [*again, *late_ops])
    # appended, not inserted: a witness has no operands, and the order of the others is that of the effects
    early_ops += [w.producer for w in witnesses if w.producer is not None]
    keep += witnesses
    here, there = ({id(op) for op in operations} for operations in (early_ops, late_ops))
    pairs = {after: back for after, back in restored.items() if id(after.producer) in here and id(back.producer) in there}
    first = extract(own, early_ops, root.name, outputs=results, saved=keep, restored=list(pairs))
    inner = [*keep, *(own[i] for i in used_params), *root.params[count:]]
    second = extract(inner, [*again, *late_ops], root.name, outputs=grads, restored=list(pairs.values()))
    known = dict(zip(_without(first, "restored"), _without(second, "restored"), strict=True))
    return Split(first, second, [v.type for v in keep], used_params, answers, known)


def _without(block: Block, group: str) -> list[Value]:
    """A group of results, which a block gives no longer."""
    groups = groups_of(block.results, block.result_layout)
    values = groups.pop(group)
    block.give(**groups)
    return values


def _witnesses(params: list[Value], early: list[Value], late: list[Operation]) -> list[Value]:
    """Arrays without elements whose shapes tell the second half the sizes it needs, the first half has, and no parameter has.

    What neither half has is known around both.
    """
    known = {name for v in params for name in sizes_of(v)}
    had = {name for v in early for name in sizes_of(v)}
    # also what types of parameters mention: derivatives of the second half may take sizes like n of n + 1 apart
    # sorted: sets of strings have another order in each process, and the text of a program must not
    mentioned = {name: None for v in params for name in sorted(symbols_in(v.type) - known)}
    needed = free_sizes(late, known, described=True) | mentioned
    witnesses = [witness(name) for name in needed if name in had]
    return [Operation(FILLED, (), [spec], attrs).result for attrs, spec in witnesses]


def _needed_ops(operations: list[Operation], grads: list[Value]) -> list[Operation]:
    """The operations of the second half that lead to a cotangent (or have an effect)."""
    wanted = set(grads)
    kept = []
    # backwards, so that one pass sees every user before what it uses
    for op in reversed(operations):
        if has_effect(op) or any(v in wanted for v in op.results):
            kept.append(op)
            wanted.update(op.operands)
    return kept[::-1]


_READS = (LIST_GET, LIST_LEN, LIST_LENGTHS)  # what they give is less than the list


def _readable_early(late: list[Operation], cts: list[Value]) -> set[int]:
    """Operations that read lists of the first half: done there, so that what they give is saved and not the lists."""
    inside = {*cts, *(v for op in late for v in op.results if op.op is not CONSTANT)}
    early: set[int] = set()
    for op in late:
        if op.op in _READS and inside.isdisjoint(op.operands):
            # the index of the read, if it is a constant, has to move with it
            early.update(id(v.producer) for v in op.operands if v.producer is not None and v.producer.op is CONSTANT)
            early.add(id(op))
            # what it gives is of the first half now: reads of that (a list in a list) can follow it
            inside.difference_update(op.results)
    return early


def _outside_values(operations: list[Operation], grads: list[Value], late: set[int], cts: list[Value]) -> dict[Value, None]:
    """What the second half uses of the first, in order of use."""
    inside = set(cts)
    values: dict[Value, None] = {}
    for v in [*(v for op in operations for v in op.operands), *grads]:
        producer = v.producer
        if v not in inside and (producer is None or id(producer) not in late):
            values[v] = None
    return values


def _recomputed(
    early: list[Operation], wanted: dict[Value, None], free: set[Value], everything: bool, items: set[Value] | None = None
) -> tuple[list[Operation], dict[Value, None]]:
    """(operations to run again in the second half, in order; values to save).

    In a loop (`items`: values of the first half that the second one has as well) more is run again where that takes less time
    than keeping it for all iterations.
    """
    # The cheap choice first: what is costless or a cheap function of wanted values. In a loop the cut may then do better; it
    # starts from what this would save, not from everything.
    costless = _Costless(free, everything)
    again, saved = _chosen(wanted, costless, None)
    if items is not None:
        keep = cheapest(saved, lambda v: v in items or costless.has(v))
        if keep is not None:
            again, saved = _chosen(wanted, costless, keep)
    # what is wanted itself comes first, in its order: residuals of a program have the same order each time it is split
    ordered = {v: None for v in wanted if v in saved}
    ordered.update(saved)
    return [op for op in early if id(op) in again], ordered


class _Costless:
    """Values that can be had from free parameters and constants alone; without `everything`, not by running regions again."""

    def __init__(self, free: set[Value], everything: bool) -> None:
        self.free, self.everything = free, everything
        self._known: dict[Value, bool] = {}

    def has(self, value: Value) -> bool:
        known = self._known
        stack = [value]  # not recursive: a chain of operations may be longer than Python's stack
        while stack:
            v = stack[-1]
            producer = v.producer
            if v not in known:
                if producer is None:
                    known[v] = v in self.free
                # an inner loop computed again would cost as much as all iterations of it, hidden in one operation
                elif (producer.regions and not self.everything) or has_effect(producer):
                    known[v] = False
                elif waiting := [o for o in producer.operands if o not in known]:
                    stack.extend(waiting)
                    continue
                else:
                    known[v] = all(known[o] for o in producer.operands)
            stack.pop()
        return known[value]


def _chosen(wanted: dict[Value, None], costless: _Costless, keep: set[Value] | None) -> tuple[set[int], dict[Value, None]]:
    """The operations to run again (by `id`) and what is saved; in `keep`, if given, is all that is saved."""
    again: set[int] = set()
    saved: dict[Value, None] = {}
    pending = list(wanted)
    seen: set[Value] = set()
    while pending:
        v = pending.pop()
        if v in seen:
            continue
        seen.add(v)
        producer = v.producer
        if producer is None:
            saved[v] = None
        elif costless.has(v) or (_cheap(producer, wanted, costless.has) if keep is None else v not in keep):
            again.add(id(producer))
            pending.extend(producer.operands)
        else:
            saved[v] = None
    return again, saved


def had_again(block: Block, values: Sequence[Value], free: int) -> tuple[Block, list[Value], bool]:
    """How to have values of a block later, from parameter `free` and as little else as can be.

    A block that gives them, the values that must be kept for it (its parameters, the free one last), whether it takes that one.
    """
    # the one free value is the loop's index, which everybody has
    own = block.params[free]
    again, saved = _recomputed(block.operations, dict.fromkeys(values), {own}, False)
    keep = [value for value in saved if value is not own]
    params = [*keep, own] if own in saved else keep
    return extract(params, again, block.name, outputs=values), keep, own in saved


def _is_number(value: Value) -> bool:
    return value.type.__class__ is TensorSpec and not len(value.type.shape)


def _cheap(producer: Operation, wanted: dict[Value, None], from_free: Callable[[Value], bool], depth: int = 6) -> bool:
    """Cheap operations on values that are there anyway; numbers are added and multiplied again sooner than they are read."""
    cost = producer.op.cost
    # Depth-limited: each wanted value asks anew, and chains that are longer are rarely cheap in sum. A number is read from
    # memory in more time than it takes to add or multiply two of them.
    if not depth or cost > (Cost.CHEAP if all(map(_is_number, (*producer.operands, *producer.results))) else Cost.LIGHT):
        return False
    for o in producer.operands:
        if not (o in wanted or from_free(o) or (o.producer is not None and _cheap(o.producer, wanted, from_free, depth - 1))):
            return False
    return True
