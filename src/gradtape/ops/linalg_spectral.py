"""Orthogonal and spectral decompositions: qr, svd, eigh, eig.

Eigenvectors and singular vectors are defined up to a phase (a sign for real matrices), and up to a rotation inside a
group of equal values. The rules give the derivative of functions that do not depend on that choice. Where two eigenvalues
or singular values are equal, the coefficient 1/(difference) is taken as 0 instead of inf: exact for functions of the
values alone and of the subspaces of whole groups of equal values; not for functions that treat members of such a group
differently, nor for second derivatives across such a group. Functions of matrices (expm, sqrtm) are in `linalg_functions.py`
and do not have this limit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, overload

import numpy as np

from gradtape.core import batching
from gradtape.core.dispatch import apply
from gradtape.core.opdef import Fails, Sample, composite, general
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Array, TensorLike
from gradtape.dtypes import numpy_dtype
from gradtape.errors import InvalidArgumentError
from gradtape.ir.polynomial import may_exceed
from gradtape.ir.types import TensorSpec
from gradtape.ops.sampling import normal, symmetric

# -- helpers -----------------------------------------------------------------------------------------------------------


def _decomposed(op: str, function: Callable[..., Any], x: Array, **options: bool) -> Any:
    """What NumPy's function gives; its error in our words."""
    try:
        return function(x, **options)
    except np.linalg.LinAlgError as error:
        text = f"{op}: no convergence for shape {x.shape}, dtype {x.dtype.name}; look for NaN or inf"
        raise InvalidArgumentError(text) from error


def reciprocal_or_zero(x: Tensor) -> Tensor:
    """1/x, and 0 where x is 0."""
    zero = x == 0
    return where(zero, zeros_like(x), 1.0 / where(zero, ones_like(x), x))


def inverse_gaps(values: Tensor) -> Tensor:
    """F[i, j] = 1/(v_j - v_i), and 0 where they are equal."""
    return reciprocal_or_zero(values[..., None, :] - values[..., :, None])


def outside(x: Tensor, basis: Tensor) -> Tensor:
    """(I - Q Qᴴ) x."""
    return x - basis @ (matrix_transposed(basis) @ x)


# -- qr ----------------------------------------------------------------------------------------------------------------


def _qr_impl(x: Array, *, full: bool, user: str) -> tuple[Any, Any]:
    q, r = np.linalg.qr(x, mode="complete" if full else "reduced")
    if user == "lstsq":  # which divides by r
        size = np.abs(np.diagonal(r, axis1=-2, axis2=-1))
        if size.size and (size.min(-1) <= size.max(-1) * np.finfo(size.dtype).eps * max(x.shape[-2:])).any():
            raise InvalidArgumentError(
                f"lstsq: a matrix (shape {x.shape}) has not full rank; use fast=False or give an l2_regularizer"
            )
    return q, r


# A = Q R, R with a real diagonal. With C = Qᴴ dA R⁻¹:  dQ = Q Ω + (I - QQᴴ) dA R⁻¹ and dR = (C - Ω) R, where Ω is the
# anti-Hermitian matrix with the lower triangle of C. Further columns Q₂ turn only as they must: dQ₂ = -Q (Q₂ᴴ dQ)ᴴ.
def qr_ct(ct: tuple[Tensor, ...], out: tuple[Tensor, ...], full: bool) -> Tensor:
    """[Q (Φ(W - Wᴴ) + N) + (I - QQᴴ) Q̄ - Q₂ Q̄₂ᴴ Q] R⁻ᴴ with N = R̄ Rᴴ, W = Qᴴ Q̄ - N, Φ = tril with half the diagonal."""
    n = out[1].shape[-1]
    q, r = out[0][..., :n], out[1][..., :n, :]
    ct_q, ct_r = ct[0][..., :n], ct[1][..., :n, :]
    upper = ct_r @ matrix_transposed(r)
    skew = matrix_transposed(q) @ ct_q - upper
    inner = triangle(skew - matrix_transposed(skew), 0, diagonal=0.5) + upper
    total = q @ inner + outside(ct_q, q)
    if full and out[0].shape[-1] > n:
        total = total - out[0][..., n:] @ (matrix_transposed(ct[0][..., n:]) @ q)
    return matrix_transposed(apply(TRIANGULAR_SOLVE, r, matrix_transposed(total), lower=False, adjoint=False))


