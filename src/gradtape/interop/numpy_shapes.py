"""NumPy's functions that rearrange, join, cut and pick elements, written in gradtape's ops: a table from function to rule.

Rules have NumPy's argument names. Index arguments are values, not tensors to differentiate.
"""

# ruff: noqa: D103  (each function does what NumPy documents under its name)

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from gradtape.core.arguments import integral, option
from gradtape.core.dispatch import apply, convert, promote
from gradtape.core.inference import broadcast_shapes
from gradtape.core.tensor import Readable, Tensor
from gradtape.core.typing import Axes, Axis, DTypeLike, Integers, Shape, TensorLike
from gradtape.errors import InvalidArgumentError
from gradtape.interop.numpy_linalg import flat, moveaxis
from gradtape.interop.numpy_ufuncs import as_bool
from gradtape.ops import extending, shape as arrays
from gradtape.ops.create import grid, ones_like, zeros, zeros_like
from gradtape.ops.dynamic import MASK_INDICES
from gradtape.ops.elementwise import cast
from gradtape.ops.stop import identity

Rule = Callable[..., Any]


def shape_of(x: Tensor) -> tuple[int, ...]:
    """The sizes; inside a program those that only run time knows are symbols that compute."""
    return tuple(x.shape)


def _arranged(rule: Rule, x: Tensor) -> Any:
    """Reshaped as NumPy would; it is shown an array that has the number of an axis for its size."""
    shape = rule(np.broadcast_to(False, range(2, x.ndim + 2))).shape
    return arrays.reshape(x, [1 if n == 1 else x.shape[n - 2] for n in shape])


def values(x: object) -> Any:
    """Indices, counts and shapes given as tensors: their plain values."""
    return convert(x).numpy() if isinstance(x, (Tensor, Readable)) else x


def c_order(order: str) -> None:
    if order not in ("C", "A", "K"):
        raise InvalidArgumentError(f"tensors are laid out in C order; order={order!r} is not supported")


# -- axes ------------------------------------------------------------------------------------------------------------


def reshape(
    a: TensorLike, /, shape: Shape | None = None, order: str = "C", *, newshape: Shape | None = None, copy: object = None
) -> Any:
    c_order(order)
    return arrays.reshape(a, values(newshape if shape is None else shape))


def ravel(a: TensorLike, order: str = "C") -> Any:
    c_order(order)
    return flat(a)


def transpose(a: TensorLike, axes: Integers | None = None) -> Any:
    return arrays.transpose(a, axes)


def swapaxes(a: TensorLike, axis1: int, axis2: int) -> Any:
    a = convert(a)
    order = list(range(a.ndim))
    first, second = (arrays.normal_axis(axis, a.ndim, "swapaxes") for axis in (axis1, axis2))
    order[first], order[second] = second, first
    return arrays.transpose(a, order)


def rollaxis(a: TensorLike, axis: int, start: int = 0) -> Any:
    a = convert(a)
    order = np.rollaxis(np.empty(tuple(range(1, a.ndim + 1))), axis, start).shape
    return arrays.transpose(a, [n - 1 for n in order])


def squeeze(a: TensorLike, axis: Axes = None) -> Any:
    return arrays.squeeze(a, None if axis is None else list(axis) if isinstance(axis, tuple) else axis)


def expand_dims(a: TensorLike, axis: int | Sequence[int]) -> Any:
    return _arranged(lambda x: np.expand_dims(x, axis), convert(a))


def _each(rule: Rule, *arys: Any) -> Any:
    out = tuple(_arranged(rule, convert(x)) for x in arys)
    return out[0] if len(out) == 1 else out


atleast_1d, atleast_2d, atleast_3d = (partial(_each, rule) for rule in (np.atleast_1d, np.atleast_2d, np.atleast_3d))


def broadcast_to(array: TensorLike, shape: Shape) -> Any:
    return arrays.broadcast_to(array, values(shape))


def broadcast_arrays(*args: Any) -> Any:
    # None and texts stay what they are to NumPy: the bars of a chart come with their hatches
    firsts = [a[0] if isinstance(a, (list, tuple)) and a else a for a in args]
    parts = [np.asarray(a) if b is None or isinstance(b, str) else convert(a) for a, b in zip(args, firsts, strict=True)]
    shape = broadcast_shapes(*(t.shape for t in parts))
    return tuple((np if isinstance(t, np.ndarray) else arrays).broadcast_to(t, shape) for t in parts)


