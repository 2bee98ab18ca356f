"""Functions of `gt.nn` made of the large ones: statistics in parts, losses over replicas, pooling and convolution by name,
normalisation over channels, greyscale morphology. No primitives: all rules are inherited."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from gradtape.core.arguments import option, promoted, real_floats
from gradtape.core.dispatch import apply, convert, promote
from gradtape.core.opdef import Sample, composite
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Axes, Integer, Integers, Padding, Shape, TensorLike
from gradtape.errors import InvalidArgumentError, UnimplementedError
from gradtape.ops.activations import floating
from gradtape.ops.conv import conv2d, transposed
from gradtape.ops.normalization import dropped
from gradtape.ops.pool import POOL_SUM, pooled
from gradtape.ops.random import stateless_uniform
from gradtape.ops.rank_functions import size as replicas
from gradtape.ops.reduce import normal_axes
from gradtape.ops.sampling import normal, positive, spread
from gradtape.ops.windows import out_space, pads, per_axis, taps

# -- statistics --------------------------------------------------------------------------------------------------------


@composite(samples=lambda: [Sample(normal(3, 4), [0], positive(3, 4)), Sample(normal(2, 3), [1], positive(3), keepdims=True)])
def weighted_moments(
    x: TensorLike, axes: Axes, frequency_weights: TensorLike, keepdims: bool = False, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Mean and variance over the given axes, each element counted as often as its weight says."""
    x, weights = promote(floating(x), frequency_weights)
    axes = normal_axes(axes, x.ndim, "weighted_moments")
    weights = weights + zeros_like(x)
    total = reduce_sum(weights, axes, True)
    mean = reduce_sum(weights * x, axes, True) / total
    variance = reduce_sum(weights * square(x - mean), axes, True) / total
    return (mean, variance) if keepdims else (squeeze(mean, axes), squeeze(variance, axes))


