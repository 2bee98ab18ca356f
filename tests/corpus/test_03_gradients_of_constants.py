"""`gt.gradients` did not know what was computed from a constant made in the function (it was evaluated while tracing), nor from
a source that another source leads to, nor, in a loop, before the loop: None, silently."""

import numpy as np
import pytest

import gradtape as gt

THREE, N = gt.constant(3.0), gt.constant(3)


def _power(u, n):
    x = gt.constant(2.0)
    return gt.gradients(x**4, [x])


def _hessian(u, n):
    x = gt.constant(2.0)
    return gt.hessians(x**4, x)


def _ones(u, n):
    x = gt.ones([2])
    return gt.gradients(gt.reduce_sum(x * x * u), [x, u])


def _fill(u, n):
    x = gt.fill([2], 2.0)
    return gt.gradients(gt.reduce_sum(x * x * u), [x])


def _function_of_a_number(u, n):
    x = gt.square(2.0)
    return gt.gradients(x * x * u, [x])


def _range(u, n):
    x = gt.range(0.0, 1.5, 0.5)
    assert tuple(x.shape) == (3,)
    return gt.gradients(gt.reduce_sum(x * x * u), [x])


def _eye(u, n):
    x = gt.eye(2)
    return gt.gradients(gt.reduce_sum(x @ x * u), [x])


def _loop(u, n):
    x = gt.constant(2.0)
    y = x
    for _ in gt.range(n):
        y = y * x
    return gt.gradients(y, [x])


def _asked_in_a_loop(u, n):
    x = gt.constant(2.0)
    y = x * x * u
    total = gt.constant(0.0)
    for _ in gt.range(n):
        total = total + gt.gradients(y, [x])[0] + gt.gradients(y * u, [u])[0]
    return total


def _nested(u, n):
    @gt.function
    def inner(z):
        x = gt.constant(2.0)
        return gt.gradients(x * x * z, [x])

    return inner(u)


def _unconnected(u, n):
    x, z = gt.constant(2.0), gt.constant(3.0)
    return gt.gradients(x * x, [x, z])


def _one_leads_to_another(u, n):
    y = u * u
    z = y * u
    return gt.gradients(z, [u, y, z])


def _constants_too(u, n):
    x = gt.constant(2.0)
    y = x * x
    return gt.gradients(y * x, [x, y])


def _stopped(u, n):
    b = 2.0 * u
    return gt.gradients(u + b, [u, b], stop_gradients=[u, b])


def _its_value_is_known(u, n):
    x = gt.constant(2.0)
    y = x * 3.0
    assert float(y.numpy()) == 6.0
    assert np.asarray(y).tolist() == 6.0
    return gt.gradients(y * y, [x])


@pytest.mark.parametrize(
    ("f", "wanted"),
    [
        (_power, [32.0]), (_hessian, [48.0]), (_ones, [[6.0, 6.0], 2.0]), (_fill, [[12.0, 12.0]]),
        (_function_of_a_number, [24.0]), (_range, [[0.0, 3.0, 6.0]]), (_eye, [[[6.0, 6.0], [6.0, 6.0]]]), (_loop, [32.0]),
        (_asked_in_a_loop, [3 * (12.0 + 24.0)]), (_nested, [12.0]), (_unconnected, [4.0, None]),
        (_one_leads_to_another, [27.0, 3.0, 1.0]), (_constants_too, [12.0, 2.0]), (_stopped, [1.0, 1.0]),
        (_its_value_is_known, [36.0]),
    ],
    ids=lambda f: f.__name__ if callable(f) else "",
)  # fmt: skip
def test_gradients(f, wanted):
    for jit in (True, False):
        got = gt.nest.flatten(gt.function(f, jit_compile=jit)(THREE, N))
        assert [None if r is None else r.numpy().tolist() for r in got] == wanted


def test_a_watched_constant_has_its_value():
    def f(n):
        x = gt.constant(3.0)
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = x * x
            assert y.numpy() == 9.0
            z = gt.constant(1.0)
            for _ in gt.range(n):
                z = z * y
        return tape.gradient(z, x)

    assert float(gt.function(f)(N)) == float(f(N)) == 6 * 3.0**5
