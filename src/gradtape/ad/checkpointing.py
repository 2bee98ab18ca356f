"""The backward pass of a loop under a memory limit: the structured op `checkpointed`, which runs parts of the loop again.

The forward loop keeps nothing but what side effects gave it (random keys, results of Python functions: effects never run
twice); prints and asserts are left out of what runs again. `checkpointed` gets the state at the start of the loop, and two
regions that work on any run of iterations: `advance` goes from the state before it to the state after it; `backward` is the
ordinary pair of a loop that saves residuals and a loop that uses them. The state is what of the carried values the residuals
depend on. When the program runs, the backend decides from the number of iterations and the limit which states to keep.

A derivative of `checkpointed` is that of `backward` on all iterations: right to any order, within the limit to order one.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape.ad.budget import BUDGET, limited
from gradtape.ad.recording import Recording
from gradtape.ad.replaying import replay
from gradtape.ad.reverse import Split, extract, split
from gradtape.ad.sites import Site, region
from gradtape.core.dispatch import apply
from gradtape.errors import GradientWarning
from gradtape.ir.dims import Dim, symbols_in
from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.types import ListSpec, TensorSpec
from gradtape.ir.walk import Rebuild, callee_of, clone, insert_param, program
from gradtape.ops.lists import LIST_GET
from gradtape.ops.structured import CHECKPOINTED, COUNT, SCAN, WHILE, loop_result
from gradtape.trace.tracing import current_trace, type_of

if TYPE_CHECKING:
    from gradtape.ad.loop_rules import Loop

Tensors = Sequence[Any]


def checkpointed_vjp(site: Site, loop: Loop, inputs: Tensors, seeds: dict[int, Any]) -> dict[int, Any] | None:
    """Cotangents of the operands of a loop, within the budget; None (and a warning) if an effect stands in the way."""
    budget = BUDGET.get()
    assert budget is not None
    trace = current_trace()
    before, trace.loc = trace.loc, loop.operation.loc  # errors and warnings name the loop
    try:
        return _checkpointed(site, loop, inputs, seeds, budget.limit)
    finally:
        trace.loc = before


def _checkpointed(site: Site, loop: Loop, inputs: Tensors, seeds: dict[int, Any], limit: int) -> dict[int, Any] | None:
    try:
        body, effects = silenced(loop.body)
    except _InnerEffectError as inner:
        _warn_about(inner.operation, loop.operation)
        return None
    nested = any(operation.op is SCAN or operation.op is WHILE for operation in program(body))
    # an inner loop keeps states of its own while one iteration of this one is differentiated: both must fit
    own = limit // 2 if nested else limit
    # items of lists are there in both passes: nothing is saved to have them
    free = {*loop.free, *range(loop.first_x, len(body.params))}
    with limited(limit - own):
        half = split(body, loop.wanted, loop.seeded, free)
    given = list(inputs[loop.skipped :])
    if effects:
        given += _kept_effects(site, effects)
    parts = _Parts(loop, half, given, [seeds[loop_result(loop.operation, k)] for k in loop.ys])
    length, static = loop.length(inputs)
    groups = {"length": length, **parts.operands, "cts": loop.starts(inputs, seeds), "seeds": parts.seeds}
    regions = {"advance": parts.advance(), "backward": parts.backward([type_of(t) for t in groups["cts"]])}
    # sizes that can be read off the operands; with others the backend cannot say how many bytes an iteration keeps
    known = {name for group in groups.values() for t in group for name in _told(t._data)}
    attrs = {"length": static, "reverse": loop.backwards, "limit": own, "saved": _sizes(half, known)}
    results = current_trace().structured(CHECKPOINTED, groups, regions, attrs)
    return loop.answers(results["cts"], results["ys"])


# -- effects -----------------------------------------------------------------------------------------------------------


class _InnerEffectError(Exception):
    """An effect inside a branch or an inner loop whose result cannot be kept per iteration."""

    def __init__(self, operation: Operation) -> None:
        self.operation = operation


def silenced(body: Block) -> tuple[Block, list[Value]]:
    """The body without effects, what they gave being further `xs`; and those values of the old body."""
    given: list[Value] = []

    def visit(scope: Rebuild, operation: Operation) -> None:
        # what an effect gave (a random key, the result of a Python function) must be the same in every later run of the
        # iteration: the first run keeps it
        if not operation.op.effect:
            scope.copy(operation)
        # how often it runs is not known by iteration, so a list of what it gave would not be in step with the loop
        elif operation.results and scope.old is not body:
            raise _InnerEffectError(operation)
        for value in operation.results if operation.op.effect else ():
            scope[value] = insert_param(scope.new, "xs", value.type, value.name)
            given.append(value)

    scope = Rebuild(body, visit)
    scope.run(body.operations)
    return scope.finish(), given


def _kept_effects(site: Site, effects: list[Value]) -> list[Any]:
    """Let the loop give what its effects gave, one list each."""
    operation = site.operation
    old = operation.regions["body"]
    # rebuilt, not changed: a block may be shared with another program that has no gradient
    scope = Rebuild(old)
    scope.run(old.operations)
    ys = [*old.result_group("ys"), *effects]
    operation.regions["body"] = scope.finish(
        {"carried": [scope[v] for v in old.result_group("carried")], "ys": [scope[v] for v in ys]}
    )
    return site.extend([ListSpec(v.type) for v in effects])


def _warn_about(effect: Operation, loop: Operation) -> None:
    loc = loop.loc
    warnings.warn_explicit(
        f"memory_limit does not hold for this loop: {effect.op.name} (at {effect.loc}) inside a branch or an inner loop cannot "
        "run twice, so the loop keeps what its backward pass needs for every iteration",
        GradientWarning, loc.file if loc else "gradtape", loc.line if loc else 0, registry=_SAID,
    )  # fmt: skip


_SAID: dict[Any, Any] = {}  # warnings given


# -- the two regions ---------------------------------------------------------------------------------------------------


class _Parts:
    """What a run of iterations works on: positions among the parameters of the (silenced) body, and operands for them."""

    def __init__(self, loop: Loop, half: Split, given: Tensors, seeds: list[Any]) -> None:
        self.loop = loop
        self.half = half
        self.seeds = seeds
        body = half.forward
        outputs, self.saved = body.result_group("outputs"), body.result_group("saved")
        needs: set[Value] = set()
        state: list[int] = []
        while True:  # the carried values that residuals depend on, directly or through later iterations
            needs = _operations(body, [*self.saved, *(outputs[j] for j in state)])[1]
            # (parameter 0 is the index)
            grown = [j for j in range(loop.carried) if body.params[j + 1] in needs]
            if grown == state:
                break
            state = grown
        used = {i for i, p in enumerate(body.params) if p in needs}.union(half.params)
        self.state = [j + 1 for j in state]
        self.consts = [p for p in range(loop.first_const, loop.first_x) if p in used]
        self.xs = [p for p in range(loop.first_x, len(body.params)) if p in used]
        self.next = [outputs[j] for j in state]
        self.operands = {
            name: [given[p - 1] for p in places]
            for name, places in (("state", self.state), ("consts", self.consts), ("xs", self.xs))
        }
        self.types = [
            *(body.params[p].type for p in (*self.state, *self.consts)),
            *(ListSpec(body.params[p].type) for p in self.xs),
        ]
        self.layout = {"first": 1, "count": 1, **{name: len(group) for name, group in self.operands.items()}}

    def advance(self) -> Block:
        """(first, count, state, consts, xs) → the state after these iterations."""

        def build(first: Any, count: Any, *params: Any) -> dict[str, Any]:
            return {"state": self._forward([], first, count, params)["carried"]}

        return region([COUNT, COUNT, *self.types], build, self.layout)

    def backward(self, cts: list[Any]) -> Block:
        """(first, count, state, consts, xs, cotangents after, seeds) → cotangents before, those of the items of xs."""
        seeds = [type_of(t) for t in self.seeds]
        size = len(self.types)

        def build(first: Any, count: Any, *params: Any) -> dict[str, Any]:
            own, ends, lists = params[:size], params[size : size + len(cts)], params[size + len(cts) :]
            saved = self._forward(self.saved, first, count, own)["ys"]
            consts = [first, *own[len(self.state) :], *lists]
            types = [COUNT, *cts, *(type_of(t) for t in consts), *(type_of(t).item for t in saved)]
            layout = {"index": 1, "carried": len(cts), "consts": len(consts), "xs": len(saved)}
            block = region(types, self._step_back(len(cts)), layout)
            groups = {"length": [count], "carried": list(ends), "consts": consts, "xs": saved}
            results = current_trace().structured(
                SCAN, groups, {"body": block}, {"length": None, "reverse": not self.loop.backwards}
            )
            return {"cts": results["carried"], "ys": results["ys"]}

        layout = {**self.layout, "cts": len(cts), "seeds": len(seeds)}
        return region([COUNT, COUNT, *self.types, *cts, *seeds], build, layout)

    def _forward(self, saved: list[Value], first: Any, count: Any, params: Tensors) -> dict[str, list[Any]]:
        """The iterations themselves: the carried state, and lists of these values."""
        body = self.half.forward
        kept = [body.params[0], *(body.params[p] for p in (*self.state, *self.consts, *self.xs))]
        operations, _ = _operations(body, [*self.next, *saved])
        # cloned: both regions replay it, and a block has one owner
        step = clone(extract(kept, operations, body.name, outputs=[*self.next, *saved]))
        n = len(self.state)

        def build(k: Any, *inner: Any) -> dict[str, Any]:
            # a run starts at its first iteration, but index and items are counted from the start of the whole loop
            index = inner[n] + k
            values = self._own(index, inner[n + 1 :])
            outs = replay(step, [index, *inner[:n], *(values[p] for p in (*self.consts, *self.xs))])
            return {"carried": outs[:n], "ys": outs[n:]}

        groups = {"length": [count], "carried": list(params[:n]), "consts": [first, *params[n:]], "xs": []}
        types = [COUNT, *self.types[:n], COUNT, *self.types[n:]]
        block = region(types, build, {"index": 1, "carried": n, "consts": len(types) - n - 1, "xs": 0})
        return current_trace().structured(SCAN, groups, {"body": block}, {"length": None, "reverse": self.loop.backwards})

    def _step_back(self, cts: int) -> Callable[..., dict[str, Any]]:
        def build(k: Any, *inner: Any) -> dict[str, Any]:
            index = inner[cts] + k
            shared = len(self.consts) + len(self.xs)
            rest = inner[cts + 1 + shared :]
            own = self._own(index, inner[cts + 1 : cts + 1 + shared])
            seeds = [apply(LIST_GET, t, index) for t in rest[: len(self.seeds)]]
            carried, ys, _ = self.loop.step(self.half, rest[len(self.seeds) :], own, inner[:cts], seeds)
            return {"carried": carried, "ys": ys}

        return build

    def _own(self, index: Any, params: Tensors) -> dict[int, Any]:
        """The parameters of the body at one index: constants, and items of the lists."""
        m = len(self.consts)
        items = {p: apply(LIST_GET, t, index) for p, t in zip(self.xs, params[m:], strict=True)}
        return {0: index, **dict(zip(self.consts, params[:m], strict=True)), **items}


def _operations(block: Block, results: Iterable[Value]) -> tuple[list[Operation], set[Value]]:
    """The operations of a block that these values come from, and all values that takes: operands, and who tells sizes."""
    told: dict[str, Value] = {}  # symbol → the first value that has it alone on an axis
    for value in (*block.params, *(v for operation in block.operations for v in operation.results)):
        for name in _told(value):
            told.setdefault(name, value)
    wanted = set(results)
    kept = []
    for operation in reversed(block.operations):
        if not wanted.isdisjoint(operation.results):
            kept.append(operation)
            wanted.update(operation.operands)
            # a size in an attribute is an operand too, though no list of operands says so
            wanted.update(told[name] for name in _symbols(operation) if name in told)
    return kept[::-1], wanted


def _told(value: Value) -> list[str]:
    """The symbols that stand alone on an axis of a tensor."""
    if not isinstance(value.type, TensorSpec):
        return []
    return [size.name for size in value.type.shape if isinstance(size, Dim) and size.name is not None]


def _symbols(operation: Operation) -> set[str]:
    """The symbols in attributes of an operation and of all that is inside it."""
    inner = [*operation.regions.values()]
    if (callee := callee_of(operation)) is not None:
        inner.append(callee)
    inside = [operation, *(o for part in inner for o in program(part))]
    attrs = [value for o in inside for value in o.attrs.values() if not isinstance(value, Block)]
    return set(symbols_in(attrs))


def _sizes(half: Split, known: set[str]) -> tuple[TensorSpec, ...] | None:
    """The types that one iteration keeps; None where their sizes are not known when the loop starts."""
    specs = []
    for value in half.forward.result_group("saved"):
        spec, producer = value.type, value.producer
        if isinstance(spec, ListSpec):
            length = producer.attrs["length"] if producer is not None and producer.op is SCAN else None
            if not isinstance(length, int) or isinstance(spec.item, ListSpec):
                return None
            spec = TensorSpec((length, *spec.item.shape), spec.item.dtype)
        # a witness of sizes: it takes no memory
        if 0 in tuple(spec.shape):
            continue
        if None in tuple(spec.shape) or not symbols_in(spec) <= known:
            return None
        specs.append(spec)
    return tuple(specs)


# -- its own derivatives -----------------------------------------------------------------------------------------------


def all_at_once(operation: Operation, inputs: Tensors) -> list[Any]:
    """The inputs of `backward` for all iterations."""
    given = operation.layout["length"]
    return [*bounds(operation.attrs["length"], inputs[:given]), *inputs[given:]]


def bounds(static: Any, given: Tensors) -> list[Any]:
    """The first iteration and the number of all, of a loop whose length is an attribute or given."""
    trace = current_trace()
    length = given[0] if static is None else trace.dim(static) if isinstance(static, Dim) else trace.constant(np.int32(static))
    return [trace.constant(np.int32(0)), length]


def expanded_vjp(site: Site, inputs: Tensors, wanted: set[int], seeds: dict[int, Any]) -> dict[int, Any]:
    """Cotangents of the operands: `backward` runs on all iterations and is differentiated as it is."""
    operation = site.operation
    recording = Recording()
    # the limit is not handed on: checkpoints inside a derivative of checkpoints would multiply the work at each order
    with limited(None), recording.recording():
        twins = [recording.watched(t) if i in wanted else t for i, t in enumerate(inputs)]
        outs = replay(clone(operation.regions["backward"]), all_at_once(operation, twins), sizes="new")
        places = sorted(seeds)
        nodes: list[Any] = [twins[i]._node for i in sorted(wanted)]
    cotangents = recording.cotangents([outs[i] for i in places], [seeds[i] for i in places], nodes, boxed=True)
    recording.close()
    first: dict[Any, tuple[int, Any]] = {}  # a value may be given twice: its total counts once
    for i, node, ct in zip(sorted(wanted), nodes, cotangents, strict=True):
        first.setdefault(node, (i, ct))
    return {i: ct for i, ct in first.values() if ct is not None}
