"""NumPy's quantiles, percentiles and medians, of all elements or of those that are not NaN, written in gradtape's ops.

All thirteen methods of NumPy are two order statistics and a weight between them: a method says between which places of the
sorted row, as a number that need not be whole, and how the fraction of that number weighs (Hyndman and Fan, "Sample
Quantiles in Statistical Packages", 1996). Both order statistics get their share of the derivative; the level has one where the
weight has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape.core.arguments import option, real_numbers
from gradtape.core.dispatch import convert
from gradtape.core.tensor import Readable, Tensor
from gradtape.core.typing import Axes, TensorLike
from gradtape.interop.numpy_linalg import moveaxis
from gradtape.interop.numpy_shapes import values
from gradtape.interop.numpy_ufuncs import floats
from gradtape.ops import compare as c, elementwise as e, index, reduce as r, select as s, shape as arrays, sorting

Rule = Callable[..., Any]


def _spread(alpha: float, beta: float) -> Rule:
    """The place n·q + α + q(1 - α - β) - 1 of the continuous methods."""
    return lambda n, q: n * q + (alpha + q * (1.0 - alpha - beta)) - 1.0


def _stepped(place: Any, stays: Any) -> Any:
    """The place below where `stays`, else the place above."""
    return np.where(stays, np.floor(place), np.floor(place) + 1.0)


def _closest(n: Any, q: Any) -> Any:
    place = n * q - 1.5
    # at half way to the even order statistic, which is the odd place when counted from 0
    return _stepped(place, (place == np.floor(place)) & (np.floor(place) % 2 == 1))


# method -> (the place among n sorted numbers at level q, the weight of the upper neighbour by the fraction of the place)
_METHODS: dict[str, tuple[Rule, Rule]] = {
    "inverted_cdf": (lambda n, q: _stepped(n * q - 1.0, n * q - 1.0 == np.floor(n * q - 1.0)), lambda part: part),
    "averaged_inverted_cdf": (lambda n, q: n * q - 1.0, lambda part: np.where(part == 0.0, 0.5, 1.0)),
    "closest_observation": (_closest, lambda part: part),
    "interpolated_inverted_cdf": (_spread(0.0, 1.0), lambda part: part),
    "hazen": (_spread(0.5, 0.5), lambda part: part),
    "weibull": (_spread(0.0, 0.0), lambda part: part),
    "linear": (lambda n, q: (n - 1.0) * q, lambda part: part),
    "median_unbiased": (_spread(1.0 / 3.0, 1.0 / 3.0), lambda part: part),
    "normal_unbiased": (_spread(3.0 / 8.0, 3.0 / 8.0), lambda part: part),
    "lower": (lambda n, q: np.floor((n - 1.0) * q), lambda part: part),
    "higher": (lambda n, q: np.ceil((n - 1.0) * q), lambda part: part),
    "midpoint": (lambda n, q: (n - 1.0) * q, lambda part: np.where(part == 0.0, 0.0, 0.5)),
    "nearest": (lambda n, q: np.rint((n - 1.0) * q), lambda part: part),
}


def _levels(q: TensorLike, scale: float, function: str) -> Any:
    """The levels in float64, checked to lie in [0, 1] if their values are known; a tensor stays one."""
    levels: Any = np.asarray(q, np.float64) if not isinstance(q, (Tensor, Readable)) else real_numbers(q, "q", function)
    if isinstance(levels, Tensor):
        levels = e.cast(levels, "float64")
    plain = None if isinstance(levels, Tensor) and levels.wraps else np.asarray(values(levels))
    if plain is not None and not np.all((plain >= 0.0) & (plain <= scale)):
        raise ValueError(f"{function}: q must be in the range [0, {scale:g}], got {plain}")
    return levels / scale


def _quantile(
    a: TensorLike, q: TensorLike | None, axis: Axes, method: str, keepdims: bool, scale: float, skip_nan: bool, function: str
) -> Any:
    x, levels = floats(a), _levels(0.5 if q is None else q, scale, function)
    place, weight = _METHODS[option(method, "method", function, tuple(_METHODS))]
    axes = r.normal_axes(axis, x.ndim, function)
    rest = [i for i in range(x.ndim) if i not in axes]
    kept = [1 if i in axes else d for i, d in enumerate(x.shape)]
    rows = arrays.transpose(x, [*rest, *axes])
    rows = arrays.reshape(rows, [*(x.shape[i] for i in rest), r.count_along(tuple(x.shape), axes)])
    ordered = sorting.sort(rows, -1)  # NaN stand at the end
    known = e.cast(c.logical_not(c.is_nan(rows)), "float64")
    if skip_nan:
        count: Any = r.reduce_sum(known, -1, True)
    else:
        count = rows.shape[-1] if isinstance(rows.shape[-1], int) else e.cast(rows.shape[-1], "float64")
    flat_levels = levels.reshape(-1)
    where = place(count, flat_levels)  # (levels,), or with the leading axes of the rows where each has its own count
    below = np.floor(where)
    part = e.cast(convert(weight(where - below)), x.dtype)
    ends = (below, np.ceil(where) if q is None else below + 1.0)
    low, high = (e.cast(convert(np.clip(end, 0.0, np.maximum(count - 1.0, 0.0))), "int64") for end in ends)
    first, last = (_picked(ordered, places) for places in (low, high))
    # a median is the mean of the two in the middle, or twice the same one: infinities stay, as NumPy has it
    out = first * 0.5 + last * 0.5 if q is None else first + (last - first) * part
    lost = c.equal(count, 0.0) if skip_nan else c.is_nan(ordered[..., -1:])
    out = s.where(lost, e.cast(np.nan, x.dtype), out)
    out = arrays.reshape(out, (*tuple(out.shape)[:-1], *levels.shape))
    if len(levels.shape):
        out = moveaxis(out, tuple(range(len(rest), out.ndim)), tuple(range(len(levels.shape))))
    return arrays.reshape(out, (*levels.shape, *kept)) if keepdims else out


def _picked(ordered: Tensor, places: Tensor) -> Tensor:
    """The order statistics at these places: the same of every row, or each row its own."""
    if places.ndim == 1:
        return index.gather(ordered, places, axis=-1)
    return index.gather(ordered, places, axis=-1, batch_dims=ordered.ndim - 1)


def _rule(name: str, scale: float, skip_nan: bool) -> Rule:
    def quantiles(
        a: TensorLike, q: TensorLike, axis: Axes = None, out: object = None, overwrite_input: bool = False,
        method: str = "linear", keepdims: bool = False,
    ) -> Any:  # fmt: skip
        return _quantile(a, q, axis, method, keepdims, scale, skip_nan, name)

    return quantiles


def _middle(name: str, skip_nan: bool) -> Rule:
    def middles(
        a: TensorLike, axis: Axes = None, out: object = None, overwrite_input: bool = False, keepdims: bool = False
    ) -> Any:
        return _quantile(a, None, axis, "linear", keepdims, 1.0, skip_nan, name)

    return middles


QUANTILES: dict[Any, Rule] = {
    np.quantile: _rule("quantile", 1.0, False), np.percentile: _rule("percentile", 100.0, False),
    np.median: _middle("median", False), np.nanquantile: _rule("nanquantile", 1.0, True),
    np.nanpercentile: _rule("nanpercentile", 100.0, True), np.nanmedian: _middle("nanmedian", True),
}  # fmt: skip
