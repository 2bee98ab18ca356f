"""Geometry of sliding windows, shared by convolutions and pooling: strides, padding, data formats, taps.

Everything works on channels-last arrays (batch, *space, channels) with any number of space axes. A tap is one position
inside the window; the elements it meets form a strided slice of the padded input, so loops run over taps, never over
pixels or batch entries.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterator
from typing import Any

import numpy as np

from gradtape.core.tensor import Tensor
from gradtape.core.typing import Array, Integers, Padding
from gradtape.errors import InvalidArgumentError, OpError
from gradtape.ir.polynomial import maximum as larger
from gradtape.ops.create import is_symbolic, sizes

Ints = tuple[int, ...]
Pads = tuple[tuple[int, int], ...]
_LAST = ("", "NWC", "NHWC", "NDHWC")
_FIRST = ("", "NCW", "NCHW", "NCDHW")


# -- arguments of the public functions ---------------------------------------------------------------------------------


def channels_first(data_format: str | None, rank: int, op: str) -> bool:
    """Whether the data format (None: channels last) puts the channels before the `rank` space axes."""
    if data_format is None or data_format == _LAST[rank]:
        return False
    if data_format == _FIRST[rank]:
        return True
    raise InvalidArgumentError(f"{op}: data_format must be {_LAST[rank]!r} or {_FIRST[rank]!r}, got {data_format!r}")


def per_axis(value: Integers | None, rank: int, first: bool, op: str, what: str) -> Ints:
    """A stride, dilation or window size for each space axis, from one number, `rank` numbers, or a full list."""
    if value is None:
        return (1,) * rank
    parts = sizes(value, what, op)
    if what == "dilations":  # they decide how the code of a convolution looks
        parts = tuple(operator.index(p) for p in parts)
    if len(parts) == 1:
        parts *= rank
    elif len(parts) == rank + 2:
        outer = parts[:2] if first else (parts[0], parts[-1])
        if is_symbolic(outer):
            raise InvalidArgumentError(f"{op}: {what} that only run time knows are given for the {rank} space axes alone")
        if outer != (1, 1):
            raise InvalidArgumentError(f"{op}: {what} must be 1 for the batch and channel axes, got {list(parts)}")
        parts = parts[2:] if first else parts[1:-1]
    if len(parts) != rank:
        raise InvalidArgumentError(f"{op}: {what} needs 1, {rank} or {rank + 2} numbers, got {list(parts)}")
    if any(p < 1 for p in parts if p.__class__ is int):
        raise InvalidArgumentError(f"{op}: {what} must be positive, got {list(parts)}")
    return parts


def pads(padding: Padding, space: Ints, kernel: Ints, strides: Ints, dilations: Ints, first: bool, op: str) -> Pads:
    """Padding before and after each space axis: "SAME", "VALID", or an explicit list with an entry for every axis."""
    if isinstance(padding, str):
        if padding.upper() == "VALID":
            return ((0, 0),) * len(space)
        if padding.upper() == "SAME":
            return tuple(map(_same, space, kernel, strides, dilations))
        if padding.upper() != "EXPLICIT":
            raise InvalidArgumentError(f'{op}: padding must be "SAME", "VALID" or a list of pairs, got {padding!r}')
    rows: Any = padding
    try:
        pairs = [(operator.index(low), operator.index(high)) for low, high in rows]
    except OpError:  # it says itself why it has no value
        raise
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f'{op}: padding must be "SAME", "VALID" or a list of pairs, got {padding!r}') from error
    if len(pairs) == len(space) + 2:
        outer = pairs[:2] if first else [pairs[0], pairs[-1]]
        if any(pair != (0, 0) for pair in outer):
            raise InvalidArgumentError(f"{op}: the batch and channel axes cannot be padded, got {pairs}")
        pairs = pairs[2:] if first else pairs[1:-1]
    if len(pairs) != len(space) or any(low < 0 or high < 0 for low, high in pairs):
        raise InvalidArgumentError(f"{op}: explicit padding needs one non-negative pair for each axis, got {padding!r}")
    return tuple(pairs)


def _same(size: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    out = -(-size // stride)
    extra = larger((out - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
    return extra // 2, extra - extra // 2


def out_space(space: Ints, kernel: Ints, strides: Ints, padding: Pads, dilations: Ints, op: str) -> Ints:
    """How many window positions fit along each axis."""
    places = []
    for size, k, s, (low, high), d in zip(space, kernel, strides, padding, dilations, strict=True):
        reach = (k - 1) * d + 1
        if k == 0:
            raise InvalidArgumentError(f"{op}: a filter of size {tuple(kernel)} has no elements")
        if size + low + high < reach:
            raise InvalidArgumentError(
                f"{op}: a window that reaches over {reach} elements does not fit into an axis of {size} padded by "
                f"{(low, high)}; use padding='SAME' or a smaller window"
            )
        places.append((size + low + high - reach) // s + 1)
    return tuple(places)


# -- on bare arrays ----------------------------------------------------------------------------------------------------


def padded(x: Array, padding: Pads, value: float = 0) -> Array:
    """A channels-last array with its space axes padded by `value`."""
    if not any(low or high for low, high in padding):
        return x
    shape = (x.shape[0], *(n + low + high for n, (low, high) in zip(x.shape[1:-1], padding, strict=True)), x.shape[-1])
    out = np.full(shape, value, x.dtype) if value else np.zeros(shape, x.dtype)
    out[inner(x.shape[1:-1], padding)] = x
    return out


def inner(space: Ints, padding: Pads) -> tuple[slice, ...]:
    """Where the unpadded array lies inside the padded one."""
    return (slice(None), *(slice(low, low + n) for n, (low, _) in zip(space, padding, strict=True)), slice(None))


def window_rows(x: Array, kernel: Ints, strides: Ints, dilations: Ints, out: Ints) -> Array:
    """All windows of a padded array as the rows of a matrix: (batch·out, kernel·channels)."""
    channels = x.shape[-1]
    shape = (x.shape[0] * math.prod(out), math.prod(kernel) * channels)
    if dilations[-1] > 1 or math.prod(kernel) == 1 or not x.size:
        return _window_view(x, kernel, strides, dilations, out).reshape(shape)
    # a window's elements along the last space axis lie side by side: copy each run as one opaque item
    x = np.ascontiguousarray(x)
    item = np.dtype((np.void, kernel[-1] * channels * x.itemsize))
    steps = x.strides[1:-1]
    runs = np.ndarray(
        (x.shape[0], *out, *kernel[:-1]),
        item,
        x,
        strides=(
            x.strides[0],
            *(a * s for a, s in zip(steps, strides, strict=True)),
            *(a * d for a, d in zip(steps[:-1], dilations[:-1], strict=True)),
        ),
    )
    return runs.copy(order="C").view(x.dtype).reshape(shape)


def _window_view(x: Array, kernel: Ints, strides: Ints, dilations: Ints, out: Ints) -> Array:
    """All windows of a padded array as a view (batch, *out, *kernel, channels)."""
    steps = x.strides[1:-1]
    return np.lib.stride_tricks.as_strided(
        x,
        (x.shape[0], *out, *kernel, x.shape[-1]),
        (
            x.strides[0],
            *(a * s for a, s in zip(steps, strides, strict=True)),
            *(a * d for a, d in zip(steps, dilations, strict=True)),
            x.strides[-1],
        ),
        writeable=False,
    )


def taps(kernel: Ints, strides: Ints, dilations: Ints, out: Ints) -> Iterator[tuple[Ints, tuple[slice, ...]]]:
    """Each position in the window, with the slice of the padded array that all windows meet there."""
    for tap in itertools.product(*map(range, kernel)):
        yield (
            tap,
            (
                slice(None),
                *(slice(t * d, t * d + (n - 1) * s + 1, s) for t, s, d, n in zip(tap, strides, dilations, out, strict=True)),
                slice(None),
            ),
        )


def padded_space(space: Ints, padding: Pads) -> Ints:
    """The sizes of the space axes with their padding."""
    return tuple(n + low + high for n, (low, high) in zip(space, padding, strict=True))


def without(attrs: dict[str, Any], name: str) -> dict[str, Any]:
    """The geometry of a map, for its adjoint, which finds one of the sizes itself."""
    return {key: value for key, value in attrs.items() if key != name}


# -- layout, on tensors ------------------------------------------------------------------------------------------------


def to_channels_last(x: Tensor, first: bool, rank: int) -> tuple[Any, tuple[Any, ...]]:
    """(batch, *space, channels) from any number of batch axes in either layout, and the batch axes to restore."""
    lead = tuple(x.shape)[: x.ndim - rank - 1]
    if len(lead) != 1:
        x = reshape(x, (math.prod(lead), *tuple(x.shape)[len(lead) :]))
    if first:
        x = transpose(x, (0, *range(2, rank + 2), 1))
    return x, lead


def from_channels_last(x: Tensor, first: bool, rank: int, lead: tuple[Any, ...]) -> Tensor:
    """The inverse of `to_channels_last` for a result."""
    if first:
        x = transpose(x, (0, rank + 1, *range(1, rank + 1)))
    return x if len(lead) == 1 else reshape(x, (*lead, *tuple(x.shape)[1:]))


def into_batch(x: Tensor) -> Tensor:
    """The axis of a batch of tensors and their own first one as one."""
    dims = tuple(x.shape)
    return reshape(x, (dims[0] * dims[1], *dims[2:]))


def from_batch(x: Tensor, size: int) -> Tensor:
    """The inverse of `into_batch` for a result."""
    dims = tuple(x.shape)
    return reshape(x, (size, dims[0] // size, *dims[1:]))


from gradtape.ops.shape import reshape, transpose
