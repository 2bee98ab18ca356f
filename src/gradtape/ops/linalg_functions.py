"""Functions of matrices: exponential, logarithm, square root, and the Sylvester equation behind the root's derivative.

They need no eigenvectors, so repeated eigenvalues are no special case. All work on the last two axes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape.core import batching, inference
from gradtape.core.dispatch import apply
from gradtape.core.opdef import Fails, Op, Sample, general
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Array, TensorLike
from gradtape.errors import InvalidArgumentError
from gradtape.ops.linalg_solve import complex_normal, for_lapack, sample_regular
from gradtape.ops.sampling import definite, normal

# -- expm --------------------------------------------------------------------------------------------------------------


def _expm_impl(x: Array) -> Array:
    if x.size == 0:
        return np.zeros(x.shape, x.dtype)
    from scipy.linalg import expm as scipy_expm

    return scipy_expm(for_lapack(x)).astype(x.dtype, copy=False)


# exp([[A, E], [0, A]]) = [[exp A, L(A, E)], [0, exp A]] with L the derivative of exp at A in direction E (Najfeld & Havel
# 1995); its adjoint is L(Aᴴ, ·)
def derivative_of(op: Op, a: Tensor, e: Tensor) -> Tensor:
    """L(A, E), with E scaled to size 1 first: a large E would cost the function its accuracy, and L is linear in E."""
    n = a.shape[-1]
    if n == 0:
        return zeros_like(e)
    # The scale cancels exactly, so its own derivative is 0 and need not be recorded.
    size = stop_gradient(reduce_max(abs(e), (-2, -1), True))
    size = cast(where(size == 0, ones_like(size), size), e.dtype)
    block = concat([concat([a, e / size], -1), concat([zeros_like(a), a], -1)], -2)
    return apply(op, block)[..., :n, n:] * size


EXPM = general(
    "expm", "x", _expm_impl,
    vjps=(lambda ct, x: derivative_of(EXPM, matrix_transposed(x), ct),),
    jvps=(lambda t, x: derivative_of(EXPM, x, t),),
    infer=inference.same, batch=batching.leading,
    samples=lambda: [
        Sample(normal(3, 3)),
        Sample(normal(2, 2, 2)),
        Sample(np.zeros((2, 2))),
        Sample(np.array([[1.0, 1.0], [0.0, 1.0]])),
        Sample(normal(0, 2, 2)),
        Sample(complex_normal(2, 2)),
        Sample(normal(2, 3), raises=(ValueError, "square")),
    ],
)  # fmt: skip


def expm(input: TensorLike, name: str | None = None) -> Tensor:
    """Matrix exponential of each square matrix; the derivative holds for repeated eigenvalues too.

    >>> gt.linalg.expm([[0.0, 1.0], [0.0, 0.0]]).numpy()
    array([[1., 1.],
           [0., 1.]], dtype=float32)
    """
    return apply(EXPM, matrices(input, "expm", square=True))


# -- the Sylvester equation A X + X B = C ------------------------------------------------------------------------------


def _sylvester_impl(a: Array, b: Array, c: Array) -> Array:
    if c.size == 0:
        return np.zeros(c.shape, c.dtype)
    n, m = c.shape[-2:]
    triples = zip(a.reshape(-1, n, n), b.reshape(-1, m, m), c.reshape(-1, n, m), strict=True)
    return np.stack([_sylvester_one(*triple) for triple in triples]).reshape(c.shape).astype(c.dtype, copy=False)


def _sylvester_one(a: Array, b: Array, c: Array) -> Array:
    """Bartels & Stewart 1972: both matrices to Schur form, then back substitution."""
    from scipy.linalg import schur
    from scipy.linalg.lapack import get_lapack_funcs

    a, b, c = (for_lapack(x) for x in (a, b, c))
    kind = "complex" if any(x.dtype.kind == "c" for x in (a, b, c)) else "real"
    r, u = schur(a, output=kind)
    # With A = U R Uᴴ and Bᴴ = V S Vᴴ the equation is R Y + Y Sᴴ = Uᴴ C V for Y = Uᴴ X V, both factors triangular; LAPACK's
    # answer comes with a scale that kept the back substitution from overflowing.
    s, v = schur(np.conj(b.T), output=kind)
    f = np.conj(u.T) @ c @ v
    (trsyl,) = get_lapack_funcs(("trsyl",), (r, s, f))
    y, scale, info = trsyl(r, s, f, tranb="C")
    if info:
        raise InvalidArgumentError(
            f"sylvester: the equation A X + X B = C has no unique solution for shapes {a.shape} and {b.shape}: A and -B share "
            "an eigenvalue (for the gradient of sqrtm: the matrix is singular)"
        )
    return u @ (y / scale) @ np.conj(v.T)


# A dX + dX B = dC - dA X - X dB;  cotangents: C̄ solves Aᴴ C̄ + C̄ Bᴴ = X̄, Ā = -C̄ Xᴴ, B̄ = -Xᴴ C̄
def sylvester_cts(ct: Tensor, a: Tensor, b: Tensor, out: Tensor, needed: tuple[bool, ...]) -> tuple[Any, Any, Any]:
    """Cotangents of the three matrices from one more solve."""
    rhs = apply(SYLVESTER, matrix_transposed(a), matrix_transposed(b), ct)
    turned = matrix_transposed(out)
    return (-(rhs @ turned) if needed[0] else None), (-(turned @ rhs) if needed[1] else None), rhs


def sylvester_tangent(tangents: tuple[Any, Any, Any], a: Tensor, b: Tensor, out: Tensor) -> Tensor:
    """The tangent of the solution."""
    ta, tb, tc = tangents
    change = zeros_like(out) if tc is None else tc
    if ta is not None:
        change = change - ta @ out
    if tb is not None:
        change = change - out @ tb
    return apply(SYLVESTER, a, b, change)


SYLVESTER = general(
    "sylvester", "a b c", _sylvester_impl,
    vjp=sylvester_cts, jvp=sylvester_tangent,
    infer=lambda a, b, c: inference.same(c),
    batch=batching.leading,
    fails=Fails.VALUES,
    samples=lambda: [
        Sample(sample_regular(3, 3), sample_regular(2, 2), normal(3, 2)),
        Sample(sample_regular(2, 2, 2), sample_regular(2, 3, 3), normal(2, 2, 3)),
        Sample(sample_regular(2, 2) + 1j * normal(2, 2), sample_regular(2, 2) + 0j, complex_normal(2, 2)),
        Sample(np.eye(2), -np.eye(2), normal(2, 2), raises=(ValueError, "unique")),
    ],
)  # fmt: skip

# -- sqrtm -------------------------------------------------------------------------------------------------------------


def _each(function: Callable[[Any], Any], x: Array, op: str, what: str, without: str) -> Array:
    """A function of each matrix; `what` it gives, and the matrices that are `without` one, are for the messages."""
    if x.size == 0:
        return np.zeros(x.shape, x.dtype)
    n, results = x.shape[-1], []
    for matrix in x.reshape(-1, n, n):
        result = function(for_lapack(matrix))
        if not np.isfinite(result).all():
            raise InvalidArgumentError(f"{op}: a matrix of shape {matrix.shape} has no {what}: it is {without}, or not finite")
        if x.dtype.kind != "c" and result.dtype.kind == "c" and np.any(result.imag):
            raise InvalidArgumentError(
                f"{op}: a real matrix of shape {matrix.shape} has no real principal {what} (a negative eigenvalue); "
                "use gt.cast(x, gt.complex128) first"
            )
        results.append(result if x.dtype.kind == "c" else result.real)
    return np.stack(results).reshape(x.shape).astype(x.dtype, copy=False)


def _sqrtm_impl(x: Array) -> Array:
    from scipy.linalg import sqrtm as scipy_sqrtm

    return _each(scipy_sqrtm, x, "sqrtm", "square root", "singular and defective")


# X X = A:  X dX + dX X = dA
SQRTM = general(
    "sqrtm", "x", _sqrtm_impl,
    vjps=(lambda ct, out: apply(SYLVESTER, matrix_transposed(out), matrix_transposed(out), ct),),
    jvps=(lambda t, out: apply(SYLVESTER, out, out, t),),
    infer=inference.same, batch=batching.leading,
    fails=Fails.VALUES,
    samples=lambda: [
        Sample(definite(3, 3)),
        Sample(sample_regular(2, 2, 2)),
        Sample(np.eye(2)),
        Sample(sample_regular(2, 2) + 0.3 * complex_normal(2, 2)),
        Sample(-np.eye(2), raises=(ValueError, "negative eigenvalue")),
        Sample(normal(2, 3), raises=(ValueError, "square")),
    ],
)  # fmt: skip


def sqrtm(input: TensorLike, name: str | None = None) -> Tensor:
    """Principal square root of each square matrix; the derivative needs an invertible matrix.

    >>> gt.linalg.sqrtm([[4.0, 0.0], [0.0, 9.0]]).numpy().round(4)
    array([[2., 0.],
           [0., 3.]], dtype=float32)
    """
    return apply(SQRTM, matrices(input, "sqrtm", square=True))


matrix_square_root = sqrtm


# -- logm --------------------------------------------------------------------------------------------------------------


def _logm_impl(x: Array) -> Array:
    return _each(_log_one, x, "logm", "logarithm", "singular")


def _log_one(x: Array) -> Array:
    """In double precision: SciPy takes the rounding of single precision for a failure."""
    from scipy.linalg import logm as scipy_logm

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        log = scipy_logm(x.astype(np.complex128 if x.dtype.kind == "c" else np.float64))
    singular = any("Singular" in entry.category.__name__ for entry in told)  # SciPy then goes on with a tiny number for 0
    return np.full(x.shape, np.nan) if singular else log


# as for exp: log([[A, E], [0, A]]) = [[log A, L(A, E)], [0, log A]] (Al-Mohy & Higham 2013)
LOGM = general(
    "logm", "x", _logm_impl,
    vjps=(lambda ct, x: derivative_of(LOGM, matrix_transposed(x), ct),),
    jvps=(lambda t, x: derivative_of(LOGM, x, t),),
    infer=inference.same, batch=batching.leading,
    fails=Fails.VALUES,
    samples=lambda: [
        Sample(definite(3, 3)),
        Sample(sample_regular(2, 2, 2)),
        Sample(np.eye(2)),
        Sample(normal(0, 2, 2)),
        Sample(sample_regular(2, 2) + 0.3 * complex_normal(2, 2)),
        Sample(-np.eye(2), raises=(ValueError, "negative eigenvalue")),
        Sample(np.zeros((2, 2)), raises=(ValueError, "singular")),
        Sample(normal(2, 3), raises=(ValueError, "square")),
    ],
)  # fmt: skip


def logm(input: TensorLike, name: str | None = None) -> Tensor:
    """Principal logarithm of each square matrix, the inverse of `expm`; real input must have a real logarithm.

    >>> gt.linalg.logm(gt.linalg.expm([[0.0, 1.0], [0.0, 0.0]])).numpy().round(4) + 0.0
    array([[0., 1.],
           [0., 0.]], dtype=float32)
    """
    return apply(LOGM, matrices(input, "logm", square=True))


OPS = (EXPM, SYLVESTER, SQRTM, LOGM)

from gradtape.ops.create import ones_like, zeros_like
from gradtape.ops.elementwise import abs, cast
from gradtape.ops.matmul import matrix_transposed
from gradtape.ops.matrix import matrices
from gradtape.ops.reduce import reduce_max
from gradtape.ops.select import where
from gradtape.ops.shape import concat
from gradtape.ops.stop import stop_gradient
