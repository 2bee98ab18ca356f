"""Loops and branches whose course depends on tensors become structure of the program.

A body is traced once in a region of its own. Everything it may have changed (the names AutoGraph lists, and every place
it wrote to: `frontend/effects.py`) is its state; `frontend/plans.py` says how each piece of state is carried. A loop is traced
again until what it starts with and what it ends with have the same types. Nothing outside the program is left changed by
a trace that is thrown away.

Loops with a test become `while`: the test is evaluated before the loop and at the end of the body, so it may have effects
of its own. Loops over tensors and ranges without break become `scan`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape.ad.tracing import TracedList, TracedTensor, current_trace, params_of
from gradtape.ad.weak import WeakTensor
from gradtape.errors import InvalidArgumentError
from gradtape.frontend.bodies import (
    BOTH_LIVE as BOTH_LIVE,
    NO_STATE as NO_STATE,
    Dead as Dead,
    Ran as Ran,
    State as State,
    as_now,
    matched,
    reached,
)
from gradtape.frontend.effects import active
from gradtape.frontend.holders import Holders
from gradtape.frontend.iterables import StagedIterable, staged_iterable
from gradtape.frontend.meetings import Carried, CarryFlag, Column, Held, Meeting, counter
from gradtape.frontend.places import Attribute, Cell, DictContent, Global, ListContent, Log, Place
from gradtape.frontend.plans import (
    DEAD,
    FLAG,
    CarryList,
    CarryMaybe,
    JoinError,
    Plan,
    Same,
    Widening,
    join,
    one_sided,
    tensors_in,
)
from gradtape.frontend.staged_values import Choice, Maybe, StagedItems, Undefined, staged_items
from gradtape.ir.dims import Dim, fresh_symbol, substitute
from gradtape.ir.graph import Block, Value
from gradtape.ops.compare import less, logical_and, not_equal
from gradtape.ops.dispatch import convert
from gradtape.ops.opdef import Op
from gradtape.ops.record import INTERNAL, user_frame
from gradtape.ops.regions import COND, COUNT, SCAN, WHILE, result_types
from gradtape.ops.shape import reshape
from gradtape.ops.tensor import TensorLike

MAX_UNROLLED = 10_000
UNROLLED_FIRST = 64  # iterations, if sizes change from one to the next: then all of them are known
MAX_NESTED = 40  # branches in branches; Python's own recursion limit is not far beyond


def is_staged(value: Any) -> bool:
    """Whether a value is known only when the program runs."""
    return isinstance(value, (TracedTensor, Maybe)) or value.__class__ is Dim or staged_items(value) is not None


def valued(value: Any) -> Any:
    """A value that Python asks for (a test, a count, an index): of a variable, what it holds now."""
    return value.read() if isinstance(value, TensorLike) and not isinstance(value, Maybe) else value


def truth(value: Any) -> Any:
    """A staged value as a scalar flag of the program."""
    if isinstance(value, Maybe) and value.missing is None:
        return stage_if_exp(value.flag, lambda: truth(value.value), lambda: False)
    if isinstance(value, (TensorLike, Dim)):
        value = convert(value)
    items = value if isinstance(value, TracedList) else staged_items(value)
    if items is not None:
        from gradtape.ops.lists import list_len

        value = list_len(items if isinstance(items, TracedList) else items.items)
    if value.ndim and value.size != 1:
        raise InvalidArgumentError(
            f"the truth value of a tensor with shape {tuple(value.shape)} is ambiguous; "
            "use gt.reduce_any(t) or gt.reduce_all(t)"
        )
    if value.ndim:
        value = reshape(value, ())
    return value if value.dtype.is_bool else not_equal(value, 0)


# -- branches --------------------------------------------------------------------------------------------------------


def stage_if(test: Any, body: Callable[[], Any], orelse: Callable[[], Any], state: State) -> None:
    """An `if` on a staged test: both branches are traced, one runs."""
    _branches(test, body, orelse, state, value=False)


def stage_if_exp(test: Any, then: Callable[[], Any], orelse: Callable[[], Any], state: State = NO_STATE) -> Any:
    """The value of a conditional expression; `state` are the names it binds."""
    return _branches(test, then, orelse, state, value=True)


def stage_and(first: Any, second: Callable[[], Any], state: State = NO_STATE) -> Any:
    """`first and second()`, the second evaluated only where needed."""
    return stage_if_exp(first, second, lambda: first, state)


def stage_or(first: Any, second: Callable[[], Any], state: State = NO_STATE) -> Any:
    """`first or second()`, the second evaluated only where needed."""
    return stage_if_exp(first, lambda: first, second, state)


def choose(flag: Any, then: Callable[[], Any], orelse: Callable[[], Any]) -> Any:
    """What an object holds where two possibilities meet: like a conditional expression, but no new object."""
    return _branches(flag, then, orelse, NO_STATE, value=True, counts=False)


def _branches(
    test: Any, then: Callable[[], Any], orelse: Callable[[], Any], state: State, value: bool, counts: bool = True
) -> Any:
    trace, tracer = current_trace(), active()
    if len(trace.blocks) > MAX_NESTED:
        raise RecursionError(_endless(state))
    flag = truth(test)
    ran = [Ran(Block(), state, run, (flag, side)) for run, side in ((then, True), (orelse, False))]
    places: dict[Any, Place] = {key: place for r in ran for key, (place, _) in r.log.entries.items()}
    sights = (ran[0].see, ran[1].see)
    pairs: list[tuple[str, Any, Any]] = []
    columns: list[Column] = []
    starts = state.get()
    for i, label in enumerate(state.labels()):
        (x, a), (y, b) = (
            (DEAD, DEAD) if i in dead else (r.objects[i], r.ends[i]) for r, dead in zip(ran, state.dead, strict=True)
        )
        if (x is DEAD and y is starts[i]) or (y is DEAD and x is starts[i]):
            x = y = starts[i]
        pairs.append((label, *matched(x, y, a, b, sights)))
        columns.append(Column(x, y))
    for key, place in places.items():
        now = place.read()
        x, y = (r.contents[key] if key in r.log.entries else now for r in ran)
        a, b = (r.places[key] if key in r.log.entries else r.version(now) for r in ran)
        pairs.append((place.label, *matched(x, y, a, b, sights)))
        columns.append(_column(place, x, y))
    if value:
        x, y = ran[0].result, ran[1].result
        pairs.append(("the value of the expression", *matched(x, y, ran[0].value, ran[1].value, sights)))
        columns.append(Column(x, y, counts))
        if callable(x) and callable(y) and x is not y:
            pairs[-1] = (pairs[-1][0], (chosen := Choice(flag, x, y)), chosen)
    meeting = Meeting(tracer.identities, flag, ran, columns)
    how = Widening(sizes=widened())
    plans = [_joined(state, label, a, b, how) for label, a, b in pairs]
    for side, r in enumerate(ran):
        ends = [(plan, pair[1 + side]) for plan, pair in zip(plans, pairs, strict=True)]
        r.block.give(outputs=r.convert([*ends, *((CarryFlag(), flags[side]) for flags in meeting.flags)]))
    captured = trace.close([(r.block, r.captures) for r in ran], "inputs")
    regions = {"then": ran[0].block, "orelse": ran[1].block}
    types = [*(t for plan in plans for t in plan.types()), *(FLAG for _ in meeting.flags)]
    result = types, {"outputs": len(types)}
    outs = trace.structured(COND, {"pred": [flag], "inputs": captured}, regions, {}, result)["outputs"]
    feed = iter(outs)
    results = meeting.settle([plan.value(feed) for plan in plans], list(feed))
    state.set(tuple(results[: len(state.names)]))
    for (_, place), result in zip(places.items(), results[len(state.names) :], strict=False):
        tracer.note(place)
        place.write(result)
    return results[-1] if value else None


def _column(place: Place, x: Any, y: Any) -> Column:
    """The objects in a place on two paths, and whether what is read there is an object or only a list of objects."""
    if isinstance(place, (Attribute, Global, Cell)):
        return Column(x, y)
    if isinstance(place, (ListContent, DictContent)):
        return Column(x, y, False, place.target)
    return Column(None, None, False)


def widened() -> set[str] | None:
    """No sizes yet that stand for several; None where a loop around could rather be unrolled, which keeps sizes known."""
    return None if active().can_unroll else set()


def _joined(state: State, label: str, a: Any, b: Any, how: Widening) -> Plan:
    if a is DEAD or b is DEAD:
        return one_sided(b if a is DEAD else a, label, reached, how)
    try:
        return join(a, b, label, how)
    except JoinError as error:
        if not error.shapes:
            raise
        line = f"line {state.line}: " if state.line else ""
        cure = "give both branches the same rank (gt.reshape, gt.expand_dims, gt.broadcast_to)"
        raise JoinError(f"{line}{error}; {cure}", shapes=True) from None


def _endless(state: State) -> str:
    """Branches inside branches without end: some function calls itself in one of them."""
    names: dict[Any, int] = {}
    frame: Any = user_frame(1)
    while frame is not None:
        if frame.f_code.co_filename not in INTERNAL:
            at = (frame.f_code.co_filename, frame.f_code.co_name.partition(".")[0])
            names[at] = names.get(at, 0) + 1
        frame = frame.f_back
    name = max(names, key=lambda at: names[at])[1]
    return (
        f"`{name}` calls itself inside branches that depend on tensors, {MAX_NESTED} deep and not yet at an end: the depth of "
        "the recursion depends on values known only when the function runs. Write it as a `while` loop"
    )


# -- loops -----------------------------------------------------------------------------------------------------------


class _Loop:
    """A loop being staged: the plans of its state, found by tracing its body until they fit."""

    def __init__(self, state: State, body: Callable[[Any], Any], test: Callable[[Any], Any] | None) -> None:
        self.state = state
        self.body = body  # given the loop index
        self.test = test  # whether to go on after the iteration with this index; None: a scan
        self.starts = list(state.get())
        self.places: dict[Any, Place] = {}
        self.carried = Carried(active().identities, state.line)
        self.sizes = widened()  # symbols for sizes that change from one iteration to the next

    def trace(self) -> tuple[Ran, list[Plan]]:
        holding = active().identities.holding
        holding.append(self.starts)
        try:
            return self._trace()
        finally:
            holding.pop()

    def _trace(self) -> tuple[Ran, list[Plan]]:
        plans: list[Plan] = [Same(v) for v in self.starts]
        for _ in range(12):
            ran, inputs = self._attempt(plans)
            # the stand-ins of this attempt
            carried = frozenset(id(t) for value in inputs for t in tensors_in(value) if t._data.owner is ran.block)
            fresh = frozenset(id(part) for part in self.carried.inputs.values())
            found = {k: p for k, (p, _) in ran.log.entries.items() if k not in self.places and k[1] not in fresh}
            labels = [*self.state.labels(), *(p.label for p in self.places.values())]
            there = [k in ran.log.entries for k in self.places]
            now = [None if t else p.read() for t, p in zip(there, self.places.values(), strict=True)]
            objects = [*ran.objects, *(ran.contents[k] if t else v for k, t, v in zip(self.places, there, now, strict=True))]
            versions = [
                *ran.ends,
                *(ran.places[k] if t else ran.version(v) for k, t, v in zip(self.places, there, now, strict=True)),
            ]
            ends = [matched(a, x, a, b, (as_now, ran.see), fresh)[1] for a, x, b in zip(inputs, objects, versions, strict=True)]
            grown = [self._joined(a, b, label, carried) for a, b, label in zip(inputs, ends, labels, strict=True)]
            more = self._learn(ran, inputs, objects, grown)
            if not found and not more and grown == plans:
                self.ends = ends
                return ran, plans
            for key, place in found.items():
                self.places[key] = place
                start = place.read()
                self.starts.append(start)
                end = matched(start, ran.contents[key], start, ran.places[key], (as_now, ran.see))[1]
                grown.append(self._joined(start, end, place.label, frozenset()))
            plans = grown
        raise JoinError(
            f"line {self.state.line}: this loop changes other objects each time it is looked at "
            f"({', '.join(dict.fromkeys(labels))}), so its state cannot be carried; keep one list, dict or tensor per name, "
            "and change it instead of making new ones"
        )

    def columns(self, values: Sequence[Any]) -> list[Held]:
        """Values of the state as objects, or as what objects hold."""
        count = len(self.state.names)
        held = [_column(place, v, v) for place, v in zip(self.places.values(), values[count:], strict=True)]
        return [*((v, True, None) for v in values[:count]), *((v, counts, owner) for v, _, counts, owner in held)]

    def _learn(self, ran: Ran, inputs: Sequence[Any], objects: Sequence[Any], plans: Sequence[Plan]) -> bool:
        identities = active().identities
        starts = self.columns(self.starts)
        columns = [Column(s, e, *rest) for (s, *rest), (e, *_) in zip(starts, self.columns(objects), strict=True)]
        stays = [isinstance(plan, Same) for plan in plans]
        if identities.tracking:  # whoever else has what the names have now: they will have other objects
            held = self.state.get()
            self.state.set(tuple(value if same else None for value, same in zip(held, stays, strict=False)))
            holders = counter(identities, ran, [held, inputs, objects, starts, columns])
            self.state.set(held)
        else:
            holders = Holders(identities.references_to)
        return self.carried.learn(ran, columns, stays, holders)

    def _joined(self, start: Any, end: Any, label: str, carried: frozenset[int]) -> Plan:
        try:
            return join(start, end, label, Widening(carried, self.sizes))
        except JoinError as error:
            if error.shapes:
                text = str(error).replace("on one path and", "before an iteration and").replace("on the other", "after it")
                raise JoinError(
                    f"line {self.state.line}: {text}; a value that changes its rank in a loop of unknown length cannot be "
                    "compiled. Collect the parts in a list or TensorArray, or reshape it",
                    shapes=True,
                ) from None
            raise

    def results(self, op: Op, regions: dict[str, Block]) -> tuple[list[Any], dict[str, int]]:
        """The types and layout of the loop's results: sizes that changed in it have names of their own after it."""
        types, layout = result_types(op, regions, {})
        env = {name: fresh_symbol("n") for name in sorted(self.sizes or ())}
        return [substitute(type, env) for type in types] if env else types, layout

    def _attempt(self, plans: list[Plan]) -> tuple[Ran, list[Any]]:
        types = [t for plan in plans for t in plan.types()] + self.carried.types()
        flags = [] if self.test is None else [FLAG]
        block = Block([COUNT, *flags, *types], layout={"index": 1, "carried": len(flags) + len(types)})
        params = params_of(block)
        feed = iter(params[1 + len(flags) :])
        inputs = [plan.value(feed) for plan in plans]
        identity = list(feed)
        for value in inputs:
            if (items := staged_items(value)) is not None:
                items.grown = 0
        count = len(self.state.names)
        before = [(place, place.read()) for place in self.places.values()]
        starts = self.state.get()
        holding = active().identities.holding
        holding += [inputs, [old for _, old in before]]

        def run() -> Any:
            self.state.set(tuple(inputs[:count]))
            for place, value in zip(self.places.values(), inputs[count:], strict=True):
                place.write(value)
            self.carried.enter(self.columns(inputs), self.starts, identity)
            self.body(params[0])
            return None if self.test is None else self.test(params[0])

        try:
            ran = Ran(block, self.state, run, known=self.places)
        finally:
            del holding[-2:]
            for place, old in before:
                place.write(old)
            self.state.set(starts)
        return ran, inputs


