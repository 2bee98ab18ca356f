"""The extension `linalg`: products, factorisations, norms of the matrices in the last two axes."""

# ruff: noqa: D103  (each function does what the array API standard documents under its name)

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from gradtape import dtypes as d
from gradtape.core.dispatch import convert, promote
from gradtape.core.typing import Axes, DTypeLike, TensorLike
from gradtape.interop import numpy_linalg as rules
from gradtape.interop.numpy_ufuncs import floats
from gradtape.interop.standard.data_types import finfo
from gradtape.interop.standard.statistical_functions import accumulated
from gradtape.ops import elementwise as e, linalg_det, linalg_spectral, reduce as r, shape as arrays
from gradtape.ops.contract import tensordot as contracted
from gradtape.ops.matmul import matrix_transposed
from gradtape.ops.operators import matmul_operator
from gradtape.ops.select import where


class EighResult(NamedTuple):
    """What `eigh` gives."""

    eigenvalues: Any
    eigenvectors: Any


class QRResult(NamedTuple):
    """What `qr` gives."""

    Q: Any
    R: Any


class SlogdetResult(NamedTuple):
    """What `slogdet` gives."""

    sign: Any
    logabsdet: Any


class SVDResult(NamedTuple):
    """What `svd` gives."""

    U: Any
    S: Any
    Vh: Any


def matmul(x1: TensorLike, x2: TensorLike, /) -> Any:
    return matmul_operator(x1, x2)


def matrix_transpose(x: TensorLike, /) -> Any:
    return rules.matrix_transpose(x)


def tensordot(x1: TensorLike, x2: TensorLike, /, *, axes: int | Sequence[Any] = 2) -> Any:
    return contracted(x1, x2, axes)


def vecdot(x1: TensorLike, x2: TensorLike, /, *, axis: int = -1) -> Any:
    x1, x2 = promote(x1, x2)
    if not -min(x1.ndim, x2.ndim) <= axis < 0:
        raise ValueError(f"vecdot: axis must be negative and in both tensors, got {axis}")
    if x1.shape[axis] != x2.shape[axis]:
        raise ValueError(f"vecdot: vectors of lengths {x1.shape[axis]} and {x2.shape[axis]} have no product")
    return rules.linalg_vecdot(x1, x2, axis=axis)


def cholesky(x: TensorLike, /, *, upper: bool = False) -> Any:
    return rules.cholesky(x, upper=upper)


def cross(x1: TensorLike, x2: TensorLike, /, *, axis: int = -1) -> Any:
    return rules.cross(x1, x2, axis=axis)


def det(x: TensorLike, /) -> Any:
    return rules.det(x)


def diagonal(x: TensorLike, /, *, offset: int = 0) -> Any:
    return rules.diagonal(x, offset, -2, -1)


def eigh(x: TensorLike, /) -> EighResult:
    return EighResult(*linalg_spectral.eigh(floats(x)))


def eigvalsh(x: TensorLike, /) -> Any:
    return rules.eigvalsh(x)


def inv(x: TensorLike, /) -> Any:
    return rules.inv(x)


def matrix_norm(x: TensorLike, /, *, keepdims: bool = False, ord: float | str | None = "fro") -> Any:
    return rules.matrix_norm(x, keepdims=keepdims, ord=ord)


def matrix_power(x: TensorLike, n: int, /) -> Any:
    return rules.matrix_power(x, n)


def matrix_rank(x: TensorLike, /, *, rtol: TensorLike | None = None) -> Any:
    x = floats(x)
    sizes = svdvals(x)
    if rtol is None:
        rtol = max(int(x.shape[-2]), int(x.shape[-1])) * finfo(x.dtype).eps
    limit = r.reduce_max(sizes, -1, True) * _columns(rtol, 1) if sizes.shape[-1] else sizes
    return r.reduce_sum(e.cast(sizes > limit, d.int64), -1)


def _columns(rtol: TensorLike, axes: int) -> Any:
    """A tolerance per matrix, with axes behind to multiply by."""
    if isinstance(rtol, (int, float)):
        return rtol
    rtol = convert(rtol)
    return arrays.reshape(rtol, (*rtol.shape, *([1] * axes)))


def outer(x1: TensorLike, x2: TensorLike, /) -> Any:
    x1, x2 = promote(x1, x2)
    if x1.ndim != 1 or x2.ndim != 1:
        raise ValueError(f"outer: both must be vectors, got shapes {tuple(x1.shape)} and {tuple(x2.shape)}")
    return rules.outer(x1, x2)


def pinv(x: TensorLike, /, *, rtol: TensorLike | None = None) -> Any:
    x = floats(x)
    if rtol is None:
        rtol = max(int(x.shape[-2]), int(x.shape[-1])) * finfo(x.dtype).eps
    if isinstance(rtol, (int, float)) or not convert(rtol).ndim:
        return linalg_det.pinv(x, rtol if isinstance(rtol, (int, float)) else float(convert(rtol)))
    u, s, vh = svd(x, full_matrices=False)
    keep = s > r.reduce_max(s, -1, True) * _columns(rtol, 1)
    inverse = where(keep, 1.0 / where(keep, s, e.cast(1, s.dtype)), e.cast(0, s.dtype))
    return matrix_transposed(vh) @ (e.cast(inverse, x.dtype)[..., None] * matrix_transposed(u))


def qr(x: TensorLike, /, *, mode: str = "reduced") -> QRResult:
    if mode not in ("reduced", "complete"):
        raise ValueError(f"qr: mode must be 'reduced' or 'complete', got {mode!r}")
    return QRResult(*linalg_spectral.qr(floats(x), full_matrices=mode == "complete"))


def slogdet(x: TensorLike, /) -> SlogdetResult:
    return SlogdetResult(*linalg_det.slogdet(floats(x)))


def solve(x1: TensorLike, x2: TensorLike, /) -> Any:
    return rules.solve(x1, x2)


def svd(x: TensorLike, /, *, full_matrices: bool = True) -> SVDResult:
    return SVDResult(*rules.svd(x, full_matrices))


def svdvals(x: TensorLike, /) -> Any:
    return linalg_spectral.svd(floats(x), compute_uv=False)


def trace(x: TensorLike, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Any:
    return r.reduce_sum(accumulated(diagonal(x, offset=offset), dtype), -1)


def vector_norm(x: TensorLike, /, *, axis: Axes = None, keepdims: bool = False, ord: float = 2) -> Any:
    return rules.vector_norm(x, axis=axis, keepdims=keepdims, ord=ord)


__all__ = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm", "matrix_power", "matrix_rank",
    "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot", "trace", "vecdot",
    "vector_norm",
]  # fmt: skip


def __dir__() -> list[str]:  # completion offers no more
    return __all__
