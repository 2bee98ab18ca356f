"""Pooling: the largest or the average element of each window, in 1, 2 or 3 space dimensions.

Primitives work on channels-last arrays and loop over the taps of the window, never over pixels. Of equal maxima the first
in the window gets the gradient, as in TensorFlow; averages count only the elements that are really there, not the padding.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape.core import batching
from gradtape.core.arguments import dtype_of, of_rank, real_floats, real_numbers
from gradtape.core.bfloat16 import rounded_once
from gradtape.core.dispatch import apply, convert
from gradtape.core.forms import heavy
from gradtape.core.opdef import Memory, Op, Sample, composite, general, linear, multilinear, nondiff
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Array, Integers, Padding, TensorLike
from gradtape.dtypes import DType, DTypeLike, int64
from gradtape.errors import InvalidArgumentError
from gradtape.ir.types import TensorSpec
from gradtape.ops.sampling import integers, normal, spread
from gradtape.ops.windows import (
    Ints,
    Pads,
    channels_first,
    from_batch,
    from_channels_last,
    inner,
    into_batch,
    out_space,
    padded,
    padded_space,
    pads,
    per_axis,
    taps,
    to_channels_last,
    without,
)

# -- the maps on bare arrays -------------------------------------------------------------------------------------------


def _slices(space: Ints, ksize: Ints, strides: Ints, padding: Pads) -> list[tuple[Any, ...]]:
    """The slices of the padded array that the taps meet, in order."""
    ones = (1,) * len(ksize)
    out = out_space(space, ksize, strides, padding, ones, "pool")
    return [place for _, place in taps(ksize, strides, ones, out)]


def _lowest(dtype: np.dtype) -> float:
    return np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf


@heavy("max_pool")
def _max_pool_impl(x: Array, *, ksize: Ints, strides: Ints, padding: Pads) -> Array:
    source = padded(x, padding, _lowest(x.dtype))
    first, *rest = _slices(x.shape[1:-1], ksize, strides, padding)
    out = source[first].copy()
    for place in rest:
        np.maximum(out, source[place], out=out)
    return out


@heavy("pool_winner")
def _winner_impl(x: Array, out: Array, *, ksize: Ints, strides: Ints, padding: Pads) -> Array:
    source = padded(x, padding, _lowest(x.dtype))
    places = _slices(x.shape[1:-1], ksize, strides, padding)
    # `before` is true as long as no tap has reached the maximum: its sum over the taps is the number of the first that does.
    # the number of taps before the first maximum
    tap = np.zeros(out.shape, np.uint8 if len(places) < 256 else np.int32)
    before = np.ones(out.shape, bool)
    for place in places[:-1]:
        before &= source[place] != out
        tap += before.view(np.uint8)
    return tap


@heavy("pool_take")
def _pool_take_impl(x: Array, tap: Array, *, ksize: Ints, strides: Ints, padding: Pads) -> Array:
    source = padded(x, padding)
    out = np.zeros(tap.shape, x.dtype)
    for i, place in enumerate(_slices(x.shape[1:-1], ksize, strides, padding)):
        np.copyto(out, source[place], where=tap == i)
    return out


@heavy("pool_put")
def _pool_put_impl(y: Array, tap: Array, *, space: Ints, ksize: Ints, strides: Ints, padding: Pads) -> Array:
    total = np.zeros((y.shape[0], *padded_space(space, padding), y.shape[-1]), y.dtype)
    apart = all(k <= s for k, s in zip(ksize, strides, strict=True))
    for i, place in enumerate(_slices(space, ksize, strides, padding)):
        if apart:  # windows do not overlap: each place is written once
            np.multiply(y, tap == i, out=total[place])
        else:
            total[place] += y * (tap == i)
    return total[inner(space, padding)]


@heavy("pool_sum")
@rounded_once
def _pool_sum_impl(x: Array, *, ksize: Ints, strides: Ints, padding: Pads) -> Array:
    source = padded(x, padding)
    first, *rest = _slices(x.shape[1:-1], ksize, strides, padding)
    out = source[first].copy()
    for place in rest:
        out += source[place]
    return out


@heavy("pool_spread")
def _pool_spread_impl(y: Array, *, space: Ints, ksize: Ints, strides: Ints, padding: Pads) -> Array:
    total = np.zeros((y.shape[0], *padded_space(space, padding), y.shape[-1]), y.dtype)
    for place in _slices(space, ksize, strides, padding):
        total[place] += y
    return total[inner(space, padding)]


# -- the primitives ----------------------------------------------------------------------------------------------------


def _pool_spec(x: TensorSpec, *, ksize: Ints, strides: Ints, padding: Pads) -> TensorSpec:
    out = out_space(tuple(x.shape[1:-1]), ksize, strides, padding, (1,) * len(ksize), "pool")
    return TensorSpec((x.shape[0], *out, x.shape[-1]), x.dtype)


def _merged(op: Op, flags: tuple[bool, ...], inputs: tuple[Tensor, ...], attrs: dict[str, Any]) -> Tensor:
    """The extra axis joins the batch axis."""
    size = batching.batch_size(flags, inputs)
    return from_batch(apply(op, *map(into_batch, batching.all_batched(flags, inputs)), **attrs), size)


_PLAIN: dict[str, Any] = {"ksize": (2, 2), "strides": (2, 2), "padding": ((0, 0), (0, 0))}
_OVERLAP: dict[str, Any] = {"ksize": (3,), "strides": (2,), "padding": ((1, 1),)}

# With the winners fixed, max pooling is linear: `pool_take` reads the winning taps, `pool_put` sends cotangents back to them.
POOL_TAKE: Op = multilinear(
    "pool_take", "x tap", _pool_take_impl,
    lambda ct, x_spec, tap, attrs: apply(POOL_PUT, ct, tap, space=tuple(x_spec.shape[1:-1]), **attrs),
    None,
    infer=lambda x, tap, **geometry: TensorSpec(tap.shape, x.dtype),
    batch=_merged,
    samples=lambda: [
        Sample(normal(2, 4, 4, 2), integers(4, 2, 2, 2, 2), **_PLAIN),
        Sample(normal(1, 5, 2), integers(3, 1, 3, 2), **_OVERLAP),
    ],
)  # fmt: skip
POOL_PUT: Op = multilinear(
    "pool_put", "y tap", _pool_put_impl,
    lambda ct, tap, attrs: apply(POOL_TAKE, ct, tap, **without(attrs, "space")),
    None,
    infer=lambda y, tap, *, space, **geometry: TensorSpec((y.shape[0], *space, y.shape[-1]), y.dtype),
    batch=_merged,
    samples=lambda: [
        Sample(normal(2, 2, 2, 2), integers(4, 2, 2, 2, 2), space=(4, 5), **_PLAIN),
        Sample(normal(1, 3, 2), integers(3, 1, 3, 2), space=(5,), **_OVERLAP),
    ],
)  # fmt: skip
POOL_WINNER: Op = nondiff(
    "pool_winner", "x out", _winner_impl,
    infer=lambda x, out, *, ksize, **geometry: TensorSpec(out.shape, "uint8" if np.prod(ksize) < 256 else "int32"),
    reason="positions have no derivative", batch=_merged,
    call=lambda x, **geometry: apply(POOL_WINNER, convert(x), apply(MAX_POOL, convert(x), **geometry), **geometry),
    samples=lambda: [Sample(spread(2, 4, 4, 2), **_PLAIN), Sample(spread(1, 5, 2), **_OVERLAP)],
)  # fmt: skip

MAX_POOL: Op = general(
    "max_pool", "x", _max_pool_impl,
    vjps=(
        lambda ct, x, out, attrs: apply(
            POOL_PUT, ct, apply(POOL_WINNER, x, out, **attrs), space=tuple(x.shape[1:-1]), **attrs
        ),
    ),
    jvps=(lambda t, x, out, attrs: apply(POOL_TAKE, t, apply(POOL_WINNER, x, out, **attrs), **attrs),),
    infer=_pool_spec, batch=_merged,
    samples=lambda: [
        Sample(spread(2, 4, 4, 2), **_PLAIN),
        Sample(spread(1, 5, 2), **_OVERLAP),
        Sample(np.ones((1, 4, 1)), kinks=True, **_OVERLAP),
        Sample(normal(0, 4, 4, 1), **_PLAIN),
    ],
)  # fmt: skip
# Sums, not averages: how many elements a window has depends on its place only, and is a constant factor behind.
POOL_SUM: Op = linear(
    "pool_sum", "x", _pool_sum_impl,
    lambda ct, x_spec, attrs: apply(POOL_SPREAD, ct, space=tuple(x_spec.shape[1:-1]), **attrs),
    infer=_pool_spec, batch=_merged, memory=Memory.FRESH,
    samples=lambda: [Sample(normal(2, 4, 4, 2), **_PLAIN), Sample(normal(1, 5, 2), **_OVERLAP)],
)  # fmt: skip
POOL_SPREAD: Op = linear(
    "pool_spread", "y", _pool_spread_impl,
    lambda ct, attrs: apply(POOL_SUM, ct, **without(attrs, "space")),
    infer=lambda y, *, space, **geometry: TensorSpec((y.shape[0], *space, y.shape[-1]), y.dtype),
    batch=_merged, memory=Memory.FRESH,
    samples=lambda: [Sample(normal(2, 2, 2, 2), space=(4, 5), **_PLAIN), Sample(normal(1, 3, 2), space=(5,), **_OVERLAP)],
)  # fmt: skip

# -- the public functions ----------------------------------------------------------------------------------------------


def pooled(
    x: TensorLike, ksize: Integers, strides: Integers, padding: Padding, data_format: str | None, rank: int, average: bool,
    op: str,
) -> Tensor:  # fmt: skip
    """Maxima or averages of windows."""
    x = real_numbers(x, "input", op)
    x = real_floats(x, "input", op) if average or not x.dtype.is_integer else x
    if x.ndim < rank + 2:
        raise InvalidArgumentError(f"{op}: the input needs rank {rank + 2}, got shape {tuple(x.shape)}")
    first = channels_first(data_format, rank, op)
    ksize = per_axis(ksize, rank, first, op, "ksize")
    strides = per_axis(strides, rank, first, op, "strides")
    source, lead = to_channels_last(x, first, rank)
    space = tuple(source.shape)[1:-1]
    padding = _window_pads(padding, space, ksize, strides, first, op)
    geometry: dict[str, Any] = {"ksize": ksize, "strides": strides, "padding": padding}
    if average:
        out = apply(POOL_SUM, source, **geometry) * _share(space, source.dtype, **geometry)
    else:
        out = apply(MAX_POOL, source, **geometry)
    return from_channels_last(out, first, rank, lead)


def _window_pads(padding: Padding, space: Ints, ksize: Ints, strides: Ints, first: bool, op: str) -> Pads:
    """Padding with which every window holds an element of the input."""
    ones = (1,) * len(space)
    pairs = pads(padding, space, ksize, strides, ones, first, op)
    out_space(space, ksize, strides, pairs, ones, op)
    if any(side >= k for pair, k in zip(pairs, ksize, strict=True) for side in pair if side.__class__ is int):
        raise InvalidArgumentError(f"{op}: padding must be smaller than ksize {ksize}, got {list(pairs)}")
    return pairs


def _share(space: Ints, dtype: DType, ksize: Ints, strides: Ints, padding: Pads) -> Array | float:
    """One over the number of real elements in each window; a number when all windows are full."""
    if not any(low or high for low, high in padding):
        return 1.0 / float(np.prod(ksize))
    present = np.ones((1, *space, 1), dtype.dtype)
    counts = _pool_sum_impl(present, ksize=ksize, strides=strides, padding=padding)
    return 1.0 / np.maximum(counts, 1)


def _dimensions(x: TensorLike, data_format: str | None, op: str) -> int:
    """How many space axes: from the data format if it says so, else from the rank."""
    x = real_numbers(x, "input", op)
    rank = len(data_format) - 2 if isinstance(data_format, str) else x.ndim - 2
    if not 1 <= rank <= 3:
        raise InvalidArgumentError(f"{op}: the input needs rank 3, 4 or 5, got shape {tuple(x.shape)}")
    return rank


@composite(
    samples=lambda: [
        Sample(spread(1, 4, 4, 1), 2, 2, "VALID"),
        Sample(spread(1, 2, 5), [1, 1, 3], [1, 1, 2], "SAME", "NCW"),
        Sample(spread(1, 2, 3, 2, 1), 2, 1, "SAME"),
        Sample(normal(4, 4), 2, 2, "VALID", raises=(ValueError, "rank")),
    ]
)
def max_pool(
    input: TensorLike, ksize: Integers, strides: Integers, padding: str, data_format: str | None = None, name: str | None = None
) -> Tensor:
    """The largest element of each window, in as many dimensions as the input has space axes.

    >>> gt.nn.max_pool(gt.reshape(gt.range(4.0), (1, 4, 1)), 2, 2, "VALID").numpy().ravel()
    array([1., 3.], dtype=float32)
    """
    return pooled(input, ksize, strides, padding, data_format, _dimensions(input, data_format, "max_pool"), False, "max_pool")


@composite(
    samples=lambda: [
        Sample(normal(1, 4, 4, 2), 2, 2, "VALID"),
        Sample(normal(1, 2, 5), [1, 1, 3], [1, 1, 2], "SAME", "NCW"),
        Sample(normal(1, 2, 3, 2, 1), 2, 1, "SAME"),
        Sample(normal(4, 4), 2, 2, "VALID", raises=(ValueError, "rank")),
    ]
)
def avg_pool(
    input: TensorLike, ksize: Integers, strides: Integers, padding: str, data_format: str | None = None, name: str | None = None
) -> Tensor:
    """The average of each window, padding not counted, in as many dimensions as the input has space axes.

    >>> gt.nn.avg_pool(gt.ones((1, 3, 1)), 2, 1, "SAME").numpy().ravel()
    array([1., 1., 1.], dtype=float32)
    """
    return pooled(input, ksize, strides, padding, data_format, _dimensions(input, data_format, "avg_pool"), True, "avg_pool")


@composite(samples=lambda: [Sample(spread(2, 5, 1), 2, 2, "SAME"), Sample(spread(1, 2, 5), 3, 1, "VALID", "NCW")])
def max_pool1d(
    input: TensorLike, ksize: Integers, strides: Integers, padding: str, data_format: str = "NWC", name: str | None = None
) -> Tensor:
    """The largest element of each window of a (batch, width, channels) tensor."""
    return pooled(input, ksize, strides, padding, data_format, 1, False, "max_pool1d")


@composite(
    samples=lambda: [
        Sample(spread(1, 5, 4, 1), 2, 2, "SAME"),
        Sample(spread(1, 2, 4, 4), [1, 1, 3, 2], [1, 1, 1, 2], "VALID", "NCHW"),
        Sample(spread(1, 3, 3, 1), 2, 2, [[0, 0], [1, 0], [0, 1], [0, 0]]),
        Sample(normal(1, 3, 3, 1), 4, 1, "VALID", raises=(ValueError, "does not fit")),
        Sample(normal(1, 3, 3, 1), [2, 2, 2, 2], 1, "VALID", raises=(ValueError, "ksize")),
    ]
)
def max_pool2d(
    input: TensorLike, ksize: Integers, strides: Integers, padding: Padding, data_format: str = "NHWC", name: str | None = None
) -> Tensor:
    """The largest element of each window of a (batch, height, width, channels) tensor.

    >>> gt.nn.max_pool2d(gt.reshape(gt.range(4.0), (1, 2, 2, 1)), 2, 2, "VALID").numpy().ravel()
    array([3.], dtype=float32)
    """
    return pooled(input, ksize, strides, padding, data_format, 2, False, "max_pool2d")


@composite(samples=lambda: [Sample(spread(1, 3, 2, 2, 1), 2, 1, "SAME")])
def max_pool3d(
    input: TensorLike, ksize: Integers, strides: Integers, padding: str, data_format: str = "NDHWC", name: str | None = None
) -> Tensor:
    """The largest element of each window of a (batch, depth, height, width, channels) tensor."""
    return pooled(input, ksize, strides, padding, data_format, 3, False, "max_pool3d")


@composite(samples=lambda: [Sample(normal(2, 5, 1), 2, 2, "SAME"), Sample(normal(1, 2, 5), 3, 1, "VALID", "NCW")])
def avg_pool1d(
    input: TensorLike, ksize: Integers, strides: Integers, padding: str, data_format: str = "NWC", name: str | None = None
) -> Tensor:
    """The average of each window of a (batch, width, channels) tensor."""
    return pooled(input, ksize, strides, padding, data_format, 1, True, "avg_pool1d")


@composite(
    samples=lambda: [
        Sample(normal(1, 5, 4, 2), 2, 2, "SAME"),
        Sample(normal(1, 2, 4, 4), [1, 1, 3, 2], [1, 1, 1, 2], "VALID", "NCHW"),
        Sample(normal(1, 3, 3), 2, 1, "VALID", raises=(ValueError, "rank")),
    ]
)
def avg_pool2d(
    input: TensorLike, ksize: Integers, strides: Integers, padding: str, data_format: str = "NHWC", name: str | None = None
) -> Tensor:
    """The average of each window of a (batch, height, width, channels) tensor, padding not counted.

    >>> gt.nn.avg_pool2d(gt.ones((1, 4, 4, 1)), ksize=2, strides=2, padding="VALID").shape
    TensorShape([1, 2, 2, 1])
    """
    return pooled(input, ksize, strides, padding, data_format, 2, True, "avg_pool2d")


@composite(samples=lambda: [Sample(normal(1, 3, 2, 2, 1), 2, 1, "SAME")])
def avg_pool3d(
    input: TensorLike, ksize: Integers, strides: Integers, padding: str, data_format: str = "NDHWC", name: str | None = None
) -> Tensor:
    """The average of each window of a (batch, depth, height, width, channels) tensor."""
    return pooled(input, ksize, strides, padding, data_format, 3, True, "avg_pool3d")


@composite(
    samples=lambda: [
        Sample(spread(2, 4, 4, 2), 2, 2, "VALID"),
        Sample(spread(1, 5, 3, 1), [1, 3, 2, 1], [1, 2, 1, 1], "SAME"),
        Sample(normal(1, 3, 3, 1), 2, 1, "VALID", "NCHW", raises=(ValueError, "NHWC")),
        Sample(normal(3, 3, 1), 2, 1, "VALID", raises=(ValueError, "rank 4")),
    ]
)
def max_pool_with_argmax(
    input: TensorLike, ksize: Integers, strides: Integers, padding: str, data_format: str = "NHWC",
    output_dtype: DTypeLike = int64, include_batch_in_index: bool = False, name: str | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """The largest elements of each window, and where they stand: flat indices (row·width + column)·channels + channel of
    each image, or of the whole batch with `include_batch_in_index`.

    >>> values, places = gt.nn.max_pool_with_argmax(gt.reshape(gt.range(4.0), (1, 2, 2, 1)), 2, 2, "VALID")
    >>> float(values[0, 0, 0, 0]), int(places[0, 0, 0, 0])
    (3.0, 3)
    """
    op = "max_pool_with_argmax"
    x = of_rank(real_floats(input, "input", op), 4, "input", op, most=4)
    if data_format != "NHWC":
        raise InvalidArgumentError(f"{op}: data_format must be 'NHWC', got {data_format!r}")
    if (places_dtype := dtype_of(output_dtype, "output_dtype", op)).name not in ("int32", "int64"):
        raise InvalidArgumentError(f"{op}: output_dtype must be int32 or int64, got {places_dtype.name}")
    ksize, strides = (per_axis(v, 2, False, op, n) for v, n in ((ksize, "ksize"), (strides, "strides")))
    space = tuple(x.shape)[1:-1]
    pads = _window_pads(padding, space, ksize, strides, False, op)
    geometry: dict[str, Any] = {"ksize": ksize, "strides": strides, "padding": pads}
    out = apply(MAX_POOL, x, **geometry)
    tap = cast(apply(POOL_WINNER, stop_gradient(x), stop_gradient(out), **geometry), "int64")
    # which element of the image a tap of a window is
    row = grid(out.shape[1], 0, 3) * strides[0] - pads[0][0] + tap // ksize[1]
    column = grid(out.shape[2], 1, 3) * strides[1] - pads[1][0] + tap % ksize[1]
    places = (row * space[1] + column) * x.shape[3] + grid(x.shape[3], 2, 3)
    if include_batch_in_index:
        places = places + grid(x.shape[0], 0, 4) * (space[0] * space[1] * x.shape[3])
    return out, cast(places, places_dtype)


OPS = (POOL_TAKE, POOL_PUT, POOL_WINNER, MAX_POOL, POOL_SUM, POOL_SPREAD)

from gradtape.ops.create import grid
from gradtape.ops.elementwise import cast
from gradtape.ops.stop import stop_gradient

__all__ = [
    "avg_pool", "avg_pool1d", "avg_pool2d", "avg_pool3d", "max_pool", "max_pool1d", "max_pool2d", "max_pool3d",
    "max_pool_with_argmax",
]  # fmt: skip
