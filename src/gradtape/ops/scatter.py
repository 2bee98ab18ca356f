"""Reading and writing single places: gather_nd, scatter_nd, tensor_scatter_nd_*, slices by begin and size, masks, blocks.

Index tuples become one flat row number each (`flat_index`, which also checks them), so all of it rests on rows of axis 0:
`take` and `take_add`, `update_at`, and a primitive of this file, an extremum of rows. Where a place is written twice, additions
and extrema combine and a replacement keeps the last, the only one that gets a gradient.
"""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from gradtape.core import batching
from gradtape.core.dispatch import apply, convert, promote
from gradtape.core.opdef import Fails, Op, Sample, composite, general, nondiff
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Array, Axis, Dims, Integer, Integers, Shape, TensorLike
from gradtape.dtypes import bool_
from gradtape.errors import InvalidArgumentError, InvalidIndexError
from gradtape.ir.slots import slots
from gradtape.ir.types import TensorSpec
from gradtape.ops.create import entries, fits, is_symbolic, static_shape
from gradtape.ops.dynamic import UPDATE_AT
from gradtape.ops.index import TAKE, TAKE_ADD, check_range, gather, getitem
from gradtape.ops.sampling import normal, spread
from gradtape.ops.segment import own_range, unsorted_segment_prod
from gradtape.ops.shape import normal_axis, reshape

# -- index tuples as row numbers -------------------------------------------------------------------------------------


def _flat_index_impl(indices: Array, *, shape: tuple[int, ...], caller: str) -> Array:
    limits = np.array(shape, np.int64)
    wide = indices.astype(np.int64)
    # Negative numbers are refused, as in TensorFlow: they are mostly a mistake in the code that computed the indices.
    outside = (wide < 0) | (wide >= limits)
    if outside.any():
        bad = wide[outside.any(-1)][0].tolist()
        raise InvalidIndexError(f"{caller}: index {bad} does not lie in a tensor whose indexed shape is {list(shape)}")
    # Row-major: a step along an axis steps over all axes behind it.
    strides = np.array([math.prod(shape[i + 1 :]) for i in range(len(shape))], np.int64)
    return (wide * strides).sum(-1)


FLAT_INDEX: Op = nondiff(
    "flat_index", "indices", _flat_index_impl,
    infer=lambda indices, *, shape, caller: TensorSpec(indices.shape[:-1], "int64"),
    reason="indices have no derivative", batch=batching.leading,
    call=lambda indices, shape: apply(FLAT_INDEX, convert(indices), shape=shape, caller="flat_index"),
    fails=Fails.VALUES,
    samples=lambda: [
        Sample(np.array([[1, 2], [0, 1]]), (2, 3)),
        Sample(np.zeros((2, 0), int), ()),
        Sample(np.array([[1, 3]]), (2, 3), raises=(ValueError, "does not lie")),
    ],
)  # fmt: skip


def _places(indices: TensorLike, shape: Dims, op: str) -> tuple[Any, int]:
    """(row numbers, depth): `indices[..., :]` names the first `depth` axes of `shape`."""
    indices = convert(indices)
    if indices.ndim < 1 or not indices.dtype.is_integer:
        raise InvalidArgumentError(
            f"{op}: indices must be an integer tensor of rank 1 or more, got {indices.dtype.name}{list(indices.shape)}"
        )
    depth = indices.shape[-1]
    if depth > len(shape):
        raise InvalidArgumentError(f"{op}: indices name {depth} axes of a tensor of shape {shape}")
    return apply(FLAT_INDEX, indices, shape=shape[:depth], caller=op), depth


def _rows(tensor: Tensor, depth: int) -> Tensor:
    """The first `depth` axes as one."""
    dims = tuple(tensor.shape)
    return reshape(tensor, (math.prod(dims[:depth]), *dims[depth:]))


# -- reading ---------------------------------------------------------------------------------------------------------


