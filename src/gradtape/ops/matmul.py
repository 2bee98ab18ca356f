"""Matrix products: matmul, tensordot, einsum, all on BLAS through NumPy."""

from __future__ import annotations

import numpy as np

from gradtape.core import inference
from gradtape.core.bfloat16 import BFLOAT16, rounded_once
from gradtape.core.dispatch import apply, promote
from gradtape.core.forms import form_of
from gradtape.core.opdef import Op, Sample, multilinear
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Array, Dims, TensorLike
from gradtape.dtypes import DTypeLike
from gradtape.errors import InvalidArgumentError
from gradtape.ir.types import TensorSpec
from gradtape.ops.sampling import normal

# -- matmul ----------------------------------------------------------------------------------------------------------


def product(a: Array, b: Array) -> Array:
    """The matrix product, in the dtype of its operands."""
    try:
        if a.dtype.kind == BFLOAT16:
            return _wide_product(a, b)
        if a.ndim > 2 and b.ndim == 2 and a.size and a.flags.c_contiguous:  # one tall product instead of many small ones
            return np.matmul(a.reshape(-1, a.shape[-1]), b).reshape(*a.shape[:-1], b.shape[-1])
        return np.matmul(a, b)
    except ValueError:
        _check_inner(a.shape, b.shape)
        raise


def _check_inner(rows: Dims, columns: Dims) -> None:
    if rows[-1] != columns[-2] and not fits(rows[-1:], columns[-2:-1]):
        raise InvalidArgumentError(
            f"matmul: inner dimensions differ: {tuple(rows)} times {tuple(columns)} "
            f"({rows[-1]} columns against {columns[-2]} rows){_turned(rows, columns)}"
        ) from None


def _turned(rows: Dims, columns: Dims) -> str:
    """What would fit instead."""
    if rows[-1] == columns[-1]:
        return "; the second operand transposed would fit"
    return "; the first operand transposed would fit" if rows[-2] == columns[-2] else ""


_wide_product = rounded_once(np.matmul)


def _matmul_spec(a: TensorSpec, b: TensorSpec) -> TensorSpec:
    lead = inference.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    dtype = inference.promote_dtypes(a.dtype, b.dtype)
    return TensorSpec((*lead, a.shape[-2], b.shape[-1]), dtype)


def matrix_transposed(x: Tensor) -> Tensor:
    """The last two axes swapped, conjugated if complex: the adjoint of each matrix."""
    out = swap_last(x)
    return conj(out) if is_complex(out) else out


def _adjoint_array(x: Array) -> Array:
    out = x.T if x.ndim == 2 else x.swapaxes(-1, -2)
    return out.conj() if x.dtype.kind == "c" else out


matrix_transposed.bare = _adjoint_array  # type: ignore[attr-defined]


def repeated_axes(shape: Dims, other: Dims, full: Dims) -> tuple[int, ...]:
    """The leading axes of a product of shape `full` along which an operand of `shape` is repeated and the other is not."""
    own, others = len(full) - len(shape), len(full) - len(other)
    return tuple(
        i for i in range(others, len(full) - 2)
        if (i < own or shape[i - own] == 1) and full[i] != 1 and other[i - others] == full[i]
    )  # fmt: skip


def gathered_axes(x: Tensor, rank: int, axes: tuple[int, ...], last: int) -> Tensor:
    """The matrices of x, seen as of so many axes, with `axes` made part of their rows (`last` 1) or of their columns (0)."""
    shape = (1,) * (rank - x.ndim) + tuple(x.shape)
    kept = tuple(i for i in range(rank - 2) if i not in axes)
    count = shape[rank - 1 - last]
    for i in axes:
        count = count * shape[i]
    middle = axes if last else (rank - 2, *axes)
    perm = (*kept, *middle, *range(rank - 1 - last, rank))
    lead = tuple(shape[i] for i in kept)
    sides = (count, shape[-1]) if last else (shape[-2], count)
    return reshaped(permuted(reshaped(x, shape=shape), perm=perm), shape=(*lead, *sides))


def spread_axes(x: Tensor, rank: int, axes: tuple[int, ...]) -> Tensor:
    """Unit axes where `axes` were."""
    places = [i for i in range(rank) if i not in axes]
    return reshaped(x, shape=tuple(1 if i in axes else x.shape[places.index(i)] for i in range(rank)))


def left_cotangent(ct: Tensor, a_shape: Dims, b: Tensor) -> Tensor:
    """C̄ Bᴴ; the sum over axes along which A was repeated is part of the product, so that no larger value is made."""
    if ct.ndim == 2:
        return multiplied(ct, matrix_transposed(b))
    axes = repeated_axes(a_shape, tuple(b.shape), tuple(ct.shape))
    if not axes:
        return unbroadcast(multiplied(ct, matrix_transposed(b)), a_shape)
    rank = ct.ndim
    columns = matrix_transposed(gathered_axes(b, rank, axes, 0))
    return unbroadcast(spread_axes(multiplied(gathered_axes(ct, rank, axes, 0), columns), rank, axes), a_shape)


