"""The structure of matrices: diagonals, bands, transposes, traces, norms, cross products.

Diagonals are one linear pair, `matrix_diag_part` and `matrix_diag`, adjoint to each other; the rest are composites. Nothing
here factorises a matrix, except the matrix 2-norm, which asks for singular values.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from gradtape.core import batching
from gradtape.core.arguments import numeric
from gradtape.core.dispatch import apply, convert, promote
from gradtape.core.opdef import Memory, Sample, composite, linear
from gradtape.core.typing import Array, Axes, Integer, Integers, TensorLike
from gradtape.dtypes import float32, numpy_dtype
from gradtape.errors import InvalidArgumentError
from gradtape.ir.polynomial import Size
from gradtape.ir.types import TensorSpec
from gradtape.ops.sampling import away, normal, spread

# -- inputs of linear algebra ------------------------------------------------------------------------------------------


def _of_rank_two(x: Tensor, op: str) -> Tensor:
    if x.ndim < 2:
        raise InvalidArgumentError(f"{op}: needs matrices (rank 2 or more), got shape {tuple(x.shape)}")
    return x


def matrices(x: TensorLike, op: str, square: bool = False) -> Tensor:
    """`x` as a tensor of matrices in the last two axes, floating or complex, checked."""
    x = _of_rank_two(numeric(x, "the input", op), op)
    if square and x.shape[-1] != x.shape[-2]:
        raise InvalidArgumentError(f"{op}: needs square matrices in the last two axes, got shape {tuple(x.shape)}")
    if x.dtype.name in ("float16", "bfloat16"):
        raise TypeError(f"{op}: linear algebra has no {x.dtype.name}; use gt.cast(x, gt.float32) first")
    return x if x.dtype.is_differentiable else cast(x, float32)


# -- diagonals ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _places(rows: int, columns: int, k: tuple[int, int], align: str) -> tuple[Any, Any, int]:
    """Where the elements of diagonals k[0]..k[1] stand in the flat matrix and in their flat packed form, and its width."""
    lower, upper = k
    # Diagonal d has the elements (i, i + d): d > 0 lies above the main one and loses columns, d < 0 loses rows.
    lengths = {d: min(rows + min(d, 0), columns - max(d, 0)) for d in range(lower, upper + 1)}
    width = max(lengths.values())
    # align names superdiagonals first: "RIGHT_LEFT" pushes those right and the subdiagonals left
    above_left, below_left = (side == "LEFT" for side in align.split("_"))
    in_matrix, in_packed = [], []
    for line, d in enumerate(range(upper, lower - 1, -1)):
        n = np.arange(lengths[d])
        in_matrix.append((n + max(-d, 0)) * columns + n + max(d, 0))
        left = above_left if d >= 0 else below_left
        in_packed.append(line * width + n + (0 if left or lower == upper else width - lengths[d]))
    return np.concatenate(in_matrix), np.concatenate(in_packed), width


def _packed_shape(rows: int, columns: int, k: tuple[int, int], align: str) -> tuple[int, ...]:
    width = _places(rows, columns, k, align)[2]
    return (width,) if k[0] == k[1] else (k[1] - k[0] + 1, width)


def _diag_part_impl(x: Array, *, k: tuple[int, int], align: str) -> Array:
    rows, columns = x.shape[-2:]
    in_matrix, in_packed, _ = _places(rows, columns, k, align)
    packed = _packed_shape(rows, columns, k, align)
    out = np.zeros((*x.shape[:-2], int(np.prod(packed))), x.dtype)
    out[..., in_packed] = x.reshape(*x.shape[:-2], rows * columns)[..., in_matrix]
    return out.reshape(*x.shape[:-2], *packed)


def _diag_impl(x: Array, *, k: tuple[int, int], rows: int, columns: int, align: str) -> Array:
    lead = x.shape[: x.ndim - (1 if k[0] == k[1] else 2)]
    in_matrix, in_packed, width = _places(rows, columns, k, align)
    out = np.zeros((*lead, rows * columns), x.dtype)
    out[..., in_matrix] = x.reshape(*lead, width * (k[1] - k[0] + 1))[..., in_packed]
    return out.reshape(*lead, rows, columns)


# Each is the other's adjoint: what one takes out of a place the other puts there, and leaves zeros elsewhere.
MATRIX_DIAG_PART = linear(
    "matrix_diag_part", "x", _diag_part_impl,
    lambda ct, x_spec, k, align: apply(MATRIX_DIAG, ct, k=k, rows=x_spec.shape[-2], columns=x_spec.shape[-1], align=align),
    infer=lambda x, *, k, align: TensorSpec((*x.shape[:-2], *_packed_shape(x.shape[-2], x.shape[-1], k, align)), x.dtype),
    batch=batching.leading,
    call=lambda x, k, align: diag_part(x, k=k, align=align),
    memory=Memory.FRESH,
    samples=lambda: [
        Sample(normal(3, 3), 0, "RIGHT_LEFT"),
        Sample(normal(2, 3, 4), 1, "RIGHT_LEFT"),
        Sample(normal(2, 4, 3), (-2, 1), "RIGHT_LEFT"),
        Sample(normal(3, 4), (-1, 2), "LEFT_RIGHT"),
        Sample(normal(3, 4), (-1, 1), "LEFT_LEFT"),
        Sample(normal(3, 4), (-1, 1), "RIGHT_RIGHT"),
        Sample(normal(0, 2, 2), 0, "RIGHT_LEFT"),
        Sample(normal(2, 2) + 1j * normal(2, 2), 0, "RIGHT_LEFT"),
        Sample(normal(3, 3), 3, "RIGHT_LEFT", raises=(ValueError, "diagonal")),
        Sample(normal(3, 3), 0, "MIDDLE", raises=(ValueError, "align")),
        Sample(normal(3), 0, "RIGHT_LEFT", raises=(ValueError, "rank")),
    ],
)  # fmt: skip
MATRIX_DIAG = linear(
    "matrix_diag", "x", _diag_impl,
    lambda ct, k, align: apply(MATRIX_DIAG_PART, ct, k=k, align=align),
    infer=lambda x, *, k, rows, columns, align: TensorSpec((*x.shape[: -1 if k[0] == k[1] else -2], rows, columns), x.dtype),
    batch=batching.leading,
    call=lambda x, k, rows, columns, align: diag(x, k=k, num_rows=rows, num_cols=columns, align=align),
    memory=Memory.FRESH,
    samples=lambda: [
        Sample(normal(3), 0, -1, -1, "RIGHT_LEFT"),
        Sample(normal(2, 3), -1, -1, -1, "RIGHT_LEFT"),
        Sample(normal(2, 3), 0, 3, 5, "RIGHT_LEFT"),
        Sample(normal(2, 3, 3), (-1, 1), -1, -1, "RIGHT_LEFT"),
        Sample(normal(2, 3), (0, 1), -1, -1, "LEFT_RIGHT"),
        Sample(normal(0, 2), 0, -1, -1, "RIGHT_LEFT"),
        Sample(normal(2) + 1j * normal(2), 0, -1, -1, "RIGHT_LEFT"),
        Sample(normal(), 0, -1, -1, "RIGHT_LEFT", raises=(ValueError, "rank")),
    ],
)  # fmt: skip


def _band(k: Integers, op: str) -> tuple[int, int]:
    if isinstance(k, (Tensor, np.ndarray)):
        k = k.tolist()
    pair = tuple(int(d) for d in k) if isinstance(k, (list, tuple)) else (int(k), int(k))  # type: ignore[arg-type]
    if len(pair) == 1:
        pair *= 2
    if len(pair) != 2 or pair[0] > pair[1]:
        raise InvalidArgumentError(f"{op}: k must be a diagonal or a pair (lowest, highest), got {k!r}")
    return pair


def _inside(rows: int, columns: int, k: tuple[int, int], align: str, op: str) -> None:
    if align not in ("RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT"):
        raise InvalidArgumentError(f"{op}: align must be RIGHT_LEFT, LEFT_RIGHT, LEFT_LEFT or RIGHT_RIGHT, got {align!r}")
    if not (-rows < k[0] or k[0] == 0) or not (k[1] < columns or k[1] == 0):
        raise InvalidArgumentError(f"{op}: diagonal k={k} lies outside matrices of {rows} rows and {columns} columns")


@composite(samples=lambda: [Sample(normal(2, 3, 4), k=(0, 2), padding_value=9.0), Sample(normal(3, 3))])
def diag_part(
    input: TensorLike, name: str = "diag_part", k: Integers = 0, padding_value: TensorLike = 0, align: str = "RIGHT_LEFT"
) -> Tensor:
    """Diagonal `k` of each matrix, or the band of diagonals (lowest, highest), highest first, padded to equal length.

    >>> gt.linalg.diag_part([[1.0, 2.0], [3.0, 4.0]]).numpy()
    array([1., 4.], dtype=float32)
    """
    x = _of_rank_two(convert(input), "diag_part")
    rows, columns = x.shape[-2:]
    band = _band(k, "diag_part")
    _inside(rows, columns, band, align, "diag_part")
    out = apply(MATRIX_DIAG_PART, x, k=band, align=align)
    # (one diagonal has no gaps; of a band, shorter diagonals are filled up to the longest)
    if band[0] == band[1] or (isinstance(padding_value, (int, float)) and padding_value == 0):
        return out
    taken = np.zeros(_packed_shape(rows, columns, band, align), bool)
    taken.reshape(-1)[_places(rows, columns, band, align)[1]] = True
    return where(taken, out, cast(convert(padding_value, hint=x.dtype), x.dtype))


@composite(samples=lambda: [Sample(normal(2, 3), padding_value=7.0), Sample(normal(3), k=1, num_rows=5, num_cols=4)])
def diag(
    diagonal: TensorLike, name: str = "diag", k: Integers = 0, num_rows: int = -1, num_cols: int = -1,
    padding_value: TensorLike = 0, align: str = "RIGHT_LEFT",
) -> Tensor:  # fmt: skip
    """Matrices with the given diagonal (or band of diagonals, as `diag_part` packs it) and `padding_value` elsewhere.

    >>> gt.linalg.diag([1.0, 2.0]).numpy()
    array([[1., 0.],
           [0., 2.]], dtype=float32)
    """
    x = convert(diagonal)
    band = _band(k, "diag")
    packed_rank = 1 if band[0] == band[1] else 2
    if x.ndim < packed_rank:
        raise InvalidArgumentError(f"diag: k={k} needs a diagonal of rank {packed_rank} or more, got shape {tuple(x.shape)}")
    if packed_rank == 2 and x.shape[-2] != band[1] - band[0] + 1:
        raise InvalidArgumentError(f"diag: k={band} names {band[1] - band[0] + 1} diagonals, got shape {tuple(x.shape)}")
    rows, columns = _matrix_size(x.shape[-1], band, int(num_rows), int(num_cols))
    _inside(rows, columns, band, align, "diag")
    out = apply(MATRIX_DIAG, x, k=band, rows=rows, columns=columns, align=align)
    if isinstance(padding_value, (int, float)) and padding_value == 0:
        return out
    return where(_band_mask(x, rows, columns, band), out, cast(convert(padding_value, hint=x.dtype), x.dtype))


def _matrix_size(width: int, k: tuple[int, int], rows: int, columns: int) -> tuple[int, int]:
    """The smallest matrix in which the longest of the diagonals k has `width` elements, as far as not given."""
    least_rows, least_columns = width - min(k[1], 0), width + max(k[0], 0)
    if rows == -1 and columns == -1:
        rows = columns = max(least_rows, least_columns)
    rows = least_rows if rows == -1 else rows
    columns = least_columns if columns == -1 else columns
    fits = rows >= least_rows and columns >= least_columns
    longest = max((min(rows + min(d, 0), columns - max(d, 0)) for d in range(k[0], k[1] + 1)), default=0)
    if not fits or longest != width:
        raise InvalidArgumentError(f"diag: {width} elements on diagonals k={k} do not fit {rows} rows and {columns} columns")
    return rows, columns


def _diagonals(x: Tensor, rows: Size, columns: Size) -> Tensor | Array:
    """On which diagonal each element of a matrix is. For a value of a program the program computes it from two ranges, so that
    no mask of the matrix's size is part of the program."""
    across = grid(columns, 1, 2)
    if is_traced(x) and columns.__class__ is int:
        across = filled_with((), "int64", 0) + across
    return across - grid(rows, 0, 2)


