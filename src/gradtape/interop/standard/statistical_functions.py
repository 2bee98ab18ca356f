"""Statistics, searching, sorting, sets and truth.

Sums and products of integers have at least the default integer's width, indices and counts are int64. Sets need the values, so
they run eagerly; their values keep the gradient of the first place where each stands.
"""

# ruff: noqa: D103  (each function does what the array API standard documents under its name)

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gradtape import dtypes as d
from gradtape.core.arguments import numeric
from gradtape.core.dispatch import convert, promote
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Axes, DTypeLike, TensorLike
from gradtape.interop import numpy_functions as rules
from gradtape.interop.numpy_linalg import flat
from gradtape.interop.numpy_searching import isin as among, nonzero as rows_of_places, unique
from gradtape.interop.numpy_ufuncs import as_bool, floats
from gradtape.ops import cumulative, elementwise as e, reduce as r, select as s, shape as arrays, sorting
from gradtape.ops.create import constant, ones_like, zeros_like
from gradtape.ops.index import gather


def accumulated(x: TensorLike, dtype: DTypeLike | None) -> Tensor:
    """`x` in the dtype its sum or product has: integers become the default integer unless they are as wide."""
    x = convert(x)
    if dtype is not None:
        return e.cast(x, dtype)
    if x.dtype.kind in "biu" and x.dtype.size < d.int32.size:
        return e.cast(x, d.uint32 if x.dtype.is_unsigned else d.int32)
    return x


# -- statistics ------------------------------------------------------------------------------------------------------


def sum(x: TensorLike, /, *, axis: Axes = None, dtype: DTypeLike | None = None, keepdims: bool = False) -> Any:
    return r.reduce_sum(accumulated(x, dtype), axis, keepdims)


def prod(x: TensorLike, /, *, axis: Axes = None, dtype: DTypeLike | None = None, keepdims: bool = False) -> Any:
    return r.reduce_prod(accumulated(x, dtype), axis, keepdims)


def mean(x: TensorLike, /, *, axis: Axes = None, keepdims: bool = False) -> Any:
    return r.reduce_mean(floats(x), axis, keepdims)


def max(x: TensorLike, /, *, axis: Axes = None, keepdims: bool = False) -> Any:
    return r.reduce_max(x, axis, keepdims)


def min(x: TensorLike, /, *, axis: Axes = None, keepdims: bool = False) -> Any:
    return r.reduce_min(x, axis, keepdims)