@composite(
    samples=lambda: [
        Sample(normal(3, 4, 2), np.array([[0, 1], [2, 3], [0, 1]])),
        Sample(normal(3, 4), np.array([[[2]], [[0]]])),
        Sample(normal(2, 3, 4), np.array([[[1]], [[2]]]), 1),
        Sample(normal(2), np.zeros((3, 0), int)),
        Sample(normal(3), np.array([[3]]), raises=(IndexError, "does not lie")),
        Sample(normal(3), np.array([[0, 0]]), raises=(ValueError, "name 2 axes")),
    ]
)
def gather_nd(
    params: TensorLike, indices: TensorLike, batch_dims: Integer = 0, name: str | None = None, bad_indices_policy: str = ""
) -> Tensor:
    """Slices of `params` at the index tuples along the last axis of `indices`.

    >>> gt.gather_nd([[1.0, 2.0], [3.0, 4.0]], [[0, 1], [1, 0]]).numpy()
    array([2., 3.], dtype=float32)
    """
    if bad_indices_policy not in ("", "DEFAULT", "ERROR"):
        raise InvalidArgumentError(f"gather_nd: bad_indices_policy {bad_indices_policy!r} is not offered; indices are checked")
    params, indices = convert(params), convert(indices)
    count = int(batch_dims)
    if count:
        lead = tuple(params.shape)[:count]
        if tuple(indices.shape)[:count] != lead or count >= indices.ndim:
            raise InvalidArgumentError(
                f"gather_nd: the first {count} axes of params {tuple(params.shape)} and indices {tuple(indices.shape)} differ"
            )
        # Batch axes are indices that count themselves: with their own positions in front, the tuples name places of the whole.
        grids = np.indices(lead).reshape(count, *lead, *([1] * (indices.ndim - 1 - count)))
        grids = np.broadcast_to(np.moveaxis(grids, 0, -1), (*tuple(indices.shape)[:-1], count))
        indices = concat([convert(grids.astype(indices.dtype.dtype)), indices], -1)
    places, depth = _places(indices, tuple(params.shape), "gather_nd")
    return apply(TAKE, _rows(params, depth), places, axis=0)


@composite(samples=lambda: [Sample(normal(2, 3, 2), np.array([[0, 2], [1, 1]])), Sample(normal(3), np.array([2]))])
def batch_gather(params: TensorLike, indices: TensorLike, name: str | None = None) -> Tensor:
    """`gather` whose leading axes are batch axes."""
    indices = convert(indices)
    return gather(params, indices, batch_dims=indices.ndim - 1)


@composite(
    samples=lambda: [
        Sample(normal(3, 4), np.array([True, False, True])),
        Sample(normal(2, 2, 3), np.array([[True, False], [True, True]])),
        Sample(normal(2, 3), np.array([True, False, True]), 1),
        Sample(normal(3), np.array([True, False]), raises=(ValueError, "does not fit")),
    ]
)
def boolean_mask(tensor: TensorLike, mask: TensorLike, axis: Axis | None = None, name: str = "boolean_mask") -> Tensor:
    """The elements (or slices) of `tensor` where the mask is true.

    >>> gt.boolean_mask([1.0, 2.0, 3.0], [True, False, True]).numpy()
    array([1., 3.], dtype=float32)
    """
    tensor, mask = convert(tensor), convert(mask)
    place = 0 if axis is None else normal_axis(axis, tensor.ndim, "boolean_mask")
    dims = tuple(tensor.shape)
    if mask.ndim == 0 or not fits(dims[place : place + mask.ndim], tuple(mask.shape)):
        raise InvalidArgumentError(
            f"boolean_mask: a mask of shape {tuple(mask.shape)} does not fit {dims} from axis {place} on"
        )
    # The masked axes become one, in the order in which the flattened mask counts them.
    flat = reshape(tensor, (*dims[:place], math.prod(mask.shape), *dims[place + mask.ndim :]))
    places = reshape(where(reshape(cast(mask, bool_), (-1,))), (-1,))
    return apply(TAKE, flat, places, axis=place)


