"""Arrays for op samples: named value domains, reproducible, float64, away from each other's kinks.

Used only when tests ask an op for its samples, never at import.
"""

from __future__ import annotations

import functools

import numpy as np


@functools.cache
def _generator() -> np.random.Generator:
    """Made on first use: importing numpy.random takes longer than the rest of this package's import."""
    return np.random.default_rng(20240229)


def normal(*shape: int) -> np.ndarray:
    """Around zero, both signs."""
    return _generator().normal(size=shape)


def positive(*shape: int) -> np.ndarray:
    """Between 0.3 and 2.3."""
    return _generator().uniform(0.3, 2.3, size=shape)


def unit(*shape: int) -> np.ndarray:
    """Between -0.8 and 0.8: inside the domain of asin, atanh, erfinv."""
    return _generator().uniform(-0.8, 0.8, size=shape)


def away(*shape: int) -> np.ndarray:
    """Both signs, at least 0.4 away from zero."""
    return _generator().uniform(0.4, 2.0, size=shape) * _generator().choice([-1.0, 1.0], size=shape)


def spread(*shape: int) -> np.ndarray:
    """All values at least 0.2 apart, in random order: for max, sort and the like."""
    count = int(np.prod(shape, dtype=int))
    return (_generator().permutation(count) * 0.3 + _generator().uniform(0.0, 0.1, size=count) - count * 0.15).reshape(shape)


def integers(high: int, *shape: int) -> np.ndarray:
    """Integers in [0, high)."""
    return _generator().integers(0, high, size=shape)


def symmetric(*shape: int) -> np.ndarray:
    """Symmetric matrices (over the last two axes) with distinct eigenvalues."""
    a = _generator().normal(size=shape)
    return a + np.swapaxes(a, -1, -2) + np.diag(np.arange(shape[-1]) * 3.0)


def definite(*shape: int) -> np.ndarray:
    """Symmetric positive definite matrices over the last two axes."""
    a = _generator().normal(size=shape)
    return a @ np.swapaxes(a, -1, -2) + 2.0 * np.eye(shape[-1])
