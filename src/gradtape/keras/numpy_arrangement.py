"""Keras's `numpy` functions that move elements: reshape, join, cut, pad, index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradtape.core.tensor import Tensor
from gradtape.core.typing import Shape, TensorLike
from gradtape.keras.core_ops import cast, convert_to_tensor, shape as sizes_of
from gradtape.keras.numpy_types import axes_of, on_tensors as np, promoted
from gradtape.ops import compare, select, shape as arrange
from gradtape.ops.create import zeros_like
from gradtape.ops.extending import repeat as repeated, tile as tiled
from gradtape.ops.index import gather

expand_axis = arrange.expand_dims


def reshape(x: TensorLike, newshape: Shape) -> Tensor:
    return arrange.reshape(convert_to_tensor(x), newshape)


def ravel(x: TensorLike) -> Tensor:
    return arrange.reshape(convert_to_tensor(x), (-1,))


def transpose(x: TensorLike, axes: Sequence[int] | None = None) -> Tensor:
    return np.transpose(convert_to_tensor(x), axes)


def moveaxis(x: TensorLike, source: Any, destination: Any) -> Tensor:
    return np.moveaxis(convert_to_tensor(x), source, destination)


def swapaxes(x: TensorLike, axis1: int, axis2: int) -> Tensor:
    return np.swapaxes(convert_to_tensor(x), axis1, axis2)


def expand_dims(x: TensorLike, axis: Any) -> Tensor:
    return np.expand_dims(convert_to_tensor(x), axes_of(axis))


def squeeze(x: TensorLike, axis: Any = None) -> Tensor:
    return np.squeeze(convert_to_tensor(x), axis=axes_of(axis))


def broadcast_to(x: TensorLike, shape: Shape) -> Tensor:
    return arrange.broadcast_to(convert_to_tensor(x), shape)


def flip(x: TensorLike, axis: Any = None) -> Tensor:
    return np.flip(convert_to_tensor(x), axis=axes_of(axis))


def fliplr(x: TensorLike) -> Tensor:
    return np.fliplr(convert_to_tensor(x))


def flipud(x: TensorLike) -> Tensor:
    return np.flipud(convert_to_tensor(x))


def rot90(array: TensorLike, k: int = 1, axes: Sequence[int] = (0, 1)) -> Tensor:
    x = convert_to_tensor(array)
    if x.ndim < 2:
        raise ValueError(f"Input array must have at least 2 dimensions. Received: array.ndim={x.ndim}")
    if len(axes) != 2 or axes[0] == axes[1]:
        raise ValueError(f"Invalid axes: {axes}. Axes must be a tuple of two different dimensions.")
    return np.rot90(x, k=k, axes=tuple(axes))


def roll(x: TensorLike, shift: Any, axis: Any = None) -> Tensor:
    return np.roll(convert_to_tensor(x), shift, axis)


def tile(x: TensorLike, repeats: Any) -> Tensor:
    tensor = convert_to_tensor(x)
    if isinstance(repeats, Tensor):
        return tiled(tensor, repeats)
    counts = [repeats] if isinstance(repeats, int) else list(repeats)
    counts = [1] * (tensor.ndim - len(counts)) + counts
    return tiled(arrange.reshape(tensor, (*(1,) * (len(counts) - tensor.ndim), *tensor.shape)), counts)


def repeat(x: TensorLike, repeats: Any, axis: int | None = None) -> Tensor:
    tensor = convert_to_tensor(x)
    if axis is None:
        tensor, axis = arrange.reshape(tensor, (-1,)), 0
    if isinstance(repeats, (list, tuple, np.ndarray)) and np.size(repeats) == 1:
        repeats = int(np.reshape(repeats, ()))
    return repeated(tensor, repeats, axis)


# -- joining and cutting -----------------------------------------------------------------------------------------------------


def concatenate(xs: Sequence[TensorLike], axis: int = 0) -> Tensor:
    return np.concatenate(promoted(*xs), axis)


def stack(x: Sequence[TensorLike], axis: int = 0) -> Tensor:
    return arrange.stack(promoted(*x), axis)


def hstack(xs: Sequence[TensorLike]) -> Tensor:
    return np.hstack(promoted(*xs))


def vstack(xs: Sequence[TensorLike]) -> Tensor:
    return np.vstack(promoted(*xs))


def dstack(xs: Sequence[TensorLike]) -> Tensor:
    return np.dstack(promoted(*xs))


def append(x1: TensorLike, x2: TensorLike, axis: int | None = None) -> Tensor:
    return np.append(*promoted(x1, x2), axis=axis)


def _cuts(given: Any) -> Any:
    """Where to cut, as Python integers where they are known."""
    if isinstance(given, int):
        return given
    return [int(i) if not isinstance(i, Tensor) or not i.wraps else i for i in given]


def _splitter(rule: Callable[..., Any]) -> Callable[..., list[Tensor]]:
    def function(x: TensorLike, indices_or_sections: Any) -> list[Tensor]:
        return list(rule(convert_to_tensor(x), _cuts(indices_or_sections)))

    return function


hsplit, vsplit, dsplit = _splitter(np.hsplit), _splitter(np.vsplit), _splitter(np.dsplit)


def split(x: TensorLike, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    return list(np.split(convert_to_tensor(x), _cuts(indices_or_sections), axis))


def array_split(x: TensorLike, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    return list(np.array_split(convert_to_tensor(x), _cuts(indices_or_sections), axis))


def pad(x: TensorLike, pad_width: Any, mode: str = "constant", constant_values: TensorLike | None = None) -> Tensor:
    tensor = convert_to_tensor(x)
    if constant_values is not None and mode != "constant":
        raise ValueError(f"Argument `constant_values` can only be provided when `mode == 'constant'`. Received: mode={mode}")
    kept = tensor.dtype
    if kept.is_bool:
        tensor = cast(tensor, "int32")
    widths = _widths(pad_width, tensor.ndim)
    if mode != "constant":
        return cast(np.pad(tensor, widths, mode=mode), kept)
    value = 0 if constant_values is None else constant_values
    if isinstance(value, Tensor):
        from gradtape.ops.create import ones_like

        inside = np.pad(ones_like(tensor), widths)
        return cast(np.pad(tensor, widths) + (1 - inside) * cast(value, tensor.dtype), kept)
    return cast(np.pad(tensor, widths, constant_values=value), kept)


def _widths(pad_width: Any, rank: int) -> Any:
    if isinstance(pad_width, Tensor):
        pad_width = pad_width.tolist()
    if isinstance(pad_width, int):
        return ((pad_width, pad_width),) * rank
    pairs = [(p, p) if isinstance(p, int) else tuple(p) for p in pad_width]
    if len(pairs) == 2 and all(isinstance(p, int) for p in pad_width):
        pairs = [tuple(pad_width)]
    return tuple(pairs * rank if len(pairs) == 1 else pairs)


# -- indexing --------------------------------------------------------------------------------------------------------------


def take(x: TensorLike, indices: TensorLike, axis: int | None = None) -> Tensor:
    tensor, places = convert_to_tensor(x), convert_to_tensor(indices)
    places = places if places.dtype.is_integer else cast(places, "int32")
    if axis is None:
        tensor, axis = arrange.reshape(tensor, (-1,)), 0
    size = tensor.shape[axis]
    places = select.where(places < 0, places + cast(size, places.dtype), places)
    return gather(tensor, places, axis=axis)


def take_along_axis(x: TensorLike, indices: TensorLike, axis: int | None = None) -> Tensor:
    tensor, places = convert_to_tensor(x), convert_to_tensor(indices)
    places = places if places.dtype.is_integer else cast(places, "int32")
    if axis is None:
        tensor, axis = arrange.reshape(tensor, (-1,)), 0
    return np.take_along_axis(tensor, places, axis)


def nonzero(x: TensorLike) -> tuple[Tensor, ...]:
    return tuple(cast(part, "int32") for part in np.nonzero(cast(x, "bool")))


def diagonal(x: TensorLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    return np.diagonal(convert_to_tensor(x), offset, axis1, axis2)


def diag(x: TensorLike, k: int = 0) -> Tensor:
    return np.diag(convert_to_tensor(x), k)


def diagflat(x: TensorLike, k: int = 0) -> Tensor:
    return np.diag(ravel(x), k)


def tril(x: TensorLike, k: int = 0) -> Tensor:
    return _triangle(np.tril, x, k)


def triu(x: TensorLike, k: int = 0) -> Tensor:
    return _triangle(np.triu, x, k)


def _triangle(rule: Callable[..., Any], x: TensorLike, k: Any) -> Tensor:
    tensor = convert_to_tensor(x)
    if not isinstance(k, Tensor):
        return cast(rule(cast(tensor, "int32"), k), "bool") if tensor.dtype.is_bool else rule(tensor, k)
    rows, columns = (convert_to_tensor(np.arange(n)) for n in tensor.shape[-2:])
    gap = arrange.expand_dims(columns, 0) - arrange.expand_dims(rows, 1)
    inside = gap <= cast(k, gap.dtype) if rule is np.tril else gap >= cast(k, gap.dtype)
    return select.where(inside, tensor, zeros_like(tensor))


def unravel_index(indices: TensorLike, shape: Sequence[int]) -> tuple[Tensor, ...]:
    places = convert_to_tensor(indices)
    total = int(np.prod(shape))
    places = select.where(places < 0, places + cast(total, places.dtype), places)
    parts = []
    for size in reversed(tuple(shape)):
        parts.append(select.mod(places, cast(size, places.dtype)))
        places = select.floordiv(places, cast(size, places.dtype))
    return tuple(reversed(parts))


def meshgrid(*x: TensorLike, indexing: str = "xy") -> list[Tensor]:
    return list(np.meshgrid(*[convert_to_tensor(part) for part in x], indexing=indexing))


def select_(condlist: Sequence[TensorLike], choicelist: Sequence[TensorLike], default: TensorLike = 0) -> Tensor:
    choices = promoted(*choicelist, default)
    result = choices[-1]
    for test, choice in zip(reversed(list(condlist)), reversed(choices[:-1]), strict=True):
        result = select.where(cast(test, "bool"), choice, result)
    return result


def isin(x1: TensorLike, x2: TensorLike, assume_unique: bool = False, invert: bool = False) -> Tensor:
    from gradtape.ops.reduce import reduce_any

    a, b = promoted(x1, x2)
    hits = reduce_any(compare.equal(arrange.expand_dims(a, -1), arrange.reshape(b, (-1,))), -1)
    return compare.logical_not(hits) if invert else hits


def unique(
    x: TensorLike, sorted: bool = True, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
    axis: int | None = None, size: int | None = None, fill_value: float | None = None,
) -> Any:  # fmt: skip
    """Distinct values: their number is not known before the values are, so outside of programs only."""
    tensor = convert_to_tensor(x)
    values = np.asarray(tensor.numpy())
    parts = np.unique(values, return_index=True, return_inverse=True, return_counts=True, axis=axis, equal_nan=False)
    distinct, index, inverse, counts = parts
    inverse = inverse.reshape(values.shape if axis is None else -1)
    if size is not None:
        along = 0 if axis is None else axis
        distinct, index, counts = _fitted(distinct, index, counts, size, fill_value, along)
    asked = ((index, return_index), (inverse, return_inverse), (counts, return_counts))
    results = [
        convert_to_tensor(distinct, tensor.dtype),
        *(convert_to_tensor(part, "int32") for part, wanted in asked if wanted),
    ]
    return results[0] if len(results) == 1 else tuple(results)


def _fitted(distinct: Any, index: Any, counts: Any, size: int, fill: float | None, axis: int) -> tuple[Any, Any, Any]:
    count = distinct.shape[axis]
    if count >= size:
        cut = (slice(None),) * axis + (slice(0, size),)
        return distinct[cut], index[:size], counts[:size]
    first = np.take(distinct, [0], axis) if fill is None else np.full_like(np.take(distinct, [0], axis), fill)
    filler = np.repeat(first, size - count, axis)
    return (
        np.concatenate([distinct, filler], axis),
        np.concatenate([index, np.full(size - count, index[0])]),
        np.concatenate([counts, np.zeros(size - count, counts.dtype)]),
    )


def ndim(x: TensorLike) -> int:
    return convert_to_tensor(x).ndim


def size(x: TensorLike) -> Any:
    total: Any = 1
    for length in sizes_of(convert_to_tensor(x)):
        total = total * length
    return total


def copy(x: TensorLike) -> Tensor:
    return convert_to_tensor(x).__copy__()
