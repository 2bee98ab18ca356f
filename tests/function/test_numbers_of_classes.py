"""Numbers of classes of their own, where the path decides which: members of an `IntEnum` stay who they are, others are refused.

Eager code knows the object; a program has its number. What follows from the number (`is`, `isinstance`, arithmetic) is the
same, and a number with operators of its own is an error, never a plain number.
"""

from __future__ import annotations

import enum
import itertools

import numpy as np
import pytest

import gradtape as gt
from tests.harness.seeds import in_sample


class Phase(enum.IntEnum):
    START = 1
    END = 2
    NEVER = 5


class Other(enum.IntEnum):
    START = 1
    END = 2


class Sly(enum.IntEnum):
    START = 1
    END = 2

    def __add__(self, other):
        return 100


class Count(int):
    def __add__(self, other):
        return Count(int(self) + int(other) + 100)


class Weight(float):
    pass


DECIDED = {
    "branch": "s = {a}\n    if x > 0: s = {b}",
    "expression": "s = {b} if x > 0 else {a}",
    "loop": "s = {a}\n    for i in gt.range(2):\n        if x > 0: s = {b}",
    "while": "s = {a}\n    y = x\n    while y > 0.0:\n        s = {b}\n        y = y - 1.0",
    "or None": "s = None\n    if x > 0: s = {b}",
    "or int": "s = 1\n    if x > 0: s = {b}",
}
USES = (
    "x * 2.0 if s is {b} else x * 3.0", "x * 2.0 if s is not {b} else x * 3.0", "x * 2.0 if s == {b} else x * 3.0",
    "x * 2.0 if isinstance(s, Phase) else x * 3.0", "x * 2.0 if type(s) is Phase else x", "x * s", "x * (s + 1)", "x * int(s)",
    "x * 2.0 if s in ({b},) else x", "x if s is None else x * 2.0", "x * 2.0 if s is Other.END else x * 3.0",
    "x if s < {b} else x * 7.0", "x * 2.0 if s is {b} and x > 0 else x", "s", "x * len({{s, 2, None}})", "x * hash(s)",
)  # fmt: skip
PAIRS = (("Phase.START", "Phase.END"), ("Sly.START", "Sly.END"), ("Count(3)", "Count(4)"), ("Weight(3)", "Weight(4)"))


def outcome(function, x):
    try:
        return np.asarray(function(gt.constant(x, gt.float64)), np.float64)
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        return type(error)


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_a_number_is_who_it_is_or_the_function_is_refused(a, b, tmp_path):
    right = 0
    for number, ((name, decided), use) in enumerate(itertools.product(DECIDED.items(), USES)):
        if not in_sample(f"{a} {name} {use}", 3):
            continue
        path = tmp_path / f"classes_{number}.py"
        path.write_text(f"def f(x):\n    {decided.format(a=a, b=b)}\n    return {use.format(b=b)}\n")
        space = {"gt": gt, **{kind.__name__: kind for kind in (Phase, Other, Sly, Count, Weight)}}
        exec(compile(path.read_text(), str(path), "exec"), space)
        call = gt.function(space["f"], jit_compile=False)
        for x in (2.0, -3.0):
            expected, given = outcome(space["f"], x), outcome(call, x)
            if not isinstance(given, type):  # else it was refused
                assert not isinstance(expected, type), path.read_text()
                assert np.array_equal(given, expected, equal_nan=True), path.read_text()
                right += 1
    assert right or not a.startswith("Phase")


def test_a_state_machine_of_an_enumeration():
    @gt.function
    def falls(x):
        phase, steps = Phase.START, 0
        while phase is not Phase.END:
            x = x * 0.5
            steps += 1
            if x < 1.0:
                phase = Phase.END
        return x * gt.cast(steps, x.dtype)

    x = gt.constant(8.0)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = falls(x)
    assert float(y) == 2.0
    assert float(tape.gradient(y, x)) == 0.25
