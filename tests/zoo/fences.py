"""What a compiled function refuses, each with the exception, words of its message, and the user's line (marked `# HERE`).

A fence is a plain function and arguments; compiled and called, it must raise. `test_fence.py` runs them. The functions are
written as users would write them; nothing here is about wrong arguments of `gt.function` itself.
"""

from __future__ import annotations

import contextlib
import inspect
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

import gradtape as gt
from gradtape import errors


@dataclass(frozen=True)
class Fence:
    """A function that is refused, and how."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    error: type[Exception]
    words: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict)

    def line(self) -> int | None:
        """The line marked in the source, if one is."""
        lines, first = inspect.getsourcelines(self.function)
        return next((first + i for i, text in enumerate(lines) if text.rstrip().endswith("# HERE")), None)


FENCES: dict[str, Fence] = {}
LEAKED: list[Any] = []
TABLE: dict[Any, Any] = {}


def fence(args: tuple[Any, ...], error: type[Exception], *words: str, **options: Any) -> Any:
    def register(function: Any) -> Any:
        FENCES[function.__name__] = Fence(function, args, error, words, options)
        return function

    return register


def double(*values: Any) -> Any:
    return tuple(gt.constant(np.array(v, np.float64)) for v in values)


X = double(0.7)
V = double([0.4, -0.9, 1.7])
N = gt.constant(3)


# -- recursion and shapes ------------------------------------------------------------------------------------------------


@fence(double(3.5), RecursionError, "countdown_by_recursion", "depth")
def countdown_by_recursion(x):
    if x < 1.0:  # HERE
        return x
    return countdown_by_recursion(x - 1.0)


@fence((*X, N), ValueError, "`t`", r"\(1,\)", r"\(1, 1\)")
def rank_grows_in_a_staged_loop(x, n):
    t = gt.reshape(x, [1])
    while n > 0:  # HERE
        t = t[None]
        n = n - 1
    return t


@fence(V, ValueError, "`y`", r"\(3,\)", r"\(\)")
def branches_of_different_ranks(v):
    if v[0] > 0:  # HERE
        y = v
    else:
        y = v[0]
    return y * 2.0


# -- names ---------------------------------------------------------------------------------------------------------------


@fence(double(-0.7), UnboundLocalError, "'y'")
def name_set_on_the_other_side(x):
    if x > 0:
        y = x * x
    return y + 1.0  # HERE


@fence((*X, gt.constant(0)), UnboundLocalError, "'last'")
def name_set_in_a_loop_that_did_not_run(x, n):
    for i in gt.range(n):
        last = x * gt.cast(i, gt.float64)
    return last + 1.0  # HERE


@fence(X, NameError, "undefined_helper")
def name_that_does_not_exist(x):
    if x > 0:
        return undefined_helper(x)  # HERE # noqa: F821
    return x


# -- Python values that depend on tensors --------------------------------------------------------------------------------


@fence(X, ValueError, "`label`", "low", "high")
def text_chosen_by_a_tensor(x):
    label = "low"
    if x > 0.5:  # HERE
        label = "high"
    return x, label


@fence((*X, N), ValueError, "`f`")
def function_changed_in_a_staged_loop(x, n):
    f = gt.sin
    for _ in gt.range(n):  # HERE
        x = f(x)
        f = gt.cos
    return x


@fence(X, ValueError, "`o`", "namespace", "on one path", "on the other")
def object_chosen_by_a_tensor(x):
    o = SimpleNamespace(v=x)
    if x > 0:  # HERE
        o = SimpleNamespace(v=x * x)
    else:
        o.v = x
    return o.v


@fence((*X, N), ValueError, "`kind`")
def text_changed_in_a_staged_loop(x, n):
    kind = ""
    for _ in gt.range(n):  # HERE
        kind = kind + "a"
        x = x + 1.0
    return x, kind


@fence(X, ValueError, "keys")
def dicts_with_different_keys(x):
    if x > 0:  # HERE
        d = {"a": x}
    else:
        d = {"b": x}
    return d


@fence(X, ValueError, "structure")
def different_structures(x):
    if x > 0:  # HERE
        p = (x, x)
    else:
        p = (x, (x, x))
    return p


# -- values before they exist --------------------------------------------------------------------------------------------


@fence(X, errors.OperatorNotAllowedInGraphError, "autograph", r"fences\.py:\d+", "Python bool", autograph=False)
def bool_without_autograph(x):
    if x > 0:  # HERE
        return x
    return -x


@fence(V, errors.OperatorNotAllowedInGraphError, "autograph", autograph=False)
def iteration_without_autograph(v):
    total = 0.0
    while gt.reduce_sum(v) > total:  # HERE
        total = total + 1.0
    return total


@fence(X, errors.OperatorNotAllowedInGraphError, "no value", "'x'")
def numpy_of_a_traced_tensor(x):
    return x * float(x.numpy())  # HERE


@fence(V, errors.OperatorNotAllowedInGraphError, "no value", "'v'")
def numpy_function_of_a_traced_tensor(v):
    return gt.constant(np.asarray(v))  # HERE


@fence(X, errors.OperatorNotAllowedInGraphError, "no value")
def item_of_a_traced_tensor(x):
    return x * x.item()  # HERE


@fence(V, ValueError, "ambiguous", r"\(3,\)", "reduce_all")
def vector_as_a_condition(v):
    if v > 0:  # HERE
        return v
    return -v


@fence(V, ValueError, "ambiguous", r"\(3,\)")
def vector_as_a_loop_test(v):
    while v < 10.0:  # HERE
        v = v * 2.0
    return v


@fence(X, TypeError, "iterate over a scalar")
def scalar_iterated(x):
    for y in x:  # HERE
        x = x + y
    return x


# -- effects -------------------------------------------------------------------------------------------------------------


@fence((*X, N), ValueError, "dict", "key", "known only when the function runs")
def captured_dict_keyed_by_a_tensor(x, n):
    for i in gt.range(n):
        TABLE[i] = x  # HERE
    return x


@fence((*X, N), ValueError, "variable", "before")
def variable_made_in_a_staged_loop(x, n):
    for _ in gt.range(n):
        w = gt.Variable(x)  # HERE
        x = x + w
    return x


@fence(X, TypeError, "the function returned_object returned", "SimpleNamespace", "tensors, numbers, None")
def returned_object(x):
    return x, SimpleNamespace(y=x)


@fence((*X, N), ValueError, "this `try` would have to catch what `assert` raises", "no `except`", "Test the condition")
def except_around_a_staged_error(x, n):
    try:  # HERE
        for i in gt.range(n):
            x = x * (1.3 + 0.1 * gt.cast(i, gt.float64))
            assert x < 1.0
    except AssertionError:
        x = x * 0.5
    return x


@fence(X, ValueError, "this `try` would have to catch the ValueError raised in it", "no `except`")
def raise_in_a_branch_caught_around(x):
    def checked(t):
        if t > 1.0:
            raise ValueError("too large")
        return t * t

    try:  # HERE
        return checked(x)
    except ValueError:
        return gt.sin(x)


@fence(X, ValueError, "this `suppress` would have to catch the ValueError raised in it", "no `except`")
def raise_in_a_branch_suppressed_around(x):
    with contextlib.suppress(ValueError):  # HERE
        if x > 1.0:
            raise ValueError("too large")
        x = x * x
    return x


@fence((*X, N), errors.StaticDimensionNeeded, "known only when the function runs")
def generator_over_a_staged_loop(x, n):
    def steps():
        for i in gt.range(n):  # HERE
            yield x * gt.cast(i, gt.float64)

    return sum(steps())


@fence((*X, N), ValueError, "pop")
def pop_from_the_front_in_a_staged_loop(x, n):
    queue = [x, x * x]
    for _ in gt.range(n):
        queue.append(queue.pop(0) * 0.5)  # HERE
        queue.append(x)
    return queue[-1]


# -- errors that happen when the function runs -----------------------------------------------------------------------------


@fence(double(-0.7), AssertionError, "x must be positive, got")
def assert_that_fails(x):
    assert x > 0, f"x must be positive, got {x}"  # HERE
    return gt.sqrt(x)


@fence(double(2.0), ValueError, "too large")
def raise_in_a_branch(x):
    if x > 1.0:
        raise ValueError("too large")  # HERE
    return x * x


@fence((*V, gt.constant(5)), IndexError, "5", "3")
def index_out_of_range_at_run_time(v, i):
    return v[i] * 2.0  # HERE


@fence((*V, gt.constant(5)), IndexError)
def update_out_of_range_at_run_time(v, n):
    t = v * 1.0
    for i in gt.range(n):
        t[i] = 0.0  # HERE
    return t


@fence(V, ValueError, r"\(3,\)|3", "4")
def shapes_that_never_fit(v):
    if v[0] > 0:
        return v + gt.ones([4], gt.float64)  # HERE
    return v


@fence((*V, gt.constant([1, 2])), TypeError, "missing 1 required positional argument", "'w'")
def wrong_number_of_arguments(v, i, w):
    return v[i[0]] * w


# -- objects and their names ---------------------------------------------------------------------------------------------------


@fence((*V, N), ValueError, "item of a list whose items live in the program", "gt.identity")
def one_tensor_appended_and_changed_in_a_loop_of_unknown_length(v, n):
    rows, t = [], v * 1.0
    for i in gt.range(n):
        t[i] = 2.0  # HERE
        rows.append(t)
    return gt.stack(rows)


@fence(V, ValueError, "item of a list whose items live in the program", "gt.identity")
def tensor_appended_on_one_path_and_changed_by_its_name(v):
    rows, t = [v * 0.1, v * 0.2], v * 1.0
    if v[0] < 1.0:
        rows.append(t)
    t[0] = v[0] - v[1]  # HERE
    return gt.add_n(rows) * t


@fence(V, ValueError, "item of a list whose items live in the program", "gt.identity")
def tensor_appended_on_one_path_and_changed_by_the_list(v):
    rows, t = [v * 0.1, v * 0.2], v * 1.0
    if v[0] < 1.0:
        rows.append(t)
    rows[-1][0] = v[0] - v[1]  # HERE
    return gt.add_n(rows) * t


@fence(V, ValueError, "item of a list whose items live in the program")
def item_of_a_copied_list_changed(v):
    rows = []
    for y in v:
        rows.append(v * y)
    copied = list(rows)
    copied[0][0] = 5.0  # HERE
    return gt.stack(rows)


@fence(V, ValueError, "item of a list whose items live in the program")
def item_of_a_sorted_list_changed(v):
    cells = [v * 1.0, v * 2.0]
    smallest = sorted(cells, key=gt.reduce_sum)[0]
    smallest[0] = 9.0  # HERE
    return cells[0] + cells[1]


@fence(V, ValueError, "the key 'b' was not set on the path that was taken", "set it before")
def new_key_in_one_of_two_dicts(v):
    d = {"a": v[0]}
    e = d
    if v[0] < 0.9:
        d = {"a": v[1]}
    d["b"] = v[2]
    return sum(e.values())  # HERE


@fence(V, ValueError, "whether a tensor that the tape watches is the same one", "gt.identity")
def watched_tensor_may_have_another_name(v):
    y = v * 1.0
    u = y
    if v[0] > 0.9:
        y = y * 2.0
    with gt.GradientTape() as tape:
        tape.watch(y)
        z = gt.reduce_sum(y * u)
    return tape.gradient(z, y)  # HERE


QUEUE = deque([1.0])


@fence(V, ValueError, "a deque from outside cannot be changed")
def deque_from_outside_is_changed(v):
    if v[0] > 0:
        QUEUE.append(2.0)  # HERE
    return v * len(QUEUE)
