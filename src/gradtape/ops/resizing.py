"""Images of another size, cut, padded, turned, and read at other places.

Resizing is linear in the image and separable: a matrix of weights for each axis, applied one after the other. Images are
(height, width, channels), alone or in batches; float64 stays float64 where TensorFlow gives float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape.core.arguments import integral, of_rank, option, promoted, real_floats, whole
from gradtape.core.dispatch import convert
from gradtape.core.opdef import Sample, composite
from gradtape.core.tensor import Tensor
from gradtape.core.typing import DTypeLike, Integer, Integers, TensorLike
from gradtape.errors import InvalidArgumentError
from gradtape.ops.contract import einsum, tensordot
from gradtape.ops.create import entries, sizes
from gradtape.ops.index import gather
from gradtape.ops.sampling import normal
from gradtape.ops.windows import out_space, pads, per_axis, taps

# -- weights -----------------------------------------------------------------------------------------------------------
# NumPy's functions take tensors too: factors that only run time knows go through the same lines.


def _triangle(x: Any) -> Any:
    return np.maximum(1.0 - x, 0.0)


def _cubic(x: Any) -> Any:
    """Keys' kernel with a = -1/2."""
    near = ((1.5 * x - 2.5) * x) * x + 1.0
    far = ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0
    return np.where(x >= 2.0, 0.0 * x, np.where(x >= 1.0, far, near))


def _mitchell(x: Any) -> Any:
    """Mitchell and Netravali's kernel with B = C = 1/3."""
    near = (((7.0 * x - 12.0) * x) * x + 16.0 / 3.0) / 6.0
    far = (((-7.0 / 3.0 * x + 12.0) * x - 20.0) * x + 32.0 / 3.0) / 6.0
    return np.where(x >= 2.0, 0.0 * x, np.where(x >= 1.0, far, near))


def _gaussian(x: Any) -> Any:
    return np.where(x >= 1.5, 0.0 * x, np.exp(-2.0 * x * x))


def _lanczos(radius: float) -> Callable[[Any], Any]:
    def kernel(x: Any) -> Any:
        safe = np.where(x > 1e-3, x, 0.0 * x + 1.0)
        wave = radius * np.sin(np.pi * safe) * np.sin(np.pi * safe / radius) / (np.pi**2 * safe * safe)
        return np.where(x > radius, 0.0 * x, np.where(x > 1e-3, wave, 0.0 * x + 1.0))

    return kernel


KERNELS: dict[str, Callable[[Any], Any]] = {
    "bilinear": _triangle, "bicubic": _cubic, "lanczos3": _lanczos(3.0), "lanczos5": _lanczos(5.0), "gaussian": _gaussian,
    "mitchellcubic": _mitchell,
}  # fmt: skip


class ResizeMethod:
    """The names of the ways to resize.

    >>> gt.image.ResizeMethod.BILINEAR
    'bilinear'
    """

    BILINEAR, NEAREST_NEIGHBOR, BICUBIC, AREA = "bilinear", "nearest", "bicubic", "area"
    LANCZOS3, LANCZOS5, GAUSSIAN, MITCHELLCUBIC = "lanczos3", "lanczos5", "gaussian", "mitchellcubic"


def axis_weights(
    size: int, count: int, scale: Any, shift: Any, kernel: Callable[[Any], Any], antialias: bool, dtype: DTypeLike = "float32"
) -> Any:
    """The matrix (old, new) of one axis: output i lies at (i + ½ - shift) / scale - ½ of the input."""
    inverse = 1.0 / scale
    width = np.maximum(inverse, 1.0) if antialias else 1.0
    places = (np.arange(count, dtype=dtype) + 0.5) * inverse - shift * inverse - 0.5
    weights = kernel(np.abs(places[None, :] - np.arange(size, dtype=dtype)[:, None]) / width)
    total = np.sum(weights, axis=0, keepdims=True)
    some = np.abs(total) > 1000.0 * 1.2e-7
    weights = np.where(some, weights / np.where(some, total, 0.0 * total + 1.0), 0.0 * weights)
    inside = np.logical_and(places >= -0.5, places <= size - 0.5)
    return np.where(inside[None, :], weights, 0.0 * weights)


