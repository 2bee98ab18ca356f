"""Colours of images: spaces of colours, brightness, contrast, hue, saturation; chosen by hand or at random.

Channels are the last axis. As in TensorFlow, integers stand for fractions of their largest value: they are computed with as
floats and converted back. The `random_*` functions draw from the global seed, the `stateless_*` ones from the seed they get.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gradtape.core.arguments import dtype_of, numeric, of_rank, real_number
from gradtape.core.dispatch import convert, twin
from gradtape.core.opdef import Sample, composite
from gradtape.core.tensor import Readable, Tensor
from gradtape.core.typing import DTypeLike, Integers, Real, TensorLike
from gradtape.errors import InvalidArgumentError
from gradtape.ops.contract import tensordot
from gradtape.ops.conversions import saturate_cast
from gradtape.ops.random import stateless_uniform, uniform
from gradtape.ops.resizing import cut_out, flip_left_right, flip_up_down, images_of
from gradtape.ops.sampling import integers, positive, spread


@composite(
    samples=lambda: [
        Sample(positive(2, 2, 1), "float64"),
        Sample(integers(200, 2, 2, 1).astype("uint8"), "float32"),
        Sample(positive(2, 1, 1), "uint8", True),
        Sample(integers(100, 2, 1).astype("int8"), "int16"),
        Sample(integers(30000, 2, 1).astype("int16"), "uint8"),
    ]
)
def convert_image_dtype(image: TensorLike, dtype: DTypeLike, saturate: bool = False, name: str | None = None) -> Tensor:
    """Images of another type: floats from 0 to 1, integers from 0 to their largest value."""
    x, wanted = numeric(image, "image", "convert_image_dtype"), dtype_of(dtype, "dtype", "convert_image_dtype")
    have, turned = x.dtype, saturate_cast if saturate else cast
    if have == wanted:
        return twin(x)
    if have.is_integer and wanted.is_integer:
        if have.max > wanted.max:
            return turned(floordiv(x, cast((int(have.max) + 1) // (int(wanted.max) + 1), have)), wanted)
        return turned(x, wanted) * cast((int(wanted.max) + 1) // (int(have.max) + 1), wanted)
    if have.is_integer:
        return cast(x, wanted) * (1.0 / int(have.max))
    return cast(x, wanted) if wanted.is_floating else turned(x * (int(wanted.max) + 0.5), wanted)


def _rgb(value: TensorLike, op: str) -> Tensor:
    x = of_rank(convert(value), 1, "images", op)
    if x.shape[-1] != 3:
        raise InvalidArgumentError(f"{op}: the last axis must have the three colours, got shape {tuple(x.shape)}")
    return x


def _adjusted(image: TensorLike, function: Callable[[Tensor], Tensor], saturate: bool = True) -> Tensor:
    """A function of floats on images of any type."""
    x = convert(image)
    kind = x.dtype
    return convert_image_dtype(function(x if kind.is_floating else convert_image_dtype(x, "float32")), kind, saturate)


# -- spaces ------------------------------------------------------------------------------------------------------------

GREY = (0.2989, 0.5870, 0.1140)
_YUV = ((0.299, -0.14714119, 0.61497538), (0.587, -0.28886916, -0.51496512), (0.114, 0.43601035, -0.10001026))
_FROM_YUV = ((1.0, 1.0, 1.0), (0.0, -0.394642334, 2.03206185), (1.13988303, -0.58062185, 0.0))


def mixed(image: Tensor, numbers: TensorLike, axis: int = -1) -> Tensor:
    """The colours times a vector or matrix."""
    return tensordot(image, convert(numbers, image.dtype), [[axis % image.ndim], [0]])


def _colours() -> list[Sample]:
    return [Sample(positive(2, 3)), Sample(positive(2, 2), raises=(ValueError, "three colours"))]


@composite(samples=_colours)
def rgb_to_yuv(images: TensorLike) -> Tensor:
    """Red, green and blue as luma and two differences of colours."""
    return mixed(_rgb(images, "rgb_to_yuv"), _YUV)


@composite(samples=_colours)
def yuv_to_rgb(images: TensorLike) -> Tensor:
    """Luma and two differences of colours as red, green and blue."""
    return mixed(_rgb(images, "yuv_to_rgb"), _FROM_YUV)


@composite(samples=_colours)
def rgb_to_grayscale(images: TensorLike, name: str | None = None) -> Tensor:
    """How bright the colours are, in one channel."""
    return _adjusted(_rgb(images, "rgb_to_grayscale"), lambda x: expand_dims(mixed(x, GREY), -1), False)


@composite(samples=lambda: [Sample(positive(2, 1)), Sample(positive(2, 2), raises=(ValueError, "one channel"))])
def grayscale_to_rgb(images: TensorLike, name: str | None = None) -> Tensor:
    """One channel as three equal ones."""
    x = of_rank(convert(images), 1, "images", "grayscale_to_rgb")
    if x.shape[-1] != 1:
        raise InvalidArgumentError(f"grayscale_to_rgb: the last axis must have one channel, got shape {tuple(x.shape)}")
    return concat([x, x, x], -1)


def hue_range(r: Tensor, g: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(hue, smallest, largest) of red, green and blue; grey has hue 0."""
    high, low = maximum(maximum(r, g), b), minimum(minimum(r, g), b)
    grey = equal(high, low)
    norm = 1.0 / (6.0 * where(grey, ones_like(r), high - low))
    hue = where(equal(high, g), norm * (b - r) + 2.0 / 6.0, norm * (r - g) + 4.0 / 6.0)
    hue = where(equal(high, r), norm * (g - b), hue)
    hue = where(grey, zeros_like(r), hue)
    return hue + cast(hue < 0.0, r.dtype), low, high


