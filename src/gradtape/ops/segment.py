"""Reductions over groups of rows named by an index: segment_*, unsorted_segment_*, bincount, confusion_matrix.

Sums are `take_add`, the adjoint of a gather; the rest is built on sums, except the extrema, which are one primitive.
Products are a segmented scan of log₂(longest segment) rounds, so their derivatives are exact at zeros to every order.
Ids below 0 are dropped by the unsorted forms, as in TensorFlow; ids that are too large are an error.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradtape.core import batching
from gradtape.core.dispatch import apply, convert
from gradtape.core.opdef import Fails, Memory, Op, Sample, composite, general, nondiff
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Array, Axes, Integer, TensorLike
from gradtape.dtypes import DTypeLike, as_dtype
from gradtape.errors import InvalidArgumentError
from gradtape.ir.polynomial import Size
from gradtape.ir.types import TensorSpec
from gradtape.ops.index import TAKE, TAKE_ADD, check_range
from gradtape.ops.sampling import away, normal, spread
from gradtape.ops.sorting import argsort

# -- ids -------------------------------------------------------------------------------------------------------------


def _slots_impl(ids: Array, *, num: int) -> Array:
    if ids.size and ids.max() >= num:
        raise InvalidArgumentError(f"segment_ids: id {ids.max()} is not below num_segments = {num}")
    return np.where(ids < 0, num, ids)


# negative ids go to one extra segment at the end, which the caller cuts off
SEGMENT_SLOTS: Op = nondiff(
    "segment_slots", "ids", _slots_impl,
    infer=lambda ids, *, num: TensorSpec(ids.shape, ids.dtype),
    reason="indices have no derivative", batch=batching.elementwise,
    fails=Fails.VALUES,
    samples=lambda: [Sample(np.array([2, -1, 0]), 3), Sample(np.array([3]), 3, raises=(ValueError, "not below num_segments"))],
)  # fmt: skip


def _sorted_ids(data: TensorLike, segment_ids: TensorLike, op: str) -> tuple[Tensor, Tensor, Any]:
    """(data, ids, number of segments) of the sorted forms, checked."""
    data, ids = convert(data), convert(segment_ids)
    if not ids.dtype.is_integer or ids.ndim != 1 or data.ndim < 1 or not fits(ids.shape, data.shape[:1]):
        raise InvalidArgumentError(
            f"{op}: segment_ids must be an integer vector as long as the first axis of data; "
            f"got {ids.dtype.name}{list(ids.shape)} for data of shape {tuple(data.shape)}"
        )
    if is_traced(ids):
        return data, ids, apply(SEGMENT_COUNT, ids, caller=op).shape[0]
    return data, ids, len(_count_impl(np.asarray(ids.numpy()), caller=op))


def _count_impl(ids: Array, *, caller: str) -> Array:
    if ids.size and (ids[0] < 0 or (np.diff(ids) < 0).any()):
        raise InvalidArgumentError(f"{caller}: segment_ids must be sorted and not negative; use gt.math.unsorted_{caller}")
    return np.broadcast_to(np.False_, (int(ids[-1]) + 1 if ids.size else 0,))


# an array as long as there are segments, and (nearly) without bytes: its axis is a dimension of the program
SEGMENT_COUNT: Op = nondiff(
    "segment_count", "ids", _count_impl,
    infer=lambda ids, *, caller: TensorSpec((None,), "bool"),
    reason="the result does not depend on values that have derivatives", batch=batching.looped,
    memory=Memory.SHARED, fails=Fails.VALUES,
    samples=lambda: [
        Sample(np.array([0, 0, 2]), "segment_sum"),
        Sample(np.zeros(0, int), "segment_sum"),
        Sample(np.array([1, 0]), "segment_sum", raises=(ValueError, "sorted")),
    ],
)  # fmt: skip


def _unsorted_ids(data: TensorLike, segment_ids: TensorLike, num_segments: Integer, op: str) -> tuple[Tensor, Tensor, Any]:
    data, ids, num = convert(data), convert(segment_ids), count_of(num_segments, op, "num_segments")
    if not ids.dtype.is_integer or not fits(tuple(data.shape)[: ids.ndim], tuple(ids.shape)):
        raise InvalidArgumentError(
            f"{op}: the shape of segment_ids must start the shape of data; "
            f"got {ids.dtype.name}{list(ids.shape)} for data of shape {tuple(data.shape)}"
        )
    return data, apply(SEGMENT_SLOTS, ids, num=num), num


# -- the sum, and how many rows a segment has ------------------------------------------------------------------------


def _sum(data: Tensor, ids: Tensor, num: int) -> Tensor:
    """Sums of the segments 0 … num; the last one holds the dropped rows."""
    rest = tuple(data.shape)[ids.ndim :]
    return apply(TAKE_ADD, data, ids, axis=0, shape=(num + 1, *rest))


def _counts(ids: Tensor, num: int, dtype: DTypeLike, extra: int) -> Tensor:
    """How many rows each segment has, with unit axes behind to divide rows by it."""
    counts = _sum(cast(ones_like(ids), dtype), ids, num)
    return reshape(counts, (num + 1, *([1] * extra)))


def _cut(out: Tensor, num: int) -> Tensor:
    return apply(SLICE_AXIS, out, axis=0, start=0, size=num)


def _mean(data: Tensor, ids: Tensor, num: int, root: bool, whole: bool = False) -> Tensor:
    """Sums divided by counts (their roots); `whole`: means of integers are integers, rounded down."""
    counts = maximum(_counts(ids, num, data.dtype.real_dtype, data.ndim - ids.ndim), 1)
    if data.dtype.is_integer and whole:
        return floordiv(_sum(data, ids, num), counts)
    counts = sqrt(counts) if root else counts
    return _sum(data, ids, num) / (cast(counts, data.dtype) if data.dtype.is_complex else counts)


# -- the product -----------------------------------------------------------------------------------------------------


def _product(data: Tensor, ids: Tensor, num: int) -> Tensor:
    """Products of the segments, 1 for an empty one. Rows are sorted by segment; in round k each running product takes
    in the one 2ᵏ rows before it, if that is in the same segment; the last row of a segment then has the whole product."""
    rest = tuple(data.shape)[ids.ndim :]
    flat_ids = reshape(ids, (-1,))
    rows = reshape(data, (flat_ids.shape[0], *rest))
    # The order within a segment does not change a product, but a stable one gives the same rounding each time.
    order = argsort(flat_ids, stable=True)
    owner, rows = apply(TAKE, flat_ids, order, axis=0), apply(TAKE, rows, order, axis=0)
    count = owner.shape[0]
    # A traced program cannot look at the ids: it must be ready for all rows being in one segment.
    longest = int(np.bincount(flat_ids._data, minlength=1).max()) if flat_ids.__class__ is Tensor else count
    step = 1
    while step < longest:
        same = equal(owner[step:], owner[:-step])
        same = reshape(same, (count - step, *([1] * len(rest))))
        reached = where(same, rows[:-step], ones_like(rows[:-step]))
        rows = concat([rows[:step], rows[step:] * reached], 0)
        step *= 2
    last = ones_like(owner[:1]) if count else owner
    # The last row of each segment has its product; all other rows are zeros in the sum that sends each to its place.
    ends = concat([cast(not_equal(owner[1:], owner[:-1]), owner.dtype), last], 0)
    ends = cast(reshape(ends, (count, *([1] * len(rest)))), rows.dtype)
    # An empty product is 1, where the sum left 0.
    empty = cast(equal(_counts(ids, num, "int32", len(rest)), 0), rows.dtype)
    return _sum(where(not_equal(ends, 0), rows, zeros_like(rows)), owner, num) + empty


# -- extrema ---------------------------------------------------------------------------------------------------------


def _extreme_impl(data: Array, ids: Array, *, num: int, largest: bool, empty: Array | int | float) -> Array:
    rest = data.shape[ids.ndim :]
    low, high = (-np.inf, np.inf) if data.dtype.kind == "f" else (np.iinfo(data.dtype).min, np.iinfo(data.dtype).max)
    out = np.full((num, *rest), low if largest else high, data.dtype)
    with np.errstate(invalid="ignore"):  # to compare with NaN is no event
        (np.maximum if largest else np.minimum).at(out, ids, data)
    # What nobody wrote to cannot be told from the values: an element may be the limit of its dtype.
    blank = np.ones(num, bool)
    blank[ids] = False
    out[blank] = empty
    return out


# Ties share the cotangent evenly, as in `reduce_max`: the result does not depend on the order of the rows.
def extreme_shares(data: Tensor, ids: Tensor, out: Tensor, num: int) -> Tensor:
    """For each element its share of the extremum of its segment: 1/k among k ties, else 0."""
    hits = cast(data == apply(TAKE, out, ids, axis=0), data.dtype)
    ties = apply(TAKE_ADD, hits, ids, axis=0, shape=tuple(out.shape))
    return hits / apply(TAKE, ties, ids, axis=0)


def _batch_segments(op: Op, flags: tuple[bool, ...], inputs: tuple[Tensor, ...], attrs: dict[str, Any]) -> Tensor:
    """Each batch entry gets its own range of segments."""
    data, ids = batching.all_batched(flags, inputs)
    size, num = ids.shape[0], attrs["num"]
    # Segment s of example e becomes segment e·num + s of one long list of segments.
    out = apply(op, data, own_range(ids, num), **{**attrs, "num": size * num})
    return reshape(out, (size, num, *tuple(out.shape)[1:]))


def own_range(indices: Tensor, count: Size) -> Tensor:
    """Batched indices into `count` places each, as indices into the places of all examples, one after the other's."""
    first = cast(convert(grid(indices.shape[0], 0, indices.ndim)), "int64")
    return cast(indices, "int64") + first * (count if count.__class__ is int else number_of(count, "int64"))


