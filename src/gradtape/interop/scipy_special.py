"""SciPy's special functions for tensors, under SciPy's names and with its arguments: `gt.scipy.special`.

SciPy's own ufuncs take tensors too (`scipy.special.expit(t)`); its functions written in Python (`logsumexp`, `softmax`) convert
their arguments to arrays, and are refused there when a tape watches. Those here are recorded, batched and traced.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from gradtape.core.dispatch import convert, promote
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Axes, TensorLike
from gradtape.interop.numpy_ufuncs import cbrt as cbrt, exp2 as exp2, floats
from gradtape.ops import compare as c, elementwise as e, select as s, special
from gradtape.ops.activations import log_sigmoid, log_softmax as _log_softmax, sigmoid, softmax as _softmax
from gradtape.ops.composite import xlog1py as xlog1py, xlogy as xlogy
from gradtape.ops.incomplete import betainc as betainc, igamma, igammac
from gradtape.ops.reduce import reduce_logsumexp, reduce_max, reduce_sum
from gradtape.ops.shape import reshape
from gradtape.ops.special import dawsn as dawsn, erf as erf, erfc as erfc, erfinv as erfinv, ndtr as ndtr, ndtri as ndtri
from gradtape.ops.stop import stop_gradient

expit, log_expit = sigmoid, log_sigmoid
gammaln, psi, digamma, gammainc, gammaincc = special.lgamma, special.digamma, special.digamma, igamma, igammac
i0, i0e, i1, i1e = special.bessel_i0, special.bessel_i0e, special.bessel_i1, special.bessel_i1e
expm1, log1p = e.expm1, e.log1p


def logit(x: TensorLike) -> Any:
    """log(x / (1 - x)), the inverse of `expit`.

    >>> float(gt.scipy.special.logit(0.5))
    0.0
    """
    return e.log(x) - e.log1p(-floats(x))


def logsumexp(
    a: TensorLike, axis: Axes = None, b: TensorLike | None = None, keepdims: bool = False, return_sign: bool = False
) -> Any:
    """log Σ b·eᵃ without overflow; with `return_sign` the logarithm of the sum's size, and its sign.

    >>> gt.scipy.special.logsumexp([1000.0, 1000.0]).numpy().round(2)
    np.float32(1000.69)
    """
    a = floats(a)
    if b is None and not return_sign:
        return reduce_logsumexp(a, axis, keepdims)
    top = reduce_max(stop_gradient(a), axis, keepdims=True)
    # Where all terms vanish the largest exponent is -∞, and -∞ - (-∞) would be NaN.
    top = s.where(c.is_finite(top), top, e.cast(0.0, top.dtype))
    terms = e.exp(a - top)
    total = reduce_sum(terms if b is None else terms * b, axis, keepdims)
    top = top if keepdims else reshape(top, total.shape)
    if return_sign:
        return e.log(e.abs(total)) + top, e.sign(stop_gradient(total))
    return e.log(total) + top


def softmax(x: TensorLike, axis: Axes = None) -> Any:
    """eˣ / Σ eˣ, over all elements unless an axis is given.

    >>> gt.scipy.special.softmax([0.0, 0.0]).numpy()
    array([0.5, 0.5], dtype=float32)
    """
    return _over(_softmax, x, axis)


def log_softmax(x: TensorLike, axis: Axes = None) -> Any:
    """The logarithm of `softmax`.

    >>> gt.scipy.special.log_softmax([0.0, 0.0]).numpy().round(4)
    array([-0.6931, -0.6931], dtype=float32)
    """
    return _over(_log_softmax, x, axis)


def _over(rule: Callable[..., Tensor], x: TensorLike, axis: Axes) -> Any:
    x = floats(x)
    if isinstance(axis, int):
        return rule(x, axis)
    if axis is None:
        return reshape(rule(reshape(x, (-1,)), 0), x.shape)
    total = reduce_logsumexp(x, axis, keepdims=True)
    return x - total if rule is _log_softmax else e.exp(x - total)


def betaln(a: TensorLike, b: TensorLike) -> Any:
    """log |B(a, b)|.

    >>> gt.scipy.special.betaln(2.0, 3.0).numpy().round(4)
    np.float32(-2.4849)
    """
    a, b = promote(floats(a), floats(b))
    return gammaln(a) + gammaln(b) - gammaln(a + b)


def multigammaln(a: TensorLike, d: int) -> Any:
    """log Γ_d(a), the logarithm of the multivariate gamma function.

    >>> round(float(gt.scipy.special.multigammaln(3.0, 1)), 4)
    0.6931
    """
    a = floats(a)
    total: Any = d * (d - 1) / 4.0 * math.log(math.pi)
    for i in range(d):
        total = gammaln(a - i / 2.0) + total
    return total


def entr(x: TensorLike) -> Any:
    """-x·log x, 0 at 0, -inf below.

    >>> float(gt.scipy.special.entr(1.0))
    -0.0
    """
    x = floats(x)
    return s.where(c.less(x, 0), e.cast(-math.inf, x.dtype), -xlogy(x, s.where(c.less(x, 0), e.cast(1.0, x.dtype), x)))


def rel_entr(x: TensorLike, y: TensorLike) -> Any:
    """x·log(x / y), 0 at x = 0, inf where y is 0 or either is negative.

    >>> float(gt.scipy.special.rel_entr(1.0, 1.0))
    0.0
    """
    x, y = promote(floats(x), floats(y))
    fine = c.logical_and(c.greater(x, 0), c.greater(y, 0))
    one = e.cast(1.0, x.dtype)
    inside = s.where(fine, x, one) * (e.log(s.where(fine, x, one)) - e.log(s.where(fine, y, one)))
    nothing = c.logical_and(c.equal(x, 0), c.greater_equal(y, 0))
    return s.where(fine, inside, s.where(nothing, convert(0.0, hint=x.dtype), e.cast(math.inf, x.dtype)))


__all__ = [
    "betainc", "betaln", "cbrt", "dawsn", "digamma", "entr", "erf", "erfc", "erfinv", "exp2", "expit", "expm1",
    "gammainc", "gammaincc", "gammaln", "i0", "i0e", "i1", "i1e", "log1p", "log_expit", "log_softmax", "logit",
    "logsumexp", "multigammaln", "ndtr", "ndtri", "psi", "rel_entr", "softmax", "xlog1py", "xlogy",
]  # fmt: skip


def __dir__() -> list[str]:  # completion offers no more
    return __all__