def qr_tangent(t: Tensor, out: tuple[Tensor, ...], full: bool) -> tuple[Any, Any]:
    """Tangents of Q and R."""
    n = out[1].shape[-1]
    q, r = out[0][..., :n], out[1][..., :n, :]
    moved = matrix_transposed(apply(TRIANGULAR_SOLVE, r, matrix_transposed(t), lower=False, adjoint=True))
    inner = matrix_transposed(q) @ moved
    low = triangle(inner, 0, diagonal=0.5)
    # half the diagonal minus its conjugate leaves i·Im of it
    skew = triangle(low, 0) - matrix_transposed(low)
    dq, dr = q @ skew + outside(moved, q), (inner - skew) @ r
    if full and out[0].shape[-1] > n:
        rest = out[0][..., n:]
        dq = concat([dq, -(q @ (matrix_transposed(moved) @ rest))], -1)
        dr = concat([dr, zeros_like(out[1][..., n:, :])], -2)
    return dq, dr


def _qr_spec(x: TensorSpec, *, full: bool, user: str) -> tuple[TensorSpec, TensorSpec]:
    rows, columns = x.shape[-2:]
    inner = rows if full else min(rows, columns)
    return TensorSpec((*x.shape[:-1], inner), x.dtype), TensorSpec((*x.shape[:-2], inner, columns), x.dtype)


QR = general(
    "qr", "x", _qr_impl,
    vjps=(qr_ct,), jvps=(qr_tangent,), infer=_qr_spec, batch=batching.leading,
    call=lambda x, full=False: qr(x, full),
    outputs=2, fails=Fails.VALUES,
    samples=lambda: [
        Sample(normal(3, 3)),
        Sample(normal(4, 2)),
        Sample(normal(2, 3, 2)),
        Sample(normal(2, 2), True),
        Sample(normal(3, 2) + 1j * normal(3, 2)),
        Sample(normal(2, 2) + 1j * normal(2, 2)),
        Sample(normal(2, 4)),
        Sample(normal(3), raises=(ValueError, "rank 2")),
    ],
)  # fmt: skip


class Qr(NamedTuple):
    """What `qr` returns."""

    q: Tensor
    r: Tensor


def qr(input: TensorLike, full_matrices: bool = False, name: str | None = None) -> Qr:
    """(q, r) with q·r = input, q having orthonormal columns and r upper triangular.

    The derivative needs linearly independent columns (of the first min(rows, columns) ones). With `full_matrices` the
    further columns of q are any basis of the rest: gradients are those of functions that do not depend on which.

    >>> q, r = gt.linalg.qr([[3.0, 1.0], [4.0, 2.0]])
    >>> (q @ r).numpy().round(4)
    array([[3., 1.],
           [4., 2.]], dtype=float32)
    """
    x = matrices(input, "qr")
    rows, columns = x.shape[-2:]
    if rows >= columns:
        return Qr(*apply(QR, x, full=bool(full_matrices) and rows > columns, user="qr"))
    # a wide matrix: the square part decides q, the rest of r follows
    q, r = apply(QR, x[..., :rows], full=False, user="qr")
    return Qr(q, concat([r, matrix_transposed(q) @ x[..., rows:]], -1))


# -- svd ---------------------------------------------------------------------------------------------------------------


def _svd_impl(x: Array, *, full: bool) -> tuple[Any, Any, Any]:
    u, s, vh = _decomposed("svd", np.linalg.svd, x, full_matrices=full)
    return s, u, np.conj(np.swapaxes(vh, -1, -2))


