"""Tapes inside tapes: higher orders by nesting, variables read in either, targets and sources across levels."""

import numpy as np
import pytest

import gradtape as gt
from tests.tape.util import check_orders, close, wide


def test_second_derivative():
    x = gt.Variable(3.0)
    with gt.GradientTape() as outer:
        with gt.GradientTape() as inner:
            y = x**3
        g = inner.gradient(y, x)
    close(g, 27.0)
    close(outer.gradient(g, x), 18.0)


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5])
def test_derivatives_of_every_order(depth):
    def derivative(order, x):
        if order == 0:
            return gt.exp(2.0 * x)
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = derivative(order - 1, x)
        return tape.gradient(y, x)

    x = wide(0.3)
    close(derivative(depth, x), 2.0**depth * np.exp(0.6))


def test_inner_gradient_inside_the_inner_block():
    x = wide(2.0)
    with gt.GradientTape() as outer:
        outer.watch(x)
        with gt.GradientTape() as inner:
            inner.watch(x)
            y = x**4
            g = inner.gradient(y, x)
    close(g, 32.0)
    close(outer.gradient(g, x), 48.0)


def test_variables_read_in_the_outer_block_only():
    v, w = gt.Variable(2.0), gt.Variable(3.0)
    with gt.GradientTape() as outer:
        a = w * 5.0
        with gt.GradientTape() as inner:
            y = v**3 * a
        g = inner.gradient(y, v)
    gv, gw = outer.gradient(g, [v, w])
    close(gv, 6 * 2.0 * 15.0)
    close(gw, 3 * 4.0 * 5.0)


def test_a_variable_read_before_and_inside_the_inner_block():
    v = gt.Variable(2.0)
    with gt.GradientTape() as outer:
        a = v * 3.0
        with gt.GradientTape() as inner:
            y = a * v * v
        g = inner.gradient(y, v)  # a is a constant of the inner tape: 2·a·v
        z = g + v * 0.0
    close(g, 2 * 6.0 * 2.0)
    close(outer.gradient(z, v), 2 * (3.0 * 2.0 + 6.0))  # d(6v²)/dv


def test_gradient_norm_penalty():
    check_orders(lambda x: gt.reduce_sum(_inner(x) ** 2), [0.3, -0.7, 1.1])


def _inner(x):
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = gt.reduce_sum(gt.sin(x) * x[0])
    return tape.gradient(y, x)


def test_inner_tape_does_not_see_what_the_outer_did_before():
    x = wide(2.0)
    with gt.GradientTape() as outer:
        outer.watch(x)
        h = x * x
        with gt.GradientTape() as inner:
            inner.watch(x)
            y = h * x
        g = inner.gradient(y, x)
    close(g, 4.0)
    close(outer.gradient(g, x), 4.0)


def test_a_training_step_inside_a_tape():
    # one step of gradient descent, differentiated with respect to the learning rate and the start
    start, rate = wide(1.5), wide(0.1)
    with gt.GradientTape() as outer:
        outer.watch([start, rate])
        w = start
        for _ in range(3):
            with gt.GradientTape() as inner:
                inner.watch(w)
                loss = w**4
            w = w - rate * inner.gradient(loss, w)
        final = w**4
    g_start, g_rate = outer.gradient(final, [start, rate])

    def run(s, r):
        for _ in range(3):
            s = s - r * 4 * s**3
        return s**4

    h = 1e-6
    close(g_start, (run(1.5 + h, 0.1) - run(1.5 - h, 0.1)) / (2 * h), 1e-6)
    close(g_rate, (run(1.5, 0.1 + h) - run(1.5, 0.1 - h)) / (2 * h), 1e-6)


def test_outer_one_shot_tape_inside_an_inner_persistent_one():
    x = wide(2.0)
    with gt.GradientTape() as outer:
        outer.watch(x)
        with gt.GradientTape(persistent=True) as inner:
            inner.watch(x)
            y = x**4
        g = inner.gradient(y, x)
        h = inner.gradient(g, x)
    close(h, 48.0)
    close(outer.gradient(h, x), 48.0)


def test_sources_of_the_inner_tape_that_are_intermediates_of_the_outer():
    x = wide([1.0, 2.0])
    with gt.GradientTape() as outer:
        outer.watch(x)
        p = x * x
        with gt.GradientTape() as inner:
            inner.watch(p)
            y = gt.reduce_sum(gt.sin(p))
        g = inner.gradient(y, p)
        s = gt.reduce_sum(g)
    close(outer.gradient(s, x), -np.sin(x.numpy() ** 2) * 2 * x.numpy())


def test_exiting_tapes_out_of_order():
    x = wide(2.0)
    first, second = gt.GradientTape(), gt.GradientTape()
    first.__enter__()
    second.__enter__()
    first.watch(x)
    second.watch(x)
    y = x * x
    first.__exit__(None, None, None)
    z = y * x
    second.__exit__(None, None, None)
    close(second.gradient(z, x), 12.0)
    assert first.gradient(z, x) is None


def test_ten_tapes_at_once():
    x = wide(1.1)
    tapes = [gt.GradientTape() for _ in range(10)]
    for tape in tapes:
        tape.__enter__()
        tape.watch(x)
    y = x**3
    for tape in reversed(tapes):
        tape.__exit__(None, None, None)
    for tape in tapes:
        close(tape.gradient(y, x), 3 * 1.1**2)


def test_matrix_program_second_order():
    a = np.array([[1.0, 0.2], [0.3, 2.0]])
    check_orders(lambda x: gt.reduce_sum(gt.matmul(x, gt.matmul(x, gt.constant(a))) ** 2), [[0.5, 1.0], [-1.0, 0.25]])


def test_third_derivative_through_matmul_in_a_while_loop():
    w = np.array([[0.4, -0.3], [0.2, 0.5]])

    def f(x):
        _, y = gt.while_loop(
            lambda i, y: i < 3, lambda i, y: (i + 1, gt.tanh(gt.matmul(y, x))), (gt.constant(0), gt.ones((2, 2), gt.float64))
        )
        return gt.reduce_sum(y * y)

    def second(x):
        with gt.GradientTape() as outer:
            outer.watch(x)
            with gt.GradientTape() as inner:
                inner.watch(x)
                y = f(x)
            g = gt.reduce_sum(inner.gradient(y, x) ** 2)
        return outer.gradient(g, x)

    check_orders(lambda x: gt.reduce_sum(gt.sin(second(x))), w)


def test_foldl_second_order():
    check_orders(lambda x: gt.foldl(lambda a, e: a * gt.sin(e) + e, x), [0.3, 0.5, 0.9, 1.3])
