"""Special functions of one variable, on `scipy.special`: error functions, gamma family, Bessel functions, integrals.

SciPy is imported at the first call of one of them, never with this module. Derivatives of any order are closed forms in
these same ops; the Bessel recurrences are written without divisions, so they hold at 0 too. Incomplete gamma and beta
functions and the Hurwitz zeta function are in `incomplete.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NoReturn

import numpy as np

from gradtape.core import inference
from gradtape.core.dispatch import apply, promote
from gradtape.core.forms import unary
from gradtape.core.opdef import Op, Rule, Sample, SampleMaker, composite, elementwise
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Array, TensorLike
from gradtape.dtypes import as_dtype, float32
from gradtape.errors import UnimplementedError
from gradtape.ops.sampling import away, normal, positive, unit


@cache
def scipy_function(name: str) -> Callable[..., Any]:
    """A function of scipy.special, imported on first use."""
    import scipy.special

    return getattr(scipy.special, name)


def on_scipy(name: str) -> Rule:
    """An impl that calls scipy.special and keeps the dtype of its input (SciPy widens half precision)."""

    def impl(x: Array) -> Array:
        out = scipy_function(name)(x)
        return out if out.dtype == x.dtype else out.astype(x.dtype)

    return impl


def as_floats(*values: TensorLike) -> tuple[Tensor, ...]:
    """The values as tensors of one real floating dtype."""
    tensors = promote(*values)
    if as_dtype(tensors[0].dtype).is_complex:
        raise TypeError(f"needs real numbers, got dtype {tensors[0].dtype.name}; take gt.math.real first")
    if as_dtype(tensors[0].dtype).is_differentiable:
        return tensors
    return tuple(cast(t, float32) for t in tensors)


def no_derivative(op: str, argument: str, why: str) -> NoReturn:
    """Refuse a derivative that does not exist, instead of answering a silent None."""
    raise UnimplementedError(
        f"{op} has no derivative with respect to `{argument}`: {why}; wrap that argument in gt.stop_gradient, "
        "or do not ask for its gradient"
    )


def _unary(name: str, function: str, partial: Rule, samples: SampleMaker) -> Op:
    return elementwise(
        name, "x", on_scipy(function), partial, floating=True, infer=inference.elementwise_float, samples=samples
    )


def _any_real() -> list[Sample]:
    return [Sample(normal(3, 2)), Sample(normal()), Sample(normal(0, 2)), Sample(np.array([0.0, 1.5]))]


def _any() -> list[Sample]:
    return [*_any_real(), Sample(normal(2) + 1j * unit(2))]


def _inside() -> list[Sample]:
    return [Sample(unit(3, 2)), Sample(unit()), Sample(unit(0))]


def _probability() -> list[Sample]:
    return [Sample(unit(3, 2) * 0.5 + 0.5), Sample(unit() * 0.5 + 0.5), Sample(unit(0))]


def _positive() -> list[Sample]:
    return [Sample(positive(3, 2)), Sample(positive()), Sample(positive(0)), Sample(np.array([-0.4, -2.6]))]


# -- error functions and the normal distribution ---------------------------------------------------------------------

_TWO_OVER_ROOT_PI = 2.0 / math.sqrt(math.pi)
_HALF_ROOT_PI = math.sqrt(math.pi) / 2.0
_ROOT_TWO_PI = math.sqrt(2.0 * math.pi)

# erf' = 2/√π · e^(-x²). The inverse functions are differentiated through their result y: dy/dx = 1/f'(y).
ERF = _unary("erf", "erf", lambda x: exp(-x * x) * _TWO_OVER_ROOT_PI, _any)
ERFC = _unary("erfc", "erfc", lambda x: exp(-x * x) * -_TWO_OVER_ROOT_PI, _any)
ERFINV = _unary("erfinv", "erfinv", lambda out: exp(out * out) * _HALF_ROOT_PI, _inside)
ERFCINV = _unary(
    "erfcinv",
    "erfcinv",
    lambda out: exp(out * out) * -_HALF_ROOT_PI,
    lambda: [Sample(unit(3, 2) + 1.0), Sample(unit() + 1.0), Sample(unit(0))],
)
NDTR = _unary("ndtr", "ndtr", lambda x: exp(x * x * -0.5) / _ROOT_TWO_PI, _any_real)
NDTRI = _unary("ndtri", "ndtri", lambda out: exp(out * out * 0.5) * _ROOT_TWO_PI, _probability)

# -- gamma family ----------------------------------------------------------------------------------------------------

# (log Γ)' = ψ, ψ' = ψ⁽¹⁾, and from there on `polygamma` counts the order up: derivatives of any order are closed.
LGAMMA = _unary("lgamma", "gammaln", lambda x: digamma(x), _positive)
DIGAMMA = _unary("digamma", "psi", lambda x: trigamma(x), _positive)


def _polygamma_impl(a: Array, x: Array) -> Array:
    dtype = np.result_type(a, x)
    a, x = np.asarray(a, np.float64), np.asarray(x, np.float64)
    with np.errstate(all="ignore"):
        # ψ⁽ⁿ⁾(x) = (-1)ⁿ⁺¹ n! ζ(n+1, x), and ψ itself for n = 0
        sign = np.where(a % 2 == 0, -1.0, 1.0)
        out = sign * scipy_function("gamma")(a + 1.0) * scipy_function("zeta")(a + 1.0, x)
        out = np.where(a == 0, scipy_function("psi")(x), out)
        out = np.where((a < 0) | (a != np.floor(a)), np.nan, out)
    return out.astype(dtype)[()]


POLYGAMMA = elementwise(
    "polygamma", "a x", _polygamma_impl,
    lambda a: no_derivative("polygamma", "a", "the order is a whole number"),
    lambda a, x: polygamma(a + 1.0, x),
    floating=True, infer=inference.elementwise_float,
    samples=lambda: [
        Sample(np.array(2.0), positive(3, 2), fixed=(0,)),
        Sample(np.array([0.0, 1.0, 2.0, 3.0]), positive(4), fixed=(0,)),
        Sample(np.array([[1.0], [2.0]]), positive(3), fixed=(0,)),
        Sample(np.array(1.0), positive(), fixed=(0,)),
        Sample(np.zeros(0), positive(0), fixed=(0,)),
        Sample(np.ones(2), positive(3), fixed=(0,), raises=(ValueError, "broadcast")),
    ],
)  # fmt: skip


def polygamma(a: TensorLike, x: TensorLike, name: str | None = None) -> Tensor:
    """The a-th derivative of digamma at x; `a` is a whole number (as a float), NaN otherwise, and has no derivative.

    >>> gt.math.polygamma(1.0, 1.0).numpy()
    np.float32(1.644934)
    """
    a, x = as_floats(a, x)
    return apply(POLYGAMMA, a, x)


def trigamma(x: Tensor) -> Tensor:
    """The derivative of digamma."""
    return apply(POLYGAMMA, ones_like(x), x)


# -- Bessel functions of whole order ---------------------------------------------------------------------------------

_FAST = {("iv", 0): "i0", ("iv", 1): "i1", ("ive", 0): "i0e", ("ive", 1): "i1e", ("jv", 0): "j0", ("jv", 1): "j1",
         ("kv", 0): "k0", ("kv", 1): "k1", ("kve", 0): "k0e", ("kve", 1): "k1e", ("yv", 0): "y0", ("yv", 1): "y1"}  # fmt: skip


def _bessel_impl(x: Array, *, kind: str, order: int) -> Array:
    if kind == "spherical_jn":
        out = np.sinc(x / np.pi) if order == 0 else scipy_function(kind)(order, np.asarray(x))
    elif (kind, order) in _FAST:
        out = scipy_function(_FAST[kind, order])(x)
    else:
        out = scipy_function(kind)(order, x)
    return out if out.dtype == x.dtype else out.astype(x.dtype)[()]


def bessel_partial(x: Tensor, kind: str, order: int) -> Tensor:
    """The derivative by the recurrences between neighbouring orders, which divide by nothing."""
    above = apply(BESSEL, x, kind=kind, order=order + 1)
    if order == 0 and kind != "spherical_jn":
        # f₋₁ = f₁ for I and K, -f₁ for J and Y: f₀' = I₁, -J₁, -K₁, -Y₁
        slope = above if kind in ("iv", "ive") else -above
    elif kind == "spherical_jn":
        # j_n' = (n j_{n-1} - (n+1) j_{n+1}) / (2n+1)
        slope = above * (-(order + 1.0) / (2 * order + 1))
        if order:
            slope = slope + apply(BESSEL, x, kind=kind, order=order - 1) * (float(order) / (2 * order + 1))
    else:
        below = apply(BESSEL, x, kind=kind, order=order - 1)
        # I' = (I₋ + I₊)/2, K' = -(K₋ + K₊)/2, J' = (J₋ - J₊)/2, Y' = (Y₋ - Y₊)/2
        slope = (below - above if kind in ("jv", "yv") else below + above) * (-0.5 if kind in ("kv", "kve") else 0.5)
    if kind == "ive":  # e^{-|x|} I
        return slope - sign(x) * apply(BESSEL, x, kind=kind, order=order)
    if kind == "kve":  # e^{x} K
        return slope + apply(BESSEL, x, kind=kind, order=order)
    return slope


BESSEL: Op = elementwise(
    "bessel", "x", _bessel_impl,
    lambda x, kind, order: bessel_partial(x, kind, order),
    samples=lambda: [
        *(Sample(away(3), kind, order) for kind in ("iv", "ive", "jv", "spherical_jn") for order in (0, 1, 2)),
        *(Sample(positive(3), kind, order) for kind in ("kv", "kve", "yv") for order in (0, 1, 2)),
        Sample(np.zeros(2), "iv", 1),
        Sample(np.zeros(2), "jv", 1),
        Sample(np.zeros(2), "spherical_jn", 0),
        Sample(away(), "jv", 0),
        Sample(away(2, 0), "iv", 0),
    ],
)  # fmt: skip


_KINDS = {"i": "Modified Bessel function of the first kind", "j": "Bessel function of the first kind",
          "k": "Modified Bessel function of the second kind", "y": "Bessel function of the second kind"}  # fmt: skip
_SCALE = {"i": ", times exp(-|x|)", "k": ", times exp(x)"}


def _bessel(name: str, kind: str, order: int, domain: Callable[..., Array]) -> Callable[..., Tensor]:
    def function(x: TensorLike, name: str | None = None) -> Tensor:
        (x,) = as_floats(x)
        return apply(BESSEL, x, kind=kind, order=order)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{_KINDS[kind[0]]} and order {order}{_SCALE[kind[0]] if kind.endswith('e') else ''}."
    return composite(samples=lambda: [Sample(domain(3)), Sample(domain())])(function)


bessel_i0 = _bessel("bessel_i0", "iv", 0, normal)
bessel_i1 = _bessel("bessel_i1", "iv", 1, normal)
bessel_i0e = _bessel("bessel_i0e", "ive", 0, away)
bessel_i1e = _bessel("bessel_i1e", "ive", 1, away)
bessel_j0 = _bessel("bessel_j0", "jv", 0, normal)
bessel_j1 = _bessel("bessel_j1", "jv", 1, normal)
bessel_k0 = _bessel("bessel_k0", "kv", 0, positive)
bessel_k1 = _bessel("bessel_k1", "kv", 1, positive)
bessel_k0e = _bessel("bessel_k0e", "kve", 0, positive)
bessel_k1e = _bessel("bessel_k1e", "kve", 1, positive)
bessel_y0 = _bessel("bessel_y0", "yv", 0, positive)
bessel_y1 = _bessel("bessel_y1", "yv", 1, positive)


@composite(samples=lambda: [Sample(normal(3, 2)), Sample(np.zeros(2)), Sample(normal())])
def sinc(x: TensorLike, name: str | None = None) -> Tensor:
    """sin(πx)/(πx), and 1 at 0; smooth to every order.

    >>> gt.math.sinc([0.0, 0.5]).numpy()
    array([1.        , 0.63661975], dtype=float32)
    """
    (x,) = as_floats(x)
    return apply(BESSEL, x * math.pi, kind="spherical_jn", order=0)


# -- integrals -------------------------------------------------------------------------------------------------------


def _fresnel(index: int) -> Rule:
    def impl(x: Array) -> Array:
        out = scipy_function("fresnel")(x)[index]
        return out if out.dtype == x.dtype else out.astype(x.dtype)

    return impl


DAWSN = _unary("dawsn", "dawsn", lambda x, out: 1.0 - 2.0 * x * out, _any_real)
EXPINT = _unary("expint", "expi", lambda x: exp(x) / x, lambda: [Sample(away(3, 2)), Sample(away()), Sample(away(0))])
FRESNEL_SIN = elementwise(
    "fresnel_sin", "x",
    _fresnel(0),
    lambda x: sin(x * x * (math.pi / 2)),
    floating=True, infer=inference.elementwise_float, samples=_any_real,
)  # fmt: skip
FRESNEL_COS = elementwise(
    "fresnel_cos", "x",
    _fresnel(1),
    lambda x: cos(x * x * (math.pi / 2)),
    floating=True, infer=inference.elementwise_float, samples=_any_real,
)  # fmt: skip

erf = unary(ERF, "The error function 2/√π ∫₀ˣ exp(-t²) dt.")
erfc = unary(ERFC, "1 - erf(x), without cancellation.")
erfinv = unary(ERFINV, "The inverse of `erf`, for x in (-1, 1).")
erfcinv = unary(ERFCINV, "The inverse of `erfc`, for x in (0, 2).")
ndtr = unary(NDTR, "The distribution function of the standard normal distribution.")
ndtri = unary(NDTRI, "The quantile function of the standard normal distribution: the inverse of `ndtr`.")
lgamma = unary(LGAMMA, "log |Γ(x)|.")
digamma: Any = unary(DIGAMMA, "ψ(x), the derivative of `lgamma`.")
dawsn = unary(DAWSN, "Dawson's integral exp(-x²) ∫₀ˣ exp(t²) dt.")
expint = unary(EXPINT, "The exponential integral Ei(x) = ∫ exp(t)/t dt from -∞ to x.")
fresnel_sin = unary(FRESNEL_SIN, "Fresnel's integral ∫₀ˣ sin(πt²/2) dt.")
fresnel_cos = unary(FRESNEL_COS, "Fresnel's integral ∫₀ˣ cos(πt²/2) dt.")


@composite(samples=lambda: [Sample(positive(3)), Sample(positive(2, 4)), Sample(positive(3, 0))])
def lbeta(x: TensorLike, name: str | None = None) -> Tensor:
    """log |Beta(x)| over the last axis: Σ lgamma(xᵢ) - lgamma(Σ xᵢ); -inf for an empty axis.

    >>> gt.math.lbeta([1.0, 1.0]).numpy()
    np.float32(0.0)
    """
    (x,) = as_floats(x)
    return reduce_sum(lgamma(x), -1) - lgamma(reduce_sum(x, -1))


__all__ = [  # of `gt.math`
    "bessel_i0", "bessel_i0e", "bessel_i1", "bessel_i1e", "bessel_j0", "bessel_j1", "bessel_k0", "bessel_k0e", "bessel_k1",
    "bessel_k1e", "bessel_y0", "bessel_y1", "dawsn", "digamma", "erf", "erfc", "erfcinv", "erfinv", "expint", "fresnel_cos",
    "fresnel_sin", "lbeta", "lgamma", "ndtr", "ndtri", "polygamma", "sinc",
]  # fmt: skip
OPS = (ERF, ERFC, ERFINV, ERFCINV, NDTR, NDTRI, LGAMMA, DIGAMMA, POLYGAMMA, BESSEL, DAWSN, EXPINT, FRESNEL_SIN, FRESNEL_COS)

from gradtape.ops.create import ones_like
from gradtape.ops.elementwise import cast, cos, exp, sign, sin
from gradtape.ops.reduce import reduce_sum


def __dir__() -> list[str]:  # completion offers no more
    return __all__
