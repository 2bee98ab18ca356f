"""Every program of `programs.py`: values, first and second derivative and forward mode, compiled = eager = finite differences."""

from __future__ import annotations

import pytest

import gradtape as gt
from tests.ad import checks
from tests.ad.programs import PROGRAMS, Program


def parametrized(*, twice=False, forward=False):
    return pytest.mark.parametrize(
        "program",
        [
            pytest.param(p, id=name)
            for name, p in PROGRAMS.items()
            if not (twice and p.options.get("order") == 1) and not (forward and not p.options.get("forward", True))
        ],
    )


def compiled(program: Program):
    return gt.function(program.function, input_signature=signature(program))


def signature(program: Program):
    return program.options.get("signature")


@parametrized()
def test_values(program):
    checks.check_values(program.function, compiled(program), program.args)


@parametrized()
def test_first(program):
    checks.check_first(program.function, compiled(program), program.args)


@parametrized(twice=True)
def test_second(program):
    checks.check_second(program.function, compiled(program), program.args)


@parametrized(forward=True)
def test_forward(program):
    checks.check_forward(program.function, compiled(program), program.args)
