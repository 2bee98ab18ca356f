"""NumPy's functions that find, count and compare elements, written in gradtape's ops: where elements stand, which are there,
how often, and whether two arrays are the same. A table from function to rule.

Indices, counts and truth have no derivative; what is picked by them has. How many there are, a program knows when it runs.
"""

# ruff: noqa: D103  (each function does what NumPy documents under its name)

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape.core.arguments import integral, numeric, option
from gradtape.core.dispatch import apply, convert, promote
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Axes, Shape, TensorLike
from gradtape.interop.numpy_linalg import flat, moveaxis
from gradtape.interop.numpy_shapes import MODES, shape_of, take, values
from gradtape.interop.numpy_ufuncs import as_bool, floats
from gradtape.ops import compare as c, elementwise as e, reduce as r, select as s, shape as arrays, sorting
from gradtape.ops.create import fits, zeros
from gradtape.ops.dynamic import MASK_INDICES
from gradtape.ops.index import check_range, gather
from gradtape.ops.segment import bincount as counted
from gradtape.ops.sorting import UNIQUE
from gradtape.ops.stop import stop_gradient
from gradtape.surface.misc import Assert

Rule = Callable[..., Any]

# -- where elements stand --------------------------------------------------------------------------------------------


def nonzero(a: TensorLike) -> tuple[Any, ...]:
    x = convert(a)
    if not x.ndim:
        raise ValueError("nonzero: a scalar has no indices; use np.atleast_1d(x), or x != 0")
    return tuple(apply(MASK_INDICES, as_bool(x), shape=tuple(x.shape)))


def argwhere(a: TensorLike) -> Any:
    x = convert(a)
    return s.where(as_bool(x))


def flatnonzero(a: TensorLike) -> Any:
    return nonzero(flat(a))[0]


def where(condition: TensorLike, x: TensorLike | None = None, y: TensorLike | None = None, /) -> Any:
    if x is None and y is None:
        return nonzero(condition)
    return s.where(as_bool(condition), x, y)


def searchsorted(a: TensorLike, v: TensorLike, side: str = "left", sorter: TensorLike | None = None) -> Any:
    ordered = a if sorter is None else take(a, sorter)
    return sorting.searchsorted(ordered, numeric(v, "v", "np.searchsorted", convert(a).dtype), side, "int64")


def digitize(x: TensorLike, bins: TensorLike, right: bool = False) -> Any:
    """In which bin each number is; the edges rise or fall."""
    x, edges = (stop_gradient(t) for t in promote(x, bins))
    if edges.ndim != 1:
        raise ValueError(f"digitize: bins must be a row of edges, got shape {tuple(edges.shape)}")
    if x.dtype.is_complex:
        raise TypeError("digitize: x may not be complex")
    side = "left" if right else "right"
    rising = r.reduce_all(c.less_equal(edges[:-1], edges[1:]))
    falling = r.reduce_all(c.greater_equal(edges[:-1], edges[1:]))
    if rising.wraps:
        Assert(c.logical_or(rising, falling), ["digitize: bins must rise or fall, never both"])
    elif not rising and not falling:
        raise ValueError(f"digitize: bins must rise or fall, never both, got {edges.numpy()}")
    else:
        return _risen(x, edges, side) if rising else _fallen(x, edges, side)
    return s.where(rising, _risen(x, edges, side), _fallen(x, edges, side))


def _risen(x: Tensor, edges: Tensor, side: str) -> Tensor:
    return arrays.reshape(sorting.searchsorted(edges, flat(x), side, "int64"), x.shape)


def _fallen(x: Tensor, edges: Tensor, side: str) -> Tensor:
    return e.cast(edges.shape[0], "int64") - _risen(x, arrays.reverse(edges, [0]), side)


def unravel_index(indices: TensorLike, shape: Shape, order: str = "C") -> tuple[Any, ...]:
    """Places counted in reading order as one index per axis."""
    dims = [int(d) for d in np.atleast_1d(values(shape))]
    option(order, "order", "unravel_index", ("C", "F"))
    rest = e.cast(integral(indices, "indices", "unravel_index"), "int64")
    rest = check_range(rest, int(np.prod(dims)), "unravel_index")
    axes = {}
    for axis in range(len(dims))[:: 1 if order == "F" else -1]:
        axes[axis] = s.mod(rest, dims[axis])
        rest = s.floordiv(rest, dims[axis])
    return tuple(axes[axis] for axis in range(len(dims)))


