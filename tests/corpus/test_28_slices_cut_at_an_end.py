"""`y[i : i + n]` in a loop, cut at an end of the axis in some turns: shorter there, as in Python.

The difference of the bounds was taken for the length in every turn, and turns that are cut were refused when they came: the
last, smaller batch of `for i in range(0, rows, batch)`, windows that reach beyond the ends. Where the number of turns is known,
so is whether one is cut.
"""

from __future__ import annotations

import itertools
from random import Random

import pytest

import gradtape as gt
from tests.corpus.modes import agree

POINT = [0.7, -0.4, 1.1, 0.2, -0.8, 0.5, 0.9, -0.3, 0.6]


def _last_batch(x):
    rows, weights = gt.reshape(gt.tile(x, [5]), (15, 3)), gt.ones((3, 2), gt.float64) * 0.1
    for i in range(0, 15, 2):
        batch = rows[i : i + 2]
        weights = weights - 0.1 * gt.matmul(batch, gt.matmul(batch, weights), transpose_a=True) / len(batch)
    return weights


def _windows(x):
    total = 0.0
    for i in gt.range(9):
        total = total * 0.9 + gt.reduce_mean(x[i : i + 4])
    return total


def _before_the_beginning(x):
    total = 0.0
    for i in range(12):  # x[-3:1] is empty: a negative bound counts from the end
        total = total * 0.9 + gt.reduce_sum(x[i - 3 : i + 1] ** 2)
    return total


def _changed_in_place(x):
    y = x * 1.0
    for i in range(9):
        y[i : i + 4] = y[i : i + 4] * 0.5 + 0.1 * i
    return y


def _left_before_it_is_cut(x):
    total = gt.zeros(4, gt.float64)
    for i in range(9):
        if i + 4 > 9:
            break
        total = total * 0.5 + x[i : i + 4]
    for i in range(9):
        if i + 4 <= 9:
            total = total + x[i : i + 4] ** 2
    return total


@pytest.mark.parametrize(
    "function",
    [_last_batch, _windows, _before_the_beginning, _changed_in_place, _left_before_it_is_cut],
    ids=lambda f: f.__name__[1:],
)
def test_program(function):
    agree(function, (POINT,))


def test_random_bounds():
    random = Random(28)
    for _, kind in itertools.product(range(12), ("range", "gt.range")):
        start, step, count = random.randint(-4, 10), random.choice([-3, -2, -1, 1, 2, 3]), random.randint(6, 12)
        offset, length = random.randint(-4, 4), random.randint(0, 6)
        numbers = f"{kind}({start}, {start + step * count}, {step})"
        bounds = random.choice(
            [f"i + {offset} : i + {offset + length}", f"{offset} - i : {offset + length} - i", f"2 * i : 2 * i + {length}"]
        )
        body = f"for i in {numbers}:\n        total = total * 0.9 + gt.reduce_sum(x[{bounds}] ** 2)"
        source = f"def f(x):\n    total = 0.0\n    {body}\n    return total\n"
        agree(written(source), (POINT,), order=1, modes=("interpreted",) if random.random() < 0.7 else ("native",))


def written(source):
    """The function of a source that can be read again."""
    import linecache

    name = f"<slices {hash(source)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    space = {"gt": gt}
    exec(compile(source, name, "exec"), space)
    return space["f"]
