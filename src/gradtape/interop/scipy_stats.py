"""SciPy's densities for tensors, under SciPy's names and with its arguments: `gt.scipy.stats.norm.logpdf(x, loc, scale)`.

Densities and their logarithms, differentiable in the point and in every parameter; outside the support the logarithm is -inf
and its derivative zero, for impossible parameters it is NaN, as in SciPy. Distributions can be frozen:
`norm(0.0, 2.0).logpdf(x)`. No sampling, fitting or summarising here: `gt.random` draws, and what has no gradient is SciPy's.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

from gradtape.core.dispatch import promote
from gradtape.core.tensor import Tensor
from gradtape.core.typing import TensorLike
from gradtape.errors import InvalidArgumentError
from gradtape.interop.numpy_linalg import diag
from gradtape.interop.numpy_ufuncs import floats
from gradtape.interop.scipy_special import betainc, betaln, gammainc, gammaincc, gammaln, ndtr, xlog1py, xlogy
from gradtape.ops import compare as c, elementwise as e, select as s
from gradtape.ops.create import eye, zeros
from gradtape.ops.linalg_solve import cholesky, triangular_solve
from gradtape.ops.matmul import swap_last
from gradtape.ops.matrix import diag_part
from gradtape.ops.reduce import reduce_sum
from gradtape.ops.shape import broadcast_to, expand_dims, reshape, squeeze

Rule = Callable[..., Any]


class Distribution:
    """A family of densities with SciPy's arguments: shape parameters, then location and, if continuous, scale.

    `log` is the logarithm of the standard density (location 0, scale 1), `support` says where it holds, `valid` which shape
    parameters are possible, `inside` is some point of the support, taken for points outside it so that nothing overflows.
    """

    def __init__(
        self, name: str, shapes: str, log: Rule, *, discrete: bool = False, support: Rule | None = None,
        valid: Rule | None = None, inside: float = 0.5, cumulative: Rule | None = None,
    ) -> None:  # fmt: skip
        self.name = name
        self._log, self._support, self._valid, self._inside, self._cumulative = log, support, valid, inside, cumulative
        self._discrete = discrete
        keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD
        names: list[tuple[str, Any]] = [("k" if discrete else "x", inspect.Parameter.empty)]
        names += [(shape, inspect.Parameter.empty) for shape in shapes.split()]
        names += [("loc", 0.0)] if discrete else [("loc", 0.0), ("scale", 1.0)]
        self._signature = inspect.Signature([inspect.Parameter(n, keyword, default=d) for n, d in names])

    def __repr__(self) -> str:
        return f"gt.scipy.stats.{self.name}{self._signature}"

    def __call__(self, *args: Any, **kwargs: Any) -> Frozen:
        """The distribution with its parameters given once."""
        return Frozen(self, args, kwargs)

    def _bound(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, list[Any], Any, list[Any]]:
        """The standardised point, the shape parameters, the scale (None if there is none), and where they are possible;
        elsewhere they are 1, so that nothing is computed with what is impossible."""
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self.name}.{method}{self._signature}: {error}") from None
        bound.apply_defaults()
        point, *parameters = (floats(v) for v in promote(*bound.arguments.values()))
        one = e.cast(1.0, point.dtype)
        scale = None if self._discrete else parameters.pop()
        loc = parameters.pop()
        fine = []
        if scale is not None:
            fine.append(c.greater(scale, 0))
            scale = s.where(fine[0], scale, one)
        # Impossible parameters would make NaN also of the derivative of the possible ones beside them: they are replaced by
        # ones before anything is computed, and the result by NaN after it.
        if self._valid is not None:
            fine.append(self._valid(*parameters))
            parameters = [s.where(fine[-1], parameter, one) for parameter in parameters]
        z = point - loc
        return (z if scale is None else z / scale), parameters, scale, fine

    def _log_density(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        z, shapes, scale, fine = self._bound(method, args, kwargs)
        outside = None if self._support is None else c.logical_not(self._support(z, *shapes))
        safe = z if outside is None else s.where(outside, e.cast(self._inside, z.dtype), z)
        out = self._log(safe, *shapes)
        if scale is not None:
            out = out - e.log(scale)
        if outside is not None:
            out = s.where(outside, e.cast(-math.inf, out.dtype), out)
        return _nan_unless(fine, out)

    def _needs(self, discrete: bool, method: str) -> None:
        if self._discrete is not discrete:
            other = "logpmf" if self._discrete else "logpdf"
            raise AttributeError(f"{self.name} has no {method}; use {self.name}.{other}")

    def logpdf(self, *args: Any, **kwargs: Any) -> Any:
        """The logarithm of the density of a continuous distribution."""
        self._needs(False, "logpdf")
        return self._log_density("logpdf", args, kwargs)

    def pdf(self, *args: Any, **kwargs: Any) -> Any:
        """The density of a continuous distribution."""
        self._needs(False, "pdf")
        return e.exp(self._log_density("pdf", args, kwargs))

    def logpmf(self, *args: Any, **kwargs: Any) -> Any:
        """The logarithm of the probability of a point of a discrete distribution."""
        self._needs(True, "logpmf")
        return self._log_density("logpmf", args, kwargs)

    def pmf(self, *args: Any, **kwargs: Any) -> Any:
        """The probability of a point of a discrete distribution."""
        self._needs(True, "pmf")
        return e.exp(self._log_density("pmf", args, kwargs))

    def cdf(self, *args: Any, **kwargs: Any) -> Any:
        """The probability of values up to a point."""
        if self._cumulative is None:
            raise AttributeError(f"{self.name} has no cdf with a gradient here; SciPy's takes t.numpy()")
        z, shapes, _scale, fine = self._bound("cdf", args, kwargs)
        return _nan_unless(fine, self._cumulative(z, *shapes))


def _nan_unless(fine: list[Any], out: Tensor) -> Any:
    for possible in fine:
        out = s.where(possible, out, e.cast(math.nan, out.dtype))
    return out


class Frozen:
    """A distribution with its parameters."""

    def __init__(self, distribution: Distribution | MultivariateNormal, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._distribution: Any = distribution  # which methods it has, it says itself
        self._args, self._kwargs = args, kwargs

    def logpdf(self, x: TensorLike) -> Any:
        """The logarithm of the density at `x`."""
        return self._distribution.logpdf(x, *self._args, **self._kwargs)

    def pdf(self, x: TensorLike) -> Any:
        """The density at `x`."""
        return self._distribution.pdf(x, *self._args, **self._kwargs)

    def logpmf(self, k: TensorLike) -> Any:
        """The logarithm of the probability of `k`."""
        return self._distribution.logpmf(k, *self._args, **self._kwargs)

    def pmf(self, k: TensorLike) -> Any:
        """The probability of `k`."""
        return self._distribution.pmf(k, *self._args, **self._kwargs)

    def cdf(self, x: TensorLike) -> Any:
        """The probability of values up to `x`."""
        return self._distribution.cdf(x, *self._args, **self._kwargs)


def _positive(*parameters: Any) -> Any:
    fine = c.greater(parameters[0], 0)
    for parameter in parameters[1:]:
        fine = c.logical_and(fine, c.greater(parameter, 0))
    return fine


def _log_t(z: Tensor, df: Tensor) -> Any:
    """log Γ((n+1)/2) - log Γ(n/2) - ½ log(nπ) - (n+1)/2 · log(1 + z²/n)."""
    half = (df + 1.0) * 0.5
    return gammaln(half) - gammaln(df * 0.5) - 0.5 * e.log(df * math.pi) - half * e.log1p(z * z / df)


def _beta_cdf(z: Tensor, a: Tensor, b: Tensor) -> Any:
    inside = s.minimum(s.maximum(z, 0.0), 1.0)
    a, b, inside = promote(a, b, inside)
    return betainc(a, b, inside)


norm = Distribution("norm", "", lambda z: -0.5 * z * z - 0.5 * math.log(2.0 * math.pi), cumulative=ndtr)
t = Distribution("t", "df", _log_t, valid=_positive)
gamma = Distribution(
    "gamma", "a", lambda z, a: xlogy(a - 1.0, z) - z - gammaln(a), support=lambda z, a: c.greater_equal(z, 0), valid=_positive,
    cumulative=lambda z, a: gammainc(a, s.maximum(z, 0.0)),
)  # fmt: skip
beta = Distribution(
    "beta", "a b", lambda z, a, b: xlog1py(b - 1.0, -z) + xlogy(a - 1.0, z) - betaln(a, b),
    support=lambda z, a, b: c.logical_and(c.greater_equal(z, 0), c.less_equal(z, 1)), valid=_positive, cumulative=_beta_cdf,
)  # fmt: skip
poisson = Distribution(
    "poisson", "mu", lambda k, mu: xlogy(k, mu) - gammaln(k + 1.0) - mu, discrete=True, inside=0.0,
    support=lambda k, mu: c.logical_and(c.greater_equal(k, 0), c.equal(k, s.floor(k))),
    valid=lambda mu: c.greater_equal(mu, 0), cumulative=lambda k, mu: _poisson_cdf(k, mu),
)  # fmt: skip


def _poisson_cdf(k: Tensor, mu: Tensor) -> Any:
    whole = s.floor(s.maximum(k, 0.0))
    return s.where(c.less(k, 0), e.cast(0.0, k.dtype), gammaincc(whole + 1.0, mu))


class MultivariateNormal:
    """The normal distribution of vectors, `gt.scipy.stats.multivariate_normal`."""

    def __call__(self, mean: TensorLike | None = None, cov: TensorLike = 1, allow_singular: bool = False) -> Frozen:
        """The distribution with its parameters given once."""
        return Frozen(self, (mean, cov, allow_singular), {})

    def logpdf(self, x: TensorLike, mean: TensorLike | None = None, cov: TensorLike = 1, allow_singular: bool = False) -> Any:
        """-½ (x-μ)ᵀ Σ⁻¹ (x-μ) - ½ log det 2πΣ over the last axis, with Σ symmetric and positive definite.

        >>> gt.scipy.stats.multivariate_normal.logpdf([1.0, 0.0], [0.0, 0.0], [[2.0, 0.5], [0.5, 1.0]]).numpy().round(4)
        np.float32(-2.4034)
        """
        if allow_singular:
            raise InvalidArgumentError("multivariate_normal: a singular covariance has no density with a gradient here")
        x, cov, *centre = (floats(v) for v in promote(x, cov, *([] if mean is None else [mean])))
        size = self._dimension(centre[0] if centre else None, cov)
        mean = reshape(centre[0], (size,)) if centre else zeros((size,), x.dtype)
        off = self._points(x, size) - mean
        # With Σ = L Lᵀ, (x-μ)ᵀ Σ⁻¹ (x-μ) = |L⁻¹(x-μ)|² and log det Σ = 2 Σ log Lᵢᵢ: no inverse, no determinant.
        factor = cholesky(self._covariance(cov, size))
        white = triangular_solve(factor, expand_dims(off, -1) if off.ndim == 1 else swap_last(reshape(off, (-1, size))))
        square = reshape(reduce_sum(white * white, axis=-2), tuple(off.shape)[:-1])
        log_det = reduce_sum(e.log(diag_part(factor)))
        out = -0.5 * square - log_det - 0.5 * size * math.log(2.0 * math.pi)
        return squeeze(out)

    def pdf(self, x: TensorLike, mean: TensorLike | None = None, cov: TensorLike = 1, allow_singular: bool = False) -> Any:
        """The density."""
        return e.exp(self.logpdf(x, mean, cov, allow_singular))

    @staticmethod
    def _dimension(mean: Tensor | None, cov: Tensor) -> int:
        if mean is not None and mean.size > 1:
            return int(mean.size)
        return int(cov.shape[-1]) if cov.ndim else 1

    @staticmethod
    def _covariance(cov: Tensor, size: int) -> Any:
        if cov.ndim == 0:
            return cov * eye(size, dtype=cov.dtype)
        if cov.ndim == 1:
            cov = diag(cov)
        if tuple(cov.shape) != (size, size):
            raise InvalidArgumentError(
                f"multivariate_normal: cov has shape {tuple(cov.shape)}, but a mean with {size} entries needs ({size}, {size})"
            )
        return 0.5 * (cov + swap_last(cov))

    @staticmethod
    def _points(x: Tensor, size: int) -> Any:
        """As SciPy reads them: one point, or one per row; plain numbers are points of a line."""
        if x.ndim == 0:
            return broadcast_to(x, (1,))
        if x.ndim == 1 and size == 1:
            return expand_dims(x, -1)
        if int(x.shape[-1]) != size:
            raise InvalidArgumentError(f"multivariate_normal: x has shape {tuple(x.shape)} but a point has {size} entries")
        return x


multivariate_normal = MultivariateNormal()


__all__ = [
    "beta", "gamma", "multivariate_normal", "norm", "poisson", "t",
]  # fmt: skip


def __dir__() -> list[str]:  # completion offers no more
    return __all__