SEGMENT_EXTREME: Op = general(
    "segment_extreme", "data ids", _extreme_impl,
    vjps=(lambda ct, data, ids, out, num: apply(TAKE, ct, ids, axis=0) * extreme_shares(data, ids, out, num), None),
    jvps=(
        lambda t, data, ids, out, num: apply(
            TAKE_ADD, t * extreme_shares(data, ids, out, num), ids, axis=0, shape=tuple(out.shape)
        ),
        None,
    ),
    infer=lambda data, ids, *, num, largest, empty: TensorSpec((num, *data.shape[ids.ndim :]), data.dtype),
    batch=_batch_segments,
    fails=Fails.VALUES,
    samples=lambda: [
        Sample(spread(5, 2), np.array([0, 2, 0, 2, 2]), 4, True, 0),
        Sample(spread(5), np.array([1, 1, 1, 0, 0]), 2, False, 0),
        Sample(spread(2, 3), np.array([[1, 0, 1], [1, 1, 0]]), 2, True, 0),
        Sample(spread(0), np.zeros(0, int), 2, True, -1.0),
    ],
)  # fmt: skip


def _extreme(data: Tensor, ids: Tensor, num: int, largest: bool, empty: Array | int) -> Tensor:
    return apply(SEGMENT_EXTREME, data, ids, num=num + 1, largest=largest, empty=empty)


