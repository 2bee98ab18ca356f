"""Linear systems and the factorisations that solve them: inv, solve, triangular solves, Cholesky, LU.

Everything works on the matrices in the last two axes and treats leading axes as a batch. Determinants, pseudo-inverse and
least squares are in `linalg_det.py`, eigenvalues and singular values in `linalg_spectral.py`. Invariant: primitives get
operands with equal leading axes, so a batch axis in front is always legal.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gradtape.core import batching, inference
from gradtape.core.dispatch import apply, promote
from gradtape.core.opdef import Fails, Op, Sample, composite, general
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Array, TensorLike
from gradtape.dtypes import DType, DTypeLike, as_dtype, numpy_dtype
from gradtape.errors import InvalidArgumentError
from gradtape.ir.types import TensorSpec
from gradtape.ops.sampling import definite, normal

# -- helpers -----------------------------------------------------------------------------------------------------------


def for_lapack(x: Array) -> Array:
    """`x` in a type that LAPACK has: small floats, integers and booleans as doubles, to be rounded back by the caller."""
    return x if x.dtype.char in "fdFD" else x.astype(np.float64)


def complex_normal(*shape: int) -> Array:
    """Complex samples."""
    return normal(*shape) + 1j * normal(*shape)


def sample_regular(*shape: int) -> Array:
    """Well-conditioned square samples that are not symmetric."""
    return normal(*shape) * 0.5 + 2.0 * np.eye(shape[-1])


def _describe(x: Array) -> str:
    kind = "matrix" if x.ndim == 2 else "a matrix of the batch"
    return f"{kind} (shape {x.shape}, dtype {x.dtype.name})"


def _singular(op: str, x: Array) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{op}: {_describe(x)} is singular; use gt.linalg.pinv or gt.linalg.lstsq(..., fast=False), or add a multiple of eye"
    )


def _same_lead(a: Tensor, b: Tensor, op: str) -> tuple[Any, Any]:
    """Both with the same leading axes; checks that b's columns fit a's rows."""
    if a.shape[-2] != b.shape[-2]:
        raise InvalidArgumentError(
            f"{op}: matrix of shape {tuple(a.shape)} and right-hand side of shape {tuple(b.shape)} differ in rows"
        )
    # Here, and not in the primitives: un-broadcasting the cotangents is then the work of `broadcast_to`, once for all of them.
    lead_a, lead_b = tuple(a.shape)[:-2], tuple(b.shape)[:-2]
    if lead_a == lead_b:
        return a, b
    lead = inference.broadcast_shapes(lead_a, lead_b)
    return broadcast_to(a, (*lead, *tuple(a.shape)[-2:])), broadcast_to(b, (*lead, *tuple(b.shape)[-2:]))


# The projection onto Hermitian directions: for functions that are defined along these only.
def hermitian_part(x: Tensor) -> Tensor:
    """(X + Xᴴ)/2."""
    return (x + matrix_transposed(x)) * 0.5


# -- inverse -----------------------------------------------------------------------------------------------------------


def _inv_impl(x: Array) -> Array:
    try:
        return np.linalg.inv(x)
    except np.linalg.LinAlgError as error:
        raise _singular("inv", x) from error


# d(A⁻¹) = -A⁻¹ dA A⁻¹
INV = general(
    "inv", "x", _inv_impl,
    vjps=(lambda ct, out: -(matrix_transposed(out) @ ct @ matrix_transposed(out)),),
    jvps=(lambda t, out: -(out @ t @ out),),
    infer=inference.same, batch=batching.leading,
    fails=Fails.VALUES,
    samples=lambda: [
        Sample(sample_regular(3, 3)),
        Sample(sample_regular(2, 2, 2)),
        Sample(normal(0, 2, 2)),
        Sample(sample_regular(2, 2) + 1j * normal(2, 2)),
        Sample(np.ones((2, 2)), raises=(ValueError, "singular")),
        Sample(normal(2, 3), raises=(ValueError, "square")),
        Sample(normal(3), raises=(ValueError, "rank 2")),
    ],
)  # fmt: skip


def inv(input: TensorLike, adjoint: bool = False, name: str | None = None) -> Tensor:
    """Inverse of each square matrix (of its adjoint with `adjoint=True`).

    >>> gt.linalg.inv([[2.0, 0.0], [0.0, 4.0]]).numpy()
    array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float32)
    """
    x = matrices(input, "inv", square=True)
    return apply(INV, matrix_transposed(x) if adjoint else x)


# -- solve -------------------------------------------------------------------------------------------------------------


def _solve_impl(a: Array, b: Array) -> Array:
    try:
        return np.linalg.solve(a, b)
    except np.linalg.LinAlgError as error:
        raise _singular("solve", a) from error


# A X = B:  dX = A⁻¹ (dB - dA X);  cotangents: B̄ = A⁻ᴴ X̄, Ā = -B̄ Xᴴ
def solve_cts(ct: Tensor, a: Tensor, out: Tensor, needed: tuple[bool, ...]) -> tuple[Any, Any]:
    """Cotangents of matrix and right-hand side from one more solve."""
    rhs = apply(SOLVE, matrix_transposed(a), ct)
    return (-(rhs @ matrix_transposed(out)) if needed[0] else None), rhs


def solve_tangent(tangents: tuple[Any, Any], a: Tensor, out: Tensor) -> Tensor:
    """The tangent of the solution."""
    ta, tb = tangents
    if ta is None:
        return apply(SOLVE, a, tb)
    return apply(SOLVE, a, -(ta @ out) if tb is None else tb - ta @ out)


def _columns(b: Tensor) -> tuple[Any, Any]:
    """A batch (..., n, m) as one matrix (n, ...·m), and the shape that `_uncolumns` needs."""
    dims = tuple(b.shape)
    lead = tuple(range(b.ndim - 2))
    turned = transpose(b, (b.ndim - 2, *lead, b.ndim - 1))
    return reshape(turned, (dims[-2], int(np.prod((*dims[:-2], dims[-1]), dtype=int)))), dims


def _uncolumns(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    wide = reshape(x, (x.shape[0], *dims[:-2], dims[-1]))
    return transpose(wide, (*range(1, len(dims) - 1), 0, len(dims) - 1))


def _batch_solve(op: Op, flags: tuple[bool, ...], inputs: tuple[Tensor, ...], attrs: dict[str, Any]) -> Tensor:
    a, b = inputs
    if not flags[0] and a.ndim == 2:  # one matrix, many right-hand sides: factorise it once
        flat, dims = _columns(b)
        return _uncolumns(apply(op, a, flat, **attrs), dims)
    return batching.leading(op, flags, inputs, attrs)


SOLVE = general(
    "solve", "a b", _solve_impl,
    vjp=solve_cts, jvp=solve_tangent,
    infer=lambda a, b: TensorSpec((*a.shape[:-1], b.shape[-1]), inference.promote_dtypes(a.dtype, b.dtype)),
    batch=_batch_solve,
    call=lambda a, b, adjoint=False: solve(a, b, adjoint),
    fails=Fails.VALUES,
    samples=lambda: [
        Sample(sample_regular(3, 3), normal(3, 2)),
        Sample(sample_regular(2, 3, 3), normal(2, 3, 1)),
        Sample(sample_regular(3, 3), normal(2, 3, 1), True),
        Sample(sample_regular(2, 3, 3), normal(3, 2)),
        Sample(sample_regular(3, 3), normal(3, 0)),
        Sample(sample_regular(2, 2) + 1j * normal(2, 2), complex_normal(2, 2)),
        Sample(sample_regular(2, 2) + 1j * normal(2, 2), complex_normal(2, 1), True),
        Sample(np.ones((2, 2)), normal(2, 1), raises=(ValueError, "singular")),
        Sample(normal(2, 3), normal(2, 1), raises=(ValueError, "square")),
        Sample(normal(3, 3), normal(2, 1), raises=(ValueError, "rows")),
        Sample(normal(3, 3), normal(3), raises=(ValueError, "rank 2")),
    ],
)  # fmt: skip


def solve(matrix: TensorLike, rhs: TensorLike, adjoint: bool = False, name: str | None = None) -> Tensor:
    """X with matrix · X = rhs (with the adjoint of the matrix if `adjoint`); leading axes broadcast.

    >>> gt.linalg.solve([[2.0, 0.0], [0.0, 4.0]], [[2.0], [2.0]]).numpy()
    array([[1. ],
           [0.5]], dtype=float32)
    """
    a, b = promote(matrices(matrix, "solve", square=True), rhs)
    b = matrices(b, "solve")
    a = matrix_transposed(a) if adjoint else a
    if a.ndim == 2 and b.ndim > 2 and a.shape[-1] == b.shape[-2]:
        flat, dims = _columns(b)
        return _uncolumns(apply(SOLVE, a, flat), dims)
    return apply(SOLVE, *_same_lead(a, b, "solve"))


# -- triangular systems ------------------------------------------------------------------------------------------------


def _triangular_impl(a: Array, b: Array, *, lower: bool, adjoint: bool) -> Array:
    n = a.shape[-1]
    dtype = np.result_type(a, b)
    if a.size == 0 or b.size == 0:
        return np.zeros(b.shape, dtype)
    # LAPACK would divide by the zero: a triangular matrix is singular exactly when its diagonal has one.
    if not np.all(np.diagonal(a, axis1=-2, axis2=-1)):
        raise _singular("triangular_solve", a)
    # A call of LAPACK per matrix costs a few microseconds, more than eliminating a small one.
    if a.ndim > 2 and n <= 16:
        return _small_triangular(a, b, lower, adjoint)
    from scipy.linalg.lapack import get_lapack_funcs

    (trtrs,) = get_lapack_funcs(("trtrs",), (a, b))
    matrices_a, rights = a.reshape(-1, n, n), b.reshape(-1, *b.shape[-2:])
    # LAPACK reads columns, and a transpose or an adjoint in place: rows are the columns of the transpose, which is not copied
    # either, unless the adjoint of a complex matrix is asked for, which is the conjugate of that.
    if adjoint and a.dtype.kind == "c":
        solutions = [trtrs(m, r, lower=lower, trans=2)[0] for m, r in zip(matrices_a, rights, strict=True)]
    else:
        trans = 0 if adjoint else 1
        solutions = [trtrs(m.T, r, lower=not lower, trans=trans)[0] for m, r in zip(matrices_a, rights, strict=True)]
    return np.stack(solutions).reshape(b.shape).astype(dtype, copy=False)


def _small_triangular(a: Array, b: Array, lower: bool, adjoint: bool) -> Array:
    """Many small systems in one call: Gaussian elimination of an upper triangle has nothing to eliminate."""
    a = np.tril(a) if lower else np.triu(a)
    if adjoint:
        a = np.conj(np.swapaxes(a, -1, -2))
    # An upper triangle as it is, or the adjoint of a lower one, is an upper one now. A lower one becomes one by half a turn:
    # with J that reverses the rows, A X = B is (J A J)(J X) = J B.
    if lower == adjoint:
        return np.linalg.solve(a, b)
    return np.linalg.solve(a[..., ::-1, ::-1], b[..., ::-1, :])[..., ::-1, :]


# as `solve`, on one triangle: Ā keeps that triangle only; for Aᴴ X = B, Ā = -X B̄ᴴ
def triangular_cts(ct: Tensor, a: Tensor, out: Tensor, lower: bool, adjoint: bool, needed: tuple[bool, ...]) -> tuple[Any, Any]:
    """Cotangents of triangle and right-hand side."""
    rhs = apply(TRIANGULAR_SOLVE, a, ct, lower=lower, adjoint=not adjoint)
    if not needed[0]:
        return None, rhs
    # The other triangle of A is never read, so it has no cotangent, whatever the dense formula says there.
    full = out @ matrix_transposed(rhs) if adjoint else rhs @ matrix_transposed(out)
    return -triangle(full, 0, upper=not lower), rhs


def triangular_tangent(tangents: tuple[Any, Any], a: Tensor, out: Tensor, lower: bool, adjoint: bool) -> Tensor:
    """The tangent of the solution."""
    ta, tb = tangents
    if ta is not None:
        part = triangle(ta, 0, upper=not lower)
        part = (matrix_transposed(part) if adjoint else part) @ out
        tb = -part if tb is None else tb - part
    return apply(TRIANGULAR_SOLVE, a, tb, lower=lower, adjoint=adjoint)


TRIANGULAR_SOLVE = general(
    "triangular_solve", "a b", _triangular_impl,
    vjp=triangular_cts, jvp=triangular_tangent,
    infer=lambda a, b, *, lower, adjoint: TensorSpec(b.shape, inference.promote_dtypes(a.dtype, b.dtype)),
    batch=_batch_solve,
    call=lambda a, b, lower=True, adjoint=False: triangular_solve(a, b, lower, adjoint),
    fails=Fails.VALUES,
    samples=lambda: [
        Sample(sample_regular(3, 3), normal(3, 2)),
        Sample(sample_regular(3, 3), normal(3, 2), False),
        Sample(sample_regular(3, 3), normal(3, 2), True, True),
        Sample(sample_regular(2, 3, 3), normal(2, 3, 2), False, True),
        Sample(sample_regular(2, 3, 3), normal(3, 2)),
        Sample(sample_regular(3, 3), normal(2, 3, 2)),
        Sample(sample_regular(2, 2) + 1j * normal(2, 2), complex_normal(2, 2), True, True),
        Sample(sample_regular(1, 2, 2) + 1j * normal(1, 2, 2), complex_normal(1, 2, 2), False, True),
        Sample(sample_regular(3, 3), normal(3, 0)),
        Sample(np.diag([1.0, 0.0]), normal(2, 1), raises=(ValueError, "singular")),
        Sample(normal(2, 3), normal(2, 1), raises=(ValueError, "square")),
        Sample(normal(3, 3), normal(2, 1), raises=(ValueError, "rows")),
    ],
)  # fmt: skip


def triangular_solve(
    matrix: TensorLike, rhs: TensorLike, lower: bool = True, adjoint: bool = False, name: str | None = None
) -> Tensor:
    """X with matrix · X = rhs for triangular matrices; only the triangle named by `lower` is read.

    >>> gt.linalg.triangular_solve([[2.0, 0.0], [1.0, 1.0]], [[2.0], [2.0]]).numpy()
    array([[1.],
           [1.]], dtype=float32)
    """
    a, b = promote(matrices(matrix, "triangular_solve", square=True), rhs)
    b = matrices(b, "triangular_solve")
    if a.ndim == 2 and b.ndim > 2 and a.shape[-1] == b.shape[-2]:
        flat, dims = _columns(b)
        return _uncolumns(apply(TRIANGULAR_SOLVE, a, flat, lower=bool(lower), adjoint=bool(adjoint)), dims)
    return apply(TRIANGULAR_SOLVE, *_same_lead(a, b, "triangular_solve"), lower=bool(lower), adjoint=bool(adjoint))


# -- Cholesky ----------------------------------------------------------------------------------------------------------


def _cholesky_impl(x: Array, *, average: bool) -> Array:
    try:
        return np.linalg.cholesky((x + np.conj(np.swapaxes(x, -1, -2))) * 0.5 if average else x)
    except np.linalg.LinAlgError as error:
        raise InvalidArgumentError(
            f"cholesky: {_describe(x)} is not positive definite; add a small multiple of eye, or check that it is symmetric"
        ) from error


# A = L Lᴴ:  dL = L Φ(L⁻¹ dA L⁻ᴴ), Φ = lower triangle with half the diagonal (Murray, arXiv:1602.07527)
def cholesky_ct(ct: Tensor, out: Tensor) -> Tensor:
    """L⁻ᴴ Φ(Lᴴ L̄) L⁻¹, Hermitian part."""
    # Only the lower triangle of L is a result: what a caller adds to the upper one of L̄ is dropped first.
    middle = triangle(matrix_transposed(out) @ triangle(ct, 0), 0, diagonal=0.5)
    left = apply(TRIANGULAR_SOLVE, out, middle, lower=True, adjoint=True)
    right = apply(TRIANGULAR_SOLVE, out, matrix_transposed(left), lower=True, adjoint=True)
    return hermitian_part(right)


def cholesky_tangent(t: Tensor, out: Tensor) -> Tensor:
    """L Φ(L⁻¹ Ȧ L⁻ᴴ), with the Hermitian part of the tangent."""
    # Φ splits a Hermitian matrix as Φ + Φᴴ, which is what d(L Lᴴ) = dL Lᴴ + L dLᴴ asks for; no inverse is ever formed.
    left = apply(TRIANGULAR_SOLVE, out, hermitian_part(t), lower=True, adjoint=False)
    middle = apply(TRIANGULAR_SOLVE, out, matrix_transposed(left), lower=True, adjoint=False)
    return out @ triangle(matrix_transposed(middle), 0, diagonal=0.5)


CHOLESKY = general(
    "cholesky", "x", _cholesky_impl,
    vjps=(cholesky_ct,), jvps=(cholesky_tangent,), infer=inference.same, batch=batching.leading,
    # the rule is the derivative along Hermitian directions: exact in every direction for the average of A and Aᴴ
    call=lambda x: hermitian_cholesky(matrices(x, "cholesky", square=True)),
    fails=Fails.VALUES,
    samples=lambda: [
        Sample(definite(3, 3)),
        Sample(definite(2, 2, 2)),
        Sample(normal(0, 2, 2)),
        Sample(definite(3, 3) + 0.3j * np.array([[0, 1, 2], [-1, 0, 1], [-2, -1, 0]])),
        Sample(-definite(2, 2), raises=(ValueError, "positive definite")),
        Sample(normal(2, 3), raises=(ValueError, "square")),
    ],
)  # fmt: skip


def cholesky(input: TensorLike, name: str | None = None) -> Tensor:
    """Lower triangular L with L·Lᴴ = input, for Hermitian positive definite matrices.

    Only the lower triangle is read; the gradient is the Hermitian one (the derivative along Hermitian changes), as in
    TensorFlow.

    >>> gt.linalg.cholesky([[4.0, 2.0], [2.0, 2.0]]).numpy()
    array([[2., 0.],
           [1., 1.]], dtype=float32)
    """
    return apply(CHOLESKY, matrices(input, "cholesky", square=True), average=False)


def hermitian_cholesky(x: Tensor) -> Tensor:
    """The Cholesky factor of (A + Aᴴ)/2."""
    return apply(CHOLESKY, x, average=True)


@composite(
    samples=lambda: [
        Sample(np.tril(sample_regular(3, 3)), normal(3, 2)),
        Sample(np.tril(sample_regular(2, 3, 3)), normal(2, 3, 1)),
        Sample(np.tril(sample_regular(2, 2)) + 1j * np.tril(normal(2, 2)), complex_normal(2, 2)),
        Sample(normal(3, 3), normal(2, 1), raises=(ValueError, "rows")),
    ]
)
def cholesky_solve(chol: TensorLike, rhs: TensorLike, name: str | None = None) -> Tensor:
    """X with A·X = rhs, given the Cholesky factor `chol` of A.

    >>> factor = gt.linalg.cholesky([[4.0, 0.0], [0.0, 1.0]])
    >>> gt.linalg.cholesky_solve(factor, [[4.0], [3.0]]).numpy()
    array([[1.],
           [3.]], dtype=float32)
    """
    return triangular_solve(chol, triangular_solve(chol, rhs), adjoint=True)


# -- LU ----------------------------------------------------------------------------------------------------------------


def _lu_impl(x: Array, *, dtype: DType) -> tuple[Any, Any]:
    n = x.shape[-1]
    if x.size == 0:
        return np.zeros(x.shape, x.dtype), np.zeros(x.shape[:-1], numpy_dtype(dtype))
    from scipy.linalg.lapack import get_lapack_funcs

    (getrf,) = get_lapack_funcs(("getrf",), (x,))
    packed, orders = [], []
    for matrix in x.reshape(-1, n, n):
        # LAPACK lists the exchanges of rows it made, one after the other; the order is what they do to 0, 1, 2, …
        lu_, swaps, _ = getrf(matrix)
        order = np.arange(n)
        for i, j in enumerate(swaps):
            order[[i, j]] = order[[j, i]]
        packed.append(lu_)
        orders.append(order)
    return np.stack(packed).reshape(x.shape), np.stack(orders).reshape(x.shape[:-1]).astype(numpy_dtype(dtype))


def lu_factors(packed: Tensor) -> tuple[Any, Any]:
    """L (unit lower) and U of a packed factorisation."""
    n = packed.shape[-1]
    return triangle(packed, -1) + np.eye(n, dtype=numpy_dtype(packed.dtype)), triangle(packed, 0, upper=True)


def lu_permutation(order: Tensor, like: Tensor) -> Tensor:
    """P with (P A)[i] = A[order[i]]."""
    return cast(expand_dims(order, -1) == np.arange(order.shape[-1]).astype(numpy_dtype(order.dtype)), like.dtype)


# The pivots are constant in pieces, so P has no derivative. (At a tie of two pivots the factors jump.)
# P A = L U:  with F = L⁻¹ P dA U⁻¹,  dL = L·tril(F, -1) and dU = triu(F)·U
def lu_ct(ct: tuple[Tensor, ...], out: tuple[Tensor, ...]) -> Tensor:
    """Pᵀ L⁻ᴴ (tril(Lᴴ L̄, -1) + triu(Ū Uᴴ)) U⁻ᴴ."""
    low, up = lu_factors(out[0])
    middle = triangle(matrix_transposed(low) @ triangle(ct[0], -1), -1) + triangle(
        triangle(ct[0], 0, upper=True) @ matrix_transposed(up), 0, upper=True
    )
    left = apply(TRIANGULAR_SOLVE, low, middle, lower=True, adjoint=True)
    right = apply(TRIANGULAR_SOLVE, up, matrix_transposed(left), lower=False, adjoint=False)
    return swap_last(lu_permutation(out[1], ct[0])) @ matrix_transposed(right)


def lu_tangent(t: Tensor, out: tuple[Tensor, ...]) -> tuple[Any, Any]:
    """The packed tangent L·tril(F, -1) + triu(F)·U; the permutation has none."""
    low, up = lu_factors(out[0])
    left = apply(TRIANGULAR_SOLVE, low, lu_permutation(out[1], t) @ t, lower=True, adjoint=False)
    middle = matrix_transposed(apply(TRIANGULAR_SOLVE, up, matrix_transposed(left), lower=False, adjoint=True))
    return low @ triangle(middle, -1) + triangle(middle, 0, upper=True) @ up, zeros_like(out[1])


LU = general(
    "lu", "x", _lu_impl,
    vjps=(lu_ct,), jvps=(lu_tangent,),
    infer=lambda x, *, dtype: (TensorSpec(x.shape, x.dtype), TensorSpec(x.shape[:-1], dtype)),
    batch=batching.leading,
    outputs=2,
    samples=lambda: [
        Sample(np.array([[0.2, 1.0, -0.4], [2.0, 0.3, 0.8], [0.5, -0.9, 1.7]])),
        Sample(sample_regular(2, 2, 2)),
        Sample(sample_regular(2, 2) + 1j * normal(2, 2)),
        Sample(normal(2, 3), raises=(ValueError, "square")),
    ],
)  # fmt: skip


class Lu(NamedTuple):
    """What `lu` returns."""

    lu: Tensor
    p: Tensor


def lu(input: TensorLike, output_idx_type: DTypeLike = "int32", name: str | None = None) -> Lu:
    """(lu, p): L below the diagonal (its own diagonal is 1) and U above in one matrix, with L·U = input[p].

    >>> packed, p = gt.linalg.lu([[0.0, 2.0], [4.0, 1.0]])
    >>> packed.numpy(), p.numpy()
    (array([[4., 1.],
           [0., 2.]], dtype=float32), array([1, 0], dtype=int32))
    """
    return Lu(*apply(LU, matrices(input, "lu", square=True), dtype=as_dtype(output_idx_type)))


OPS = (INV, SOLVE, TRIANGULAR_SOLVE, CHOLESKY, LU)

from gradtape.ops.create import zeros_like
from gradtape.ops.elementwise import cast
from gradtape.ops.matmul import matrix_transposed, swap_last
from gradtape.ops.matrix import matrices, triangle
from gradtape.ops.shape import broadcast_to, expand_dims, reshape, transpose

__all__ = ["cholesky", "cholesky_solve", "inv", "lu", "solve", "triangular_solve"]
