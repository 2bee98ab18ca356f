"""Which versions of a variable are leaves: a sum over them is what a variable means as source, and a version is one if what was
assigned depends on nothing watched. Inside branches and loops that may differ from run to run and from turn to turn.

Random programs that assign a variable from values which are watched, constant, or either; eager code is the meaning. With the
tape around the function the answer is the same; with the tape inside it is the same or refused in words.
"""

from __future__ import annotations

import random
import warnings
from typing import Any

import pytest

import gradtape as gt
from tests.harness.seeds import counted, everything
from tests.homes.cases import loaded

SEEDS = range(400 if everything() else 24)


def _lines(rng: random.Random, depth: int) -> list[str]:
    """Some statements on numbers t, u (constants at first), s (the sum), the argument x, the variable v, the count n."""
    lines = []
    for _ in range(rng.randrange(2, 5)):
        kind = rng.choice(["constant", "watched", "swap", "assign", "assign", "read", "read", "if", "for"])
        if kind in ("if", "for") and depth < 2:
            inner = ["    " + line for line in _lines(rng, depth + 1)]
            if kind == "for":
                lines += [f"for _ in gt.range({rng.choice(['n', '2'])}):", *inner]
            else:
                other = ["    " + line for line in _lines(rng, depth + 1)]
                lines += [f"if n > {rng.randrange(3)}:", *inner, "else:", *other]
        lines.append({
            "constant": "t = gt.constant(1.5)", "watched": "u = x * t", "swap": "t, u = u * 0.5, t + 0.1",
            "assign": "v.assign(t * 2.0)", "read": "s = s + v * v * x",
        }.get(kind, "s = s + v"))  # fmt: skip
    return lines


def _program(seed: int, watched: bool) -> str:
    body = "\n    ".join(_lines(random.Random(seed), 0))
    start = "x * 0.0" if watched else "gt.constant(0.0)"
    first = f"t, u, s = gt.constant(1.0), gt.constant(0.7), {start}"
    return f"def program(v, x, n):\n    {first}\n    {body}\n    return s + v\n"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("watched", [False, True], ids=["unwatched sum", "watched sum"])
def test_leaf_versions_by_turn_and_branch(seed, watched, request):
    counted(request, 1)
    program = loaded("import gradtape as gt\n" + _program(seed, watched))["program"]

    def derivatives(run, n):
        v, x = gt.Variable(1.25), gt.constant(0.7)
        with gt.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = run(v, x, gt.constant(n))
        return rounded([y, tape.gradient(y, v), tape.gradient(y, x)])

    @gt.function
    def inside(v, x, n):
        with gt.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = program(v, x, n)
        return y, tape.gradient(y, v), tape.gradient(y, x)

    outside = gt.function(program), gt.function(program, jit_compile=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gt.GradientWarning)
        for n in range(3):
            meant = derivatives(program, n)
            for function in outside:
                assert derivatives(function, n) == meant
            try:
                got = inside(gt.Variable(1.25), gt.constant(0.7), gt.constant(n))
            except gt.errors.UnimplementedError as error:
                if "only a run can tell" not in str(error):
                    raise
            else:
                assert rounded(got) == meant


def rounded(numbers: Any) -> list[float]:
    """No gradient counts as 0: in a branch that is not taken a program has zeros where eager code has nothing."""
    return [0.0 if number is None else round(float(number), 3) for number in numbers]
