"""Derivatives of samples: the value is given, its slope is implicit, so finite differences need the inverse distribution."""

import numpy as np
from scipy.special import gammainc, gammaincinv

import gradtape as gt
from gradtape.ops.random import REPARAMETERIZED_GAMMA
from tests.harness.numeric import derivative
from tests.harness.tolerances import FINITE_DIFFERENCE

ALPHA = np.array([0.7, 1.6, 3.2])
Z = np.array([0.4, 2.1, 2.5])


def sample_at(alpha: np.ndarray) -> np.ndarray:
    """The sample with the same value of the distribution function, for another alpha."""
    return gammaincinv(alpha, gammainc(ALPHA, Z))


def slope(alpha: np.ndarray) -> np.ndarray:
    """dz/dα by the op, at the sample that belongs to alpha."""
    x = gt.constant(alpha)
    with gt.GradientTape() as tape:
        tape.watch(x)
        z = REPARAMETERIZED_GAMMA.call(x, gt.constant(sample_at(alpha)))
    return tape.gradient(z, x).numpy()


def test_first_derivative() -> None:
    expected = derivative(lambda s: sample_at(ALPHA + s))
    np.testing.assert_allclose(slope(ALPHA), expected, rtol=FINITE_DIFFERENCE)


def test_second_derivative() -> None:
    x = gt.constant(ALPHA)
    with gt.GradientTape() as outer:
        outer.watch(x)
        with gt.GradientTape() as inner:
            inner.watch(x)
            z = REPARAMETERIZED_GAMMA.call(x, gt.constant(Z))
        first = inner.gradient(z, x)
    np.testing.assert_allclose(outer.gradient(first, x).numpy(), derivative(lambda s: slope(ALPHA + s)), rtol=FINITE_DIFFERENCE)