def stage_while(test: Callable[[], Any], body: Callable[[], Any], state: State, first: Any = None) -> None:
    """A `while` whose test is staged; `first` is the test's value before the loop, if it was evaluated already."""
    flag = truth(test() if first is None else first)
    loop = _Loop(state, lambda index: body(), lambda index: truth(_flag(test())))
    _finish(loop, flag, None)


def _flag(value: Any) -> Any:
    return current_trace().constant(np.bool_(value)) if isinstance(value, (bool, np.bool_)) else value


def stage_for(iterated: Any, extra_test: Callable[[], Any] | None, body: Callable[[Any], Any], state: State) -> None:
    """A `for` over something staged; `extra_test` says whether to go on (False after a break)."""
    items = staged_iterable(iterated)
    length = items.length()
    if isinstance(length, int) and length == 0:
        return
    can_unroll = isinstance(length, int) and length <= MAX_UNROLLED
    active().can_unroll += can_unroll
    try:
        if _attempted(items, extra_test, body, state, length):
            return
    finally:
        active().can_unroll -= can_unroll
    if length > UNROLLED_FIRST and not active().can_unroll and _attempted(items, extra_test, body, state, length):
        return  # as one loop, in which sizes change
    _unrolled(items, extra_test, body, state, length)


def _attempted(items: StagedIterable, extra_test: Any, body: Any, state: State, length: Any) -> bool:
    """Make one loop of it; False if it must be unrolled, and can be."""
    try:
        _stage_for(items, extra_test, body, state, length, 0)
        return True
    except JoinError:
        if not isinstance(length, int) or length > MAX_UNROLLED:
            raise
    if length == 1:
        return False
    try:  # the first iteration may differ (a Python number that becomes a tensor): take it out of the loop
        _peeled(items, extra_test, body, state, length)
        return True
    except JoinError:
        return False


