"""`cond`, `while_loop`, `map_fn` and their kin on staged values: the functional forms of staged loops and branches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradtape import tree
from gradtape.core.dispatch import convert
from gradtape.core.tensor import Tensor
from gradtape.errors import InvalidArgumentError
from gradtape.functions.staging import staged_lists
from gradtape.functions.staging.branches import NO_STATE, State, is_staged, stage_if_exp, truth, valued
from gradtape.functions.staging.iterables import Reversed, StagedIterable, TensorRows
from gradtape.functions.staging.loops import stage_for, stage_while
from gradtape.functions.staging.staged_builtins import append
from gradtape.functions.staging.staged_values import require, staged_items
from gradtape.ops.compare import equal
from gradtape.ops.elementwise import cast
from gradtape.ops.reduce import reduce_any, reduce_sum
from gradtape.ops.shape import stack
from gradtape.trace.effects import active, converted
from gradtape.trace.tracing import TracedTensor


def staged_cond(pred: Any, true_fn: Callable[[], Any], false_fn: Callable[[], Any]) -> Any:
    """`cond` on a staged predicate."""
    return stage_if_exp(pred, converted(true_fn), converted(false_fn))


NONE_TRUE = "case: none of the predicates is true and there is no default"
SEVERAL_TRUE = "case: several predicates are true but exclusive=True allows one"


def staged_case(pairs: Sequence[Any], default: Callable[[], Any] | None, exclusive: bool = False) -> Any:
    """What the first pair whose predicate holds gives."""
    flags = [convert(truth(pred) if is_staged(pred := valued(p)) else bool(pred)) for p, _ in pairs]
    if exclusive:
        require(reduce_sum(cast(stack(flags), "int32")) <= 1, InvalidArgumentError, SEVERAL_TRUE)
    if default is None:
        # the call ends here if nothing holds: the last function then only says what type its side of the branch has
        require(reduce_any(stack(flags)), InvalidArgumentError, NONE_TRUE)
        default = pairs[-1][1]
    return _first_of(pairs, default)


def _first_of(pairs: Sequence[Any], default: Callable[[], Any]) -> Any:
    if not pairs:
        return converted(default)()
    pred, function = pairs[0]
    if is_staged(pred := valued(pred)):
        # a branch inside the other side for each further case: that side alone asks the next predicate
        return stage_if_exp(pred, converted(function), lambda: _first_of(pairs[1:], default))
    return converted(function)() if bool(pred) else _first_of(pairs[1:], default)


def staged_switch(index: Any, table: dict[int, Callable[[], Any]], default: Callable[[], Any]) -> Any:
    """`switch_case` on a staged index."""
    pairs = [(equal(index, place), function) for place, function in table.items()]
    return _first_of(pairs, default)


def staged_while(cond: Any, body: Any, loop_vars: list[Any], first: Any, limit: Any) -> list[Any]:
    """`while_loop` from an iteration whose test turned out to be staged."""
    state, test, step, names = _while_parts(cond, body, loop_vars, limit)
    stage_while(test, step, names, first)
    return state


def tried_while(cond: Any, body: Any, loop_vars: list[Any], limit: Any) -> list[Any] | None:
    """`while_loop` from an iteration whose test holds, and is decided by Python; None if it must be Python's."""
    tracer = active()
    if tracer is None:
        return None
    state, test, step, names = _while_parts(cond, body, loop_vars, limit)
    return state if tracer.trials.while_loop(test, step, names, counted=False, site=body) else None


