"""Norms of tensors and lists of tensors, and clipping by them.

The length of a zero vector has derivative 0 by convention (a subgradient), at every order, so no NaN appears there.
`variables/gradient_clipping.py` extends these functions to IndexedSlices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradtape.core.dispatch import convert
from gradtape.core.opdef import Sample, composite
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Axes, TensorLike
from gradtape.errors import InvalidArgumentError
from gradtape.ops.sampling import normal


def square_sum(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Sum of |x|² over the given axes."""
    return reduce_sum(square(abs(x)) if is_complex(x) else square(x), axis, keepdims)


def clip_factor(length: Tensor, limit: TensorLike) -> Tensor:
    """What brings a vector of this length to at most `limit`: limit / max(length, limit); NaN for an infinite length."""
    limit = convert(limit, hint=length.dtype)
    limit = limit if limit.dtype == length.dtype else cast(limit, length.dtype)
    top = maximum(length, limit)
    # a limit of 0 gives 0, also for a zero vector
    return where(is_finite(length), divide_no_nan(limit, top), float("nan"))


def scaled(t: Tensor, factor: Tensor) -> Tensor:
    """t times a real factor."""
    return t * (cast(factor, t.dtype) if is_complex(t) else factor)


@composite(
    samples=lambda: [
        Sample(normal(3, 2), 0.5),
        Sample(normal(3), 50.0),
        Sample(normal(3, 2), 0.7, 1, fixed=(2,)),
        Sample(normal(2) + 1j * normal(2), 0.3),
        Sample(np.zeros(3), 0.5),
    ]
)
def clip_by_norm(t: TensorLike, clip_norm: TensorLike, axes: Axes = None, name: str | None = None) -> Tensor:
    """`t` scaled down, if need be, so that its length over `axes` (all by default) is at most `clip_norm`.

    >>> gt.clip_by_norm([3.0, 4.0], 1.0).numpy()
    array([0.6, 0.8], dtype=float32)
    """
    t = convert(t)
    return scaled(t, clip_factor(safe_sqrt(square_sum(t, axes, True)), clip_norm))


@composite(samples=lambda: [Sample(normal(3, 2), 0.1), Sample(normal(3), 50.0), Sample(np.zeros(3), 0.5)])
def clip_by_average_norm(t: TensorLike, clip_norm: TensorLike, name: str | None = None) -> Tensor:
    """`t` scaled down so that its length divided by its number of elements is at most `clip_norm`."""
    t = convert(t)
    return scaled(t, clip_factor(safe_sqrt(square_sum(t)) / max(t.size, 1), clip_norm))


def tensors_of(t_list: Sequence[TensorLike | None], op: str) -> list[Any]:
    """The list of tensors (or None) an argument stands for."""
    if not isinstance(t_list, (list, tuple)):
        raise TypeError(f"{op}: t_list must be a list or tuple of tensors, got {type(t_list).__name__}")
    return list(t_list)


@composite(
    samples=lambda: [
        Sample([normal(3), normal(2, 2)]),
        Sample([np.zeros(2), np.zeros(3)], kinks=True),
        Sample([None, normal(2)]),
    ]
)
def global_norm(t_list: Sequence[TensorLike | None], name: str | None = None) -> Tensor:
    """The length of all tensors of a list together: √Σ|t|²; None entries are skipped.

    >>> gt.global_norm([[3.0], [[4.0]]]).numpy()
    np.float32(5.0)
    """
    squares = [square_sum(convert(t)) for t in tensors_of(t_list, "global_norm") if t is not None]
    return safe_sqrt(add_n(squares)) if squares else convert(0.0)


@composite(
    samples=lambda: [
        Sample([normal(3), normal(2, 2)], 0.5),
        Sample([normal(3), None], 50.0),
        Sample([np.zeros(2), np.zeros(3)], 0.5, kinks=True),
        Sample([normal(2)], 0.5, 0.25),
    ]
)
def clip_by_global_norm(
    t_list: Sequence[TensorLike | None], clip_norm: TensorLike, use_norm: TensorLike | None = None, name: str | None = None
) -> tuple[list[Any], Tensor]:
    """(the tensors scaled so that their length together is at most `clip_norm`, that length before).

    An infinite or NaN length makes all results NaN, so that a broken step is not taken for a good one.

    >>> clipped, norm = gt.clip_by_global_norm([[3.0], [4.0]], 1.0)
    >>> [float(c[0]) for c in clipped], norm.numpy()
    ([0.6000000238418579, 0.800000011920929], np.float32(5.0))
    """
    tensors = [t if t is None else convert(t) for t in tensors_of(t_list, "clip_by_global_norm")]
    norm = global_norm(tensors) if use_norm is None else convert(use_norm)
    if norm.ndim:
        raise InvalidArgumentError(f"clip_by_global_norm: use_norm must be a scalar, got shape {tuple(norm.shape)}")
    factor = clip_factor(norm, clip_norm)
    return [None if t is None else scaled(t, fitting(factor, t)) for t in tensors], norm


def fitting(factor: Tensor, t: Tensor) -> Tensor:
    """The factor in the (real) dtype of t, so that clipping changes no dtype."""
    return cast(factor, t.dtype.real_dtype)


@composite(
    samples=lambda: [
        Sample(normal(3, 2)),
        Sample(normal(3, 2), 1),
        Sample(normal(2, 3, 2), [0, 2], fixed=(1,)),
        Sample(normal(3), epsilon=9.0),
        Sample(normal(2) + 1j * normal(2)),
    ]
)
def l2_normalize(x: TensorLike, axis: Axes = None, epsilon: float = 1e-12, name: str | None = None, dim: Axes = None) -> Tensor:
    """x / √max(Σ|x|², epsilon) along the given axes.

    >>> gt.math.l2_normalize([3.0, 4.0]).numpy()
    array([0.6, 0.8], dtype=float32)
    """
    x = convert(x)
    total = maximum(square_sum(x, dim if axis is None else axis, True), epsilon)
    # epsilon = 0 at a zero vector: the result and its derivative are 0
    return scaled(x, divide_no_nan(ones_like(total), safe_sqrt(total)))


from gradtape.ops.compare import is_finite
from gradtape.ops.composite import add_n, divide_no_nan
from gradtape.ops.create import ones_like
from gradtape.ops.elementwise import abs, cast, is_complex, square
from gradtape.ops.reduce import reduce_sum, safe_sqrt
from gradtape.ops.select import maximum, where