@composite(
    samples=lambda: [
        Sample(normal(3, 4), [1, 0], [2, -1], fixed=(1, 2)),
        Sample(normal(3), [3], [0], fixed=(1, 2)),
        Sample(normal(3), [1], [5], fixed=(1, 2), raises=(ValueError, "slice")),
    ]
)
def slice(input_: TensorLike, begin: Integers, size: Integers, name: str | None = None) -> Tensor:
    """`size` elements from `begin` on along every axis; size -1 takes all that are left.

    >>> gt.slice([[1, 2, 3], [4, 5, 6]], [0, 1], [2, -1]).numpy()
    array([[2, 3],
           [5, 6]], dtype=int32)
    """
    x = convert(input_)
    dims, starts = tuple(x.shape), entries(begin)
    sizes = _told(tuple(signed(n) if isinstance(n, Tensor) else n for n in entries(size)), starts, dims)
    if not len(starts) == len(sizes) == len(dims):
        raise InvalidArgumentError(f"slice: begin {starts} and size {sizes} must have one entry per axis of shape {dims}")
    for start, length, dim in zip(starts, sizes, dims, strict=True):
        if start.__class__ is not int or is_symbolic((length, dim)):
            continue
        if start < 0 or length < -1 or start + max(length, 0) > dim:
            raise InvalidArgumentError(f"slice: begin {starts} with size {sizes} leaves the shape {dims}")
    # where a slice begins that only run time knows is looked at then: in a key, a negative one would count from the end
    starts = tuple(
        s if s.__class__ is int else check_range(s, dim + 1 - (n if n.__class__ is int and n > 0 else 0), "slice")
        for s, n, dim in zip(starts, sizes, dims, strict=True)
    )
    key = [builtins.slice(s, None if n.__class__ is int and n == -1 else s + n) for s, n in zip(starts, sizes, strict=True)]
    part = getitem(x, tuple(key))
    if not is_symbolic(sizes):
        return part
    wanted = tuple([have if n.__class__ is int and n == -1 else n for n, have in zip(sizes, part.shape, strict=True)])
    return part if wanted == tuple(part.shape) else apply(SIZED, part, shape=wanted, caller="slice")  # there may be fewer


def _told(sizes: tuple[Any, ...], starts: tuple[Any, ...], dims: tuple[Any, ...]) -> tuple[Any, ...]:
    """Sizes as ints and dimensions; one that only run time knows may be -1 then: all that is left."""
    if len(sizes) != len(starts) or len(sizes) != len(dims):
        return sizes
    lengths = []
    for size, start, dim in zip(sizes, starts, dims, strict=True):
        unknown = is_traced(size) and known_size(size) is None
        lengths.append(size_of(where(equal(size, -1), dim - start, size) if unknown else size))
    return tuple(lengths)


@composite(
    samples=lambda: [
        Sample(normal(4, 5), [0, 1], [4, 5], [2, 2], fixed=(1, 2, 3)),
        Sample(normal(4, 5), [3, 0], [0, 0], [-1, 1], 0, 2, fixed=(1, 2, 3)),
        Sample(normal(2, 3, 4), [0, 1], [0, 2], ellipsis_mask=1, fixed=(1, 2)),
        Sample(normal(3), [0, 1], [0, 2], new_axis_mask=1, shrink_axis_mask=2, fixed=(1, 2)),
        Sample(normal(3), [0], [1, 2], fixed=(1, 2), raises=(ValueError, "same length")),
    ]
)
def strided_slice(
    input_: TensorLike, begin: Integers, end: Integers, strides: Integers | None = None, begin_mask: int = 0, end_mask: int = 0,
    ellipsis_mask: int = 0, new_axis_mask: int = 0, shrink_axis_mask: int = 0, var: object = None, name: str | None = None,
) -> Tensor:  # fmt: skip
    """`input_[begin:end:strides]` over the first axes; bit i of a mask changes entry i, as in TensorFlow.

    >>> gt.strided_slice([10, 20, 30, 40], [1], [4], [2]).numpy()
    array([20, 40], dtype=int32)
    """
    first, last = entries(begin), entries(end)
    steps = (1,) * len(first) if strides is None else static_shape(strides)
    if not len(first) == len(last) == len(steps):
        raise InvalidArgumentError(f"strided_slice: begin {first}, end {last} and strides {steps} must have the same length")
    if 0 in steps:
        raise InvalidArgumentError("strided_slice: a stride must not be 0")
    key: list[Any] = []
    for i, (a, b, step) in enumerate(zip(first, last, steps, strict=True)):
        bit = 1 << i
        if ellipsis_mask & bit:
            key.append(Ellipsis)
        elif new_axis_mask & bit:
            key.append(None)
        elif shrink_axis_mask & bit:
            key.append(a)
        else:
            key.append(builtins.slice(None if begin_mask & bit else a, None if end_mask & bit else b, step))
    return getitem(convert(input_), tuple(key))