# A = U S Vᴴ. With D = Uᴴ dA V and F[i,j] = 1/(s_j² - s_i²):  ds = Re diag(D),
# dU = U (F∘(D S + S Dᴴ) + i Im diag(D)/S) + (I - UUᴴ) dA V S⁻¹,  dV = V (F∘(S D + Dᴴ S)) + (I - VVᴴ) dAᴴ U S⁻¹
def svd_ct(ct: tuple[Tensor, ...], out: tuple[Tensor, ...], full: bool) -> Tensor:
    """The transpose of these, term by term."""
    s, k = out[0], out[0].shape[-1]
    u, v, ct_u, ct_v = out[1][..., :k], out[2][..., :k], ct[1][..., :k], ct[2][..., :k]
    size = cast(s, u.dtype)
    gaps = cast(svd_gaps(s), u.dtype)
    inverse = reciprocal_or_zero(size)[..., None, :]
    turn_u, turn_v = matrix_transposed(u) @ ct_u, matrix_transposed(v) @ ct_v
    bent_u, bent_v = gaps * turn_u, gaps * turn_v
    inner = (bent_u + matrix_transposed(bent_u)) * size[..., None, :] + size[..., :, None] * (
        bent_v + matrix_transposed(bent_v)
    )
    # the singular values are real, so only the real part of diag(D) moves them; its imaginary part turns the phases of u and v
    middle = cast(ct[0], u.dtype)
    if is_complex(u):
        middle = middle + cast(imag(diagonal_of(turn_u)), u.dtype) * reciprocal_or_zero(size) * 1j
    left = u @ (inner + diagonal_matrix(middle))
    if may_exceed(u.shape[-2], k):
        left = left + outside(ct_u, u) * inverse
    total = left @ matrix_transposed(v)
    if may_exceed(v.shape[-2], k):
        total = total + (u * inverse) @ matrix_transposed(outside(ct_v, v))
    if full and may_exceed(out[1].shape[-1], k):
        rest = out[1][..., k:] @ (matrix_transposed(ct[1][..., k:]) @ u)
        total = total - (rest * inverse) @ matrix_transposed(v)
    if full and may_exceed(out[2].shape[-1], k):
        rest = (matrix_transposed(v) @ ct[2][..., k:]) @ matrix_transposed(out[2][..., k:])
        total = total - (u * inverse) @ rest
    return total


def svd_gaps(s: Tensor) -> Tensor:
    """F[i, j] = 1/(s_j² - s_i²), and 0 where they are equal."""
    return inverse_gaps(s) * reciprocal_or_zero(s[..., None, :] + s[..., :, None])


def svd_tangent(t: Tensor, out: tuple[Tensor, ...], full: bool) -> tuple[Any, Any, Any]:
    """Tangents of singular values and vectors."""
    s, k = out[0], out[0].shape[-1]
    u, v = out[1][..., :k], out[2][..., :k]
    size = cast(s, u.dtype)
    gaps = cast(svd_gaps(s), u.dtype)
    inverse = reciprocal_or_zero(size)[..., None, :]
    inner = matrix_transposed(u) @ t @ v
    right, left = inner * size[..., None, :], size[..., :, None] * inner
    turn_u = gaps * (right + matrix_transposed(right))
    turn_v = gaps * (left + matrix_transposed(left))
    if is_complex(u):
        turn_u = turn_u + diagonal_matrix(cast(imag(diagonal_of(inner)), u.dtype) * reciprocal_or_zero(size) * 1j)
    moved_u, moved_v = (t @ v) * inverse, (matrix_transposed(t) @ u) * inverse
    du, dv = u @ turn_u, v @ turn_v
    # where the vectors span everything, nothing is outside: what rounding leaves there must not be divided by a tiny s
    if may_exceed(u.shape[-2], k):
        du = du + outside(moved_u, u)
    if may_exceed(v.shape[-2], k):
        dv = dv + outside(moved_v, v)
    if full and may_exceed(out[1].shape[-1], k):
        du = concat([du, -(u @ (matrix_transposed(moved_u) @ out[1][..., k:]))], -1)
    if full and may_exceed(out[2].shape[-1], k):
        dv = concat([dv, -(v @ (matrix_transposed(moved_v) @ out[2][..., k:]))], -1)
    return real(diagonal_of(inner)), du, dv


def _svd_spec(x: TensorSpec, *, full: bool) -> tuple[TensorSpec, ...]:
    rows, columns = x.shape[-2:]
    k = min(rows, columns)
    lead = x.shape[:-2]
    return (
        TensorSpec((*lead, k), x.dtype.real_dtype),
        TensorSpec((*lead, rows, rows if full else k), x.dtype),
        TensorSpec((*lead, columns, columns if full else k), x.dtype),
    )


