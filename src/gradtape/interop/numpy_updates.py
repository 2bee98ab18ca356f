"""NumPy's functions that write into an array, on tensors: `np.add.at`, `np.copyto`, `np.put` and their like. The tensor gets a
new version, recorded as `t[...] = v` is; a NumPy array cannot take a tensor's values, and is refused.
"""

# ruff: noqa: D103  (each function does what NumPy documents under its name)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape.core.arguments import option
from gradtape.core.dispatch import convert
from gradtape.core.exits import asking_location
from gradtape.core.tensor import Readable, Tensor
from gradtape.core.typing import Index, TensorLike
from gradtape.errors import InvalidIndexError
from gradtape.interop.numpy_linalg import flat
from gradtape.interop.numpy_shapes import MODES, as_places, shape_of, take, take_along_axis, values
from gradtape.interop.numpy_ufuncs import as_bool
from gradtape.ops import shape as arrays
from gradtape.ops.elementwise import cast
from gradtape.ops.scatter import combine_rows
from gradtape.ops.select import where as choose


def _destination(function: str, target: object) -> Any:
    """What NumPy's functions write into must be a tensor to take a tensor's values."""
    if not isinstance(target, (Tensor, Readable)):
        raise TypeError(
            f"np.{function}: a NumPy array cannot take the values of a gradtape tensor, called at {asking_location()}; make "
            "the array a tensor (gt.zeros(shape, dtype), np.zeros_like(x)), or leave the tape on purpose with t.numpy()"
        )
    return target


def copyto(dst: Tensor | Readable, src: TensorLike, casting: object = "same_kind", where: TensorLike = True) -> None:
    target = _destination("copyto", dst)
    src = cast(src, target.dtype)
    target[...] = src if where is True else choose(as_bool(where), src, convert(target))


def put(a: Tensor | Readable, ind: TensorLike, v: TensorLike, mode: str = "raise") -> None:
    """`a.flat[ind] = v`, the values repeated as needed."""
    target = _destination("put", a)
    places = np.ravel(as_places(ind, "indices", "put"))
    size = int(target.size)
    if option(mode, "mode", "put", MODES) == "raise":
        outside = places[(places < -size) | (places >= size)]
        if outside.size:
            raise InvalidIndexError(f"put: indices: {outside[0]} is out of bounds for {size} elements")
        places = places % max(size, 1)
    else:
        places = places % size if mode == "wrap" else np.clip(places, 0, size - 1)
    source = cast(flat(convert(v)), target.dtype)
    source = take(source, np.arange(places.size) % max(int(source.size), 1))
    target[np.unravel_index(places, shape_of(target))] = source


def putmask(a: Tensor | Readable, mask: TensorLike, values: TensorLike) -> None:
    """Where the mask is true, `a.flat[i] = values[i % size]`."""
    target = _destination("putmask", a)
    source = cast(flat(convert(values)), target.dtype)
    source = take(source, np.arange(int(target.size)) % max(int(source.size), 1))
    target[...] = choose(convert(mask), arrays.reshape(source, shape_of(target)), convert(target))


def place(arr: Tensor | Readable, mask: TensorLike, vals: TensorLike) -> None:
    """The true places of the mask get the values one after the other."""
    target = _destination("place", arr)
    put(target, np.flatnonzero(np.asarray(values(mask))), vals)


def fill_diagonal(a: Tensor | Readable, val: TensorLike, wrap: bool = False) -> None:
    target = _destination("fill_diagonal", a)
    numbered = np.zeros(shape_of(target), bool)
    np.fill_diagonal(numbered, True, wrap)
    put(target, np.flatnonzero(numbered), val)


def put_along_axis(arr: Tensor | Readable, indices: TensorLike, values: TensorLike, axis: int | None) -> None:
    """`arr` at the places that `np.take_along_axis` would read."""
    target = _destination("put_along_axis", arr)
    x = convert(target)
    combine_at("update", target, take_along_axis(_numbers_of_places(x), indices, axis), values)


def _numbers_of_places(x: Tensor) -> Tensor:
    """An array like x that holds at each place its number, counted in reading order."""
    return convert(np.arange(x.size).reshape(shape_of(x)))


# -- ufunc.at --------------------------------------------------------------------------------------------------------

MODES_AT: dict[Any, str] = {
    np.add: "add", np.subtract: "sub", np.multiply: "mul", np.divide: "div", np.maximum: "max", np.minimum: "min",
}  # fmt: skip


def update_at(ufunc: np.ufunc, a: Tensor | Readable, indices: Index, b: TensorLike) -> None:
    """`ufunc.at(a, indices, b)`: `a[indices] = ufunc(a[indices], b)`, where a place that is named twice is combined twice."""
    target = _destination(f"{ufunc.__name__}.at", a)
    combine_at(MODES_AT[ufunc], target, _numbers_of_places(convert(target))[indices], b)


def combine_at(mode: str, target: Tensor | Readable, places: Tensor, b: TensorLike) -> None:
    x = convert(target)
    b = arrays.broadcast_to(cast(convert(b, hint=x.dtype), x.dtype), places.shape)
    target[...] = arrays.reshape(combine_rows(flat(x), flat(places), flat(b), mode), x.shape)


UPDATES: dict[Any, Callable[..., None]] = {
    np.copyto: copyto, np.put: put, np.putmask: putmask, np.place: place, np.fill_diagonal: fill_diagonal,
    np.put_along_axis: put_along_axis,
}  # fmt: skip
