"""Determinants, the pseudo-inverse and least squares: what stays defined when a matrix is singular or not square.

`det` has exact first and second derivatives at singular matrices, because its rule never divides by the determinant: it
uses the adjugate (transposed cofactors), a polynomial, computed from singular values.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gradtape.core import batching, inference
from gradtape.core.arguments import broadcasting, real_number, real_numbers
from gradtape.core.dispatch import apply, promote
from gradtape.core.opdef import Fails, Sample, composite, general
from gradtape.core.tensor import Readable, Tensor
from gradtape.core.typing import Array, TensorLike
from gradtape.dtypes import numpy_dtype
from gradtape.errors import InvalidArgumentError
from gradtape.ir.types import TensorSpec
from gradtape.ops.linalg_solve import complex_normal, sample_regular
from gradtape.ops.sampling import definite, normal

# -- det ---------------------------------------------------------------------------------------------------------------


def _square_samples() -> list[Sample]:
    low_rank = np.outer([1.0, 2.0, -1.0], [0.5, 1.0, 2.0])
    return [
        Sample(sample_regular(3, 3)),
        Sample(normal(2, 2, 2)),
        Sample(normal(1, 1)),
        Sample(low_rank + np.diag([1.0, 0.0, 0.0])),  # rank 2
        Sample(normal(0, 2, 2)),
        Sample(complex_normal(3, 3)),
        Sample(normal(2, 3), raises=(ValueError, "square")),
    ]


# d det(A) = tr(adj(A) dA)
DET = general(
    "det", "x",
    lambda x: np.linalg.det(x),
    vjps=(lambda ct, x: ct[..., None, None] * matrix_transposed(apply(ADJUGATE, x)),),
    jvps=(lambda t, x: reduce_sum(diagonal_of(apply(ADJUGATE, x) @ t), -1),),
    infer=lambda x: TensorSpec(x.shape[:-2], x.dtype),
    batch=batching.leading,
    samples=_square_samples,
)  # fmt: skip


def _adjugate_impl(x: Array) -> Array:
    u, s, vh = np.linalg.svd(x)
    n = x.shape[-1]
    # adj(S) of a diagonal S has on its diagonal the products of all other singular values: no division by a zero one.
    others = np.where(np.eye(n, dtype=bool), np.ones((), s.dtype), s[..., None, :]).prod(-1)
    # The determinants of the two unitary factors are phases (signs, if real), which |s| does not know.
    phase = np.linalg.det(u) * np.linalg.det(vh)
    return _turned(vh) @ ((phase[..., None] * others)[..., None] * _turned(u))


def _turned(x: Array) -> Array:
    return np.conj(np.swapaxes(x, -1, -2))


# With A = U S Vᴴ, adj(A) = det(U Vᴴ) V adj(S) Uᴴ. For diagonal S and P[i,j] = the product of all s but s_i and s_j (0 on
# the diagonal), adj(S) changes in direction E by diag(P diag(E)) - P∘E: a self-adjoint map, exact also where s has zeros.
def adjugate_change(e: Tensor, s: Tensor) -> Tensor:
    """diag(P diag(E)) - P∘E."""
    n = s.shape[-1]
    index = np.arange(n)
    # P[i, j] leaves out two indices, so the products are taken over an axis of its own, with ones at the places left out.
    left_out = (index == index[:, None, None]) | (index == index[:, None])
    rows = broadcast_to(s[..., None, None, :], (*tuple(s.shape)[:-1], n, n, n))
    pairs = apply(PROD_LAST, where(left_out, ones_like(rows), rows))
    pairs = cast(pairs * (1.0 - np.eye(n)).astype(numpy_dtype(s.dtype)), e.dtype)
    return diagonal_matrix((pairs @ diagonal_of(e)[..., None])[..., 0]) - pairs * e


def adjugate_ct(ct: Tensor, x: Tensor) -> Tensor:
    """The adjoint of the change of adj(A), back in the coordinates of A."""
    s, u, v = apply(SVD, x, full=False)
    phase = (apply(DET, u) * apply(DET, matrix_transposed(v)))[..., None, None]
    inner = matrix_transposed(v) @ ct @ u * (conj(phase) if is_complex(phase) else phase)
    return u @ adjugate_change(inner, s) @ matrix_transposed(v)


def adjugate_tangent(t: Tensor, x: Tensor) -> Tensor:
    """The change of adj(A) in direction t."""
    s, u, v = apply(SVD, x, full=False)
    phase = (apply(DET, u) * apply(DET, matrix_transposed(v)))[..., None, None]
    return v @ adjugate_change(matrix_transposed(u) @ t @ v, s) @ matrix_transposed(u) * phase


ADJUGATE = general(
    "adjugate", "x", _adjugate_impl,
    vjps=(adjugate_ct,), jvps=(adjugate_tangent,), infer=inference.same, batch=batching.leading,
    call=lambda x: apply(ADJUGATE, matrices(x, "adjugate", square=True)),
    fails=Fails.VALUES, samples=_square_samples,
)  # fmt: skip


def det(input: TensorLike, name: str | None = None) -> Tensor:
    """Determinant of each square matrix; first and second derivatives are exact at singular matrices too.

    >>> x = gt.constant([[1.0, 2.0], [2.0, 4.0]])
    >>> with gt.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = gt.linalg.det(x)
    >>> tape.gradient(y, x).numpy().round(4)
    array([[ 4., -2.],
           [-2.,  1.]], dtype=float32)
    """
    return apply(DET, matrices(input, "det", square=True))


# -- logarithms of determinants ----------------------------------------------------------------------------------------


def _slogdet_impl(x: Array) -> tuple[Any, Any]:
    sign, log_abs = np.linalg.slogdet(x)
    return sign, log_abs


# d log|det A| = Re tr(A⁻¹ dA);  d sign = i·sign·Im tr(A⁻¹ dA), which is 0 for real matrices
def slogdet_ct(ct: tuple[Tensor, ...], x: Tensor, out: tuple[Tensor, ...]) -> Tensor:
    """(ct of the logarithm + i·turn) A⁻ᴴ, where turn = Re(conj(ct of the sign)·i·sign)."""
    inverse = matrix_transposed(apply(INV, x))
    if not is_complex(x):
        return ct[1][..., None, None] * inverse
    # The sign moves along the unit circle only, in direction i·sign: of its cotangent, the component along that counts.
    turn = real(conj(ct[0]) * out[0] * 1j)
    return (cast(ct[1], x.dtype) + cast(turn, x.dtype) * 1j)[..., None, None] * inverse


def slogdet_tangent(t: Tensor, x: Tensor, out: tuple[Tensor, ...]) -> tuple[Any, Any]:
    """Tangents of sign and logarithm."""
    rate = reduce_sum(diagonal_of(apply(SOLVE, x, t)), -1)
    if not is_complex(x):
        return zeros_like(out[0]), rate
    return out[0] * cast(imag(rate), x.dtype) * 1j, real(rate)


SLOGDET = general(
    "slogdet", "x", _slogdet_impl,
    vjps=(slogdet_ct,), jvps=(slogdet_tangent,),
    infer=lambda x: (TensorSpec(x.shape[:-2], x.dtype), TensorSpec(x.shape[:-2], x.dtype.real_dtype)),
    batch=batching.leading,
    outputs=2,
    samples=lambda: [
        Sample(sample_regular(3, 3)),
        Sample(sample_regular(2, 2, 2)),
        Sample(complex_normal(3, 3)),
        Sample(normal(2, 3), raises=(ValueError, "square")),
    ],
)  # fmt: skip


class LogMatrixDeterminant(NamedTuple):
    """What `slogdet` returns."""

    sign: Tensor
    log_abs_determinant: Tensor


def slogdet(input: TensorLike, name: str | None = None) -> LogMatrixDeterminant:
    """(sign, log_abs_determinant): det = sign · exp(log_abs_determinant), without overflow; (0, -inf) for singular matrices.

    >>> sign, log_abs = gt.linalg.slogdet([[1.0, 0.0], [0.0, -1.0]])
    >>> sign.numpy(), log_abs.numpy()
    (np.float32(-1.0), np.float32(0.0))
    """
    return LogMatrixDeterminant(*apply(SLOGDET, matrices(input, "slogdet", square=True)))


@composite(
    samples=lambda: [
        Sample(definite(3, 3)),
        Sample(definite(2, 2, 2)),
        Sample(definite(2, 2) + np.array([[0, 0.4j], [-0.4j, 0]])),
        Sample(-definite(2, 2), raises=(ValueError, "positive definite")),
        Sample(normal(2, 3), raises=(ValueError, "square")),
    ]
)
def logdet(matrix: TensorLike, name: str | None = None) -> Tensor:
    """Logarithm of the determinant of Hermitian positive definite matrices, by Cholesky factorisation.

    >>> gt.linalg.logdet([[1.0, 0.0], [0.0, 1.0]]).numpy()
    np.float32(0.0)
    """
    factor = hermitian_cholesky(matrices(matrix, "logdet", square=True))
    return 2.0 * reduce_sum(log(real(diagonal_of(factor))), -1)


# -- pseudo-inverse ----------------------------------------------------------------------------------------------------


def _pinv_impl(x: Array, *, rcond: float) -> Array:
    try:
        return np.linalg.pinv(x, rcond=rcond)
    except np.linalg.LinAlgError as error:
        raise InvalidArgumentError(f"pinv: no singular values found for shape {x.shape}; look for NaN or inf") from error


# at constant rank (Golub & Pereyra 1973), P = A⁺:
# dP = -P dA P + P Pᴴ dAᴴ (I - A P) + (I - P A) dAᴴ Pᴴ P
def pinv_ct(ct: Tensor, x: Tensor, out: Tensor) -> Tensor:
    """-Pᴴ P̄ Pᴴ + (I - A P) P̄ᴴ P Pᴴ + Pᴴ P P̄ᴴ (I - P A)."""
    turned, back = matrix_transposed(out), matrix_transposed(ct)
    left = back @ out @ turned
    right = turned @ out @ back
    return left - x @ (out @ left) + right - (right @ out) @ x - turned @ ct @ turned


def pinv_tangent(t: Tensor, x: Tensor, out: Tensor) -> Tensor:
    """The tangent of the pseudo-inverse at constant rank."""
    turned, back = matrix_transposed(out), matrix_transposed(t)
    left = out @ turned @ back
    right = back @ turned @ out
    return left - (left @ x) @ out + right - out @ (x @ right) - out @ t @ out


PINV = general(
    "pinv", "x", _pinv_impl,
    vjps=(pinv_ct,), jvps=(pinv_tangent,),
    infer=lambda x, *, rcond: TensorSpec((*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype),
    batch=batching.leading,
    fails=Fails.VALUES,
    samples=lambda: [
        Sample(normal(4, 2)),
        Sample(normal(2, 2, 3)),
        Sample(sample_regular(3, 3)),
        Sample(complex_normal(3, 2)),
        Sample(normal(3), raises=(ValueError, "rank 2")),
    ],
)  # fmt: skip


def pinv(a: TensorLike, rcond: float | None = None, validate_args: bool = False, name: str | None = None) -> Tensor:
    """Moore-Penrose pseudo-inverse; singular values below `rcond` times the largest count as 0.

    The derivative is the one at constant rank: the pseudo-inverse jumps where the rank changes.

    >>> gt.linalg.pinv([[2.0], [0.0]]).numpy()
    array([[0.5, 0. ]], dtype=float32)
    """
    x = matrices(a, "pinv")
    if rcond is None:
        eps = np.finfo(numpy_dtype(x.dtype)).eps
        rcond = 10.0 * max(x.shape[-2], x.shape[-1]) * float(eps)
    return apply(PINV, x, rcond=float(rcond))


@composite(
    samples=lambda: [
        Sample(normal(3, 2)),
        Sample(np.ones((2, 3, 3))),
        Sample(np.diag([1.0, 1e-3]), 1e-2),
        Sample(normal(0, 2, 2)),
        Sample(normal(3), raises=(ValueError, "rank 2")),
    ],
    differentiable=False,
)
def matrix_rank(a: TensorLike, tol: TensorLike | None = None, validate_args: bool = False, name: str | None = None) -> Tensor:
    """How many singular values of each matrix exceed `tol` (by default what rounding makes of zero), as int32.

    >>> int(gt.linalg.matrix_rank([[1.0, 2.0], [2.0, 4.0]]))
    1
    """
    x = stop_gradient(matrices(a, "matrix_rank"))
    values = svd(x, compute_uv=False)
    if tol is None:
        eps = float(np.finfo(numpy_dtype(x.dtype)).eps)
        tol = reduce_max(values, -1, True) * (eps * max(x.shape[-2], x.shape[-1]))
    else:
        tol = real_numbers(tol, "tol", "matrix_rank", values.dtype)
        broadcasting("matrix_rank", tol=tol, singular_values=values)
    return reduce_sum(cast(values > tol, "int32"), -1)


# -- least squares -----------------------------------------------------------------------------------------------------


@composite(
    samples=lambda: [
        Sample(normal(4, 2), normal(4, 3)),
        Sample(normal(2, 4), normal(2, 1)),
        Sample(normal(2, 4, 2), normal(2, 4, 1)),
        Sample(normal(4, 2), normal(4, 1), 0.3),
        Sample(normal(2, 3), normal(2, 1), 0.3),
        Sample(normal(4, 2), normal(4, 1), fast=False),
        Sample(normal(2, 4), normal(2, 1), fast=False),
        Sample(complex_normal(3, 2), complex_normal(3, 1)),
        Sample(normal(4, 2), normal(3, 1), raises=(ValueError, "rows")),
        Sample(np.ones((3, 2)), normal(3, 1), raises=(ValueError, "full rank")),
        Sample(normal(4, 2), normal(4, 1), -1.0, raises=(ValueError, "l2_regularizer")),
    ]
)
def lstsq(
    matrix: TensorLike, rhs: TensorLike, l2_regularizer: TensorLike = 0.0, fast: bool = True, name: str | None = None
) -> Tensor:
    """X that minimises |matrix·X - rhs|² + l2_regularizer·|X|²; the shortest such X where there are many.

    `fast=True` factorises by QR and needs full rank (or a regularizer, which may be a tensor and has a gradient); `fast=False`
    uses the pseudo-inverse, works for any rank and ignores the regularizer. TensorFlow's fast path solves the normal equations,
    which is less accurate.

    >>> gt.linalg.lstsq([[1.0], [1.0]], [[2.0], [4.0]]).numpy().round(4)
    array([[3.]], dtype=float32)
    """
    a, b = promote(matrices(matrix, "lstsq"), rhs)
    b = matrices(b, "lstsq")
    if a.shape[-2] != b.shape[-2]:
        raise InvalidArgumentError(f"lstsq: matrix of shape {tuple(a.shape)} and rhs of shape {tuple(b.shape)} differ in rows")
    given = isinstance(l2_regularizer, (Tensor, Readable))
    weight: Any = l2_regularizer if given else real_number(l2_regularizer, "l2_regularizer", "lstsq")
    if not given and weight < 0:
        raise InvalidArgumentError(f"lstsq: l2_regularizer must not be negative, got {weight}")
    if not fast:
        return pinv(a) @ b
    if given or weight:
        # the same as plain least squares with √weight·I appended to the matrix and zeros to the right-hand side
        n = a.shape[-1]
        extra = (sqrt(cast(weight, a.dtype)) if given else weight**0.5) * np.eye(n, dtype=numpy_dtype(a.dtype))
        a = concat([a, broadcast_to(extra, (*tuple(a.shape)[:-2], n, n))], -2)
        b = concat([b, zeros((*tuple(b.shape)[:-2], n, b.shape[-1]), b.dtype)], -2)
    # Fewer equations than unknowns: with Aᴴ = Q R the shortest solution is Q R⁻ᴴ b, orthogonal to the kernel of A.
    wide = a.shape[-2] < a.shape[-1]
    q, r = apply(QR, matrix_transposed(a) if wide else a, full=False, user="lstsq")
    if wide:
        return q @ triangular_solve(r, b, lower=False, adjoint=True)
    return triangular_solve(r, matrix_transposed(q) @ b, lower=False)


OPS = (DET, ADJUGATE, SLOGDET, PINV)

from gradtape.ops.create import ones_like, zeros, zeros_like
from gradtape.ops.elementwise import cast, conj, imag, is_complex, log, real, sqrt
from gradtape.ops.linalg_solve import INV, SOLVE, hermitian_cholesky, triangular_solve
from gradtape.ops.linalg_spectral import QR, SVD, svd
from gradtape.ops.matmul import matrix_transposed
from gradtape.ops.matrix import diagonal_matrix, diagonal_of, matrices
from gradtape.ops.reduce import PROD_LAST, reduce_max, reduce_sum
from gradtape.ops.select import where
from gradtape.ops.shape import broadcast_to, concat
from gradtape.ops.stop import stop_gradient

__all__ = ["det", "logdet", "lstsq", "matrix_rank", "pinv", "slogdet"]
