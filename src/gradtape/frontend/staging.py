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
from sys import getrefcount
from typing import Any

import numpy as np

from gradtape.ad.tracing import TracedList, TracedTensor, current_trace, params_of
from gradtape.ad.weak import WeakTensor
from gradtape.errors import InvalidArgumentError
from gradtape.frontend.effects import active
from gradtape.frontend.iterables import StagedIterable, staged_iterable
from gradtape.frontend.places import Attribute, Cell, Global, Log, Place, VariableValue
from gradtape.frontend.plans import FLAG, CarryList, CarryMaybe, JoinError, Plan, Same, join, tensors_in
from gradtape.frontend.staged_values import Choice, Maybe, StagedItems, Undefined, staged_items
from gradtape.ir.dims import Dim
from gradtape.ir.graph import Block, Value
from gradtape.ops.compare import less, logical_and, not_equal
from gradtape.ops.dispatch import convert
from gradtape.ops.record import INTERNAL, user_frame
from gradtape.ops.regions import COND, COUNT, SCAN, WHILE
from gradtape.ops.shape import reshape
from gradtape.ops.tensor import Tensor, TensorLike
from gradtape.tree import LeafTuple

MAX_UNROLLED = 10_000
MAX_NESTED = 40  # branches in branches; Python's own recursion limit is not far beyond


class State:
    """The names a construct assigns: how to read and set them, what they are called, and the line."""

    __slots__ = ("get", "line", "names", "set")

    def __init__(self, get: Callable[[], tuple[Any, ...]], set: Callable[[Any], None], names: Sequence[str], line: int) -> None:
        self.get = get
        self.set = set
        self.names = tuple(names)
        self.line = line


NO_STATE = State(lambda: (), lambda values: None, (), 0)


def is_staged(value: Any) -> bool:
    """Whether a value is known only when the program runs."""
    return isinstance(value, (TracedTensor, Maybe)) or value.__class__ is Dim or staged_items(value) is not None


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


class _Ran:
    """A body traced into a block, and undone: what it ended with."""

    def __init__(self, block: Block, state: State, run: Callable[[], Any]) -> None:
        trace, tracer = current_trace(), active()
        self.block = block
        self.captures: dict[Value, TracedTensor] = {}
        self.log = Log()
        starts = state.get()
        tracer.logs.append(self.log)
        try:
            with trace.region(block):
                self.result = run()
            self.note_captures()
            self.objects = state.get()  # the objects themselves
            self.ends = tuple([self._version(end) for end in self.objects])
            state.set(starts)
            self.forget_own()
            self.places = {key: place.read() for key, (place, _) in self.log.entries.items()}
        finally:
            tracer.logs.pop()
            self.log.undo()
            state.set(starts)

    def _version(self, end: Any) -> Any:
        """What a name has at the end, as it is there: an object the body wrote to gets its old content back when the body is
        undone. Objects it did not write to stay themselves."""
        entries = self.log.entries
        if isinstance(end, Tensor):
            return end.__copy__() if ("tensor", id(end)) in entries else end
        if end.__class__ is list or (isinstance(end, tuple) and not isinstance(end, LeafTuple)):
            parts = [self._version(part) for part in end]
            same = ("list", id(end)) not in entries and all(a is b for a, b in zip(parts, end, strict=True))
            return end if same else _like(end, parts)
        if end.__class__ is dict:
            made = {key: self._version(part) for key, part in end.items()}
            same = ("dict", id(end)) not in entries and all(made[key] is part for key, part in end.items())
            return end if same else made
        return end

    def forget_own(self) -> None:
        """What the body made itself and nobody holds any more is not its state."""
        ends = [id(end) for end in self.objects]
        entries = self.log.entries
        for key in list(entries):
            place = entries[key][0]
            if isinstance(place, (Global, Cell, VariableValue)):
                continue
            target = place.target  # type: ignore[attr-defined]
            # references: the local name, the argument, the place unless it holds weakly; and each name that has it at the end
            others = getrefcount(target) - ends.count(id(target)) - (2 if isinstance(place, Attribute) else 3)
            if target is None or others <= 0:
                del entries[key]

    def note_captures(self) -> None:
        for value, tensor in current_trace().last_captures().items():
            self.captures.setdefault(value, tensor)

    def convert(self, pairs: Sequence[tuple[Plan, Any]]) -> list[Value]:
        """The ends as program values, converted inside the block."""
        trace = current_trace()
        with trace.region(self.block):
            values = [trace.operand(t) for plan, end in pairs for t in plan.tensors(end)]
        self.note_captures()
        return values


