"""Special functions as IR, in the manner of `math.py`: the error functions, the normal distribution, the gamma function.

Near their zeros, log Γ and ψ are as exact as elsewhere for positive arguments; for negative ones to a fixed number of digits.
"""

from __future__ import annotations

import math

from gradtape.backends.llvm.writing import polynomials
from gradtape.backends.llvm.writing.algebra import DOUBLE, SINGLE, Real, fast_two_sum, select, two_product, two_sum
from gradtape.backends.llvm.writing.math import exp_coarse, exp_parts, log, poly, quotient, sin, tan, two_parts

ROOT_HALF = (0.7071067811865476, -4.833646656726457e-17)  # √½ in two parts


def erf(x: Real) -> Real:
    """The error function."""
    f = x.format
    a = x.abs()
    near = a.fma(poly(a * a, polynomials.ERF), a)
    if f is SINGLE:
        p, scale = exp_coarse(-poly(a.at_most(4.0), polynomials.LOG_ERFC))
        return select(a > 1.0, (-scale).fma(p, 1.0 - scale), near).with_sign_of(x)
    limited = a.at_least(1.0).at_most(6.0)
    r, rest, bits = exp_parts(-poly(limited, polynomials.LOG_ERFC), f.bias)
    scale = (bits << f.digits).as_float()
    far = 1.0 - scale.fma(r + rest, scale)
    return select(a > 1.0, far, near).with_sign_of(x)


def erfcx(a: Real) -> Real:
    """exp(a²)·erfc(a) for 0 ≤ a ≤ 28 (10½ in float32)."""
    share = (a + a) / (a + 3.75)  # t + 1 with t = (a - 15/4)/(a + 15/4)
    over, low = fast_two_sum(a.number(1.0), share * poly(share - 1.0, polynomials.ERFCX))
    under, lost = two_sum(a.number(1.0), a + a)
    return quotient(over, low, under, lost)


def erfc_of(x: Real, low: Real | None = None) -> Real:
    """1 - erf(x + low), without cancellation, `low` being much smaller than x."""
    f = x.format
    a = x.abs().at_most(28.0 if f is DOUBLE else 10.5)
    factor = erfcx(a)
    square, square_low = two_product(a, a)
    if low is not None:
        # the slope of log erfc is -2/√π over exp(a²)·erfc(a)
        square_low = select(x < 0.0, -low, low).fma(2.0 / math.sqrt(math.pi) / factor, square_low)
    r, rest, bits = exp_parts(-square, 2 * f.bias)
    p = r + (rest - square_low.fma(r + rest, square_low))
    half = bits >> 1
    first, second = (half << f.digits).as_float(), ((bits - half) << f.digits).as_float()
    value = (p.fma(factor, factor) * first) * second
    return select(x < 0.0, 2.0 - value, value)


def erfc(x: Real) -> Real:
    """1 - erf(x)."""
    return erfc_of(x)


def ndtr(x: Real) -> Real:
    """The distribution function of the normal distribution."""
    # ½ erfc(-x/√2), with the digits of x/√2 that exp(-x²/2) shows
    root, rest = two_parts(x, ROOT_HALF)
    high, lost = two_product(x, -root)
    low = select(x.abs() < 40.0, x.fma(-rest, lost), 0.0)
    return erfc_of(high, low) * 0.5


# -- their inverses ------------------------------------------------------------------------------------------------------


def inverse(multiple: Real, tail: Real) -> Real:
    """y with erf(y) = multiple and erfc(|y|) = tail, given both so that neither lacks digits; float64."""
    out = tail < 0.025
    logarithm = log(select(out, tail, tail * (2.0 - tail)))
    central = multiple * poly(-logarithm, polynomials.ERFINV)
    # far out a first guess, and one step of Newton's method on log erfc(y) = log tail
    s = (-logarithm).sqrt()
    y = s * poly((s - 4.0) / (s + 4.0), polynomials.ERFCINV)
    factor = erfcx(y)
    square, lost = two_product(y, y)
    miss = ((logarithm + square) - log(factor)) + lost
    y = y - miss * (factor * (math.sqrt(math.pi) / 2))
    y = select((tail * 0.5).equals(0.0), select(tail < 0.0, y, tail.number(math.inf)), y)
    return select(out, y.with_sign_of(multiple), central)