def _peeled(items: StagedIterable, extra_test: Any, body: Any, state: State, length: int) -> None:
    tracer = active()
    log = Log()
    starts = state.get()
    tracer.logs.append(log)
    mark, links = tracer.checkpoint(), tracer.identities.mark()
    try:
        _step(items, extra_test, body, state, 0)
        _stage_for(items, extra_test, body, state, length - 1, 1)
    except JoinError:
        tracer.logs.pop()
        log.undo()
        state.set(starts)
        tracer.rollback(mark)
        tracer.identities.reset(links)
        raise
    tracer.logs.pop()
    tracer.logs[-1].absorb(log)


def _step(items: StagedIterable, extra_test: Any, body: Any, state: State, index: int) -> None:
    go_on = True if extra_test is None else extra_test()
    if is_staged(go_on):
        stage_if(go_on, lambda: body(items.item(index)), lambda: None, state)
    elif go_on:
        body(items.item(index))


def _unrolled(items: StagedIterable, extra_test: Any, body: Any, state: State, length: int) -> None:
    for index in range(length):
        _step(items, extra_test, body, state, index)


def _stage_for(items: StagedIterable, extra_test: Any, body: Any, state: State, length: Any, offset: int) -> None:
    def at(index: Any) -> Any:
        return items.item(index + offset if offset else index)

    if extra_test is None:
        _finish(_Loop(state, lambda index: body(at(index)), None), None, length)
        return
    count = convert(length)
    going = extra_test()
    flag = less(0, count) if not is_staged(going) else logical_and(less(0, count), truth(going))
    flag = flag if isinstance(flag, TracedTensor) else current_trace().constant(flag._data)

    def go_on(index: Any) -> Any:
        more = less(index + 1, count)
        going = extra_test()
        return logical_and(more, truth(_flag(going)))

    if not is_staged(going) and not going:
        return
    loop = _Loop(state, lambda index: body(at(index)), go_on)
    _finish(loop, flag, None)


