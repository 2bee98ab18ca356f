"""Loops and branches whose course depends on tensors become structure of the program.

A body is traced once in a region of its own. Everything it may have changed (the names AutoGraph lists, and every place
it wrote to: `trace/effects.py`) is its state; `joins.py` says how each piece of state is carried. A loop is traced
again until what it starts with and what it ends with have the same types. Nothing outside the program is left changed by
a trace that is thrown away.

Loops with a test become `while`: the test is evaluated before the loop and at the end of the body, so it may have effects
of its own. Loops over tensors and ranges without break become `scan`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

import numpy as np

from gradtape.core.dispatch import convert
from gradtape.core.opdef import Op
from gradtape.core.record import INTERNAL, user_frame
from gradtape.core.tensor import Readable
from gradtape.errors import InvalidArgumentError
from gradtape.functions.staging.alias_joins import BranchJoin, Column, FlagPhi, LoopJoin
from gradtape.functions.staging.bodies import (
    BOTH_LIVE as BOTH_LIVE,
    NO_STATE as NO_STATE,
    Dead as Dead,
    State as State,
    TracedBody,
    as_now,
    matched,
    reached,
)
from gradtape.functions.staging.escape import Held
from gradtape.functions.staging.iterables import StagedIterable, staged_iterable
from gradtape.functions.staging.joins import (
    ABSENT,
    DEAD,
    FLAG,
    ContainerPhi,
    JoinError,
    ListPhi,
    MaybePhi,
    NoPhi,
    Phi,
    Widening,
    join,
    one_sided,
    tensors_in,
)
from gradtape.functions.staging.places import Attribute, Cell, DictContent, Global, ListContent, Log, Place
from gradtape.functions.staging.staged_values import Maybe, StagedItems, Undefined, staged_items
from gradtape.ir.dims import Dim, fresh_symbol, substitute
from gradtape.ir.graph import Block, Value
from gradtape.ops.compare import less, logical_and, not_equal
from gradtape.ops.shape import reshape
from gradtape.ops.structured import COND, COUNT, SCAN, WHILE, result_types
from gradtape.trace.effects import active, converted
from gradtape.trace.tracing import TracedList, TracedTensor, current_trace, params_of
from gradtape.trace.weak import WeakTensor

MAX_UNROLLED = 10_000
MAX_ATTEMPTS = 12  # of tracing a body until its phis fit
UNROLLED_FIRST = 64  # iterations, if sizes change from one to the next: then all of them are known
MAX_RECURSIVE = 40  # branches in branches, if a function calls itself in them: there is no end to be seen
RECURSIVE_CALLS = 4  # of one function, active at once, from which on it is the calls that nest
MAX_NESTED = 80  # branches in branches as they are written; Python's own recursion limit is not far beyond


def is_staged(value: Any) -> bool:
    """Whether a value is known only when the program runs."""
    return isinstance(value, (TracedTensor, Maybe)) or value.__class__ is Dim or staged_items(value) is not None


def valued(value: Any) -> Any:
    """A value that Python asks for (a test, a count, an index): of a variable, what it holds now."""
    return value.read() if isinstance(value, Readable) and not isinstance(value, Maybe) else value


def truth(value: Any) -> Any:
    """A staged value as a scalar flag of the program."""
    if isinstance(value, Maybe) and value.missing is None:
        return stage_if_exp(value.flag, lambda: truth(value.value), lambda: False)
    if isinstance(value, (Readable, Dim)):
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
    if len(trace.blocks) > MAX_RECURSIVE:
        _check_depth(len(trace.blocks), state)
    flag = truth(test)
    bodies = [TracedBody(Block(), state, run, (flag, side)) for run, side in ((then, True), (orelse, False))]
    places: dict[Any, Place] = {key: place for body in bodies for key, (place, _) in body.log.entries.items()}
    sights = (bodies[0].see, bodies[1].see)
    pairs: list[tuple[str, Any, Any]] = []  # label, and what is joined
    columns: list[Column] = []
    starts = state.get()
    for i, label in enumerate(state.labels()):
        (x, a), (y, b) = (
            (DEAD, DEAD) if i in dead else (body.objects[i], body.ends[i])
            for body, dead in zip(bodies, state.dead, strict=True)
        )
        if (x is DEAD and y is starts[i]) or (y is DEAD and x is starts[i]):
            x = y = starts[i]
        pairs.append((label, *matched(x, y, a, b, sights)))
        columns.append(Column(x, y))
    for key, place in places.items():
        now = place.taken()
        x, y = (body.contents[key] if key in body.log.entries else now for body in bodies)
        a, b = (body.places[key] if key in body.log.entries else body.version(now) for body in bodies)
        pairs.append((place.label, *matched(x, y, a, b, sights)))
        columns.append(_column(place, x, y))
    if value:
        x, y = bodies[0].result, bodies[1].result
        pairs.append(("the value of the expression", *matched(x, y, bodies[0].value, bodies[1].value, sights)))
        columns.append(Column(x, y, counts))
        if callable(x) and callable(y) and x is not y:
            pairs[-1] = (pairs[-1][0], (chosen := ChosenFunction(flag, x, y)), chosen)
    alias_join = BranchJoin(tracer.aliases, flag, bodies, columns)
    how = Widening(sizes=widened(), line=state.line)
    phis = [_joined(state, label, a, b, how) for label, a, b in pairs]
    for side, body in enumerate(bodies):
        ends = [(phi, pair[1 + side]) for phi, pair in zip(phis, pairs, strict=True)]
        body.block.give(outputs=body.convert([*ends, *((FlagPhi(), flags[side]) for flags in alias_join.outputs)]))
    captured = trace.close([(body.block, body.captures) for body in bodies], "inputs")
    regions = {"then": bodies[0].block, "orelse": bodies[1].block}
    types = [*(t for phi in phis for t in phi.types()), *(FLAG for _ in alias_join.outputs)]
    result = types, {"outputs": len(types)}
    outs = trace.structured(COND, {"pred": [flag], "inputs": captured}, regions, {}, result)["outputs"]
    feed = iter(outs)
    results = alias_join.settle([phi.value(feed) for phi in phis], list(feed))
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


class ChosenFunction:
    """One of two functions, chosen when the program runs: calling it is a branch."""

    __slots__ = ("first", "flag", "second")

    def __init__(self, flag: TracedTensor, first: Callable[..., Any], second: Callable[..., Any]) -> None:
        self.flag = flag
        self.first = first
        self.second = second

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        first, second = converted(self.first), converted(self.second)
        return stage_if_exp(self.flag, lambda: first(*args, **kwargs), lambda: second(*args, **kwargs))


def widened() -> set[str] | None:
    """No sizes yet that stand for several; None where a loop around could rather be unrolled, which keeps sizes known."""
    return None if active().can_unroll else set()


def _joined(state: State, label: str, a: Any, b: Any, how: Widening) -> Phi:
    if a is DEAD or b is DEAD:
        return one_sided(b if a is DEAD else a, label, reached, how)
    try:
        return join(a, b, label, how)
    except JoinError as error:
        line = f"line {state.line}: " if state.line else ""
        if not error.shapes:
            raise JoinError(f"{line}{error}") from None
        cure = "give both branches the same rank (gt.reshape, gt.expand_dims, gt.broadcast_to)"
        raise JoinError(f"{line}{error}; {cure}", shapes=True) from None


def _check_depth(depth: int, state: State) -> None:
    """Refuse branches inside branches without end, where some function calls itself, and too many that are written so."""
    active_codes: Counter[CodeType] = Counter()
    since_branch: list[CodeType] = []  # what called the outermost branch has nothing to do with it
    frame: Any = user_frame(1)
    while frame is not None:
        if frame.f_code is _branches.__code__:
            active_codes.update(since_branch)
            since_branch.clear()
        elif frame.f_code.co_filename not in INTERNAL:
            since_branch.append(frame.f_code)  # of one call, each branch is code of its own
        frame = frame.f_back
    ((code, calls),) = active_codes.most_common(1)
    if calls > RECURSIVE_CALLS:
        raise RecursionError(
            f"`{code.co_name}` calls itself inside branches that depend on tensors, {MAX_RECURSIVE} deep and not yet at an end:"
            " the depth of the recursion depends on values known only when the function runs. Write it as a `while` loop"
        )
    if depth > MAX_NESTED:
        line = f"line {state.line}: " if state.line else ""
        raise RecursionError(
            f"{line}branches that depend on tensors are nested more than {MAX_NESTED} deep in `{code.co_name}`. Each `elif` "
            "and `and`, and what follows an `if` that returns, breaks or continues, is nested in the one before: choose with "
            "gt.switch_case or gt.where, or run a loop over a table of the cases"
        )


# -- loops -----------------------------------------------------------------------------------------------------------


class CarriedState(Held):
    """One piece of a loop's state: a name, or a place that the body writes."""

    def __init__(self, label: str, place: Place | None, start: Any, phi: Phi) -> None:
        self.label = label
        self.place = place
        self.start = start  # before the loop
        self.phi = phi
        self.input: Any = None  # what it is at the start of the body
        self.reached: Any = None  # the object that it is at the end of the body
        self.end: Any = None  # what that object held then

    def column(self, first: Any, second: Any) -> Column:
        return Column(first, second) if self.place is None else _column(self.place, first, second)


