"""Keras's `nn` functions on windows of images: convolutions, pooling, folding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from keras.src import backend
from keras.src.backend.common import backend_utils

from gradtape.core.dispatch import apply
from gradtape.core.tensor import Tensor
from gradtape.core.typing import TensorLike
from gradtape.keras.core_ops import convert_to_tensor
from gradtape.keras.numpy_types import floating, promoted_floats
from gradtape.ops.contract import tensordot
from gradtape.ops.conv import CONV_INPUT, convolution
from gradtape.ops.extending import pad
from gradtape.ops.index import gather
from gradtape.ops.pool import avg_pool as engine_average_pool, max_pool as engine_max_pool
from gradtape.ops.reduce import reduce_max
from gradtape.ops.shape import reshape, transpose

_FORMATS = {
    "channels_last": {1: "NWC", 2: "NHWC", 3: "NDHWC"},
    "channels_first": {1: "NCW", 2: "NCHW", 3: "NCDHW"},
}


def _format(data_format: str | None, rank: int) -> tuple[str, str]:
    """Keras's name of a layout, and the engine's."""
    name = backend.standardize_data_format(data_format)
    return name, _FORMATS[name][rank]


def _each(value: Any, rank: int) -> tuple[int, ...]:
    return (value,) * rank if isinstance(value, int) else tuple(value)


# -- pooling ---------------------------------------------------------------------------------------------------------------


def max_pool(
    inputs: TensorLike, pool_size: Any, strides: Any = None, padding: str = "valid", data_format: str | None = None
) -> Tensor:
    return _pooled(engine_max_pool, convert_to_tensor(inputs), pool_size, strides, padding, data_format)


def average_pool(
    inputs: TensorLike, pool_size: Any, strides: Any = None, padding: str = "valid", data_format: str | None = None
) -> Tensor:
    return _pooled(engine_average_pool, floating(inputs), pool_size, strides, padding, data_format)


def _pooled(
    rule: Callable[..., Tensor], x: Tensor, pool_size: Any, strides: Any, padding: str, data_format: str | None
) -> Tensor:
    if padding not in ("same", "valid"):
        raise ValueError(f"Invalid padding '{padding}', must be 'same' or 'valid'.")
    rank = x.ndim - 2
    window = _each(pool_size, rank)
    steps = window if strides is None else _each(strides, rank)
    return rule(x, window, steps, padding.upper(), _format(data_format, rank)[1])


def _bounds(size: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Where the windows of an adaptive pooling begin and end: they cover the axis and may overlap."""
    places = np.arange(count)
    return places * size // count, -((-(places + 1) * size) // count)


def _adaptive(x: TensorLike, output_size: Any, data_format: str | None, along: Callable[[Tensor, int, int], Tensor]) -> Tensor:
    tensor = floating(x)
    rank = tensor.ndim - 2
    first = backend.standardize_data_format(data_format) == "channels_first"
    for i, count in enumerate(_each(output_size, rank)):
        tensor = along(tensor, i + (2 if first else 1), count)
    return tensor


def adaptive_average_pool(inputs: TensorLike, output_size: Any, data_format: str | None = None) -> Tensor:
    """Each axis by itself is a product with a matrix of averages."""

    def along(x: Tensor, axis: int, count: int) -> Tensor:
        size = int(x.shape[axis])
        starts, ends = _bounds(size, count)
        places = np.arange(size)
        inside = (places >= starts[:, None]) & (places < ends[:, None])
        averages = inside / (ends - starts)[:, None]
        moved = tensordot(x, convert_to_tensor(averages, x.dtype), [[axis], [1]])
        order = [*range(axis), x.ndim - 1, *range(axis, x.ndim - 1)]
        return transpose(moved, order)

    return _adaptive(inputs, output_size, data_format, along)


def adaptive_max_pool(inputs: TensorLike, output_size: Any, data_format: str | None = None) -> Tensor:
    def along(x: Tensor, axis: int, count: int) -> Tensor:
        starts, ends = _bounds(int(x.shape[axis]), count)
        longest = int((ends - starts).max())
        places = np.minimum(starts[:, None] + np.arange(longest), ends[:, None] - 1)  # short windows repeat their last
        return reduce_max(gather(x, convert_to_tensor(places, "int32"), axis=axis), axis + 1)

    return _adaptive(inputs, output_size, data_format, along)