def erfinv(x: Real) -> Real:
    """The inverse of erf."""
    return inverse(x, 1.0 - x.abs())


def erfcinv(x: Real) -> Real:
    """The inverse of erfc."""
    return inverse(1.0 - x, select(x < 1.0, x, 2.0 - x))


def ndtri(p: Real) -> Real:
    """The inverse of ndtr."""
    return inverse((p + p) - 1.0, 2.0 * select(p < 0.5, p, 1.0 - p)) * math.sqrt(2.0)


# -- the gamma function --------------------------------------------------------------------------------------------------

HALF_LOG_TAU = 0.9189385332046728  # ½ log 2π
DIGAMMA_ZERO = (1.4616321449683622, 9.549995429965697e-17)  # in two parts


def lgamma(x: Real) -> Real:
    """log |Γ(x)|; float64."""
    # Γ(x) = Γ(x + 1)/x for small x, (x - 1)Γ(x - 1) for x in (2, 3), Γ(2 - a)/(a(1 - a)) for x = -a in (-1, 0)
    a = x.abs()
    below = (x < 0.0) & (a < 1.0)
    low, high, far = a < 1.0, a > 2.0, a >= 3.0
    offset = select(below, 1.0 - a, select(low, a, select(high, a - 2.0, a - 1.0)))  # from 1, where log Γ is 0, exactly
    offset = select(far, x.number(0.5), offset)
    near = (offset * (offset - 1.0)) * poly(offset - 0.5, polynomials.LGAMMA)
    shift = log(select(below, a * (1.0 - a), select(high & ~far, a - 1.0, select(low | far, a, x.number(1.0)))))
    near = near + select(low, -shift, select(high, shift, x.number(0.0)))
    inverse = 1.0 / a
    rest = (HALF_LOG_TAU - 0.5) + inverse * poly(inverse * inverse, polynomials.STIRLING)
    value = select(far, (a - 0.5).fma(shift - 1.0, rest), near)
    # Γ(-a)Γ(a) = -π/(a sin πa)
    turn = sin((a - a.call("rint")) * math.pi).abs()
    mirrored = select(turn > 0.0, log(math.pi / (a * turn)) - value, math.inf)
    mirrored = select(a < math.inf, mirrored, x)  # as SciPy has it
    return select(x <= -1.0, mirrored, value)


def digamma(x: Real) -> Real:
    """The derivative of log Γ; float64."""
    # ψ(x) = ψ(1 - x) - π cot πx, ψ(x) = ψ(x + 1) - 1/x
    a = select(x < 0.0, 1.0 - x, x)
    low, high, far = a < 1.0, a > 2.0, a >= 3.0
    place = select(low, a + 1.0, select(high, a - 1.0, a))
    place = select(far, x.number(1.5), place)
    near = ((place - DIGAMMA_ZERO[0]) - DIGAMMA_ZERO[1]) * poly(place - 1.5, polynomials.DIGAMMA)
    inverse = 1.0 / select(high & ~far, a - 1.0, a)
    near = near + select(low, -inverse, select(high, inverse, x.number(0.0)))
    square = inverse * inverse
    distant = log(a) - inverse.fma(0.5, square * poly(square, polynomials.DIGAMMA_FAR))
    value = select(far, distant, near)
    turn = x - x.call("rint")
    mirrored = value - math.pi / tan(turn * math.pi)
    return select(x < 0.0, select(turn.equals(0.0), x.number(math.nan), mirrored), value)
