"""The run time of control flow: `if`, `while`, `for`, short circuits, comparisons, `assert`.

On plain values each does what Python does, in the same order. On staged values `functions/staging/branches.py` takes over.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from itertools import count
from typing import Any

from gradtape.core.tensor import Tensor
from gradtape.errors import InvalidArgumentError
from gradtape.functions.at_run_time import at_run_time
from gradtape.functions.autograph.raising import ending, raising
from gradtape.functions.autograph.reading import in_, iterate, not_in, own_method, there
from gradtape.functions.foreign_calls import own_iterator
from gradtape.functions.staging.branches import (
    BOTH_LIVE,
    NO_STATE,
    Dead,
    State,
    is_staged,
    stage_and,
    stage_if,
    stage_if_exp,
    stage_or,
    truth,
    valued,
)
from gradtape.functions.staging.iterables import is_staged_iterable
from gradtape.functions.staging.loops import stage_for, stage_while
from gradtape.functions.staging.progress import Bar
from gradtape.functions.staging.python_iterables import used_up
from gradtape.functions.staging.python_kinds import is_member, is_sequence, is_singleton, ordered
from gradtape.functions.staging.staged_builtins import assert_, holds_staged
from gradtape.functions.staging.staged_values import Maybe
from gradtape.trace.effects import active
from gradtape.trace.weak import WeakTensor

Thunk = Callable[[], Any]
MAX_GUARDED = 10_000


def nothing() -> None:
    """A branch that is not there."""


def get_nothing() -> tuple[Any, ...]:
    """The state of a construct that changes no names."""
    return ()


def set_nothing(values: Any) -> None:
    """There is no state to set."""


def if_stmt(
    test: Any, body: Thunk, orelse: Thunk, get_state: Thunk, set_state: Callable[[Any], None], names: Sequence[str], line: int,
    dead: Dead = BOTH_LIVE,
) -> None:  # fmt: skip
    """`if test: body() else: orelse()`; `dead` are the places of the names that nobody reads after each side."""
    if test is not True and test is not False and active() is not None and is_staged(test := tested(test)):
        # (plain bools are asked first: most tests of Python code are those, and cost two comparisons)
        stage_if(test, ending(body), ending(orelse), State(get_state, set_state, names, line, dead))
        return
    if test:
        body()
    else:
        orelse()


def while_stmt(
    test: Thunk, body: Thunk, get_state: Thunk, set_state: Callable[[Any], None], names: Sequence[str], line: int
) -> None:
    """`while test(): body()`; from the first staged test on, the rest of the loop is staged.

    A test that Python decides (on numbers, or on a tensor with a known value: `i = gt.constant(0)`, `while i < n`) makes a
    Python loop, but only so long: then the rest is staged, if it can be, so that the time to trace does not grow with the
    number of iterations.
    """
    tracer = active()
    if tracer is None:
        while test():
            body()
        return
    state = State(get_state, set_state, names, line)
    # measured: a loop that would fill the memory with operations is refused before it does
    for turn in tracer.trials.measured(count(), state, None):
        go_on = test()
        if is_staged(go_on := tested(go_on)):
            stage_while(test, ending(body), state, first=go_on)
            return
        if not go_on:
            return
        # Python's numbers decide, which can be run ahead; of a tensor's value the number of turns is not known before
        counted = not isinstance(go_on, Tensor)
        if turn == tracer.trials.few and tracer.trials.while_loop(test, body, state, counted):
            return
        body()


def for_stmt(
    iterated: Any, extra_test: Thunk | None, body: Callable[[Any], None],
    get_state: Thunk, set_state: Callable[[Any], None], names: Sequence[str], line: int,
) -> None:  # fmt: skip
    """`for item in iterated: body(item)`, while `extra_test()` holds after each item."""
    tracer = active()
    if iterated.__class__ is Bar:
        for_stmt(iterated.iterable, extra_test, iterated.moved_by(body), get_state, set_state, names, line)
        at_run_time(iterated.close)()
        return
    if tracer is None:
        items: Iterable[Any] = iterated
    elif is_staged_iterable(iterated := there(iterated)):
        stage_for(iterated, extra_test, ending(body), State(get_state, set_state, names, line))
        return
    elif tracer.trials.for_loop(iterated, extra_test, body, state := State(get_state, set_state, names, line)):
        return
    else:
        items = tracer.trials.measured(iterate(tracer, iterated), state, iterated)
    if extra_test is None:
        for item in items:
            body(item)
        return
    # kept by hand: after a break that a tensor decides the rest of the items is still wanted, under a test
    iterator = iter(items)
    for item in iterator:
        body(item)
        go_on = extra_test()
        if tracer is not None and is_staged(go_on := valued(go_on)):
            _guarded(iterated, iterator, extra_test, body, (get_state, set_state, names, line))
            return
        if not go_on:
            return


def _guarded(iterated: Any, iterator: Any, extra_test: Thunk, body: Callable[[Any], None], state: tuple[Any, ...]) -> None:
    """The rest of a Python loop that a tensor may end: each iteration runs only if the loop is still going on."""
    for turn, item in enumerate(iterator):
        # an endless generator with a `break` on a tensor would be traced for ever
        if turn >= MAX_GUARDED and operator.length_hint(iterated, -1) < 0:
            raise InvalidArgumentError(
                f"line {state[-1]}: this loop over a {type(iterated).__name__} ends when a tensor says so, and after "
                f"{MAX_GUARDED} iterations the iterator still gives items; a traced loop needs an end: loop over a sequence, "
                "a range or a tensor, or write it as `while`"
            )

        def run(item: Any = item) -> None:
            body(item)

        if_stmt(extra_test(), run, nothing, *state)
    # how many items Python's loop would have left behind, nobody knows: whoever goes on with the iterator is told so
    used_up(iterated, True, state[-1])


def gone_over(iterated: Any) -> Any:
    """What a loop goes over whose control flow is Python's own."""
    tracer = active()
    return iterated if tracer is None else iterate(tracer, there(iterated))


