"""The gradient of a gradient on one persistent tape, inside a function or `vectorized_map`: the first gradient was taken for a
constant."""

import numpy as np
import pytest

import gradtape as gt


def _twice(x):
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        g = tape.gradient(x * x, x)
        z = g * x
    return tape.gradient(z, x)


def _after_the_block(x):
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x * x
    g = tape.gradient(y, x)
    return tape.gradient(g, x)


def _three_times(x):
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        g = tape.gradient(x**4.0, x)
        h = tape.gradient(g, x)
    return tape.gradient(h, x)


def _jacobian(x):
    row = gt.stack([x, 2.0 * x])
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(row)
        y = row * row * row
        j = tape.jacobian(y, row)
        z = gt.reduce_sum(j * j)
    return gt.reduce_sum(tape.gradient(z, row))


@pytest.mark.parametrize("f", [_twice, _after_the_block, _three_times, _jacobian])
def test_everywhere(f):
    x = gt.constant(0.7)
    wanted = float(f(x))
    assert float(gt.function(f)(x)) == pytest.approx(wanted, rel=1e-6)
    assert float(gt.function(f, jit_compile=False)(x)) == pytest.approx(wanted, rel=1e-6)
    rows = gt.constant([0.7, 0.2])
    each = [float(f(row)) for row in rows]
    np.testing.assert_allclose(gt.vectorized_map(f, rows).numpy(), each, rtol=1e-6)
    np.testing.assert_allclose(gt.function(lambda r: gt.vectorized_map(f, r))(rows).numpy(), each, rtol=1e-6)


def test_of_a_constant():
    def f():
        return _twice(gt.constant(0.7))

    assert float(f()) == pytest.approx(2.8)
    assert float(gt.function(f)()) == pytest.approx(2.8)
