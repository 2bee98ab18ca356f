"""Larger arrays made of smaller ones: pad, tile, repeat. Composites of zeros around, reshapes, broadcasts and gathers.

Paddings, multiples and repeats may be known only when a program runs: their sizes are then dimensions of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradtape.core.dispatch import apply, convert, twin
from gradtape.core.opdef import Sample, composite
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Array, Axis, Integers, Size, TensorLike
from gradtape.errors import InvalidArgumentError
from gradtape.ops.create import grid, is_symbolic, ones_like, sizes, static_shape
from gradtape.ops.cumulative import cumsum
from gradtape.ops.elementwise import cast
from gradtape.ops.index import gather
from gradtape.ops.padding import PAD
from gradtape.ops.sampling import normal
from gradtape.ops.select import where
from gradtape.ops.shape import BROADCAST_TO, RESHAPE, normal_axis, reshape, stack
from gradtape.ops.sorting import searchsorted
from gradtape.ops.staged import SIZED, size_of


@composite(
    samples=lambda: [
        Sample(normal(2, 3), [[1, 0], [2, 1]]),
        Sample(normal(2, 3), [[0, 1], [1, 1]], constant_values=2.5),
        Sample(normal(4), [[2, 3]], "REFLECT"),
        Sample(normal(3, 4), [[1, 2], [3, 1]], "SYMMETRIC"),
        Sample(normal(2), [[1, 1], [1, 1]], raises=(ValueError, "rank")),
        Sample(normal(2), [[2, 0]], "REFLECT", raises=(ValueError, "REFLECT")),
    ]
)
def pad(
    tensor: TensorLike, paddings: Array | Sequence[Any], mode: str = "CONSTANT", constant_values: TensorLike = 0,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """`tensor` with elements added around it: constants, or its own elements mirrored (REFLECT, SYMMETRIC).

    >>> gt.pad([1.0, 2.0], [[1, 0]]).numpy()
    array([0., 1., 2.], dtype=float32)
    """
    x = convert(tensor)
    rows = (
        [] if isinstance(paddings, int) else [row if isinstance(row, (list, tuple)) else static_shape(row) for row in paddings]
    )
    if isinstance(paddings, int) or any(len(row) != 2 for row in rows):
        raise InvalidArgumentError(f"pad: paddings must be a pair (before, after) for each axis, got {paddings}")
    pairs = tuple((size_of(a), size_of(b)) for a, b in rows)
    if len(pairs) != x.ndim:
        raise InvalidArgumentError(f"pad: {len(pairs)} pairs of paddings for a tensor of rank {x.ndim}")
    if any(n < 0 for ends in pairs for n in ends if n.__class__ is int):
        raise InvalidArgumentError(f"pad: paddings must not be negative, got {list(pairs)}")
    mode = mode.upper()
    if mode == "CONSTANT":
        out = apply(PAD, x, paddings=pairs)
        if isinstance(constant_values, (int, float)) and constant_values == 0:
            return out
        inside = apply(PAD, ones_like(x), paddings=pairs)
        return out + (1 - inside) * constant_values
    if mode not in ("REFLECT", "SYMMETRIC"):
        raise InvalidArgumentError(f"pad: mode must be CONSTANT, REFLECT or SYMMETRIC, got {mode}")
    for axis, (before, after) in enumerate(pairs):
        limit = x.shape[axis] - (mode == "REFLECT")
        if is_symbolic((before, after, limit)):
            x = gather(x, _mirrored(x.shape[axis], before, after, mode), axis=axis)
            continue
        if max(before, after) > max(limit, 0):
            raise InvalidArgumentError(
                f"pad: mode {mode} allows at most {limit} elements on axis {axis}, got {(before, after)}"
            )
        if before or after:
            order = np.pad(np.arange(x.shape[axis]), (before, after), "reflect" if mode == "REFLECT" else "symmetric")
            x = gather(x, order, axis=axis)
    return twin(x)


def _mirrored(size: Size, before: Size, after: Size, mode: str) -> Tensor:
    """Which element of an axis stands at each place of the longer one; where there is none, what no gather takes."""
    place = grid(before + size + after, 0, 1) - convert(before)
    last = convert(size) - 1
    edge = 0 if mode == "REFLECT" else 1  # whether the mirror is on the element at the end, or behind it
    left, right = -edge - place, 2 * last + edge - place
    return where(place < 0, where(left > last, -1, left), where(place > last, right, place))


@composite(
    samples=lambda: [
        Sample(normal(2, 3), [2, 1]),
        Sample(normal(2), [0]),
        Sample(normal(2), [1, 2], raises=(ValueError, "rank")),
    ]
)
def tile(input: TensorLike, multiples: Integers, name: str | None = None) -> Tensor:
    """`input` repeated `multiples[i]` times along axis i.

    >>> gt.tile([1, 2], [2]).numpy()
    array([1, 2, 1, 2], dtype=int32)
    """
    x = convert(input)
    times = static_shape(multiples)
    if len(times) != x.ndim:
        raise InvalidArgumentError(f"tile: {len(times)} multiples for a tensor of rank {x.ndim}")
    dims = tuple(x.shape)
    split_dims = tuple(v for d in dims for v in (1, d))
    wide = tuple(v for d, n in zip(dims, times, strict=True) for v in (n, d))
    out = apply(BROADCAST_TO, apply(RESHAPE, x, shape=split_dims), shape=wide)
    return apply(RESHAPE, out, shape=tuple(d * n for d, n in zip(dims, times, strict=True)))


@composite(
    samples=lambda: [
        Sample(normal(2, 3), 2, 1),
        Sample(normal(3), [1, 0, 2], 0),
        Sample(normal(2, 2), 2),
        Sample(normal(3), [1, 2], 0, raises=(ValueError, "repeats")),
    ]
)
def repeat(input: TensorLike, repeats: Integers, axis: Axis | None = None, name: str | None = None) -> Tensor:
    """Each element (or slice along `axis`) repeated.

    >>> gt.repeat([1, 2], [1, 2]).numpy()
    array([1, 2, 2], dtype=int32)
    """
    x = convert(input)
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    place = normal_axis(axis, x.ndim, "repeat")
    length = x.shape[place]
    counts = sizes(repeats, "repeats", "repeat")
    if any(n < 0 for n in counts if n.__class__ is int):
        raise InvalidArgumentError(f"repeat: repeats must not be negative, got {list(counts)}")
    if len(counts) != 1 and not is_symbolic((length,)) and len(counts) != length:
        raise InvalidArgumentError(f"repeat: {len(counts)} repeats for {length} slices along axis {place}")
    if not is_symbolic((*counts, length)):
        return gather(x, np.repeat(np.arange(length), counts), axis=place)
    dims = tuple(x.shape)
    if len(counts) == 1:
        wide = (*dims[: place + 1], counts[0], *dims[place + 1 :])
        out = apply(BROADCAST_TO, apply(RESHAPE, x, shape=(*dims[: place + 1], 1, *dims[place + 1 :])), shape=wide)
        return apply(RESHAPE, out, shape=(*dims[:place], length * counts[0], *dims[place + 1 :]))
    # place i of the result is one of slice j if the first j counts add up to i at most, and the first j + 1 to more
    ends = cumsum(cast(stack([convert(n) for n in counts]), "int64"))
    x = apply(SIZED, x, shape=(*dims[:place], len(counts), *dims[place + 1 :]), caller="repeat")
    return gather(x, searchsorted(ends, cast(grid(sum(counts), 0, 1), "int64"), side="right"), axis=place)