class BindingOperand:
    """An operand that is evaluated only sometimes and binds names (`:=`) then: they are state of the branch it is in."""

    __slots__ = ("run", "state")

    def __init__(self, run: Thunk, state: State) -> None:
        self.run = run
        self.state = state

    def __call__(self) -> Any:
        return self.run()


def binding(run: Thunk, get_state: Thunk, set_state: Callable[[Any], None], names: Sequence[str]) -> BindingOperand:
    """`run`, which binds these names."""
    return BindingOperand(run, State(get_state, set_state, names, 0))


def _state_of(*operands: Thunk) -> State:
    """The names that some of these bind."""
    states = [operand.state for operand in operands if operand.__class__ is BindingOperand]
    if len(states) < 2:
        return states[0] if states else NO_STATE

    def set_all(values: Any) -> None:
        values = list(values)
        for state in states:
            state.set(tuple(values[: len(state.names)]))
            # (each state takes its own from the front)
            del values[: len(state.names)]

    unique = {name: state for state in states for name in state.names}
    if len(unique) < sum(len(state.names) for state in states):  # two may bind the same name: it is read and set once
        states = [one_name(state, name) for name, state in unique.items()]
    names = [name for state in states for name in state.names]
    return State(lambda: tuple(v for state in states for v in state.get()), set_all, names, 0)


def one_name(state: State, name: str) -> State:
    """One of the names of a state."""
    place = state.names.index(name)

    def set_one(values: Any) -> None:
        # read when it is set: the others may have been set meanwhile
        now = list(state.get())
        now[place] = values[0]
        state.set(tuple(now))

    return State(lambda: (state.get()[place],), set_one, (name,), state.line)


def and_(first: Any, second: Thunk) -> Any:
    """`first and second()`."""
    if first is not True and first is not False and active() is not None and is_staged(first := valued(first)):
        return stage_and(first, ending(second), _state_of(second))
    return second() if first else first


def or_(first: Any, second: Thunk) -> Any:
    """`first or second()`."""
    if first is not True and first is not False and active() is not None and is_staged(first := valued(first)):
        return stage_or(first, ending(second), _state_of(second))
    return first if first else second()


def and_test(first: Any, second: Thunk) -> Any:
    """`first and second()` where only its truth counts."""
    if first is not True and first is not False and active() is not None and is_staged(first := tested(first)):
        return stage_and(first, ending(_testing(second)), _state_of(second))
    return tested(second()) if first else False