SVD = general(
    "svd", "x", _svd_impl,
    vjps=(svd_ct,), jvps=(svd_tangent,), infer=_svd_spec, batch=batching.leading,
    outputs=3, fails=Fails.VALUES,
    samples=lambda: [
        Sample(normal(3, 3)),
        Sample(normal(4, 2)),
        Sample(normal(2, 2, 3)),
        Sample(normal(2, 1)),
        Sample(normal(3), raises=(ValueError, "rank 2")),
        Sample(np.full((2, 2), np.nan), raises=(ValueError, "NaN")),
    ],
)  # fmt: skip


def _values_impl(x: Array) -> Array:
    return _decomposed("svd", np.linalg.svd, x, compute_uv=False)


def values_ct(ct: Tensor, x: Tensor) -> Tensor:
    """U diag(s̄) Vᴴ."""
    _, u, v = apply(SVD, x, full=False)
    return (u * cast(ct, u.dtype)[..., None, :]) @ matrix_transposed(v)


def values_tangent(t: Tensor, x: Tensor) -> Tensor:
    """Re diag(Uᴴ Ȧ V)."""
    _, u, v = apply(SVD, x, full=False)
    return real(diagonal_of(matrix_transposed(u) @ t @ v))


SINGULAR_VALUES = general(
    "singular_values", "x", _values_impl,
    vjps=(values_ct,), jvps=(values_tangent,),
    infer=lambda x: TensorSpec((*x.shape[:-2], min(x.shape[-2:])), x.dtype.real_dtype),
    batch=batching.leading,
    call=lambda x: svd(x, compute_uv=False),
    fails=Fails.VALUES,
    samples=lambda: [Sample(normal(3, 3)), Sample(normal(2, 4, 2)), Sample(normal(2, 3) + 1j * normal(2, 3))],
)  # fmt: skip


@overload
def svd(
    tensor: TensorLike, full_matrices: bool = False, compute_uv: Literal[True] = True, name: str | None = None
) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def svd(tensor: TensorLike, full_matrices: bool = False, *, compute_uv: bool, name: str | None = None) -> Any: ...
def svd(tensor: TensorLike, full_matrices: bool = False, compute_uv: bool = True, name: str | None = None) -> Any:
    """(s, u, v) with u·diag(s)·vᴴ = tensor, s decreasing; only s with `compute_uv=False`.

    Gradients are those of functions that do not depend on the phases (signs) of u and v. Equal or zero singular values:
    their singular vectors are not differentiable one by one, the rule leaves that part out (0 instead of inf); functions
    of s, and of subspaces of whole groups of equal values, keep exact first derivatives.

    >>> s, u, v = gt.linalg.svd([[3.0, 0.0], [0.0, 2.0]])
    >>> s.numpy()
    array([3., 2.], dtype=float32)
    """
    x = matrices(tensor, "svd")
    if not compute_uv:
        return apply(SINGULAR_VALUES, x)
    return apply(SVD, x, full=bool(full_matrices) and x.shape[-1] != x.shape[-2])


# -- Hermitian eigenvalues ---------------------------------------------------------------------------------------------


def _eigh_impl(x: Array) -> tuple[Any, Any]:
    values, vectors = _decomposed("eigh", np.linalg.eigh, x)
    return values, vectors


def fold_lower(x: Tensor) -> Tensor:
    """A cotangent of Hermitian matrices as one of their lower triangle, the part that is read."""
    return triangle(x + matrix_transposed(x), 0, diagonal=0.5)


def from_lower(t: Tensor) -> Tensor:
    """The Hermitian tangent whose lower triangle is that of t."""
    # `eigh` reads the lower triangle only: a tangent above it must not count, and one on the diagonal only with its real part
    low = triangle(t, -1)
    diagonal = cast(real(diagonal_of(t)), t.dtype)
    return low + matrix_transposed(low) + diagonal_matrix(diagonal)


# A V = V E, F[i,j] = 1/(e_j - e_i):  de = diag(Vᴴ dA V),  dV = V (F∘(Vᴴ dA V))
def eigh_ct(ct: tuple[Tensor, ...], out: tuple[Tensor, ...]) -> Tensor:
    """V (diag(ē) + F∘(Vᴴ V̄)) Vᴴ, folded into the lower triangle."""
    e, v = out
    inner = cast(inverse_gaps(e), v.dtype) * (matrix_transposed(v) @ ct[1])
    return fold_lower(v @ (inner + diagonal_matrix(cast(ct[0], v.dtype))) @ matrix_transposed(v))


