"""Matrices with few diagonals: tridiagonal systems and products, banded triangular systems.

Diagonals are given compactly, as TensorFlow has them: one row each, aligned with the rows of the matrix (superdiagonals are
padded at their end, subdiagonals at their beginning). Inside they are aligned with the columns, as LAPACK has them.
Costs are those of the band, forward and backward.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape.core import batching, inference
from gradtape.core.arguments import differentiable, of_rank, option
from gradtape.core.dispatch import apply, promote
from gradtape.core.opdef import Fails, Op, Sample, composite, general
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Array, TensorLike
from gradtape.errors import InvalidArgumentError
from gradtape.ops.linalg_solve import for_lapack
from gradtape.ops.sampling import away, normal


def _sample_diagonals(*shape: int) -> Array:
    """Tridiagonal, dominated by the main diagonal."""
    diagonals = normal(*shape) * 0.5
    diagonals[..., 1, :] += 3.0
    return diagonals


# -- banded systems ------------------------------------------------------------------------------------------------------


def _banded_solve_impl(band: Array, b: Array, *, lower: int, upper: int) -> Array:
    from scipy.linalg import LinAlgError, solve_banded

    out = np.empty(b.shape, np.result_type(band, b))
    if not out.size:
        return out
    # One call of LAPACK for each matrix, on views of the flattened batch.
    count, rhs = band.shape[-1], b.shape[-1]
    band, b = for_lapack(band), for_lapack(b)
    each = zip(band.reshape(-1, band.shape[-2], count), b.reshape(-1, count, rhs), out.reshape(-1, count, rhs), strict=True)
    for matrix, right, solution in each:
        try:
            solution[...] = solve_banded((lower, upper), matrix, right, check_finite=False)
        except LinAlgError as error:
            raise InvalidArgumentError(
                f"a banded matrix of {count} rows with {lower + upper + 1} diagonals is singular; add to its main diagonal, "
                "or use gt.linalg.lstsq on the dense matrix"
            ) from error
    return out


def transposed_band(band: Tensor, lower: int, upper: int) -> Tensor:
    """The band of the conjugate transpose: row r of a band holds element (j - upper + r, j) at column j."""
    rows = []
    for row in range(lower + upper + 1):
        # Aᴴ has at (i, j) what A has at (j, i), conjugated: the diagonals come in the opposite order, and since columns
        # become rows, the elements of each move by its distance from the main one.
        source = lower + upper - row
        rows.append(shifted(conj(band[..., source, :]), source - upper))
    return stack(rows, -2)


def shifted(x: Tensor, places: int) -> Tensor:
    """Elements moved towards the end (or, negative, the beginning) of the last axis; zeros come in."""
    n = x.shape[-1]
    if not places:
        return x
    # Padding on one side and cutting on the other, not `roll`: what leaves the band at one end must not come in at the other.
    lead = ((0, 0),) * (x.ndim - 1)
    if places > 0:
        return apply(PAD, x, paddings=(*lead, (places, 0)))[..., :n]
    return apply(PAD, x, paddings=(*lead, (0, -places)))[..., -places:]


# A X = B: B̄ = A⁻ᴴ X̄ and Ā = -B̄ Xᴴ, of which only the band counts
def banded_cts(ct: Tensor, band: Tensor, out: Tensor, lower: int, upper: int, needed: tuple[bool, ...]) -> tuple[Any, Any]:
    """Cotangents of band and right-hand side from one more banded solve."""
    rhs = apply(BANDED_SOLVE, transposed_band(band, lower, upper), ct, lower=upper, upper=lower)
    return (-outer_band(rhs, out, lower, upper) if needed[0] else None), rhs


# Never the full outer product: the band has (lower + upper + 1)·n elements of its n².
def outer_band(left: Tensor, right: Tensor, lower: int, upper: int) -> Tensor:
    """The band of left·rightᴴ: at column j of row r, Σ left[j - upper + r] · conj(right[j])."""
    rows = []
    for row in range(lower + upper + 1):
        moved = swap_last(shifted(swap_last(left), upper - row))
        rows.append(reduce_sum(moved * conj(right), -1))
    return stack(rows, -2)


def band_product(band: Tensor, x: Tensor, lower: int, upper: int) -> Tensor:
    """The matrix of a band times x: row i is the sum over diagonals of band[r, i + upper - r] · x[i + upper - r]."""
    total: Any = None
    for row in range(lower + upper + 1):
        term = swap_last(shifted(swap_last(expand_dims(band[..., row, :], -1) * x), row - upper))
        total = term if total is None else total + term
    return total


def banded_tangent(tangents: tuple[Any, Any], band: Tensor, out: Tensor, lower: int, upper: int) -> Tensor:
    """The tangent of the solution."""
    # A Ẋ = Ḃ - Ȧ X: the system of the primal, with another right-hand side.
    change, right = tangents
    if change is not None:
        moved = band_product(change, out, lower, upper)
        right = -moved if right is None else right - moved
    return apply(BANDED_SOLVE, band, right, lower=lower, upper=upper)


BANDED_SOLVE: Op = general(
    "banded_solve", "band b", _banded_solve_impl,
    vjp=banded_cts, jvp=banded_tangent,
    infer=lambda band, b, *, lower, upper: inference.same(b),
    batch=batching.leading, fails=Fails.VALUES,
    samples=lambda: [
        Sample(_sample_diagonals(3, 4), normal(4, 2), lower=1, upper=1),
        Sample(_sample_diagonals(2, 3, 3), normal(2, 3, 1), lower=1, upper=1),
        Sample(away(2, 4) + 0.5, normal(4, 1), lower=1, upper=0),
        Sample(np.zeros((1, 2)), normal(2, 1), lower=0, upper=0, raises=(ValueError, "singular")),
    ],
)  # fmt: skip


def _with_lead(band: Tensor, b: Tensor, op: str) -> tuple[Any, Any]:
    """Both with the same leading axes."""
    try:
        lead = inference.broadcast_shapes(tuple(band.shape)[:-2], tuple(b.shape)[:-2])
    except InvalidArgumentError:
        raise InvalidArgumentError(
            f"{op}: the batch axes of the matrices, {tuple(band.shape)[:-2]}, and of rhs, {tuple(b.shape)[:-2]}, do not "
            "broadcast"
        ) from None
    return broadcast_to(band, (*lead, *tuple(band.shape)[-2:])), broadcast_to(b, (*lead, *tuple(b.shape)[-2:]))


# -- tridiagonal matrices ------------------------------------------------------------------------------------------------


def _parts(diagonals: TensorLike, layout: str, op: str) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    """The tensors that hold the diagonals, and the shape of the main one; nothing is computed yet."""
    option(layout, "diagonals_format", op, ("compact", "sequence", "matrix"))
    if layout == "sequence":
        if not isinstance(diagonals, (list, tuple)) or len(diagonals) != 3:
            raise InvalidArgumentError(f"{op}: diagonals_format='sequence' needs three diagonals (super, main, sub)")
        above, main, below = (of_rank(differentiable(d, "diagonals", op), 1, "diagonals", op) for d in diagonals)
        size = main.shape[-1]
        for other in (above, below):
            if tuple(other.shape)[:-1] != tuple(main.shape)[:-1] or other.shape[-1] not in (size, size - 1):
                raise InvalidArgumentError(
                    f"{op}: diagonals beside one of shape {tuple(main.shape)} have as many elements or one less, got shape "
                    f"{tuple(other.shape)}"
                )
        return (above, main, below), tuple(main.shape)
    x = of_rank(differentiable(diagonals, "diagonals", op), 2, "diagonals", op)
    if layout == "compact" and x.shape[-2] != 3:
        raise InvalidArgumentError(f"{op}: compact diagonals need the shape (…, 3, n), got {tuple(x.shape)}")
    if layout == "matrix" and x.shape[-2] != x.shape[-1]:
        raise InvalidArgumentError(f"{op}: diagonals given as matrices need square ones, got shape {tuple(x.shape)}")
    return (x,), (*tuple(x.shape)[:-2], x.shape[-1])


def _check_rows(rows: int, have: int, rhs: Tensor, op: str) -> None:
    if rows != have:
        raise InvalidArgumentError(f"{op}: a matrix of {rows} rows and an rhs of shape {tuple(rhs.shape)} differ in rows")


def _band(parts: tuple[Any, ...], layout: str) -> Tensor:
    """The three diagonals by columns: the superdiagonal's element i stands in column i + 1, the subdiagonal's in i - 1."""
    if layout == "sequence":
        above, main, below = parts
        lead = [(0, 0)] * (main.ndim - 1)
        above = pad(above, [*lead, (1, 0)]) if above.shape[-1] != main.shape[-1] else shifted(above, 1)
        below = pad(below, [*lead, (0, 1)]) if below.shape[-1] != main.shape[-1] else shifted(below, -1)
        return stack([above, main, below], -2)
    (x,) = parts
    if layout == "matrix":
        return diag_part(x, k=(-1, 1), align="RIGHT_LEFT")
    return stack([shifted(x[..., 0, :], 1), x[..., 1, :], shifted(x[..., 2, :], -1)], -2)


@composite(
    samples=lambda: [
        Sample(_sample_diagonals(3, 4), normal(4)),
        Sample(_sample_diagonals(2, 3, 4), normal(2, 4, 2)),
        Sample([normal(3), normal(4) + 4.0, normal(3)], normal(4, 1), "sequence"),
        Sample(normal(4, 4) + 4.0 * np.eye(4), normal(4, 2), "matrix"),
        Sample(_sample_diagonals(3, 4), normal(3), raises=(ValueError, "rows")),
        Sample(normal(2, 4), normal(4), raises=(ValueError, "3, n")),
        Sample(_sample_diagonals(3, 4), normal(4), "rows", raises=(ValueError, "diagonals_format")),
    ]
)
def tridiagonal_solve(
    diagonals: TensorLike, rhs: TensorLike, diagonals_format: str = "compact", transpose_rhs: bool = False,
    conjugate_rhs: bool = False, name: str | None = None, partial_pivoting: bool = True, perturb_singular: bool = False,
) -> Tensor:  # fmt: skip
    """Solve tridiagonal systems in time proportional to their size; `diagonals` holds super-, main and subdiagonal.

    >>> gt.linalg.tridiagonal_solve([[1.0, 0.0], [2.0, 2.0], [0.0, 1.0]], [3.0, 3.0]).numpy()
    array([1., 1.], dtype=float32)
    """
    if perturb_singular:
        raise InvalidArgumentError("tridiagonal_solve: perturb_singular=True is not supported; add to the main diagonal")
    op = "tridiagonal_solve"
    parts, shape = _parts(diagonals, diagonals_format, op)
    b = of_rank(differentiable(rhs, "rhs", op), 1, "rhs", op)
    # As TensorFlow tells them apart: a right-hand side of the rank of one diagonal is a vector for each matrix.
    vector = b.ndim == len(shape)
    _check_rows(shape[-1], b.shape[-1 if vector or transpose_rhs else -2], b, op)
    band, b = promote(_band(parts, diagonals_format), b)
    if conjugate_rhs:
        b = conj(b)
    if vector:
        b = expand_dims(b, -1)
    elif transpose_rhs:
        b = swap_last(b)
    out = apply(BANDED_SOLVE, *_with_lead(band, b, op), lower=1, upper=1)
    return out[..., 0] if vector else out


@composite(
    samples=lambda: [
        Sample(normal(3, 4), normal(4, 2)),
        Sample(normal(2, 3, 3), normal(2, 3, 1)),
        Sample([normal(3), normal(4), normal(3)], normal(4, 2), "sequence"),
        Sample(normal(3, 4), normal(3, 2), raises=(ValueError, "rows")),
    ]
)
def tridiagonal_matmul(
    diagonals: TensorLike, rhs: TensorLike, diagonals_format: str = "compact", name: str | None = None
) -> Tensor:
    """The product of tridiagonal matrices with matrices, in time proportional to their size.

    >>> gt.linalg.tridiagonal_matmul([[1.0, 0.0], [2.0, 2.0], [0.0, 1.0]], [[1.0], [1.0]]).numpy().ravel()
    array([3., 3.], dtype=float32)
    """
    op = "tridiagonal_matmul"
    parts, shape = _parts(diagonals, diagonals_format, op)
    x = of_rank(differentiable(rhs, "rhs", op), 2, "rhs", op)
    _check_rows(shape[-1], x.shape[-2], x, op)
    band, x = promote(_band(parts, diagonals_format), x)
    return band_product(*_with_lead(band, x, op), 1, 1)


@composite(
    samples=lambda: [
        Sample(away(3, 4) + np.array([[3.0], [0.0], [0.0]]), normal(4, 2)),
        Sample(away(2, 4) + np.array([[0.0], [3.0]]), normal(4, 1), lower=False),
        Sample(away(2, 2, 3) + np.array([[3.0], [0.0]]), normal(3, 2), adjoint=True),
        Sample(away(2, 4), normal(3, 2), raises=(ValueError, "rows")),
        Sample(away(5, 4), normal(4, 2), raises=(ValueError, "diagonals")),
    ]
)
def banded_triangular_solve(
    bands: TensorLike, rhs: TensorLike, lower: bool = True, adjoint: bool = False, name: str | None = None
) -> Tensor:
    """Solve triangular systems of few diagonals: `bands` (…, k, n), the main diagonal first (lower) or last (upper), each
    aligned with the rows (lower: padded at the beginning, upper: at the end).

    >>> gt.linalg.banded_triangular_solve([[2.0, 2.0], [0.0, 1.0]], [[2.0], [3.0]]).numpy().ravel()
    array([1., 1.], dtype=float32)
    """
    op = "banded_triangular_solve"
    band, b = promote(differentiable(bands, "bands", op), differentiable(rhs, "rhs", op))
    of_rank(band, 2, "bands", op)
    of_rank(b, 2, "rhs", op)
    if band.shape[-1] != b.shape[-2]:
        raise InvalidArgumentError(
            f"{op}: bands of shape {tuple(band.shape)} and an rhs of shape {tuple(b.shape)} differ in rows"
        )
    count = band.shape[-2]
    if not 1 <= count <= band.shape[-1]:
        raise InvalidArgumentError(f"{op}: bands of {count} diagonals do not fit a matrix of {band.shape[-1]} rows")
    # LAPACK's general banded solver takes one-sided bands too: without a diagonal below there is nothing to eliminate.
    below, above = (count - 1, 0) if lower else (0, count - 1)
    band = stack([shifted(band[..., row, :], above - row) for row in range(count)], -2)  # aligned with the columns
    if adjoint:
        band, below, above = transposed_band(band, below, above), above, below
    return apply(BANDED_SOLVE, *_with_lead(band, b, op), lower=below, upper=above)


OPS = (BANDED_SOLVE,)

from gradtape.ops.elementwise import conj
from gradtape.ops.extending import pad
from gradtape.ops.matmul import swap_last
from gradtape.ops.matrix import diag_part
from gradtape.ops.padding import PAD
from gradtape.ops.reduce import reduce_sum
from gradtape.ops.shape import broadcast_to, expand_dims, stack
