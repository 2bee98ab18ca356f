"""Products of SciPy's sparse matrices with tensors: `a @ x` and `x @ a`, differentiable in the tensor.

The matrix is data: its numbers and places are read at the call, its zeros cost nothing. SciPy is not imported here; whoever has
a sparse matrix has imported it. How SciPy leaves `a @ x` to the tensor is in `core/sparse_deferral.py`.
"""

from __future__ import annotations

from typing import Any

from gradtape.core.dispatch import convert, promote
from gradtape.core.tensor import Tensor
from gradtape.core.typing import TensorLike
from gradtape.errors import InvalidArgumentError
from gradtape.ops.index import gather
from gradtape.ops.segment import unsorted_segment_sum
from gradtape.ops.shape import reshape, transpose


def is_sparse_matrix(value: object) -> bool:
    """Whether a value is one of SciPy's sparse matrices or arrays."""
    return type(value).__module__.startswith("scipy.sparse.") and hasattr(value, "tocoo")


def sparse_times_tensor(matrix: Any, x: TensorLike) -> Tensor:
    """matrix @ x, for vectors and matrices x."""
    places = matrix.tocoo()
    values, x = promote(places.data, convert(x))
    _check(matrix.ndim == 2 and x.ndim in (1, 2) and x.shape[0] == matrix.shape[1], matrix.shape, x.shape)
    columns = x[:, None] if x.ndim == 1 else x
    # Only what is there is multiplied; rows without any element come out as zeros.
    terms = values[:, None] * gather(columns, places.col)
    out = unsorted_segment_sum(terms, places.row, matrix.shape[0])
    return out[:, 0] if x.ndim == 1 else out


def tensor_times_sparse(x: TensorLike, matrix: Any) -> Tensor:
    """x @ matrix; axes of x before the last are rows."""
    x = convert(x)
    _check(matrix.ndim == 2 and x.ndim >= 1 and x.shape[-1] == matrix.shape[0], x.shape, matrix.shape)
    if x.ndim == 1:
        return sparse_times_tensor(matrix.T, x)
    # x·A = (Aᵀ·xᵀ)ᵀ
    rows = reshape(x, (-1, x.shape[-1]))
    out = transpose(sparse_times_tensor(matrix.T, transpose(rows)))
    return reshape(out, (*x.shape[:-1], matrix.shape[1]))


def _check(fits: bool, left: Any, right: Any) -> None:
    if not fits:
        raise InvalidArgumentError(f"@: a sparse matrix and a tensor do not fit: shapes {tuple(left)} and {tuple(right)}")
