"""NumPy's statistics of samples and its finite differences written in gradtape's ops: a table from function to rule.

Rules have NumPy's argument names. Counts have no derivative; weights, edges and densities have one.
"""

# ruff: noqa: D103  (each function does what NumPy documents under its name)

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape.core.arguments import differentiable, integral, numeric, option, promoted, real_floats, real_numbers
from gradtape.core.dispatch import convert, promote
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Axes, DTypeLike, TensorLike
from gradtape.errors import InvalidArgumentError
from gradtape.interop.numpy_functions import linspace
from gradtape.interop.numpy_linalg import flat, moveaxis
from gradtape.interop.numpy_shapes import values
from gradtape.interop.numpy_ufuncs import conjugated, floats
from gradtape.ops import compare as c, elementwise as e, reduce as r, select as s, shape as arrays
from gradtape.ops.check_numerics import check_numerics
from gradtape.ops.create import fits, ones_like
from gradtape.ops.matmul import matmul, swap_last
from gradtape.ops.matrix import diag_part
from gradtape.ops.segment import unsorted_segment_sum
from gradtape.ops.sorting import searchsorted
from gradtape.ops.stop import stop_gradient
from gradtape.surface.assertions import assert_less_equal, assert_non_negative

Rule = Callable[..., Any]


# -- covariance ------------------------------------------------------------------------------------------------------


def cov(
    m: TensorLike, y: TensorLike | None = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None,
    fweights: TensorLike | None = None, aweights: TensorLike | None = None, *, dtype: DTypeLike | None = None,
) -> Any:  # fmt: skip
    """Variables are rows (columns if not `rowvar`); Σ w (x-x̄)(x-x̄)ᴴ over the degrees of freedom that NumPy counts."""
    if ddof is not None and not (isinstance(ddof, (int, float, np.number)) and ddof == int(ddof)):
        raise ValueError(f"cov: ddof must be an integer, got {ddof!r}")
    x = _variables(m, "m", rowvar, dtype)
    if y is not None:
        other = _variables(y, "y", rowvar, dtype)
        if not fits(x.shape[1:], other.shape[1:]):
            raise InvalidArgumentError(
                f"cov: m and y need the same number of observations, got {x.shape[1]} and {other.shape[1]}"
            )
        x = arrays.concat(list(promote(x, other)), 0)
    freedom = ddof if ddof is not None else 0 if bias else 1
    weights = _weights(x, fweights, aweights)
    if weights is None:
        count: Any = int(x.shape[1])
        off = x - r.reduce_mean(x, 1, True)
        scaled, norm = off, count - freedom
    else:
        total = r.reduce_sum(weights)
        off = x - r.reduce_sum(x * weights, 1, True) / total
        scaled = off * weights
        spread = 0.0 if not freedom else freedom if aweights is None else _kept(weights, aweights, total) * freedom
        norm = total - spread
    other = swap_last(scaled)
    product = matmul(off, conjugated(other)) / norm
    return arrays.squeeze(product)


def _variables(m: TensorLike, argument: str, rowvar: bool, dtype: DTypeLike | None) -> Any:
    x = differentiable(m, argument, "cov")
    x = x if dtype is None else e.cast(x, dtype)
    if x.ndim > 2:
        raise ValueError(f"cov: samples must have 1 or 2 axes, {argument} has shape {tuple(x.shape)}")
    x = arrays.reshape(x, (1, -1)) if x.ndim < 2 else x
    return x if rowvar or convert(m).ndim < 2 else swap_last(x)


def _weights(x: Tensor, fweights: TensorLike | None, aweights: TensorLike | None) -> Any:
    given = []
    for argument, weights in (("fweights", fweights), ("aweights", aweights)):
        if weights is None:
            continue
        w = integral(weights, argument, "cov") if argument == "fweights" else real_numbers(weights, argument, "cov")
        if not fits(w.shape, x.shape[1:]):
            raise InvalidArgumentError(
                f"cov: {argument} need one number for each of {x.shape[1]} observations, got shape {tuple(w.shape)}"
            )
        assert_non_negative(stop_gradient(w), f"cov: {argument}")
        given.append(e.cast(w, x.dtype))
    return None if not given else given[0] if len(given) == 1 else given[0] * given[1]