@composite(samples=lambda: [Sample(normal(3, 4), [0]), Sample(normal(2, 3), [0, 1], normal(), True)])
def sufficient_statistics(
    x: TensorLike, axes: Axes, shift: TensorLike | None = None, keepdims: bool = False, name: str | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """How many elements there are along the axes, their sum and the sum of their squares, less `shift`, and the shift."""
    x = floating(x)
    axes = normal_axes(axes, x.ndim, "sufficient_statistics")
    count = cast(reduce_prod([convert(x.shape[axis]) for axis in axes]), x.dtype)
    moved = x if shift is None else x - shift
    away = None if shift is None else convert(shift, hint=x.dtype)
    return count, reduce_sum(moved, axes, keepdims), reduce_sum(square(moved), axes, keepdims), away


@composite(
    samples=lambda: [
        Sample(np.array(4.0), normal(3), positive(3) + 9.0, None),
        Sample(np.array(4.0), normal(), positive() + 9.0, normal()),
    ]
)
def normalize_moments(
    counts: TensorLike, mean_ss: TensorLike, variance_ss: TensorLike, shift: TensorLike | None, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Mean and variance from what `sufficient_statistics` gives."""
    count, first, second = promoted("normalize_moments", counts=counts, mean_ss=mean_ss, variance_ss=variance_ss)
    mean = first / count
    return mean if shift is None else mean + shift, second / count - square(mean)


@composite(
    samples=lambda: [
        Sample(normal(2, 3, 4), 1),
        Sample(normal(1, 2, 2, 5), 2, 1.5, 0.3, 0.7),
        Sample(normal(2, 3), depth_radius=4),
    ]
)
def local_response_normalization(
    input: TensorLike, depth_radius: Integer = 5, bias: float = 1.0, alpha: float = 1.0, beta: float = 0.5,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """Each element divided by (bias + alpha · the sum of squares of the channels around it)^beta."""
    x, radius = real_floats(input, "input", "local_response_normalization"), int(depth_radius)
    rows = reshape(square(x), (-1, x.shape[-1], 1))
    sums = apply(POOL_SUM, rows, ksize=(2 * radius + 1,), strides=(1,), padding=((radius, radius),))
    return x / pow(bias + alpha * reshape(sums, tuple(x.shape)), beta)


lrn = local_response_normalization

# -- losses ------------------------------------------------------------------------------------------------------------


@composite(samples=lambda: [Sample(positive(3) + 2.0, normal(3)), Sample(np.array([0.5, 3.0]), normal(2), True)])
def log_poisson_loss(
    targets: TensorLike, log_input: TensorLike, compute_full_loss: bool = False, name: str | None = None
) -> Tensor:
    """e^c - z·c for targets z and logarithms c of predicted rates; with Stirling's log z! if the full loss is asked for."""
    z, c = promoted("log_poisson_loss", targets=targets, log_input=log_input)
    loss = exp(c) - c * z
    if not compute_full_loss:
        return loss
    some = z > 1.0
    safe = where(some, z, ones_like(z))
    return loss + where(some, safe * log(safe) - safe + 0.5 * log(2.0 * np.pi * safe), zeros_like(z))


@composite(
    samples=lambda: [Sample(normal(4)), Sample(normal(4, 2), normal(4), 8), Sample(normal(3), normal(3, 1), np.array(2))]
)
def compute_average_loss(
    per_example_loss: TensorLike, sample_weight: TensorLike | None = None, global_batch_size: Integer | None = None
) -> Tensor:
    """The (weighted) sum of the examples' losses over the size of the batch of all replicas."""
    losses = floating(per_example_loss)
    if sample_weight is not None:
        weights = cast(convert(sample_weight), losses.dtype)
        if weights.ndim == losses.ndim + 1:
            weights = squeeze(weights, -1)
        losses = losses * reshape(weights, (*weights.shape, *(1,) * (losses.ndim - weights.ndim)))
    count = convert(losses.shape[0]) * replicas() if global_batch_size is None else convert(global_batch_size)
    return reduce_sum(losses) / cast(count, losses.dtype)


@composite(samples=lambda: [Sample(normal(3)), Sample(normal())])
def scale_regularization_loss(regularization_loss: TensorLike) -> Tensor:
    """The sum of what regularizers add to the loss, over the number of replicas, each of which adds it."""
    return reduce_sum(floating(regularization_loss)) / replicas()


# -- windows -----------------------------------------------------------------------------------------------------------


@composite(
    samples=lambda: [
        Sample(spread(1, 4, 4, 1), [2, 2], "MAX"),
        Sample(normal(1, 5, 2), [3], "AVG", [2], "SAME"),
        Sample(normal(1, 5, 2), [3], "SUM", raises=(ValueError, "pooling_type")),
    ]
)
def pool(
    input: TensorLike, window_shape: Integers, pooling_type: str, strides: Integers | None = None, padding: Padding = "VALID",
    data_format: str | None = None, dilations: Integers | None = None, name: str | None = None,
) -> Tensor:  # fmt: skip
    """The largest (`"MAX"`) or average (`"AVG"`) element of each window, in as many dimensions as the input has space axes."""
    x = real_floats(input, "input", "pool")
    option(pooling_type, "pooling_type", "pool", ("MAX", "AVG"))
    if dilations is not None and np.any(np.asarray(dilations) != 1):
        raise UnimplementedError("pool: windows with gaps (dilations) are not offered; gt.space_to_batch_nd makes them")
    steps = 1 if strides is None else strides
    return pooled(x, window_shape, steps, padding, data_format, x.ndim - 2, pooling_type == "AVG", "pool")


@composite(samples=lambda: [Sample(normal(1, 3, 2), normal(3, 1, 2), (1, 6, 1), 2)])
def conv_transpose(
    input: TensorLike, filters: TensorLike, output_shape: Shape, strides: Integers, padding: Padding = "SAME",
    data_format: str | None = None, dilations: Integers | None = None, name: str | None = None,
) -> Tensor:  # fmt: skip
    """The transpose of a convolution with respect to its input, in one, two or three dimensions, as the filter has them."""
    rank = convert(filters).ndim - 2
    return transposed(input, filters, output_shape, strides, padding, data_format, dilations, rank, "conv_transpose")


@composite(samples=lambda: [Sample(normal(1, 5, 5, 2), normal(2, 2, 2, 1), 2, "VALID")])
def atrous_conv2d(value: TensorLike, filters: TensorLike, rate: Integer, padding: Padding, name: str | None = None) -> Tensor:
    """`conv2d` whose filter has `rate` - 1 gaps between its elements.

    >>> gt.nn.atrous_conv2d(gt.ones((1, 3, 3, 1)), gt.ones((2, 2, 1, 1)), 2, "VALID").numpy().ravel()
    array([4.], dtype=float32)
    """
    return conv2d(value, filters, 1, padding, dilations=rate)


@composite(samples=lambda: [Sample(normal(1, 3, 3, 1), normal(2, 2, 2, 1), (1, 5, 5, 2), 2, "VALID")])
def atrous_conv2d_transpose(
    value: TensorLike, filters: TensorLike, output_shape: Shape, rate: Integer, padding: Padding, name: str | None = None
) -> Tensor:
    """The transpose of `atrous_conv2d` with respect to its input; the filter is (height, width, out, in)."""
    return transposed(value, filters, output_shape, 1, padding, "NHWC", rate, 2, "atrous_conv2d_transpose")


@composite(
    samples=lambda: [
        Sample(spread(1, 4, 4, 2), normal(2, 2, 2) * 0.01, [1, 1, 1, 1], "SAME", "NHWC", [1, 1, 1, 1]),
        Sample(spread(1, 5, 5, 1), normal(2, 2, 1) * 0.01, [1, 2, 1, 1], "VALID", "NHWC", [1, 2, 2, 1]),
        Sample(normal(1, 5, 5, 1), normal(2, 2, 3), 1, "SAME", "NHWC", 1, raises=(ValueError, "channels")),
        Sample(normal(1, 5, 5, 1), normal(2, 2, 1), 1, "SAME", "NCHW", 1, raises=(ValueError, "must be 'NHWC', got")),
    ]
)
def dilation2d(
    input: TensorLike, filters: TensorLike, strides: Integers, padding: str, data_format: str, dilations: Integers,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """The largest of input + filter in each window, channel by channel: greyscale dilation.

    >>> x = gt.reshape(gt.range(4.0), (1, 2, 2, 1))
    >>> gt.nn.dilation2d(x, gt.zeros((2, 2, 1)), 1, "VALID", "NHWC", 1).numpy().ravel()
    array([3.], dtype=float32)
    """
    op = "dilation2d"
    x, w = promoted(op, input=real_floats(input, "input", op), filters=filters)
    option(data_format, "data_format", op, ("NHWC",))
    if x.ndim != 4 or w.ndim != 3 or x.shape[-1] != w.shape[-1]:
        raise InvalidArgumentError(
            f"{op}: needs an input (batch, height, width, channels) and filters (height, width, channels), "
            f"got {tuple(x.shape)} and {tuple(w.shape)}"
        )
    steps, gaps = (per_axis(v, 2, False, op, n) for v, n in ((strides, "strides"), (dilations, "dilations")))
    space, kernel = tuple(x.shape)[1:3], tuple(w.shape)[:2]
    sides = pads(padding, space, kernel, steps, gaps, False, op)
    out = out_space(space, kernel, steps, sides, gaps, op)
    wide = pad(x, [(0, 0), *sides, (0, 0)], constant_values=x.dtype.min)
    best = None
    for tap, place in taps(kernel, steps, gaps, out):
        part = wide[place] + w[tap]
        best = part if best is None else maximum(best, part)
    return x if best is None else best


@composite(samples=lambda: [Sample(spread(1, 4, 4, 2), normal(2, 2, 2) * 0.01, 1, "SAME", "NHWC", 1)])
def erosion2d(
    value: TensorLike, filters: TensorLike, strides: Integers, padding: str, data_format: str, dilations: Integers,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """The smallest of input - filter in each window, channel by channel: greyscale erosion.

    >>> gt.nn.erosion2d(gt.ones((1, 2, 2, 1)), gt.zeros((2, 2, 1)), 1, "VALID", "NHWC", 1).numpy().ravel()
    array([1.], dtype=float32)
    """
    return -dilation2d(-convert(value), reverse(filters, [0, 1]), strides, padding, data_format, dilations)


def _stateless_dropout(
    x: TensorLike, rate: float, seed: TensorLike, rng_alg: str = "auto_select", noise_shape: Shape | None = None,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """Dropout that is a function of its seed."""
    x = floating(x)
    return dropped(x, rate, noise_shape, lambda shape: stateless_uniform(shape, seed, dtype=x.dtype))


experimental = SimpleNamespace(stateless_dropout=_stateless_dropout)

__all__ = [
    "atrous_conv2d", "atrous_conv2d_transpose", "compute_average_loss", "conv_transpose", "dilation2d", "erosion2d",
    "experimental", "local_response_normalization", "log_poisson_loss", "lrn", "normalize_moments", "pool",
    "scale_regularization_loss", "sufficient_statistics", "weighted_moments",
]  # fmt: skip

from gradtape.ops.create import ones_like, zeros_like
from gradtape.ops.elementwise import cast, exp, log, pow, square
from gradtape.ops.extending import pad
from gradtape.ops.reduce import reduce_prod, reduce_sum
from gradtape.ops.select import maximum, where
from gradtape.ops.shape import reshape, reverse, squeeze
