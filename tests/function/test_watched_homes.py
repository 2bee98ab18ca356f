"""A watched value means the same to a program wherever it lives: argument, constant, captured tensor, variable, own gradient.

Every program of `watched_programs.py` × home, to order 2, decorated against undecorated; each pair with one of the ways to
differentiate, and with all of them under `--programs 1000`; some of them as machine code.
"""

import numpy as np
import pytest

import gradtape as gt
from tests.function.watched_programs import (
    CAPTURED,
    HOMES,
    PROGRAMS,
    VALUES,
    VARIABLE,
    WAYS,
    argument,
    captured_tensor,
    variable,
)

N = 3


def _check(got, wanted, what):
    for place, (a, b) in enumerate(zip(got, wanted, strict=True)):
        assert (a is None) == (b is None), f"{what}, result {place}: {a} instead of {b}"
        if a is not None:
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9, atol=1e-12, err_msg=f"{what}, result {place}")


def _ways(request, number):
    return WAYS if request.config.getoption("--programs") >= 1000 else [WAYS[number % len(WAYS)]]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_tapes_and_accumulators_inside(program, request):
    u, n = gt.constant(VALUES, gt.float64), gt.constant(N)
    number = PROGRAMS.index(program)
    for place, home in enumerate(HOMES):
        native = (number + place) % len(HOMES) == 0
        for way in _ways(request, number + place):
            compiled = gt.function(lambda u, n: way(program, home, u, n), jit_compile=native)  # noqa: B023  (called at once)
            what = f"{way.__name__} of {program.__name__}, {home.__name__}, {'native' if native else 'interpreted'}"
            _check(compiled(u, n), way(program, home, u, n), what)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_tapes_outside(program):
    u, n = gt.constant(VALUES, gt.float64), gt.constant(N)
    for home, source in ((argument, u), (captured_tensor, CAPTURED), (variable, VARIABLE)):

        def run(u, n):
            return program(home(u), n)  # noqa: B023  (called at once)

        def measured(function):
            with gt.GradientTape() as outer:
                outer.watch(source)  # noqa: B023
                with gt.GradientTape() as inner:
                    inner.watch(source)  # noqa: B023
                    y = function(u, n)
                first = inner.gradient(y, source)  # noqa: B023
            return y, first, outer.gradient(first, source)  # noqa: B023

        _check(measured(gt.function(run, jit_compile=False)), measured(run), f"{program.__name__}, {home.__name__}")