def _finish(loop: _Loop, flag: Any, length: Any) -> None:
    """Emit the operation and give the state its values after the loop."""
    trace, tracer = current_trace(), active()
    ran, plans = loop.trace()
    flags = [(CarryFlag(), end) for end in loop.carried.ends()]
    ends = ran.convert([*zip(plans, loop.ends, strict=True), *flags])
    inits = [t for plan, start in zip(plans, loop.starts, strict=True) for t in plan.tensors(start)]
    inits += [t for start in loop.carried.starts(loop.columns(loop.starts)) for t in CarryFlag().tensors(start)]
    if loop.test is None:
        ran.block.give(carried=ends, ys=[])
        captured = trace.close([(ran.block, ran.captures)], "consts")
        ran.block.layout["xs"] = 0
        static = isinstance(length, int)
        groups = {"length": [] if static else [_int32(length)], "carried": inits, "consts": captured, "xs": []}
        attrs = {"length": length if static else None, "reverse": False}
        regions = {"body": ran.block}
        outs = trace.structured(SCAN, groups, regions, attrs, loop.results(SCAN, regions))["carried"]
    else:
        ran.block.give(carried=[trace_operand(ran, ran.result), *ends], ys=[])
        test = Block([FLAG, *(p.type for p in ran.block.group("carried")[1:])])
        test.layout = {"carried": len(test.params)}
        test.give(flag=[test.params[0]])
        captured = trace.close([(ran.block, ran.captures), (test, {})], "consts")
        groups = {"carried": [flag, *inits], "consts": captured}
        regions = {"test": test, "body": ran.block}
        outs = trace.structured(WHILE, groups, regions, {}, loop.results(WHILE, regions))["carried"][1:]
    feed = iter(outs)
    results = [plan.value(feed) for plan in plans]
    identity = list(feed)
    if isinstance(length, int) and length > 0:
        columns = zip(plans, results, loop.starts, loop.ends, strict=True)
        results = [_settled(p, r, s, e, length) for p, r, s, e in columns]
    count = len(loop.state.names)
    loop.carried.settle(loop.columns(results), loop.starts, ran, identity)
    loop.state.set(tuple(results[:count]))
    for place, result in zip(loop.places.values(), results[count:], strict=True):
        tracer.note(place)
        place.write(result)


def trace_operand(ran: Ran, tensor: Any) -> Value:
    """The value of a tensor inside a traced body."""
    trace = current_trace()
    with trace.region(ran.block):
        value = trace.operand(tensor)
    ran.note_captures()
    return value


def _settled(plan: Plan, result: Any, start: Any, end: Any, count: int) -> Any:
    """A loop that runs a known number of times leaves no doubt about what each iteration sets, nor how lists have grown."""
    if isinstance(plan, CarryList) and isinstance(result[0], StagedItems):
        before = start[0].length if staged_items(start) is not None else len(start)
        grown = end[0].grown if staged_items(end) is not None else None
        if before is not None and grown is not None:
            return [StagedItems(result[0].items, before + count * grown)]
        return result
    if (
        isinstance(plan, CarryMaybe)
        and isinstance(result, Maybe)
        and not isinstance(end, (Maybe, Undefined))
        and end is not None
    ):
        return result.value
    return result


def _int32(length: Any) -> Any:
    from gradtape.ops.elementwise import cast

    tensor = convert(length)
    if isinstance(tensor, WeakTensor):
        tensor = tensor.strong()
    return tensor if tensor.dtype == COUNT.dtype else cast(tensor, COUNT.dtype)
