"""Convolutions (cross-correlations, as neural networks mean them) in any number of space dimensions.

Three multilinear primitives on channels-last arrays, each the adjoint of the others, so derivatives of any order close
on themselves: `conv` (x, w), `conv_input` (ct, w) and `conv_filter` (x, ct). Windows are laid out as the rows of one matrix
(a strided view, copied once) and multiplied by BLAS; only `conv_input` loops, over the taps of the window.
The public functions translate data formats, strides and padding; see `windows.py`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradtape.errors import InvalidArgumentError
from gradtape.ir.types import TensorSpec
from gradtape.ops import batching
from gradtape.ops.dispatch import apply, promote
from gradtape.ops.opdef import Sample, composite, multilinear
from gradtape.ops.sampling import normal
from gradtape.ops.windows import (
    Ints, Pads, channels_first, from_channels_last, inner, out_space, padded, padded_space, pads, per_axis, taps,
    to_channels_last, window_view,
)  # fmt: skip

# -- the three maps on bare arrays -------------------------------------------------------------------------------------


def _rows(x: Any, kernel: Ints, out: Ints, strides: Ints, padding: Pads, dilations: Ints, groups: int) -> Any:
    """Every window as a row: (positions, window·channels), or (groups, positions, window·channels of the group)."""
    view = window_view(padded(x, padding), kernel, strides, dilations, out)
    count, area, channels = x.shape[0] * math.prod(out), math.prod(kernel), x.shape[-1]
    if groups == 1:
        return view.reshape(count, area * channels)
    split = view.reshape(count, area, groups, channels // groups)
    return split.transpose(2, 0, 1, 3).reshape(groups, count, area * (channels // groups))


def _split(ct: Any, groups: int) -> Any:
    """(batch, *out, channels) as (groups, positions, channels of the group)."""
    rows = ct.reshape(math.prod(ct.shape[:-1]), groups, ct.shape[-1] // groups)
    return rows.transpose(1, 0, 2)


def _matrices(w: Any, groups: int) -> Any:
    """The filter as one matrix (window·channels, out channels) per group."""
    inner_size = math.prod(w.shape[:-1])
    return w.reshape(inner_size, groups, w.shape[-1] // groups).transpose(1, 0, 2)


def _conv_impl(x: Any, w: Any, *, strides: Ints, padding: Pads, dilations: Ints, groups: int) -> Any:
    kernel = w.shape[:-2]
    out = out_space(x.shape[1:-1], kernel, strides, padding, dilations, "conv")
    shape = (x.shape[0], *out, w.shape[-1])
    if groups > 1 and w.shape[-2] == 1:
        return _depthwise(x, w, out, strides, padding, dilations)
    rows = _rows(x, kernel, out, strides, padding, dilations, groups)
    if groups == 1:
        return (rows @ w.reshape(math.prod(w.shape[:-1]), w.shape[-1])).reshape(shape)
    return (rows @ _matrices(w, groups)).transpose(1, 0, 2).reshape(shape)


def _depthwise(x: Any, w: Any, out: Ints, strides: Ints, padding: Pads, dilations: Ints) -> Any:
    """One input channel per group: a matrix product would have a single column, so sum over the taps instead."""
    source = padded(x, padding)
    channels = x.shape[-1]
    many = w.shape[-1] // channels
    total = np.zeros((x.shape[0], *out, channels, many), np.result_type(x, w))
    for tap, place in taps(w.shape[:-2], strides, dilations, out):
        total += source[place][..., None] * w[tap].reshape(channels, many)
    return total.reshape(*total.shape[:-2], channels * many)


def _conv_input_impl(
    ct: Any, w: Any, *, space: Ints, strides: Ints, padding: Pads, dilations: Ints, groups: int
) -> Any:
    kernel, out, batch = w.shape[:-2], ct.shape[1:-1], ct.shape[0]
    own = w.shape[-2]
    total = np.zeros((batch, *padded_space(space, padding), own * groups), np.result_type(ct, w))
    positions = (batch, *out, own * groups)
    if groups == 1:
        rows = ct.reshape(math.prod(ct.shape[:-1]), ct.shape[-1])
        for tap, place in taps(kernel, strides, dilations, out):
            total[place] += (rows @ w[tap].T).reshape(positions)
    elif own == 1:
        split = ct.reshape(*ct.shape[:-1], groups, ct.shape[-1] // groups)
        for tap, place in taps(kernel, strides, dilations, out):
            total[place] += np.einsum("...gm,gm->...g", split, w[tap].reshape(groups, -1))
    else:
        split = _split(ct, groups)
        for tap, place in taps(kernel, strides, dilations, out):
            matrix = w[tap].reshape(own, groups, -1).transpose(1, 2, 0)
            total[place] += (split @ matrix).transpose(1, 0, 2).reshape(positions)
    return total[inner(space, padding)]


def _conv_filter_impl(
    x: Any, ct: Any, *, kernel: Ints, strides: Ints, padding: Pads, dilations: Ints, groups: int
) -> Any:
    out = ct.shape[1:-1]
    shape = (*kernel, x.shape[-1] // groups, ct.shape[-1])
    if groups > 1 and shape[-2] == 1:
        source = padded(x, padding)
        split = ct.reshape(math.prod(ct.shape[:-1]), groups, ct.shape[-1] // groups)
        total = np.empty((*kernel, groups, split.shape[-1]), np.result_type(x, ct))
        for tap, place in taps(kernel, strides, dilations, out):
            total[tap] = np.einsum("pg,pgm->gm", source[place].reshape(len(split), groups), split)
        return total.reshape(shape)
    rows = _rows(x, kernel, out, strides, padding, dilations, groups)
    if groups == 1:
        return (rows.T @ ct.reshape(len(rows), ct.shape[-1])).reshape(shape)
    product = rows.transpose(0, 2, 1) @ _split(ct, groups)  # (groups, window·channels, out channels of the group)
    return product.transpose(1, 0, 2).reshape(shape)


# -- their types -------------------------------------------------------------------------------------------------------


def _conv_spec(x: TensorSpec, w: TensorSpec, *, strides: Ints, padding: Pads, dilations: Ints, groups: int) -> TensorSpec:
    out = out_space(tuple(x.shape[1:-1]), tuple(w.shape[:-2]), strides, padding, dilations, "conv")
    return TensorSpec((x.shape[0], *out, w.shape[-1]), x.dtype)


def _input_spec(ct: TensorSpec, w: TensorSpec, *, space: Ints, groups: int, **geometry: Any) -> TensorSpec:
    return TensorSpec((ct.shape[0], *space, w.shape[-2] * groups), ct.dtype)


def _filter_spec(x: TensorSpec, ct: TensorSpec, *, kernel: Ints, groups: int, **geometry: Any) -> TensorSpec:
    return TensorSpec((*kernel, x.shape[-1] // groups, ct.shape[-1]), x.dtype)


# -- batching: an extra axis joins the batch where it can, else the channels as more groups ------------------------------


def _into_batch(x: Any) -> Any:
    dims = tuple(int(d) for d in x.shape)
    return reshape(x, (dims[0] * dims[1], *dims[2:]))


def _from_batch(x: Any, size: int) -> Any:
    dims = tuple(int(d) for d in x.shape)
    return reshape(x, (size, dims[0] // size, *dims[1:]))


def _into_channels(x: Any, groups: int) -> Any:
    """(size, ..., groups·c) to (..., groups·size·c): behind the groups, before the channels of each group."""
    dims = tuple(int(d) for d in x.shape)
    x = reshape(x, (*dims[:-1], groups, dims[-1] // groups))
    return reshape(transpose(x, (*range(1, x.ndim - 1), 0, x.ndim - 1)), (*dims[1:-1], dims[0] * dims[-1]))


def _from_channels(x: Any, size: int, groups: int) -> Any:
    dims = tuple(int(d) for d in x.shape)
    x = reshape(x, (*dims[:-1], groups, size, dims[-1] // (size * groups)))
    order = (x.ndim - 2, *range(x.ndim - 2), x.ndim - 1)
    return reshape(transpose(x, order), (size, *dims[:-1], dims[-1] // size))


def _batch_conv(op: Any, flags: Any, inputs: Any, attrs: Any) -> Any:
    size, groups = batching.batch_size(flags, inputs), attrs["groups"]
    first, second = inputs
    if op is not CONV_FILTER and not flags[1]:
        return _from_batch(apply(op, _into_batch(first), second, **attrs), size)
    if op is not CONV_INPUT and not flags[0]:  # more out channels in each group
        return _from_channels(apply(op, first, _into_channels(second, groups), **attrs), size, groups)
    first, second = batching.all_batched(flags, inputs)
    more = dict(attrs, groups=groups * size)
    return _from_channels(apply(op, _into_channels(first, 1), _into_channels(second, 1), **more), size, 1)


# -- the primitives ----------------------------------------------------------------------------------------------------

_UNIT = {"strides": (1, 1), "padding": ((0, 0), (0, 0)), "dilations": (1, 1), "groups": 1}
_ODD = {"strides": (2, 1), "padding": ((1, 0), (2, 1)), "dilations": (1, 2), "groups": 1}
_GROUPED = {"strides": (2,), "padding": ((1, 1),), "dilations": (1,), "groups": 2}

CONV = multilinear(
    "conv",
    "x w",
    _conv_impl,
    lambda ct, x_spec, w, strides, padding, dilations, groups: apply(
        CONV_INPUT, ct, w, space=tuple(x_spec.shape[1:-1]), strides=strides, padding=padding, dilations=dilations, groups=groups
    ),
    lambda ct, x, w_spec, strides, padding, dilations, groups: apply(
        CONV_FILTER, x, ct, kernel=tuple(w_spec.shape[:-2]), strides=strides, padding=padding, dilations=dilations, groups=groups
    ),
    infer=_conv_spec,
    batch=_batch_conv,
    samples=lambda: [
        Sample(normal(2, 4, 5, 2), normal(3, 2, 2, 3), **_UNIT),
        Sample(normal(1, 5, 4, 2), normal(2, 3, 2, 1), **_ODD),
        Sample(normal(2, 5, 4), normal(3, 2, 6), **_GROUPED),
        Sample(normal(2, 5, 2), normal(3, 1, 4), **_GROUPED),
        Sample(normal(0, 3, 3, 1), normal(2, 2, 1, 1), **_UNIT),
        Sample(normal(1, 2, 2, 1), normal(3, 1, 1, 1), raises=(ValueError, "does not fit"), **_UNIT),
    ],
)
CONV_INPUT = multilinear(
    "conv_input",
    "ct w",
    _conv_input_impl,
    lambda ct, w, strides, padding, dilations, groups: apply(
        CONV, ct, w, strides=strides, padding=padding, dilations=dilations, groups=groups
    ),
    lambda ct, w_spec, ct_in, strides, padding, dilations, groups: ct,
    infer=_input_spec,
    batch=_batch_conv,
    samples=lambda: [
        Sample(normal(2, 2, 4, 3), normal(3, 2, 2, 3), space=(4, 5), **_UNIT),
        Sample(normal(1, 3, 3, 1), normal(2, 3, 2, 1), space=(5, 4), **_ODD),
        Sample(normal(2, 3, 6), normal(3, 2, 6), space=(5,), **_GROUPED),
        Sample(normal(2, 3, 4), normal(3, 1, 4), space=(5,), **_GROUPED),
    ],
)
CONV_FILTER = multilinear(
    "conv_filter",
    "x ct",
    _conv_filter_impl,
    lambda ct: ct,
    lambda ct: ct,
    infer=_filter_spec,
    batch=_batch_conv,
)
