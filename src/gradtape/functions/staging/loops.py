"""Loops of the program: a body traced until its state fits, and the operation that runs it.

Loops with a test become `while`: the test is evaluated before the loop and at the end of the body, so it may have effects
of its own. Loops over tensors and ranges without break become `scan`. A loop is traced again until what it starts with and what
it ends with have the same types (`joins.py` says how each piece of state is carried).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape import tree
from gradtape.core.dispatch import convert
from gradtape.core.hooks import HOOKS
from gradtape.core.opdef import Op
from gradtape.core.record import LOCAL, join_kinds
from gradtape.core.tensor import Tensor
from gradtape.functions.foreign_code import unwatched
from gradtape.functions.staging.aliasing.alias_joins import Column, LoopJoin
from gradtape.functions.staging.aliasing.conditions import FlagPhi
from gradtape.functions.staging.aliasing.escape import Held
from gradtape.functions.staging.aliasing.object_parts import as_now
from gradtape.functions.staging.bodies import State, TracedBody, matched
from gradtape.functions.staging.branches import column_of, is_staged, stage_if, truth, widened
from gradtape.functions.staging.iterables import PulledIterable, StagedIterable, staged_iterable
from gradtape.functions.staging.joins import (
    ABSENT,
    FLAG,
    ContainerPhi,
    JoinError,
    ListPhi,
    MaybePhi,
    NoPhi,
    Phi,
    TensorPhi,
    Widening,
    join,
    keep_kinds,
    python_kinds,
    tensors_in,
    weak_parts,
)
from gradtape.functions.staging.loop_memory import Guess, RememberedLoop
from gradtape.functions.staging.loop_numbers import COUNT_LIMIT, CarriedNumber, Turns, check, turns_of
from gradtape.functions.staging.places import Log, Place
from gradtape.functions.staging.staged_values import Maybe, StagedItems, Undefined, staged_items
from gradtape.ir.dims import fresh_symbol, substitute
from gradtape.ir.graph import Block, Value
from gradtape.ops.compare import less, logical_and
from gradtape.ops.elementwise import cast
from gradtape.ops.structured import COUNT, SCAN, WHILE, result_types
from gradtape.trace.effects import active
from gradtape.trace.tracing import TracedTensor, current_trace, params_of
from gradtape.trace.weak import WeakTensor

MAX_UNROLLED = 10_000
MAX_ATTEMPTS = 12  # of tracing a body until its phis fit
UNROLLED_FIRST = 64  # iterations, if sizes change from one to the next: then all of them are known


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
        self.guessed = False  # that it changes, before the first trace of the body

    def unchanged(self) -> bool:
        """Whether the body leaves it as it was."""
        # another object may hold the same values of the program: `[x]` made anew in each turn
        values = ([t._data for t in tensors_in(value)] for value in (self.input, self.end))
        return self.end is self.input or (self.end.__class__ is self.input.__class__ and next(values) == next(values))

    def column(self, first: Any, second: Any) -> Column:
        return Column(first, second) if self.place is None else column_of(self.place, first, second)


class StagedLoop:
    """A loop being staged: the phis of its state, found by tracing its body until they fit."""

    def __init__(self, state: State, body: Callable[[Any], Any], test: Callable[[Any], Any] | None, turns: Any = None) -> None:
        self.state = state
        self.turns = turns  # how many there are, or are at the most, if that is known
        self.body = body  # given the loop index
        self.test = test  # whether to go on after the iteration with this index; None: a scan
        self.carried: list[CarriedState] = []
        self._begin()

    def _begin(self, guesses: Sequence[Guess] = ()) -> None:
        """Nothing is known yet about the state, but what is guessed."""
        # names first, places behind them: the order in which `carried` is zipped with the state everywhere here
        names = zip(self.state.labels(), self.state.get(), strict=True)
        self.carried[:] = [CarriedState(label, None, start, NoPhi(start)) for label, start in names]
        self.places: dict[Any, Place] = {}
        self.aliases = LoopJoin(active().aliases)
        self.sizes = widened()  # symbols for sizes that change from one iteration to the next
        for place, _ in guesses[len(self.carried) :]:
            if place is not None:
                self.places[place.key] = place
                self.carried.append(CarriedState(place.label, place, place.taken(), NoPhi(None)))
        for c, guess in zip(self.carried, guesses, strict=False):
            c.guessed = guess.phi is not None
            c.phi = guess.phi or c.phi

    def trace(self) -> TracedBody:
        """A fixpoint: trace the body, compare what it ends with to what it started from, widen the phis, repeat."""
        tracer = active()
        around = tracer.loops
        memory = RememberedLoop() if around is None else around.loop(self.state.get.__code__)
        # an inner loop is traced again with each attempt of the one around it: what it came to last time is a good guess
        self._begin(memory.guesses(self.state.get()))
        holding = tracer.aliases.holding
        # references of ours, not of the user's program, to the objects in it
        holding.append(self.carried)
        tracer.loops = memory.inner
        try:
            body = self._fixpoint()
            memory.keep(
                [(c.start, c.phi) for c in self.carried if c.place is None],
                [(c.place, c.start, c.phi) for c in self.carried if c.place is not None],
            )
            return body
        finally:
            tracer.loops = around
            holding.pop()

    def _fixpoint(self) -> TracedBody:
        # Invariant of an attempt: `c.phi` can say what the state was before the loop, and that is what the body starts with. It
        # is the loop's if it can also say what the body ends with; phis only get wider, so this comes to an end.
        for _ in range(MAX_ATTEMPTS):
            active().loops.begin(self.places)
            body = self._attempt()
            wider = self._compared(body)
            if any(c.guessed and c.unchanged() for c in self.carried):  # wider than need be: a guess must not show
                self._begin()
                continue
            # both, always: what is learned about aliases is needed for the next attempt even if the phis have grown
            known = self._learn(body, wider)
            if not self._widen(body, wider) and known:
                self._check_rank_kinds()
                return body
        raise JoinError(
            f"line {self.state.line}: this loop changes other objects each time it is looked at "
            f"({', '.join(dict.fromkeys(c.label for c in self.carried))}), so its state cannot be carried; keep one list, dict "
            "or tensor per name, and change it instead of making new ones"
        )

    def _check_rank_kinds(self) -> None:
        """What was asked about state among ranks must hold in each turn: a tape in the body means one thing. (What is made of
        numbers takes the kind of what it meets; watched it is local.)"""
        watched = current_trace().watched_numbers
        for c, params in [(c, params) for c, params in zip(self.carried, self._asked, strict=False) if params]:
            local = _rank_kind(c.start) is LOCAL or any(param in watched for param in params)
            if local != (_rank_kind(c.end) is LOCAL):
                raise JoinError(
                    f"line {self.state.line}: {c.label}, of which a derivative in this loop is taken, is "
                    f"{'local' if local else 'replicated'} in the first turn and {'replicated' if local else 'local'} in later "
                    "ones, so the derivative means something else there. Make it one or the other before the loop: "
                    "gt.distribute.replicated(x) is replicated, x + np.zeros(x.shape) local"
                )

    def _compared(self, body: TracedBody) -> list[Phi]:
        """For each piece of state the phi of what the attempt started from and what it ended with."""
        # What is carried stays carried even if the body returns it as it is: its parameter is a value inside the body only.
        # parameters of this attempt's block
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
        # objects that stand for "one of several" were made for this attempt: writes to them are told by the aliases
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
        # inside, such a symbol is the size at the start of an iteration; the size after the last one is another
        env = {name: fresh_symbol("n") for name in sorted(self.sizes or ())}
        return [substitute(type, env) for type in types] if env else types, layout

    def _attempt(self) -> TracedBody:
        types = [t for c in self.carried for t in c.phi.types()] + self.aliases.types()
        flags = [] if self.test is None else [FLAG]
        block = Block([COUNT, *flags, *types], layout={"index": 1, "carried": len(flags) + len(types)})
        index, *params = params_of(block)
        if self.turns.__class__ is int:
            current_trace().turns[index._data] = self.turns
        feed = iter(params[len(flags) :])
        self._asked: list[set[Value]] = [set() for _ in self.carried]
        for c, asked in zip(self.carried, self._asked, strict=True):
            c.input = c.phi.value(feed)
            own = [t._data for t in tensors_in(c.input) if t._data.owner is block]
            for param in own if HOOKS.rank_kind is not None else ():
                current_trace().carried[param] = _asked_kind(c, param, asked)
            if isinstance(c.input, TracedTensor):
                current_trace().names[c.input._data] = c.label
            if (items := staged_items(c.input)) is not None:
                # appended to in this attempt: `_settled` knows by it how long the list is after a known number of turns
                items.grown = 0
        alias_flags = list(feed)
        # the body starts from stand-ins: what the places hold is put back below, whatever happens
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


def _asked_kind(carried: CarriedState, param: Value, asked: set[Value]) -> Callable[[], Any]:
    """What says the kind among ranks of a piece of state, as it is before the loop, and notes that it was asked."""

    def ask() -> Any:
        asked.add(param)
        return _rank_kind(carried.start)

    return ask


def _rank_kind(value: Any) -> Any:
    """Of what is computed from all tensors in a value: `LOCAL`, `REPLICATED`, or None (numbers)."""
    inside = {id(t): t for t in (*tensors_in(value), *tree.flatten(value)) if isinstance(t, Tensor)}
    return join_kinds(map(HOOKS.rank_kind, inside.values()))


def stage_while(test: Callable[[], Any], body: Callable[[], Any], state: State, first: Any = None) -> None:
    """A `while` whose test is staged; `first` is the test's value before the loop, if it was evaluated already."""
    flag = truth(test() if first is None else first)
    loop = StagedLoop(state, lambda index: body(), lambda index: truth(_flag(test())))
    _finish(loop, flag, None)


