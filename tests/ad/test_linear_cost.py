"""The cost of derivatives of loops, by counts: operations executed and bytes of new memory grow linearly with the length."""

# ruff: noqa: SIM108  (loops and branches as users write them)

from __future__ import annotations

import numpy as np
import pytest

import gradtape as gt
from tests.ad.counting import gradient_counts

LENGTHS = (40, 80, 160)


def state_in_a_scan(x, n):
    y = x[:2]
    for _ in gt.range(n):
        y = gt.sin(y) * 1.1
    return gt.reduce_sum(y)


def state_in_a_while(x, n):
    y, i = x[:2], gt.constant(0)
    while i < n:
        y = gt.sin(y) * 1.1
        i += 1
    return gt.reduce_sum(y)


def branch_in_a_loop(x, n):
    y = x[0]
    for i in gt.range(n):
        if y > 0.5:
            y = gt.sin(y)
        else:
            y = y + x[i]
    return y


def array_read(x, n):
    s = gt.constant(0.0, gt.float64)
    for i in gt.range(n):
        s = s * 0.9 + gt.sin(x[i])
    return s


def array_read_in_a_branch(x, n):
    s = gt.constant(0.0, gt.float64)
    for i in gt.range(n):
        if x[i] > 0.5:
            s = s + x[i] * x[i]
    return s


def array_filled(x, n):
    y = gt.zeros_like(x)
    for i in gt.range(n):
        y[i] = gt.sin(x[i])
    return gt.reduce_sum(y)


def array_filled_from_itself(x, n):
    y = gt.zeros_like(x)
    y[0] = x[0]
    for i in gt.range(1, n):
        y[i] = y[i - 1] * x[i]
    return gt.reduce_sum(y)


def array_filled_in_a_branch(x, n):
    y = gt.zeros_like(x)
    for i in gt.range(n):
        if x[i] > 0.5:
            y[i] = x[i] * x[i]
    return gt.reduce_sum(y)


def array_filled_in_a_while(x, n):
    y = gt.zeros_like(x)
    i = gt.constant(0)
    while i < n:
        y[i] = x[i] * 2.0
        i += 1
    return gt.reduce_sum(y * y)


def list_filled(x, n):
    out = []
    for i in gt.range(n):
        out.append(gt.sin(x[i]))
    return gt.reduce_sum(gt.stack(out))


def list_filled_and_read(x, n):
    out = []
    for i in gt.range(n):
        out.append(x[i] * x[i])
    s = gt.constant(0.0, gt.float64)
    for item in out:
        s = s * 0.5 + item
    return s


def list_filled_from_itself(x, n):
    out = [x[0], x[1]]
    for i in gt.range(2, n):
        out.append(out[i - 1] * x[i] + out[-2])
    return gt.reduce_sum(gt.stack(out))


def list_as_a_stack(x, n):
    out = [x[0]]
    for i in gt.range(n):
        if x[i] > 0.3:
            out.append(gt.sin(x[i]))
        else:
            last = out.pop()
            out.append(last * x[i])
    return gt.reduce_sum(gt.stack(out))


def tensor_array_filled(x, n):
    out = gt.TensorArray(gt.float64, size=n)
    for i in gt.range(n):
        out = out.write(i, x[i] * x[i])
    return gt.reduce_sum(out.stack())


def tensor_array_grown(x, n):
    out = gt.TensorArray(gt.float64, size=0, dynamic_size=True)
    for i in gt.range(n):
        out = out.write(i, x[i] * x[i])
    return gt.reduce_sum(out.stack())


FUNCTIONS = [
    state_in_a_scan, state_in_a_while, branch_in_a_loop, array_read, array_read_in_a_branch, array_filled,
    array_filled_from_itself, array_filled_in_a_branch, array_filled_in_a_while, list_filled, list_filled_and_read,
    list_filled_from_itself, list_as_a_stack, tensor_array_filled, tensor_array_grown,
]  # fmt: skip


def grows_linearly(small, medium, large):
    """Twice the length, twice as much: 5% more at most."""
    return large - medium <= 2.1 * (medium - small) + 64


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_gradient_is_linear(f):
    counts = [gradient_counts(f, np.linspace(0.1, 0.9, n), np.int32(n)) for n in LENGTHS]
    for place, part in enumerate(("the function", "forward", "backward")):
        for kind in ("operations", "bytes"):
            numbers = [getattr(found[place], kind) for found in counts]
            assert grows_linearly(*numbers), f"{kind} of {part} for lengths {LENGTHS}: {numbers}"


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_gradient_costs_a_few_times_the_function(f):
    """Executed operations of both halves together: at most ten times those of the function."""
    n = LENGTHS[-1]
    plain, forward, backward = gradient_counts(f, np.linspace(0.1, 0.9, n), np.int32(n))
    assert (forward + backward).operations <= 10 * plain.operations


def test_second_derivative_is_linear():
    def gradient(f):
        def g(x, n):
            with gt.GradientTape() as tape:
                tape.watch(x)
                y = f(x, n)
            return gt.reduce_sum(tape.gradient(y, x) ** 2)

        return g

    for f in (state_in_a_while, array_read, array_filled_from_itself, list_filled_and_read):
        counts = [gradient_counts(gradient(f), np.linspace(0.1, 0.9, n), np.int32(n)) for n in LENGTHS]
        for place in range(3):
            operations = [found[place].operations for found in counts]
            assert grows_linearly(*operations), f"{f.__name__}: {operations}"


def test_elements_of_a_matrix():
    """n² reads in two loops: n² operations and bytes, not n⁴."""

    def f(x, n):
        s = gt.constant(0.0, gt.float64)
        for i in gt.range(n):
            for j in gt.range(n):
                s = s + gt.sin(x[i, j])
        return s

    counts = [gradient_counts(f, np.ones((n, n)), np.int32(n)) for n in (5, 10, 20)]
    for kind in ("operations", "bytes"):
        numbers = [getattr(forward + backward, kind) for _, forward, backward in counts]
        assert numbers[2] - numbers[1] <= 4.6 * (numbers[1] - numbers[0]) + 64, f"{kind}: {numbers}"
