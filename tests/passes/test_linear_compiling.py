"""Compiling is linear: tracing, the reverse sweep and every pass take about four times the steps on four times the program.

Each stage meets two of the eight programs, and all of them in `make test-all`; each program meets a stage.
Programs are irregular, so that no loop is found in them again: which operation comes next depends on a generator's numbers.
"""

from __future__ import annotations

import random
from functools import cache

import numpy as np
import pytest

import gradtape as gt
from gradtape.ad.reverse import split
from gradtape.backends.llvm.entry.written_program import written
from gradtape.backends.llvm.planning import plan
from gradtape.backends.llvm.writing import parts as outlining
from gradtape.functions.staging.trials import Trials
from gradtape.ir.printer import text_and_objects
from gradtape.ir.verify import verify
from gradtape.ir.walk import program as operations
from gradtape.passes.bufferize import bufferize
from gradtape.passes.pipeline import PASSES, optimize, prepared
from gradtape.passes.reroll import reroll
from tests.harness.seeds import everything
from tests.harness.steps import is_linear, steps_of

SMALL, FACTOR = 60, 4


@pytest.fixture(autouse=True)
def _turn_by_turn(monkeypatch):
    """The long programs of this file come from loops that are traced turn by turn."""
    monkeypatch.setattr(Trials, "few", 10**9)


def numbers(turns):
    """As many numbers below a hundred, the same in every run, without a period."""
    generator = random.Random(5)
    return [generator.randrange(100) for _ in range(turns)]


def scalars(x, turns):
    y = x[0]
    for number in numbers(turns):
        if number < 30:
            y = gt.sin(y) * 0.9
        elif number < 60:
            y = y * x[number % 5] + 0.1
        elif number < 80:
            y = y / (1.0 + y * y)
        else:
            y = gt.exp(-y) - x[1]
    return y


def vectors(x, turns):
    past = [x, x * 2.0]
    for number in numbers(turns):
        y = past[number % len(past)]
        if number % 3:
            y = gt.tanh(y) * past[-1]
        elif number % 2:
            y = y + past[-1] * float(number)
        else:
            y = gt.maximum(y, x) - past[-1]
        past = [*past[-5:], y]
    return gt.reduce_sum(past[-1])


def readers_of_one_value(x, turns):
    total = gt.constant(0.0, gt.float64)
    for number in numbers(turns):
        total = total + (gt.sin(x[0] * float(number)) if number % 2 else gt.cos(x[0]) * x[0])
    return total


def parts(x, turns):
    y = gt.zeros_like(x)
    for number in numbers(turns):
        if number % 3:
            y[number % 5] = gt.sin(x[(number * 7) % 5]) * y[number % 3]
        else:
            y = y * gt.reduce_sum(x[number % 3 : number % 3 + 2])
    return gt.reduce_sum(y)


def branches(x, turns):
    y = x[0]
    for number in numbers(turns):
        if number % 4 == 0:
            y = gt.sin(y)
        elif y > 0.01 * number:
            y = y * x[1] + float(number)
        else:
            y = gt.cos(y) - x[number % 5]
    return y


def loops(x, turns):
    y = x[0]
    for number in numbers(turns):
        if number % 3 == 0:
            y = gt.sin(y) * x[number % 5]
        for i in gt.range(3 + number % 5):
            y = y * 0.5 + x[i] * float(number)
    return y


@gt.function
def helper(x, y):
    return gt.sin(x) * y + gt.cos(y)


def calls(x, turns):
    y = x[0]
    for number in numbers(turns):
        if number % 3 == 0:
            y = gt.sin(y) * x[number % 5]
        y = helper(y, x[number % 3] * float(number))
    return y


def body_of_a_loop(x, turns):
    y = x
    for _ in gt.range(3):
        for number in numbers(turns):
            y = gt.sin(y) * x if number % 2 else y * float(number) + x
    return gt.reduce_sum(y)