# -- joining and cutting ---------------------------------------------------------------------------------------------


def concatenate(
    arrays_: Sequence[TensorLike], /, axis: Axis | None = 0, out: object = None, *, dtype: DTypeLike | None = None,
    casting: object = None,
) -> Tensor:  # fmt: skip
    parts = list(arrays_)
    joined = arrays.concat([flat(p) for p in parts] if axis is None else parts, 0 if axis is None else axis)
    return joined if dtype is None else cast(joined, dtype)


def stack(
    arrays_: Sequence[TensorLike], axis: int = 0, out: object = None, *, dtype: DTypeLike | None = None, casting: object = None
) -> Any:
    joined = arrays.stack(list(arrays_), axis)
    return joined if dtype is None else cast(joined, dtype)


def vstack(tup: Sequence[TensorLike], *, dtype: DTypeLike | None = None, casting: object = None) -> Any:
    return concatenate([atleast_2d(p) for p in tup], 0, dtype=dtype)


def hstack(tup: Sequence[TensorLike], *, dtype: DTypeLike | None = None, casting: object = None) -> Any:
    parts = [atleast_1d(p) for p in tup]
    return concatenate(parts, 0 if parts[0].ndim == 1 else 1, dtype=dtype)


def dstack(tup: Sequence[TensorLike]) -> Any:
    return concatenate([atleast_3d(p) for p in tup], 2)


def column_stack(tup: Sequence[TensorLike]) -> Any:
    parts = [convert(p) for p in tup]
    return concatenate([arrays.reshape(p, (-1, 1)) if p.ndim < 2 else p for p in parts], 1)


def append(arr: TensorLike, values: TensorLike, axis: int | None = None) -> Any:
    return concatenate([arr, values], axis)


def array_split(ary: TensorLike, indices_or_sections: TensorLike, axis: int = 0) -> Any:
    """Cuts as NumPy places them, found on a row of numbers."""
    x = convert(ary)
    axis = arrays.normal_axis(axis, x.ndim, "split")
    pieces = np.array_split(np.arange(int(x.shape[axis])), values(indices_or_sections))
    lead = (slice(None),) * axis
    return [x[(*lead, slice(int(p[0]), int(p[-1]) + 1) if p.size else slice(0, 0))] for p in pieces]


def split(ary: TensorLike, indices_or_sections: TensorLike, axis: int = 0) -> Any:
    x = convert(ary)
    if isinstance(indices_or_sections, int) and int(x.shape[axis]) % indices_or_sections:
        raise InvalidArgumentError(f"split: {x.shape[axis]} elements do not divide into {indices_or_sections} equal parts")
    return array_split(x, indices_or_sections, axis)


def hsplit(ary: TensorLike, indices_or_sections: TensorLike) -> Any:
    return split(ary, indices_or_sections, 0 if convert(ary).ndim == 1 else 1)


def vsplit(ary: TensorLike, indices_or_sections: TensorLike) -> Any:
    return split(ary, indices_or_sections, 0)


def dsplit(ary: TensorLike, indices_or_sections: TensorLike) -> Any:
    return split(ary, indices_or_sections, 2)


def unstack(x: TensorLike, /, *, axis: int = 0) -> Any:
    return tuple(arrays.unstack(x, axis=axis))


# -- repeating and mirroring -----------------------------------------------------------------------------------------


def tile(A: TensorLike, reps: TensorLike) -> Any:
    a = convert(A)
    times = (reps,) if isinstance(reps, int) else tuple(int(r) for r in values(reps))
    rank = max(a.ndim, len(times))
    a = arrays.reshape(a, (1,) * (rank - a.ndim) + shape_of(a))
    return extending.tile(a, (1,) * (rank - len(times)) + times)


def repeat(a: TensorLike, repeats: TensorLike, axis: int | None = None) -> Any:
    return extending.repeat(a, values(repeats), axis)


def flip(m: TensorLike, axis: int | Sequence[int] | None = None) -> Any:
    m = convert(m)
    axes = list(range(m.ndim)) if axis is None else [axis] if isinstance(axis, int) else list(axis)
    return arrays.reverse(m, axes)


def fliplr(m: TensorLike) -> Any:
    return flip(m, 1)


def flipud(m: TensorLike) -> Any:
    return flip(m, 0)


