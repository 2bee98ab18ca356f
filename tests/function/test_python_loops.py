"""Python loops are staged by trying: what a trace costs does not depend on the number of turns, and what a loop means does not
depend on whether it could be one loop of the program. What loops mean is tested in the zoo (`tests/zoo/python_loops.py`)."""

from __future__ import annotations

import re

import numpy as np
import pytest
from benchmarks.loop_programs import TURNS

import gradtape as gt
from gradtape.functions.staging.trials import Trials

pytestmark = pytest.mark.usefixtures("reference_backend")


def operations(program, *args) -> int:
    traced = gt.function(program)
    traced(*args)
    return int(re.search(r"operations: (\d+) traced", traced.explain()).group(1))


# -- programs of many turns ----------------------------------------------------------------------------------------------


def mapped(n, x):
    return gt.reduce_sum(gt.map_fn(lambda k: x * gt.cast(k, gt.float32), gt.range(n)))


def over_lists(n, x):
    for i, (a, b) in enumerate(zip(range(n), [0.5] * n, strict=False)):
        x = x + i * a * b
    for row in np.ones((n, 2), np.float32):
        x = x + gt.reduce_sum(row)
    return x


PROGRAMS = [*TURNS, mapped, over_lists]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_the_trace_does_not_grow_with_the_number_of_turns(program):
    x = gt.constant(1.25)
    few, many = operations(lambda x: program(24, x), x), operations(lambda x: program(48, x), x)
    assert few == many


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_values_and_gradients_are_those_of_the_plain_loop(program, monkeypatch):
    def run():
        x = gt.constant(1.25)
        traced = gt.function(lambda x: program(12, x))
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = traced(x)
        return y.numpy(), tape.gradient(y, x).numpy()

    value, gradient = run()
    monkeypatch.setattr(Trials, "few", 10**9)
    plain_value, plain_gradient = run()
    assert value.dtype == plain_value.dtype
    np.testing.assert_array_equal(value, plain_value)
    np.testing.assert_allclose(gradient, plain_gradient, rtol=1e-5)


# -- what cannot be staged -----------------------------------------------------------------------------------------------


def test_explain_names_the_line_and_the_cause():
    @gt.function
    def f(x):
        table = {}
        for i in range(30):
            table[i] = x * i
        return table[3]

    assert f(gt.constant(2.0)).numpy() == 6.0
    line = f.python_function.__code__.co_firstlineno + 3
    said = [text.strip() for text in f.explain().splitlines() if "turn by turn" in text]
    assert said == [f"line {line}: the loop of 30 turns is traced turn by turn: a key of a dict is a number of the loop"]


def test_a_long_loop_that_cannot_be_staged_is_refused():
    @gt.function
    def f(x):
        table = {}
        for i in range(10**9):
            table[i] = x * i
        return table[3]

    with pytest.raises(gt.errors.InvalidArgumentError, match=r"has 1000000000 turns.* a key of a dict .*gt\.range"):
        f(gt.constant(2.0))


@pytest.mark.parametrize(
    ("body", "error", "text"),
    [
        (lambda x, i: x + 1 / i, ZeroDivisionError, "division by zero"),
        (lambda x, i: x + [1.0, 2.0][i], IndexError, "list index out of range"),
        (lambda x, i: x + undefined, NameError, "undefined"),  # noqa: F821
        (lambda x, i: x + gt.zeros((7,))[i], Exception, "7"),
        (lambda x, i: x @ gt.zeros((3, 3)), Exception, "scalars are not matrices"),
    ],
)
def test_errors_are_those_of_the_plain_loop(body, error, text, monkeypatch):
    def f(x):
        for i in range(40):
            x = body(x, i)
        return x

    with pytest.raises(error, match=text) as staged:
        gt.function(f)(gt.constant(2.0))
    monkeypatch.setattr(Trials, "few", 10**9)
    with pytest.raises(error) as plain:
        gt.function(f)(gt.constant(2.0))
    assert staged.type is plain.type


def test_a_later_error_is_not_hidden_by_a_long_loop():
    @gt.function
    def f(x):
        for _ in range(10**8):
            x = x * 0.5
        return x + undefined  # noqa: F821

    with pytest.raises(NameError, match="undefined"):
        f(gt.constant(2.0))


def test_python_values_after_the_loop_are_pythons():
    seen = []

    @gt.autograph.experimental.do_not_convert
    def look(*values):
        seen.append([(type(v), v) for v in values])

    @gt.function
    def f(x):
        total, t = 0, 0.0
        for i in range(100):
            total += i
            t += 0.1
            x = x + total * t
        look(i, total, t)
        return x

    f(gt.constant(1.0))
    t = 0.0
    for _ in range(100):
        t += 0.1
    assert seen[-1] == [(int, 99), (int, 4950), (float, t)]


def test_loops_inside_others_are_not_tried_without_end(monkeypatch):
    attempts = []
    attempt = Trials._attempt
    monkeypatch.setattr(Trials, "_attempt", lambda self, *args: attempts.append(1) or attempt(self, *args))

    @gt.function
    def f(x):
        table = {}
        for i in range(12):
            for j in range(12):
                for k in range(12):
                    table[i, j, k] = x
        return table[1, 2, 3]

    assert f(gt.constant(2.0)).numpy() == 2.0
    assert len(attempts) <= 24  # twice for each loop at each depth, not for each turn


def test_an_array_read_in_a_loop_is_read_at_each_call():
    data = np.arange(30.0, dtype=np.float32)

    @gt.function
    def f(x):
        for i in range(30):
            x = x + data[i]
        return x

    assert f(gt.constant(0.0)).numpy() == 435.0
    data[3] = 103.0
    assert f(gt.constant(0.0)).numpy() == 535.0


def test_a_list_read_in_a_loop_is_guarded():
    weights = [0.5] * 30

    @gt.function
    def f(x):
        for i in range(30):
            x = x + weights[i]
        for w in weights:
            x = x + w
        return x

    assert f(gt.constant(0.0)).numpy() == 30.0
    weights[7] = 1.5
    assert f(gt.constant(0.0)).numpy() == 32.0
