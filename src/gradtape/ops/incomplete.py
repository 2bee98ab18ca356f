"""Incomplete gamma and beta functions and the Hurwitz zeta function, with derivatives in every argument, of any order.

A derivative in a shape parameter has no closed form. It is the integral (or sum) of the differentiated density, and is
an op of its own with the order as attribute: differentiating raises the order, differentiating in x gives the density.

* gamma and beta: the tail on the side of x away from the mode, in the variable log t (logit t), by the double
  exponential rule of Takahasi and Mori, "Double exponential formulas for numerical integration" (1974), with the map
  exp(u - exp(-u)) for one-sided exponential decay;
* zeta: Euler-Maclaurin summation in truncated power series of s.

First derivatives are accurate to about 1e-9, second ones to 1e-7 (for shape parameters down to 1e-5), relative to their
size; values are computed in float64 and rounded to the dtype of the inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from gradtape.core import inference
from gradtape.core.dispatch import apply
from gradtape.core.opdef import Op, Rule, Sample, elementwise
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Array, TensorLike
from gradtape.ops.sampling import positive, unit
from gradtape.ops.special import as_floats, polygamma, scipy_function

_CHUNK = 2048  # elements integrated at once: bounds the memory of the quadrature


def in_double(name: str) -> Rule:
    """An impl on scipy.special for several arguments, in the dtype of its inputs."""

    def impl(*values: Array) -> Array:
        out = scipy_function(name)(*values)
        dtype = np.result_type(*values)
        return out if out.dtype == dtype else out.astype(dtype)[()]

    return impl


@cache
def _tail_rule() -> tuple[Any, Any]:
    """Nodes and weights for ∫₀^∞ f(δ) dδ with f decaying like exp(-δ)."""
    # δ = exp(u - e^-u): the nodes crowd doubly exponentially towards 0 and grow exponentially towards ∞, where f has decayed.
    # The trapezoidal rule in u then converges faster than any power of the step.
    step = 0.025
    u = np.arange(-4.2, 6.7, step)
    nodes = np.exp(u - np.exp(-u))
    return nodes, nodes * (1.0 + np.exp(-u)) * step


def _lanewise(function: Callable[..., Any], *values: Array) -> Array:
    """Broadcast, run `function` on flat float64 chunks, and shape the result as NumPy would."""
    dtype = np.result_type(*values)
    lanes = np.broadcast_arrays(*(np.asarray(v, np.float64) for v in values))
    flat = [lane.ravel() for lane in lanes]
    out = np.empty(flat[0].size)
    with np.errstate(all="ignore"):
        for start in range(0, out.size, _CHUNK):
            part = slice(start, start + _CHUNK)
            out[part] = function(*(lane[part] for lane in flat))
    return out.reshape(lanes[0].shape).astype(dtype)[()]


def _psi(n: int, x: Array) -> Array:
    return scipy_function("psi")(x) if n == 0 else scipy_function("polygamma")(n, x)


def bell(slopes: Mapping[tuple[int, int], Any], i: int, j: int) -> Tensor | float:
    """B with ∂ⁱ∂ʲ exp(g) = B·exp(g), from slopes[p, q] = ∂ᵖ∂ᵠ g (a complete Bell polynomial in two variables)."""
    if i == 0 and j == 0:
        return 1.0
    total: Any = 0.0
    if i:
        for p in range(i):
            for q in range(j + 1):
                weight = float(math.comb(i - 1, p) * math.comb(j, q))
                total = total + bell(slopes, i - 1 - p, j - q) * slopes[p + 1, q] * weight
    else:
        for q in range(j):
            total = total + bell(slopes, 0, j - 1 - q) * slopes[0, q + 1] * float(math.comb(j - 1, q))
    return total


# -- incomplete gamma function ---------------------------------------------------------------------------------------


def gamma_density(a: Tensor, x: Tensor) -> Tensor:
    """d/dx P(a, x) = x^(a-1) exp(-x) / Γ(a)."""
    return exp(xlogy(a - 1.0, x) - x - lgamma(a))


def _gamma_tail(order: int) -> Callable[..., Any]:
    def integrate(a: Array, x: Array) -> Array:
        delta, weights = _tail_rule()
        # P and Q = 1 - P have opposite derivatives, so the tail without the mode (near t = a) is integrated: the density decays
        # monotonically there, and nothing cancels.
        lower = (x < a) | (x < 0.05)
        # How fast the density decays away from x in w = log t: its logarithmic slope there is a - t. At the mode that is 0, and
        # the width √x of the peak takes over. Scaled by this rate, every case decays like exp(-δ).
        rate = np.maximum(np.abs(a - x), np.where(lower, np.minimum(np.sqrt(x), a), np.sqrt(x)))
        rate = np.where(lower & (x >= a), a, rate)[:, None]
        side = np.where(lower, -1.0, 1.0)[:, None]
        w = np.log(x)[:, None] + side * delta / rate  # w = log t
        slopes = {(1, 0): w - _psi(0, a)[:, None]}
        slopes |= {(k, 0): -_psi(k - 1, a)[:, None] for k in range(2, order + 1)}
        density = np.exp(a[:, None] * w - np.exp(w) - scipy_function("gammaln")(a)[:, None])
        # The polynomial in front may have overflowed where the density is 0 already: 0·inf is 0 here.
        terms = np.where(density == 0, 0.0, density * bell(slopes, order, 0))
        total = -side[:, 0] * np.sum(terms * weights, 1) / rate[:, 0]
        total = np.where((x == 0) | np.isposinf(x), 0.0, total)
        return np.where((a > 0) & (x >= 0), total, np.nan)

    return integrate


def gamma_slopes(a: Tensor, x: Tensor, order: int) -> dict[tuple[int, int], Tensor]:
    """Derivatives in a of log density: log x - ψ(a), -ψ'(a), …"""
    slopes = {(1, 0): log(x) - digamma(a)}
    for k in range(2, order + 1):
        slopes[k, 0] = -polygamma(zeros_like(a) + (k - 1.0), a)
    return slopes


