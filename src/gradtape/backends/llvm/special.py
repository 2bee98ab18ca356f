"""Special functions as IR, in the manner of `math.py`: the error functions and the normal distribution."""

from __future__ import annotations

import math

from gradtape.backends.llvm.algebra import DOUBLE, Real, fast_two_sum, select, two_product, two_sum
from gradtape.backends.llvm.math import exp_parts, poly, quotient

ROOT_HALF = (0.7071067811865476, -4.833646656726457e-17)  # √½ in two parts


def erf(x: Real) -> Real:
    """The error function."""
    f = x.format
    a = x.abs()
    near = a.fma(poly(a * a, "erf"), a)
    limited = a.at_least(1.0).at_most(6.0 if f is DOUBLE else 4.0)
    r, rest, bits = exp_parts(-poly(limited, "log_erfc"), f.bias)
    scale = (bits << f.digits).as_float()
    far = 1.0 - scale.fma(r + rest, scale)
    return select(a > 1.0, far, near).with_sign_of(x)


def erfc_of(x: Real, low: Real | None = None) -> Real:
    """1 - erf(x + low), without cancellation, `low` being much smaller than x; float64."""
    f = x.format
    a = x.abs().at_most(28.0)
    # exp(-a²) · g/(1 + 2a)
    share = (a + a) / (a + 3.75)  # t + 1 with t = (a - 15/4)/(a + 15/4)
    g, g_low = fast_two_sum(x.number(1.0), share * poly(share - 1.0, "erfcx"))
    under, lost = two_sum(x.number(1.0), a + a)
    factor = quotient(g, g_low, under, lost)
    square, square_low = two_product(a, a)
    if low is not None:
        # the slope of log erfc is -2/√π over exp(a²)·erfc(a)
        square_low = select(x < 0.0, -low, low).fma(2.0 / math.sqrt(math.pi) / factor, square_low)
    r, rest, bits = exp_parts(-square, 2 * f.bias)
    p = r + (rest - square_low.fma(r + rest, square_low))
    half = bits >> 1
    first, second = (half << f.digits).as_float(), ((bits - half) << f.digits).as_float()
    found = (p.fma(factor, factor) * first) * second
    return select(x < 0.0, 2.0 - found, found)


def erfc(x: Real) -> Real:
    """1 - erf(x)."""
    return erfc_of(x)


def ndtr(x: Real) -> Real:
    """The distribution function of the normal distribution."""
    # ½ erfc(-x/√2), with the digits of x/√2 that exp(-x²/2) shows
    high, lost = two_product(x, -ROOT_HALF[0])
    low = select(x.abs() < 40.0, x.fma(-ROOT_HALF[1], lost), 0.0)
    return erfc_of(high, low) * 0.5