# -- writing rows ----------------------------------------------------------------------------------------------------


def _batch_rows(op: Op, flags: tuple[bool, ...], inputs: tuple[Tensor, ...], attrs: dict[str, Any]) -> Tensor:
    """Each batch entry gets its own range of rows."""
    x, indices, values = batching.all_batched(flags, inputs)
    size, count = x.shape[0], x.shape[1]
    # Row r of example e becomes row e·count + r of one tall array, so that no two examples write to one place.
    flat = reshape(x, (size * count, *tuple(x.shape)[2:]))
    return reshape(apply(op, flat, own_range(indices, count), values, **attrs), tuple(x.shape))


def _extreme_rows_into(x: Array, indices: Array, values: Array, *, largest: bool) -> Array:
    with np.errstate(invalid="ignore"):  # to compare with NaN is no event
        (np.maximum if largest else np.minimum).at(x, indices, values)
    return x


# out = max(x, values written there). Where k of the candidates are equal, each gets 1/k of the cotangent: the average over
# the orders in which ties could be broken, and the convention of `reduce_max`.
def row_ties(x: Tensor, indices: Tensor, values: Tensor, out: Tensor) -> Tensor:
    """How many candidates reach the extremum at each place."""
    hits = cast(values == apply(TAKE, out, indices, axis=0), x.dtype)
    return cast(x == out, x.dtype) + apply(TAKE_ADD, hits, indices, axis=0, shape=tuple(out.shape))


def target_share(x: Tensor, indices: Tensor, values: Tensor, out: Tensor) -> Tensor:
    """The share of the old value in the extremum."""
    return cast(x == out, x.dtype) / row_ties(x, indices, values, out)


def values_share(x: Tensor, indices: Tensor, values: Tensor, out: Tensor) -> Tensor:
    """The share of each written value in the extremum."""
    hits = cast(values == apply(TAKE, out, indices, axis=0), x.dtype)
    return hits / apply(TAKE, row_ties(x, indices, values, out), indices, axis=0)


EXTREME_ROWS: Op = general(
    "extreme_rows", "x indices values",
    lambda x, indices, values, *, largest: _extreme_rows_into(np.array(x), indices, values, largest=largest),
    overwrites=_extreme_rows_into,
    vjps=(
        lambda ct, x, indices, values, out: ct * target_share(x, indices, values, out),
        None,
        lambda ct, x, indices, values, out: apply(TAKE, ct, indices, axis=0) * values_share(x, indices, values, out),
    ),
    jvps=(
        lambda t, x, indices, values, out: t * target_share(x, indices, values, out),
        None,
        lambda t, x, indices, values, out: apply(
            TAKE_ADD, t * values_share(x, indices, values, out), indices, axis=0, shape=tuple(out.shape)
        ),
    ),
    infer=lambda x, indices, values, *, largest: TensorSpec(x.shape, x.dtype),
    batch=_batch_rows,
    fails=Fails.VALUES,
    samples=lambda: [
        Sample(spread(4, 2), np.array([2, 0, 2]), spread(3, 2) + 0.13, True),
        Sample(spread(4), np.array([1, 1]), spread(2) + 0.13, False),
    ],
)  # fmt: skip