def rot90(m: TensorLike, k: int = 1, axes: Sequence[int] = (0, 1)) -> Any:
    m = convert(m)
    turns = k % 4
    if turns == 0:
        return identity(m)
    if turns == 2:
        return flip(m, tuple(axes))
    return flip(swapaxes(m, *axes), axes[0]) if turns == 1 else swapaxes(flip(m, axes[0]), *axes)


def roll(a: TensorLike, shift: Integers, axis: int | Sequence[int] | None = None) -> Any:
    a = convert(a)
    if axis is None:
        return arrays.reshape(arrays.roll(flat(a), shift, 0), shape_of(a))
    if isinstance(shift, int) and not isinstance(axis, int):
        shift = [shift] * len(axis)
    return arrays.roll(a, shift, axis)


def pad(array: TensorLike, pad_width: TensorLike, mode: str = "constant", *, constant_values: TensorLike = 0) -> Any:
    x = convert(array)
    pairs = [tuple(int(v) for v in p) for p in np.broadcast_to(np.asarray(values(pad_width)), (x.ndim, 2))]
    if mode == "constant":
        if isinstance(constant_values, (list, tuple)) and len(set(np.ravel(constant_values).tolist())) == 1:
            constant_values = np.ravel(constant_values)[0].item()
        if not isinstance(constant_values, (int, float, Tensor, Readable, np.generic)):
            raise InvalidArgumentError("np.pad on tensors takes one number as constant_values")
        return extending.pad(x, pairs, constant_values=constant_values)
    if mode not in ("edge", "reflect", "symmetric", "wrap"):
        raise InvalidArgumentError(
            f"np.pad on tensors has no mode {mode!r}; use 'constant', 'edge', 'reflect', 'symmetric' or 'wrap'"
        )
    for axis, pair in enumerate(pairs):
        if any(pair):
            x = take(x, np.pad(np.arange(int(x.shape[axis])), pair, mode), axis)  # type: ignore[call-overload]
    return x


# -- picking ---------------------------------------------------------------------------------------------------------


def take(a: TensorLike, indices: TensorLike, axis: int | None = None, out: object = None, mode: str = "raise") -> Tensor:
    x = convert(a)
    if axis is None:
        x, axis = flat(x), 0
    axis = arrays.normal_axis(axis, x.ndim, "take")
    places = as_places(indices, "indices", "np.take")
    if option(mode, "mode", "np.take", MODES) == "wrap":
        places = places % int(x.shape[axis])
    elif mode == "clip":
        places = np.clip(places, 0, int(x.shape[axis]) - 1)
    return x[(*(slice(None),) * axis, places)]


MODES = ("raise", "wrap", "clip")  # what to do with indices that are outside


def as_places(indices: TensorLike, argument: str, function: str) -> Any:
    """Indices as an array, or as a tensor if a program computes them or examples have their own."""
    if isinstance(indices, (Tensor, Readable)) and convert(indices).wraps:
        return integral(indices, argument, function)
    places = np.asarray(values(indices))
    if places.size and places.dtype.kind not in "iub":
        raise InvalidArgumentError(f"{function}: {argument} must be integers, got {indices!r}")
    return places.astype(np.int64) if not places.size else places


def take_along_axis(arr: TensorLike, indices: TensorLike, axis: int | None = -1) -> Any:
    x = convert(arr)
    if axis is None:
        x, axis = flat(x), 0
    axis = arrays.normal_axis(axis, x.ndim, "take_along_axis")
    places = as_places(indices, "indices", "take_along_axis")
    if places.ndim != x.ndim:
        raise InvalidArgumentError(f"take_along_axis: indices of rank {places.ndim} for a tensor of rank {x.ndim}")
    return x[tuple(places if i == axis else grid(n, i, x.ndim) for i, n in enumerate(x.shape))]


def compress(condition: TensorLike, a: TensorLike, axis: int | None = None, out: object = None) -> Any:
    mask = convert(condition)
    if mask.ndim != 1 or mask.dtype.kind not in "biuf":
        raise InvalidArgumentError(f"compress: condition must be a row of booleans, got {condition!r}")
    return take(a, apply(MASK_INDICES, as_bool(mask), shape=mask.shape)[0], axis)


def extract(condition: TensorLike, arr: TensorLike) -> Any:
    return compress(flat(condition), flat(arr))