def hue_parts(hue: Tensor) -> list[Tensor]:
    """How much of the range red, green and blue have at a hue."""
    sixth = hue * 6.0
    distances = (abs(sixth - 3.0) - 1.0, 2.0 - abs(sixth - 2.0), 2.0 - abs(sixth - 4.0))
    return [clip_by_value(d, 0.0, 1.0) for d in distances]


def saturation_of(low: Tensor, high: Tensor) -> Tensor:
    """The range over the largest value, 0 for black."""
    some = high > 0.0
    return where(some, (high - low) / where(some, high, ones_like(high)), zeros_like(high))


def _chroma() -> list[Sample]:
    return [Sample(np.abs(spread(4, 3)) / 4.0), Sample(positive(2, 2), raises=(ValueError, "three colours"))]


@composite(samples=_chroma)
def rgb_to_hsv(images: TensorLike, name: str | None = None) -> Tensor:
    """Red, green and blue (from 0 to 1) as hue, saturation and value."""
    hue, low, high = hue_range(*unstack(_rgb(images, "rgb_to_hsv"), axis=-1))
    return stack([hue, saturation_of(low, high), high], axis=-1)


@composite(samples=_chroma)
def hsv_to_rgb(images: TensorLike, name: str | None = None) -> Tensor:
    """Hue, saturation and value (from 0 to 1) as red, green and blue."""
    hue, saturation, value = unstack(_rgb(images, "hsv_to_rgb"), axis=-1)
    return stack([value * (1.0 - saturation + saturation * part) for part in hue_parts(hue)], axis=-1)


# -- adjustments -------------------------------------------------------------------------------------------------------


@composite(samples=lambda: [Sample(positive(2, 2, 3), 0.3), Sample(integers(200, 2, 2, 3).astype("uint8"), 0.4)])
def adjust_brightness(image: TensorLike, delta: TensorLike) -> Tensor:
    """The images plus `delta`, which is a fraction of the largest value."""
    return _adjusted(image, lambda x: x + cast(convert(delta, hint=x.dtype), x.dtype))


@composite(samples=lambda: [Sample(positive(2, 3, 2), 1.5), Sample(integers(200, 2, 2, 3).astype("uint8"), 2.0)])
def adjust_contrast(images: TensorLike, contrast_factor: TensorLike) -> Tensor:
    """How far each pixel is from the mean of its channel, times a factor."""

    def spread_out(x: Tensor) -> Tensor:
        mean = reduce_mean(x, [-3, -2], True)
        return (x - mean) * cast(convert(contrast_factor, hint=x.dtype), x.dtype) + mean

    return _adjusted(of_rank(convert(images), 3, "images", "adjust_contrast"), spread_out)


@composite(
    samples=lambda: [Sample(positive(2, 2, 1), 1.5, 2.0), Sample(positive(1, 1, 1), -1.0, raises=(ValueError, "negative"))]
)
def adjust_gamma(image: TensorLike, gamma: Real = 1.0, gain: Real = 1.0) -> Tensor:
    """gain · image^gamma."""
    if _is_number(gamma) and real_number(gamma, "gamma", "adjust_gamma") < 0:
        raise InvalidArgumentError(f"adjust_gamma: gamma must not be negative, got {gamma}")
    return _adjusted(image, lambda x: gain * x**gamma)


@composite(samples=lambda: [Sample(np.abs(spread(2, 2, 3)) / 4.0, 0.2)])
def adjust_hue(image: TensorLike, delta: TensorLike, name: str | None = None) -> Tensor:
    """The colours turned by `delta` of the circle of hues."""

    def turned(x: Tensor) -> Tensor:
        hue, low, high = hue_range(*unstack(x, axis=-1))
        hue = mod(hue + cast(convert(delta, hint=x.dtype), x.dtype), ones_like(hue))
        return stack([low + (high - low) * part for part in hue_parts(hue)], axis=-1)

    return _adjusted(_rgb(image, "adjust_hue"), turned, False)