def scatter_rows(tensor: Tensor, indices: Tensor, values: Tensor, mode: str) -> Tensor:
    """`tensor` with `values` combined into the rows `indices` of axis 0; mode: add sub mul div max min update.

    Values broadcast to the written rows; repeated rows combine (for update, the last one stays).
    """
    tensor, values = promote(tensor, values)
    indices = convert(indices)
    places, _ = _places(expand_dims(indices, -1), tuple(tensor.shape), f"scatter_{mode}")
    return combine_rows(tensor, places, values, mode)


def combine_rows(tensor: Tensor, places: Tensor, values: Tensor, mode: str) -> Tensor:
    """`scatter_rows` with checked row numbers."""
    dims = tuple(tensor.shape)
    try:
        values = broadcast_to(values, (*tuple(places.shape), *dims[1:]))
    except ValueError as error:
        raise InvalidArgumentError(
            f"scatter_{mode}: values of shape {tuple(values.shape)} do not fit the rows {(*tuple(places.shape), *dims[1:])}"
        ) from error
    if mode == "update":
        return apply(UPDATE_AT, tensor, values, places, key=slots(1))
    if mode in ("max", "min"):
        return apply(EXTREME_ROWS, tensor, places, values, largest=mode == "max")
    if mode in ("mul", "div"):
        # Repeated rows multiply up, so the factors of each row are collected first; a row without values has the factor 1.
        factor = unsorted_segment_prod(values, places, dims[0])
        return tensor * factor if mode == "mul" else tensor / factor
    if mode not in ("add", "sub"):
        raise InvalidArgumentError(f"scatter: mode must be add, sub, mul, div, max, min or update, got {mode!r}")
    total = apply(TAKE_ADD, values, places, axis=0, shape=dims)
    return tensor + total if mode == "add" else tensor - total


def scatter_nd_into(tensor: TensorLike, indices: TensorLike, updates: TensorLike, mode: str, policy: str = "") -> Tensor:
    """`tensor` with `updates` combined into the places named by index tuples; modes as in `scatter_rows`."""
    indices, updates = _obey(policy, indices, updates, convert(tensor).shape)
    tensor, updates = promote(tensor, updates)
    dims = tuple(tensor.shape)
    places, depth = _places(indices, dims, f"tensor_scatter_nd_{mode}")
    expected = (*tuple(places.shape), *dims[depth:])
    if tuple(updates.shape) != () and not fits(tuple(updates.shape), expected):
        raise InvalidArgumentError(
            f"tensor_scatter_nd_{mode}: updates must have shape {expected} for a tensor of shape {dims} and these "
            f"indices, got {tuple(updates.shape)}"
        )
    return reshape(combine_rows(_rows(tensor, depth), places, updates, mode), dims)


@composite(
    samples=lambda: [
        Sample(np.array([[4], [3], [4]]), normal(3), (6,), fixed=(2,)),
        Sample(np.array([[0, 1], [1, 1]]), normal(2, 2), (2, 3, 2), fixed=(2,)),
        Sample(np.array([[0], [9]]), normal(2), (4,), fixed=(2,), raises=(IndexError, "does not lie")),
    ]
)
def scatter_nd(
    indices: TensorLike, updates: TensorLike, shape: Shape, bad_indices_policy: str = "", name: str | None = None
) -> Tensor:
    """Zeros of the given shape with the updates added at the index tuples.

    Indices that do not lie in the shape are an error, or are left out with bad_indices_policy="IGNORE".

    >>> gt.scatter_nd([[1], [1]], [5.0, 2.0], [3]).numpy()
    array([0., 7., 0.], dtype=float32)
    """
    dims = static_shape(shape)
    indices, kept = _obey(bad_indices_policy, indices, convert(updates), dims)
    updates = convert(kept)
    places, depth = _places(indices, dims, "scatter_nd")
    if not fits(tuple(updates.shape), (*tuple(places.shape), *dims[depth:])):
        raise InvalidArgumentError(
            f"scatter_nd: updates must have shape {(*tuple(places.shape), *dims[depth:])}, got {tuple(updates.shape)}"
        )
    rows = apply(TAKE_ADD, updates, places, axis=0, shape=(math.prod(dims[:depth]), *dims[depth:]))
    return reshape(rows, dims)