def _limit(data: Tensor, smallest: bool) -> Array | int:
    return as_dtype(data.dtype).min if smallest else as_dtype(data.dtype).max


# -- the public functions --------------------------------------------------------------------------------------------


def _sorted_samples() -> list[Sample]:
    ids = np.array([0, 0, 1, 3, 3])
    return [
        Sample(spread(5, 2) + 0.03, ids),
        Sample(spread(5) + 0.03, ids),
        Sample(spread(0, 2), np.zeros(0, int)),
        Sample(normal(3), np.array([1, 0, 2]), raises=(ValueError, "sorted")),
        Sample(normal(3), np.array([1, 0]), raises=(ValueError, "as long as")),
    ]


def _unsorted_samples() -> list[Sample]:
    return [
        Sample(spread(5, 2) + 0.03, np.array([2, 0, -1, 2, 2]), 3),
        Sample(spread(2, 3) + 0.03, np.array([[1, 0, 1], [1, 1, 0]]), 2),
        Sample(normal(3), np.array([1, 0, 5]), 2, raises=(ValueError, "not below num_segments")),
        Sample(normal(3), np.array([[1, 0]]), 2, raises=(ValueError, "must start the shape")),
    ]


def _extreme_samples() -> list[Sample]:
    full = np.array([2, 0, -1, 2, 1])  # every segment occurs: the limits of a dtype are not alike in two precisions
    return [Sample(spread(5, 2) + 0.03, full, 3), *_unsorted_samples()[1:]]


