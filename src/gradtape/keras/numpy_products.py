"""Keras's `numpy` functions that are products of matrices and vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradtape.core.tensor import Tensor
from gradtape.core.typing import TensorLike
from gradtape.keras.core_ops import cast, convert_to_tensor
from gradtape.keras.numpy_types import floating, on_tensors as np, promoted, result_type
from gradtape.ops.contract import einsum as contracted
from gradtape.ops.linalg_det import slogdet as sign_and_log


def _factors(*operands: TensorLike) -> tuple[list[Tensor], str]:
    """The operands in a dtype that can be multiplied, and the dtype of the result: int8 × int8 is int32."""
    tensors = [convert_to_tensor(x) for x in operands]
    names = {x.dtype.name for x in tensors}
    wanted = "int32" if names == {"int8"} else result_type(*sorted(names))
    return [cast(x, "int32" if wanted == "bool" else wanted) for x in tensors], wanted


def _product(rule: Callable[..., Any]) -> Callable[..., Tensor]:
    def function(x1: TensorLike, x2: TensorLike) -> Tensor:
        factors, wanted = _factors(x1, x2)
        return cast(rule(*factors), wanted)

    return function


matmul, dot, inner, outer, vdot, kron = (_product(rule) for rule in (np.matmul, np.dot, np.inner, np.outer, np.vdot, np.kron))


def einsum(subscripts: str, *operands: TensorLike, **kwargs: Any) -> Tensor:
    factors, wanted = _factors(*operands)
    return cast(contracted(subscripts, *factors), wanted)


def tensordot(x1: TensorLike, x2: TensorLike, axes: Any = 2) -> Tensor:
    factors, wanted = _factors(x1, x2)
    return cast(np.tensordot(*factors, axes=axes), wanted)


def cross(x1: TensorLike, x2: TensorLike, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Tensor:
    a, b = promoted(x1, x2)
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = np.moveaxis(a, axisa, -1), np.moveaxis(b, axisb, -1)
    if 2 in (a.shape[-1], b.shape[-1]):
        from gradtape.ops.extending import pad

        flat = a.shape[-1] == b.shape[-1] == 2
        a, b = (x if x.shape[-1] == 3 else pad(x, [[0, 0]] * (x.ndim - 1) + [[0, 1]]) for x in (a, b))
        if flat:
            return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
    first = a[..., 1] * b[..., 2] - a[..., 2] * b[..., 1]
    second = a[..., 2] * b[..., 0] - a[..., 0] * b[..., 2]
    third = a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
    return np.stack([first, second, third], axis=axisc)


def trace(x: TensorLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    from gradtape.keras.numpy_reductions import sum_

    return sum_(np.diagonal(convert_to_tensor(x), offset, axis1, axis2), -1)


def correlate(x1: TensorLike, x2: TensorLike, mode: str = "valid") -> Tensor:
    """Sliding products of two rows: a convolution with the second one reversed."""
    a, b = promoted(x1, x2)
    if not a.dtype.is_differentiable:
        a, b = cast(a, "float32"), cast(b, "float32")
    swapped = a.shape[0] < b.shape[0]
    result = np.convolve(b if swapped else a, np.flip(a if swapped else b, 0), mode=mode)
    return np.flip(result, 0) if swapped else result


def slogdet(x: TensorLike) -> tuple[Tensor, Tensor]:
    sign, log = sign_and_log(floating(x))
    return sign, log
