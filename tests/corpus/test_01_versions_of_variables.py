"""A variable that was assigned, inside a function, a value which nobody watches had no gradient for that version.

A variable as source means the sum over its leaf versions. Versions that a compiled function (with the tape around it), or a
staged loop or branch (with the tape around that) gave it were no leaves: None, or too small a sum, where eager code adds them
up.
"""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as gt
from tests.corpus.modes import COMPILED
from tests.harness.seeds import in_sample

pytestmark = pytest.mark.filterwarnings("ignore::gradtape.errors.RetracingWarning")  # each run has variables of its own
PROGRAMS = []


def program(function):
    PROGRAMS.append(function)
    return function


@program
def in_a_scan(v, w, x, n):
    y = gt.constant(0.0, gt.float64)
    for i in gt.range(n):
        v.assign(1.5 * gt.cast(i, gt.float64) + 1.0)
        y = y + v * v * x
    return y


@program
def in_a_while(v, w, x, n):
    y, i = v * v * x, 0
    while i < n:
        v.assign(1.5 * gt.cast(n + i, gt.float64))
        y = y + v * v * v
        i += 1
    return y


@program
def in_a_branch(v, w, x, n):
    y = v * v
    if n > 2:
        v.assign(gt.cast(n, gt.float64) * 1.5)
        y = y + v * v * x
    else:
        v.assign(v * x)
    return y + v * v * v


@program
def straight(v, w, x, n):
    y = v * v
    v.assign(gt.cast(n, gt.float64))
    y += v * v * v
    v.assign(2.5)
    return y * v + x


@program
def read_after_the_loop(v, w, x, n):
    y = v * v
    for i in gt.range(n):
        v.assign(gt.cast(i, gt.float64) + 1.0)
    return y + v * v * v * x


@program
def of_watched_values(v, w, x, n):
    """No leaves: what is assigned depends on something that is watched."""
    y = v * v
    for _ in gt.range(n):
        v.assign(gt.sin(x) * v)
        y = y + v * v
        v.assign(x * 0.5)
        y = y + v * v * w
        w.assign(w * 0.5 + y * 0.01)
    return y + w


@program
def of_another_variable(v, w, x, n):
    for i in gt.range(n):
        if i > 0:
            v.assign(w)
        w.assign(0.3 * gt.cast(i, gt.float64))
        x = x * gt.sin(v) + w * w
    return x


@gt.function
def callee(v, n):
    v.assign(gt.cast(n, gt.float64) * 0.7)
    return v * v * v


@program
def through_calls(v, w, x, n):
    w.assign(x * 2.0)
    y = w * w
    for i in gt.range(n):
        y = y + callee(w, n + i) * w
    return y + callee(v, n) * v


@program
def steps_of_an_optimizer(v, w, x, n):
    for _ in gt.range(n):
        v.assign_sub(0.1 * gt.cos(v) * x)
        w.assign_add(v)
    return v * w


def around(function, asked):
    """Derivatives of order 1 and 2 by tapes around the call."""

    def run(n):
        v, w, x = gt.Variable(2.0, dtype=gt.float64), gt.Variable(0.4, dtype=gt.float64), gt.constant(0.9, gt.float64)
        sources = [[v, w, x][i] for i in asked]
        with gt.GradientTape(through_assignments=True) as outer:
            outer.watch(x)
            with gt.GradientTape(through_assignments=True) as inner:
                inner.watch(x)
                y = function(v, w, x, n)
            first = inner.gradient(y, sources)
            along = sum(g * (1.0 + 0.3 * i) for i, g in enumerate(first) if g is not None)
        second = outer.gradient(along, sources) if any(g is not None for g in first) else [None]
        return [y, *first, *second]

    return run


def inside(function, asked, options):
    """The same by tapes inside a function."""
    v, w = gt.Variable(2.0, dtype=gt.float64), gt.Variable(0.4, dtype=gt.float64)

    def compute(x, n):
        v.assign(2.0)
        w.assign(0.4)
        sources = [[v, w, x][i] for i in asked]
        with gt.GradientTape(through_assignments=True) as outer:
            outer.watch(x)
            with gt.GradientTape(through_assignments=True) as inner:
                inner.watch(x)
                y = function(v, w, x, n)
            first = inner.gradient(y, sources)
            along = gt.constant(0.0, gt.float64)
            for i, g in enumerate(first):
                if g is not None:
                    along = along + g * (1.0 + 0.3 * i)
        return y, first, outer.gradient(along, sources)

    compute = compute if options is None else gt.function(compute, **options)
    return lambda n: gt.nest.flatten(compute(gt.constant(0.9, gt.float64), n))


def same(found, expected, what):
    assert len(found) == len(expected), what
    for a, b in zip(found, expected, strict=True):
        a, b = (0.0 if t is None else float(t) for t in (a, b))
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12, err_msg=what)


@pytest.mark.parametrize("asked", [(0, 1, 2), (0,)], ids=["all", "one"])
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_versions_count_wherever_the_tape_is(function, asked):
    # what is asked for is a matter of the program's meaning: machine code is asked for all, for one by one program in some
    native = len(asked) > 1 or in_sample(function.__name__, 4)
    ways = {mode: options for mode, options in COMPILED.items() if native or mode != "native"}
    outside = {mode: around(gt.function(function, **options), asked) for mode, options in ways.items()}
    within = {mode: inside(function, asked, options) for mode, options in ways.items()}
    for n in (gt.constant(3), gt.constant(1)):
        expected = around(function, asked)(n)
        for mode, run in outside.items():
            same(run(n), expected, f"around, {mode}, {n}")
        expected = inside(function, asked, None)(n)
        for mode, run in within.items():
            same(run(n), expected, f"inside, {mode}, {n}")


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_forward_mode_moves_them_too(function):
    def push(call):
        v, w, x = gt.Variable(2.0, dtype=gt.float64), gt.Variable(0.4, dtype=gt.float64), gt.constant(0.9, gt.float64)
        with gt.autodiff.ForwardAccumulator([v, x], [gt.constant(0.7, gt.float64), gt.constant(-0.2, gt.float64)]) as acc:
            y = call(v, w, x, gt.constant(3))
        return [y, acc.jvp(y)]

    same(push(gt.function(function)), push(function), function.__name__)


def test_a_version_that_nobody_reads_leaves_no_gradient():
    v = gt.Variable(2.0)

    @gt.function
    def f(x):
        v.assign(3.0)
        return x * x

    x = gt.constant(1.0)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    assert tape.gradient(y, [x, v])[1] is None
    assert f.get_concrete_function(x).variables == (v,)


@pytest.mark.parametrize("autograph", [True, False])
def test_a_tensor_from_outside_is_what_it_was_when_the_trace_is_over(autograph):
    c, fails = gt.constant(3.0), []

    def f(x):
        with gt.GradientTape(persistent=True) as tape:
            tape.watch(c)
            y = c * c * x
        if fails:
            raise ValueError("halfway")
        return tape.gradient(y, c), c

    before, node = c._data, c._node
    slope, result = gt.function(f, autograph=autograph)(gt.constant(2.0))
    assert [float(slope), float(result)] == [12.0, 3.0]
    assert (type(c), c._data, c._node) == (gt.Tensor, before, node)
    fails.append(True)
    with pytest.raises(ValueError, match="halfway"):
        gt.function(f, autograph=autograph)(gt.constant(2.0))
    assert (type(c), c._data, c._node) == (gt.Tensor, before, node)