def _while_parts(cond: Any, body: Any, loop_vars: list[Any], limit: Any) -> tuple[list[Any], Any, Any, State]:
    """The loop variables in one list, what tests and changes them, and how they are read and set."""
    cond, body = converted(cond), converted(body)
    state = list(loop_vars)
    done: list[Any] = [0]

    def get() -> tuple[Any, ...]:
        # the count is carried like a loop variable, so that a limit works in a staged loop
        return (*state, done[0])

    def put(values: Any) -> None:
        state[:] = values[:-1]
        done[0] = values[-1]

    def step() -> None:
        result = body(*state)
        state[:] = result if isinstance(result, (list, tuple)) else [result]
        if limit is not None:
            done[0] = done[0] + 1

    def test() -> Any:
        if limit is None:
            return cond(*state)
        # at the limit `cond` is not asked: it may index an array that ends there
        return stage_if_exp(convert(done[0] < limit), lambda: cond(*state), lambda: False)

    names = [*(f"loop_vars[{i}]" for i in range(len(state))), "the iteration count"]
    return state, test, step, State(get, put, names, 0)


class Structure(StagedIterable):
    """Corresponding rows of all tensors of a structure."""

    def __init__(self, elems: Any) -> None:
        self.elems = elems
        self.rows = [TensorRows(convert(t)) for t in tree.flatten(elems)]

    def length(self) -> Any:
        return self.rows[0].length()

    def item(self, index: Any) -> Any:
        return tree.pack_sequence_as(self.elems, [r.item(index) for r in self.rows])


def should_stage(elems: Any) -> bool:
    """Whether a loop over these elements is better one loop of the program: traced, and long or of unknown length."""
    flat = tree.flatten(elems)
    if active() is None or not flat or not all(isinstance(t, TracedTensor) and t.ndim for t in flat):
        return False
    count = flat[0].shape[0]
    return not isinstance(count, int) or count > 4


def staged_over(elems: Any, fn: Any, run: Callable[[], Any], may_try: bool = True) -> tuple[Any] | None:
    """What `run`, which makes one loop of the program over these elements, gives; None if Python is to go over them.

    Elements that are known while tracing are tried: `fn` may need their values.
    """
    if should_stage(elems):
        return (run(),)
    tracer, flat = active(), tree.flatten(elems)
    if tracer is None or not may_try or not flat or not all(isinstance(t, Tensor) and t.ndim for t in flat):
        return None
    count = flat[0].shape[0]
    if not isinstance(count, int) or count <= tracer.trials.few:
        return None
    results: list[Any] = []
    tried = tracer.trials.any_of([lambda: results.append(run())], NO_STATE, fn, count)
    return (results[-1],) if tried else None


def staged_map(fn: Any, elems: Any) -> Any:
    """Results of all rows, stacked."""
    return staged_scan(lambda _, row: ((), converted(fn)(row)), (), elems, backwards=False)[1]


def staged_fold(fn: Any, elems: Any, initializer: Any, backwards: bool, every: bool) -> Any:
    """foldl, foldr (the last value) and scan (`every` value)."""

    def step(value: Any, row: Any) -> tuple[Any, Any]:
        value = tree.map_structure(convert, converted(fn)(value, row))
        return value, value if every else ()

    last, stacked = staged_scan(step, initializer, elems, backwards)
    return stacked if every else last


def staged_scan(fn: Any, carry: Any, elems: Any, backwards: bool) -> tuple[Any, Any]:
    """`carry, y = fn(carry, row)` for each row: the last carry, and every `y` stacked in the order of the turns."""
    rows: StagedIterable = Structure(elems)
    state: list[Any] = [carry]
    collected: list[list[Any]] = []
    outline: list[Any] = []

    def step(row: Any) -> None:
        result, y = fn(state[0], row)
        state[0] = tree.map_structure(convert, result)
        flat = [convert(part) for part in tree.flatten(y)]
        # what `fn` gives is known with the first turn that is traced; later traces of the body give the same structure
        if not outline:
            outline.append(y)
            collected.extend([] for _ in flat)
        for target, value in zip(collected, flat, strict=True):
            append(target, value)

    def put(values: Any) -> None:
        state[0] = values[0]

    carried = State(lambda: (state[0],), put, ("the carried value",), 0)
    stage_for(Reversed(rows) if backwards else rows, None, step, carried)
    # a Python list still, if the loop was unrolled
    parts = [staged_lists.stacked(c) if staged_items(c) is not None else stack(c) for c in collected]
    return state[0], tree.pack_sequence_as(outline[0], parts)