@composite(samples=_sorted_samples)
def segment_sum(data: TensorLike, segment_ids: TensorLike, name: str | None = None) -> Tensor:
    """Sums of the rows with equal ids; ids are sorted.

    >>> gt.math.segment_sum([1.0, 2.0, 5.0], [0, 0, 1]).numpy()
    array([3., 5.], dtype=float32)
    """
    data, ids, num = _sorted_ids(data, segment_ids, "segment_sum")
    return _cut(_sum(data, ids, num), num)


@composite(samples=_sorted_samples)
def segment_mean(data: TensorLike, segment_ids: TensorLike, name: str | None = None) -> Tensor:
    """Means of the rows with equal ids (sorted); 0 for a missing id."""
    data, ids, num = _sorted_ids(data, segment_ids, "segment_mean")
    return _cut(_mean(data, ids, num, False, whole=True), num)


@composite(samples=_sorted_samples)
def segment_prod(data: TensorLike, segment_ids: TensorLike, name: str | None = None) -> Tensor:
    """Products of the rows with equal ids (sorted); 1 for a missing id."""
    data, ids, num = _sorted_ids(data, segment_ids, "segment_prod")
    return _cut(_product(data, ids, num), num)


@composite(samples=_sorted_samples)
def segment_max(data: TensorLike, segment_ids: TensorLike, name: str | None = None) -> Tensor:
    """Largest of the rows with equal ids (sorted); 0 for a missing id; ties share the gradient."""
    data, ids, num = _sorted_ids(data, segment_ids, "segment_max")
    return _cut(_extreme(data, ids, num, True, 0), num)


@composite(samples=_sorted_samples)
def segment_min(data: TensorLike, segment_ids: TensorLike, name: str | None = None) -> Tensor:
    """Smallest of the rows with equal ids (sorted); 0 for a missing id; ties share the gradient."""
    data, ids, num = _sorted_ids(data, segment_ids, "segment_min")
    return _cut(_extreme(data, ids, num, False, 0), num)


@composite(samples=_unsorted_samples)
def unsorted_segment_sum(data: TensorLike, segment_ids: TensorLike, num_segments: Integer, name: str | None = None) -> Tensor:
    """Sums of the rows (or elements) with equal ids; negative ids are dropped.

    >>> gt.math.unsorted_segment_sum([1.0, 2.0, 5.0], [1, -1, 1], 3).numpy()
    array([0., 6., 0.], dtype=float32)
    """
    data, ids, num = _unsorted_ids(data, segment_ids, num_segments, "unsorted_segment_sum")
    return _cut(_sum(data, ids, num), num)


@composite(samples=_unsorted_samples)
def unsorted_segment_mean(data: TensorLike, segment_ids: TensorLike, num_segments: Integer, name: str | None = None) -> Tensor:
    """Means of the rows with equal ids; 0 for an id that does not occur."""
    data, ids, num = _unsorted_ids(data, segment_ids, num_segments, "unsorted_segment_mean")
    return _cut(_mean(data, ids, num, False), num)


