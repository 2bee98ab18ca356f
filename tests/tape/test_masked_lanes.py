"""The unselected lane never poisons: orders 1 and 2, reverse and forward, batched; infinite cotangents stay."""

import numpy as np
import pytest

import gradtape as gt
from tests.tape.util import close, second_gradient, tape_gradient, wide

POINTS = np.array([-1.0, 0.0, 1.0, 4.0])


def root(x):
    return gt.where(x > 0, gt.sqrt(x), gt.zeros_like(x))


def reciprocal(x):
    return gt.where(x > 0, 1.0 / x, gt.ones_like(x))


def logarithm(x):
    return gt.where(x > 0, gt.math.log(x) if hasattr(gt, "math") else gt.log(x), gt.zeros_like(x))


def power(x):
    return gt.where(x > 0, x**-1.5, x)


def quotient(x):
    return gt.where(x > 0, gt.sin(x) / x, gt.ones_like(x))


CASES = {
    "sqrt": (root, [0, 0, 0.5, 0.25], [0, 0, -0.25, -0.25 / 8]),
    "reciprocal": (reciprocal, [0, 0, -1, -1 / 16], [0, 0, 2, 2 / 64]),
    "log": (logarithm, [0, 0, 1, 0.25], [0, 0, -1, -1 / 16]),
    "power": (power, [1, 1, -1.5, -1.5 * 4.0**-2.5], [0, 0, 3.75, 3.75 * 4.0**-3.5]),
    "quotient": (
        quotient,
        [0, 0, np.cos(1) - np.sin(1), np.cos(4) / 4 - np.sin(4) / 16],
        [0, 0, -np.sin(1) - 2 * np.cos(1) + 2 * np.sin(1), -np.sin(4) / 4 - np.cos(4) / 8 + np.sin(4) / 32],
    ),
}
cases = pytest.mark.parametrize(("f", "first", "second"), CASES.values(), ids=CASES)
quiet = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy about sqrt(-1) on the way forward: the user's choice


@quiet
@cases
def test_first_order(f, first, second):
    close(tape_gradient(lambda x: gt.reduce_sum(f(x)), POINTS), first)


@quiet
@cases
def test_second_order_by_nested_tapes(f, first, second):
    close(second_gradient(lambda x: gt.reduce_sum(f(x)), POINTS, np.ones(4)), second)


@quiet
@cases
def test_second_order_by_a_persistent_tape(f, first, second):
    x = wide(POINTS)
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = gt.reduce_sum(f(x))
    g = tape.gradient(y, x)
    close(g, first)
    close(tape.gradient(g, x), second)


@quiet
@cases
def test_jacobian_and_hessian(f, first, second):
    x = wide(POINTS)
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = f(x)
        s = gt.reduce_sum(y)
    close(tape.jacobian(y, x), np.diag(first))
    close(tape.hessian(s, x), np.diag(second))


@quiet
@cases
def test_forward_mode_along_directions_that_do_not_move_the_dead_lane(f, first, second):
    x, t = wide(POINTS), wide([0.0, 0.0, 1.0, 2.0])
    with gt.autodiff.ForwardAccumulator(x, t) as acc:
        y = f(x)
    close(acc.jvp(y), np.array(first) * t.numpy())


@quiet
@cases
def test_forward_mode_when_the_dead_lane_moves(f, first, second):
    x, t = wide(POINTS), wide([1.0, 1.0, 1.0, 2.0])
    with gt.autodiff.ForwardAccumulator(x, t) as acc:
        y = f(x)
    close(acc.jvp(y), np.array(first) * t.numpy())


@quiet
@cases
def test_batched(f, first, second):
    def per_example(x):
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        return tape.gradient(y, x)

    close(gt.vectorized_map(per_example, wide(POINTS)), first)
    x = wide(POINTS)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = gt.vectorized_map(f, x)
    close(tape.gradient(y, x), first)


def test_square_of_sine_by_every_route():
    def f(x):
        return gt.sin(x) ** 2

    x = wide(0.0)
    close(second_gradient(f, 0.0, 1.0), 2.0)
    close(gt.grad(gt.grad(f))(x), 2.0)
    close(gt.hessian(f)(x), 2.0)
    close(gt.hvp(f, [x], [wide(1.0)])[1][0], 2.0)
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = f(x)
    close(tape.gradient(tape.gradient(y, x), x), 2.0)
    with gt.autodiff.ForwardAccumulator(x, wide(1.0)) as outer:
        with gt.autodiff.ForwardAccumulator(x, wide(1.0)) as inner:
            y = f(x)
        d = inner.jvp(y)
    close(outer.jvp(d), 2.0)
    with gt.GradientTape() as tape:
        tape.watch(x)
        with gt.autodiff.ForwardAccumulator(x, wide(1.0)) as acc:
            y = f(x)
        d = acc.jvp(y)
    close(tape.gradient(d, x), 2.0)
    close(gt.vectorized_map(gt.grad(gt.grad(f)), wide([0.0, 0.0])), [2.0, 2.0])


def test_square_of_sine_beside_a_poisoned_lane():
    x = wide([0.0, 0.0])

    def f(t):
        safe = gt.sin(t[0]) ** 2
        return safe + gt.where(t[1] > 0, gt.sqrt(t[1]), t[1] * 0.0)

    close(second_gradient(f, x.numpy(), np.ones(2)), [2.0, 0.0])


def test_an_infinite_cotangent_is_never_masked():
    x = wide([1.0, 2.0])
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    g = tape.gradient(y, x, output_gradients=wide([np.inf, 1.0]))
    assert np.isinf(g.numpy()[0])
    close(g.numpy()[1], 4.0)


def test_a_nan_cotangent_is_never_masked():
    x = wide([0.0, 2.0])
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    g = tape.gradient(y, x, output_gradients=wide([np.nan, 1.0]))
    assert np.isnan(g.numpy()[0])


@quiet
def test_a_true_infinity_stays():
    close(tape_gradient(lambda x: gt.reduce_sum(gt.sqrt(x)), [0.0, 1.0]), [np.inf, 0.5])


@quiet
def test_a_true_nan_stays():
    g = tape_gradient(lambda x: gt.reduce_sum(gt.sqrt(x)), [-1.0, 1.0])
    assert np.isnan(g.numpy()[0])
    close(g.numpy()[1], 0.5)


@quiet
def test_two_masks_in_a_chain():
    def f(x):
        h = gt.where(x > 0, gt.sqrt(x), gt.zeros_like(x))
        return gt.reduce_sum(gt.where(h > 0, 1.0 / h, gt.zeros_like(h)))

    close(tape_gradient(f, POINTS), [0, 0, -0.5, -0.5 * 4.0**-1.5])


@quiet
def test_masked_by_multiplication_with_zero_follows_the_same_rule():
    x = wide(POINTS)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = gt.sqrt(x)
    g = tape.gradient(y, x, output_gradients=wide([0.0, 0.0, 1.0, 1.0]))
    close(g, [0.0, 0.0, 0.5, 0.25])