class StagedLoop:
    """A loop being staged: the phis of its state, found by tracing its body until they fit."""

    def __init__(self, state: State, body: Callable[[Any], Any], test: Callable[[Any], Any] | None) -> None:
        self.state = state
        self.body = body  # given the loop index
        self.test = test  # whether to go on after the iteration with this index; None: a scan
        self.carried = [CarriedState(label, None, v, NoPhi(v)) for label, v in zip(state.labels(), state.get(), strict=True)]
        self.places: dict[Any, Place] = {}
        self.aliases = LoopJoin(active().aliases)
        self.sizes = widened()  # symbols for sizes that change from one iteration to the next

    def trace(self) -> TracedBody:
        """A fixpoint: trace the body, compare what it ends with to what it started from, widen the phis, repeat."""
        holding = active().aliases.holding
        holding.append(self.carried)
        try:
            for _ in range(MAX_ATTEMPTS):
                body = self._attempt()
                wider = self._compared(body)
                known = self._learn(body, wider)
                if not self._widen(body, wider) and known:
                    return body
        finally:
            holding.pop()
        raise JoinError(
            f"line {self.state.line}: this loop changes other objects each time it is looked at "
            f"({', '.join(dict.fromkeys(c.label for c in self.carried))}), so its state cannot be carried; keep one list, dict "
            "or tensor per name, and change it instead of making new ones"
        )

    def _compared(self, body: TracedBody) -> list[Phi]:
        """For each piece of state the phi of what the attempt started from and what it ended with."""
        stand_ins = frozenset(id(t) for c in self.carried for t in tensors_in(c.input) if t._data.owner is body.block)
        fresh = frozenset(id(part) for part in self.aliases.phis.values())
        for c, reached_by_name, end in zip(self.carried, body.objects, body.ends, strict=False):
            c.reached, c.end = reached_by_name, end
        for c in self.carried[len(self.state.names) :]:
            if (place := c.place) is not None and place.key in body.log.entries:
                c.reached, c.end = body.contents[place.key], body.places[place.key]
            elif place is not None:
                c.reached = place.read()
                c.end = body.version(c.reached)
        for c in self.carried:
            c.end = matched(c.input, c.reached, c.input, c.end, (as_now, body.see), fresh)[1]
        return [self._joined(c.input, c.end, c.label, stand_ins) for c in self.carried]

    def _learn(self, body: TracedBody, wider: Sequence[Phi]) -> bool:
        """Whether nothing new is known about which objects the state is."""
        columns = [c.column(c.start, c.reached) for c in self.carried]
        return not self.aliases.learn(body, columns, [isinstance(phi, NoPhi) for phi in wider])

    def _widen(self, body: TracedBody, wider: Sequence[Phi]) -> bool:
        """Take the wider phis, and places that were written for the first time; whether there are any."""
        fresh = {id(part) for part in self.aliases.phis.values()}
        grown = [phi for phi, c in zip(wider, self.carried, strict=True) if phi != c.phi]
        for phi, c in zip(wider, self.carried, strict=True) if grown else ():
            c.phi = phi
        written = [p for key, (p, _) in body.log.entries.items() if key not in self.places and key[1] not in fresh]
        for place in written:
            self.places[place.key] = place
            start, key = place.taken(), place.key
            end = matched(start, body.contents[key], start, body.places[key], (as_now, body.see))[1]
            self.carried.append(CarriedState(place.label, place, start, self._joined(start, end, place.label, frozenset())))
        return bool(grown or written)

    def _joined(self, start: Any, end: Any, label: str, carried: frozenset[int]) -> Phi:
        try:
            return join(start, end, label, Widening(carried, self.sizes, self.state.line))
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

    def _attempt(self) -> TracedBody:
        types = [t for c in self.carried for t in c.phi.types()] + self.aliases.types()
        flags = [] if self.test is None else [FLAG]
        block = Block([COUNT, *flags, *types], layout={"index": 1, "carried": len(flags) + len(types)})
        index, *params = params_of(block)
        feed = iter(params[len(flags) :])
        for c in self.carried:
            c.input = c.phi.value(feed)
            if isinstance(c.input, TracedTensor):
                current_trace().names[c.input._data] = c.label
            if (items := staged_items(c.input)) is not None:
                items.grown = 0
        alias_flags = list(feed)
        before = [(place, place.read()) for place in self.places.values()]
        starts = self.state.get()
        holding = active().aliases.holding
        holding.append([old for _, old in before])

        def run() -> Any:
            self.state.set(tuple(c.input for c in self.carried if c.place is None))
            for c in self.carried:
                if c.place is not None:
                    c.place.write(c.input)
            self.aliases.enter([c.column(c.input, c.start) for c in self.carried], alias_flags)
            self.body(index)
            return None if self.test is None else self.test(index)

        try:
            return TracedBody(block, self.state, run, known=self.places)
        finally:
            holding.pop()
            for place, old in before:
                place.write(old)
            self.state.set(starts)