def _kept(weights: Tensor, aweights: TensorLike, total: Tensor) -> Any:
    return r.reduce_sum(weights * e.cast(aweights, weights.dtype)) / total


def corrcoef(x: TensorLike, y: TensorLike | None = None, rowvar: bool = True, *, dtype: DTypeLike | None = None) -> Any:
    matrix = cov(x, y, rowvar, dtype=dtype)
    if matrix.ndim == 0:
        return matrix / matrix
    spread = e.sqrt(e.real(diag_part(matrix)))
    return matrix / e.cast(spread[:, None] * spread[None, :], matrix.dtype)


# -- histograms ------------------------------------------------------------------------------------------------------


def histogram(
    a: TensorLike, bins: int | str | TensorLike = 10, range: Sequence[TensorLike] | None = None, density: bool | None = None,
    weights: TensorLike | None = None,
) -> Any:  # fmt: skip
    """Counts have no derivative; sums of weights, densities and edges that depend on the data have."""
    x = flat(real_floats(a, "a", "histogram"))
    edges = _edges(x, bins, range)
    count = int(edges.shape[0]) - 1
    # In which bin a number is has no derivative, whoever watches the number or the edges.
    bin_of = searchsorted(stop_gradient(edges), stop_gradient(e.cast(x, edges.dtype)), side="right", out_type="int64") - 1
    bin_of = s.where(c.equal(x, edges[-1]), e.cast(count - 1, bin_of.dtype), bin_of)  # the last bin has both its ends
    bin_of = s.where(c.greater_equal(bin_of, count), e.cast(-1, bin_of.dtype), bin_of)  # what is outside is not counted
    parts = e.cast(ones_like(x), np.int64) if weights is None else flat(numeric(weights, "weights", "histogram"))
    if not fits(parts.shape, x.shape):
        raise InvalidArgumentError(f"histogram: weights must be as many as a has elements, {x.shape[0]}, got {parts.shape[0]}")
    sums = unsorted_segment_sum(parts, bin_of, count)
    if not density:
        return sums, edges
    heights = e.cast(sums, edges.dtype)
    return heights / ((edges[1:] - edges[:-1]) * r.reduce_sum(heights)), edges


def _edges(x: Tensor, bins: int | str | TensorLike, range: Sequence[TensorLike] | None) -> Any:
    if isinstance(bins, str):
        option(bins, "bins", "histogram", ("auto", "doane", "fd", "rice", "scott", "sqrt", "stone", "sturges"))
        return convert(np.histogram_bin_edges(values(x), bins, values(range)))
    if isinstance(bins, (int, np.integer)):
        if bins < 1:
            raise ValueError(f"histogram: bins must be a positive number, got {bins}")
        low, high = _span(x) if range is None else _range(x, range)
        same = c.equal(low, high)
        return linspace(s.where(same, low - 0.5, low), s.where(same, high + 0.5, high), int(bins) + 1)
    edges = floats(bins)
    if edges.ndim != 1:
        raise ValueError(f"histogram: bins must be a number or a row of edges, got shape {tuple(edges.shape)}")
    assert_less_equal(stop_gradient(edges[:-1]), stop_gradient(edges[1:]), "histogram: bins must increase")
    return edges


def _span(x: Tensor) -> tuple[Any, Any]:
    if x.shape[0] == 0:
        return e.cast(0.0, x.dtype), e.cast(1.0, x.dtype)
    message = "histogram: the range of a"
    return check_numerics(r.reduce_min(x), message), check_numerics(r.reduce_max(x), message)


def _range(x: Tensor, range: Sequence[TensorLike]) -> tuple[Any, Any]:
    if not isinstance(range, (list, tuple)) or len(range) != 2:
        raise InvalidArgumentError(f"histogram: range must be a pair (low, high), got {range!r}")
    low, high = (real_numbers(end, "range", "histogram", x.dtype) for end in range)
    low, high = (check_numerics(e.cast(end, x.dtype), "histogram: range") for end in (low, high))
    assert_less_equal(stop_gradient(low), stop_gradient(high), "histogram: range must increase")
    return low, high


# -- differences -----------------------------------------------------------------------------------------------------


