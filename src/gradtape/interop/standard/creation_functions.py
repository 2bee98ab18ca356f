"""Arrays from values, shapes and ranges.

Python numbers are taken at full precision: `asarray(0.1, dtype=float64)` is 0.1, not the nearest float32. What is given as a
tensor stays recorded.
"""

# ruff: noqa: D103  (each function does what the array API standard documents under its name)

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradtape import dtypes as d
from gradtape.core.conversion import contains_tensor, first_leaf
from gradtape.core.dispatch import convert
from gradtape.core.tensor import Readable, Tensor
from gradtape.core.typing import DTypeLike, Shape, TensorLike
from gradtape.interop import numpy_functions, numpy_linalg, numpy_shapes
from gradtape.interop.array_namespace import check_device, from_dlpack as from_dlpack
from gradtape.interop.standard.data_types import default_dtype
from gradtape.ops import create
from gradtape.ops.elementwise import cast
from gradtape.ops.stop import identity


def asarray(obj: TensorLike, /, *, dtype: DTypeLike | None = None, device: object = None, copy: bool | None = None) -> Any:
    check_device(device)
    if isinstance(obj, (Tensor, Readable)) or (isinstance(obj, (list, tuple)) and contains_tensor(obj)):
        tensor = convert(obj)
        if dtype is not None and tensor.dtype != dtype:
            if copy is False:
                raise ValueError(f"asarray: copy=False, but dtype {tensor.dtype.name} must become {d.as_dtype(dtype).name}")
            return cast(tensor, dtype)
        return identity(tensor) if copy else tensor
    if copy is False:
        raise ValueError("asarray: tensors own their values, so copy=False cannot be granted")
    if dtype is None:
        tensor = convert(obj)
        ours = tensor.dtype is d.complex128 and not isinstance(first_leaf(obj), (np.ndarray, np.generic))
        return cast(tensor, d.complex64) if ours and not _is_array(obj) else tensor
    if _is_array(obj):
        return cast(convert(obj), dtype)
    return create.constant(np.asarray(obj).astype(d.numpy_dtype(dtype)))


def _is_array(obj: object) -> bool:
    return not isinstance(obj, (bool, int, float, complex, list, tuple, range))


def zeros(shape: Shape, *, dtype: DTypeLike | None = None, device: object = None) -> Any:
    check_device(device)
    return create.zeros(shape, d.float32 if dtype is None else dtype)


def ones(shape: Shape, *, dtype: DTypeLike | None = None, device: object = None) -> Any:
    check_device(device)
    return create.ones(shape, d.float32 if dtype is None else dtype)


def empty(shape: Shape, *, dtype: DTypeLike | None = None, device: object = None) -> Any:
    return zeros(shape, dtype=dtype, device=device)


def full(shape: Shape, fill_value: TensorLike, *, dtype: DTypeLike | None = None, device: object = None) -> Any:
    return create.fill(shape, asarray(fill_value, dtype=dtype, device=device))


def zeros_like(x: TensorLike, /, *, dtype: DTypeLike | None = None, device: object = None) -> Any:
    check_device(device)
    return create.zeros_like(x, dtype)


def ones_like(x: TensorLike, /, *, dtype: DTypeLike | None = None, device: object = None) -> Any:
    check_device(device)
    return create.ones_like(x, dtype)


def empty_like(x: TensorLike, /, *, dtype: DTypeLike | None = None, device: object = None) -> Any:
    return zeros_like(x, dtype=dtype, device=device)


def full_like(x: TensorLike, /, fill_value: TensorLike, *, dtype: DTypeLike | None = None, device: object = None) -> Any:
    x = convert(x)
    return full(x.shape, fill_value, dtype=x.dtype if dtype is None else dtype, device=device)


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: DTypeLike | None = None, device: object = None) -> Any:
    check_device(device)
    return create.constant(np.eye(n_rows, n_cols, k, d.numpy_dtype(d.float32 if dtype is None else dtype)))


def arange(
    start: TensorLike, /, stop: TensorLike | None = None, step: TensorLike = 1, *, dtype: DTypeLike | None = None,
    device: object = None,
) -> Any:  # fmt: skip
    check_device(device)
    bounds: tuple[Any, Any, Any] = (0, start, step) if stop is None else (start, stop, step)
    if not all(isinstance(v, (int, float)) for v in bounds):
        return create.range(*bounds, dtype=dtype)
    first, end, by = bounds  # Python numbers
    if by == 0:
        raise ValueError("arange: step must not be 0")
    whole = all(isinstance(v, int) for v in bounds)
    target = d.as_dtype(dtype) if dtype is not None else max(map(default_dtype, bounds), key=_breadth) if whole else d.float32
    count = max(-((first - end) // by) if whole else math.ceil((end - first) / by), 0)
    # Python's integers are exact at any size; NumPy would compute large ones in float64 or wrap them around.
    if whole and target.is_integer:
        return create.constant(np.fromiter((first + i * by for i in range(count)), target.dtype, count))
    return create.constant((first + np.arange(count) * by).astype(target.dtype))


def _breadth(dtype: d.DType) -> int:
    return dtype.size


def linspace(
    start: TensorLike, stop: TensorLike, /, num: int, *, dtype: DTypeLike | None = None, device: object = None,
    endpoint: bool = True,
) -> Any:  # fmt: skip
    check_device(device)
    ends: tuple[Any, Any] = (start, stop)
    if not all(isinstance(v, (int, float, complex)) for v in ends):
        return numpy_functions.linspace(start, stop, num, endpoint, False, dtype)
    target = dtype if dtype is not None else d.complex64 if any(isinstance(v, complex) for v in ends) else d.float32
    return create.constant(np.linspace(*ends, num, endpoint=endpoint).astype(d.numpy_dtype(target)))


def meshgrid(*arrays: Any, indexing: str = "xy") -> list[Any]:
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing must be 'xy' or 'ij', got {indexing!r}")
    return list(numpy_shapes.meshgrid(*arrays, indexing=indexing))


def tril(x: TensorLike, /, *, k: int = 0) -> Any:
    return numpy_linalg.tril(x, k)


def triu(x: TensorLike, /, *, k: int = 0) -> Any:
    return numpy_linalg.triu(x, k)


__all__ = [
    "arange", "asarray", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like", "linspace", "meshgrid", "ones",
    "ones_like", "tril", "triu", "zeros", "zeros_like",
]  # fmt: skip