@composite(samples=_unsorted_samples)
def unsorted_segment_sqrt_n(
    data: TensorLike, segment_ids: TensorLike, num_segments: Integer, name: str | None = None
) -> Tensor:
    """Sums of the rows with equal ids, divided by the square root of their number."""
    data, ids, num = _unsorted_ids(data, segment_ids, num_segments, "unsorted_segment_sqrt_n")
    return _cut(_mean(data, ids, num, True), num)


@composite(samples=lambda: [*_unsorted_samples(), Sample(np.array([0.0, 2.0, 0.0, 3.0]), np.array([1, 1, 0, 1]), 3)])
def unsorted_segment_prod(data: TensorLike, segment_ids: TensorLike, num_segments: Integer, name: str | None = None) -> Tensor:
    """Products of the rows with equal ids; 1 for an id that does not occur; the gradient is exact at zeros."""
    data, ids, num = _unsorted_ids(data, segment_ids, num_segments, "unsorted_segment_prod")
    return _cut(_product(data, ids, num), num)


@composite(samples=_extreme_samples)
def unsorted_segment_max(data: TensorLike, segment_ids: TensorLike, num_segments: Integer, name: str | None = None) -> Tensor:
    """Largest of the rows with equal ids; the lowest number of the dtype for an id that does not occur.

    >>> gt.math.unsorted_segment_max([1.0, 5.0, 2.0], [1, 1, -1], 2).numpy()
    array([-3.4028235e+38,  5.0000000e+00], dtype=float32)
    """
    data, ids, num = _unsorted_ids(data, segment_ids, num_segments, "unsorted_segment_max")
    return _cut(_extreme(data, ids, num, True, _limit(data, True)), num)


@composite(samples=_extreme_samples)
def unsorted_segment_min(data: TensorLike, segment_ids: TensorLike, num_segments: Integer, name: str | None = None) -> Tensor:
    """Smallest of the rows with equal ids; the highest number of the dtype for an id that does not occur."""
    data, ids, num = _unsorted_ids(data, segment_ids, num_segments, "unsorted_segment_min")
    return _cut(_extreme(data, ids, num, False, _limit(data, False)), num)


# -- counting --------------------------------------------------------------------------------------------------------


@composite(
    samples=lambda: [
        Sample(np.array([1, 1, 3])),
        Sample(np.array([1, 1, 3]), away(3), dtype="float64"),
        Sample(np.array([[1, 1], [3, 0]]), away(2, 2), axis=-1),
        Sample(np.array([1, 5, 3]), away(3), 3, 4),
        Sample(np.array([1, -5]), raises=(ValueError, "negative")),
        Sample(np.array([1, 5]), away(3), raises=(ValueError, "weights")),
    ]
)
def bincount(
    arr: TensorLike, weights: TensorLike | None = None, minlength: Integer | None = None, maxlength: Integer | None = None,
    dtype: DTypeLike = "int32", name: str | None = None, axis: Axes = None, binary_output: bool = False,
) -> Tensor:  # fmt: skip
    """How often each whole number occurs, or the sum of the weights of its occurrences; `axis=-1` counts per row.

    >>> gt.math.bincount([1, 1, 3]).numpy()
    array([0, 2, 0, 1], dtype=int32)
    """
    arr = convert(arr)
    if axis not in (None, 0, -1):
        raise InvalidArgumentError(f"bincount: axis must be None, 0 or -1, got {axis}")
    if any(is_traced(v) for v in (arr, minlength, maxlength)):
        values, size = _bins_later(arr, minlength, maxlength)
    else:
        values = np.asarray(arr.numpy())
        if values.size and values.min() < 0:
            raise InvalidArgumentError(f"bincount: values must not be negative, got {values.min()}")
        size = max(int(values.max()) + 1 if values.size else 0, int(minlength or 0))
        size = size if maxlength is None else min(size, int(maxlength))
        values = values.astype(np.int64)
    if weights is not None and binary_output:
        raise InvalidArgumentError("bincount: binary_output and weights exclude each other")
    weights = cast(ones_like(arr), dtype) if weights is None else convert(weights)
    if not fits(weights.shape, arr.shape):
        raise InvalidArgumentError(f"bincount: weights of shape {tuple(weights.shape)} for values of shape {tuple(arr.shape)}")
    lead = tuple(arr.shape)[:-1]
    rows = math.prod(lead) if axis == -1 and arr.ndim > 1 else 1
    bins = reshape(minimum(values, size), (rows, -1)) + grid(rows, 0, 2) * convert(size + 1)
    flat = apply(TAKE_ADD, reshape(weights, (-1,)), reshape(bins, (-1,)), axis=0, shape=(rows * (size + 1),))
    counts = apply(SLICE_AXIS, reshape(flat, (rows, size + 1)), axis=1, start=0, size=size)
    if binary_output:
        counts = cast(counts > 0, counts.dtype)
    return reshape(counts, (*lead, size) if axis == -1 else (size,))