def _obey(policy: str, indices: TensorLike, updates: TensorLike, dims: Dims) -> tuple[TensorLike, TensorLike]:
    """The indices and updates that remain under TensorFlow's `bad_indices_policy`."""
    # Errors come from `flat_index`, which looks at every index anyway.
    if policy in ("", "DEFAULT", "ERROR"):
        return indices, updates
    if policy != "IGNORE":
        raise InvalidArgumentError(f"bad_indices_policy must be '', 'DEFAULT', 'ERROR' or 'IGNORE', got {policy!r}")
    wanted = convert(indices).numpy()
    good = ((wanted >= 0) & (wanted < np.array(dims[: wanted.shape[-1]]))).all(-1)
    return wanted[good], boolean_mask(updates, good)


def _update_samples() -> list[Sample]:
    return [
        Sample(spread(4, 3), np.array([[2], [0], [2]]), spread(3, 3) + 0.13),
        Sample(spread(4, 3), np.array([[2, 1], [0, 0]]), spread(2) + 0.13),
        Sample(normal(4), np.array([[4]]), normal(1), raises=(IndexError, "does not lie")),
        Sample(normal(4), np.array([[1]]), normal(2), raises=(ValueError, "updates must have shape")),
    ]


@composite(samples=_update_samples)
def tensor_scatter_nd_update(tensor: TensorLike, indices: TensorLike, updates: TensorLike, name: str | None = None) -> Tensor:
    """`tensor` with the places named by index tuples replaced; of repeated ones the last stays.

    >>> gt.tensor_scatter_nd_update([1.0, 2.0, 3.0], [[1]], [9.0]).numpy()
    array([1., 9., 3.], dtype=float32)
    """
    return scatter_nd_into(tensor, indices, updates, "update")


@composite(samples=_update_samples)
def tensor_scatter_nd_add(
    tensor: TensorLike, indices: TensorLike, updates: TensorLike, bad_indices_policy: str = "", name: str | None = None
) -> Tensor:
    """`tensor` with the updates added at the index tuples; repeated ones add up."""
    return scatter_nd_into(tensor, indices, updates, "add", bad_indices_policy)


@composite(samples=_update_samples)
def tensor_scatter_nd_sub(
    tensor: TensorLike, indices: TensorLike, updates: TensorLike, bad_indices_policy: str = "", name: str | None = None
) -> Tensor:
    """`tensor` with the updates subtracted at the index tuples."""
    return scatter_nd_into(tensor, indices, updates, "sub", bad_indices_policy)


@composite(samples=_update_samples)
def tensor_scatter_nd_max(
    tensor: TensorLike, indices: TensorLike, updates: TensorLike, bad_indices_policy: str = "", name: str | None = None
) -> Tensor:
    """The larger of the old value and the updates at the index tuples; ties share the gradient."""
    return scatter_nd_into(tensor, indices, updates, "max", bad_indices_policy)


@composite(samples=_update_samples)
def tensor_scatter_nd_min(
    tensor: TensorLike, indices: TensorLike, updates: TensorLike, bad_indices_policy: str = "", name: str | None = None
) -> Tensor:
    """The smaller of the old value and the updates at the index tuples; ties share the gradient."""
    return scatter_nd_into(tensor, indices, updates, "min", bad_indices_policy)


OPS = (FLAT_INDEX, EXTREME_ROWS)

from gradtape.ops.compare import equal
from gradtape.ops.elementwise import cast
from gradtape.ops.select import where
from gradtape.ops.shape import broadcast_to, concat, expand_dims
from gradtape.ops.staged import SIZED, is_traced, known_size, signed, size_of
