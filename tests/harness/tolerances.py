"""Every tolerance of the generated tests, in one place, and the one comparison that uses them.

An error is compared with the tolerance times the scale of what was added up to get the result, so that cancellation in a
sum is not mistaken for a wrong rule, and a result of 1e8 is held to the same standard as one of 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

FINITE_DIFFERENCE = 1e-6  # a derivative against finite differences, float64
IDENTITY = 1e-12  # two ways to compute the same thing, float64
SINGLE = 3e-5  # a float32 result against the float64 one, per unit of its scale: 250 roundings
NATIVE_ULPS = 4.0  # a function in machine code against NumPy's or SciPy's, each of which may be two units of the last place off
ROUNDING = 1e-11  # what finite differences lose by rounding, per unit of the function's size: 2·eps/step with room


def same_number(actual: float, expected: float, tolerance: float, scale: float, what: str) -> None:
    """|actual - expected| <= tolerance · scale."""
    error = abs(actual - expected)
    limit = tolerance * max(scale, abs(expected))
    assert error <= limit, f"{what}: {actual!r} against {expected!r}, error {error:.3g} above {limit:.3g}"


def same_array(actual: Any, expected: Any, tolerance: float, what: str) -> None:
    """Equal shapes; NaN and infinities in the same places; elsewhere within tolerance of the array's scale."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape, f"{what}: shape {actual.shape} against {expected.shape}"
    if actual.dtype.kind not in "fc" or expected.dtype.kind not in "fc":
        assert np.array_equal(actual, expected), f"{what}: {actual} against {expected}"
        return
    finite = np.isfinite(expected)
    assert np.array_equal(np.isfinite(actual), finite), f"{what}: non-finite values differ: {actual} against {expected}"
    assert np.array_equal(actual[~finite], expected[~finite].astype(actual.dtype), equal_nan=True), (
        f"{what}: non-finite values differ: {actual} against {expected}"
    )
    if finite.any():
        error = float(np.max(np.abs(actual[finite] - expected[finite])))
        scale = max(1.0, float(np.max(np.abs(expected[finite]))))
        assert error <= tolerance * scale, f"{what}: error {error:.3g} at scale {scale:.3g}:\n{actual}\nagainst\n{expected}"
