"""Keras's `image` functions that resize, blur and change colours: the mathematics is that of `gt.image`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keras.src import backend

from gradtape.core.tensor import Tensor
from gradtape.core.typing import TensorLike
from gradtape.keras.core_ops import cast, convert_to_tensor
from gradtape.keras.nn_windows import depthwise_conv
from gradtape.keras.numpy_types import floating, on_tensors as np
from gradtape.ops.colours import GREY, hue_parts, hue_range, mixed, saturation_of
from gradtape.ops.elementwise import abs as magnitude, exp
from gradtape.ops.reduce import reduce_sum
from gradtape.ops.resizing import KERNELS, along_axis, axis_weights, nearest_along
from gradtape.ops.select import clip_by_value, mod, round as rounded, where
from gradtape.ops.shape import expand_dims, reshape, squeeze, stack, transpose, unstack

RESIZE_INTERPOLATIONS = ("bilinear", "nearest", "lanczos3", "lanczos5", "bicubic")


def check_rank(images: Tensor) -> None:
    """Images come alone or in batches."""
    if images.ndim not in (3, 4):
        raise ValueError(
            "Invalid images rank: expected rank 3 (single image) or rank 4 (batch of images). "
            f"Received input with shape: images.shape={tuple(images.shape)}"
        )


def _channels(data_format: str | None) -> int:
    return -1 if backend.standardize_data_format(data_format) == "channels_last" else -3


# -- colours ---------------------------------------------------------------------------------------------------------------


def rgb_to_grayscale(images: TensorLike, data_format: str | None = None) -> Tensor:
    x = convert_to_tensor(images)
    axis = _channels(data_format)
    check_rank(x)
    if x.shape[axis] not in (1, 3):
        raise ValueError(
            f"Invalid channel size: expected 3 (RGB) or 1 (Grayscale). Received input with shape: images.shape={tuple(x.shape)}"
        )
    if x.shape[axis] == 1:
        return x
    return cast(expand_dims(mixed(floating(x), GREY, axis), axis), x.dtype)


def _planes(images: TensorLike, data_format: str | None) -> tuple[list[Tensor], int]:
    x = convert_to_tensor(images)
    check_rank(x)
    if not x.dtype.is_floating:
        raise ValueError(f"Invalid images dtype: expected float dtype. Received: images.dtype={x.dtype.name}")
    axis = _channels(data_format)
    return list(unstack(x, axis=axis)), axis


def rgb_to_hsv(images: TensorLike, data_format: str | None = None) -> Tensor:
    planes, axis = _planes(images, data_format)
    tiny = 1e-7 if planes[0].dtype.name == "float32" else 1e-3
    r, g, b = (where(magnitude(p) < tiny, cast(0.0, p.dtype), p) for p in planes)
    hue, low, value = hue_range(r, g, b)
    return stack([hue, saturation_of(low, value), value], axis=axis)


def hsv_to_rgb(images: TensorLike, data_format: str | None = None) -> Tensor:
    (hue, saturation, value), axis = _planes(images, data_format)
    parts = hue_parts(mod(hue, cast(1.0, hue.dtype)))
    return stack([value * (1.0 - saturation + saturation * part) for part in parts], axis=axis)


# -- sizes -----------------------------------------------------------------------------------------------------------------


_METHODS = {"linear": "bilinear", "cubic": "bicubic", "trilinear": "bilinear", "tricubic": "bicubic"}  # older names


def resize(
    images: TensorLike, size: Sequence[int], interpolation: str = "bilinear", antialias: bool = False,
    crop_to_aspect_ratio: bool = False, pad_to_aspect_ratio: bool = False, fill_mode: str = "constant", fill_value: float = 0.0,
    data_format: str | None = None,
) -> Tensor:  # fmt: skip
    x = convert_to_tensor(images)
    if interpolation not in RESIZE_INTERPOLATIONS:
        raise ValueError(
            f"Invalid value for argument `interpolation`. Expected of one {RESIZE_INTERPOLATIONS}. "
            f"Received: interpolation={interpolation}"
        )
    if fill_mode != "constant":
        raise ValueError(
            f"Invalid value for argument `fill_mode`. Only `'constant'` is supported. Received: fill_mode={fill_mode}"
        )
    if pad_to_aspect_ratio and crop_to_aspect_ratio:
        raise ValueError("Only one of `pad_to_aspect_ratio` & `crop_to_aspect_ratio` can be `True`.")
    if len(size) != 2:
        raise ValueError(f"Argument `size` must be a tuple of two elements (height, width). Received: size={size}")
    check_rank(x)
    first = x.ndim - 3 if _channels(data_format) == -1 else x.ndim - 2
    wanted = (int(size[0]), int(size[1]))
    if crop_to_aspect_ratio or pad_to_aspect_ratio:
        x = _of_ratio(x, first, wanted, crop_to_aspect_ratio, fill_value)
    kept = x.dtype
    if interpolation == "nearest":
        for axis, count in zip((first, first + 1), wanted, strict=True):
            x = nearest_along(x, axis, count)
        return x
    wide = cast(x, "float32") if not kept.is_floating or kept.name in ("float16", "bfloat16") else x
    for axis, count in zip((first, first + 1), wanted, strict=True):
        old = int(wide.shape[axis])
        if old != count:
            weights = axis_weights(old, count, count / old, 0.0, KERNELS[interpolation], antialias)
            wide = along_axis(wide, axis, weights)
    if kept.is_floating:
        return cast(wide, kept)
    return cast(clip_by_value(rounded(wide), float(kept.min), float(kept.max)), kept)


def _of_ratio(x: Tensor, first: int, wanted: tuple[int, int], crop: bool, fill_value: float) -> Tensor:
    """The middle of the image, or the image in the middle, with the ratio of the new size."""
    height, width = int(x.shape[first]), int(x.shape[first + 1])
    sides = (int(width * wanted[0] / wanted[1]), int(height * wanted[1] / wanted[0]))
    if crop:
        tall, wide = max(min(height, sides[0]), 1), max(min(width, sides[1]), 1)
        top, left = int((height - tall) / 2), int((width - wide) / 2)
        return x[(slice(None),) * first + (slice(top, top + tall), slice(left, left + wide))]
    above, beside = int((max(height, sides[0]) - height) / 2), int((max(width, sides[1]) - width) / 2)
    ends = [(0, 0)] * x.ndim
    if above > 0:
        ends[first] = (above, above)
    elif beside > 0:
        ends[first + 1] = (beside, beside)
    return np.pad(x, ends, constant_values=fill_value)


def scale_and_translate(
    images: TensorLike, output_shape: Sequence[int], scale: TensorLike, translation: TensorLike, spatial_dims: Sequence[int],
    method: str, antialias: bool = True,
) -> Tensor:  # fmt: skip
    methods = {*RESIZE_INTERPOLATIONS, *_METHODS} - {"nearest"}
    if method not in methods:
        raise ValueError(f"Invalid value for argument `method`. Expected of one {methods}. Received: method={method}")
    kernel = KERNELS[_METHODS.get(method, method)]
    x = floating(images)
    factors, shifts = cast(scale, "float32"), cast(translation, "float32")
    for i, axis in enumerate(spatial_dims):
        place = axis % x.ndim
        sizes = int(x.shape[place]), int(output_shape[place])
        x = along_axis(x, place, axis_weights(*sizes, factors[i], shifts[i], kernel, antialias))
    return x


# -- filters ---------------------------------------------------------------------------------------------------------------


def _filtered(images: Tensor, kernel: Tensor, data_format: str | None) -> Tensor:
    """The same window (height, width) over every channel."""
    first = backend.standardize_data_format(data_format) == "channels_first"
    x = transpose(images, (0, 2, 3, 1)) if first else images
    window = reshape(kernel, (*kernel.shape, 1, 1))
    each = np.repeat(window, int(x.shape[-1]), axis=2)
    out = depthwise_conv(x, each, 1, "same", "channels_last")
    return transpose(out, (0, 3, 1, 2)) if first else out


def gaussian_blur(
    images: TensorLike, kernel_size: Sequence[int] = (3, 3), sigma: Any = (1.0, 1.0), data_format: str | None = None
) -> Tensor:
    x = convert_to_tensor(images)
    check_rank(x)
    widths = convert_to_tensor(sigma, x.dtype)

    def bell(size: int, width: Tensor) -> Tensor:
        places = convert_to_tensor(np.arange(size) - (size - 1) / 2, x.dtype) / width
        values = exp(-0.5 * places * places)
        return values / reduce_sum(values)

    across, down = bell(int(kernel_size[0]), widths[0]), bell(int(kernel_size[1]), widths[1])
    kernel = expand_dims(down, 1) * expand_dims(across, 0)
    batch = x if x.ndim == 4 else expand_dims(x, 0)
    out = _filtered(batch, kernel, data_format)
    return out if x.ndim == 4 else squeeze(out, 0)


def sobel_edges(images: TensorLike, data_format: str | None = None) -> Tensor:
    x = floating(images)
    across = convert_to_tensor([[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]], x.dtype)
    return stack([_filtered(x, transpose(across), data_format), _filtered(x, across, data_format)], axis=-1)
