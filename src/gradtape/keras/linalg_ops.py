"""Keras's `linalg` functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradtape.core.tensor import Tensor
from gradtape.core.typing import TensorLike
from gradtape.keras.core_ops import cast, convert_to_tensor
from gradtape.keras.numpy_types import axes_of, floating, on_tensors as np, promoted_floats
from gradtape.ops import linalg_det as determinants, linalg_solve as solving, linalg_spectral as spectra, matrix as matrices
from gradtape.ops.create import eye
from gradtape.ops.shape import expand_dims, squeeze
from gradtape.tape.functional import jvp as engine_jvp


def _transposed(x: Tensor) -> Tensor:
    return matrices.matrix_transpose(x)


def cholesky(a: TensorLike, upper: bool = False) -> Tensor:
    lower = solving.cholesky(floating(a))
    return _transposed(lower) if upper else lower


def cholesky_inverse(a: TensorLike, upper: bool = False) -> Tensor:
    factor = floating(a)
    lower = _transposed(factor) if upper else factor
    return solving.cholesky_solve(lower, eye(int(factor.shape[-1]), dtype=factor.dtype))


def det(a: TensorLike) -> Tensor:
    return determinants.det(floating(a))


def eig(a: TensorLike) -> tuple[Tensor, Tensor]:
    values, vectors = spectra.eig(floating(a))
    return values, vectors


def eigh(a: TensorLike) -> tuple[Tensor, Tensor]:
    values, vectors = spectra.eigh(floating(a))
    return values, vectors


def inv(a: TensorLike) -> Tensor:
    return solving.inv(floating(a))


def lu_factor(a: TensorLike) -> tuple[Tensor, Tensor]:
    """LU and pivots as LAPACK counts them: row i was exchanged with row pivot[i]."""
    matrix = floating(a)
    rows, columns = (int(n) for n in matrix.shape[-2:])
    if rows != columns:  # the factors of a square with unit rows or columns added are those of the rest, and these cut off
        size = max(rows, columns)
        added = np.eye(size)[:, columns:] if rows > columns else np.eye(size)[rows:]
        unit = np.broadcast_to(convert_to_tensor(added, matrix.dtype), (*matrix.shape[:-2], *added.shape))
        matrix = np.concatenate([matrix, unit], axis=-1 if rows > columns else -2)
    factors, order = solving.lu(matrix)
    return factors[..., :rows, :columns], _pivots(order)[..., : min(rows, columns)]


def _pivots(order: Tensor) -> Tensor:
    """A permutation as a sequence of exchanges."""
    rows = np.array(order.numpy()).reshape(-1, order.shape[-1])
    exchanges = np.zeros_like(rows, dtype=np.int32)
    for swaps, wanted in zip(exchanges, rows, strict=True):
        current = np.arange(len(wanted))
        for i, row in enumerate(wanted):
            swaps[i] = j = int(np.flatnonzero(current == row)[0])
            current[[i, j]] = current[[j, i]]
    return convert_to_tensor(exchanges.reshape(tuple(order.shape)), "int32")


def norm(x: TensorLike, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    return np.linalg.norm(floating(x), ord=ord, axis=axes_of(axis), keepdims=keepdims)


def qr(x: TensorLike, mode: str = "reduced") -> tuple[Tensor, Tensor]:
    if mode not in ("reduced", "complete"):
        raise ValueError(
            f"`mode` argument value not supported. Expected one of {{'reduced', 'complete'}}. Received: mode={mode}"
        )
    q, r = spectra.qr(floating(x), full_matrices=mode == "complete")
    return q, r


def solve(a: TensorLike, b: TensorLike) -> Tensor:
    return _solved(lambda m, v: solving.solve(m, v), a, b)


def solve_triangular(a: TensorLike, b: TensorLike, lower: bool = False) -> Tensor:
    return _solved(lambda m, v: solving.triangular_solve(m, v, lower=lower), a, b)


def _solved(rule: Callable[..., Tensor], a: TensorLike, b: TensorLike) -> Tensor:
    matrix, right = promoted_floats(a, b)
    if right.ndim == matrix.ndim - 1:
        return squeeze(rule(matrix, expand_dims(right, -1)), -1)
    return rule(matrix, right)


def svd(x: TensorLike, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    tensor = floating(x)
    if not compute_uv:
        return spectra.svd(tensor, compute_uv=False)
    values, left, right = spectra.svd(tensor, full_matrices=full_matrices)
    return left, values, matrices.adjoint(right)


def lstsq(a: TensorLike, b: TensorLike, rcond: float | None = None) -> Tensor:
    """The shortest solution of least squares, by the pseudo-inverse."""
    matrix, right = promoted_floats(a, b)
    if right.ndim == 1:
        return squeeze(determinants.pinv(matrix, rcond) @ expand_dims(right, -1), -1)
    return determinants.pinv(matrix, rcond) @ right


def pinv(x: TensorLike, rcond: float | None = None) -> Tensor:
    return determinants.pinv(floating(x), rcond)


def matrix_rank(x: TensorLike, tol: float | None = None) -> Tensor:
    tensor = floating(x)
    values = spectra.svd(tensor, compute_uv=False)
    if tol is None:
        size = max(int(n) for n in tensor.shape[-2:])
        bound = np.max(values, axis=-1, keepdims=True) * (size * float(np.finfo(tensor.dtype.as_numpy_dtype).eps))
    else:
        bound = cast(tol, values.dtype)
    return np.sum(cast(values > bound, "int32"), axis=-1)


def jvp(fun: Callable[..., Any], primals: Sequence[TensorLike], tangents: Sequence[TensorLike], has_aux: bool = False) -> Any:
    points = [convert_to_tensor(x) for x in primals]
    directions = [convert_to_tensor(x) for x in tangents]
    if not has_aux:
        return engine_jvp(fun, tuple(points), tuple(directions))
    kept: list[Any] = []

    def first(*values: Any) -> Any:
        result, extra = fun(*values)
        kept[:] = [extra]
        return result

    result, tangent = engine_jvp(first, tuple(points), tuple(directions))
    return result, tangent, kept[0]