def right_cotangent(ct: Tensor, b_shape: Dims, a: Tensor) -> Tensor:
    """Aᴴ C̄; the sum over axes along which B was repeated is part of the product."""
    if ct.ndim == 2:
        return multiplied(matrix_transposed(a), ct)
    axes = repeated_axes(b_shape, tuple(a.shape), tuple(ct.shape))
    if not axes:
        return unbroadcast(multiplied(matrix_transposed(a), ct), b_shape)
    rank = ct.ndim
    rows = matrix_transposed(gathered_axes(a, rank, axes, 1))
    return unbroadcast(spread_axes(multiplied(rows, gathered_axes(ct, rank, axes, 1)), rank, axes), b_shape)


# C = A B:  Ā = C̄ Bᴴ and B̄ = Aᴴ C̄, summed over leading axes that were broadcast.
MATMUL = multilinear(
    "matmul", "a b", product,
    left_cotangent,
    right_cotangent,
    infer=_matmul_spec,
    batch=lambda op, flags, inputs, attrs: _batch_matmul(op, flags, inputs),
    samples=lambda: [
        Sample(normal(3, 4), normal(4, 2)),
        Sample(normal(2, 3, 4), normal(4, 2)),
        Sample(normal(2, 1, 3, 4), normal(5, 4, 2)),
        Sample(normal(3, 4), normal(2, 3, 4, 2)),
        Sample(normal(2, 3, 1, 4), normal(2, 1, 4, 2)),
        Sample(normal(3, 0), normal(0, 2)),
        Sample(normal(2, 2) + 1j * normal(2, 2), normal(2, 2) + 1j * normal(2, 2)),
        Sample(normal(3, 4), normal(3, 4), raises=(ValueError, "matmul")),
        Sample(normal(3), normal(3), raises=(ValueError, "rank")),
    ],
)  # fmt: skip
multiplied = form_of(MATMUL)


def _batch_matmul(op: Op, flags: tuple[bool, ...], inputs: tuple[Tensor, ...]) -> Tensor:
    a, b = inputs
    if flags == (True, False) and b.ndim == 2 and a.ndim == 3:
        # one tall product instead of many small ones
        size, rows, inner = a.shape
        out = apply(op, reshaped(a, shape=(size * rows, inner)), b)
        return reshaped(out, shape=(size, rows, b.shape[-1]))
    rank = max(x.ndim - f for x, f in zip(inputs, flags, strict=True))
    lined = [
        reshaped(x, shape=(x.shape[0], *([1] * (rank - x.ndim + 1)), *tuple(x.shape)[1:])) if f else x
        for x, f in zip(inputs, flags, strict=True)
    ]
    return apply(op, *lined)


def matmul(
    a: TensorLike, b: TensorLike, transpose_a: bool = False, transpose_b: bool = False, adjoint_a: bool = False,
    adjoint_b: bool = False, a_is_sparse: bool = False, b_is_sparse: bool = False, output_type: DTypeLike | None = None,
    grad_a: bool = False, grad_b: bool = False, name: str | None = None,
) -> Tensor:  # fmt: skip
    """Product of the matrices in the last two axes, broadcast over the leading ones, in `output_type` if one is given.

    The flags about sparsity and gradients are hints to TensorFlow's kernels and change nothing here.

    >>> gt.matmul([[1.0, 2.0]], [[3.0], [4.0]]).numpy()
    array([[11.]], dtype=float32)
    """
    turned = transpose_a or adjoint_a or transpose_b or adjoint_b
    if a.__class__ is Tensor and b.__class__ is Tensor and not turned and output_type is None:  # the common case
        x, y = a._data, b._data
        if x.ndim > 1 and y.ndim > 1 and x.dtype is y.dtype:
            return multiplied(a, b)
    a, b = promote(a, b)
    if a.ndim < 2 or b.ndim < 2:
        raise InvalidArgumentError(
            f"matmul: both operands need rank 2 or more, got shapes {tuple(a.shape)} and {tuple(b.shape)}; "
            "the operator takes vectors, too: a @ b (or use gt.linalg.matvec)"
        )
    if transpose_a or adjoint_a:
        a = matrix_transposed(a) if adjoint_a else swap_last(a)
    if transpose_b or adjoint_b:
        b = matrix_transposed(b) if adjoint_b else swap_last(b)
    _check_inner(a.shape, b.shape)
    out = multiplied(a, b)
    return out if output_type is None else cast(out, output_type)


def swap_last(x: Tensor) -> Tensor:
    """The last two axes swapped."""
    return permuted(x, perm=(*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


OPS = (MATMUL,)

from gradtape.ops.create import fits
from gradtape.ops.elementwise import cast, conj, is_complex
from gradtape.ops.shape import permuted, reshaped, unbroadcast