def _area_weights(size: int, count: int) -> Any:
    """How much of each output's stretch of the axis each input covers."""
    ends = np.arange(count + 1) * (size / count)
    old = np.arange(size)[:, None]
    return np.maximum(np.minimum(old + 1, ends[1:]) - np.maximum(old, ends[:-1]), 0.0) * (count / size)


def along_axis(x: Tensor, axis: int, weights: Any) -> Tensor:
    """One axis times a matrix (old, new)."""
    product = tensordot(x, cast(weights, x.dtype), [[axis], [0]])
    return transpose(product, [*range(axis), x.ndim - 1, *range(axis, x.ndim - 1)])


def nearest_along(x: Tensor, axis: int, count: int) -> Tensor:
    """The element nearest to each of `count` places along an axis."""
    return gather(x, np.floor((np.arange(count) + 0.5) * (int(x.shape[axis]) / count)).astype("int32"), axis=axis)


# -- resizing ----------------------------------------------------------------------------------------------------------


def images_of(value: TensorLike, op: str, least: int = 3) -> Tensor:
    """An image, or a batch of images."""
    return of_rank(convert(value), least, "images", op, 4)


def _pair(size: Integers, op: str) -> tuple[int, int]:
    numbers = sizes(size, "size", op)
    if len(numbers) != 2:
        raise InvalidArgumentError(f"{op}: size must be two integers, height and width, got {list(numbers)}")
    height, width = (whole(n, "size", op, 1) for n in numbers)
    return height, width


