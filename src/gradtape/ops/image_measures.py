"""Numbers about images: how different two are, how they vary from pixel to pixel; which boxes to keep of many that overlap."""

from __future__ import annotations

import numpy as np

from gradtape.core import batching
from gradtape.core.arguments import promoted, real_floats, whole
from gradtape.core.dispatch import apply, convert
from gradtape.core.opdef import Op, Sample, composite, nondiff
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Array, Integer, Real, TensorLike
from gradtape.errors import InvalidArgumentError
from gradtape.ir.types import TensorSpec
from gradtape.ops.colours import convert_image_dtype
from gradtape.ops.conv import depthwise_conv2d
from gradtape.ops.resizing import images_of
from gradtape.ops.sampling import normal, positive, spread


@composite(samples=lambda: [Sample(normal(3, 4, 2)), Sample(normal(2, 3, 2, 1))])
def per_image_standardization(image: TensorLike) -> Tensor:
    """Each image less its mean, over its standard deviation; nearly uniform ones are not blown up."""
    x = real_floats(images_of(image, "per_image_standardization"), "image", "per_image_standardization")
    centred = x - reduce_mean(x, [-3, -2, -1], True)
    deviation = reduce_std(x, [-3, -2, -1], True)
    count = x.shape[-3] * x.shape[-2] * x.shape[-1]
    return centred / maximum(deviation, rsqrt(cast(convert(count), x.dtype)))


@composite(samples=lambda: [Sample(spread(3, 4, 1)), Sample(spread(2, 2, 3, 1))])
def total_variation(images: TensorLike, name: str | None = None) -> Tensor:
    """The sum of the absolute differences of neighbouring pixels, for each image."""
    x = images_of(images, "total_variation")
    down, across = x[..., 1:, :, :] - x[..., :-1, :, :], x[..., 1:, :] - x[..., :-1, :]
    return reduce_sum(abs(down), [-3, -2, -1]) + reduce_sum(abs(across), [-3, -2, -1])


@composite(samples=lambda: [Sample(normal(1, 3, 4, 2)), Sample(normal(3, 4, 2), raises=(ValueError, "rank"))])
def image_gradients(image: TensorLike) -> tuple[Tensor, Tensor]:
    """What each pixel lacks to the next one below, and to the right; 0 at the last ones."""
    x = images_of(image, "image_gradients", 4)
    down, across = x[:, 1:] - x[:, :-1], x[:, :, 1:] - x[:, :, :-1]
    return pad(down, [(0, 0), (0, 1), (0, 0), (0, 0)]), pad(across, [(0, 0), (0, 0), (0, 1), (0, 0)])


def _filtered(x: Tensor, kernels: Array) -> Tensor:
    """The same windows (height, width, how many) over every channel."""
    windows = np.repeat(kernels[:, :, None], int(x.shape[-1]), axis=2)
    return depthwise_conv2d(x, cast(windows, x.dtype), [1, 1, 1, 1], "VALID")


@composite(samples=lambda: [Sample(normal(1, 3, 4, 2))])
def sobel_edges(image: TensorLike) -> Tensor:
    """Sobel's derivatives down and across, in a last axis of their own; edges are reflected."""
    x = real_floats(images_of(image, "sobel_edges", 4), "image", "sobel_edges")
    across = np.array([[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]])
    wide = pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)], mode="REFLECT")
    return reshape(_filtered(wide, np.stack([across.T, across], -1)), (*x.shape, 2))


def _two(a: TensorLike, b: TensorLike, max_val: Real, op: str) -> tuple[Tensor, Tensor, Tensor]:
    """Two images of one type as floats, and the range of their values."""
    x, y = promoted(op, a=a, b=b)
    if x.ndim < 3 or y.ndim < 3 or tuple(x.shape)[-3:] != tuple(y.shape)[-3:]:
        raise InvalidArgumentError(f"{op}: needs images of one shape, got {tuple(x.shape)} and {tuple(y.shape)}")
    kind = x.dtype if x.dtype.is_floating and x.dtype.size > 2 else "float32"
    largest = convert_image_dtype(cast(convert(max_val, hint=x.dtype), x.dtype), kind)
    return convert_image_dtype(x, kind), convert_image_dtype(y, kind), largest


@composite(samples=lambda: [Sample(positive(2, 2, 1), positive(2, 2, 2, 1), 2.0)])
def psnr(a: TensorLike, b: TensorLike, max_val: Real, name: str | None = None) -> Tensor:
    """The ratio of the largest value to the noise between two images, in decibels."""
    x, y, largest = _two(a, b, max_val, "psnr")
    noise = reduce_mean(square(x - y), [-3, -2, -1])
    return (2.0 * log(largest) - log(noise)) * (10.0 / np.log(10.0))