def ravel_multi_index(
    multi_index: Sequence[TensorLike], dims: Shape, mode: str | Sequence[str] = "raise", order: str = "C"
) -> Any:
    sizes = [int(d) for d in np.atleast_1d(values(dims))]
    option(order, "order", "ravel_multi_index", ("C", "F"))
    parts = list(arrays.unstack(multi_index)) if isinstance(multi_index, Tensor) else list(multi_index)
    if len(parts) != len(sizes):
        raise ValueError(f"ravel_multi_index: {len(parts)} indices for {len(sizes)} axes")
    modes = [mode] * len(sizes) if isinstance(mode, str) else list(mode)
    total: Any = None
    for axis in range(len(sizes))[:: -1 if order == "F" else 1]:
        size, part = sizes[axis], e.cast(integral(parts[axis], "multi_index", "ravel_multi_index"), "int64")
        if option(modes[axis], "mode", "ravel_multi_index", MODES) == "raise":
            part = check_range(part, size, "ravel_multi_index")
        else:
            part = s.mod(part, size) if modes[axis] == "wrap" else s.minimum(s.maximum(part, 0), size - 1)
        total = part if total is None else total * size + part
    return total


# -- how many --------------------------------------------------------------------------------------------------------


def count_nonzero(a: TensorLike, axis: Axes = None, *, keepdims: bool = False) -> Any:
    return r.reduce_sum(e.cast(as_bool(a), "int64"), axis, keepdims)


def bincount(x: TensorLike, /, weights: TensorLike | None = None, minlength: int = 0) -> Any:
    """As int64; sums of weights have the dtype of the weights."""
    numbers = integral(x, "x", "bincount")
    if numbers.ndim != 1:
        raise ValueError(f"bincount: x must be a row of integers, got shape {tuple(numbers.shape)}")
    return counted(numbers, None if weights is None else floats(weights), minlength, dtype="int64")


# -- which -----------------------------------------------------------------------------------------------------------


def unique(
    ar: TensorLike, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
    axis: int | None = None, *, equal_nan: bool = True, sorted: bool = True,
) -> Any:  # fmt: skip
    """The distinct values (along an axis: the distinct slices), sorted; the gradient goes to the first place of each."""
    x = convert(ar)
    rows = flat(x) if axis is None else moveaxis(x, axis, 0)
    table = rows if axis is None else arrays.reshape(rows, (rows.shape[0], math.prod(tuple(rows.shape)[1:])))
    first, inverse, counts = apply(UNIQUE, stop_gradient(table), dtype="int64", by_value=True, equal_nan=equal_nan)
    distinct = gather(rows, first)
    parts = [distinct if axis is None else moveaxis(distinct, 0, axis)]
    parts += [first] if return_index else []
    parts += [arrays.reshape(inverse, x.shape) if axis is None else inverse] if return_inverse else []
    parts += [counts] if return_counts else []
    return parts[0] if len(parts) == 1 else tuple(parts)


def isin(
    element: TensorLike, test_elements: TensorLike, assume_unique: bool = False, invert: bool = False, *, kind: object = None
) -> Any:
    x, known = (stop_gradient(t) for t in promote(element, test_elements))
    known = flat(known)
    if known.shape[0] == 0:
        hits = zeros(x.shape, "bool")
    elif known.dtype.is_complex or known.dtype.is_bool or not isinstance(known.shape[0], int):
        hits = r.reduce_any(c.equal(arrays.expand_dims(x, -1), known), -1)
    else:
        ordered = sorting.sort(known)
        places = s.minimum(_risen(x, ordered, "left"), int(known.shape[0]) - 1)
        hits = c.equal(gather(ordered, places), x)
    return c.logical_not(hits) if invert else hits