def eigh_tangent(t: Tensor, out: tuple[Tensor, ...]) -> tuple[Any, Any]:
    """Tangents of eigenvalues and eigenvectors."""
    e, v = out
    inner = matrix_transposed(v) @ from_lower(t) @ v
    return real(diagonal_of(inner)), v @ (cast(inverse_gaps(e), v.dtype) * inner)


EIGH = general(
    "eigh", "x", _eigh_impl,
    vjps=(eigh_ct,), jvps=(eigh_tangent,),
    infer=lambda x: (TensorSpec(x.shape[:-1], x.dtype.real_dtype), TensorSpec(x.shape, x.dtype)),
    batch=batching.leading,
    outputs=2, fails=Fails.VALUES,
    samples=lambda: [
        Sample(symmetric(3, 3)),
        Sample(symmetric(2, 2, 2)),
        Sample(normal(1, 1)),
        Sample(normal(2, 3), raises=(ValueError, "square")),
    ],
)  # fmt: skip


def eigh(tensor: TensorLike, name: str | None = None) -> tuple[Tensor, Tensor]:
    """(e, v): increasing real eigenvalues and the eigenvectors (columns) of Hermitian matrices.

    Only the lower triangle is read, and the gradient lies in it, as in TensorFlow. Gradients are those of functions that
    do not depend on the phases (signs) of the eigenvectors. Repeated eigenvalues: their eigenvectors are not
    differentiable one by one, the rule leaves that part out (0 instead of inf); functions symmetric in the equal
    eigenvalues, and projectors on whole eigenspaces, keep exact first derivatives.

    >>> e, v = gt.linalg.eigh([[2.0, 0.0], [0.0, 1.0]])
    >>> e.numpy()
    array([1., 2.], dtype=float32)
    """
    return apply(EIGH, matrices(tensor, "eigh", square=True))


def _eigvalsh_impl(x: Array) -> Array:
    return _decomposed("eigvalsh", np.linalg.eigvalsh, x)


def eigvalsh_ct(ct: Tensor, x: Tensor) -> Tensor:
    """V diag(ē) Vᴴ, folded into the lower triangle."""
    _, v = apply(EIGH, x)
    return fold_lower((v * cast(ct, v.dtype)[..., None, :]) @ matrix_transposed(v))


def eigvalsh_tangent(t: Tensor, x: Tensor) -> Tensor:
    """diag(Vᴴ Ȧ V)."""
    _, v = apply(EIGH, x)
    return real(diagonal_of(matrix_transposed(v) @ from_lower(t) @ v))


EIGVALSH = general(
    "eigvalsh", "x", _eigvalsh_impl,
    vjps=(eigvalsh_ct,), jvps=(eigvalsh_tangent,),
    infer=lambda x: TensorSpec(x.shape[:-1], x.dtype.real_dtype),
    batch=batching.leading,
    fails=Fails.VALUES,
    samples=lambda: [
        Sample(symmetric(3, 3)),
        Sample(symmetric(2, 2, 2)),
        Sample(symmetric(2, 2) + np.array([[0, -0.7j], [0.7j, 0]])),
        Sample(normal(2, 3), raises=(ValueError, "square")),
    ],
)  # fmt: skip


def eigvalsh(tensor: TensorLike, name: str | None = None) -> Tensor:
    """Increasing real eigenvalues of Hermitian matrices; see `eigh` for what is read and for repeated eigenvalues.

    >>> gt.linalg.eigvalsh([[2.0, 0.0], [0.0, 1.0]]).numpy()
    array([1., 2.], dtype=float32)
    """
    return apply(EIGVALSH, matrices(tensor, "eigvalsh", square=True))


# -- general eigenvalues -----------------------------------------------------------------------------------------------


def _eig_impl(x: Array) -> tuple[Any, Any]:
    values, vectors = _decomposed("eig", np.linalg.eig, x)
    dtype = np.result_type(x.dtype, np.complex64)
    return values.astype(dtype, copy=False), vectors.astype(dtype, copy=False)