def _flag(value: Any) -> Any:
    return current_trace().constant(np.bool_(value)) if isinstance(value, (bool, np.bool_)) else value


def stage_for(iterated: Any, extra_test: Callable[[], Any] | None, body: Callable[[Any], Any], state: State) -> None:
    """A `for` over something staged; `extra_test` says whether to go on (False after a break)."""
    if isinstance(iterated, PulledIterable):
        source = iterated.puller()
        stage_while(lambda: source.more(extra_test is None or extra_test()), lambda: body(source.item()), state)
        return
    loop = ForLoop(staged_iterable(iterated), extra_test, body, state)
    if loop.length.__class__ is int and loop.length == 0:
        return
    # as long as a loop around can be unrolled, sizes that differ are an error here (`widened`), which unrolling cures
    active().can_unroll += loop.can_unroll
    try:
        if loop.attempted():
            return
    finally:
        active().can_unroll -= loop.can_unroll
    # where no loop around can be unrolled either, a long one is better one loop in which sizes change
    if loop.length > UNROLLED_FIRST and not active().can_unroll and loop.attempted():
        return
    for index in range(loop.length):
        loop.turn(index)


class ForLoop:
    """A `for` with a body for each of `items`; `python` says that it is Python's, whose numbers stay Python's."""

    def __init__(
        self, items: StagedIterable, extra_test: Callable[[], Any] | None, body: Callable[[Any], Any], state: State,
        python: bool = False,
    ) -> None:  # fmt: skip
        self.items = items
        self.extra_test = extra_test
        self.body = body
        self.state = state
        self.python = python
        self.length = items.length()
        self.can_unroll = isinstance(self.length, int) and self.length <= MAX_UNROLLED

    def attempted(self) -> bool:
        """Make one loop of it; False if it must be unrolled, and can be."""
        try:
            self.stage()
            return True
        except JoinError:
            # a length known only at run time, or too many turns: there is no other way
            if not self.can_unroll:
                raise
        if self.length == 1:
            return False
        try:  # the first iteration may differ (a Python number that becomes a tensor): take it out of the loop
            self._peel()
            return True
        except JoinError:
            return False

    def _peel(self) -> None:
        """One turn, then a loop of the others; everything as before if that does not work."""
        tracer = active()
        log, starts = Log(), self.state.get()
        tracer.logs.append(log)
        mark, links = tracer.checkpoint(), tracer.aliases.mark()
        try:
            self.turn(0)
            self.stage(offset=1)
        except JoinError:
            tracer.logs.pop()
            log.undo()
            self.state.set(starts)
            tracer.rollback(mark)
            tracer.aliases.reset(links)
            raise
        tracer.logs.pop()
        tracer.logs[-1].absorb(log)

    def turn(self, index: int) -> None:
        """One turn, by itself."""
        go_on = True if self.extra_test is None else self.extra_test()
        if is_staged(go_on):
            stage_if(go_on, lambda: self.body(self.items.item(index)), lambda: None, self.state)
        elif go_on:
            self.body(self.items.item(index))

    def stage(self, offset: int = 0) -> None:
        """One loop of the program, of the turns from `offset` on. Raises whatever a body raises that needs to know the turn."""
        length, extra_test = self.length - offset if offset else self.length, self.extra_test

        def body(index: Any) -> None:
            self.body(self.items.item(index + offset if offset else index))

        if extra_test is None:
            _finish(StagedLoop(self.state, body, None, length), None, length, self.python)
            return
        count = convert(length)
        going = extra_test()
        # the test of a WHILE is a carried flag, computed at the end of each turn for the next one; this is the first
        flag = less(0, count) if not is_staged(going) else logical_and(less(0, count), truth(going))
        flag = flag if isinstance(flag, TracedTensor) else current_trace().constant(flag._data)

        def go_on(index: Any) -> Any:
            return logical_and(less(index + 1, count), truth(_flag(extra_test())))

        # else Python has said already that it does not go on: a break in the turn before
        if is_staged(going) or going:
            _finish(StagedLoop(self.state, body, go_on, length), flag, None, self.python)

    def stage_after_one(self) -> None:
        """The same, but for the first turn: what a name is before the loop may differ from what each turn makes of it."""
        self.turn(0)
        # a `break` in the first turn
        if self.extra_test is None or is_staged(self.extra_test()) or self.extra_test():
            self.stage(offset=1)


