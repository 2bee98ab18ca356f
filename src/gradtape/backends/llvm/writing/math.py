"""Elementary functions as IR: polynomials after a reduction of the argument, without branches, so that loops use vectors.

Every function holds for all arguments: subnormal numbers, signed zeros, infinities and NaN give what NumPy gives, within
2 units in the last place. Functions of float32 that are seldom used are computed in float64. Some methods hold for ordinary
arguments only (`LIMITED`: the sine of numbers beyond 2⁴⁰ needs more digits of π): whoever calls them watches for the others.
"""

from __future__ import annotations

import math

import numpy as np

from gradtape.backends.llvm.writing import polynomials
from gradtape.backends.llvm.writing.algebra import (
    DOUBLE,
    SINGLE,
    Flag,
    Real,
    Whole,
    choose,
    fast_two_sum,
    polynomial,
    select,
    two_product,
    two_sum,
)
from gradtape.backends.llvm.writing.polynomials import Polynomial

FAR = 2.0**40  # up to here sin, cos and tan reduce their argument correctly
LN2 = {  # in two parts: the first has zeros at its end, so that its product with an exponent is exact
    52: (0.6931471805598903, 5.497923018708371e-14),
    23: (0.693145751953125, 1.4286068203094173e-06),
}
HUGE = 710.5  # sinh and cosh of this are infinite in float64
HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)  # π/2 in three parts


def poly(x: Real, coefficients: Polynomial) -> Real:
    """A polynomial, with the coefficients for the format of x."""
    return polynomial(x, coefficients[x.format.digits])