def _band_mask(x: Tensor, rows: Size, columns: Size, k: tuple[Size, Size]) -> Tensor | Array:
    offset = _diagonals(x, rows, columns)
    return (offset >= k[0]) & (offset <= k[1])


@composite(
    samples=lambda: [
        Sample(normal(2, 3, 3), normal(2, 3)),
        Sample(normal(3, 4), normal(3), k=1),
        Sample(normal(3, 3), normal(2, 3), k=(-1, 0)),
        Sample(normal(3, 3), normal(2), raises=(ValueError, "set_diag")),
    ]
)
def set_diag(
    input: TensorLike, diagonal: TensorLike, name: str = "set_diag", k: Integers = 0, align: str = "RIGHT_LEFT"
) -> Tensor:
    """`input` with diagonal `k` (or a band of diagonals) replaced.

    >>> gt.linalg.set_diag(gt.ones((2, 2)), [5.0, 6.0]).numpy()
    array([[5., 1.],
           [1., 6.]], dtype=float32)
    """
    x, new = promote(input, diagonal)
    rows, columns = _of_rank_two(x, "set_diag").shape[-2:]
    band = _band(k, "set_diag")
    _inside(rows, columns, band, align, "set_diag")
    wanted = (*tuple(x.shape)[:-2], *_packed_shape(rows, columns, band, align))
    if tuple(new.shape) != wanted:
        raise InvalidArgumentError(
            f"set_diag: the diagonal k={k} of shape {tuple(x.shape)} needs shape {wanted}, got {tuple(new.shape)}"
        )
    # Where the mask says, not where `placed` is nonzero: a zero on the new diagonal replaces what was there too.
    placed = apply(MATRIX_DIAG, new, k=band, rows=rows, columns=columns, align=align)
    return where(_band_mask(x, rows, columns, band), placed, x)