def _shape_and_x() -> list[Sample]:
    return [
        Sample(positive(3, 2), positive(3, 2)),
        Sample(positive(2, 1) + 3.0, positive(3)),
        Sample(positive(), positive() + 4.0),
        Sample(positive(0), positive(0)),
        Sample(positive(2), positive(3), raises=(ValueError, "broadcast")),
    ]


def _gamma(name: str, function: str, sign: float, call: Rule) -> Op:
    below = sign > 0  # the complement has the opposite derivatives
    return elementwise(
        name, "a x", in_double(function),
        (lambda a, x: igamma_da(a, x, 1)) if below else (lambda a, x: -igamma_da(a, x, 1)),
        (lambda a, x: gamma_density(a, x)) if below else (lambda a, x: -gamma_density(a, x)),
        floating=True, infer=inference.elementwise_float, call=call, samples=_shape_and_x,
    )  # fmt: skip


def igamma(a: TensorLike, x: TensorLike, name: str | None = None) -> Tensor:
    """The regularised lower incomplete gamma function P(a, x); differentiable in both arguments.

    >>> gt.math.igamma(1.0, 1.0).numpy()
    np.float32(0.63212055)
    """
    return apply(IGAMMA, *as_floats(a, x))


def igammac(a: TensorLike, x: TensorLike, name: str | None = None) -> Tensor:
    """The regularised upper incomplete gamma function Q(a, x) = 1 - P(a, x)."""
    return apply(IGAMMAC, *as_floats(a, x))


def igamma_da(a: Tensor, x: Tensor, order: int) -> Tensor:
    """The derivative of P(a, x) of the given order in a."""
    return apply(IGAMMA_DA, a, x, order=order)


IGAMMA = _gamma("igamma", "gammainc", 1.0, igamma)
IGAMMAC = _gamma("igammac", "gammaincc", -1.0, igammac)
IGAMMA_DA: Op = elementwise(
    "igamma_da", "a x",
    lambda a, x, *, order: _lanewise(_gamma_tail(order), a, x),
    lambda a, x, order: igamma_da(a, x, order + 1),
    lambda a, x, order: gamma_density(a, x) * bell(gamma_slopes(a, x, order), order, 0),
    floating=True, infer=inference.elementwise_float,
    call=lambda a, x, order: apply(IGAMMA_DA, *as_floats(a, x), order=order),
    samples=lambda: [Sample(positive(3), positive(3), 1), Sample(positive(2, 1) + 2.0, positive(2) + 1.0, 2)],
)  # fmt: skip

# -- incomplete beta function ----------------------------------------------------------------------------------------


