"""Keras's `math` functions: segments, largest values, logarithms of sums, windows of sequences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradtape.core.tensor import Tensor
from gradtape.core.typing import TensorLike
from gradtape.keras.core_ops import cast, convert_to_tensor
from gradtape.keras.numpy_types import axes_of, floating, of_floats, on_tensors as np, promoted_floats
from gradtape.ops import segment, sorting
from gradtape.ops.compare import equal
from gradtape.ops.elementwise import rsqrt as engine_rsqrt, sqrt
from gradtape.ops.index import gather
from gradtape.ops.linalg_det import slogdet
from gradtape.ops.reduce import reduce_any, reduce_logsumexp, reduce_max, reduce_sum
from gradtape.ops.select import where
from gradtape.ops.shape import expand_dims, reshape
from gradtape.ops.special import erf as engine_erf, erfc as engine_erfc, erfinv as engine_erfinv

rsqrt, erf, erfc, erfinv = of_floats(engine_rsqrt), of_floats(engine_erf), of_floats(engine_erfc), of_floats(engine_erfinv)


def _segments(
    rule: Callable[..., Tensor], data: TensorLike, segment_ids: TensorLike, num_segments: int | None, empty: float | None = None
) -> Tensor:
    values, ids = convert_to_tensor(data), cast(segment_ids, "int32")
    if num_segments is None:
        if ids.wraps:
            raise ValueError("Argument `num_segments` must be set inside a compiled function.")
        num_segments = int(reduce_max(ids)) + 1
    # ids out of range go to a slot of their own, which is cut off
    inside = np.logical_and(ids >= 0, ids < num_segments)
    slots = where(inside, ids, cast(num_segments, "int32"))
    result = rule(values, slots, num_segments + 1)[:num_segments]
    if empty is None or not values.dtype.is_floating:
        return result
    counts = segment.unsorted_segment_sum(cast(inside, "int32"), slots, num_segments + 1)[:num_segments]
    nobody = reshape(equal(counts, 0), (num_segments, *(1,) * (values.ndim - 1)))
    return where(nobody, cast(empty, result.dtype), result)


def segment_sum(data: TensorLike, segment_ids: TensorLike, num_segments: int | None = None, sorted: bool = False) -> Tensor:
    return _segments(segment.unsorted_segment_sum, data, segment_ids, num_segments)


def segment_max(data: TensorLike, segment_ids: TensorLike, num_segments: int | None = None, sorted: bool = False) -> Tensor:
    return _segments(segment.unsorted_segment_max, data, segment_ids, num_segments, -np.inf)


def segment_min(data: TensorLike, segment_ids: TensorLike, num_segments: int | None = None, sorted: bool = False) -> Tensor:
    return _segments(segment.unsorted_segment_min, data, segment_ids, num_segments, np.inf)


def segment_prod(data: TensorLike, segment_ids: TensorLike, num_segments: int | None = None, sorted: bool = False) -> Tensor:
    return _segments(segment.unsorted_segment_prod, data, segment_ids, num_segments)


def multiplied_at(target: Tensor, places: Tensor, values: Tensor) -> Tensor:
    """`target[place] *= value` for each; repeated places multiply by all of their values."""
    shape = tuple(int(n) for n in target.shape)
    depth = int(places.shape[-1])
    steps = np.cumprod([1, *reversed(shape[1:depth])])[::-1]
    rows = reduce_sum(places * cast(steps.copy(), places.dtype), -1)
    count = int(np.prod(shape[:depth]))
    factors = segment.unsorted_segment_prod(reshape(values, (-1, *shape[depth:])), cast(rows, "int32"), count)
    return target * reshape(factors, shape)


def top_k(x: TensorLike, k: int, sorted: bool = True) -> tuple[Tensor, Tensor]:
    values, places = sorting.top_k(convert_to_tensor(x), k, sorted)
    return values, cast(places, "int32")


def in_top_k(targets: TensorLike, predictions: TensorLike, k: int) -> Tensor:
    scores, labels = convert_to_tensor(predictions), cast(targets, "int32")
    best = sorting.top_k(scores, k)[0]
    own = np.take_along_axis(scores, expand_dims(labels, -1), -1)
    return reduce_any(own >= best, -1)


def logsumexp(x: TensorLike, axis: Any = None, keepdims: bool = False) -> Tensor:
    return reduce_logsumexp(floating(x), axes_of(axis), keepdims)


def cdist(x: TensorLike, y: TensorLike) -> Tensor:
    a, b = promoted_floats(x, y)
    if a.ndim < 2 or b.ndim < 2:
        raise ValueError("`cdist` inputs must have rank >= 2")
    if a.shape[-1] != b.shape[-1]:
        raise ValueError("Last dimension of inputs to `cdist` must match")
    gap = expand_dims(a, -2) - expand_dims(b, -3)
    return sqrt(reduce_sum(gap * gap, -1))


def extract_sequences(x: TensorLike, sequence_length: int, sequence_stride: int) -> Tensor:
    tensor = convert_to_tensor(x)
    count = (int(tensor.shape[-1]) - (sequence_length - sequence_stride)) // sequence_stride
    places = np.arange(count)[:, None] * sequence_stride + np.arange(sequence_length)
    return gather(tensor, convert_to_tensor(places, "int32"), axis=-1)


def logdet(x: TensorLike) -> Tensor:
    return slogdet(floating(x))[1]