# -- convolutions ----------------------------------------------------------------------------------------------------------


def conv(
    inputs: TensorLike, kernel: TensorLike, strides: Any = 1, padding: str = "valid", data_format: str | None = None,
    dilation_rate: Any = 1,
) -> Tensor:  # fmt: skip
    x, w = promoted_floats(inputs, kernel)
    rank = x.ndim - 2
    name, layout = _format(data_format, rank)
    channels = x.shape[-1] if name == "channels_last" else x.shape[1]
    if channels % w.shape[-2]:
        raise ValueError(
            "The number of input channels must be evenly divisible by kernel's in_channels. "
            f"Received input channels {channels} and kernel in_channels {w.shape[-2]}. "
        )
    _not_empty(x, w, _each(strides, rank), padding, name, _each(dilation_rate, rank))
    return convolution(x, w, _each(strides, rank), padding.upper(), layout, _each(dilation_rate, rank))


def _not_empty(x: Tensor, w: Tensor, strides: Any, padding: str, name: str, dilations: Any) -> None:
    space = x.shape[1:-1] if name == "channels_last" else x.shape[2:]
    for size, width, rate in zip(space, w.shape[:-2], dilations, strict=True):
        if padding == "valid" and isinstance(size, int) and size and size < rate * (width - 1) + 1:
            raise ValueError(
                "The convolution operation resulted in an empty output. This can happen if the input is too small for the "
                "given kernel size, strides, dilation rate, and padding mode. Please check the input shape and convolution "
                "parameters."
            )


def depthwise_conv(
    inputs: TensorLike, kernel: TensorLike, strides: Any = 1, padding: str = "valid", data_format: str | None = None,
    dilation_rate: Any = 1,
) -> Tensor:  # fmt: skip
    x, w = promoted_floats(inputs, kernel)
    rank = x.ndim - 2
    name, layout = _format(data_format, rank)
    _check_channels(x, w, name)
    each = reshape(w, (*w.shape[:-2], 1, w.shape[-2] * w.shape[-1]))  # a group for each channel
    return convolution(x, each, _each(strides, rank), padding.upper(), layout, _each(dilation_rate, rank))


def _check_channels(x: Tensor, w: Tensor, name: str) -> None:
    check = getattr(backend_utils, "check_conv_input_channels", None)  # since Keras 3.13
    if check is not None:
        check(x, w, name)


def separable_conv(
    inputs: TensorLike, depthwise_kernel: TensorLike, pointwise_kernel: TensorLike, strides: Any = 1, padding: str = "valid",
    data_format: str | None = None, dilation_rate: Any = 1,
) -> Tensor:  # fmt: skip
    between = depthwise_conv(inputs, depthwise_kernel, strides, padding, data_format, dilation_rate)
    return conv(between, pointwise_kernel, 1, "valid", data_format)


def conv_transpose(
    inputs: TensorLike, kernel: TensorLike, strides: Any = 1, padding: str = "valid", output_padding: Any = None,
    data_format: str | None = None, dilation_rate: Any = 1,
) -> Tensor:  # fmt: skip
    """The adjoint of a convolution: Keras says how much of its full result is cut off, or added, at each end."""
    x, w = promoted_floats(inputs, kernel)
    rank = x.ndim - 2
    name, _ = _format(data_format, rank)
    check = getattr(backend_utils, "check_conv_transpose_input_channels", None)
    if check is not None:
        check(x, w, name)
    ends = backend_utils.compute_conv_transpose_padding_args_for_jax(
        input_shape=tuple(x.shape), kernel_shape=tuple(w.shape), strides=strides, padding=padding,
        output_padding=output_padding, dilation_rate=dilation_rate,
    )  # fmt: skip
    if name == "channels_first":
        x = transpose(x, (0, *range(2, x.ndim), 1))
    steps, rates = _each(strides, rank), _each(dilation_rate, rank)
    space, cuts, added = [], [], []
    for size, width, step, rate, (left, right) in zip(x.shape[1:-1], w.shape[:-2], steps, rates, ends, strict=True):
        reach = rate * (width - 1)
        low, high = reach - left, reach - right
        cuts.append((max(low, 0), max(high, 0)))
        added.append((max(-low, 0), max(-high, 0)))
        space.append((size - 1) * step + reach + 1 - max(low, 0) - max(high, 0))
    out = apply(CONV_INPUT, x, w, space=tuple(space), strides=steps, padding=tuple(cuts), dilations=rates, groups=1)
    if any(any(pair) for pair in added):
        out = pad(out, [[0, 0], *added, [0, 0]])
    return transpose(out, (0, out.ndim - 1, *range(1, out.ndim - 1))) if name == "channels_first" else out


