"""Keras's `image` functions that take the value of an image at other places: affine, perspective and elastic transforms."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from keras.src import backend

from gradtape.core.tensor import Tensor
from gradtape.core.typing import TensorLike
from gradtape.keras.core_ops import cast, convert_to_tensor
from gradtape.keras.image_ops import check_rank, gaussian_blur
from gradtape.keras.numpy_types import floating, on_tensors as np
from gradtape.keras.random_ops import normal
from gradtape.ops.compare import logical_and
from gradtape.ops.elementwise import abs as magnitude, sign
from gradtape.ops.index import gather
from gradtape.ops.linalg_solve import solve
from gradtape.ops.select import clip_by_value, floor, mod, where
from gradtape.ops.shape import concat, expand_dims, reshape, squeeze, stack, transpose

_ORDERS = {"nearest": 0, "bilinear": 1}
_FILL_MODES = {"constant", "nearest", "wrap", "mirror", "reflect"}


def _checked(interpolation: str, fill_mode: str = "constant") -> int:
    if interpolation not in _ORDERS:
        raise ValueError(
            f"Invalid value for argument `interpolation`. Expected of one {set(_ORDERS)}. "
            f"Received: interpolation={interpolation}"
        )
    if fill_mode not in _FILL_MODES:
        raise ValueError(
            f"Invalid value for argument `fill_mode`. Expected of one {_FILL_MODES}. Received: fill_mode={fill_mode}"
        )
    return _ORDERS[interpolation]


# -- reading at places -----------------------------------------------------------------------------------------------------


def _inside(place: Tensor, size: int, mode: str) -> tuple[Tensor, Tensor | None]:
    """Where an index beyond the edge leads, and whether it counts at all."""
    last = size - 1
    if mode == "constant":
        return clip_by_value(place, 0, last), logical_and(place >= 0, place <= last)
    if mode == "nearest":
        return clip_by_value(place, 0, last), None
    if mode == "wrap":
        return mod(place, cast(size, place.dtype)), None
    if mode == "mirror":  # the edge itself is not repeated
        if not last:
            return place * 0, None
        folded = mod(place, cast(2 * last, place.dtype))
        return last - magnitude(folded - last), None
    folded = mod(place, cast(2 * size, place.dtype))
    return where(folded >= size, 2 * size - 1 - folded, folded), None


def _sampled(
    rows: Tensor, sizes: Sequence[int], places: Sequence[Tensor], order: int, mode: str, fill: float, base: Tensor | int = 0
) -> Tensor:
    """`rows` is a table of a grid's points (and what each holds); the table at fractional places of the grid."""
    extra = rows.ndim - 1
    wide = rows if rows.dtype.is_floating else cast(rows, "float32")
    corners: list[list[tuple[Tensor, Tensor | None]]] = []
    for place in places:
        if order == 0:  # halves are rounded away from zero
            corners.append([(cast(sign(place) * floor(magnitude(place) + 0.5), "int32"), None)])
        else:
            low = floor(place)
            share = place - low
            start = cast(low, "int32")
            corners.append([(start, 1.0 - share), (start + 1, share)])
    result = None
    for corner in product(*corners):
        flat, valid, weight = base, None, None
        for (index, part), size in zip(corner, sizes, strict=True):
            index, counts = _inside(index, size, mode)
            flat = flat * size + index
            if counts is not None:
                valid = counts if valid is None else logical_and(valid, counts)
            if part is not None:
                weight = part if weight is None else weight * part
        values = gather(wide, flat)
        if valid is not None:
            values = where(_more(valid, extra), values, cast(fill, values.dtype))
        if weight is not None:
            values = values * cast(_more(weight, extra), values.dtype)
        result = values if result is None else result + values
    assert result is not None
    if rows.dtype.is_floating or order == 0:
        return cast(result, rows.dtype)
    return cast(np.round(result), rows.dtype)


def _more(x: Tensor, axes: int) -> Tensor:
    return reshape(x, (*x.shape, *(1,) * axes)) if axes else x


def map_coordinates(
    inputs: TensorLike, coordinates: TensorLike, order: int, fill_mode: str = "constant", fill_value: float = 0.0
) -> Tensor:
    x, places = convert_to_tensor(inputs), convert_to_tensor(coordinates)
    if places.shape[0] != x.ndim:
        raise ValueError(
            "First dim of `coordinates` must be the same as the rank of `inputs`. "
            f"Received inputs with shape: {tuple(x.shape)} and coordinate leading dim of {places.shape[0]}"
        )
    if places.ndim < 2:
        raise ValueError(
            f"Invalid coordinates rank: expected at least rank 2. Received input with shape: {tuple(places.shape)}"
        )
    if fill_mode not in _FILL_MODES:
        raise ValueError(
            f"Invalid value for argument `fill_mode`. Expected one of {_FILL_MODES}. Received: fill_mode={fill_mode}"
        )
    if order not in (0, 1):
        raise ValueError(f"Invalid value for argument `order`. Expected one of {[0, 1]}. Received: order={order}")
    sizes = [int(n) for n in x.shape]
    axes = [floating(places[i]) for i in range(x.ndim)]
    return _sampled(reshape(x, (-1,)), sizes, axes, order, fill_mode, fill_value)


def _moved(images: Tensor, y: Tensor, x: Tensor, order: int, mode: str, fill: float) -> Tensor:
    """Images (batch, height, width, channels) at places (batch, height, width)."""
    batch, height, width, channels = images.shape
    base = reshape(convert_to_tensor(np.arange(batch), "int32"), (batch, 1, 1))
    rows = reshape(images, (batch * height * width, channels))
    return _sampled(rows, (int(height), int(width)), (y, x), order, mode, fill, base)


