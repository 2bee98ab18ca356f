"""Every program of `programs.py`: values, first and second derivative, forward mode; compiled = eager = finite differences.

First derivatives are those of machine code, the others of the reference backend and, with tapes and accumulators inside, of
machine code for a sample: compiling takes longest. Second ones are those of every other program; all in `make test-all`.
"""

from __future__ import annotations

import pytest

import gradtape as gt
from tests.ad import checks
from tests.ad.programs import PROGRAMS, Program
from tests.harness.seeds import in_sample

NATIVELY = 4  # one program in so many


def parametrized(*, twice=False):
    return pytest.mark.parametrize(
        "program",
        [pytest.param(p, id=name) for name, p in PROGRAMS.items() if not twice or (p.order > 1 and in_sample(name, 2))],
    )


def compiled(program: Program, native: bool = True):
    return gt.function(program.function, input_signature=program.signature, jit_compile=native)


@parametrized()
def test_values(program):
    checks.check_values(program.function, compiled(program, native=False), program.args)


@parametrized()
def test_first(program):
    checks.check_first(program.function, compiled(program), program.args, program.slopes)


@parametrized(twice=True)
def test_second(program):
    native = in_sample(program.function.__name__, NATIVELY)
    checks.check_second(program.function, compiled(program, native=False), program.args, program.slopes, native)


@parametrized()
def test_forward(program):
    native = in_sample(program.function.__name__, NATIVELY)
    checks.check_forward(program.function, compiled(program, native=False), program.args, native)