def beta_density(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """d/dx I_x(a, b) = x^(a-1) (1-x)^(b-1) / B(a, b)."""
    return exp(xlogy(a - 1.0, x) + xlog1py(b - 1.0, -x) - lgamma(a) - lgamma(b) + lgamma(a + b))


def _beta_tail(orders: tuple[int, int]) -> Callable[..., Any]:
    i, j = orders

    def integrate(a: Array, b: Array, x: Array) -> Array:
        delta, weights = _tail_rule()
        total = a + b
        # The mean a/(a + b) divides the two tails, as above; the variable is the logit, in which both ends decay exponentially.
        lower = x * total < a
        bend = np.minimum(np.sqrt(total * x * (1.0 - x)), np.where(lower, a, b))
        rate = np.maximum(np.abs(a - total * x), bend)[:, None]
        side = np.where(lower, -1.0, 1.0)[:, None]
        w = (np.log(x) - np.log1p(-x))[:, None] + side * delta / rate  # w = logit t
        # log t and log(1 - t) from the logit, neither of which cancels near 0 or 1.
        log_t, log_rest = -np.logaddexp(0.0, -w), -np.logaddexp(0.0, w)
        slopes: dict[Any, Any] = {}
        for p in range(i + 1):
            for q in range(j + 1):
                if p + q:
                    slope = _psi(p + q - 1, total) - (_psi(p - 1, a) if q == 0 else 0.0) - (_psi(q - 1, b) if p == 0 else 0.0)
                    slopes[p, q] = slope[:, None]
        if i:
            slopes[1, 0] = slopes[1, 0] + log_t
        if j:
            slopes[0, 1] = slopes[0, 1] + log_rest
        density = np.exp(a[:, None] * log_t + b[:, None] * log_rest - scipy_function("betaln")(a, b)[:, None])
        terms = np.where(density == 0, 0.0, density * bell(slopes, i, j))
        out = -side[:, 0] * np.sum(terms * weights, 1) / rate[:, 0]
        out = np.where((x == 0) | (x == 1), 0.0, out)
        return np.where((a > 0) & (b > 0) & (x >= 0) & (x <= 1), out, np.nan)

    return integrate


def beta_slopes(a: Tensor, b: Tensor, x: Tensor, i: int, j: int) -> dict[tuple[int, int], Tensor]:
    """Derivatives of the log density in a (p times) and b (q times)."""
    slopes = {}
    zero = zeros_like(a + b)
    for p in range(i + 1):
        for q in range(j + 1):
            if p + q:
                slope = polygamma(zero + (p + q - 1.0), a + b)
                if q == 0:
                    slope = slope - polygamma(zero + (p - 1.0), a)
                if p == 0:
                    slope = slope - polygamma(zero + (q - 1.0), b)
                slopes[p, q] = slope
    if i:
        slopes[1, 0] = slopes[1, 0] + log(x)
    if j:
        slopes[0, 1] = slopes[0, 1] + log1p(-x)
    return slopes


def betainc(a: TensorLike, b: TensorLike, x: TensorLike, name: str | None = None) -> Tensor:
    """The regularised incomplete beta function I_x(a, b); differentiable in all three arguments.

    >>> gt.math.betainc(1.0, 2.0, 0.5).numpy()
    np.float32(0.75)
    """
    return apply(BETAINC, *as_floats(a, b, x))


def betainc_dab(a: Tensor, b: Tensor, x: Tensor, i: int, j: int) -> Tensor:
    """The derivative of I_x(a, b), i times in a and j times in b."""
    return apply(BETAINC_DAB, a, b, x, i=i, j=j)


def _fractions(*shape: int) -> Array:
    return unit(*shape) * 0.5 + 0.5


BETAINC = elementwise(
    "betainc", "a b x",
    in_double("betainc"),
    lambda a, b, x: betainc_dab(a, b, x, 1, 0),
    lambda a, b, x: betainc_dab(a, b, x, 0, 1),
    lambda a, b, x: beta_density(a, b, x),
    floating=True, infer=inference.elementwise_float,
    samples=lambda: [
        Sample(positive(3, 2), positive(3, 2), _fractions(3, 2)),
        Sample(positive(2, 1) + 2.0, positive(3), _fractions()),
        Sample(positive(), positive(), _fractions()),
        Sample(positive(0), positive(0), _fractions(0)),
        Sample(positive(2), positive(3), _fractions(2), raises=(ValueError, "broadcast")),
    ],
)  # fmt: skip
BETAINC_DAB: Op = elementwise(
    "betainc_dab", "a b x",
    lambda a, b, x, *, i, j: _lanewise(_beta_tail((i, j)), a, b, x),
    lambda a, b, x, i, j: betainc_dab(a, b, x, i + 1, j),
    lambda a, b, x, i, j: betainc_dab(a, b, x, i, j + 1),
    lambda a, b, x, i, j: beta_density(a, b, x) * bell(beta_slopes(a, b, x, i, j), i, j),
    floating=True, infer=inference.elementwise_float,
    call=lambda a, b, x, i, j: apply(BETAINC_DAB, *as_floats(a, b, x), i=i, j=j),
    samples=lambda: [
        Sample(positive(3), positive(3), _fractions(3), 1, 0),
        Sample(positive(2) + 1.0, positive(2), _fractions(2), 1, 1),
    ],
)  # fmt: skip

# -- Hurwitz zeta function -------------------------------------------------------------------------------------------

_TERMS = 16  # summed one by one before the Euler-Maclaurin tail
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330)


