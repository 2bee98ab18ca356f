"""An item of a list of the program that was replaced by one of another size: its gradient failed or was wrong, and machine
code wrote the longer item over what lay behind the shorter one. The cotangent of the list that was has zeros of the old
item's sizes; a list whose items' sizes are open from some operation on is another list in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradtape as gt
from tests.corpus.modes import agree, compare, compiled, derivatives
from tests.harness.seeds import in_sample

X = np.array([0.3, -0.7, 1.1])
FLOAT = gt.float64
OPEN = 3  # of so many programs one is machine code for unknown sizes, too


def rows_of(x: Any, n: Any) -> Any:
    rows = []
    for i in gt.range(n):
        rows.append(x * gt.cast(i + 1, FLOAT))
    return rows


def each_grows(x, n):
    rows = rows_of(x, n)
    for i in gt.range(n):
        rows[i] = gt.concat([rows[i], x * rows[i]], 0)
    s = gt.constant(0.0, FLOAT)
    for r in rows:
        s += gt.reduce_sum(gt.sin(r))
    return s


def grows_again_and_again(x, n):
    rows = []
    for _ in gt.range(n):
        rows.append(x[:1])
    for i in gt.range(n):
        for _ in gt.range(i + 1):
            rows[i] = gt.concat([rows[i], gt.sin(x[:1] * rows[i][:1])], 0)
    s = gt.constant(0.0, FLOAT)
    for i in gt.range(n):
        s += gt.reduce_sum(rows[i] ** 3)
    return s


def shrinks_then_grows(x, n):
    rows = rows_of(x, n)
    for i in gt.range(n):
        rows[i] = rows[i][:2] * x[1:]
    for _ in gt.range(n):
        rows[0] = gt.concat([rows[0], rows[-1]], 0)
    return gt.reduce_sum(gt.sin(gt.concat([rows[0], rows[1]], 0)))


def of_lists_of_python(x, n):
    rows = [x, x * 2.0]
    i = 0
    while gt.reduce_sum(rows[0] ** 2) < 5.0:
        rows[i % 2] = gt.concat([rows[i % 2], gt.cos(rows[1 - i % 2])], 0)
        i += 1
    return gt.reduce_sum(gt.sin(rows[0])) + gt.reduce_sum(rows[1] ** 3)


def changed_and_replaced(x, n):
    rows = rows_of(x, n)
    for i in gt.range(n):
        rows[i][0] = x[1] * x[2]
        rows[i] = gt.stack([rows[i][0], x[0]])
    return gt.reduce_sum(gt.stack(rows) ** 2)


def after_the_loop(x, n):
    rows = rows_of(x, n)
    rows[0] = gt.concat([x, x, x, x, x, x, x], 0)
    rows.append(gt.concat([x, rows[0]], 0))
    rows.append(x[:1])
    return gt.reduce_sum(rows[-1] ** 2) + gt.reduce_sum(rows[-2] ** 3) + gt.reduce_sum(rows[0] ** 3) + gt.reduce_sum(rows[1])


def on_one_side(x, n):
    rows = rows_of(x, n)
    if n > 2:
        rows.pop()
        rows[0] = gt.concat([x, x, x, x, x, x, x], 0)
    else:
        rows[1] = rows[1][:2] * x[:2]
    for i in gt.range(n):
        if i > 1:
            rows.append(x[:1] * x[1])
        else:
            rows[1] = gt.concat([rows[1], x[i:]], 0)
    return gt.reduce_sum(rows[-1] ** 2) + gt.reduce_sum(rows[-2] ** 2) + gt.reduce_sum(rows[0] ** 3)


def lists_that_grow(x, n):
    rows = []
    for i in gt.range(n):
        row = []
        for j in gt.range(i + 1):
            row.append(x[j] * x)
        rows.append(row)
    for i in gt.range(n):
        for j in gt.range(i + 1):
            rows[i].append(rows[i][j] * x[i])
    s = gt.constant(0.0, FLOAT)
    for i in gt.range(n):
        for r in rows[i]:
            s += gt.reduce_sum(r * r)
    return s


def lists_that_grow_and_change(x, n):
    rows = []
    for _ in gt.range(n):
        rows.append([x * 1.0])
    for i in gt.range(n):
        rows[i].append(x * x)
        rows[i][0] = gt.sin(x)
    s = gt.constant(0.0, FLOAT)
    for i in gt.range(n):
        for r in rows[i]:
            s += gt.reduce_sum(r * r)
    return s


def lists_replaced_by_longer_ones(x, n):
    rows = []
    for _ in gt.range(n):
        row = []
        for j in gt.range(2):
            row.append(x[j])
        rows.append(row)
    for i in gt.range(n):
        rows[i].append(rows[i][0] * x[i])
        rows[i][0] = rows[i][2] * rows[i][1]
        rows[i] = rows[i] + [x[2]]
    s = gt.constant(0.0, FLOAT)
    for i in gt.range(n):
        s += gt.reduce_sum(gt.stack(rows[i]) ** 3)
    return s


def lists_of_tensors_of_any_size(x, n):
    rows = []
    for i in gt.range(n):
        row = []
        for j in gt.range(i + 1):
            row.append(x[j:])
        rows.append(row)
    for i in gt.range(n):
        rows[i].append(gt.concat([rows[i][0], x[:1] * x[1]], 0))
    s = gt.constant(0.0, FLOAT)
    for i in gt.range(n):
        for r in rows[i]:
            s += gt.reduce_sum(r * r * r)
    return s


PROGRAMS = (
    each_grows, grows_again_and_again, shrinks_then_grows, of_lists_of_python, changed_and_replaced, after_the_loop,
    on_one_side,
    lists_that_grow, lists_that_grow_and_change, lists_replaced_by_longer_ones, lists_of_tensors_of_any_size,
)  # fmt: skip
named = pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)


@named
def test_tapes_outside(program):
    agree(program, (X, np.int32(3)))


@pytest.mark.parametrize("program", PROGRAMS[::3], ids=lambda f: f.__name__)
def test_tapes_inside(program):
    def inside(x, n):
        with gt.GradientTape() as outer:
            outer.watch(x)
            with gt.GradientTape() as inner:
                inner.watch(x)
                y = program(x, n)
            g = inner.gradient(y, x)
            z = gt.reduce_sum(g * gt.constant([1.0, 2.0, -1.0], FLOAT))
        return y, g, outer.gradient(z, x)

    agree(inside, (X, np.int32(3)), order=0, modes=["interpreted"])


@named
def test_unknown_sizes_and_forward_mode(program):
    signature = [gt.TensorSpec([None], FLOAT), gt.TensorSpec([], gt.int32)]
    given = (X, np.int32(3))
    # machine code of each program is in `test_tapes_outside`: there, too, the items have sizes that are known when it runs
    native = in_sample(program.__name__, OPEN)
    way = gt.function(program, input_signature=signature, jit_compile=native)
    compare(derivatives(way, given, 1), derivatives(program, given, 1), program.__name__)
    slopes = []
    for call in (program, compiled(program, "interpreted")):
        x = gt.constant(X)
        with gt.autodiff.ForwardAccumulator(x, gt.constant([0.5, -1.0, 2.0], FLOAT)) as accumulator:
            y = call(x, gt.constant(3))
        slopes.append([np.asarray(accumulator.jvp(y))])
    compare(slopes[1:], slopes[:1], program.__name__)


def test_examples_of_a_map():
    rows = gt.constant(np.stack([X, X * 0.5]))

    def slope(x):
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = each_grows(x, gt.constant(3)) + lists_that_grow(x, gt.constant(2))
        return tape.gradient(y, x)

    expected = np.stack([slope(row) for row in rows])
    for mapped in (lambda: gt.vectorized_map(slope, rows), gt.function(lambda: gt.vectorized_map(slope, rows))):
        np.testing.assert_allclose(mapped(), expected, rtol=1e-12)