def _bins_later(arr: Tensor, minlength: Integer | None, maxlength: Integer | None) -> tuple[Any, Any]:
    """(values, number of bins) that only run time knows."""
    # The -1 stands for no values at all, whose maximum would not exist: the number of bins is then 0.
    highest = reduce_max(concat([cast(reshape(arr, (-1,)), "int64"), [np.int64(-1)]], 0))
    size = maximum(highest + 1, cast(convert(0 if minlength is None else minlength), "int64"))
    top = size if maxlength is None else minimum(size, cast(convert(maxlength), "int64"))
    values = check_range(cast(arr, "int64"), None, "bincount", "value")
    return values, size_of(top)


@composite(
    samples=lambda: [
        Sample(np.array([1, 2, 2]), np.array([1, 0, 2])),
        Sample(np.array([1, 2]), np.array([1, 0]), 4, away(2), "float64"),
        Sample(np.array([1, 2]), np.array([1, 0]), 2, raises=(ValueError, "label 2 is not in")),
    ]
)
def confusion_matrix(
    labels: TensorLike, predictions: TensorLike, num_classes: Integer | None = None, weights: TensorLike | None = None,
    dtype: DTypeLike = "int32", name: str | None = None,
) -> Tensor:  # fmt: skip
    """How often label i (row) was predicted as j (column).

    >>> gt.math.confusion_matrix([0, 1, 1], [0, 1, 0]).numpy()
    array([[1, 0],
           [1, 1]], dtype=int32)
    """
    rows, columns = (reshape(cast(convert(v), "int64"), (-1,)) for v in (labels, predictions))
    if not fits(rows.shape, columns.shape):
        raise InvalidArgumentError(f"confusion_matrix: {rows.shape[0]} labels but {columns.shape[0]} predictions")
    if num_classes is None:
        num_classes = reduce_max(concat([rows, columns, [np.int64(-1)]], 0)) + 1
    size = count_of(num_classes, "confusion_matrix", "num_classes")
    rows = check_range(rows, size, "confusion_matrix", "label")
    columns = check_range(columns, size, "confusion_matrix", "prediction")
    values = cast(ones_like(rows) if weights is None else reshape(convert(weights), (-1,)), dtype)
    counts = apply(TAKE_ADD, values, rows * size + columns, axis=0, shape=(size * size,))
    return reshape(counts, (size, size))


OPS = (SEGMENT_SLOTS, SEGMENT_COUNT, SEGMENT_EXTREME)

from gradtape.ops.compare import equal, not_equal
from gradtape.ops.create import fits, grid, ones_like, zeros_like
from gradtape.ops.elementwise import cast, sqrt
from gradtape.ops.reduce import reduce_max
from gradtape.ops.select import floordiv, maximum, minimum, where
from gradtape.ops.shape import SLICE_AXIS, concat, reshape
from gradtape.ops.staged import count_of, is_traced, number_of, size_of

__all__ = [
    "bincount", "confusion_matrix", "segment_max", "segment_mean", "segment_min", "segment_prod", "segment_sum",
    "unsorted_segment_max", "unsorted_segment_mean", "unsorted_segment_min", "unsorted_segment_prod", "unsorted_segment_sqrt_n",
    "unsorted_segment_sum",
]  # fmt: skip