# A V = V E with columns of length 1. With D = V⁻¹ dA V:  de = diag(D),  dV = V C, C[i,j] = D[i,j]/(e_j - e_i) and a real
# diagonal that keeps the lengths
def eig_ct(ct: tuple[Tensor, ...], out: tuple[Tensor, ...], x_spec: TensorSpec) -> Tensor:
    """V⁻ᴴ (diag(ē) + conj(F)∘(Vᴴ V̄ - Vᴴ V diag(Re diag(Vᴴ V̄)))) Vᴴ; its real part for real matrices."""
    e, v = out
    turned = matrix_transposed(v)
    pull = turned @ ct[1]
    # what would change the length of a column, which is kept at 1, is taken out
    length = cast(real(diagonal_of(pull)), v.dtype)
    inner = conj(inverse_gaps(e)) * (pull - (turned @ v) * length[..., None, :])
    return cast(apply(SOLVE, turned, (inner + diagonal_matrix(ct[0])) @ turned), x_spec.dtype)


def eig_tangent(t: Tensor, out: tuple[Tensor, ...]) -> tuple[Any, Any]:
    """Tangents of eigenvalues and eigenvectors."""
    e, v = out
    inner = apply(SOLVE, v, cast(t, v.dtype) @ v)
    turn = v @ (inverse_gaps(e) * inner)
    length = real(diagonal_of(matrix_transposed(v) @ turn))
    return diagonal_of(inner), turn - v * cast(length, v.dtype)[..., None, :]


def _complex_dtype(x: TensorSpec) -> np.dtype:
    return np.result_type(numpy_dtype(x.dtype), np.complex64)


EIG = general(
    "eig", "x", _eig_impl,
    vjps=(eig_ct,), jvps=(eig_tangent,),
    infer=lambda x: (TensorSpec(x.shape[:-1], _complex_dtype(x)), TensorSpec(x.shape, _complex_dtype(x))),
    batch=batching.leading,
    outputs=2, fails=Fails.VALUES,
    samples=lambda: [
        Sample(symmetric(3, 3) + 0.3 * normal(3, 3)),
        Sample(symmetric(2, 2, 2) + 0.3 * normal(2, 2, 2)),
        Sample(normal(2, 3), raises=(ValueError, "square")),
    ],
)  # fmt: skip


def eig(tensor: TensorLike, name: str | None = None) -> tuple[Tensor, Tensor]:
    """(e, v): complex eigenvalues and eigenvectors (columns of length 1) of square matrices, in LAPACK's order.

    Gradients are those of functions that do not depend on the phases of the eigenvectors. Repeated eigenvalues as for
    `eigh`; a defective matrix (linearly dependent eigenvectors) has no derivative and raises in the backward pass.

    >>> e, v = gt.linalg.eig([[0.0, 1.0], [-1.0, 0.0]])
    >>> gt.sort(gt.math.imag(e)).numpy()
    array([-1.,  1.], dtype=float32)
    """
    return apply(EIG, matrices(tensor, "eig", square=True))


@composite(samples=lambda: [Sample(symmetric(3, 3) + 0.3 * normal(3, 3)), Sample(normal(2, 3), raises=(ValueError, "square"))])
def eigvals(tensor: TensorLike, name: str | None = None) -> Tensor:
    """Complex eigenvalues of square matrices, in LAPACK's order; see `eig`.

    >>> gt.linalg.eigvals([[2.0, 1.0], [0.0, 1.0]]).numpy()
    array([2.+0.j, 1.+0.j], dtype=complex64)
    """
    return eig(tensor)[0]


OPS = (QR, SVD, SINGULAR_VALUES, EIGH, EIGVALSH, EIG)

from gradtape.ops.create import ones_like, zeros_like
from gradtape.ops.elementwise import cast, conj, imag, is_complex, real
from gradtape.ops.linalg_solve import SOLVE, TRIANGULAR_SOLVE
from gradtape.ops.matmul import matrix_transposed
from gradtape.ops.matrix import diagonal_matrix, diagonal_of, matrices, triangle
from gradtape.ops.select import where
from gradtape.ops.shape import concat

__all__ = ["eig", "eigh", "eigvals", "eigvalsh", "qr", "svd"]