def stage_python_while(test: Callable[[], Any], body: Callable[[], Any], state: State, counted: bool) -> None:
    """A `while` whose test holds now, and is decided by Python; `counted`: by Python numbers, so that its turns are known."""
    loop = StagedLoop(state, lambda index: body(), lambda index: truth(_flag(test())))
    _finish(loop, current_trace().constant(np.bool_(True)), None, python=True, counted=counted)


def _finish(loop: StagedLoop, flag: Any, length: Any, python: bool = False, counted: bool = False) -> None:
    """Emit the operation and give the state its values after the loop."""
    body, carried = loop.trace(), loop.carried
    block = body.block
    flags = [(FlagPhi(), end) for end in loop.aliases.ends()]
    # inside the body's block; the initial values below are converted in the block around
    ends = body.convert([*((c.phi, c.end) for c in carried), *flags])
    inits = [t for c in carried for t in c.phi.tensors(c.start)]
    inits += [t for start in loop.aliases.starts([c.column(c.start, None) for c in carried]) for t in FlagPhi().tensors(start)]
    finals: dict[Value, Any] = {}
    params = block.group("carried") if loop.test is None else block.group("carried")[1:]
    if python:
        test = None if loop.test is None else trace_operand(body, body.result)
        # Python's own numbers are computed now, in Python, so that they are Python numbers after the loop
        turns = _turns(loop, block, ends, length, test)
        if turns.number is None and counted:
            raise JoinError(f"line {loop.state.line}: how many turns this loop has cannot be said before the program runs")
        finals, length = turns.finals, turns.number
    # a `while` of Python's whose turns were counted has a length, and needs no test
    known = loop.test is None or (python and length is not None)
    outs = _scan(loop, body, params, inits, ends, length) if known else _while(loop, body, flag, inits, ends)
    feed = iter([finals.get(param, out) for param, out in zip(params, outs, strict=True)])
    results = [c.phi.value(feed) for c in carried]
    if isinstance(length, int) and length > 0:
        # The loop surely ran: what each iteration sets is there, and lists have grown by a known number of items.
        results = [_settled(c.phi, result, c.start, c.end, length, python) for c, result in zip(carried, results, strict=True)]
    loop.aliases.enter([c.column(result, c.start) for c, result in zip(carried, results, strict=True)], list(feed))
    loop.state.set(tuple(result for c, result in zip(carried, results, strict=True) if c.place is None))
    for c, result in zip(carried, results, strict=True):
        if c.place is not None:
            active().note(c.place)
            c.place.write(result)