def or_test(first: Any, second: Thunk) -> Any:
    """`first or second()` where only its truth counts."""
    if first is not True and first is not False and active() is not None and is_staged(first := tested(first)):
        return stage_or(first, ending(_testing(second)), _state_of(second))
    return True if first else tested(second())


def tested(value: Any) -> Any:
    """A value whose truth is asked for: of the user's objects, what their class says."""
    if value is True or value is False or active() is None:
        return value
    own = own_method(value, "__bool__") or own_method(value, "__len__")
    return valued(value) if own is None else valued(own())


def _testing(second: Thunk) -> Thunk:
    return lambda: tested(second())


def not_(value: Any) -> Any:
    """`not value`."""
    if value is not True and value is not False and active() is not None and is_staged(value := tested(value)):
        from gradtape.ops.compare import logical_not

        return logical_not(truth(value))
    return not value


def if_exp(test: Any, body: Thunk, orelse: Thunk, line: int) -> Any:
    """`body() if test else orelse()`."""
    if test is not True and test is not False and active() is not None and is_staged(test := tested(test)):
        return stage_if_exp(test, ending(body), ending(orelse), _state_of(body, orelse))
    return body() if test else orelse()


def is_(left: Any, right: Any) -> Any:
    """`left is right`; a value that may be None when the program runs is asked then."""
    for value, singleton in ((left, right), (right, left)):
        if (singleton is None or singleton is True or singleton is False) and isinstance(value, (Maybe, WeakTensor)):
            return is_singleton(value, singleton)
        if isinstance(singleton, IntEnum) and isinstance(value, (Maybe, WeakTensor)):
            return is_member(value, singleton)
    # two objects now may be one object when the program runs: `aliasing`
    if left is not right and (tracer := active()) is not None and left is not None and right is not None:
        return tracer.same(left, right)
    return left is right


def is_not(left: Any, right: Any) -> Any:
    """`left is not right`."""
    return not_(is_(left, right))


def _items_first(operate: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A comparison; that of two lists or tuples asks their items, which may be known only when the program runs."""

    def compared(left: Any, right: Any) -> Any:
        if not (left.__class__ is right.__class__ and is_sequence(left) and is_sequence(right)) or active() is None:
            return operate(left, right)
        return ordered(operate, left, right) if holds_staged(left) or holds_staged(right) else operate(left, right)

    return compared


COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    **{name: _items_first(getattr(operator, name)) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    "is_": is_, "is_not": is_not, "in_": in_, "not_in": not_in,
}  # fmt: skip


def compare(names: Sequence[str], left: Any, right: Any, *later: Thunk) -> Any:
    """A chain like `a < b < c`: each operand is evaluated once, and only as long as the chain holds."""
    result = COMPARE[names[0]](left, right)
    if not later:
        return result
    # `right` is the left operand of the next comparison, evaluated once
    rest: Thunk = lambda: compare(names[1:], right, later[0](), *later[1:])  # noqa: E731
    state = _state_of(*later)
    return and_(result, BindingOperand(rest, state) if state.names else rest)


def assert_stmt(test: Any, message: Thunk | None, line: int) -> None:
    """`assert test, message()`."""
    if active() is not None and is_staged(test := tested(test)):
        assert_(test, message, line)
    elif not test:
        raise raising(AssertionError(message()) if message is not None else AssertionError())


def generator(iterated: Any, lazy: Callable[[Any], Any], collected: Callable[[Any], Any]) -> Any:
    """A generator expression: lazy over Python values, a list over staged ones."""
    tracer = active()
    if tracer is None:
        return lazy(iter(iterated))
    iterated = there(iterated)
    # a generator runs when it is asked, perhaps after the trace; a list is made in its place
    return collected(iterated) if is_staged_iterable(iterated) else own_iterator(lazy(iter(iterate(tracer, iterated))))


__all__ = [
    "and_", "and_test", "assert_stmt", "binding", "compare", "for_stmt", "generator", "get_nothing", "gone_over", "if_exp",
    "if_stmt", "is_", "is_not", "not_", "nothing", "or_", "or_test", "set_nothing", "while_stmt",
]  # fmt: skip