def union1d(ar1: TensorLike, ar2: TensorLike) -> Any:
    return unique(arrays.concat([flat(t) for t in promote(ar1, ar2)], 0))


def intersect1d(ar1: TensorLike, ar2: TensorLike, assume_unique: bool = False) -> Any:
    first, second = (unique(t) for t in promote(ar1, ar2))
    return first[isin(first, second)]


def setdiff1d(ar1: TensorLike, ar2: TensorLike, assume_unique: bool = False) -> Any:
    rest = flat(ar1) if assume_unique else unique(ar1)
    return rest[isin(rest, ar2, invert=True)]


# -- whether ---------------------------------------------------------------------------------------------------------


def isposinf(x: TensorLike, out: object = None) -> Any:
    return c.logical_and(c.is_inf(_real(x, "isposinf")), c.greater(convert(x), 0))


def isneginf(x: TensorLike, out: object = None) -> Any:
    return c.logical_and(c.is_inf(_real(x, "isneginf")), c.less(convert(x), 0))


def _real(x: TensorLike, function: str) -> Tensor:
    x = floats(x)
    if x.dtype.is_complex:
        raise TypeError(f"{function}: complex numbers have no sign, got dtype {x.dtype.name}")
    return x


def isclose(a: TensorLike, b: TensorLike, rtol: TensorLike = 1e-5, atol: TensorLike = 1e-8, equal_nan: bool = False) -> Any:
    a, b = promote(a, b)
    if not a.dtype.is_differentiable:
        a, b = e.cast(a, "float64"), e.cast(b, "float64")
    near = c.less_equal(e.abs(a - b), atol + rtol * e.abs(b))
    close = c.logical_or(c.logical_and(near, c.is_finite(b)), c.equal(a, b))
    return c.logical_or(close, c.logical_and(c.is_nan(a), c.is_nan(b))) if equal_nan else close


def _truth(result: Tensor) -> Any:
    """True or False where the value is known, as NumPy gives them; in a program a tensor."""
    return result if result.wraps else bool(result)


def allclose(a: TensorLike, b: TensorLike, rtol: TensorLike = 1e-5, atol: TensorLike = 1e-8, equal_nan: bool = False) -> Any:
    return _truth(r.reduce_all(isclose(a, b, rtol, atol, equal_nan)))


def array_equal(a1: TensorLike, a2: TensorLike, equal_nan: bool = False) -> Any:
    a, b = promote(a1, a2)
    if a.ndim != b.ndim or not fits(a.shape, b.shape):
        return False
    same = c.equal(a, b)
    if equal_nan and a.dtype.is_differentiable:
        same = c.logical_or(same, c.logical_and(c.is_nan(a), c.is_nan(b)))
    return _truth(r.reduce_all(same))


def array_equiv(a1: TensorLike, a2: TensorLike) -> Any:
    a, b = promote(a1, a2)
    try:
        np.broadcast_shapes(shape_of(a), shape_of(b))
    except ValueError:
        return False
    return _truth(r.reduce_all(c.equal(a, b)))


SEARCHING: dict[Any, Rule] = {
    np.nonzero: nonzero, np.argwhere: argwhere, np.flatnonzero: flatnonzero, np.where: where, np.searchsorted: searchsorted,
    np.digitize: digitize, np.unravel_index: unravel_index, np.ravel_multi_index: ravel_multi_index,
    np.count_nonzero: count_nonzero, np.bincount: bincount, np.unique: unique, np.isin: isin, np.union1d: union1d,
    np.intersect1d: intersect1d, np.setdiff1d: setdiff1d, np.isposinf: isposinf,
    np.isneginf: isneginf, np.isclose: isclose, np.allclose: allclose, np.array_equal: array_equal,
    np.array_equiv: array_equiv,
    np.tril_indices_from: lambda arr, k=0: np.tril_indices_from(np.empty(shape_of(convert(arr))), k),
    np.triu_indices_from: lambda arr, k=0: np.triu_indices_from(np.empty(shape_of(convert(arr))), k),
    np.diag_indices_from: lambda arr: np.diag_indices_from(np.empty(shape_of(convert(arr)))),
}  # fmt: skip
