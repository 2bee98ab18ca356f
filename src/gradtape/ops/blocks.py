"""Rearranging blocks: space_to_batch, batch_to_space, depth_to_space, space_to_depth; and masks from lengths.

All are reshapes and transpositions of an array whose blocked axes are split in two.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from gradtape.core.dispatch import convert
from gradtape.core.opdef import Sample, composite
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Integer, Integers, Shape, TensorLike
from gradtape.dtypes import DTypeLike, bool_
from gradtape.errors import InvalidArgumentError
from gradtape.ops.create import static_shape
from gradtape.ops.extending import pad
from gradtape.ops.sampling import normal
from gradtape.ops.shape import reshape, transpose


def _pairs(values: TensorLike, count: int, op: str) -> list[tuple[Any, Any]]:
    pairs = [static_shape(row) for row in (values if isinstance(values, (list, tuple)) else convert(values).tolist())]
    if len(pairs) != count or any(len(p) != 2 or min(p) < 0 for p in pairs):
        raise InvalidArgumentError(f"{op}: needs one pair of non-negative numbers per block axis, got {values}")
    return [(p[0], p[1]) for p in pairs]


def _blocks(x: Tensor, block_shape: Shape, op: str) -> tuple[Any, ...]:
    blocks = static_shape(block_shape)
    if x.ndim < len(blocks) + 1 or any(b < 1 for b in blocks):
        raise InvalidArgumentError(f"{op}: block_shape {blocks} does not fit an input of shape {tuple(x.shape)}")
    return blocks


@composite(
    samples=lambda: [
        Sample(normal(1, 4, 4, 2), [2, 2], [[0, 0], [0, 0]], fixed=(1, 2)),
        Sample(normal(2, 3), [2], [[1, 0]], fixed=(1, 2)),
        Sample(normal(1, 3, 2), [2], [[0, 0]], fixed=(1, 2), raises=(ValueError, "multiple")),
    ]
)
def space_to_batch_nd(input: TensorLike, block_shape: Integers, paddings: TensorLike, name: str | None = None) -> Tensor:
    """Blocks of the (padded) space axes moved into the batch axis.

    >>> gt.space_to_batch_nd([[[1.0], [2.0], [3.0], [4.0]]], [2], [[0, 0]]).numpy()[:, :, 0]
    array([[1., 3.],
           [2., 4.]], dtype=float32)
    """
    x = convert(input)
    blocks = _blocks(x, block_shape, "space_to_batch_nd")
    m = len(blocks)
    pairs = _pairs(paddings, m, "space_to_batch_nd")
    margins = [(0, 0), *pairs, *([(0, 0)] * (x.ndim - 1 - m))]
    dims = tuple(d + a + b for d, (a, b) in zip(x.shape, margins, strict=True))
    if any(d % b for d, b in zip(dims[1:], blocks, strict=False)):
        raise InvalidArgumentError(f"space_to_batch_nd: padded space {dims[1 : m + 1]} is not a multiple of blocks {blocks}")
    space = [v for d, b in zip(dims[1:], blocks, strict=False) for v in (d // b, b)]
    x = reshape(pad(x, margins), (dims[0], *space, *dims[m + 1 :]))
    # (batch, d₁/b₁, b₁, d₂/b₂, b₂, …, rest) to (b₁, b₂, …, batch, d₁/b₁, d₂/b₂, …, rest): the positions inside a block count
    # slowest in the new batch axis, as TensorFlow has it.
    order = (*range(2, 2 * m + 1, 2), 0, *range(1, 2 * m, 2), *range(2 * m + 1, x.ndim))
    x = transpose(x, order)
    outer = [d // b for d, b in zip(dims[1:], blocks, strict=False)]
    return reshape(x, (dims[0] * math.prod(blocks), *outer, *dims[m + 1 :]))


space_to_batch = space_to_batch_nd


@composite(
    samples=lambda: [
        Sample(normal(4, 2, 2, 1), [2, 2], [[0, 0], [1, 0]], fixed=(1, 2)),
        Sample(normal(4, 3), [2], [[1, 2]], fixed=(1, 2)),
        Sample(normal(3, 2, 1), [2], [[0, 0]], fixed=(1, 2), raises=(ValueError, "batch")),
    ]
)
def batch_to_space(input: TensorLike, block_shape: Integers, crops: TensorLike, name: str | None = None) -> Tensor:
    """The inverse of `space_to_batch_nd`: the batch axis spread over blocks of space, then cropped."""
    x = convert(input)
    blocks = _blocks(x, block_shape, "batch_to_space")
    m, count = len(blocks), math.prod(blocks)
    dims = tuple(x.shape)
    if dims[0] % count:
        raise InvalidArgumentError(f"batch_to_space: the batch size {dims[0]} is not a multiple of {count} = the block size")
    pairs = _pairs(crops, m, "batch_to_space")
    wide = [d * b for d, b in zip(dims[1:], blocks, strict=False)]
    if any(a + b > d for (a, b), d in zip(pairs, wide, strict=True)):
        raise InvalidArgumentError(f"batch_to_space: crops {pairs} are larger than the space {wide}")
    x = reshape(x, (*blocks, dims[0] // count, *dims[1:]))
    # The same order read backwards: each block axis goes behind the space axis that it was split from.
    order = (m, *(v for i in range(m) for v in (m + 1 + i, i)), *range(2 * m + 1, x.ndim))
    x = reshape(transpose(x, order), (dims[0] // count, *wide, *dims[m + 1 :]))
    return x[(slice(None), *(slice(a, d - b) for (a, b), d in zip(pairs, wide, strict=True)))]


_LAYOUTS = ("NHWC", "NCHW")


def _image(x: Tensor, block_size: Integer, data_format: str, op: str) -> tuple[Tensor, int]:
    """The input as NHWC, and the block size, checked."""
    if data_format not in _LAYOUTS:
        raise InvalidArgumentError(f"{op}: data_format must be one of {_LAYOUTS}, got {data_format!r}")
    if x.ndim != 4 or int(block_size) < 2:
        raise InvalidArgumentError(
            f"{op}: needs an input of rank 4 and a block size of at least 2, got shape {tuple(x.shape)} and {block_size}"
        )
    return (transpose(x, (0, 2, 3, 1)) if data_format == "NCHW" else x), int(block_size)


@composite(
    samples=lambda: [
        Sample(normal(1, 2, 3, 8), 2),
        Sample(normal(2, 4, 1, 2), 2, "NCHW"),
        Sample(normal(1, 2, 2, 3), 2, raises=(ValueError, "channels")),
    ]
)
def depth_to_space(input: TensorLike, block_size: Integer, data_format: str = "NHWC", name: str | None = None) -> Tensor:
    """Channels spread over square blocks of space.

    >>> gt.depth_to_space(gt.reshape(gt.range(4), [1, 1, 1, 4]), 2).numpy()[0, :, :, 0]
    array([[0, 1],
           [2, 3]], dtype=int32)
    """
    x, block = _image(convert(input), block_size, data_format, "depth_to_space")
    n, h, w = tuple(x.shape)[:3]
    c = int(x.shape[3])
    if c % (block * block):
        raise InvalidArgumentError(f"depth_to_space: {c} channels are not a multiple of {block * block}")
    depth = c // (block * block)
    x = transpose(reshape(x, (n, h, w, block, block, depth)), (0, 1, 3, 2, 4, 5))
    x = reshape(x, (n, h * block, w * block, depth))
    return transpose(x, (0, 3, 1, 2)) if data_format == "NCHW" else x


@composite(
    samples=lambda: [
        Sample(normal(1, 4, 2, 3), 2),
        Sample(normal(2, 1, 4, 2), 2, "NCHW"),
        Sample(normal(1, 3, 2, 3), 2, raises=(ValueError, "multiple")),
    ]
)
def space_to_depth(input: TensorLike, block_size: Integer, data_format: str = "NHWC", name: str | None = None) -> Tensor:
    """Square blocks of space moved into the channels: the inverse of `depth_to_space`."""
    x, block = _image(convert(input), block_size, data_format, "space_to_depth")
    n, (h, w, c) = x.shape[0], (int(d) for d in tuple(x.shape)[1:])
    if h % block or w % block:
        raise InvalidArgumentError(f"space_to_depth: height {h} and width {w} must be a multiple of {block}")
    x = transpose(reshape(x, (n, h // block, block, w // block, block, c)), (0, 1, 3, 2, 4, 5))
    x = reshape(x, (n, h // block, w // block, block * block * c))
    return transpose(x, (0, 3, 1, 2)) if data_format == "NCHW" else x


@composite(samples=lambda: [Sample(np.array([1, 3, 0])), Sample(np.array([[1], [2]]), 4, "float32")], differentiable=False)
def sequence_mask(
    lengths: TensorLike, maxlen: Integer | None = None, dtype: DTypeLike = bool_, name: str | None = None
) -> Tensor:
    """True in the first `lengths[...]` places of a new last axis of size `maxlen` (default: the largest length).

    >>> gt.sequence_mask([1, 3]).numpy()
    array([[ True, False, False],
           [ True,  True,  True]])
    """
    lengths = convert(lengths)
    if maxlen is None and is_traced(lengths):
        # The zero is for no lengths at all, of which there is no largest.
        maxlen = reduce_max(concat([reshape(lengths, (-1,)), zeros((1,), lengths.dtype)], 0))
    elif maxlen is None:
        maxlen = max(int(np.max(lengths.numpy(), initial=0)), 0)
    size = size_of(maximum(maxlen, 0)) if is_traced(maxlen) else max(operator.index(maxlen), 0)
    steps = cast(grid(size, 0, 1), lengths.dtype)
    return cast(less(steps, expand_dims(lengths, -1)), dtype)


from gradtape.ops.compare import less
from gradtape.ops.create import grid, zeros
from gradtape.ops.elementwise import cast
from gradtape.ops.reduce import reduce_max
from gradtape.ops.select import maximum
from gradtape.ops.shape import concat, expand_dims
from gradtape.ops.staged import is_traced, size_of
