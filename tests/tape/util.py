"""Small helpers of the tape tests: float64 tensors, exact comparisons, finite differences, and a tape that sweeps early."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np

import gradtape as gt
from gradtape.core.record import RecordList
from tests.harness.numeric import derivative

TOLERANCE = 1e-6  # against finite differences
EXACT = 1e-12  # two ways to the same number, float64


def wide(value):
    """A float64 (or complex128) tensor."""
    array = np.asarray(value)
    return gt.constant(array.astype(np.complex128 if array.dtype.kind == "c" else np.float64))


def close(actual, expected, tolerance=EXACT):
    """Same shape, same non-finite places, values within tolerance of their scale."""
    assert actual is not None, "the gradient is None"
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape, f"shape {actual.shape}, expected {expected.shape}"
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


def numeric_gradient(f, x):
    """Central differences of a scalar function of a float64 array, entry by entry."""
    x = np.asarray(x, np.float64)
    out = np.zeros(x.shape)
    for place in np.ndindex(x.shape):

        def moved(step, place=place):
            y = x.copy()
            y[place] += step
            return float(f(gt.constant(y)))

        out[place] = derivative(moved)
    return out


def tape_gradient(f, x):
    """The gradient of a scalar function of one tensor, by one tape."""
    x = wide(x)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return tape.gradient(y, x)


def second_gradient(f, x, weights):
    """The gradient of <gradient, weights>, by two nested tapes."""
    x = wide(x)
    with gt.GradientTape() as outer:
        outer.watch(x)
        with gt.GradientTape() as inner:
            inner.watch(x)
            y = f(x)
        s = gt.reduce_sum(inner.gradient(y, x) * weights)
    return outer.gradient(s, x)


def check_orders(f, x):
    """Order 1 against differences of the values, order 2 against differences of the gradient."""
    x = np.asarray(x, np.float64)
    close(tape_gradient(f, x), numeric_gradient(f, x), TOLERANCE)
    weights = np.cos(np.arange(x.size, dtype=np.float64)).reshape(x.shape)
    along = numeric_gradient(lambda t: gt.reduce_sum(tape_gradient(f, t.numpy()) * weights), x)
    close(second_gradient(f, x, weights), along, TOLERANCE)


@contextmanager
def sweeping_always(monkeypatch):
    """Every record triggers a sweep, so a record dropped too early shows at once."""
    with monkeypatch.context() as patch:
        patch.setattr(RecordList, "FLOOR", 0)
        yield