@composite(samples=lambda: [Sample(np.abs(spread(2, 2, 3)) / 4.0 + 0.1, 0.7)])
def adjust_saturation(image: TensorLike, saturation_factor: TensorLike, name: str | None = None) -> Tensor:
    """The saturation of the colours times a factor, at most 1."""

    def stronger(x: Tensor) -> Tensor:
        hue, low, high = hue_range(*unstack(x, axis=-1))
        saturation = clip_by_value(saturation_of(low, high) * cast(convert(saturation_factor, hint=x.dtype), x.dtype), 0.0, 1.0)
        return stack([high * (1.0 - saturation + saturation * part) for part in hue_parts(hue)], axis=-1)

    return _adjusted(_rgb(image, "adjust_saturation"), stronger, False)


# -- at random ---------------------------------------------------------------------------------------------------------


def _is_number(value: Real) -> bool:
    """Whether a value can be looked at: tensors may get theirs when a program runs, and are taken as they are."""
    return not isinstance(value, (Tensor, Readable))


def _between(lower: Real, upper: Real, op: str) -> tuple[Real, Real]:
    if _is_number(lower) and _is_number(upper) and not 0 <= lower < upper:
        raise InvalidArgumentError(f"{op}: needs 0 <= lower < upper, got {lower} and {upper}")
    return lower, upper


def _around(max_delta: Real, op: str, most: float = float("inf")) -> tuple[Real, Real]:
    if _is_number(max_delta) and not 0 <= max_delta <= most:
        raise InvalidArgumentError(
            f"{op}: max_delta must not be negative{'' if most > 1 else ', nor above ½'}, got {max_delta}"
        )
    return -max_delta, max_delta


def _coins(image: TensorLike, op: str) -> tuple[Tensor, tuple[int, ...]]:
    """Images, and the shape of one coin for each."""
    x = images_of(image, op)
    return x, (*tuple(x.shape)[: x.ndim - 3], 1, 1, 1)


def random_brightness(image: TensorLike, max_delta: Real, seed: int | None = None) -> Tensor:
    """`adjust_brightness` by a random delta.

    >>> gt.image.random_brightness(gt.ones((2, 2, 3)), 0.2).shape
    TensorShape([2, 2, 3])
    """
    return adjust_brightness(image, uniform([], *_around(max_delta, "random_brightness"), seed=seed))


@composite(samples=lambda: [Sample(np.abs(spread(2, 2, 3)) / 4.0 + 0.1, 0.2, np.array([1, 2]))])
def stateless_random_brightness(image: TensorLike, max_delta: Real, seed: TensorLike) -> Tensor:
    """`adjust_brightness` by a random delta that depends only on the seed (two integers)."""
    return adjust_brightness(image, stateless_uniform([], seed, *_around(max_delta, "stateless_random_brightness")))


def random_contrast(image: TensorLike, lower: Real, upper: Real, seed: int | None = None) -> Tensor:
    """`adjust_contrast` by a random factor.

    >>> gt.image.random_contrast(gt.ones((2, 2, 3)), 0.5, 1.5).shape
    TensorShape([2, 2, 3])
    """
    return adjust_contrast(image, uniform([], *_between(lower, upper, "random_contrast"), seed=seed))


@composite(samples=lambda: [Sample(np.abs(spread(2, 2, 3)) / 4.0 + 0.1, 0.5, 1.5, np.array([1, 2]))])
def stateless_random_contrast(image: TensorLike, lower: Real, upper: Real, seed: TensorLike) -> Tensor:
    """`adjust_contrast` by a random factor that depends only on the seed (two integers)."""
    return adjust_contrast(image, stateless_uniform([], seed, *_between(lower, upper, "stateless_random_contrast")))


def random_hue(image: TensorLike, max_delta: Real, seed: int | None = None) -> Tensor:
    """`adjust_hue` by a random delta.

    >>> gt.image.random_hue(gt.ones((2, 2, 3)), 0.2).shape
    TensorShape([2, 2, 3])
    """
    return adjust_hue(image, uniform([], *_around(max_delta, "random_hue", 0.5), seed=seed))


@composite(samples=lambda: [Sample(np.abs(spread(2, 2, 3)) / 4.0 + 0.1, 0.2, np.array([1, 2]))])
def stateless_random_hue(image: TensorLike, max_delta: Real, seed: TensorLike) -> Tensor:
    """`adjust_hue` by a random delta that depends only on the seed (two integers)."""
    return adjust_hue(image, stateless_uniform([], seed, *_around(max_delta, "stateless_random_hue", 0.5)))