def var(x: TensorLike, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    return rules.var(x, axis, ddof=correction, keepdims=keepdims)


def std(x: TensorLike, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    return rules.std(x, axis, ddof=correction, keepdims=keepdims)


def cumulative_sum(
    x: TensorLike, /, *, axis: int | None = None, dtype: DTypeLike | None = None, include_initial: bool = False
) -> Any:
    return _cumulative(cumulative.cumsum, zeros_like, x, axis, dtype, include_initial)


def cumulative_prod(
    x: TensorLike, /, *, axis: int | None = None, dtype: DTypeLike | None = None, include_initial: bool = False
) -> Any:
    return _cumulative(cumulative.cumprod, ones_like, x, axis, dtype, include_initial)


def _cumulative(
    run: Callable[..., Tensor], start: Callable[..., Tensor], x: TensorLike, axis: int | None, dtype: DTypeLike | None,
    include_initial: bool,
) -> Any:  # fmt: skip
    x = accumulated(x, dtype)
    if axis is None and x.ndim != 1:
        raise ValueError(f"cumulative functions need an axis for a tensor of rank {x.ndim}")
    place = arrays.normal_axis(0 if axis is None else axis, x.ndim, "cumulative functions")
    out = run(x, place)
    if not include_initial:
        return out
    first = start(r.reduce_sum(x, place, keepdims=True), dtype=x.dtype)
    return arrays.concat([first, out], place)


# -- truth and differences -------------------------------------------------------------------------------------------


def all(x: TensorLike, /, *, axis: Axes = None, keepdims: bool = False) -> Any:
    return r.reduce_all(as_bool(x), axis, keepdims)


def any(x: TensorLike, /, *, axis: Axes = None, keepdims: bool = False) -> Any:
    return r.reduce_any(as_bool(x), axis, keepdims)


def diff(
    x: TensorLike, /, *, axis: int = -1, n: int = 1, prepend: TensorLike | None = None, append: TensorLike | None = None
) -> Any:
    return rules.diff(x, n, axis, prepend, append)


# -- searching -------------------------------------------------------------------------------------------------------


def argmax(x: TensorLike, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
    return _arg(sorting.argmax, x, axis, keepdims)


def argmin(x: TensorLike, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
    return _arg(sorting.argmin, x, axis, keepdims)


def _arg(rule: Callable[..., Tensor], x: TensorLike, axis: int | None, keepdims: bool) -> Any:
    x = convert(x)
    if axis is None:
        places = rule(flat(x), 0, output_type=d.int64)
        return arrays.reshape(places, (1,) * x.ndim) if keepdims else places
    places = rule(x, axis, output_type=d.int64)
    return arrays.expand_dims(places, arrays.normal_axis(axis, x.ndim, "argmax")) if keepdims else places


def count_nonzero(x: TensorLike, /, *, axis: Axes = None, keepdims: bool = False) -> Any:
    return r.reduce_sum(e.cast(as_bool(x), d.int64), axis, keepdims)


def nonzero(x: TensorLike, /) -> tuple[Any, ...]:
    return rows_of_places(x)


def searchsorted(x1: TensorLike, x2: TensorLike, /, *, side: str = "left", sorter: TensorLike | None = None) -> Any:
    x1, x2 = promote(x1, x2)
    if sorter is not None:
        x1 = gather(x1, sorter)
    places = sorting.searchsorted(x1, flat(x2), side, out_type=d.int64)
    return arrays.reshape(places, x2.shape)


def where(condition: TensorLike, x1: TensorLike, x2: TensorLike, /) -> Any:
    return s.where(as_bool(condition), x1, x2)


# -- sorting ---------------------------------------------------------------------------------------------------------


def argsort(x: TensorLike, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    x = convert(x)
    if not x.ndim:
        return constant(np.int64(0))
    return e.cast(sorting.argsort(x, axis, _direction(descending)), d.int64)


def sort(x: TensorLike, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    x = convert(x)
    return sorting.sort(x, axis, _direction(descending)) if x.ndim else x


def _direction(descending: bool) -> str:
    return "DESCENDING" if descending else "ASCENDING"


# -- sets ------------------------------------------------------------------------------------------------------------


class UniqueAll(NamedTuple):
    """What `unique_all` gives."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCounts(NamedTuple):
    """What `unique_counts` gives."""

    values: Any
    counts: Any


class UniqueInverse(NamedTuple):
    """What `unique_inverse` gives."""

    values: Any
    inverse_indices: Any


def unique_all(x: TensorLike, /) -> UniqueAll:
    x = numeric(x, "x", "unique_all")
    return UniqueAll(*unique(x, True, True, True, equal_nan=False))


def unique_counts(x: TensorLike, /) -> UniqueCounts:
    result = unique_all(x)
    return UniqueCounts(result.values, result.counts)


def unique_inverse(x: TensorLike, /) -> UniqueInverse:
    result = unique_all(x)
    return UniqueInverse(result.values, result.inverse_indices)


def unique_values(x: TensorLike, /) -> Any:
    return unique_all(x).values


def isin(x1: TensorLike, x2: TensorLike, /, *, invert: bool = False) -> Any:
    """Whether each element of x1 is in x2 (of the standard's next version; SciPy and scikit-learn use it)."""
    return among(x1, x2, invert=invert)


__all__ = [
    "all", "any", "argmax", "argmin", "argsort", "count_nonzero", "cumulative_prod", "cumulative_sum", "diff", "isin", "max",
    "mean", "min", "nonzero", "prod", "searchsorted", "sort", "std", "sum", "unique_all", "unique_counts", "unique_inverse",
    "unique_values", "var", "where",
]  # fmt: skip