def small_as_is(x: Real, value: Real, order: int = 2) -> Real:
    """x itself where f(x) = x + O(x^(1 + order)) is x to all digits: keeps -0 and subnormal numbers."""
    return select(x.abs() < 2.0 ** -(x.format.digits // order + 2), x, value)


def quotient(over: Real, over_low: Real | float, under: Real, under_low: Real | float) -> Real:
    """(over + over_low) / (under + under_low), to less than a unit in the last place; `under` neither tiny nor infinite."""
    inverse = 1.0 / under
    q = over * inverse
    rest = q.exact_fma(-under, over) + over_low if isinstance(over_low, Real) else q.exact_fma(-under, over)
    return (q.fma(-under_low, rest) if isinstance(under_low, Real) else rest).fma(inverse, q)


# -- exponentials ------------------------------------------------------------------------------------------------------


def exp_reduced(x: Real, offset: int) -> tuple[Real, Real, Whole]:
    """x - n·log 2 but for the low part of log 2, n, and an integer whose low bits are n + offset; |x| < 2¹¹."""
    rounder = x.format.rounder + offset
    shifted = x.fma(1.0 / math.log(2.0), rounder)
    n = shifted - rounder
    return n.fma(-LN2[x.format.digits][0], x), n, shifted.as_bits()


def exp_parts(x: Real, offset: int) -> tuple[Real, Real, Whole]:
    """eˣ = 2ⁿ(1 + r + s) with s much smaller than r: r, s, and an integer whose low bits are n + offset; |x| < 2¹¹."""
    near, n, bits = exp_reduced(x, offset)
    low = LN2[x.format.digits][1]
    r = n.fma(-low, near)
    return r, (r * r).fma(poly(r, polynomials.EXP), n.fma(-low, near - r)), bits


def exp(x: Real) -> Real:
    """eˣ."""
    f = x.format
    low, high = {23: (-104.0, 89.0), 52: (-746.0, 710.0)}[f.digits]
    near, n, bits = exp_reduced(x.at_most(high).at_least(low), 2 * f.bias)
    r = n.fma(-LN2[f.digits][1], near)
    return scaled((r * r).fma(poly(r, polynomials.EXP), r), bits)


def scaled(p: Real, bits: Whole) -> Real:
    """(1 + p) · 2ⁿ, the low bits being n + 2·bias: in two steps, since 2ⁿ may be subnormal or infinite."""
    f = p.format
    half = bits >> 1
    first, second = (half << f.digits).as_float(), ((bits - half) << f.digits).as_float()
    return p.fma(first, first) * second


def expm1_parts(x: Real, less: int) -> tuple[Real, Real]:
    """(eˣ - 1) / 2^less in two parts, finite a little longer than eˣ is; x ≥ -40."""
    f = x.format
    r, rest, bits = exp_parts(x, f.bias - less)
    scale = (bits << f.digits).as_float()
    high, low = fast_two_sum(scale - 2.0**-less, scale * r)
    return high, scale.fma(rest, low)


def expm1(x: Real) -> Real:
    """eˣ - 1."""
    high, low = expm1_parts(x.at_most({23: 89.0, 52: 710.0}[x.format.digits]).at_least(-40.0), 1)
    return small_as_is(x, (high + low) * 2.0, order=1)


def exp_coarse(x: Real) -> tuple[Real, Real]:
    """eˣ = s·p + s to a few units in the last place: p and s; for float32 and where 2ⁿ is normal, no further from 0 than 60."""
    rounder = x.format.rounder + x.format.bias
    shifted = x.fma(1.0 / math.log(2.0), rounder)
    r = (shifted - rounder).fma(-math.log(2.0), x)
    return (r * r).fma(poly(r, polynomials.EXP), r), (shifted.as_bits() << x.format.digits).as_float()


def tanh_single(x: Real) -> Real:
    """Hyperbolic tangent in float32: where it is above ½, 1 - 2/(e²ˣ + 1) has digits enough."""
    a = x.abs()
    z = a * a
    near = (a * z).fma(poly(z, polynomials.TANH), a)
    p, scale = exp_coarse((a + a).at_most(20.0))
    far = 1.0 - 2.0 / p.fma(scale, scale + 1.0)
    return select(a < 0.55, near, far).with_sign_of(x)


def tanh(x: Real) -> Real:
    """Hyperbolic tangent."""
    if x.format is SINGLE:
        return tanh_single(x)
    # tanh x = (e²ˣ - 1) / (e²ˣ + 1)
    a = x.abs().at_most(22.0)
    over, low = fast_two_sum(*expm1_parts(a + a, 0))
    under, lost = two_sum(over, x.number(2.0))
    return small_as_is(x, quotient(over, low, under, lost + low).with_sign_of(x))


def sinh(x: Real) -> Real:
    """Hyperbolic sine."""
    # with h = (eˣ - 1)/2: sinh x = h + h/(2h + 1)
    a = x.abs()
    h, low = expm1_parts(a.at_most(HUGE), 2)
    h, low = fast_two_sum(h * 2.0, low * 2.0)
    value = h + (h / (h + h + 1.0) + low)
    value = select(h < math.inf, value, h)
    return small_as_is(x, value.with_sign_of(x))


def cosh(x: Real) -> Real:
    """Hyperbolic cosine."""
    # with e = eˣ/2: cosh x = e + 1/(4e)
    f = x.format
    r, rest, bits = exp_parts(x.abs().at_most(HUGE), f.bias - 2)
    scale = (bits << f.digits).as_float()
    e = scale.fma(r + rest, scale) * 2.0
    return e + 0.25 / e


# -- logarithms --------------------------------------------------------------------------------------------------------


def split(x: Real) -> tuple[Real, Whole]:
    """x = 2ᵉ·m, √½ ≤ m < √2, for normal x > 0: m, and e + bias."""
    f = x.format
    one = f.bias << f.digits
    root = {23: 0x3F3504F3, 52: 0x3FE6A09E667F3BCD}[f.digits]
    moved = x.as_bits() + (one - root)
    m = (moved & ((1 << f.digits) - 1)) + root
    return m.as_float(), moved >> f.digits


def whole_as_float(e: Whole, minus: Real | float) -> Real:
    """A small non-negative integer as a number, less another."""
    f = e.format
    return (e | ((f.bias + f.digits) << f.digits)).as_float() - minus


def log_of_parts(f: Real, e: Real, low: Real | None = None) -> Real:
    """e·log 2 + log(1 + f + low), √½ ≤ 1 + f ≤ √2."""
    high, tail = LN2[f.format.digits]
    half = f * f * 0.5
    if f.format is SINGLE:
        rest = e.fma(tail, (f * f * f) * poly(f, polynomials.LOG))
    else:
        s = f / (f + 2.0)
        z = s * s
        rest = s.fma(z.fma(poly(z, polynomials.ARTANH), half), e * tail)
    if low is not None:
        rest = rest + low.fma(-f, low)
    return e.fma(high, f - (half - rest))


def log_limits(x: Real, value: Real) -> Real:
    """-inf at 0, NaN below, infinity and NaN as they are."""
    value = select(x < math.inf, value, x)
    # the sum overflows where x ≤ 0, for the processor to note it; from constants LLVM would compute it now, and nobody would
    outside, low = x <= 0.0, x - (2.0 - 2.0**-x.format.digits) * 2.0**x.format.bias
    value = select(outside, low, value) + select(outside, low, 0.0)
    return select(x < 0.0, x.number(math.nan), value)


def _parts(x: Real) -> tuple[Real, Real]:
    """Mantissa and exponent of x > 0, of a subnormal one too."""
    f = x.format
    tiny = x < 2.0 ** (1 - f.bias)
    up = f.digits + 2
    m, e = split(select(tiny, x * 2.0**up, x))
    offset = 2.0**f.digits + f.bias
    return m, whole_as_float(e, choose(tiny, x, offset + up, offset))


def log(x: Real) -> Real:
    """Natural logarithm."""
    m, exponent = _parts(x)
    return log_limits(x, log_of_parts(m - 1.0, exponent))


def log1p(x: Real, low: Real | None = None) -> Real:
    """log(1 + x + low)."""
    f = x.format
    u = x + 1.0
    lost = select(x < 1.0, x - (u - 1.0), 1.0 - (u - x))
    m, e = split(u)
    direct = e.equals(f.bias)
    if low is not None:
        lost, low = lost + low, select(direct, low, x.number(0.0))
    fraction = select(direct, x, lost.fma(inverse_scale(e) * 0.5, m - 1.0))
    value = log_of_parts(fraction, whole_as_float(e, 2.0**f.digits + f.bias), low)
    return small_as_is(x, log_limits(u, value), order=1)


def inverse_scale(e: Whole) -> Real:
    """2¹⁻ᵉ for e + bias; 0 for the largest e."""
    f = e.format
    return (((e ^ -1) + (2 * f.bias + 2)) << f.digits).as_float()


def asinh(x: Real) -> Real:
    """Inverse hyperbolic sine."""
    # log1p(a + a²/(1 + √(1 + a²))); far out log(2a)
    a = x.abs()
    far = a > 2.0**500
    root = a.fma(a, 1.0).sqrt()
    near = a + a * a / (root + 1.0)
    value = log1p(select(far, a, near)) + choose(far, x, math.log(2.0), 0.0)
    return small_as_is(x, value.with_sign_of(x))


def acosh(x: Real) -> Real:
    """Inverse hyperbolic cosine."""
    # with t = x - 1: log1p(t + √(t² + 2t)); far out log(2x)
    far = x > 2.0**500
    t = x - 1.0
    square, lost = two_product(t, t)
    v, vl = two_sum(t + t, square)
    root = v.sqrt()
    low = (root.exact_fma(-root, v) + (vl + lost)) * (0.5 / root)
    near, more = two_sum(root, t)
    low = select(far | t.equals(0.0), x.number(0.0), low + more)
    value = log1p(select(far, x, near), low) + choose(far, x, math.log(2.0), 0.0)
    return select(x >= 1.0, value, math.nan)


def atanh(x: Real) -> Real:
    """Inverse hyperbolic tangent."""
    # ½ log1p(2a/(1 - a)), with 2a/(1 - a) = 2a + 2a²/(1 - a) for small a
    a = x.abs()
    near = a < 0.5
    twice = a + a
    quotient = select(near, twice * a, twice) / (1.0 - a)
    value = log1p(select(near, twice + quotient, quotient)) * 0.5
    return small_as_is(x, select(a > 1.0, x.number(math.nan), value).with_sign_of(x))


# -- sine, cosine, tangent ---------------------------------------------------------------------------------------------


def quarter_turns(x: Real) -> tuple[Real, Real | None, Whole]:
    """x = n·π/2 + h + l for |x| < FAR: h, l (None if h alone is exact enough), and an integer whose low bits are n."""
    wide = x.as_format(DOUBLE)
    rounder = DOUBLE.rounder
    shifted = wide.fma(2.0 / math.pi, rounder)
    n = shifted - rounder
    # exact: both are multiples of the last place of π/2, and so is their difference, which is below 1
    rest = n.exact_fma(-HALF_PI[0], wide)
    if x.format is SINGLE:
        return n.exact_fma(-HALF_PI[1], rest).as_format(SINGLE), None, shifted.as_bits().resized(SINGLE.whole)
    part, lost = two_product(n, HALF_PI[1])
    h, low = two_sum(rest, -part)
    return h, n.fma(-HALF_PI[2], low - lost), shifted.as_bits()


def sin_near(h: Real, low: Real | None) -> tuple[Real, Real]:
    """sin(h + low) in two parts, |h| ≤ π/4."""
    z = h * h
    cubic = (h * z) * poly(z, polynomials.SIN)
    if low is not None:
        cubic = cubic + low.fma(z * -0.5, low)
    return h, cubic


def cos_near(h: Real, low: Real | None) -> tuple[Real, Real]:
    """cos(h + low) in two parts, |h| ≤ π/4."""
    z = h * h
    half = z * 0.5
    top = 1.0 - half
    rest = (z * z) * poly(z, polynomials.COS)
    if low is not None:
        rest = h.fma(-low, rest)
    return top, ((1.0 - top) - half) + rest


def _turned(value: Real, turns: Whole) -> Real:
    """The sign of the half-plane."""
    return (value.as_bits() ^ ((turns & 2) << (value.format.bits - 2))).as_float()


def sin(x: Real) -> Real:
    """Sine, for |x| < FAR."""
    h, low, turns = quarter_turns(x)
    odd = (turns & 1).equals(1)
    (s, more), (c, rest) = sin_near(h, low), cos_near(h, low)
    return small_as_is(x, _turned(select(odd, c, s) + select(odd, rest, more), turns))


def cos(x: Real) -> Real:
    """Cosine, for |x| < FAR."""
    h, low, turns = quarter_turns(x)
    odd = (turns & 1).equals(1)
    (s, more), (c, rest) = sin_near(h, low), cos_near(h, low)
    return _turned(select(odd, s, c) + select(odd, more, rest), turns + 1)


def tan(x: Real) -> Real:
    """Tangent, for |x| < FAR."""
    h, low, turns = quarter_turns(x)
    odd = (turns & 1).equals(1)
    s, c = fast_two_sum(*sin_near(h, low)), fast_two_sum(*cos_near(h, low))
    over, over_low = [select(odd, b, a) for a, b in zip(s, c, strict=True)]
    under, under_low = [select(odd, -a, b) for a, b in zip(s, c, strict=True)]
    return small_as_is(x, quotient(over, over_low, under, under_low))


# -- their inverses ----------------------------------------------------------------------------------------------------


def two_parts(x: Real, exact: tuple[float, float]) -> tuple[float, float]:
    """A constant given in two float64 parts, in two parts of the format of x."""
    if x.format is DOUBLE:
        return exact
    high = float(np.float32(exact[0]))
    return high, exact[0] - high + exact[1]


def _arcsine_parts(x: Real) -> tuple[Flag, Real, Real]:
    """Whether |x| > ½; then s = √((1 - |x|)/2), else |x|; and arcsin(s) - s."""
    a = x.abs()
    far = a > 0.5
    z = select(far, (1.0 - a) * 0.5, a * a)
    s = select(far, z.sqrt(), a)
    return far, s, (s * z) * poly(z, polynomials.ASIN)


def asin(x: Real) -> Real:
    """Arc sine."""
    # far out arcsin a = π/2 - 2 arcsin √((1 - a)/2)
    far, s, rest = _arcsine_parts(x)
    high, low = two_parts(x, HALF_PI[:2])
    outer = high - ((s + s) - (low - (rest + rest)))
    return small_as_is(x, select(far, outer, s + rest).with_sign_of(x))


def acos(x: Real) -> Real:
    """Arc cosine."""
    far, s, rest = _arcsine_parts(x)
    high, low = two_parts(x, HALF_PI[:2])
    near = high - (s.with_sign_of(x) - (low - rest.with_sign_of(x)))
    outer = (s + rest) * 2.0
    turned = 2.0 * (high - (s - (low - rest)))
    return select(far, select(x < 0.0, turned, outer), near)


def _arctangent(t: Real) -> Real:
    """arctan t - t, |t| ≤ tan π/8."""
    z = t * t
    return (t * z) * poly(z, polynomials.ATAN)


def atan(x: Real) -> Real:
    """Arc tangent."""
    # arctan a = π/4 + arctan (a - 1)/(a + 1) = π/2 + arctan -1/a
    a = x.abs().at_most(2.0**100)
    middle, far = a > math.tan(math.pi / 8), a > math.tan(3 * math.pi / 8)
    above, lost = fast_two_sum(x.number(1.0), a)
    over = select(far, x.number(-1.0), select(middle, a - 1.0, a))
    under = select(far, a, select(middle, above, x.number(1.0)))
    t = quotient(over, 0.0, under, select(middle ^ far, lost, x.number(0.0)))
    high, low = two_parts(x, HALF_PI[:2])
    base = select(far, x.number(high), choose(middle, x, high / 2, 0.0))
    more = select(far, x.number(low), choose(middle, x, low / 2, 0.0))
    return small_as_is(x, (base + (t + (_arctangent(t) + more))).with_sign_of(x))


def atan2(y: Real, x: Real) -> Real:
    """The angle of the point (x, y)."""
    f = x.format
    across, along = x.abs(), y.abs()
    steep = along > across
    large, small = select(steep, along, across), select(steep, across, along)
    # so that neither their sum nor an inverse overflows
    scale = select(large > 2.0 ** (f.bias - 3), x.number(2.0**-4), choose(large < 2.0 ** (4 - f.bias), x, 2.0**100, 1.0))
    a, b = small * scale, large * scale
    middle = (a > b * math.tan(math.pi / 8)) | small.equals(math.inf)
    total, lost = fast_two_sum(b, a)
    under, under_low = select(middle, total, b), select(middle, lost, x.number(0.0))
    t = quotient(select(middle, a - b, a), 0.0, under, under_low)
    t = select(small.equals(large) | large.equals(math.inf), choose(small.is_nan(), x, math.nan, 0.0), t)
    # the angle is m·π/4 + arctan t or m·π/4 - arctan t
    behind = (x.as_bits() >> (f.bits - 1)).equals(1)
    m = choose(middle, x, 1.0, 0.0)
    m = select(steep, 2.0 - m, m)
    m = select(behind, 4.0 - m, m)
    high, low = two_parts(x, HALF_PI[:2])
    base, lost = two_product(m, high / 2)
    more = m.fma(low / 2, lost)
    back = steep ^ behind
    turn = t + (_arctangent(t) + select(back, -more, more))
    return (base + select(back, -turn, turn)).with_sign_of(y)


# -- powers ------------------------------------------------------------------------------------------------------------


def log_in_two_parts(x: Real) -> tuple[Real, Real]:
    """log x for a finite float64 x > 0, to about 2⁻⁶⁵ of its value."""
    m, exponent = _parts(x)
    # s = (m - 1)/(m + 1), log m = 2s + ⅔s³ + …: the first two terms in two parts
    over, under = m - 1.0, m + 1.0
    lost = m - (under - 1.0)
    inverse = 1.0 / under
    s = over * inverse
    sl = (s.exact_fma(-under, over) - s * lost) * inverse
    z, zl = two_product(s, s)
    zl = (s + s).fma(sl, zl)
    cube, cl = two_product(s, z)
    cl = cl + s.fma(zl, sl * z)
    third, tl = two_product(cube, 2.0 / 3.0)
    tl = tl + cl.fma(2.0 / 3.0, cube * 3.700743415417188e-17)  # what 2/3 lacks as a float64
    high, low = LN2[52]
    fifth = (cube * z) * polynomial(z, polynomials.ARTANH5[52])
    a, al = fast_two_sum(exponent * high, s + s)
    b, bl = fast_two_sum(a, third)
    return fast_two_sum(b, ((al + bl) + (sl + sl)) + (tl + exponent.fma(low, fifth)))


def pow(x: Real, y: Real) -> Real:
    """xʸ in float64."""
    high, low = log_in_two_parts(x.abs())
    exponent, lost = two_product(y, high)
    lost = select(exponent.abs() > 1000.0, x.number(0.0), y.fma(low, lost))
    r, rest, bits = exp_parts(exponent.at_most(1000.0).at_least(-1000.0), 2 * DOUBLE.bias)
    return power_limits(x, y, scaled(r + (rest + lost.fma(r + rest, lost)), bits))


def pow_single(x: Real, y: Real) -> Real:
    """float32 powers: float64 has digits enough for exp(y log x)."""
    m, e = split(x.as_format(DOUBLE).abs())
    over = m - 1.0
    s = over / (over + 2.0)
    z = s * s
    # log m = 2s + s³·P(s²)
    log_x = whole_as_float(e, 2.0**52 + DOUBLE.bias).fma(math.log(2.0), s.fma(z * poly(z, polynomials.ARTANH_SHORT), s + s))
    exponent = (y.as_format(DOUBLE) * log_x).at_most(150.0).at_least(-150.0)
    near, n, bits = exp_reduced(exponent, DOUBLE.bias)
    r = n.fma(-LN2[52][1], near)
    scale = (bits << 52).as_float()
    value = (r * r).fma(poly(r, polynomials.EXP_SHORT), r).fma(scale, scale)
    return power_limits(x, y, value.as_format(SINGLE))


def power_limits(x: Real, y: Real, value: Real) -> Real:
    """xʸ for all x and y, given |x|ʸ for positive finite |x|."""
    a = x.abs()
    edge = a.equals(0.0) | a.equals(math.inf)
    falls = a.equals(0.0) ^ (y < 0.0)
    value = select(edge, choose(falls, x, 0.0, math.inf), value)
    whole = y.floor().equals(y)
    half = y * 0.5
    odd = whole & half.floor().differs(half)
    negative = (x.as_bits() >> (x.format.bits - 1)).equals(1)
    value = select(negative & odd, -value, value)
    value = select((x < 0.0) & ~whole & ~edge, x.number(math.nan), value)
    value = select(x.is_nan() | y.is_nan(), x + y, value)
    one = x.equals(1.0) | y.equals(0.0) | (a.equals(1.0) & y.abs().equals(math.inf))
    return select(one, x.number(1.0), value)


# -- remainders --------------------------------------------------------------------------------------------------------


def fmod(a: Real, b: Real) -> Real:
    """a - b·n, n being a/b towards zero; exact for |a/b| < 2⁵²."""
    wide, under = a.as_format(DOUBLE), b.as_format(DOUBLE)
    n = (wide / under).call("trunc")
    rest = n.exact_fma(-under, wide)
    # a quotient that was rounded up to a whole number
    over = ((rest < 0.0) & (wide > 0.0)) | ((rest > 0.0) & (wide < 0.0))
    rest = select(over, rest + under.abs().with_sign_of(wide), rest)
    rest = select(under.abs().equals(math.inf) & (wide.abs() < math.inf), wide, rest)
    return rest.with_sign_of(wide).as_format(a.format)


def too_far(x: Real) -> Flag:
    """Where sin, cos and tan do not hold."""
    size = x.abs()
    return (size > FAR) & (size < math.inf)


def long_quotient(a: Real, b: Real) -> Flag:
    """Where fmod does not hold."""
    wide, under = a.as_format(DOUBLE), b.as_format(DOUBLE)
    fits = (wide / under).abs() < 2.0**52
    return ~fits & (wide.abs() < math.inf) & (under.abs() > 0.0)
