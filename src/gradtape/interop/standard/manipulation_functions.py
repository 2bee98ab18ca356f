"""Arrays rearranged, joined, cut, and read by index."""

# ruff: noqa: D103  (each function does what the array API standard documents under its name)

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradtape.core.dispatch import convert, promote
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Axes, Integers, Shape, TensorLike
from gradtape.errors import OutOfRangeError
from gradtape.interop import numpy_linalg, numpy_shapes as n
from gradtape.interop.numpy_linalg import AxesToMove
from gradtape.ops import shape as arrays
from gradtape.ops.stop import identity


def broadcast_arrays(*arrays: TensorLike) -> list[Any]:
    return list(n.broadcast_arrays(*arrays))


def broadcast_to(x: TensorLike, /, shape: Shape) -> Any:
    return n.broadcast_to(x, shape)


def concat(arrays: Sequence[TensorLike], /, *, axis: int | None = 0) -> Any:
    return n.concatenate(promote(*arrays), axis)


def expand_dims(x: TensorLike, /, axis: int) -> Any:
    x = convert(x)
    if not -x.ndim - 1 <= axis <= x.ndim:
        raise OutOfRangeError(f"expand_dims: axis {axis} is out of range for a tensor of rank {x.ndim}")
    return arrays.expand_dims(x, axis)


def flip(x: TensorLike, /, *, axis: int | Sequence[int] | None = None) -> Any:
    return n.flip(x, axis)


def moveaxis(x: TensorLike, source: AxesToMove, destination: AxesToMove, /) -> Any:
    return numpy_linalg.moveaxis(x, source, destination)


def permute_dims(x: TensorLike, /, axes: Integers) -> Any:
    return n.transpose(x, axes)


def repeat(x: TensorLike, repeats: TensorLike, /, *, axis: int | None = None) -> Any:
    return n.repeat(x, repeats, axis)


def reshape(x: TensorLike, /, shape: Shape, *, copy: bool | None = None) -> Any:
    return arrays.reshape(x, shape)  # versions of a tensor never share what can be written to


def roll(x: TensorLike, /, shift: Integers, *, axis: int | Sequence[int] | None = None) -> Any:
    return n.roll(x, shift, axis)


def squeeze(x: TensorLike, /, axis: Axes) -> Any:
    return n.squeeze(x, axis) if axis != () else identity(convert(x))


def stack(arrays: Sequence[TensorLike], /, *, axis: int = 0) -> Any:
    return n.stack(promote(*arrays), axis)


def tile(x: TensorLike, repetitions: TensorLike, /) -> Any:
    return n.tile(x, repetitions)


def unstack(x: TensorLike, /, *, axis: int = 0) -> tuple[Any, ...]:
    return tuple(arrays.unstack(x, axis=axis))


def take(x: TensorLike, indices: TensorLike, /, *, axis: int | None = None) -> Any:
    x = convert(x)
    if axis is None and x.ndim != 1:
        raise ValueError(f"take: a tensor of rank {x.ndim} needs the axis to take from")
    place = arrays.normal_axis(0 if axis is None else axis, x.ndim, "take")
    key: tuple[slice | Tensor, ...] = (*(slice(None),) * place, convert(indices))
    return x[key]


def take_along_axis(x: TensorLike, indices: TensorLike, /, *, axis: int = -1) -> Any:
    return n.take_along_axis(x, indices, axis)


__all__ = [
    "broadcast_arrays", "broadcast_to", "concat", "expand_dims", "flip", "moveaxis", "permute_dims", "repeat", "reshape",
    "roll", "squeeze", "stack", "take", "take_along_axis", "tile", "unstack",
]  # fmt: skip