def _times(p: Sequence[Array], q: Sequence[Array]) -> list[Array]:
    """Product of two power series, cut at their length."""
    return [sum(p[m] * q[k - m] for m in range(k + 1)) for k in range(len(p))]


def _zeta_series(order: int) -> Callable[..., Any]:
    size = order + 1

    def power(u: Array, s: Array) -> list[Array]:  # u^-(s+ε) as a series in ε
        lead, step = u**-s, -np.log(u)
        return [lead * step**m / math.factorial(m) for m in range(size)]

    def linear(value: Array) -> list[Array]:
        return [value, np.ones_like(value), *([np.zeros_like(value)] * size)][:size]

    def evaluate(s: Array, q: Array) -> Array:
        total = np.sum([power(q + n, s) for n in range(_TERMS)], 0)
        u = q + _TERMS
        # Euler-Maclaurin from u on: ∫_u^∞ t^-s dt = u^(1-s)/(s-1), half of the first term, then Bernoulli's numbers.
        tail = power(u, s)
        inverse = [(-1.0) ** m / (s - 1.0) ** (m + 1) for m in range(size)]
        total = total + np.array(_times([t * u for t in tail], inverse)) + np.array(tail) / 2.0
        # Σ B₂ₖ/(2k)! · s(s+1)…(s+2k-2) · u^(-s-2k+1)
        rising = _times(linear(s), [t / u for t in tail])
        for k, number in enumerate(_BERNOULLI, 1):
            total = total + np.array(rising) * (number / math.factorial(2 * k))
            # The next term has two more factors of the rising product, and u² more in the denominator.
            for shift in (2 * k - 1, 2 * k):
                rising = [r / u for r in _times(linear(s + shift), rising)]
        return np.where((s > 1) & (q > 0), total[order] * math.factorial(order), np.nan)

    return evaluate


def zeta(x: TensorLike, q: TensorLike, name: str | None = None) -> Tensor:
    """The Hurwitz zeta function Σ (n + q)^-x for x > 1, q > 0; differentiable in both arguments.

    >>> gt.math.zeta(2.0, 1.0).numpy()
    np.float32(1.644934)
    """
    return apply(ZETA, *as_floats(x, q))


def zeta_dx(x: Tensor, q: Tensor, order: int) -> Tensor:
    """The derivative of zeta of the given order in x: Σ (-log(n+q))ᵏ (n+q)^-x."""
    return apply(ZETA_DX, x, q, order=order) if order else apply(ZETA, x, q)


ZETA = elementwise(
    "zeta", "x q",
    in_double("zeta"),
    lambda x, q: zeta_dx(x, q, 1),
    lambda x, q: -x * zeta(x + 1.0, q),
    floating=True, infer=inference.elementwise_float,
    samples=lambda: [
        Sample(positive(3, 2) + 1.2, positive(3, 2)),
        Sample(positive(2, 1) + 1.2, positive(3)),
        Sample(positive() + 1.2, positive()),
        Sample(positive(0), positive(0)),
        Sample(positive(2), positive(3), raises=(ValueError, "broadcast")),
    ],
)  # fmt: skip
ZETA_DX: Op = elementwise(
    "zeta_dx", "x q",
    lambda x, q, *, order: _lanewise(_zeta_series(order), x, q),
    lambda x, q, order: zeta_dx(x, q, order + 1),
    # d/dq (-log u)ᵏ u^-x = -x (-log u)ᵏ u^(-x-1) - k (-log u)ᵏ⁻¹ u^(-x-1)
    lambda x, q, order: -x * zeta_dx(x + 1.0, q, order) - float(order) * zeta_dx(x + 1.0, q, order - 1),
    floating=True, infer=inference.elementwise_float,
    call=lambda x, q, order: apply(ZETA_DX, *as_floats(x, q), order=order),
    samples=lambda: [Sample(positive(3) + 1.2, positive(3), 1), Sample(positive(2) + 1.2, positive(2), 2)],
)  # fmt: skip

OPS = (IGAMMA, IGAMMAC, IGAMMA_DA, BETAINC, BETAINC_DAB, ZETA, ZETA_DX)

from gradtape.ops.composite import xlog1py, xlogy
from gradtape.ops.create import zeros_like
from gradtape.ops.elementwise import exp, log, log1p
from gradtape.ops.special import digamma, lgamma