class _Batch:
    """Images as (batch, height, width, channels), and back."""

    def __init__(self, images: Tensor, data_format: str | None) -> None:
        check_rank(images)
        self.first = backend.standardize_data_format(data_format) == "channels_first"
        self.alone = images.ndim == 3
        batch = expand_dims(images, 0) if self.alone else images
        self.images = transpose(batch, (0, 2, 3, 1)) if self.first else batch

    def back(self, images: Tensor) -> Tensor:
        images = transpose(images, (0, 3, 1, 2)) if self.first else images
        return squeeze(images, 0) if self.alone else images

    def grid(self) -> tuple[Tensor, Tensor]:
        """Row and column of each pixel, as (1, height, width)."""
        height, width = int(self.images.shape[1]), int(self.images.shape[2])
        rows, columns = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
        return convert_to_tensor(rows[None], "float32"), convert_to_tensor(columns[None], "float32")


# -- transforms ------------------------------------------------------------------------------------------------------------


def affine_transform(
    images: TensorLike, transform: TensorLike, interpolation: str = "bilinear", fill_mode: str = "constant",
    fill_value: float = 0, data_format: str | None = None,
) -> Tensor:  # fmt: skip
    """The output at (x, y) is the input at (a₀x + a₁y + a₂, b₀x + b₁y + b₂)."""
    order = _checked(interpolation, fill_mode)
    x, numbers = convert_to_tensor(images), floating(transform)
    check_rank(x)
    if numbers.ndim not in (1, 2):
        raise ValueError(
            "Invalid transform rank: expected rank 1 (single transform) or rank 2 (batch of transforms). "
            f"Received input with shape: transform.shape={tuple(numbers.shape)}"
        )
    batch = _Batch(x, data_format)
    rows, columns = batch.grid()
    numbers = numbers if numbers.ndim == 2 else expand_dims(numbers, 0)
    a0, a1, a2, b0, b1, b2 = (reshape(numbers[:, i], (-1, 1, 1)) for i in range(6))
    blank = cast(np.zeros((int(batch.images.shape[0]), 1, 1)), "float32")  # one transform may serve all images
    down, across = b0 * columns + b1 * rows + b2 + blank, a0 * columns + a1 * rows + a2 + blank
    return batch.back(_moved(batch.images, down, across, order, fill_mode, fill_value))


def perspective_transform(
    images: TensorLike, start_points: TensorLike, end_points: TensorLike, interpolation: str = "bilinear",
    fill_value: float = 0, data_format: str | None = None,
) -> Tensor:  # fmt: skip
    order = _checked(interpolation)
    x, start, end = convert_to_tensor(images), convert_to_tensor(start_points), convert_to_tensor(end_points)
    check_rank(x)
    for name, points in (("start_points", start), ("end_points", end)):
        if tuple(points.shape[-2:]) != (4, 2) or points.ndim not in (2, 3):
            raise ValueError(
                f"Invalid {name} shape: expected (4,2) for a single image or (N,4,2) for a batch. "
                f"Received shape: {tuple(points.shape)}"
            )
    if tuple(start.shape) != tuple(end.shape):
        raise ValueError(
            "start_points and end_points must have the same shape. "
            f"Received start_points.shape={tuple(start.shape)}, end_points.shape={tuple(end.shape)}"
        )
    batch = _Batch(x, data_format)
    if start.ndim == 2:
        start, end = expand_dims(start, 0), expand_dims(end, 0)
    numbers = compute_homography_matrix(cast(start, "float32"), cast(end, "float32"))
    rows, columns = batch.grid()
    h = [reshape(numbers[:, i], (-1, 1, 1)) for i in range(8)]
    blank = cast(np.zeros((int(batch.images.shape[0]), 1, 1)), "float32")
    depth = h[6] * columns + h[7] * rows + 1.0
    across = (h[0] * columns + h[1] * rows + h[2]) / depth + blank
    down = (h[3] * columns + h[4] * rows + h[5]) / depth + blank
    return batch.back(_moved(batch.images, down, across, order, "constant", fill_value))


def compute_homography_matrix(start_points: TensorLike, end_points: TensorLike) -> Tensor:
    """The eight numbers of the projective map from `end_points` to `start_points`."""
    start, end = floating(start_points), floating(end_points)
    u, v, x, y = start[..., 0], start[..., 1], end[..., 0], end[..., 1]
    zero, one = x * 0.0, x * 0.0 + 1.0
    upper = stack([x, y, one, zero, zero, zero, -u * x, -u * y], axis=-1)
    lower = stack([zero, zero, zero, x, y, one, -v * x, -v * y], axis=-1)
    matrix = concat([upper, lower], 1)
    return squeeze(solve(matrix, expand_dims(concat([u, v], -1), -1)), -1)


def elastic_transform(
    images: TensorLike, alpha: float = 20.0, sigma: float = 5.0, interpolation: str = "bilinear", fill_mode: str = "reflect",
    fill_value: float = 0.0, seed: Any = None, data_format: str | None = None,
) -> Tensor:  # fmt: skip
    """Each pixel is moved by a random vector; neighbours by similar ones, as the field of vectors is blurred."""
    order = _checked(interpolation, fill_mode)
    batch = _Batch(convert_to_tensor(images), data_format)
    count, height, width, _ = batch.images.shape
    size = int(6 * sigma) | 1
    rows, columns = batch.grid()

    def field() -> Tensor:
        noise = normal((count, height, width, 1), stddev=float(sigma), dtype="float32", seed=seed)
        return squeeze(gaussian_blur(noise, (size, size), (float(sigma), float(sigma)), "channels_last"), -1)

    across, down = columns + alpha * field(), rows + alpha * field()
    return batch.back(_moved(batch.images, down, across, order, fill_mode, fill_value))