def delete(arr: TensorLike, obj: TensorLike, axis: int | None = None) -> Any:
    x = convert(arr)
    length = int(x.size if axis is None else x.shape[axis])
    return take(x, np.delete(np.arange(length), values(obj)), axis)


# -- like another ----------------------------------------------------------------------------------------------------


def zeros_like_(
    a: TensorLike, dtype: DTypeLike | None = None, order: str = "K", subok: bool = True, shape: Shape | None = None
) -> Any:
    return _like(zeros_like, a, dtype, shape)


def ones_like_(
    a: TensorLike, dtype: DTypeLike | None = None, order: str = "K", subok: bool = True, shape: Shape | None = None
) -> Any:
    return _like(ones_like, a, dtype, shape)


def full_like(
    a: TensorLike, fill_value: TensorLike, dtype: DTypeLike | None = None, order: str = "K", subok: bool = True,
    shape: Shape | None = None,
) -> Any:  # fmt: skip
    a = convert(a)
    value = cast(convert(fill_value), a.dtype if dtype is None else dtype)
    return arrays.broadcast_to(value, shape_of(a) if shape is None else values(shape))


def _like(rule: Rule, a: TensorLike, dtype: DTypeLike | None, shape: Shape | None) -> Any:
    return rule(a, dtype) if shape is None else rule(zeros(values(shape), convert(a).dtype), dtype)


def copy(a: TensorLike, order: str = "K", subok: bool = False) -> Any:
    c_order(order)
    return identity(a)


def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    tensors = [flat(x) for x in xi]
    rank = len(tensors)
    order = [1, 0, *range(2, rank)] if indexing == "xy" and rank > 1 else list(range(rank))
    lined = [arrays.reshape(t, [-1 if order[i] == j else 1 for j in range(rank)]) for i, t in enumerate(tensors)]
    return tuple(lined) if sparse else broadcast_arrays(*lined)


def block(arrays_: TensorLike) -> Any:
    """Nested lists joined from the inside out, the innermost along the last axis."""
    depth = _depth(arrays_)
    rank = max(depth, max(leaf.ndim for leaf in _block_leaves(arrays_)))
    return _joined(arrays_, depth, rank)


def _depth(nested: TensorLike) -> int:
    return 1 + _depth(nested[0]) if isinstance(nested, list) else 0


def _block_leaves(nested: TensorLike) -> list[Any]:
    return [leaf for part in nested for leaf in _block_leaves(part)] if isinstance(nested, list) else [convert(nested)]


def _joined(nested: TensorLike, depth: int, rank: int) -> Any:
    if not isinstance(nested, list):
        x = convert(nested)
        return arrays.reshape(x, (1,) * (rank - x.ndim) + shape_of(x))
    return arrays.concat(list(promote(*(_joined(part, depth - 1, rank) for part in nested))), rank - depth)


SHAPES: dict[Any, Rule] = {
    np.reshape: reshape, np.ravel: ravel, np.transpose: transpose, np.swapaxes: swapaxes, np.moveaxis: moveaxis,
    np.rollaxis: rollaxis, np.squeeze: squeeze, np.expand_dims: expand_dims, np.atleast_1d: atleast_1d,
    np.atleast_2d: atleast_2d, np.atleast_3d: atleast_3d, np.broadcast_to: broadcast_to,
    np.broadcast_arrays: broadcast_arrays, np.concatenate: concatenate, np.stack: stack, np.vstack: vstack,
    np.hstack: hstack, np.dstack: dstack, np.column_stack: column_stack, np.append: append, np.block: block,
    np.split: split, np.array_split: array_split, np.hsplit: hsplit, np.vsplit: vsplit, np.dsplit: dsplit,
    np.tile: tile, np.repeat: repeat, np.flip: flip, np.fliplr: fliplr, np.flipud: flipud, np.rot90: rot90,
    np.roll: roll, np.pad: pad, np.take: take, np.take_along_axis: take_along_axis, np.compress: compress, np.extract: extract,
    np.delete: delete, np.zeros_like: zeros_like_, np.empty_like: zeros_like_,
    np.ones_like: ones_like_, np.full_like: full_like, np.copy: copy, np.meshgrid: meshgrid,
}  # fmt: skip
if "unstack" in np.__dict__:  # since NumPy 2.1
    SHAPES[np.__dict__["unstack"]] = unstack
