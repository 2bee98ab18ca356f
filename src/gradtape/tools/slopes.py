"""Slopes of a function of one number by differences, and whether the function has a kink there.

The forward and the backward difference of a smooth function differ by h times its second derivative; of one with a kink by a
constant. Invariant: a slope is given with the error it may have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

EPSILON = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Slope:
    """A derivative by central differences: its value, the error it may have, whether the function is smooth there, and if not
    the slopes on both sides, the lower one first."""

    value: float
    error: float
    smooth: bool
    sides: tuple[float, float]

    def agrees(self, exact: float, tolerance: float) -> bool | None:
        """Whether a derivative is this slope; at a kink whether it lies between the slopes of both sides, None if not."""
        if self.smooth:
            return abs(exact - self.value) <= tolerance + 10 * self.error
        low, high = self.sides  # NaN where the function is not finite: nothing agrees with that
        return True if low - tolerance <= exact <= high + tolerance else None


def slope_of(f: Callable[[float], float], h: float) -> Slope:
    """The slope of f at 0, from values at 0, ±h and ±h/2."""
    middle, ends, halves = f(0.0), (f(h), f(-h)), (f(h / 2), f(-h / 2))
    if not np.isfinite([middle, *ends, *halves]).all():
        return Slope(float("nan"), float("inf"), False, (float("nan"), float("nan")))
    wide = (ends[0] - ends[1]) / (2 * h)
    narrow = (halves[0] - halves[1]) / h
    size = max(abs(middle), abs(ends[0]), abs(ends[1]))
    # What rounding of the values makes of a quotient by h.
    noise = 20 * EPSILON * size / h
    value = (4 * narrow - wide) / 3  # the error of order h² cancels
    # The difference of the slopes on both sides is h·f'' where f is smooth, so it halves with h; at a kink it stays.
    jump = abs((ends[0] + ends[1] - 2 * middle) / h)
    half_jump = abs((halves[0] + halves[1] - 2 * middle) / (h / 2))
    kink = half_jump > 0.75 * jump and half_jump > 1e-3 * abs(value) + 4 * noise
    uneven = abs(wide - narrow) > 1e-2 * max(abs(wide), abs(narrow)) + 4 * noise
    sides = ((halves[0] - middle) / (h / 2), (middle - halves[1]) / (h / 2))
    return Slope(value, abs(narrow - wide) / 3 + noise, not kink and not uneven, (min(sides), max(sides)))
