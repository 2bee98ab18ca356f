"""NumPy's functions that make arrays, called with `like=tensor`: a table from function to rule. They give tensors.

NumPy asks the object given as `like` and nobody else, so without it these functions make arrays; a list of tensors would lose
its gradient there, and is refused (`core/escapes.py`). What is not said is as NumPy has it: numbers are float64 and int64.
"""

# ruff: noqa: D103  (each function does what NumPy documents under its name)

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape import tree
from gradtape.core.dispatch import convert, twin
from gradtape.core.tensor import Readable, Tensor
from gradtape.core.typing import DTypeLike, Shape, TensorLike
from gradtape.dtypes import as_dtype
from gradtape.ops import create, shape as arrays
from gradtape.ops.create import constant
from gradtape.ops.elementwise import cast


def _tensor(given: TensorLike, dtype: DTypeLike | None, ndmin: int = 0) -> Any:
    """A tensor of a nested list of tensors and numbers, connected to the tensors in it."""
    leaves = tree.flatten(given)
    if any(isinstance(leaf, (Tensor, Readable)) for leaf in leaves):
        if given.__class__ in (list, tuple):
            common = functools.reduce(np.promote_types, map(_dtype, leaves)) if dtype is None else dtype
            given = tree.map_structure(lambda leaf: _cast(leaf, common), given)
            dtype = None
        tensor = twin(convert(given))
        tensor = tensor if dtype is None else cast(tensor, dtype)
    else:
        tensor = constant(np.array(given, dtype))
    return arrays.reshape(tensor, (1,) * (ndmin - tensor.ndim) + tuple(tensor.shape)) if ndmin > tensor.ndim else tensor


def _dtype(leaf: Any) -> np.dtype[Any]:
    return convert(leaf).dtype.dtype if isinstance(leaf, (Tensor, Readable)) else np.asarray(leaf).dtype


def _cast(leaf: Any, dtype: DTypeLike) -> Any:
    """Part of a list in the dtype of the whole: a number is not rounded to another one first."""
    return (
        cast(leaf, dtype)
        if isinstance(leaf, (Tensor, Readable))
        else constant(np.asarray(leaf, as_dtype(dtype).as_numpy_dtype))
    )


def array(
    object: TensorLike, dtype: DTypeLike | None = None, *, copy: object = True, order: str | None = "K", subok: bool = False,
    ndmin: int = 0,
) -> Any:  # fmt: skip
    return _tensor(object, dtype, ndmin)


def asarray(
    a: TensorLike, dtype: DTypeLike | None = None, order: str | None = None, *, device: object = None, copy: object = None
) -> Any:
    return _tensor(a, dtype)


def ascontiguousarray(a: TensorLike, dtype: DTypeLike | None = None) -> Any:
    return _tensor(a, dtype, 1)


def zeros(shape: Shape, dtype: DTypeLike | None = float, order: str = "C", *, device: object = None) -> Any:
    return create.zeros(shape, np.dtype(dtype))


def ones(shape: Shape, dtype: DTypeLike | None = None, order: str = "C", *, device: object = None) -> Any:
    return create.ones(shape, np.dtype(dtype))


def full(
    shape: Shape, fill_value: TensorLike, dtype: DTypeLike | None = None, order: str = "C", *, device: object = None
) -> Any:
    value = _tensor(fill_value, dtype)
    return arrays.broadcast_to(value, shape) if value.ndim else create.fill(shape, value)


def eye(
    N: int, M: int | None = None, k: int = 0, dtype: DTypeLike | None = float, order: str = "C", *, device: object = None
) -> Any:
    return constant(np.eye(N, M, k, dtype))


def identity(n: int, dtype: DTypeLike | None = None) -> Any:
    return constant(np.identity(n, dtype))


CREATION: dict[Any, Callable[..., Any]] = {
    np.array: array, np.asarray: asarray, np.asanyarray: asarray, np.ascontiguousarray: ascontiguousarray,
    np.asfortranarray: ascontiguousarray, np.zeros: zeros, np.empty: zeros, np.ones: ones, np.full: full, np.eye: eye,
    np.identity: identity,
}  # fmt: skip