def stage_while(test: Callable[[], Any], body: Callable[[], Any], state: State, first: Any = None) -> None:
    """A `while` whose test is staged; `first` is the test's value before the loop, if it was evaluated already."""
    flag = truth(test() if first is None else first)
    loop = StagedLoop(state, lambda index: body(), lambda index: truth(_flag(test())))
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
    mark, links = tracer.checkpoint(), tracer.aliases.mark()
    try:
        _step(items, extra_test, body, state, 0)
        _stage_for(items, extra_test, body, state, length - 1, 1)
    except JoinError:
        tracer.logs.pop()
        log.undo()
        state.set(starts)
        tracer.rollback(mark)
        tracer.aliases.reset(links)
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
        _finish(StagedLoop(state, lambda index: body(at(index)), None), None, length)
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
    loop = StagedLoop(state, lambda index: body(at(index)), go_on)
    _finish(loop, flag, None)


def _finish(loop: StagedLoop, flag: Any, length: Any) -> None:
    """Emit the operation and give the state its values after the loop."""
    trace, tracer = current_trace(), active()
    body, carried = loop.trace(), loop.carried
    block = body.block
    flags = [(FlagPhi(), end) for end in loop.aliases.ends()]
    ends = body.convert([*((c.phi, c.end) for c in carried), *flags])
    inits = [t for c in carried for t in c.phi.tensors(c.start)]
    inits += [t for start in loop.aliases.starts([c.column(c.start, None) for c in carried]) for t in FlagPhi().tensors(start)]
    if loop.test is None:
        block.give(carried=ends, ys=[])
        captured = trace.close([(block, body.captures)], "consts")
        block.layout["xs"] = 0
        static = isinstance(length, int)
        groups = {"length": [] if static else [_int32(length)], "carried": inits, "consts": captured, "xs": []}
        attrs = {"length": length if static else None, "reverse": False}
        regions = {"body": block}
        outs = trace.structured(SCAN, groups, regions, attrs, loop.results(SCAN, regions))["carried"]
    else:
        block.give(carried=[trace_operand(body, body.result), *ends], ys=[])
        test = Block([FLAG, *(p.type for p in block.group("carried")[1:])])
        test.layout = {"carried": len(test.params)}
        test.give(flag=[test.params[0]])
        captured = trace.close([(block, body.captures), (test, {})], "consts")
        groups = {"carried": [flag, *inits], "consts": captured}
        regions = {"test": test, "body": block}
        outs = trace.structured(WHILE, groups, regions, {}, loop.results(WHILE, regions))["carried"][1:]
    feed = iter(outs)
    results = [c.phi.value(feed) for c in carried]
    if isinstance(length, int) and length > 0:
        results = [_settled(c.phi, result, c.start, c.end, length) for c, result in zip(carried, results, strict=True)]
    loop.aliases.enter([c.column(result, c.start) for c, result in zip(carried, results, strict=True)], list(feed))
    loop.state.set(tuple(result for c, result in zip(carried, results, strict=True) if c.place is None))
    for c, result in zip(carried, results, strict=True):
        if c.place is not None:
            tracer.note(c.place)
            c.place.write(result)