def _like(container: Any, parts: list[Any]) -> Any:
    """A list or tuple (a named one, too) with other parts."""
    kind = container.__class__
    return kind(parts) if kind is list or kind is tuple else kind(*parts)


def _matched(x: Any, y: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """What a name has on the two paths (`a` and `b`: versions of the objects `x` and `y`), with objects that are the same on
    both as themselves: what they hold is the business of their places."""
    if x is y:
        return x, x
    sequence = x.__class__ is list or (isinstance(x, tuple) and not isinstance(x, LeafTuple))
    if x.__class__ is y.__class__ and sequence and len(x) == len(y) == len(a) == len(b):
        pairs = [_matched(*parts) for parts in zip(x, y, a, b, strict=True)]
        return _like(x, [p for p, _ in pairs]), _like(y, [q for _, q in pairs])
    return a, b


def _labels(state: State) -> list[str]:
    return [f"`{name}`" for name in state.names]


# -- branches --------------------------------------------------------------------------------------------------------


def stage_if(test: Any, body: Callable[[], Any], orelse: Callable[[], Any], state: State) -> None:
    """An `if` on a staged test: both branches are traced, one runs."""
    _branches(test, body, orelse, state, value=False)


def stage_if_exp(test: Any, then: Callable[[], Any], orelse: Callable[[], Any], line: int = 0) -> Any:
    """The value of a conditional expression."""
    return _branches(test, then, orelse, NO_STATE, value=True)


def stage_and(first: Any, second: Callable[[], Any]) -> Any:
    """`first and second()`, the second evaluated only where needed."""
    return stage_if_exp(first, second, lambda: first)


def stage_or(first: Any, second: Callable[[], Any]) -> Any:
    """`first or second()`, the second evaluated only where needed."""
    return stage_if_exp(first, lambda: first, second)


def _branches(test: Any, then: Callable[[], Any], orelse: Callable[[], Any], state: State, value: bool) -> Any:
    trace, tracer = current_trace(), active()
    if len(trace.blocks) > MAX_NESTED:
        raise RecursionError(_endless(state))
    flag = truth(test)
    ran = [_Ran(Block(), state, run) for run in (then, orelse)]
    places: dict[Any, Place] = {key: place for r in ran for key, (place, _) in r.log.entries.items()}
    pairs: list[tuple[str, Any, Any]] = [
        (label, *_matched(x, y, a, b))
        for label, a, b, x, y in zip(_labels(state), ran[0].ends, ran[1].ends, ran[0].objects, ran[1].objects, strict=True)
    ]
    for key, place in places.items():
        ends = [r.places[key] if key in r.places else place.read() for r in ran]
        pairs.append((place.label, ends[0], ends[1]))
    if value:
        pairs.append(("the value of the expression", ran[0].result, ran[1].result))
    if value and callable(ran[0].result) and callable(ran[1].result) and ran[0].result is not ran[1].result:
        pairs[-1] = (pairs[-1][0], (chosen := Choice(flag, ran[0].result, ran[1].result)), chosen)
    plans = [_joined(state, label, a, b) for label, a, b in pairs]
    for side, r in enumerate(ran):
        values = r.convert([(plan, pair[1 + side]) for plan, pair in zip(plans, pairs, strict=True)])
        r.block.give(outputs=values)
    captured = trace.close([(r.block, r.captures) for r in ran], "inputs")
    regions = {"then": ran[0].block, "orelse": ran[1].block}
    outs = trace.structured(COND, {"pred": [flag], "inputs": captured}, regions, {})["outputs"]
    feed = iter(outs)
    results = [plan.value(feed) for plan in plans]
    state.set(tuple(results[: len(state.names)]))
    for (_, place), result in zip(places.items(), results[len(state.names) :], strict=False):
        tracer.note(place)
        place.write(result)
    return results[-1] if value else None


def _joined(state: State, label: str, a: Any, b: Any) -> Plan:
    try:
        return join(a, b, label)
    except JoinError as error:
        if not error.shapes:
            raise
        line = f"line {state.line}: " if state.line else ""
        cure = "give both branches the same shape (gt.reshape, gt.pad, gt.broadcast_to)"
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

    def trace(self) -> tuple[_Ran, list[Plan]]:
        plans: list[Plan] = [Same(v) for v in self.starts]
        for _ in range(12):
            ran, inputs = self._attempt(plans)
            # the stand-ins of this attempt
            carried = frozenset(id(t) for value in inputs for t in tensors_in(value) if t._data.owner is ran.block)
            found = {
                k: p
                for k, (p, _) in ran.log.entries.items()
                if k not in self.places and not (k[0] == "tensor" and k[1] in carried)
            }
            labels = [*_labels(self.state), *(p.label for p in self.places.values())]
            own = zip(inputs, ran.objects, ran.ends, strict=False)
            named = [obj if obj is start else end for start, obj, end in own]
            ends = [*named, *(ran.places[k] if k in ran.places else p.read() for k, p in self.places.items())]
            grown = [self._joined(a, b, label, carried) for a, b, label in zip(inputs, ends, labels, strict=True)]
            if not found and grown == plans:
                self.ends = ends
                return ran, plans
            for key, place in found.items():
                self.places[key] = place
                self.starts.append(place.read())
                grown.append(self._joined(place.read(), ran.places[key], place.label, frozenset()))
            plans = grown
        raise JoinError(
            f"line {self.state.line}: this loop changes other objects each time it is looked at "
            f"({', '.join(dict.fromkeys(labels))}), so its state cannot be carried; keep one list, dict or tensor per name, "
            "and change it instead of making new ones"
        )

    def _joined(self, start: Any, end: Any, label: str, carried: frozenset[int]) -> Plan:
        try:
            return join(start, end, label, carried)
        except JoinError as error:
            if error.shapes:
                text = str(error).replace("on one path and", "before an iteration and").replace("on the other", "after it")
                raise JoinError(
                    f"line {self.state.line}: {text}; a value that changes its shape in a loop of unknown length cannot be "
                    "compiled. Collect the parts in a list or TensorArray, or allocate the final shape before the loop",
                    shapes=True,
                ) from None
            raise

    def _attempt(self, plans: list[Plan]) -> tuple[_Ran, list[Any]]:
        types = [t for plan in plans for t in plan.types()]
        flags = [] if self.test is None else [FLAG]
        block = Block([COUNT, *flags, *types], layout={"index": 1, "carried": len(flags) + len(types)})
        params = params_of(block)
        feed = iter(params[1 + len(flags) :])
        inputs = [plan.value(feed) for plan in plans]
        for value in inputs:
            if (items := staged_items(value)) is not None:
                items.grown = 0
        count = len(self.state.names)
        before = [(place, place.read()) for place in self.places.values()]
        starts = self.state.get()

        def run() -> Any:
            self.state.set(tuple(inputs[:count]))
            for place, value in zip(self.places.values(), inputs[count:], strict=True):
                place.write(value)
            self.body(params[0])
            return None if self.test is None else self.test(params[0])

        try:
            ran = _Ran(block, self.state, run)
        finally:
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
    mark = tracer.checkpoint()
    try:
        _step(items, extra_test, body, state, 0)
        _stage_for(items, extra_test, body, state, length - 1, 1)
    except JoinError:
        tracer.logs.pop()
        log.undo()
        state.set(starts)
        tracer.rollback(mark)
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
    ends = ran.convert(list(zip(plans, loop.ends, strict=True)))
    inits = [t for plan, start in zip(plans, loop.starts, strict=True) for t in plan.tensors(start)]
    if loop.test is None:
        ran.block.give(carried=ends, ys=[])
        captured = trace.close([(ran.block, ran.captures)], "consts")
        ran.block.layout["xs"] = 0
        static = isinstance(length, int)
        groups = {"length": [] if static else [_int32(length)], "carried": inits, "consts": captured, "xs": []}
        attrs = {"length": length if static else None, "reverse": False}
        outs = trace.structured(SCAN, groups, {"body": ran.block}, attrs)["carried"]
    else:
        ran.block.give(carried=[trace_operand(ran, ran.result), *ends], ys=[])
        test = Block([FLAG, *(p.type for p in ran.block.group("carried")[1:])])
        test.layout = {"carried": len(test.params)}
        test.give(flag=[test.params[0]])
        captured = trace.close([(ran.block, ran.captures), (test, {})], "consts")
        groups = {"carried": [flag, *inits], "consts": captured}
        outs = trace.structured(WHILE, groups, {"test": test, "body": ran.block}, {})["carried"][1:]
    feed = iter(outs)
    results = [plan.value(feed) for plan in plans]
    if isinstance(length, int) and length > 0:
        columns = zip(plans, results, loop.starts, loop.ends, strict=True)
        results = [_settled(p, r, s, e, length) for p, r, s, e in columns]
    count = len(loop.state.names)
    loop.state.set(tuple(results[:count]))
    for place, result in zip(loop.places.values(), results[count:], strict=True):
        tracer.note(place)
        place.write(result)


def trace_operand(ran: _Ran, tensor: Any) -> Value:
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
