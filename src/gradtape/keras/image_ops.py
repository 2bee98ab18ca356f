"""Keras's `image` functions that resize, blur and change colours.

Resizing is linear in the image and separable: a matrix of weights for each axis, applied one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from keras.src import backend

from gradtape.core.tensor import Tensor
from gradtape.core.typing import TensorLike
from gradtape.keras.core_ops import cast, convert_to_tensor
from gradtape.keras.nn_windows import depthwise_conv
from gradtape.keras.numpy_types import floating, on_tensors as np
from gradtape.ops.compare import equal
from gradtape.ops.contract import tensordot
from gradtape.ops.elementwise import abs as magnitude, exp
from gradtape.ops.index import gather
from gradtape.ops.reduce import reduce_sum
from gradtape.ops.select import clip_by_value, maximum, minimum, mod, round as rounded, where
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
    wide = floating(x)
    grey = tensordot(wide, convert_to_tensor([0.2989, 0.5870, 0.1140], wide.dtype), [[axis % x.ndim], [0]])
    return cast(expand_dims(grey, axis), x.dtype)


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
    value = maximum(maximum(r, g), b)
    spread = value - minimum(minimum(r, g), b)
    grey = spread <= 0.0
    norm = 1.0 / (6.0 * where(grey, cast(1.0, r.dtype), spread))
    saturation = where(value > 0.0, spread / where(value > 0.0, value, cast(1.0, r.dtype)), cast(0.0, r.dtype))
    hue = where(equal(value, g), norm * (b - r) + 2.0 / 6.0, norm * (r - g) + 4.0 / 6.0)
    hue = where(equal(value, r), norm * (g - b), hue)
    hue = where(grey, cast(0.0, r.dtype), hue) + cast(hue < 0.0, r.dtype)
    return stack([hue, saturation, value], axis=axis)


def hsv_to_rgb(images: TensorLike, data_format: str | None = None) -> Tensor:
    (hue, saturation, value), axis = _planes(images, data_format)
    sixth = mod(hue, cast(1.0, hue.dtype)) * 6.0
    red = clip_by_value(magnitude(sixth - 3.0) - 1.0, 0.0, 1.0)
    green = clip_by_value(2.0 - magnitude(sixth - 2.0), 0.0, 1.0)
    blue = clip_by_value(2.0 - magnitude(sixth - 4.0), 0.0, 1.0)
    return stack([value * (1.0 - saturation + saturation * part) for part in (red, green, blue)], axis=axis)


# -- sizes -----------------------------------------------------------------------------------------------------------------


def _triangle(x: Any) -> Any:
    return np.maximum(1.0 - np.abs(x), 0.0)


def _cubic(x: Any) -> Any:
    """Keys' kernel with a = -1/2."""
    near = ((1.5 * x - 2.5) * x) * x + 1.0
    far = ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0
    return np.where(x >= 2.0, 0.0 * x, np.where(x >= 1.0, far, near))


def _lanczos(radius: float) -> Callable[[Any], Any]:
    def kernel(x: Any) -> Any:
        safe = np.where(x > 1e-3, x, 0.0 * x + 1.0)
        wave = radius * np.sin(np.pi * safe) * np.sin(np.pi * safe / radius) / (np.pi**2 * safe * safe)
        return np.where(x > radius, 0.0 * x, np.where(x > 1e-3, wave, 0.0 * x + 1.0))

    return kernel


_KERNELS: dict[str, Callable[[Any], Any]] = {
    "linear": _triangle, "bilinear": _triangle, "trilinear": _triangle, "cubic": _cubic, "bicubic": _cubic, "tricubic": _cubic,
    "lanczos3": _lanczos(3.0), "lanczos5": _lanczos(5.0),
}  # fmt: skip


def _weights(size: int, count: int, scale: Any, shift: Any, method: str, antialias: bool) -> Any:
    """The matrix (old, new) of one axis: output i lies at (i + ½ - shift) / scale - ½ of the input."""
    inverse = 1.0 / scale
    width = np.maximum(inverse, 1.0) if antialias else 1.0
    places = (np.arange(count, dtype="float32") + 0.5) * inverse - shift * inverse - 0.5
    gaps = np.abs(places[None, :] - np.arange(size, dtype="float32")[:, None]) / width
    weights = _KERNELS[method](gaps)
    total = np.sum(weights, axis=0, keepdims=True)
    some = np.abs(total) > 1000.0 * 1.2e-7
    weights = np.where(some, weights / np.where(some, total, 0.0 * total + 1.0), 0.0 * weights)
    inside = np.logical_and(places >= -0.5, places <= size - 0.5)
    return np.where(inside[None, :], weights, 0.0 * weights)


def _along(x: Tensor, axis: int, weights: Any) -> Tensor:
    moved = tensordot(x, convert_to_tensor(weights, x.dtype), [[axis], [0]])
    return transpose(moved, [*range(axis), x.ndim - 1, *range(axis, x.ndim - 1)])


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
            places = np.floor((np.arange(count) + 0.5) * (int(x.shape[axis]) / count)).astype("int32")
            x = gather(x, convert_to_tensor(places), axis=axis)
        return x
    wide = cast(x, "float32") if not kept.is_floating or kept.name in ("float16", "bfloat16") else x
    for axis, count in zip((first, first + 1), wanted, strict=True):
        old = int(wide.shape[axis])
        if old != count:
            wide = _along(wide, axis, _weights(old, count, count / old, 0.0, interpolation, antialias))
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
    if method not in _KERNELS:
        raise ValueError(f"Invalid value for argument `method`. Expected of one {set(_KERNELS)}. Received: method={method}")
    x = floating(images)
    factors, shifts = cast(scale, "float32"), cast(translation, "float32")
    for i, axis in enumerate(spatial_dims):
        place = axis % x.ndim
        weights = _weights(int(x.shape[place]), int(output_shape[place]), factors[i], shifts[i], method, antialias)
        x = _along(x, place, weights)
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