def _scan(
    loop: StagedLoop, body: TracedBody, params: Sequence[Value], inits: Sequence[Any], ends: Sequence[Value], length: Any
) -> list[Any]:
    """The operation of a loop that runs a number of times known at its start; what its state is after it."""
    block = body.block
    if len(block.group("carried")) > len(params):  # a flag that decided about each turn: it is not needed
        # parameter 0 is the index, 1 the flag
        del block.params[1]
        for place, param in enumerate(block.params):
            param.index = place
        block.layout["carried"] -= 1
    block.give(carried=ends, ys=[])
    captured = current_trace().close([(block, body.captures)], "consts")
    block.layout["xs"] = 0
    static = isinstance(length, int)
    groups = {"length": [] if static else [_int32(length)], "carried": inits, "consts": captured, "xs": []}
    attrs = {"length": length if static else None, "reverse": False}
    regions = {"body": block}
    return current_trace().structured(SCAN, groups, regions, attrs, loop.results(SCAN, regions))["carried"]


def _while(loop: StagedLoop, body: TracedBody, flag: Any, inits: Sequence[Any], ends: Sequence[Value]) -> list[Any]:
    """The operation of a loop that goes on while a flag holds; the flag is the first of its carried values."""
    trace, block = current_trace(), body.block
    block.give(carried=[trace_operand(body, body.result), *ends], ys=[])
    going = Block([FLAG, *(p.type for p in block.group("carried")[1:])])
    going.layout = {"carried": len(going.params)}
    # the test is a value of the state already: what a test does (a call, a write) is done once, in the body
    going.give(flag=[going.params[0]])
    captured = trace.close([(block, body.captures), (going, {})], "consts")
    groups = {"carried": [flag, *inits], "consts": captured}
    regions = {"test": going, "body": block}
    return trace.structured(WHILE, groups, regions, {}, loop.results(WHILE, regions))["carried"][1:]


