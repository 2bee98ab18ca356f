"""Convolutions (cross-correlations, as neural networks mean them) in any number of space dimensions.

Three multilinear primitives on channels-last arrays, each the adjoint of the others, so derivatives of any order close
on themselves: `conv` (x, w), `conv_input` (y, w) and `conv_filter` (x, y). Windows are laid out as the rows of one matrix
(a strided view, copied once) and multiplied by BLAS; only `conv_input` loops, over the taps of the window.
The public functions translate data formats, strides and padding; see `windows.py`.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from gradtape.core import batching
from gradtape.core.arguments import promoted, real_floats, real_numbers
from gradtape.core.bfloat16 import rounded_once
from gradtape.core.dispatch import apply, convert
from gradtape.core.forms import heavy
from gradtape.core.opdef import Op, Sample, composite, multilinear
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Array, Integers, Padding, Shape, TensorLike
from gradtape.errors import InvalidArgumentError, StaticDimensionNeeded
from gradtape.ir.types import TensorSpec
from gradtape.ops.create import sizes
from gradtape.ops.sampling import normal
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
    window_rows,
    without,
)

# -- the three maps on bare arrays -------------------------------------------------------------------------------------


def _rows(x: Array, kernel: Ints, out: Ints, strides: Ints, padding: Pads, dilations: Ints, groups: int) -> Array:
    """Every window as a row: (positions, window·channels), or (groups, positions, window·channels of the group)."""
    count, area, channels = x.shape[0] * math.prod(out), math.prod(kernel), x.shape[-1]
    rows = window_rows(padded(x, padding), kernel, strides, dilations, out)
    if groups == 1:
        return rows
    split = rows.reshape(count, area, groups, channels // groups)
    return split.transpose(2, 0, 1, 3).reshape(groups, count, area * (channels // groups))


_BLOCK = 1 << 20  # bytes of windows laid out at a time: they stay in the cache, and large images in memory


def _blocks(batch: int, entry_bytes: int) -> list[slice]:
    """The batch cut into pieces of about `_BLOCK` bytes, at least one entry each."""
    step = max(_BLOCK // max(entry_bytes, 1), 1)
    return [slice(i, i + step) for i in range(0, batch, step)] or [slice(0, 0)]


def _split(ct: Array, groups: int) -> Array:
    """(batch, *out, channels) as (groups, positions, channels of the group)."""
    rows = ct.reshape(math.prod(ct.shape[:-1]), groups, ct.shape[-1] // groups)
    return rows.transpose(1, 0, 2)


def _matrices(w: Array, groups: int) -> Array:
    """The filter as one matrix (window·channels, out channels) per group."""
    inner_size = math.prod(w.shape[:-1])
    return w.reshape(inner_size, groups, w.shape[-1] // groups).transpose(1, 0, 2)


LARGE_FILTER = 1 << 18  # elements


def _is_blas(channels: int, taps: int, groups: int) -> bool:
    """Whether nearly all of the time goes into large products, which BLAS does no slower than a program of ours: a filter that
    the nearest caches do not hold."""
    return groups == 1 and channels * taps > LARGE_FILTER


def _large_filter(x: Array, w: Array, *, groups: int, **geometry: Any) -> bool:
    return _is_blas(w.shape[-2] * w.shape[-1], math.prod(w.shape[:-2]), groups)


def _large_result(x: Array, y: Array, *, kernel: Ints, groups: int, **geometry: Any) -> bool:
    return _is_blas(x.shape[-1] * y.shape[-1], math.prod(kernel), groups)


@heavy("conv", unless=_large_filter)
@rounded_once
def _conv_impl(x: Array, w: Array, *, strides: Ints, padding: Pads, dilations: Ints, groups: int) -> Array:
    kernel = w.shape[:-2]
    out = out_space(x.shape[1:-1], kernel, strides, padding, dilations, "conv")
    if groups > 1 and w.shape[-2] == 1:
        return _depthwise(x, w, out, strides, padding, dilations)
    matrices = _matrices(w, groups)
    total = np.empty((x.shape[0], *out, w.shape[-1]), np.result_type(x, w))
    for block in _blocks(x.shape[0], math.prod(out) * math.prod(kernel) * x.shape[-1] * x.itemsize):
        part = total[block]
        rows = _rows(x[block], kernel, out, strides, padding, dilations, groups)
        if groups == 1:
            np.matmul(rows, matrices[0], out=part.reshape(len(rows), w.shape[-1]))
        else:
            part[...] = (rows @ matrices).transpose(1, 0, 2).reshape(part.shape)
    return total


def _depthwise(x: Array, w: Array, out: Ints, strides: Ints, padding: Pads, dilations: Ints) -> Array:
    """One input channel per group: a matrix product would have a single column, so sum over the taps instead."""
    source = padded(x, padding)
    channels = x.shape[-1]
    many = w.shape[-1] // channels
    total = np.zeros((x.shape[0], *out, channels, many), np.result_type(x, w))
    for tap, place in taps(w.shape[:-2], strides, dilations, out):
        total += source[place][..., None] * w[tap].reshape(channels, many)
    return total.reshape(*total.shape[:-2], channels * many)


@heavy("conv_input", unless=_large_filter)
@rounded_once
def _conv_input_impl(y: Array, w: Array, *, space: Ints, strides: Ints, padding: Pads, dilations: Ints, groups: int) -> Array:
    total = np.zeros((y.shape[0], *padded_space(space, padding), w.shape[-2] * groups), np.result_type(y, w))
    entry_bytes = (math.prod(total.shape[1:]) + math.prod(y.shape[1:])) * total.itemsize
    for block in _blocks(y.shape[0], entry_bytes):
        _add_taps(total[block], y[block], w, strides, dilations, groups)
    return total[inner(space, padding)]


def _add_taps(total: Array, y: Array, w: Array, strides: Ints, dilations: Ints, groups: int) -> None:
    """Add to the padded input what each tap of the window sends back to it."""
    kernel, out, own = w.shape[:-2], y.shape[1:-1], w.shape[-2]
    positions = (*y.shape[:-1], own * groups)
    if groups == 1:
        rows = y.reshape(math.prod(y.shape[:-1]), y.shape[-1])
        for tap, place in taps(kernel, strides, dilations, out):
            total[place] += (rows @ w[tap].T).reshape(positions)
    elif own == 1:
        split = y.reshape(*y.shape[:-1], groups, y.shape[-1] // groups)
        for tap, place in taps(kernel, strides, dilations, out):
            total[place] += np.einsum("...gm,gm->...g", split, w[tap].reshape(groups, -1))
    else:
        split = _split(y, groups)
        for tap, place in taps(kernel, strides, dilations, out):
            matrix = w[tap].reshape(own, groups, -1).transpose(1, 2, 0)
            total[place] += (split @ matrix).transpose(1, 0, 2).reshape(positions)


@heavy("conv_filter", unless=_large_result)
@rounded_once
def _conv_filter_impl(x: Array, y: Array, *, kernel: Ints, strides: Ints, padding: Pads, dilations: Ints, groups: int) -> Array:
    out = y.shape[1:-1]
    shape = (*kernel, x.shape[-1] // groups, y.shape[-1])
    if groups > 1 and shape[-2] == 1:
        source = padded(x, padding)
        split = y.reshape(math.prod(y.shape[:-1]), groups, y.shape[-1] // groups)
        total = np.empty((*kernel, groups, split.shape[-1]), np.result_type(x, y))
        for tap, place in taps(kernel, strides, dilations, out):
            total[tap] = np.einsum("pg,pgm->gm", source[place].reshape(len(split), groups), split)
        return total.reshape(shape)
    # (groups, window·channels of the group, out channels of the group)
    product = np.zeros((groups, math.prod(shape[:-1]), shape[-1] // groups), np.result_type(x, y))
    for block in _blocks(x.shape[0], math.prod(out) * math.prod(kernel) * x.shape[-1] * x.itemsize):
        rows = _rows(x[block], kernel, out, strides, padding, dilations, groups)
        if groups == 1:
            product[0] += rows.T @ y[block].reshape(len(rows), shape[-1])
        else:
            product += rows.transpose(0, 2, 1) @ _split(y[block], groups)
    return product.transpose(1, 0, 2).reshape(shape)


# -- their types -------------------------------------------------------------------------------------------------------


def _conv_spec(x: TensorSpec, w: TensorSpec, *, strides: Ints, padding: Pads, dilations: Ints, groups: int) -> TensorSpec:
    out = out_space(tuple(x.shape[1:-1]), tuple(w.shape[:-2]), strides, padding, dilations, "conv")
    return TensorSpec((x.shape[0], *out, w.shape[-1]), x.dtype)


def _input_spec(y: TensorSpec, w: TensorSpec, *, space: Ints, groups: int, **geometry: Any) -> TensorSpec:
    return TensorSpec((y.shape[0], *space, w.shape[-2] * groups), y.dtype)


def _filter_spec(x: TensorSpec, y: TensorSpec, *, kernel: Ints, groups: int, **geometry: Any) -> TensorSpec:
    return TensorSpec((*kernel, x.shape[-1] // groups, y.shape[-1]), x.dtype)


# -- batching: an extra axis joins the batch where it can, else the channels as more groups ------------------------------


def _into_channels(x: Tensor, groups: int) -> Tensor:
    """(size, ..., groups·c) to (..., groups·size·c): behind the groups, before the channels of each group."""
    dims = tuple(x.shape)
    x = reshape(x, (*dims[:-1], groups, dims[-1] // groups))
    return reshape(transpose(x, (*range(1, x.ndim - 1), 0, x.ndim - 1)), (*dims[1:-1], dims[0] * dims[-1]))


def _from_channels(x: Tensor, size: int, groups: int) -> Tensor:
    dims = tuple(x.shape)
    x = reshape(x, (*dims[:-1], groups, size, dims[-1] // (size * groups)))
    order = (x.ndim - 2, *range(x.ndim - 2), x.ndim - 1)
    return reshape(transpose(x, order), (size, *dims[:-1], dims[-1] // size))


def _batch_conv(op: Op, flags: tuple[bool, ...], inputs: tuple[Tensor, ...], attrs: dict[str, Any]) -> Tensor:
    size, groups = batching.batch_size(flags, inputs), attrs["groups"]
    first, second = inputs
    if op is not CONV_FILTER and not flags[1]:
        return from_batch(apply(op, into_batch(first), second, **attrs), size)
    if op is not CONV_INPUT and not flags[0]:  # more out channels in each group
        return _from_channels(apply(op, first, _into_channels(second, groups), **attrs), size, groups)
    first, second = batching.all_batched(flags, inputs)
    more = dict(attrs, groups=groups * size)
    return _from_channels(apply(op, _into_channels(first, 1), _into_channels(second, 1), **more), size, 1)


# -- the primitives ----------------------------------------------------------------------------------------------------

_UNIT: dict[str, Any] = {"strides": (1, 1), "padding": ((0, 0), (0, 0)), "dilations": (1, 1), "groups": 1}
_ODD: dict[str, Any] = {"strides": (2, 1), "padding": ((1, 0), (2, 1)), "dilations": (1, 2), "groups": 1}
_GROUPED: dict[str, Any] = {"strides": (2,), "padding": ((1, 1),), "dilations": (1,), "groups": 2}

CONV: Op = multilinear(
    "conv", "x w", _conv_impl,
    lambda ct, x_spec, w, attrs: apply(CONV_INPUT, ct, w, space=tuple(x_spec.shape[1:-1]), **attrs),
    lambda ct, x, w_spec, attrs: apply(CONV_FILTER, x, ct, kernel=tuple(w_spec.shape[:-2]), **attrs),
    infer=_conv_spec, batch=_batch_conv,
    samples=lambda: [
        Sample(normal(2, 4, 5, 2), normal(3, 2, 2, 3), **_UNIT),
        Sample(normal(1, 5, 4, 2), normal(2, 3, 2, 1), **_ODD),
        Sample(normal(2, 5, 4), normal(3, 2, 6), **_GROUPED),
        Sample(normal(2, 5, 2), normal(3, 1, 4), **_GROUPED),
        Sample(normal(0, 3, 3, 1), normal(2, 2, 1, 1), **_UNIT),
        Sample(normal(1, 2, 2, 1), normal(3, 1, 1, 1), raises=(ValueError, "does not fit"), **_UNIT),
    ],
)  # fmt: skip
# y = conv(x, w) is linear in each: its adjoints in x and in w are maps of the same kind, and each is an adjoint of the others.
# So three primitives are closed under differentiation, at any order.
CONV_INPUT: Op = multilinear(
    "conv_input", "y w", _conv_input_impl,
    lambda ct, w, attrs: apply(CONV, ct, w, **without(attrs, "space")),
    lambda ct, y, w_spec, attrs: apply(CONV_FILTER, ct, y, kernel=tuple(w_spec.shape[:-2]), **without(attrs, "space")),
    infer=_input_spec, batch=_batch_conv,
    samples=lambda: [
        Sample(normal(2, 2, 4, 3), normal(3, 2, 2, 3), space=(4, 5), **_UNIT),
        Sample(normal(1, 3, 3, 1), normal(2, 3, 2, 1), space=(5, 4), **_ODD),
        Sample(normal(2, 3, 6), normal(3, 2, 6), space=(5,), **_GROUPED),
        Sample(normal(2, 3, 4), normal(3, 1, 4), space=(5,), **_GROUPED),
    ],
)  # fmt: skip
CONV_FILTER: Op = multilinear(
    "conv_filter", "x y", _conv_filter_impl,
    lambda ct, x_spec, y, attrs: apply(CONV_INPUT, y, ct, space=tuple(x_spec.shape[1:-1]), **without(attrs, "kernel")),
    lambda ct, x, attrs: apply(CONV, x, ct, **without(attrs, "kernel")),
    infer=_filter_spec, batch=_batch_conv,
    samples=lambda: [
        Sample(normal(2, 4, 5, 2), normal(2, 2, 4, 3), kernel=(3, 2), **_UNIT),
        Sample(normal(1, 5, 4, 2), normal(1, 3, 3, 1), kernel=(2, 3), **_ODD),
        Sample(normal(2, 5, 4), normal(2, 3, 6), kernel=(3,), **_GROUPED),
        Sample(normal(2, 5, 2), normal(2, 3, 4), kernel=(3,), **_GROUPED),
    ],
)  # fmt: skip


# -- the public functions ----------------------------------------------------------------------------------------------


def _checked(x: TensorLike, w: TensorLike, rank: int, op: str) -> tuple[Tensor, Tensor]:
    """Both operands as tensors of one real floating dtype, with ranks that fit."""
    x, w = promoted(op, input=x, filters=w)
    x, w = real_floats(x, "input", op), real_floats(w, "filters", op)
    if x.ndim < rank + 2 or w.ndim != rank + 2:
        raise InvalidArgumentError(
            f"{op}: the input needs rank {rank + 2} or more and the filter rank {rank + 2}, got shapes "
            f"{tuple(x.shape)} and {tuple(w.shape)}"
        )
    return x, w


def _convolve(
    x: TensorLike, w: TensorLike, strides: Integers | None, padding: Padding, data_format: str | None,
    dilations: Integers | None, rank: int, op: str,
) -> Tensor:  # fmt: skip
    x, w = _checked(x, w, rank, op)
    first = channels_first(data_format, rank, op)
    strides = per_axis(strides, rank, first, op, "strides")
    dilations = per_axis(dilations, rank, first, op, "dilations")
    source, lead = to_channels_last(x, first, rank)
    have, own, out = int(source.shape[-1]), int(w.shape[-2]), int(w.shape[-1])
    if not own or have % own or (have != own and out % (have // own)):
        raise InvalidArgumentError(
            f"{op}: an input with {have} channels (shape {tuple(x.shape)}, data_format {data_format!r}) does not fit a "
            f"filter of shape {tuple(w.shape)}: the filter's {own} input channels must divide {have}, and the number of "
            f"groups its {out} output channels"
        )
    space, kernel = tuple(source.shape)[1:-1], tuple(w.shape)[:-2]
    padding = pads(padding, space, kernel, strides, dilations, first, op)
    steps: tuple[Any, ...] = ()
    if is_symbolic(strides):  # every window position, of which run time takes some
        around = tuple(tuple(n if n.__class__ is int else extent_of(n) for n in pair) for pair in padding)
        source = apply(PAD, source, paddings=((0, 0), *around, (0, 0)))
        space, padding, steps, strides = tuple(source.shape)[1:-1], ((0, 0),) * rank, strides, (1,) * rank
    out_space(space, kernel, strides, padding, dilations, op)
    out = apply(CONV, source, w, strides=strides, padding=padding, dilations=dilations, groups=have // own)
    if steps:
        out = out[(slice(None), *(slice(None, None, convert(step)) for step in steps))]
    return from_channels_last(out, first, rank, lead)


@composite(
    samples=lambda: [
        Sample(normal(2, 5, 2), normal(3, 2, 2)),
        Sample(normal(1, 2, 6), normal(3, 2, 2), 2, "SAME", "NCW"),
        Sample(normal(1, 3, 3, 2, 1), normal(2, 2, 1, 1, 2), None, "VALID"),
        Sample(normal(1, 5), normal(3, 2, 2), raises=(ValueError, "rank")),
    ]
)
def convolution(
    input: TensorLike, filters: TensorLike, strides: Integers | None = None, padding: Padding = "VALID",
    data_format: str | None = None, dilations: Integers | None = None, name: str | None = None,
) -> Tensor:  # fmt: skip
    """Convolution in 1, 2 or 3 dimensions, told by the rank of the filter.

    >>> gt.nn.convolution(gt.ones((1, 4, 1)), gt.ones((2, 1, 1))).numpy().ravel()
    array([2., 2., 2.], dtype=float32)
    """
    filters = real_numbers(filters, "filters", "convolution")
    if not 3 <= filters.ndim <= 5:
        raise InvalidArgumentError(f"convolution: the filter needs rank 3, 4 or 5, got shape {tuple(filters.shape)}")
    return _convolve(input, filters, strides, padding, data_format, dilations, filters.ndim - 2, "convolution")


@composite(
    samples=lambda: [
        Sample(normal(2, 6, 2), normal(3, 2, 2), 2, "SAME"),
        Sample(normal(1, 2, 6), normal(2, 2, 1), 1, "VALID", "NCW", 2),
        Sample(normal(1, 6, 3), normal(2, 2, 1), 1, "VALID", raises=(ValueError, "3 channels")),
    ]
)
def conv1d(
    input: TensorLike, filters: TensorLike, stride: Integers, padding: Padding, data_format: str | None = "NWC",
    dilations: Integers | None = None, name: str | None = None,
) -> Tensor:  # fmt: skip
    """1-D convolution of (batch, width, in) with a filter (width, in, out).

    >>> gt.nn.conv1d(gt.ones((1, 4, 1)), gt.ones((3, 1, 1)), 1, "SAME").numpy().ravel()
    array([2., 3., 3., 2.], dtype=float32)
    """
    return _convolve(input, filters, stride, padding, data_format, dilations, 1, "conv1d")


@composite(
    samples=lambda: [
        Sample(normal(2, 4, 4, 2), normal(3, 3, 2, 3), 1, "SAME"),
        Sample(normal(1, 5, 4, 2), normal(3, 2, 2, 1), [1, 2, 1, 1], "VALID"),
        Sample(normal(1, 2, 5, 4), normal(3, 2, 2, 2), 2, "SAME", "NCHW"),
        Sample(normal(1, 5, 5, 1), normal(2, 2, 1, 2), [1], [[0, 0], [1, 0], [0, 2], [0, 0]], "NHWC", 2),
        Sample(normal(1, 3, 3, 4), normal(2, 2, 2, 4), 1, "VALID"),
        Sample(normal(2, 1, 3, 3, 1), normal(2, 2, 1, 2), 1, "VALID"),
        Sample(normal(1, 3, 3, 2), normal(2, 2, 3, 1), 1, "SAME", raises=(ValueError, "channels")),
        Sample(normal(1, 3, 3, 2), normal(2, 2, 2, 1), [1, 1, 1], "SAME", raises=(ValueError, "strides")),
        Sample(normal(1, 3, 3, 2), normal(2, 2, 2, 1), 0, "SAME", raises=(ValueError, "positive")),
        Sample(normal(1, 3, 3, 2), normal(2, 2, 2, 1), 1, "EVEN", raises=(ValueError, "padding")),
        Sample(normal(1, 3, 3, 2), normal(4, 2, 2, 1), 1, "VALID", raises=(ValueError, "does not fit")),
        Sample(normal(1, 3, 3, 2), normal(2, 2, 2, 1), 1, "SAME", "HWNC", raises=(ValueError, "data_format")),
    ]
)
def conv2d(
    input: TensorLike, filters: TensorLike, strides: Integers, padding: Padding, data_format: str | None = "NHWC",
    dilations: Integers | None = None, name: str | None = None,
) -> Tensor:  # fmt: skip
    """2-D convolution of (batch, height, width, in) with a filter (height, width, in, out).

    Padding is "SAME", "VALID" or a list of pairs. A filter with fewer input channels than the input makes groups.

    >>> gt.nn.conv2d(gt.ones((1, 3, 3, 1)), gt.ones((2, 2, 1, 1)), strides=1, padding="VALID").numpy()[0, ..., 0]
    array([[4., 4.],
           [4., 4.]], dtype=float32)
    """
    return _convolve(input, filters, strides, padding, data_format, dilations, 2, "conv2d")


@composite(samples=lambda: [Sample(normal(1, 3, 3, 2, 2), normal(2, 2, 1, 2, 1), [1, 1, 2, 1, 1], "SAME")])
def conv3d(
    input: TensorLike, filters: TensorLike, strides: Integers, padding: Padding, data_format: str | None = "NDHWC",
    dilations: Integers | None = None, name: str | None = None,
) -> Tensor:  # fmt: skip
    """3-D convolution of (batch, depth, height, width, in) with a filter (depth, height, width, in, out).

    >>> gt.nn.conv3d(gt.ones((1, 3, 3, 3, 1)), gt.ones((2, 2, 2, 1, 1)), strides=1, padding="VALID").shape
    TensorShape([1, 2, 2, 2, 1])
    """
    return _convolve(input, filters, strides, padding, data_format, dilations, 3, "conv3d")


def transposed(
    x: TensorLike, w: TensorLike, output_shape: Shape, strides: Integers, padding: Padding, data_format: str | None,
    dilations: Integers | None, rank: int, op: str,
) -> Tensor:  # fmt: skip
    """The adjoint of a convolution with respect to its input."""
    x, w = _checked(x, w, rank, op)
    first = channels_first(data_format, rank, op)
    strides = per_axis(strides, rank, first, op, "strides")
    dilations = per_axis(dilations, rank, first, op, "dilations")
    source, lead = to_channels_last(x, first, rank)
    asked = wanted = sizes(output_shape, "output_shape", op)
    if len(wanted) == x.ndim:
        wanted = wanted[len(lead) :]
        channels = operator.index(wanted[0] if first else wanted[-1])
        if channels != w.shape[-2]:
            raise InvalidArgumentError(
                f"{op}: output_shape {asked} asks for {channels} channels, the filter of shape {tuple(w.shape)} gives "
                f"{w.shape[-2]}"
            )
        wanted = wanted[1:] if first else wanted[:-1]
        if not fits(asked[: len(lead)], lead):
            raise InvalidArgumentError(f"{op}: output_shape {asked} asks for a batch of {asked[0]}, the input has {lead[0]}")
    if len(wanted) != rank or any(n < 0 for n in wanted if n.__class__ is int):
        raise InvalidArgumentError(f"{op}: output_shape needs {x.ndim} numbers, none of them negative, got {list(asked)}")
    if source.shape[-1] != w.shape[-1]:
        raise InvalidArgumentError(
            f"{op}: the filter (…, out, in) of shape {tuple(w.shape)} expects {w.shape[-1]} input channels, got an input of "
            f"shape {tuple(x.shape)} with {source.shape[-1]}"
        )
    kernel = tuple(w.shape)[:-2]
    padding = pads(padding, wanted, kernel, strides, dilations, first, op)
    expected = out_space(wanted, kernel, strides, padding, dilations, op)
    if expected != tuple(source.shape)[1:-1]:
        unknown = any(dim.__class__ is not int for dim in (*expected, *source.shape))
        raise (StaticDimensionNeeded if unknown else InvalidArgumentError)(
            f"{op}: a convolution of an output of size {wanted} has size {expected}, but the input to transpose has "
            f"{tuple(source.shape)[1:-1]}; change output_shape, strides or padding"
        )
    out = apply(CONV_INPUT, source, w, space=wanted, strides=strides, padding=padding, dilations=dilations, groups=1)
    return from_channels_last(out, first, rank, lead)


@composite(
    samples=lambda: [
        Sample(normal(1, 2, 2, 3), normal(3, 3, 2, 3), (1, 4, 4, 2), 2),
        Sample(normal(1, 3, 2, 2), normal(2, 2, 1, 3), (1, 1, 3, 3), 1, "VALID", "NCHW"),
        Sample(normal(1, 2, 2, 3), normal(3, 3, 2, 3), (1, 7, 4, 2), 2, raises=(ValueError, "output_shape")),
    ]
)
def conv2d_transpose(
    input: TensorLike, filters: TensorLike, output_shape: Shape, strides: Integers, padding: Padding = "SAME",
    data_format: str | None = "NHWC", dilations: Integers | None = None, name: str | None = None,
) -> Tensor:  # fmt: skip
    """The transpose of `conv2d` with respect to its input; the filter is (height, width, out, in).

    >>> gt.nn.conv2d_transpose(gt.ones((1, 1, 1, 1)), gt.ones((2, 2, 1, 1)), (1, 2, 2, 1), 2).numpy().ravel()
    array([1., 1., 1., 1.], dtype=float32)
    """
    return transposed(input, filters, output_shape, strides, padding, data_format, dilations, 2, "conv2d_transpose")


@composite(samples=lambda: [Sample(normal(1, 3, 2), normal(3, 1, 2), (1, 6, 1), 2)])
def conv1d_transpose(
    input: TensorLike, filters: TensorLike, output_shape: Shape, strides: Integers, padding: Padding = "SAME",
    data_format: str | None = "NWC", dilations: Integers | None = None, name: str | None = None,
) -> Tensor:  # fmt: skip
    """The transpose of `conv1d` with respect to its input; the filter is (width, out, in)."""
    return transposed(input, filters, output_shape, strides, padding, data_format, dilations, 1, "conv1d_transpose")


@composite(samples=lambda: [Sample(normal(1, 2, 1, 2, 2), normal(2, 2, 2, 1, 2), (1, 4, 2, 4, 1), 2)])
def conv3d_transpose(
    input: TensorLike, filters: TensorLike, output_shape: Shape, strides: Integers, padding: Padding = "SAME",
    data_format: str | None = "NDHWC", dilations: Integers | None = None, name: str | None = None,
) -> Tensor:  # fmt: skip
    """The transpose of `conv3d` with respect to its input; the filter is (depth, height, width, out, in)."""
    return transposed(input, filters, output_shape, strides, padding, data_format, dilations, 3, "conv3d_transpose")


@composite(
    samples=lambda: [
        Sample(normal(2, 4, 4, 2), normal(2, 3, 2, 2), [1, 1, 1, 1], "SAME"),
        Sample(normal(1, 2, 4, 4), normal(3, 3, 2, 1), [1, 1, 2, 2], "VALID", "NCHW"),
        Sample(normal(1, 4, 4, 2), normal(2, 2, 3, 1), [1, 1, 1, 1], "SAME", raises=(ValueError, "channels")),
    ]
)
def depthwise_conv2d(
    input: TensorLike, filter: TensorLike, strides: Integers, padding: Padding, data_format: str | None = None,
    dilations: Integers | None = None, name: str | None = None,
) -> Tensor:  # fmt: skip
    """Each input channel convolved with its own filters: (height, width, in, multiplier) gives in·multiplier channels.

    >>> gt.nn.depthwise_conv2d(gt.ones((1, 2, 2, 3)), gt.ones((2, 2, 3, 1)), [1, 1, 1, 1], "VALID").numpy().ravel()
    array([4., 4., 4.], dtype=float32)
    """
    x, w = _checked(input, filter, 2, "depthwise_conv2d")
    first = channels_first(data_format, 2, "depthwise_conv2d")
    height, width, channels, many = (int(d) for d in w.shape)
    if channels != x.shape[-3 if first else -1]:
        raise InvalidArgumentError(
            f"depthwise_conv2d: the filter of shape {tuple(w.shape)} is for {channels} channels, the input of shape "
            f"{tuple(x.shape)} has {x.shape[-3 if first else -1]}"
        )
    # as many groups as channels, each with one input channel
    grouped = reshape(w, (height, width, 1, channels * many))
    return _convolve(x, grouped, strides, padding, data_format, dilations, 2, "depthwise_conv2d")


@composite(samples=lambda: [Sample(normal(1, 3, 3, 2), normal(2, 2, 2, 2), normal(1, 1, 4, 2), [1, 1, 1, 1], "SAME")])
def separable_conv2d(
    input: TensorLike, depthwise_filter: TensorLike, pointwise_filter: TensorLike, strides: Integers, padding: Padding,
    data_format: str | None = None, dilations: Integers | None = None, name: str | None = None,
) -> Tensor:  # fmt: skip
    """A depthwise convolution followed by a 1×1 convolution that mixes the channels."""
    inner_result = depthwise_conv2d(input, depthwise_filter, strides, padding, data_format, dilations)
    return _convolve(inner_result, pointwise_filter, 1, "VALID", data_format, None, 2, "separable_conv2d")


OPS = (CONV, CONV_INPUT, CONV_FILTER)

from gradtape.ops.create import fits, is_symbolic
from gradtape.ops.padding import PAD
from gradtape.ops.shape import reshape, transpose
from gradtape.ops.staged import extent_of

__all__ = [
    "conv1d", "conv1d_transpose", "conv2d", "conv2d_transpose", "conv3d", "conv3d_transpose", "convolution",
    "depthwise_conv2d", "separable_conv2d",
]  # fmt: skip
