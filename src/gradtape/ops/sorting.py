"""Order: sort, argsort, top_k, searchsorted, unique, argmax, argmin.

Positions have no derivative; the gradient of a value that was moved goes back to where it came from. Sorting is stable.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import numpy as np

from gradtape.core import batching
from gradtape.core.dispatch import apply, convert, promote
from gradtape.core.opdef import Op, Sample, composite, general, nondiff
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Array, Axis, Integer, TensorLike
from gradtape.dtypes import DTypeLike, numpy_dtype
from gradtape.errors import InvalidArgumentError
from gradtape.ir.types import TensorSpec
from gradtape.ops.dynamic import read_places
from gradtape.ops.index import TAKE, gather
from gradtape.ops.sampling import integers, normal, spread
from gradtape.ops.shape import TRANSPOSE, normal_axis

_REASON = "positions are constant almost everywhere"


class TopK(NamedTuple):
    """What `top_k` returns."""

    values: Tensor
    indices: Tensor


class Unique(NamedTuple):
    """What `unique` returns."""

    y: Tensor
    idx: Tensor


class UniqueWithCounts(NamedTuple):
    """What `unique_with_counts` returns."""

    y: Tensor
    idx: Tensor
    count: Any


# -- argsort and sort ------------------------------------------------------------------------------------------------


def _argsort_impl(x: Array, *, axis: int, descending: bool) -> Array:
    # stable in both directions: equal elements keep their order
    if not descending:
        return np.argsort(x, axis, kind="stable").astype(np.int32)
    # Flipping an ascending order would reverse equal elements; sorting the flipped line and flipping back keeps them.
    mirrored = np.argsort(np.flip(x, axis), axis, kind="stable")
    return (x.shape[axis] - 1 - np.flip(mirrored, axis)).astype(np.int32)


def _descending(direction: str, op: str) -> bool:
    if direction not in ("ASCENDING", "DESCENDING"):
        raise InvalidArgumentError(f"{op}: direction must be 'ASCENDING' or 'DESCENDING', got {direction!r}")
    return direction == "DESCENDING"


def argsort(
    values: TensorLike, axis: Axis = -1, direction: str = "ASCENDING", stable: bool = False, name: str | None = None
) -> Tensor:
    """The positions that sort the values along an axis (always stable).

    >>> gt.argsort([3.0, 1.0, 2.0]).numpy()
    array([1, 2, 0], dtype=int32)
    """
    x = convert(values)
    place = normal_axis(axis, x.ndim, "argsort")
    return apply(ARGSORT, x, axis=place, descending=_descending(direction, "argsort"))


ARGSORT: Op = nondiff(
    "argsort", "x", _argsort_impl,
    infer=lambda x, *, axis, descending: TensorSpec(x.shape, "int32"),
    reason=_REASON, batch=batching.shifted("axis"),
    samples=lambda: [
        Sample(spread(3, 4)),
        Sample(spread(3, 4), 0, "DESCENDING"),
        Sample(np.array([1, 0, 1, 0]), direction="DESCENDING"),
        Sample(spread(0)),
        Sample(spread(2), direction="UP", raises=(ValueError, "direction")),
        Sample(spread(2), 1, raises=(ValueError, "out of range")),
    ],
)  # fmt: skip


def along(x: Tensor, order: Tensor, axis: int) -> Tensor:
    """x[..., order, ...] with an own order for every line along `axis`."""
    if x.ndim == 1:
        return apply(TAKE, x, order, axis=0)
    last = x.ndim - 1
    swap = tuple(last if i == axis else axis if i == last else i for i in range(x.ndim))
    if axis != last:
        x, order = apply(TRANSPOSE, x, perm=swap), apply(TRANSPOSE, order, perm=swap)
    # `take` has one order for all lines; with the positions of the other axes as indices each line has its own.
    lines = [grid(x.shape[i], i, last + 1) for i in range(last)]
    out = read_places(x, *lines, order)
    return out if axis == last else apply(TRANSPOSE, out, perm=swap)


# out = x[order], so x̄[order] = ct; sorting the order itself inverts the permutation, and a gather is cheaper than a scatter.
def unsorted(ct: Tensor, x: Tensor, axis: int, descending: bool) -> Tensor:
    """The sorted line `ct` put back in the order of x: gathered by the inverse permutation."""
    order = apply(ARGSORT, x, axis=axis, descending=descending)
    return along(ct, apply(ARGSORT, order, axis=axis, descending=False), axis)


def _sort_impl(x: Array, *, axis: int, descending: bool) -> Array:
    out = np.sort(x, axis)
    return np.flip(out, axis) if descending else out


def sort(values: TensorLike, axis: Axis = -1, direction: str = "ASCENDING", name: str | None = None) -> Tensor:
    """The values in order along an axis.

    >>> gt.sort([3.0, 1.0, 2.0], direction="DESCENDING").numpy()
    array([3., 2., 1.], dtype=float32)
    """
    x = convert(values)
    place = normal_axis(axis, x.ndim, "sort")
    return apply(SORT, x, axis=place, descending=_descending(direction, "sort"))


SORT: Op = general(
    "sort", "x", _sort_impl,
    vjps=(lambda ct, x, axis, descending: unsorted(ct, x, axis, descending),),
    jvps=(lambda t, x, axis, descending: along(t, apply(ARGSORT, x, axis=axis, descending=descending), axis),),
    infer=lambda x, *, axis, descending: TensorSpec(x.shape, x.dtype),
    batch=batching.shifted("axis"),
    samples=lambda: [
        Sample(spread(3, 4)),
        Sample(spread(3, 4, 2), 1, "DESCENDING"),
        Sample(spread(5), 0),
        Sample(spread(0)),
        Sample(spread(2), direction="UP", raises=(ValueError, "direction")),
    ],
)  # fmt: skip


@composite(
    samples=lambda: [
        Sample(spread(3, 4), 2),
        Sample(spread(5)),
        Sample(spread(4), 0),
        Sample(spread(3), 4, raises=(ValueError, "at least k")),
    ]
)
def top_k(
    input: TensorLike, k: Integer = 1, sorted: bool = True, index_type: DTypeLike = "int32", name: str | None = None
) -> TopK:
    """The k largest values along the last axis, largest first, and where they are; of equal ones the first comes first.

    >>> values, indices = gt.math.top_k([1.0, 9.0, 4.0], k=2)
    >>> values.numpy(), indices.numpy()
    (array([9., 4.], dtype=float32), array([1, 2], dtype=int32))
    """
    x, count = convert(input), count_of(k, "top_k", "k")
    known = x.ndim and not is_symbolic((count, x.shape[-1]))
    if x.ndim == 0 or (known and not 0 <= count <= x.shape[-1]):
        raise InvalidArgumentError(f"top_k: the last axis needs at least k = {count} elements, got shape {tuple(x.shape)}")
    order = apply(ARGSORT, x, axis=x.ndim - 1, descending=True)
    if known:
        order = apply(SLICE_AXIS, order, axis=x.ndim - 1, start=0, size=count)
    else:  # cut as in Python, then looked at
        order = apply(SIZED, order[..., : convert(count)], shape=(*tuple(x.shape)[:-1], count), caller="top_k")
    return TopK(along(x, order, x.ndim - 1), cast(order, index_type))


# -- searching -------------------------------------------------------------------------------------------------------


def _searchsorted_impl(edges: Array, values: Array, *, side: Literal["left", "right"], dtype: DTypeLike) -> Array:
    count = math.prod(values.shape[:-1])
    rows, wanted = edges.reshape(count, edges.shape[-1]), values.reshape(count, values.shape[-1])
    out = np.empty(wanted.shape, numpy_dtype(dtype))
    for i, (row, want) in enumerate(zip(rows, wanted, strict=True)):
        out[i] = np.searchsorted(row, want, side)
    return out.reshape(values.shape)


def searchsorted(
    sorted_sequence: TensorLike, values: TensorLike, side: str = "left", out_type: DTypeLike = "int32", name: str | None = None
) -> Tensor:
    """Where along the last axis the values would have to be inserted to keep the sequence sorted.

    >>> gt.searchsorted([1.0, 3.0, 5.0], [0.0, 3.0, 9.0]).numpy()
    array([0, 1, 3], dtype=int32)
    """
    edges, wanted = promote(sorted_sequence, values)
    if side not in ("left", "right"):
        raise InvalidArgumentError(f"searchsorted: side must be 'left' or 'right', got {side!r}")
    scalar = wanted.ndim == 0
    wanted = reshape(wanted, (1,)) if scalar else wanted
    if edges.ndim == 1 and wanted.ndim > 1:
        places = apply(SEARCHSORTED, edges, reshape(wanted, (-1,)), side=side, dtype=out_type)
        return reshape(places, tuple(wanted.shape))
    if tuple(edges.shape)[:-1] != tuple(wanted.shape)[:-1]:
        raise InvalidArgumentError(f"searchsorted: leading axes must agree, got {tuple(edges.shape)} and {tuple(wanted.shape)}")
    out = apply(SEARCHSORTED, edges, wanted, side=side, dtype=out_type)
    return reshape(out, ()) if scalar else out


SEARCHSORTED: Op = nondiff(
    "searchsorted", "edges values", _searchsorted_impl,
    infer=lambda edges, values, *, side, dtype: TensorSpec(values.shape, dtype),
    reason=_REASON, batch=batching.leading,
    samples=lambda: [
        Sample(np.sort(normal(4)), normal(3)),
        Sample(np.sort(normal(2, 4)), normal(2, 3), "right", "int64"),
        Sample(np.sort(normal(4)), normal(0)),
        Sample(np.sort(normal(4)), normal(2, 2)),
        Sample(np.sort(normal(4)), normal()),
        Sample(normal(4), normal(2), "middle", raises=(ValueError, "side")),
        Sample(normal(2, 4), normal(3, 2), raises=(ValueError, "leading axes")),
    ],
)  # fmt: skip


# -- unique ----------------------------------------------------------------------------------------------------------


def _unique_impl(x: Array, *, dtype: DTypeLike, by_value: bool, equal_nan: bool) -> tuple[Array, ...]:
    rows = None if x.ndim == 1 else 0  # of a matrix, the distinct rows
    _, first, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True, axis=rows, equal_nan=equal_nan
    )
    target, inverse = numpy_dtype(dtype), inverse.reshape(-1)
    if by_value:
        return first.astype(target), inverse.astype(target), counts.astype(target)
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    return first[order].astype(target), rank[inverse].astype(target), counts[order].astype(target)


def _unique_specs(x: TensorSpec, *, dtype: DTypeLike, by_value: bool, equal_nan: bool) -> tuple[TensorSpec, ...]:
    return TensorSpec((None,), dtype), TensorSpec(x.shape[:1], dtype), TensorSpec((None,), dtype)


# where each distinct element or row stands first, which of them each one is, and how often each occurs; in order of first
# occurrence, or of their values
UNIQUE: Op = nondiff(
    "unique", "x", _unique_impl, infer=_unique_specs,
    reason="positions and counts have no derivative", batch=batching.looped,
    call=lambda x, by_value: apply(UNIQUE, convert(x), dtype="int32", by_value=by_value, equal_nan=True),
    outputs=0,
    samples=lambda: [
        Sample(np.array([3, 1, 3, 2, 1]), False),
        Sample(np.array([3, 1, 3, 2, 1]), True),
        Sample(np.array([0.5, 0.5]), False),
        Sample(np.array([[2, 1], [0, 1], [2, 1]]), True),
    ],
)  # fmt: skip


def _of_vector(x: TensorLike, dtype: DTypeLike) -> Any:
    """(the vector, and what UNIQUE says of it)."""
    x = convert(x)
    if x.ndim != 1:
        raise InvalidArgumentError(f"unique: expects a vector, got shape {tuple(x.shape)}; reshape it to [-1] first")
    return x, *apply(UNIQUE, x, dtype=dtype, by_value=False, equal_nan=True)


@composite(
    samples=lambda: [
        Sample(spread(4)),
        Sample(np.array([3, 1, 3]), "int64"),
        Sample(spread(2, 2), raises=(ValueError, "vector")),
    ]
)
def unique(x: TensorLike, out_idx: DTypeLike = "int32", name: str | None = None) -> Unique:
    """The distinct elements of a vector in order of first occurrence, and for each element which one it is.

    The gradient of `y` goes to the first occurrences.

    >>> y, idx = gt.unique([7, 4, 7])
    >>> y.numpy(), idx.numpy()
    (array([7, 4], dtype=int32), array([0, 1, 0], dtype=int32))
    """
    x, first, idx, _ = _of_vector(x, out_idx)
    return Unique(apply(TAKE, x, first, axis=0), idx)


@composite(samples=lambda: [Sample(spread(4)), Sample(np.array([3, 1, 3]), "int64")])
def unique_with_counts(x: TensorLike, out_idx: DTypeLike = "int32", name: str | None = None) -> UniqueWithCounts:
    """As `unique`, and how often each element occurs."""
    x, first, idx, counts = _of_vector(x, out_idx)
    return UniqueWithCounts(apply(TAKE, x, first, axis=0), idx, counts)


# -- the position of the extremum ------------------------------------------------------------------------------------


def _arg_impl(x: Array, *, axis: int, largest: bool, dtype: DTypeLike) -> Array:
    if not x.shape[axis]:
        raise InvalidArgumentError(f"{'argmax' if largest else 'argmin'}: axis {axis} of shape {x.shape} is empty")
    return (np.argmax if largest else np.argmin)(x, axis).astype(numpy_dtype(dtype))


def _arg(input: TensorLike, axis: Axis | None, dtype: DTypeLike, largest: bool, op: str) -> Tensor:
    x = convert(input)
    if x.ndim == 0:
        raise InvalidArgumentError(f"{op}: needs at least one axis, got a scalar")
    place = normal_axis(0 if axis is None else axis, x.ndim, op)
    return apply(ARG_EXTREME, x, axis=place, largest=largest, dtype=dtype)


def argmax(input: TensorLike, axis: Axis | None = None, output_type: DTypeLike = "int64", name: str | None = None) -> Tensor:
    """Where the largest element along an axis (the first by default) is; the first of equal ones.

    >>> gt.argmax([[1.0, 9.0], [3.0, 2.0]], axis=1).numpy()
    array([1, 0])
    """
    return _arg(input, axis, output_type, True, "argmax")


@composite(samples=lambda: [Sample(spread(3, 4)), Sample(spread(3, 4), -1, "int32"), Sample(spread(3))], differentiable=False)
def argmin(input: TensorLike, axis: Axis | None = None, output_type: DTypeLike = "int64", name: str | None = None) -> Tensor:
    """Where the smallest element along an axis (the first by default) is; the first of equal ones."""
    return _arg(input, axis, output_type, False, "argmin")


ARG_EXTREME = nondiff(
    "arg_extreme", "x", _arg_impl,
    infer=lambda x, *, axis, largest, dtype: TensorSpec((*x.shape[:axis], *x.shape[axis + 1 :]), dtype),
    reason=_REASON, batch=batching.shifted("axis"), call=argmax,
    samples=lambda: [
        Sample(spread(3, 4)),
        Sample(spread(3, 4), -1, "int32"),
        Sample(spread(3)),
        Sample(spread(3, 0), 1, raises=(ValueError, "empty")),
        Sample(spread(), raises=(ValueError, "scalar")),
    ],
)  # fmt: skip


@composite(samples=lambda: [Sample(integers(4, 3), spread(3, 4), 2)], differentiable=False)
def in_top_k(targets: TensorLike, predictions: TensorLike, k: Integer, name: str | None = None) -> Tensor:
    """Whether the target class is among the k best predictions of its row; ties count as within, NaN or inf as not.

    >>> gt.math.in_top_k([0, 1], [[0.1, 0.9], [0.1, 0.9]], 1).numpy()
    array([False,  True])
    """
    scores, wanted = convert(predictions), convert(targets)
    if scores.ndim != 2 or tuple(wanted.shape) != tuple(scores.shape)[:1]:
        raise InvalidArgumentError(
            f"in_top_k: needs predictions [rows, classes] and targets [rows], "
            f"got {tuple(scores.shape)} and {tuple(wanted.shape)}"
        )
    inside = logical_and(greater_equal(wanted, 0), less(wanted, scores.shape[1]))
    own = gather(scores, where(inside, wanted, zeros_like(wanted)), batch_dims=1)
    better = reduce_sum(cast(greater(scores, expand_dims(own, -1)), "int64"), -1)
    return logical_and(logical_and(inside, is_finite(own)), less(better, cast(convert(k), "int64") if is_traced(k) else int(k)))


OPS = (ARGSORT, SORT, SEARCHSORTED, UNIQUE, ARG_EXTREME)

from gradtape.ops.compare import greater, greater_equal, is_finite, less, logical_and
from gradtape.ops.create import grid, is_symbolic, zeros_like
from gradtape.ops.elementwise import cast
from gradtape.ops.reduce import reduce_sum
from gradtape.ops.select import where
from gradtape.ops.shape import SLICE_AXIS, expand_dims, reshape
from gradtape.ops.staged import SIZED, count_of, is_traced

__all__ = ["argmax", "argmin", "argsort", "in_top_k", "searchsorted", "sort", "top_k", "unique"]
