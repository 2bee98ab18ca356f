"""Branches whose course depends on tensors become structure of the program.

A body is traced once in a region of its own. Everything it may have changed (the names AutoGraph lists, and every place
it wrote to: `trace/effects.py`) is its state; `joins.py` says how each piece of state is carried. Nothing outside the program
is left changed by a trace that is thrown away. Here are the branches; the loops are in `loops.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from types import CodeType
from typing import Any, NamedTuple

from gradtape.core.dispatch import convert
from gradtape.core.record import INTERNAL, user_frame
from gradtape.core.tensor import Readable
from gradtape.errors import InvalidArgumentError
from gradtape.functions.staging.aliasing.alias_joins import BranchJoin, Column
from gradtape.functions.staging.aliasing.conditions import FlagPhi
from gradtape.functions.staging.bodies import (
    BOTH_LIVE as BOTH_LIVE,
    NO_STATE as NO_STATE,
    Dead as Dead,
    State as State,
    TracedBody,
    matched,
    reached,
)
from gradtape.functions.staging.joins import DEAD, FLAG, JoinError, Phi, Widening, join, one_sided
from gradtape.functions.staging.places import Attribute, Cell, DictContent, Global, ListContent, Place
from gradtape.functions.staging.staged_values import Maybe, staged_items
from gradtape.ir.dims import Dim
from gradtape.ir.graph import Block
from gradtape.ops.compare import LOGICAL_NOT, not_equal
from gradtape.ops.shape import reshape
from gradtape.ops.structured import COND
from gradtape.trace.effects import active, converted
from gradtape.trace.tracing import TracedList, TracedTensor, current_trace

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
    # None is false; a name without a value must not be asked (`Undefined` raises)
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


class Joining(NamedTuple):
    """A name, place or value where the two sides of a branch meet: what it is at the end of each, and the objects it was."""

    label: str
    ends: tuple[Any, Any]
    column: Column


def _branches(
    test: Any, then: Callable[[], Any], orelse: Callable[[], Any], state: State, value: bool, counts: bool = True
) -> Any:
    trace, tracer = current_trace(), active()
    if len(trace.blocks) > MAX_RECURSIVE:
        _check_depth(len(trace.blocks), state)
    flag = truth(test)
    # each is traced from the same state, and undone (`TracedBody`): afterwards everything is as before the branch
    bodies = [TracedBody(Block(), state, run, (flag, side)) for run, side in ((then, True), (orelse, False))]
    places: dict[Any, Place] = {key: place for body in bodies for key, (place, _) in body.log.entries.items()}
    sights = (bodies[0].see, bodies[1].see)
    joinings: list[Joining] = []

    def join_ends(label: str, x: Any, y: Any, a: Any, b: Any, column: Column) -> None:
        first, second = matched(x, y, a, b, sights)
        joinings.append(Joining(label, (_narrowed(first, flag, True), _narrowed(second, flag, False)), column))

    starts = state.get()
    for i, label in enumerate(state.labels()):
        (x, a), (y, b) = (
            (DEAD, DEAD) if i in dead else (body.objects[i], body.ends[i])
            for body, dead in zip(bodies, state.dead, strict=True)
        )
        # one side does not care, the other left it alone: it is what it was, and needs no phi
        if (x is DEAD and y is starts[i]) or (y is DEAD and x is starts[i]):
            x = y = starts[i]
        join_ends(label, x, y, a, b, Column(x, y))
    for key, place in places.items():
        # what a side did not write it has as it was
        now = place.taken()
        x, y = (body.contents[key] if key in body.log.entries else now for body in bodies)
        a, b = (body.places[key] if key in body.log.entries else body.version(now) for body in bodies)
        join_ends(place.label, x, y, a, b, column_of(place, x, y))
    if value:
        x, y = bodies[0].result, bodies[1].result
        join_ends("the value of the expression", x, y, bodies[0].value, bodies[1].value, Column(x, y, counts))
        # functions have no phi: which one is called is decided at each call
        if callable(x) and callable(y) and x is not y:
            joinings[-1] = joinings[-1]._replace(ends=(ChosenFunction(flag, x, y),) * 2)
    # which object a name is after the branch may depend on the side: flags for that are further outputs of both
    alias_join = BranchJoin(tracer.aliases, flag, bodies, [joining.column for joining in joinings])
    how = Widening(sizes=widened(), line=state.line)
    phis = [_joined(state, joining.label, *joining.ends, how) for joining in joinings]
    for side, body in enumerate(bodies):
        ends = [(phi, joining.ends[side]) for phi, joining in zip(phis, joinings, strict=True)]
        # converted inside each block: a number becomes a constant of its side, not of the program around
        body.block.give(outputs=body.convert([*ends, *((FlagPhi(), flags[side]) for flags in alias_join.outputs)]))
    # regions are isolated: what either side uses from around becomes an input of both
    captured = trace.close([(body.block, body.captures) for body in bodies], "inputs")
    regions = {"then": bodies[0].block, "orelse": bodies[1].block}
    types = [*(t for phi in phis for t in phi.types()), *(FLAG for _ in alias_join.outputs)]
    result = types, {"outputs": len(types)}
    outs = trace.structured(COND, {"pred": [flag], "inputs": captured}, regions, {}, result)["outputs"]
    feed = iter(outs)
    results = alias_join.settle([phi.value(feed) for phi in phis], list(feed))
    state.set(tuple(results[: len(state.names)]))
    # strict=False: the value of the expression comes last
    for (_, place), result in zip(places.items(), results[len(state.names) :], strict=False):
        # to whatever is around, the branch as a whole has written these places
        tracer.note(place)
        place.write(result)
    return results[-1] if value else None


def _narrowed(end: Any, test: Any, side: bool) -> Any:
    """What a side ends with: behind `if best is None`, what may be None elsewhere is None, or there."""
    if end.__class__ is not Maybe or not isinstance(end.flag, TracedTensor):
        return end
    asked, producer = test._data, test._data.producer
    if producer is not None and producer.op is LOGICAL_NOT:
        asked, side = producer.operands[0], not side
    return end if end.flag._data is not asked else end.value if side else end.missing


def column_of(place: Place, x: Any, y: Any) -> Column:
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
            f"{line}branches that depend on tensors are nested more than {MAX_NESTED} deep in `{code.co_name}`. Each `else` of "
            "a conditional expression, and each `if` and call inside another, is nested in the one before: choose with `elif`, "
            "gt.switch_case or gt.where, or run a loop over a table of the cases"
        )