@composite(samples=lambda: [Sample(normal(3)), Sample(normal(2, 3)), Sample(normal(), raises=(ValueError, "rank"))])
def tensor_diag(diagonal: TensorLike, name: str | None = None) -> Tensor:
    """The tensor of twice the rank with `diagonal` where both halves of the index agree, and 0 elsewhere.

    >>> gt.linalg.tensor_diag([[1.0, 2.0]]).shape
    TensorShape([1, 2, 1, 2])
    """
    x = convert(diagonal)
    if x.ndim == 0:
        raise InvalidArgumentError("tensor_diag: needs rank 1 or more, got a scalar")
    dims = tuple(x.shape)
    return reshape(diag(reshape(x, (-1,))), (*dims, *dims))


@composite(
    samples=lambda: [Sample(normal(3, 3)), Sample(normal(2, 3, 2, 3)), Sample(normal(2, 3), raises=(ValueError, "halves"))]
)
def tensor_diag_part(input: TensorLike, name: str | None = None) -> Tensor:
    """The elements whose index has two equal halves: undoes `tensor_diag`.

    >>> gt.linalg.tensor_diag_part(gt.linalg.tensor_diag([1.0, 2.0])).numpy()
    array([1., 2.], dtype=float32)
    """
    x = convert(input)
    half = tuple(x.shape)[: x.ndim // 2]
    if x.ndim == 0 or tuple(x.shape) != (*half, *half):
        raise InvalidArgumentError(f"tensor_diag_part: needs a shape of two equal halves, got {tuple(x.shape)}")
    size = int(np.prod(half, dtype=int))
    return reshape(diag_part(reshape(x, (size, size))), half)


@composite(samples=lambda: [Sample(normal(3, 3)), Sample(normal(2, 3, 4)), Sample(normal(3), raises=(ValueError, "rank"))])
def trace(x: TensorLike, name: str | None = None) -> Tensor:
    """Sum of the diagonal of each matrix.

    >>> gt.linalg.trace([[1.0, 2.0], [3.0, 4.0]]).numpy()
    np.float32(5.0)
    """
    return reduce_sum(diag_part(x), -1)


@composite(
    samples=lambda: [
        Sample(normal(3, 4), 1, 0),
        Sample(normal(2, 3, 3), -1, 1),
        Sample(normal(3, 3), 0, -1),
        Sample(normal(3), 0, 0, raises=(ValueError, "rank")),
    ]
)
def band_part(input: TensorLike, num_lower: Integer, num_upper: Integer, name: str | None = None) -> Tensor:
    """Each matrix with everything zeroed but `num_lower` subdiagonals and `num_upper` superdiagonals (-1: all).

    >>> gt.linalg.band_part([[1.0, 2.0], [3.0, 4.0]], -1, 0).numpy()
    array([[1., 0.],
           [3., 4.]], dtype=float32)
    """
    x = _of_rank_two(convert(input), "band_part")
    rows, columns = x.shape[-2:]
    # how many diagonals is known only when the program runs: both bounds are compared there, element by element
    if is_traced(num_lower) or is_traced(num_upper):
        above = grid(columns, 1, 2) - grid(rows, 0, 2)  # on which diagonal an element is
        low, high = (cast(convert(n), "int64") for n in (num_lower, num_upper))
        in_lower, in_upper = logical_or(low < 0, above + low >= 0), logical_or(high < 0, high - above >= 0)
        return where(logical_and(in_lower, in_upper), x, zeros_like(x))
    lower, upper = int(num_lower), int(num_upper)
    kept = _band_mask(x, rows, columns, (-rows if lower < 0 else -lower, columns if upper < 0 else upper))
    return where(kept, x, zeros_like(x))


# One product with a mask does both, the cutting and the factor of the diagonal.
def triangle(x: Tensor, k: int, upper: bool = False, diagonal: float = 1.0) -> Tensor:
    """For rules: square matrices with only what lies on and below (above) diagonal k, the main diagonal times a factor."""
    offset = _diagonals(x, x.shape[-1], x.shape[-1])
    kept = offset >= k if upper else offset <= k
    if is_traced(x):
        mask = cast(kept, x.dtype)
        return x * (mask if diagonal == 1.0 else where(offset == 0, mask * diagonal, mask))
    return x * (kept * (1.0 + (diagonal - 1.0) * (offset == 0))).astype(numpy_dtype(x.dtype))


def diagonal_of(x: Tensor) -> Tensor:
    """For rules: the main diagonal of square matrices."""
    return apply(MATRIX_DIAG_PART, x, k=(0, 0), align="RIGHT_LEFT")


def diagonal_matrix(x: Tensor) -> Tensor:
    """For rules: square matrices with this diagonal."""
    return apply(MATRIX_DIAG, x, k=(0, 0), rows=x.shape[-1], columns=x.shape[-1], align="RIGHT_LEFT")


# -- transposes and products -------------------------------------------------------------------------------------------


@composite(samples=lambda: [Sample(normal(2, 3, 4)), Sample(normal(2, 2) + 1j * normal(2, 2), conjugate=True)])
def matrix_transpose(a: TensorLike, name: str = "matrix_transpose", conjugate: bool = False) -> Tensor:
    """The last two axes swapped.

    >>> gt.linalg.matrix_transpose([[1.0, 2.0]]).shape
    TensorShape([2, 1])
    """
    x = _of_rank_two(convert(a), "matrix_transpose")
    return matrix_transposed(x) if conjugate else swap_last(x)


@composite(samples=lambda: [Sample(normal(2, 3, 4)), Sample(normal(2, 2) + 1j * normal(2, 2))])
def adjoint(matrix: TensorLike, name: str | None = None) -> Tensor:
    """The conjugate transpose of each matrix.

    >>> gt.linalg.adjoint([[1.0 + 2.0j, 3.0]]).numpy()
    array([[1.-2.j],
           [3.-0.j]])
    """
    return matrix_transpose(matrix, conjugate=True)


@composite(
    samples=lambda: [
        Sample(normal(2, 3), normal(3)),
        Sample(normal(2, 3), normal(2), True),
        Sample(normal(2, 3) + 1j * normal(2, 3), normal(2) + 0j, adjoint_a=True),
        Sample(normal(2, 3), normal(4, 3)),
        Sample(normal(2, 3), normal(2), raises=(ValueError, "matvec")),
        Sample(normal(2, 3), normal(), raises=(ValueError, "matvec")),
    ]
)
def matvec(
    a: TensorLike, b: TensorLike, transpose_a: bool = False, adjoint_a: bool = False, a_is_sparse: bool = False,
    b_is_sparse: bool = False, name: str | None = None,
) -> Tensor:  # fmt: skip
    """Matrix times vector in the last axes, broadcast over the leading ones.

    >>> gt.linalg.matvec([[1.0, 2.0], [3.0, 4.0]], [1.0, 1.0]).numpy()
    array([3., 7.], dtype=float32)
    """
    a, b = promote(a, b)
    if a.ndim < 2 or b.ndim < 1 or not fits(a.shape[-2 if transpose_a or adjoint_a else -1 :][:1], b.shape[-1:]):
        turned = " transposed" if transpose_a or adjoint_a else ""
        raise InvalidArgumentError(f"matvec: {tuple(a.shape)}{turned} does not fit a vector of shape {tuple(b.shape)}")
    # a vector as a matrix of one column: the product's own rule, batching and machine code serve it
    return squeeze(matmul(a, expand_dims(b, -1), transpose_a, False, adjoint_a), -1)


@composite(
    samples=lambda: [
        Sample(normal(3), normal(3)),
        Sample(normal(2, 3), normal(3)),
        Sample(normal(2), normal(2), raises=(ValueError, "3")),
    ]
)
def cross(a: TensorLike, b: TensorLike, name: str | None = None) -> Tensor:
    """Cross product of the 3-vectors in the last axis; leading axes broadcast.

    >>> gt.linalg.cross([1.0, 0.0, 0.0], [0.0, 1.0, 0.0]).numpy()
    array([0., 0., 1.], dtype=float32)
    """
    a, b = promote(a, b)
    if a.ndim < 1 or b.ndim < 1 or a.shape[-1] != 3 or b.shape[-1] != 3:
        raise InvalidArgumentError(f"cross: the last axis must be 3, got shapes {tuple(a.shape)} and {tuple(b.shape)}")
    # (a × b)_i = a_{i+1} b_{i+2} - a_{i+2} b_{i+1}, indices modulo 3.
    return roll(a, -1, -1) * roll(b, -2, -1) - roll(a, -2, -1) * roll(b, -1, -1)


# -- norms -------------------------------------------------------------------------------------------------------------


@composite(
    samples=lambda: [
        Sample(normal(3, 4)),
        Sample(normal(2, 3, 4), "fro", [-2, -1]),
        Sample(away(3, 4), 1, 1),
        Sample(away(3, 4), 3, 0, True),
        Sample(away(3, 4), 2.5),
        Sample(spread(3, 4), np.inf, -1),
        Sample(away(3, 4), 1, (0, 1)),
        Sample(spread(2, 3, 4), np.inf, (1, 2), True),
        Sample(normal(2, 3, 4), 2, (0, 2)),
        Sample(normal(3) + 1j * normal(3)),
        Sample(normal(3), 0, raises=(ValueError, "ord")),
        Sample(normal(3), "fro", 0, raises=(ValueError, "matrix")),
        Sample(normal(3, 3), 3, (0, 1), raises=(ValueError, "ord")),
    ]
)
def norm(
    tensor: TensorLike, ord: str | float = "euclidean", axis: Axes = None, keepdims: bool | None = None, name: str | None = None
) -> Tensor:
    """Norm of vectors (`axis` None: of all elements; a number: along it) or of matrices (`axis` a pair).

    `ord`: 'euclidean', any number above 0, or inf for vectors; 'euclidean', 'fro', 1, 2 or inf for matrices, where 2 is
    the largest singular value. The gradient of the Euclidean norm at 0 is taken as 0.

    >>> gt.norm([[3.0, 4.0], [6.0, 8.0]], axis=1).numpy()
    array([ 5., 10.], dtype=float32)
    """
    x = convert(tensor)
    x = x if x.dtype.is_differentiable else cast(x, float32)
    keep = bool(keepdims)
    ord = float(ord) if isinstance(ord, (Tensor, Readable)) else ord
    if isinstance(axis, (list, tuple)) and len(axis) == 1:
        axis = axis[0]
    if isinstance(axis, (list, tuple)):
        return _matrix_norm(x, ord, axis, keep)
    if ord == "fro":
        raise InvalidArgumentError("norm: ord 'fro' is a matrix norm; give axis as a pair of axes")
    if ord in ("euclidean", 2):
        return _euclidean(x, axis, keep)
    if not isinstance(ord, (int, float, np.number)) or not ord > 0:
        raise InvalidArgumentError(f"norm: ord must be 'euclidean', a number above 0 or inf for vectors, got {ord!r}")
    if ord == np.inf:
        return reduce_max(abs(x), axis, keep)
    if ord == 1:
        return reduce_sum(abs(x), axis, keep)
    return power(reduce_sum(power(abs(x), ord), axis, keep), 1.0 / ord)


@composite(samples=lambda: [Sample(normal(3, 2), axis=1), Sample(away(2, 3), 3), Sample(normal(2, 3), "fro", (0, 1))])
def normalize(
    tensor: TensorLike, ord: str | float = "euclidean", axis: Axes = None, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """(tensor / norm, norm): the tensor scaled to norm 1, and the norm that `gt.norm(..., keepdims=True)` gives.

    >>> gt.linalg.normalize([3.0, 4.0])[0].numpy()
    array([0.6, 0.8], dtype=float32)
    """
    x = convert(tensor)
    x = x if x.dtype.is_differentiable else cast(x, float32)
    size = norm(x, ord, axis, True)
    return x / cast(size, x.dtype), size


def _euclidean(x: Tensor, axis: Axes, keep: bool) -> Tensor:
    return safe_sqrt(reduce_sum(square(abs(x)) if is_complex(x) else square(x), axis, keep))


def _matrix_norm(x: Tensor, ord: str | float, axis: Sequence[int], keep: bool) -> Tensor:
    if len(axis) != 2:
        raise InvalidArgumentError(f"norm: axis must be None, one axis or a pair of axes, got {axis!r}")
    rows, columns = (normal_axis(a, x.ndim, "norm") for a in axis)
    if rows == columns:
        raise InvalidArgumentError(f"norm: axis {axis!r} names an axis twice")
    if ord in ("euclidean", "fro"):
        return _euclidean(x, [rows, columns], keep)
    if ord not in (1, 2, np.inf):
        raise InvalidArgumentError(f"norm: ord must be 'euclidean', 'fro', 1, 2 or inf for matrices, got {ord!r}")
    rest = [i for i in range(x.ndim) if i not in (rows, columns)]
    turned = transpose(x, (*rest, rows, columns))
    if ord == 2:
        out = reduce_max(svd(turned, compute_uv=False), -1)
    else:
        out = reduce_max(reduce_sum(abs(turned), -2 if ord == 1 else -1), -1)
    shape = tuple(1 if i in (rows, columns) else d for i, d in enumerate(x.shape))
    return reshape(out, shape) if keep else out


OPS = (MATRIX_DIAG_PART, MATRIX_DIAG)

from gradtape.core.tensor import Readable, Tensor
from gradtape.ops.compare import logical_and, logical_or
from gradtape.ops.create import fits, grid, zeros_like
from gradtape.ops.elementwise import abs, cast, is_complex, power, square
from gradtape.ops.linalg_spectral import svd
from gradtape.ops.matmul import matmul, matrix_transposed, swap_last
from gradtape.ops.reduce import reduce_max, reduce_sum, safe_sqrt
from gradtape.ops.select import where
from gradtape.ops.shape import expand_dims, normal_axis, reshape, roll, squeeze, transpose
from gradtape.ops.staged import filled_with, is_traced

__all__ = [
    "adjoint", "band_part", "cross", "diag", "diag_part", "matrix_transpose", "matvec", "norm", "normalize", "set_diag",
    "tensor_diag", "tensor_diag_part", "trace",
]  # fmt: skip