@composite(
    samples=lambda: [
        Sample(positive(5, 5, 2), positive(5, 5, 2), 2.0, 3),
        Sample(positive(1, 4, 4, 1), positive(1, 4, 4, 1), 2.0, 3, 1.5, 0.01, 0.03, True),
    ]
)
def ssim(
    img1: TensorLike, img2: TensorLike, max_val: Real, filter_size: Integer = 11, filter_sigma: float = 1.5, k1: float = 0.01,
    k2: float = 0.03, return_index_map: bool = False,
) -> Tensor:  # fmt: skip
    """How similar the structures of two images are (Wang et al. 2004), at most 1; the average over the image, or the map."""
    x, y, largest = _two(img1, img2, max_val, "ssim")
    size = whole(filter_size, "filter_size", "ssim", 1)
    if min(x.shape[-3], x.shape[-2]) < size:
        raise InvalidArgumentError(f"ssim: images of shape {tuple(x.shape)} are smaller than the window, {size}")
    bell = np.exp(-0.5 * ((np.arange(size) - (size - 1) / 2) / filter_sigma) ** 2)
    window = (bell[:, None] * bell / bell.sum() ** 2)[:, :, None]

    def mean(z: Tensor) -> Tensor:
        small = _filtered(reshape(z, (-1, *z.shape[-3:])), window)
        return reshape(small, (*z.shape[:-3], *small.shape[1:]))

    low, high = square(k1 * largest), square(k2 * largest)
    first, second = mean(x), mean(y)
    both, squares = 2.0 * first * second, square(first) + square(second)
    luminance = (both + low) / (squares + low)
    structure = (2.0 * mean(x * y) - both + high) / (mean(square(x) + square(y)) - squares + high)
    similar = luminance * structure
    return reduce_mean(similar if return_index_map else reduce_mean(similar, [-3, -2]), -1)


def _suppressed_impl(boxes: Array, scores: Array, *, most: int, overlap: float, least: float) -> Array:
    """The best box, then the best of those that overlap none of the chosen ones by more than the given share."""
    low, high = np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])
    areas = (high - low).prod(-1)
    kept: list[int] = []
    for i in np.argsort(-scores, kind="stable"):
        if len(kept) == most or not scores[i] > least:
            break
        common = np.maximum(np.minimum(high[i], high[kept]) - np.maximum(low[i], low[kept]), 0).prod(-1)
        union = areas[i] + areas[kept] - common
        if not (common > overlap * union)[union > 0].any():
            kept.append(int(i))
    return np.array(kept, np.int32)


NON_MAX_SUPPRESSION: Op = nondiff(
    "non_max_suppression", "boxes scores", _suppressed_impl,
    infer=lambda boxes, scores, *, most, overlap, least: TensorSpec((None,), "int32"),
    reason="positions are constant almost everywhere", batch=batching.looped,
    call=lambda boxes, scores, count: non_max_suppression(boxes, scores, count),
    samples=lambda: [
        Sample(np.array([[0.0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 2, 1, 3], [1, 3, 0, 2]]), np.array([0.9, 0.8, 0.7, 0.95]), 3),
        Sample(normal(3, 2), normal(3), 2, raises=(ValueError, "boxes")),
    ],
)  # fmt: skip


def non_max_suppression(
    boxes: TensorLike, scores: TensorLike, max_output_size: Integer, iou_threshold: float = 0.5,
    score_threshold: float = float("-inf"), name: str | None = None,
) -> Tensor:  # fmt: skip
    """Which boxes (rows y1, x1, y2, x2) to keep: the best ones that overlap no better one by more than `iou_threshold`.

    >>> gt.image.non_max_suppression([[0.0, 0, 1, 1], [0, 0, 1, 0.9], [2, 2, 3, 3]], [0.8, 0.9, 0.1], 5).numpy()
    array([1, 2], dtype=int32)
    """
    op = "non_max_suppression"
    corners, values = promoted(op, boxes=boxes, scores=scores)
    if corners.ndim != 2 or corners.shape[-1] != 4 or values.ndim != 1 or values.shape[0] != corners.shape[0]:
        raise InvalidArgumentError(
            f"{op}: needs boxes (n, 4) and scores (n,), got shapes {tuple(corners.shape)} and {tuple(values.shape)}"
        )
    most = whole(max_output_size, "max_output_size", op, 0)
    return apply(NON_MAX_SUPPRESSION, corners, values, most=most, overlap=float(iou_threshold), least=float(score_threshold))


OPS = (NON_MAX_SUPPRESSION,)
__all__ = [
    "image_gradients", "non_max_suppression", "per_image_standardization", "psnr", "sobel_edges", "ssim", "total_variation",
]  # fmt: skip

from gradtape.ops.elementwise import abs, cast, log, rsqrt, square
from gradtape.ops.extending import pad
from gradtape.ops.reduce import reduce_mean, reduce_std, reduce_sum
from gradtape.ops.select import maximum
from gradtape.ops.shape import reshape