def _turns(loop: StagedLoop, block: Block, ends: Sequence[Value], length: Any, test: Value | None) -> Turns:
    """What Python knows of its own loop; raises if the program would compute its numbers in another way."""
    params = block.group("carried") if test is None else block.group("carried")[1:]
    leaves, place = [], 0
    for c in loop.carried:
        leaves += [CarriedNumber(params[place + k], ends[place + k], start) for k, start in weak_parts(c.phi, c.start)]
        place += len(c.phi.types())
    (index,) = block.group("index")
    turns = unwatched(turns_of, block, index, leaves, length, test)
    last = COUNT_LIMIT if turns.number is None else turns.number
    check(block, {index: (0, last - 1), **turns.bounds})
    return turns


def trace_operand(body: TracedBody, tensor: Any) -> Value:
    """The value of a tensor inside a traced body."""
    trace = current_trace()
    with trace.region(body.block):
        value = trace.operand(tensor)
    body.note_captures()
    return value


def _settled(phi: Phi, result: Any, start: Any, end: Any, count: int, python: bool) -> Any:
    """A loop that runs a known number of times leaves no doubt about what each iteration sets, nor how lists have grown."""
    if isinstance(phi, ListPhi) and isinstance(result[0], StagedItems):
        before = start[0].length if staged_items(start) is not None else len(start)
        grown = end[0].grown if staged_items(end) is not None else None
        if before is not None and grown is not None and python and before + count * grown <= MAX_UNROLLED:
            return active().trials.filled(result[0].items, before + count * grown)
        if before is not None and grown is not None:
            return [StagedItems(result[0].items, before + count * grown)]
        return result
    if isinstance(phi, ContainerPhi) and phi.keys is not None:
        for k, inner in zip(phi.keys, phi.phis, strict=True):
            result[k] = _settled(inner, result[k], start.get(k, ABSENT), end.get(k, ABSENT), count, python)
        return result
    if isinstance(phi, MaybePhi) and isinstance(result, Maybe) and not isinstance(end, (Maybe, Undefined)) and end is not None:
        return result.value
    if isinstance(phi, TensorPhi) and isinstance(result, TracedTensor) and len(python_kinds(end)) == 1:
        keep_kinds(result, python_kinds(end))  # a number before the loop, a tensor after each turn
    return result


def _int32(length: Any) -> Any:
    tensor = convert(length)
    if isinstance(tensor, WeakTensor):
        tensor = tensor.strong()
    return tensor if tensor.dtype == COUNT.dtype else cast(tensor, COUNT.dtype)