# -- folding ---------------------------------------------------------------------------------------------------------------


def unfold(input: TensorLike, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """The windows of images (N, C, H, W) as columns (N, C·kH·kW, L)."""
    x = convert_to_tensor(input)
    height, width = _each(kernel_size, 2)
    (dh, dw), (ph, pw), (sh, sw) = _each(dilation, 2), _each(padding, 2), _each(stride, 2)
    x = pad(x, [[0, 0], [0, 0], [ph, ph], [pw, pw]])
    n, c, rows, columns = x.shape
    down = (rows - dh * (height - 1) - 1) // sh + 1
    across = (columns - dw * (width - 1) - 1) // sw + 1
    i = np.arange(height)[:, None] * dh + np.arange(down) * sh
    j = np.arange(width)[:, None] * dw + np.arange(across) * sw
    parts = gather(x, convert_to_tensor(i, "int32"), axis=2)  # n c kh down w
    parts = gather(parts, convert_to_tensor(j, "int32"), axis=4)  # n c kh down kw across
    return reshape(transpose(parts, (0, 1, 2, 4, 3, 5)), (n, c * height * width, down * across))


def fold(x: TensorLike, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """The adjoint of `unfold`: overlapping windows add up. It is a transposed convolution with unit windows."""
    columns = floating(x)
    rows, width = _each(output_size, 2)
    (kh, kw), (dh, dw), (ph, pw), (sh, sw) = (_each(v, 2) for v in (kernel_size, dilation, padding, stride))
    n = columns.shape[0]
    down = (rows + 2 * ph - dh * (kh - 1) - 1) // sh + 1
    across = (width + 2 * pw - dw * (kw - 1) - 1) // sw + 1
    channels = columns.shape[1] // (kh * kw)
    parts = reshape(columns, (n * channels, kh * kw, down, across))
    parts = transpose(parts, (0, 2, 3, 1))
    unit = convert_to_tensor(np.eye(kh * kw).reshape(kh, kw, 1, kh * kw), columns.dtype)
    out = apply(
        CONV_INPUT, parts, unit, space=(rows, width), strides=(sh, sw), padding=((ph, ph), (pw, pw)), dilations=(dh, dw),
        groups=1,
    )  # fmt: skip
    return reshape(out, (n, channels, rows, width))


def depth_to_space(x: TensorLike, block_size: int, data_format: str = "channels_last") -> Tensor:
    tensor = convert_to_tensor(x)
    b = block_size
    if data_format == "channels_last":
        n, h, w, c = tensor.shape
        parts = transpose(reshape(tensor, (n, h, w, b, b, c // b**2)), (0, 1, 3, 2, 4, 5))
        return reshape(parts, (n, h * b, w * b, c // b**2))
    n, c, h, w = tensor.shape
    parts = transpose(reshape(tensor, (n, c // b**2, b, b, h, w)), (0, 1, 4, 2, 5, 3))
    return reshape(parts, (n, c // b**2, h * b, w * b))


def space_to_depth(x: TensorLike, block_size: int, data_format: str = "channels_last") -> Tensor:
    tensor = convert_to_tensor(x)
    b = block_size
    if data_format == "channels_last":
        n, h, w, c = tensor.shape
        parts = transpose(reshape(tensor, (n, h // b, b, w // b, b, c)), (0, 1, 3, 2, 4, 5))
        return reshape(parts, (n, h // b, w // b, c * b**2))
    n, c, h, w = tensor.shape
    parts = transpose(reshape(tensor, (n, c, h // b, b, w // b, b)), (0, 1, 3, 5, 2, 4))
    return reshape(parts, (n, c * b**2, h // b, w // b))