FUNCTIONS = [scalars, vectors, readers_of_one_value, parts, branches, loops, calls, body_of_a_loop]
TRACED, REVERSED, PASSED, PRINTED = (FUNCTIONS if everything() else FUNCTIONS[i::4] for i in range(4))
WRITTEN = [scalars, vectors, branches, body_of_a_loop] if everything() else [vectors, branches]
X = np.linspace(0.1, 0.9, 20)


def traced(f, turns):
    return gt.function(lambda x: f(x, turns)).get_concrete_function(gt.constant(X))._traced.program.block


def with_gradient(f):
    def g(x, turns):
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = f(x, turns)
        gt.cos(x)  # nobody needs it: so there is something to do for each pass in programs of any length
        return y, tape.gradient(y, x)

    return g


@cache
def program(f, turns):
    """The program of a function and its gradient, before any pass."""
    return traced(with_gradient(f), turns)


def assert_linear(run, f):
    """As many more steps as there are more operations."""
    small, large = program(f, SMALL), program(f, FACTOR * SMALL)
    sizes = [sum(1 for _ in operations(block)) for block in (small, large)]
    for turns in (SMALL, FACTOR * SMALL):
        run(turns)  # what is done once in a process, or for a program, is done
    steps = [steps_of(lambda turns=turns: run(turns)) for turns in (SMALL, FACTOR * SMALL)]
    assert is_linear(*steps, sizes[1] / sizes[0]), f"{steps} steps for programs of {sizes} operations"


@pytest.mark.parametrize("f", TRACED, ids=lambda f: f.__name__)
def test_tracing(f):
    assert_linear(lambda turns: traced(with_gradient(f), turns), f)


@pytest.mark.parametrize("f", REVERSED, ids=lambda f: f.__name__)
def test_reverse(f):
    blocks = {turns: traced(f, turns) for turns in (SMALL, FACTOR * SMALL)}
    assert_linear(lambda turns: split(blocks[turns], {0}, [0]), f)


ALONE = {**{name: function for name, function, _ in PASSES}, "reroll": reroll, "bufferize": bufferize, "verify": verify}


THIRDS = 1 if everything() else 3
PAIRS = [
    pytest.param(f, name, id=f"{f.__name__}-{name}")
    for i, f in enumerate([scalars, parts, branches, loops, calls, body_of_a_loop])
    for j, name in enumerate(ALONE)
    if (i + j) % THIRDS == 0
]  # every pass meets two programs, or all six


@pytest.mark.parametrize(("f", "name"), PAIRS)
def test_pass(f, name):
    assert_linear(lambda turns: ALONE[name](program(f, turns)), f)


@pytest.mark.parametrize("f", PASSED, ids=lambda f: f.__name__)
def test_all_passes(f):
    assert_linear(lambda turns: prepared(program(f, turns)), f)


@pytest.mark.parametrize("f", WRITTEN, ids=lambda f: f.__name__)
def test_planning_and_writing(f, monkeypatch):
    """From the prepared program to LLVM's text: kernels are found, code is written and cut into parts."""
    for room, name in ((outlining, "LONG"), (plan, "LONG")):  # short programs are cut, too, so that both do the same
        monkeypatch.setattr(room, name, 0)
    blocks = {turns: prepared(program(f, turns)) for turns in (SMALL, FACTOR * SMALL)}
    assert_linear(lambda turns: written(blocks[turns]), f)


@pytest.mark.parametrize("f", PRINTED, ids=lambda f: f.__name__)
def test_the_programs_text_which_is_the_key_of_the_cache(f):
    assert_linear(lambda turns: text_and_objects(program(f, turns)), f)


def test_passes_that_have_nothing_to_do_are_not_run_again():
    """What came out of the passes goes through each of them once, and none but the copying ones does anything."""
    block = optimize(program(scalars, SMALL))
    again = steps_of(lambda: optimize(block))
    once = sum(steps_of(lambda function=function: function(block)) for name, function, _ in PASSES[:-1])
    assert again <= 1.5 * once