def trace_operand(body: TracedBody, tensor: Any) -> Value:
    """The value of a tensor inside a traced body."""
    trace = current_trace()
    with trace.region(body.block):
        value = trace.operand(tensor)
    body.note_captures()
    return value


def _settled(phi: Phi, result: Any, start: Any, end: Any, count: int) -> Any:
    """A loop that runs a known number of times leaves no doubt about what each iteration sets, nor how lists have grown."""
    if isinstance(phi, ListPhi) and isinstance(result[0], StagedItems):
        before = start[0].length if staged_items(start) is not None else len(start)
        grown = end[0].grown if staged_items(end) is not None else None
        if before is not None and grown is not None:
            return [StagedItems(result[0].items, before + count * grown)]
        return result
    if isinstance(phi, ContainerPhi) and phi.keys is not None:
        for k, inner in zip(phi.keys, phi.phis, strict=True):
            result[k] = _settled(inner, result[k], start.get(k, ABSENT), end.get(k, ABSENT), count)
        return result
    if isinstance(phi, MaybePhi) and isinstance(result, Maybe) and not isinstance(end, (Maybe, Undefined)) and end is not None:
        return result.value
    return result


def _int32(length: Any) -> Any:
    from gradtape.ops.elementwise import cast

    tensor = convert(length)
    if isinstance(tensor, WeakTensor):
        tensor = tensor.strong()
    return tensor if tensor.dtype == COUNT.dtype else cast(tensor, COUNT.dtype)
