"""Numerical derivatives and real inner products: what rules are compared with.

A sixth-order central difference: with step 1e-3 both its truncation and its rounding stay far below the tolerance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

STEP = 1e-3
_WEIGHTS = ((1, 45.0 / 60.0), (2, -9.0 / 60.0), (3, 1.0 / 60.0))


def derivative(function: Callable[[float], Any]) -> Any:
    """d/ds function(s) at s = 0; the value may be a number or an array."""
    total: Any = 0.0
    for steps, weight in _WEIGHTS:
        total = total + weight * (function(steps * STEP) - function(-steps * STEP))
    return total / STEP


def inner(a: Any, b: Any) -> float:
    """Re⟨a, b⟩: the real inner product, in which the cotangent of z = x + iy is ∂L/∂x + i ∂L/∂y."""
    return float(np.sum(np.real(np.conj(a) * b)))


def inner_all(left: Any, right: Any) -> float:
    """The sum of the inner products of two lists."""
    return sum(inner(a, b) for a, b in zip(left, right, strict=True))


def size_all(left: Any, right: Any) -> float:
    """The size of what `inner_all` adds up: Σ |a|·|b|."""
    return sum(float(np.sum(np.abs(a) * np.abs(b))) for a, b in zip(left, right, strict=True))


def random_like(generator: np.random.Generator, value: Any) -> Any:
    """Numbers between -1 and 1 with the shape of `value`; complex if it is."""
    out = generator.uniform(-1.0, 1.0, size=np.shape(value))
    if np.asarray(value).dtype.kind == "c":
        out = out + 1j * generator.uniform(-1.0, 1.0, size=np.shape(value))
    return out if out.ndim else out[()]