@composite(
    samples=lambda: [
        Sample(normal(1, 4, 3, 2), (5, 2)),
        *(Sample(normal(4, 5, 1), (3, 7), method) for method in ("bicubic", "area", "lanczos3", "gaussian", "mitchellcubic")),
        Sample(normal(4, 6, 1), (2, 3), "bilinear", antialias=True),
        Sample(normal(4, 6, 1), (2, 2), "nearest", True),
        Sample(normal(4, 6), (2, 2), raises=(ValueError, "rank")),
    ]
)
def resize(
    images: TensorLike, size: Integers, method: str = "bilinear", preserve_aspect_ratio: bool = False, antialias: bool = False,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """Images of the given height and width.

    >>> gt.image.resize([[[0.0], [4.0]]], (1, 4)).numpy().ravel()
    array([0., 1., 3., 4.], dtype=float32)
    """
    x, wanted = images_of(images, "resize"), _pair(size, "resize")
    option(method, "method", "resize", (*KERNELS, "nearest", "area"))
    old = int(x.shape[-3]), int(x.shape[-2])
    if preserve_aspect_ratio:
        ratio = min(np.float32(new) / np.float32(have) for new, have in zip(wanted, old, strict=True))
        wanted = int(np.round(ratio * np.float32(old[0]))), int(np.round(ratio * np.float32(old[1])))
    if method != "nearest":
        x = real_floats(x, "images", "resize")
        x = cast(x, "float32") if x.dtype.size == 2 else x
    for axis, have, count in zip((x.ndim - 3, x.ndim - 2), old, wanted, strict=True):
        if method == "nearest":
            x = nearest_along(x, axis, count)
        elif method == "area":
            x = along_axis(x, axis, _area_weights(have, count))
        elif have != count or method in ("gaussian", "mitchellcubic"):  # which blur
            kernel = KERNELS[method]
            x = along_axis(x, axis, axis_weights(have, count, count / have, 0.0, kernel, antialias, "float64"))
    return x


@composite(samples=lambda: [Sample(normal(4, 3, 2), 3, 5), Sample(normal(1, 2, 4, 1), 4, 4, "nearest")])
def resize_with_pad(
    image: TensorLike, target_height: Integer, target_width: Integer, method: str = "bilinear", antialias: bool = False
) -> Tensor:
    """Images resized without changing their proportions, in the middle of zeros."""
    x, (height, width) = images_of(image, "resize_with_pad"), _pair((target_height, target_width), "resize_with_pad")
    ratio = max(np.float32(x.shape[-2]) / np.float32(width), np.float32(x.shape[-3]) / np.float32(height))
    tall, wide = np.float32(x.shape[-3]) / ratio, np.float32(x.shape[-2]) / ratio
    x = resize(x, (int(tall), int(wide)), method, antialias=antialias)
    return pad_to_bounding_box(x, max(int((height - tall) / 2), 0), max(int((width - wide) / 2), 0), height, width)


# -- cutting and padding -----------------------------------------------------------------------------------------------


def _boxed(top: Integer, left: Integer, height: Integer, width: Integer, op: str) -> tuple[int, int, int, int]:
    names = ("offset_height", "offset_width", "target_height", "target_width")
    a, b, c, d = (whole(v, n, op, 0) for v, n in zip((top, left, height, width), names, strict=True))
    return a, b, c, d


@composite(
    samples=lambda: [
        Sample(normal(4, 5, 2), 1, 2, 2, 3),
        Sample(normal(4, 5, 2), 3, 0, 2, 3, raises=(ValueError, "not inside")),
    ]
)
def crop_to_bounding_box(
    image: TensorLike, offset_height: Integer, offset_width: Integer, target_height: Integer, target_width: Integer
) -> Tensor:
    """The part of the images that begins at the offsets and has the target's size.

    >>> gt.image.crop_to_bounding_box(gt.reshape(gt.range(6), (2, 3, 1)), 0, 1, 2, 2).numpy().ravel()
    array([1, 2, 4, 5], dtype=int32)
    """
    x = images_of(image, "crop_to_bounding_box")
    top, left, height, width = _boxed(offset_height, offset_width, target_height, target_width, "crop_to_bounding_box")
    if top + height > x.shape[-3] or left + width > x.shape[-2]:
        raise InvalidArgumentError(
            f"crop_to_bounding_box: rows {top} to {top + height} and columns {left} to {left + width} are not inside an image "
            f"of shape {tuple(x.shape)}"
        )
    return x[..., top : top + height, left : left + width, :]


@composite(
    samples=lambda: [Sample(normal(2, 3, 2), 1, 0, 4, 3), Sample(normal(2, 3, 2), 1, 0, 2, 3, raises=(ValueError, "fit"))]
)
def pad_to_bounding_box(
    image: TensorLike, offset_height: Integer, offset_width: Integer, target_height: Integer, target_width: Integer
) -> Tensor:
    """The images among zeros: at the offsets of larger ones."""
    x = images_of(image, "pad_to_bounding_box")
    top, left, height, width = _boxed(offset_height, offset_width, target_height, target_width, "pad_to_bounding_box")
    below, right = height - top - x.shape[-3], width - left - x.shape[-2]
    if below < 0 or right < 0:
        raise InvalidArgumentError(
            f"pad_to_bounding_box: an image of shape {tuple(x.shape)} at ({top}, {left}) does not fit into {height} x {width}"
        )
    return pad(x, [*[(0, 0)] * (x.ndim - 3), (top, below), (left, right), (0, 0)])


@composite(samples=lambda: [Sample(normal(4, 3, 1), 2, 6), Sample(normal(1, 2, 5, 1), 5, 2)])
def resize_with_crop_or_pad(image: TensorLike, target_height: Integer, target_width: Integer) -> Tensor:
    """The middle of the images, or the images in the middle of zeros."""
    x, wanted = images_of(image, "resize_with_crop_or_pad"), _pair((target_height, target_width), "resize_with_crop_or_pad")
    old = int(x.shape[-3]), int(x.shape[-2])
    down, across = wanted[0] - old[0], wanted[1] - old[1]
    x = crop_to_bounding_box(x, max(-down // 2, 0), max(-across // 2, 0), min(wanted[0], old[0]), min(wanted[1], old[1]))
    return pad_to_bounding_box(x, max(down // 2, 0), max(across // 2, 0), *wanted)


@composite(samples=lambda: [Sample(normal(5, 4, 2), 0.5), Sample(normal(4, 4, 1), 1.5, raises=(ValueError, "(0, 1]"))])
def central_crop(image: TensorLike, central_fraction: float) -> Tensor:
    """The middle of the images: this fraction of the height and of the width.

    >>> gt.image.central_crop(gt.ones((4, 6, 3)), 0.5).shape
    TensorShape([2, 4, 3])
    """
    x, share = images_of(image, "central_crop"), float(central_fraction)
    if not 0.0 < share <= 1.0:
        raise InvalidArgumentError(f"central_crop: central_fraction must be in (0, 1], got {share}")
    top, left = (int((size - size * share) / 2) for size in map(int, tuple(x.shape)[-3:-1]))
    return crop_to_bounding_box(x, top, left, int(x.shape[-3]) - 2 * top, int(x.shape[-2]) - 2 * left)


# -- turning -----------------------------------------------------------------------------------------------------------


@composite(samples=lambda: [Sample(normal(2, 3, 1))])
def flip_left_right(image: TensorLike) -> Tensor:
    """The images mirrored: the first column is the last."""
    x = images_of(image, "flip_left_right")
    return reverse(x, [x.ndim - 2])


@composite(samples=lambda: [Sample(normal(2, 3, 1))])
def flip_up_down(image: TensorLike) -> Tensor:
    """The images upside down: the first row is the last."""
    x = images_of(image, "flip_up_down")
    return reverse(x, [x.ndim - 3])


@composite(samples=lambda: [Sample(normal(2, 3, 1)), Sample(normal(2, 2, 3, 1))])
def transpose_image(image: TensorLike, name: str | None = None) -> Tensor:
    """Rows as columns."""
    x = images_of(image, "transpose")
    return transpose(x, [*range(x.ndim - 3), x.ndim - 2, x.ndim - 3, x.ndim - 1])


@composite(samples=lambda: [Sample(normal(2, 3, 1)), Sample(normal(1, 2, 3, 1), 2), Sample(normal(2, 3, 1), 3)])
def rot90(image: TensorLike, k: Integer = 1, name: str | None = None) -> Tensor:
    """The images turned counter-clockwise, k times by 90°."""
    turns = whole(k, "k", "rot90") % 4
    x = flip_left_right(image) if turns in (1, 2) else images_of(image, "rot90")
    x = flip_up_down(x) if turns == 2 else transpose_image(x) if turns else x
    return flip_left_right(x) if turns == 3 else x


# -- windows and boxes -------------------------------------------------------------------------------------------------


@composite(
    samples=lambda: [
        Sample(normal(1, 4, 5, 2), [1, 2, 3, 1], [1, 2, 1, 1], [1, 1, 1, 1], "VALID"),
        Sample(normal(1, 4, 4, 1), [1, 2, 2, 1], [1, 2, 2, 1], [1, 2, 2, 1], "SAME"),
    ]
)
def extract_patches(
    images: TensorLike, sizes: Integers, strides: Integers, rates: Integers, padding: str, name: str | None = None
) -> Tensor:
    """The elements of each window, in a row, in the place of the channels."""
    op = "extract_patches"
    x = images_of(images, op, 4)
    named = ((sizes, "sizes"), (strides, "strides"), (rates, "rates"))
    kernel, steps, gaps = (per_axis(value, 2, False, op, argument) for value, argument in named)
    space = tuple(x.shape)[1:3]
    sides = pads(padding, space, kernel, steps, gaps, False, op)
    out = out_space(space, kernel, steps, sides, gaps, op)
    wide = pad(x, [(0, 0), *sides, (0, 0)])
    return concat([wide[place] for _, place in taps(kernel, steps, gaps, out)], -1)


@composite(
    samples=lambda: [
        Sample(normal(2, 4, 5, 2), np.array([[0.1, 0.2, 0.83, 0.71], [-0.2, 0.1, 0.5, 1.3]]), np.array([1, 0]), (3, 2)),
        Sample(normal(1, 4, 4, 1), np.array([[0.9, 0.1, 0.2, 0.8]]), np.array([0]), (1, 3), "nearest", 2.0, fixed=(1,)),
    ]
)
def crop_and_resize(
    image: TensorLike, boxes: TensorLike, box_indices: TensorLike, crop_size: Integers, method: str = "bilinear",
    extrapolation_value: float = 0.0, name: str | None = None,
) -> Tensor:  # fmt: skip
    """Parts of images, all resized to one size: `boxes` are rows y1, x1, y2, x2, from 0 at the first pixel to 1 at the last.

    >>> x = gt.reshape(gt.range(3.0), (1, 1, 3, 1))
    >>> gt.image.crop_and_resize(x, [[0.0, 0.0, 0.0, 0.5]], [0], (1, 2)).numpy().ravel()
    array([0., 1.], dtype=float32)
    """
    op = "crop_and_resize"
    option(method, "method", op, ("bilinear", "nearest"))
    x, corners = promoted(op, image=real_floats(images_of(image, op, 4), "image", op), boxes=boxes)
    part, inside = [], []
    for axis, count in enumerate(_pair(crop_size, op)):
        last = int(x.shape[1 + axis]) - 1
        low, high = corners[:, axis, None] * last, corners[:, 2 + axis, None] * last
        steps = np.arange(count) / (count - 1) if count > 1 else np.array([0.5])
        places = low + (high - low) * cast(steps, x.dtype)
        inside.append(logical_and(places >= 0.0, places <= last))
        places = places if method == "bilinear" else floor(places + 0.5)
        part.append(maximum(1.0 - abs(expand_dims(places, -1) - cast(np.arange(last + 1), x.dtype)), 0.0))
    # Along another axis than the first, so that the derivative of a variable is a tensor, as TensorFlow's is, and no rows.
    rows = gather(expand_dims(x, 0), integral(box_indices, "box_indices", op), axis=1)
    crops = einsum("nih,znhwc,njw->nijc", part[0], rows, part[1])
    valid = logical_and(inside[0][:, :, None, None], inside[1][:, None, :, None])
    return where(valid, crops, cast(convert(extrapolation_value, hint=x.dtype), x.dtype))


def cut_out(value: Tensor, size: Integers, chances: Tensor, op: str) -> Tensor:
    """A part of the given shape; large random integers, one for each axis, choose where it begins."""
    wanted = entries(size)
    if len(wanted) != value.ndim or any(new > old for new, old in zip(wanted, value.shape, strict=True)):
        raise InvalidArgumentError(f"{op}: a part of shape {list(wanted)} does not fit into a tensor of {tuple(value.shape)}")
    room = [old - new + 1 for new, old in zip(wanted, value.shape, strict=True)]
    return slice(value, mod(chances, cast(convert(room), "int32")), wanted)


__all__ = [
    "ResizeMethod", "central_crop", "crop_and_resize", "crop_to_bounding_box", "extract_patches", "flip_left_right",
    "flip_up_down", "pad_to_bounding_box", "resize", "resize_with_crop_or_pad", "resize_with_pad", "rot90",
]  # fmt: skip

from gradtape.ops.compare import logical_and
from gradtape.ops.elementwise import abs, cast
from gradtape.ops.extending import pad
from gradtape.ops.scatter import slice
from gradtape.ops.select import floor, maximum, mod, where
from gradtape.ops.shape import concat, expand_dims, reverse, transpose
