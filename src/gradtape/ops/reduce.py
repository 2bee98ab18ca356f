"""Reductions: sum, product, extrema, logic, and the composites over them (mean, variance, norms, log-sum-exp)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradtape.core import batching, inference
from gradtape.core.bfloat16 import BFLOAT16, rounded_once
from gradtape.core.dispatch import apply, convert
from gradtape.core.forms import MISS, form_of, shortcut
from gradtape.core.opdef import Cost, Memory, Op, Rule, Sample, composite, general, linear, nondiff
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Array, Axes, Dims, Number, Size, TensorLike
from gradtape.errors import InvalidArgumentError
from gradtape.ir.polynomial import maximum
from gradtape.ir.types import TensorSpec
from gradtape.ops.sampling import away, normal, positive, spread
from gradtape.ops.shape import listed_axes, normal_axis

_ADD: Any = np.add  # NumPy's stubs do not know tuples of axes in ufunc.reduce


def normal_axes(axis: Axes, rank: int, op: str) -> tuple[int, ...]:
    """Axes of a reduction (None: all) as a sorted tuple of distinct non-negative ints."""
    if axis is None:
        return tuple(range(rank))
    if axis.__class__ is int and 0 <= axis < rank:
        return (axis,)
    axes = tuple(normal_axis(a, rank, op) for a in listed_axes(axis))
    if len(set(axes)) != len(axes):
        raise InvalidArgumentError(f"{op}: axis {axis} names an axis twice")
    return tuple(sorted(axes))


def spread_back(ct: Tensor, shape: Dims, axis: tuple[int, ...], keepdims: bool) -> Tensor:
    """A reduced value laid out over the axes it was reduced from."""
    if not keepdims:
        ct = reshaped(ct, shape=inference.reduced_shape(shape, axis, True))
    return broadcasted(ct, shape=tuple(shape))


def _reduction_samples() -> list[Sample]:
    return [
        Sample(normal(3, 4)),
        Sample(normal(2, 3, 4), [0, 2]),
        Sample(normal(2, 3), -1, True),
        Sample(normal()),
        Sample(normal(0, 3), 0),
        Sample(normal(3) + 1j * normal(3)),
        Sample(np.array([True, False, True])),
        Sample(normal(2, 3), 2, raises=(ValueError, "out of range")),
        Sample(normal(2, 3), [0, 0], raises=(ValueError, "twice")),
    ]


def reduce_sum(input_tensor: TensorLike, axis: Axes = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """Sum over the given axes (all by default); of booleans, how many are true (int32).

    >>> gt.reduce_sum([[1.0, 2.0], [3.0, 4.0]], axis=0).numpy()
    array([4., 6.], dtype=float32)
    """
    if _SUM.quick is not None and (out := _SUM.quick(input_tensor, axis, keepdims)) is not MISS:
        return out
    x = input_tensor if input_tensor.__class__ is Tensor else convert(input_tensor)
    return summed(x, axis=normal_axes(axis, x.ndim, "reduce_sum"), keepdims=bool(keepdims))


def _sum_spec(x: TensorSpec, *, axis: tuple[int, ...], keepdims: bool) -> TensorSpec:
    return inference.reduction(TensorSpec(x.shape, "int32") if x.dtype.is_bool else x, axis=axis, keepdims=keepdims)


def _sum_impl(x: Array, *, axis: tuple[int, ...], keepdims: bool) -> Array:
    kind = x.dtype.kind
    if kind == "b":
        x = x.astype(np.int32)
    elif kind == BFLOAT16:
        return _wide_sum(x, axis=axis, keepdims=keepdims)
    return _ADD.reduce(x, axis, x.dtype, None, keepdims) if x.ndim else x


_wide_sum = rounded_once(_sum_impl)
REDUCE_SUM = linear(
    "reduce_sum", "x", _sum_impl,
    lambda ct, x_shape, axis, keepdims: spread_back(ct, x_shape, axis, keepdims),
    expand=lambda x, axis, keepdims: reduce_sum(cast(x, "int32"), axis, keepdims) if x.dtype.is_bool else None,
    infer=_sum_spec,
    batch=batching.shifted("axis"),
    cost=Cost.CHEAP,
    memory=Memory.FRESH,
    samples=_reduction_samples,
)  # fmt: skip
summed = form_of(REDUCE_SUM)
_SUM = shortcut("reduction", REDUCE_SUM)


def reduce_mean(input_tensor: TensorLike, axis: Axes = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """Mean over the given axes, rounded down for integers; of booleans, the share that is true (float32).

    >>> gt.reduce_mean([1.0, 2.0, 6.0]).numpy()
    np.float32(3.0)
    """
    x = input_tensor if input_tensor.__class__ is Tensor else convert(input_tensor)
    return averaged(x, axis=normal_axes(axis, x.ndim, "reduce_mean"), keepdims=bool(keepdims))


def count_along(shape: Dims, axis: tuple[int, ...]) -> Any:
    """How many elements one reduced value stands for."""
    return math.prod(shape[a] for a in axis)


def share(count: Size, like: Tensor) -> float | Tensor:
    """1 / count, the derivative of a mean (of nothing: 1, there is nothing to multiply)."""
    return 1.0 / max(count, 1) if count.__class__ is int else cast(1.0 / number_of(maximum(count, 1), "float64"), like.dtype)


def _mean_spec(x: TensorSpec, *, axis: tuple[int, ...], keepdims: bool) -> TensorSpec:
    return inference.reduction(TensorSpec(x.shape, "float32") if x.dtype.is_bool else x, axis=axis, keepdims=keepdims)


def _mean_impl(x: Array, *, axis: tuple[int, ...], keepdims: bool) -> Array:
    if x.dtype.kind == "b":
        x = x.astype(np.float32)
    elif x.dtype.kind == BFLOAT16:
        return _wide_mean(x, axis=axis, keepdims=keepdims)
    elif x.dtype.char == "e":  # the sum of float16 numbers overflows long before their mean
        return _mean_impl(np.asarray(x, np.float32), axis=axis, keepdims=keepdims).astype(np.float16)
    total = _ADD.reduce(x, axis=axis, keepdims=keepdims, dtype=x.dtype) if x.ndim else x
    count = count_along(x.shape, axis)
    if x.dtype.kind in "iu":
        return total // count
    if count == 0:
        return total * np.nan
    return total / count


_wide_mean = rounded_once(_mean_impl)


def _expand_mean(x: Tensor, *, axis: tuple[int, ...], keepdims: bool) -> Tensor | None:
    """The mean of booleans, float16 and integers; None for others, and for integers whose count is no number of their type."""
    if x.dtype.is_bool:
        return reduce_mean(cast(x, "float32"), axis, keepdims)
    if x.dtype.name == "float16":
        return cast(reduce_mean(cast(x, "float32"), axis, keepdims), "float16")
    count = count_along(x.shape, axis)
    if not x.dtype.is_integer or count.__class__ is not int or not 0 < count <= x.dtype.max:
        return None
    return reduce_sum(x, axis, keepdims) // count


# linear, but for the mean of nothing: that is NaN, and its derivative, a map from a space without directions, 0
REDUCE_MEAN = general(
    "reduce_mean", "x", _mean_impl,
    vjps=(
        lambda ct, x_shape, axis, keepdims: spread_back(ct * share(count_along(x_shape, axis), ct), x_shape, axis, keepdims),
    ),
    jvps=(lambda t, axis, keepdims: reduce_sum(t, axis, keepdims) * share(count_along(t.shape, axis), t),),
    expand=_expand_mean,
    infer=_mean_spec,
    batch=batching.shifted("axis"),
    cost=Cost.CHEAP,
    memory=Memory.FRESH,
    samples=_reduction_samples,
)  # fmt: skip
averaged = form_of(REDUCE_MEAN)

# -- product ---------------------------------------------------------------------------------------------------------


@composite(
    samples=lambda: [
        Sample(away(3, 2)),
        Sample(away(2, 3, 2), [0, 2]),
        Sample(away(2, 3), 0, True),
        Sample(away()),
        Sample(normal(0, 3), 0),
        Sample(np.array([2.0, 0.0, 3.0])),
        Sample(away(3), 1, raises=(ValueError, "out of range")),
    ]
)
def reduce_prod(input_tensor: TensorLike, axis: Axes = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """Product over the given axes; the gradient is exact at zeros.

    >>> gt.reduce_prod([2.0, 3.0]).numpy()
    np.float32(6.0)
    """
    x = convert(input_tensor)
    axes = normal_axes(axis, x.ndim, "reduce_prod")
    rest = tuple(i for i in range(x.ndim) if i not in axes)
    dims = tuple(x.shape)
    # bring the reduced axes last and flatten them: one primitive over the last axis
    rows = permuted(x, perm=(*rest, *axes)) if rest + axes != tuple(range(x.ndim)) else x
    flat = reshaped(rows, shape=(*(dims[i] for i in rest), count_along(dims, axes)))
    out = apply(PROD_LAST, flat)
    return reshaped(out, shape=inference.reduced_shape(dims, axes, True)) if keepdims else out


def others_product(x: Tensor) -> Tensor:
    """Along the last axis, the product of all elements but this one, without dividing."""
    return cumprod(x, -1, exclusive=True) * cumprod(x, -1, exclusive=True, reverse=True)


def _prod_spec(x: TensorSpec) -> TensorSpec:
    return TensorSpec(x.shape[:-1], x.dtype)


# ∂Πx/∂x_j = the product of the others, by two running products from both ends: no division, so exact at zeros.
PROD_LAST = general(
    "prod_last", "x", lambda x: np.multiply.reduce(x, axis=-1, dtype=x.dtype),
    vjps=(lambda ct, x: expand_dims(ct, -1) * conj(others_product(x)),),
    jvps=(lambda t, x: reduce_sum(t * others_product(x), -1),),
    infer=_prod_spec,
    batch=batching.leading,
    samples=lambda: [
        Sample(away(3, 4)),
        Sample(np.array([[1.5, 0.0, 2.0], [0.0, 0.0, 1.0]])),
        Sample(away(1)),
        Sample(normal(2, 0)),
        Sample(away(3) + 1j * away(3)),
    ],
)  # fmt: skip

# -- extrema ---------------------------------------------------------------------------------------------------------


def _extreme_samples() -> list[Sample]:
    return [
        Sample(spread(3, 4)),
        Sample(spread(2, 3, 4), [0, 2]),
        Sample(spread(2, 3), -1, True),
        Sample(spread()),
        Sample(normal(3, 0), 1),
    ]


# Ties share: the average of the one-sided choices, which is in the subdifferential and does not depend on the order.
def extreme_ct(ct: Tensor, x: Tensor, out: Tensor, axis: tuple[int, ...], keepdims: bool) -> Tensor:
    """ct shared evenly among the elements equal to the extremum."""
    chosen = extreme_share(x, out, axis, keepdims)
    return spread_back(ct, x.shape, axis, keepdims) * chosen


def extreme_share(x: Tensor, out: Tensor, axis: tuple[int, ...], keepdims: bool) -> Tensor:
    """For each element its share of the extremum: 1/k among k ties, else 0."""
    hits = cast(x == spread_back(out, x.shape, axis, keepdims), x.dtype)
    return hits / spread_back(reduce_sum(hits, axis, keepdims), x.shape, axis, keepdims)


def _neutral(name: str, dtype: np.dtype) -> Number | np.generic:
    smallest = name == "reduce_max"
    if dtype.kind in "iu":
        return np.iinfo(dtype).min if smallest else np.iinfo(dtype).max
    return not smallest if dtype.kind == "b" else dtype.type(-np.inf if smallest else np.inf)


def _extreme(name: str, ufunc: np.ufunc, call: Rule) -> Op:
    def impl(x: Array, *, axis: tuple[int, ...], keepdims: bool) -> Array:
        if not x.size:  # the neutral element: -inf for max, or the dtype's least number
            return ufunc.reduce(x, axis=axis, keepdims=keepdims, initial=_neutral(name, x.dtype))
        return ufunc.reduce(x, axis=axis, keepdims=keepdims) if x.ndim else x

    return general(
        name, "x", impl,
        vjps=(lambda ct, x, out, axis, keepdims: extreme_ct(ct, x, out, axis, keepdims),),
        jvps=(lambda t, x, out, axis, keepdims: reduce_sum(t * extreme_share(x, out, axis, keepdims), axis, keepdims),),
        infer=inference.reduction, batch=batching.shifted("axis"), call=call, samples=_extreme_samples,
    )  # fmt: skip


def reduce_max(input_tensor: TensorLike, axis: Axes = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """Largest element over the given axes, -inf over an empty one; ties share the gradient.

    >>> gt.reduce_max([1.0, 5.0, 2.0]).numpy()
    np.float32(5.0)
    """
    x = convert(input_tensor)
    return apply(REDUCE_MAX, x, axis=normal_axes(axis, x.ndim, "reduce_max"), keepdims=bool(keepdims))


def reduce_min(input_tensor: TensorLike, axis: Axes = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """Smallest element over the given axes, inf over an empty one; ties share the gradient."""
    x = convert(input_tensor)
    return apply(REDUCE_MIN, x, axis=normal_axes(axis, x.ndim, "reduce_min"), keepdims=bool(keepdims))


REDUCE_MAX = _extreme("reduce_max", np.maximum, reduce_max)
REDUCE_MIN = _extreme("reduce_min", np.minimum, reduce_min)

# -- logic -----------------------------------------------------------------------------------------------------------


def _logic_samples() -> list[Sample]:
    return [Sample(normal(2, 3) > 0), Sample(normal(2, 3) > 0, 1, True), Sample(normal(0) > 0)]


def reduce_all(input_tensor: TensorLike, axis: Axes = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """Whether all elements are true."""
    x = convert(input_tensor)
    return apply(REDUCE_ALL, x, axis=normal_axes(axis, x.ndim, "reduce_all"), keepdims=bool(keepdims))


def reduce_any(input_tensor: TensorLike, axis: Axes = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """Whether any element is true."""
    x = convert(input_tensor)
    return apply(REDUCE_ANY, x, axis=normal_axes(axis, x.ndim, "reduce_any"), keepdims=bool(keepdims))


def _logic_spec(x: TensorSpec, *, axis: tuple[int, ...], keepdims: bool) -> TensorSpec:
    return TensorSpec(inference.reduced_shape(x.shape, axis, keepdims), "bool")


REDUCE_ALL = nondiff(
    "reduce_all", "x", lambda x, *, axis, keepdims: np.logical_and.reduce(x, axis=axis, keepdims=keepdims),
    expand=lambda x, axis, keepdims: None if x.dtype.is_bool else reduce_all(cast(x, "bool"), axis, keepdims),
    infer=_logic_spec,
    reason="logic has no derivative",
    batch=batching.shifted("axis"),
    samples=_logic_samples,
)  # fmt: skip
REDUCE_ANY = nondiff(
    "reduce_any", "x", lambda x, *, axis, keepdims: np.logical_or.reduce(x, axis=axis, keepdims=keepdims),
    expand=lambda x, axis, keepdims: None if x.dtype.is_bool else reduce_any(cast(x, "bool"), axis, keepdims),
    infer=_logic_spec,
    reason="logic has no derivative",
    batch=batching.shifted("axis"),
    samples=_logic_samples,
)  # fmt: skip

# -- composites ------------------------------------------------------------------------------------------------------


def _composite_samples() -> list[Sample]:
    return [Sample(normal(3, 4)), Sample(normal(2, 3, 4), [0, 2]), Sample(normal(2, 3), -1, True), Sample(normal(4))]


@composite(samples=_composite_samples)
def reduce_variance(input_tensor: TensorLike, axis: Axes = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """Mean squared distance from the mean; of complex numbers, of their modulus."""
    x = convert(input_tensor)
    if not x.dtype.is_differentiable:
        raise TypeError(f"reduce_variance: needs a floating or complex tensor, got dtype {x.dtype.name}; use gt.cast first")
    # Two passes: the mean of squares minus the square of the mean would cancel.
    centred = x - reduce_mean(x, axis, True)
    return reduce_mean(square(abs(centred)) if is_complex(x) else square(centred), axis, keepdims)


def safe_sqrt(total: Tensor) -> Tensor:
    """√total with derivative 0 at 0, at every order: the length of a zero vector, the spread of equal numbers."""
    # The inner `where` keeps the root away from 0 also in the lane that is not chosen: its infinite slope would be 0·inf.
    zero = equal(total, 0)
    return where(zero, zeros_like(total), sqrt(where(zero, ones_like(total), total)))


@composite(samples=_composite_samples)
def reduce_std(input_tensor: TensorLike, axis: Axes = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """Square root of the variance; its gradient is 0 where all elements are equal."""
    return safe_sqrt(reduce_variance(input_tensor, axis, keepdims))


@composite(samples=_composite_samples)
def reduce_euclidean_norm(
    input_tensor: TensorLike, axis: Axes = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """Square root of the sum of squares; its gradient is 0 where that is 0.

    >>> gt.reduce_euclidean_norm([3.0, 4.0]).numpy()
    np.float32(5.0)
    """
    x = convert(input_tensor)
    return safe_sqrt(reduce_sum(square(abs(x)) if is_complex(x) else square(x), axis, keepdims))


@composite(samples=lambda: [*_composite_samples(), Sample(np.array([1000.0, 1001.0])), Sample(positive(2, 3), 1)])
def reduce_logsumexp(input_tensor: TensorLike, axis: Axes = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """log(sum(exp(x))), computed without overflow; -inf for all -inf.

    >>> gt.reduce_logsumexp([1000.0, 0.0]).numpy()
    np.float32(1000.0)
    """
    x = convert(input_tensor)
    # Any constant shift gives the same value and derivative, so the maximum is one for the tape as well.
    top = stop_gradient(reduce_max(x, axis, True))
    # (-inf less -inf would be NaN where all elements are -inf)
    top = where(is_finite(top), top, zeros_like(top))
    out = log(reduce_sum(exp(x - top), axis, True)) + top
    if keepdims:
        return out
    return reshaped(out, shape=inference.reduced_shape(x.shape, normal_axes(axis, x.ndim, "reduce_logsumexp"), False))


OPS = (REDUCE_SUM, REDUCE_MEAN, PROD_LAST, REDUCE_MAX, REDUCE_MIN, REDUCE_ALL, REDUCE_ANY)

from gradtape.ops.compare import equal, is_finite
from gradtape.ops.create import ones_like, zeros_like
from gradtape.ops.cumulative import cumprod
from gradtape.ops.elementwise import abs, cast, conj, exp, is_complex, log, sqrt, square
from gradtape.ops.select import where
from gradtape.ops.shape import broadcasted, expand_dims, permuted, reshaped
from gradtape.ops.staged import number_of
from gradtape.ops.stop import stop_gradient

__all__ = [
    "reduce_all", "reduce_any", "reduce_euclidean_norm", "reduce_logsumexp", "reduce_max", "reduce_mean", "reduce_min",
    "reduce_prod", "reduce_std", "reduce_sum", "reduce_variance",
]  # fmt: skip