def random_saturation(image: TensorLike, lower: Real, upper: Real, seed: int | None = None) -> Tensor:
    """`adjust_saturation` by a random factor.

    >>> gt.image.random_saturation(gt.ones((2, 2, 3)), 0.5, 1.5).shape
    TensorShape([2, 2, 3])
    """
    return adjust_saturation(image, uniform([], *_between(lower, upper, "random_saturation"), seed=seed))


@composite(samples=lambda: [Sample(np.abs(spread(2, 2, 3)) / 4.0 + 0.1, 0.5, 1.5, np.array([1, 2]))])
def stateless_random_saturation(image: TensorLike, lower: Real, upper: Real, seed: TensorLike) -> Tensor:
    """`adjust_saturation` by a random factor that depends only on the seed (two integers)."""
    return adjust_saturation(image, stateless_uniform([], seed, *_between(lower, upper, "stateless_random_saturation")))


def random_flip_left_right(image: TensorLike, seed: int | None = None) -> Tensor:
    """Mirrored or not, each image as its own coin says.

    >>> gt.image.random_flip_left_right(gt.ones((2, 2, 3))).shape
    TensorShape([2, 2, 3])
    """
    x, shape = _coins(image, "random_flip_left_right")
    return where(uniform(shape, seed=seed) < 0.5, flip_left_right(x), x)


@composite(samples=lambda: [Sample(spread(3, 2, 2, 1), np.array([1, 2]))])
def stateless_random_flip_left_right(image: TensorLike, seed: TensorLike) -> Tensor:
    """Mirrored or not, as the seed (two integers) says."""
    x, shape = _coins(image, "stateless_random_flip_left_right")
    return where(stateless_uniform(shape, seed) < 0.5, flip_left_right(x), x)


def random_flip_up_down(image: TensorLike, seed: int | None = None) -> Tensor:
    """Upside down or not, each image as its own coin says.

    >>> gt.image.random_flip_up_down(gt.ones((2, 2, 3))).shape
    TensorShape([2, 2, 3])
    """
    x, shape = _coins(image, "random_flip_up_down")
    return where(uniform(shape, seed=seed) < 0.5, flip_up_down(x), x)


@composite(samples=lambda: [Sample(spread(3, 2, 2, 1), np.array([1, 2]))])
def stateless_random_flip_up_down(image: TensorLike, seed: TensorLike) -> Tensor:
    """Upside down or not, as the seed (two integers) says."""
    x, shape = _coins(image, "stateless_random_flip_up_down")
    return where(stateless_uniform(shape, seed) < 0.5, flip_up_down(x), x)


def random_crop(value: TensorLike, size: Integers, seed: int | None = None, name: str | None = None) -> Tensor:
    """A part of the given shape, anywhere in the tensor.

    >>> gt.image.random_crop(gt.ones((5, 5, 3)), (2, 2, 3)).shape
    TensorShape([2, 2, 3])
    """
    x = convert(value)
    return cut_out(x, size, uniform([x.ndim], 0, 2**31 - 1, "int32", seed), "random_crop")


@composite(
    samples=lambda: [
        Sample(spread(4, 5, 1), (2, 2, 1), np.array([1, 2])),
        Sample(spread(4, 5, 1), (5, 2, 1), np.array([1, 2]), raises=(ValueError, "does not fit")),
    ]
)
def stateless_random_crop(value: TensorLike, size: Integers, seed: TensorLike, name: str | None = None) -> Tensor:
    """A part of the given shape, where the seed (two integers) says."""
    x = convert(value)
    return cut_out(x, size, stateless_uniform([x.ndim], seed, 0, 2**31 - 1, "int32"), "stateless_random_crop")


__all__ = [
    "adjust_brightness", "adjust_contrast", "adjust_gamma", "adjust_hue", "adjust_saturation", "convert_image_dtype",
    "grayscale_to_rgb", "hsv_to_rgb", "random_brightness", "random_contrast", "random_crop", "random_flip_left_right",
    "random_flip_up_down", "random_hue", "random_saturation", "rgb_to_grayscale", "rgb_to_hsv", "rgb_to_yuv",
    "stateless_random_brightness", "stateless_random_contrast", "stateless_random_crop", "stateless_random_flip_left_right",
    "stateless_random_flip_up_down", "stateless_random_hue", "stateless_random_saturation", "yuv_to_rgb",
]  # fmt: skip

from gradtape.ops.compare import equal
from gradtape.ops.create import ones_like, zeros_like
from gradtape.ops.elementwise import abs, cast
from gradtape.ops.reduce import reduce_mean
from gradtape.ops.select import clip_by_value, floordiv, maximum, minimum, mod, where
from gradtape.ops.shape import concat, expand_dims, stack, unstack