def gradient(f: TensorLike, *varargs: Any, axis: Axes = None, edge_order: int = 1) -> Any:
    """Central differences inside, one-sided ones at the ends; spacings are numbers or coordinates, and may be tensors."""
    f = differentiable(f, "f", "np.gradient")
    if edge_order not in (1, 2):
        raise ValueError(f"gradient: edge_order must be 1 or 2, got {edge_order}")
    r.normal_axes(axis, f.ndim, "np.gradient")  # refuses what is out of range, or named twice
    axes = tuple(range(f.ndim)) if axis is None else tuple(int(a) % f.ndim for a in np.atleast_1d(np.asarray(axis)))
    spacings = varargs or (1.0,)
    if len(spacings) == 1:
        spacings *= len(axes)
    if len(spacings) != len(axes):
        raise TypeError(f"gradient: {len(varargs)} spacings for {len(axes)} axes")
    slopes = tuple(_slope(f, a, h, edge_order) for a, h in zip(axes, spacings, strict=True))
    return slopes[0] if len(slopes) == 1 else slopes


def _slope(f: Tensor, axis: int, spacing: TensorLike, edge_order: int) -> Any:
    f = moveaxis(f, axis, -1)
    size = int(f.shape[-1])
    if size < edge_order + 1:
        raise ValueError(f"gradient: axis {axis} has {size} elements, edge_order={edge_order} needs {edge_order + 1}")
    spacing = real_floats(numeric(spacing, "the spacing", "gradient", f.dtype), "the spacing", "np.gradient")
    if spacing.ndim:
        if spacing.ndim != 1 or int(spacing.shape[0]) != size:
            raise ValueError(f"gradient: coordinates of shape {tuple(spacing.shape)} for an axis of {size} elements")
        # Coordinates may be uneven, and may be watched: the weights below are computed in ops.
        steps = spacing[1:] - spacing[:-1]
    else:
        steps = arrays.broadcast_to(spacing, (size - 1,))
    f, steps = promote(f, steps)
    left, right = steps[:-1], steps[1:]
    # the parabola through three neighbours: its slope in the middle, and (edge_order 2) at the ends
    inner = (
        -right / (left * (left + right)) * f[..., :-2]
        + (right - left) / (left * right) * f[..., 1:-1]
        + left / (right * (left + right)) * f[..., 2:]
    )
    if edge_order == 1:
        first, last = (f[..., 1] - f[..., 0]) / steps[0], (f[..., -1] - f[..., -2]) / steps[-1]
    else:
        first = _end_slope(f[..., 0], f[..., 1], f[..., 2], steps[0], steps[1])
        last = -_end_slope(f[..., -1], f[..., -2], f[..., -3], steps[-1], steps[-2])
    return moveaxis(arrays.concat([first[..., None], inner, last[..., None]], -1), -1, axis)


def _end_slope(f0: Tensor, f1: Tensor, f2: Tensor, h1: Tensor, h2: Tensor) -> Any:
    return -(2.0 * h1 + h2) / (h1 * (h1 + h2)) * f0 + (h1 + h2) / (h1 * h2) * f1 - h1 / (h2 * (h1 + h2)) * f2


def select(condlist: Sequence[TensorLike], choicelist: Sequence[TensorLike], default: TensorLike = 0) -> Any:
    """Of each element the choice of the first condition that holds."""
    if len(condlist) != len(choicelist):
        raise ValueError(f"select: condlist has {len(condlist)} conditions for {len(choicelist)} choices")
    if not len(condlist):
        raise ValueError("select: condlist is empty")
    named = {f"choicelist[{i}]": choice for i, choice in enumerate(choicelist)}
    *choices, chosen = promoted("select", **named, default=default)
    for condition, choice in zip(reversed(list(condlist)), reversed(choices), strict=True):
        condition = convert(condition)
        if not condition.dtype.is_bool:
            raise InvalidArgumentError(f"select: condlist: conditions must be bool, got dtype {condition.dtype.name}")
        chosen = s.where(condition, choice, chosen)
    return chosen


STATISTICS: dict[Any, Rule] = {
    np.cov: cov, np.corrcoef: corrcoef, np.histogram: histogram, np.gradient: gradient, np.select: select,
}  # fmt: skip
