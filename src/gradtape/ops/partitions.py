"""Rows taken apart and put together by numbers that come with them, and how many values lie in which bin.

All of it is made of gathers, masks and scatters, whose derivatives, batches and programs it inherits. Sizes that depend on
values are sizes of the program.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

import numpy as np

from gradtape.core.arguments import integral, numeric, whole
from gradtape.core.dispatch import convert, promote
from gradtape.core.opdef import Sample, composite
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Axis, DTypeLike, Integer, Integers, TensorLike
from gradtape.errors import InvalidArgumentError
from gradtape.ops.create import fits, grid, sizes
from gradtape.ops.index import check_range, gather
from gradtape.ops.sampling import normal
from gradtape.ops.shape import concat, normal_axis, reshape, stack, transpose


@composite(
    samples=lambda: [
        Sample(normal(5, 2), np.array([1, 0, 2, 1, 1]), 3),
        Sample(normal(2, 3), np.array([[0, 1, 1], [0, 0, 1]]), 2),
        Sample(normal(3), np.array([0, 0, 0]), 2),
        Sample(normal(3), np.array([0, 2, 0]), 2, raises=(ValueError, "partition 2")),
        Sample(normal(3), np.array([0, 2]), 2, raises=(ValueError, "must start")),
    ]
)
def dynamic_partition(
    data: TensorLike, partitions: TensorLike, num_partitions: Integer, name: str | None = None
) -> list[Tensor]:  # fmt: skip
    """The rows of `data` in as many tensors as there are partitions, each row in the one that its number says.

    >>> [part.numpy().tolist() for part in gt.dynamic_partition([1.0, 2.0, 3.0], [0, 1, 0], 2)]
    [[1.0, 3.0], [2.0]]
    """
    op = "dynamic_partition"
    x, numbers = convert(data), integral(partitions, "partitions", op)
    count = whole(num_partitions, "num_partitions", op, 1)
    if not fits(tuple(x.shape)[: numbers.ndim], tuple(numbers.shape)):
        raise InvalidArgumentError(
            f"{op}: the shape of partitions must start the shape of data, got {tuple(numbers.shape)} for {tuple(x.shape)}"
        )
    numbers = check_range(numbers, count, op, "partition")
    if not numbers.ndim:  # one row in all
        x, numbers = expand_dims(x, 0), expand_dims(numbers, 0)
    return [boolean_mask(x, equal(numbers, i)) for i in range(count)]


@composite(
    samples=lambda: [
        Sample([np.array([2, 0]), np.array([1])], [normal(2, 3), normal(1, 3)]),
        Sample([np.array(1), np.array([[0, 2]])], [normal(2), normal(1, 2, 2)]),
        Sample([np.array([0, 1, 0])], [normal(3)]),
        Sample([np.array([0, 1])], [normal(3)], raises=(ValueError, "must start")),
        Sample([np.array([0, 1])], [], raises=(ValueError, "as many")),
    ]
)
def dynamic_stitch(indices: Sequence[TensorLike], data: Sequence[TensorLike], name: str | None = None) -> Tensor:
    """One tensor whose row `indices[m][i]` is `data[m][i]`: what `dynamic_partition` took apart. The last of several rows with
    one number counts; rows without a number are 0.
    """
    op = "dynamic_stitch"
    places = [cast(integral(index, "indices", op), "int64") for index in indices]
    parts = promote(*data)
    if len(places) != len(parts) or not places:
        raise InvalidArgumentError(f"{op}: needs as many indices as data, and some; got {len(places)} and {len(parts)}")
    rest = tuple(parts[0].shape)[places[0].ndim :]
    for place, part in zip(places, parts, strict=True):
        if not fits(tuple(part.shape), (*place.shape, *rest)):
            raise InvalidArgumentError(
                f"{op}: the shape of indices must start the shape of data, and the rest be the same for all: "
                f"got {tuple(place.shape)} for {tuple(part.shape)}"
            )
    flat = concat([reshape(place, (-1,)) for place in places], 0)
    rows = concat([reshape(part, (-1, *rest)) for part in parts], 0)
    # The -1 stands for no rows at all, whose largest number would not exist.
    size = size_of(reduce_max(concat([flat, [np.int64(-1)]], 0)) + 1)
    return tensor_scatter_nd_update(zeros((size, *rest), rows.dtype), expand_dims(flat, -1), rows)


@composite(
    samples=lambda: [
        Sample(normal(2, 4, 3), np.array([3, 0]), 1, 0),
        Sample(normal(3, 4, 2), np.array([2, 3, 1, 3]), 0, 1),
        Sample(normal(2, 3), np.array([3, 2]), seq_axis=1),
        Sample(normal(2, 3), np.array([3]), 1, raises=(ValueError, "one length")),
        Sample(normal(2, 3), np.array([3, 4]), 1, raises=(ValueError, "length 4")),
        Sample(normal(2, 3), np.array([3, 2]), 0, raises=(ValueError, "same axis")),
    ]
)
def reverse_sequence(
    input: TensorLike, seq_lengths: TensorLike, seq_axis: Axis | None = None, batch_axis: Axis | None = None,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """The first `seq_lengths[i]` elements along `seq_axis` of entry i of the batch in reversed order; the rest stays.

    >>> gt.reverse_sequence([[1, 2, 3], [4, 5, 6]], [2, 3], seq_axis=1).numpy()
    array([[2, 1, 3],
           [6, 5, 4]], dtype=int32)
    """
    op = "reverse_sequence"
    x, lengths = convert(input), integral(seq_lengths, "seq_lengths", op)
    along, batch = (normal_axis(0 if axis is None else axis, x.ndim, op) for axis in (seq_axis, batch_axis))
    if along == batch:
        raise InvalidArgumentError(f"{op}: seq_axis and batch_axis are the same axis, {along}")
    if not fits(tuple(lengths.shape), (x.shape[batch],)):
        raise InvalidArgumentError(
            f"{op}: needs one length for each of {x.shape[batch]} entries of the batch, got shape {tuple(lengths.shape)}"
        )
    order = [batch, along, *(axis for axis in range(x.ndim) if axis not in (batch, along))]
    back = [order.index(axis) for axis in range(x.ndim)]
    ends = expand_dims(cast(check_range(lengths, x.shape[along] + 1, op, "length"), "int64"), 1)
    places = grid(x.shape[along], 1, 2)
    places = where(less(places, ends), ends - 1 - places, places)
    return transpose(gather(transpose(x, order), places, axis=1, batch_dims=1), back)


@composite(
    samples=lambda: [
        Sample(np.array([22, 41, 37]), np.array([7, 6])),
        Sample(np.array(5), (2, 3)),
        Sample(np.array([6]), (2, 3), raises=(ValueError, "index 6")),
    ],
    differentiable=False,
)
def unravel_index(indices: TensorLike, dims: Integers, name: str | None = None) -> Tensor:
    """Places in a flattened tensor of shape `dims` as index tuples, one in each column."""
    flat, shape = (
        integral(indices, "indices", "unravel_index"),
        tuple(map(operator.index, sizes(dims, "dims", "unravel_index"))),
    )
    flat = check_range(flat, math.prod(shape), "unravel_index", "index")
    rows = []
    for size in reversed(shape):
        rows.append(mod(flat, cast(convert(size), flat.dtype)))
        flat = floordiv(flat, cast(convert(size), flat.dtype))
    return stack(rows[::-1])


def _bins(values: TensorLike, value_range: TensorLike, nbins: Integer, dtype: DTypeLike, op: str) -> tuple[Tensor, int]:
    x, ends = numeric(values, "values", op), numeric(value_range, "value_range", op)
    count = whole(nbins, "nbins", op, 1)
    if not fits(tuple(ends.shape), (2,)):
        raise InvalidArgumentError(f"{op}: value_range must be two numbers, got shape {tuple(ends.shape)}")
    low, high = cast(ends[0], dtype), cast(ends[1], dtype)
    steps = floor(count * (cast(x, dtype) - low) / (high - low))
    return cast(clip_by_value(steps, 0, count - 1), "int32"), count


@composite(
    samples=lambda: [
        Sample(np.array([-1.0, 0.1, 1.5, 2.0, 5.0, 15.0]), np.array([0.0, 5.0]), 5),
        Sample(np.array([[1, 7], [3, 9]]), (0, 10), 2, "int64"),
        Sample(np.array([1.0]), np.array([0.0]), raises=(ValueError, "two numbers")),
    ],
    differentiable=False,
)
def histogram_fixed_width_bins(
    values: TensorLike, value_range: TensorLike, nbins: Integer = 100, dtype: DTypeLike = "int32", name: str | None = None
) -> Tensor:
    """The number of the bin that each value lies in: `nbins` of equal width, the outer ones open."""
    kind = numeric(values, "values", "histogram_fixed_width_bins").dtype
    numbers, _ = _bins(values, value_range, nbins, kind if kind.is_floating else "float64", "histogram_fixed_width_bins")
    return cast(numbers, dtype)


@composite(
    samples=lambda: [
        Sample(np.array([-1.0, 0.1, 1.5, 2.0, 5.0, 15.0]), np.array([0.0, 5.0]), 5),
        Sample(np.array([[1, 7], [3, 9]]), (0, 10), 2, "int64"),
    ],
    differentiable=False,
)
def histogram_fixed_width(
    values: TensorLike, value_range: TensorLike, nbins: Integer = 100, dtype: DTypeLike = "int32", name: str | None = None
) -> Tensor:
    """How many values lie in each of `nbins` bins of equal width; the outer bins have what lies beyond."""
    numbers, count = _bins(values, value_range, nbins, "float64", "histogram_fixed_width")
    return bincount(reshape(numbers, (-1,)), minlength=count, maxlength=count, dtype=dtype)


from gradtape.ops.compare import equal, less
from gradtape.ops.create import zeros
from gradtape.ops.elementwise import cast
from gradtape.ops.reduce import reduce_max
from gradtape.ops.scatter import boolean_mask, tensor_scatter_nd_update
from gradtape.ops.segment import bincount
from gradtape.ops.select import clip_by_value, floor, floordiv, mod, where
from gradtape.ops.shape import expand_dims
from gradtape.ops.staged import size_of
