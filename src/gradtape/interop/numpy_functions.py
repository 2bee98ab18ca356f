"""NumPy's reductions, order, rounding and small numerics written in gradtape's ops: a table from function to rule.

Rules have NumPy's argument names. Quantiles, and what finds and counts, have files of their own.
"""

# ruff: noqa: D103  (each function does what NumPy documents under its name)

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape.core.arguments import numeric, of_rank, option, whole
from gradtape.core.dispatch import convert, promote, twin
from gradtape.core.tensor import Readable, Tensor
from gradtape.core.typing import Axes, Axis, DTypeLike, Real, TensorLike
from gradtape.dtypes import numpy_dtype
from gradtape.errors import InvalidArgumentError
from gradtape.interop.numpy_linalg import flat, moveaxis
from gradtape.interop.numpy_shapes import concatenate, shape_of, take, values
from gradtape.interop.numpy_ufuncs import as_bool, conjugated, floats, trunc
from gradtape.ops import compare as c, elementwise as e, extending, reduce as r, select as s, shape as arrays, sorting
from gradtape.ops.composite import angle as angle_of
from gradtape.ops.create import constant, ones_like, shape, zeros, zeros_like
from gradtape.ops.cumulative import cumprod as running_product, cumsum as running_sum
from gradtape.ops.index import gather
from gradtape.ops.special import bessel_i0, sinc as normalised_sinc
from gradtape.surface.assertions import assert_positive

Rule = Callable[..., Any]

# -- reductions ------------------------------------------------------------------------------------------------------


def _wide(x: Tensor, dtype: DTypeLike | None) -> Tensor:
    """NumPy adds up small integers and bools in the platform's integer."""
    if dtype is not None:
        return e.cast(x, dtype)
    kind, size = x.dtype.dtype.kind, x.dtype.size
    if kind in "biu" and size < 8:
        return e.cast(x, np.uint64 if kind == "u" else np.int64)
    return x


def sum_(
    a: TensorLike, axis: Axes = None, dtype: DTypeLike | None = None, out: object = None, keepdims: bool = False,
    initial: TensorLike = 0,
) -> Any:  # fmt: skip
    total = r.reduce_sum(_wide(convert(a), dtype), axis, keepdims)
    return total if isinstance(initial, int) and initial == 0 else total + initial


def prod(
    a: TensorLike, axis: Axes = None, dtype: DTypeLike | None = None, out: object = None, keepdims: bool = False,
    initial: TensorLike = 1,
) -> Any:  # fmt: skip
    total = r.reduce_prod(_wide(convert(a), dtype), axis, keepdims)
    return total if isinstance(initial, int) and initial == 1 else total * initial


def mean(a: TensorLike, axis: Axes = None, dtype: DTypeLike | None = None, out: object = None, keepdims: bool = False) -> Any:
    return r.reduce_mean(floats(a) if dtype is None else e.cast(a, dtype), axis, keepdims)


def max_(a: TensorLike, axis: Axes = None, out: object = None, keepdims: bool = False) -> Any:
    return r.reduce_max(_not_empty(a, axis, "max"), axis, keepdims)


def min_(a: TensorLike, axis: Axes = None, out: object = None, keepdims: bool = False) -> Any:
    return r.reduce_min(_not_empty(a, axis, "min"), axis, keepdims)


def _not_empty(a: TensorLike, axis: Axes, function: str) -> Tensor:
    """NumPy has no largest element of none; TensorFlow's `reduce_max` gives -inf."""
    x = convert(a)
    places = r.normal_axes(axis, x.ndim, function)
    if 0 in (x.shape[place] for place in places):
        raise InvalidArgumentError(f"{function}: a has no elements along axis {axis}: shape {tuple(x.shape)}")
    for place in places:
        if x.shape[place].__class__ is not int:  # known when the program runs
            assert_positive(shape(x)[place], f"{function}: a has no elements along axis {axis}")
    return x


def ptp(a: TensorLike, axis: Axes = None, out: object = None, keepdims: bool = False) -> Any:
    return max_(a, axis, keepdims=keepdims) - min_(a, axis, keepdims=keepdims)


def all_(a: TensorLike, axis: Axes = None, out: object = None, keepdims: bool = False) -> Any:
    return r.reduce_all(as_bool(a), axis, keepdims)


def any_(a: TensorLike, axis: Axes = None, out: object = None, keepdims: bool = False) -> Any:
    return r.reduce_any(as_bool(a), axis, keepdims)


def var(
    a: TensorLike, axis: Axes = None, dtype: DTypeLike | None = None, out: object = None, ddof: Real = 0,
    keepdims: bool = False, *, correction: Real | None = None,
) -> Any:  # fmt: skip
    x = floats(a) if dtype is None else e.cast(a, dtype)
    return r.reduce_variance(x, axis, keepdims) * _freedom(x, axis, ddof if correction is None else correction)


def _freedom(x: Tensor, axis: Axes, ddof: Real | None) -> Any:
    """n / (n - ddof): what turns a mean of squares into an estimate with `ddof` degrees of freedom less."""
    if isinstance(ddof, str) or ddof is None:
        raise TypeError(f"var: ddof must be a number, got {ddof!r}")
    if not ddof:
        return 1.0
    count = r.count_along(tuple(x.shape), r.normal_axes(axis, x.ndim, "var"))
    if count.__class__ is int:
        return count / (count - ddof) if count != ddof else np.nan
    count = e.cast(count, x.dtype)  # known when the program runs
    return count / (count - ddof)


def std(
    a: TensorLike, axis: Axes = None, dtype: DTypeLike | None = None, out: object = None, ddof: Real = 0,
    keepdims: bool = False, *, correction: Real | None = None,
) -> Any:  # fmt: skip
    return r.safe_sqrt(var(a, axis, dtype, None, ddof, keepdims, correction=correction))


def average(
    a: TensorLike, axis: Axes = None, weights: TensorLike | None = None, returned: bool = False, *, keepdims: bool = False
) -> Any:
    x = floats(a)
    if weights is None:
        center = r.reduce_mean(x, axis, keepdims)
        total = zeros_like(center) + r.count_along(shape_of(x), r.normal_axes(axis, x.ndim, "average"))
        return (center, total) if returned else center
    x, w = promote(x, weights)
    if shape_of(w) != shape_of(x):
        if not isinstance(axis, int) or w.ndim != 1:
            raise InvalidArgumentError(
                f"average: weights of shape {shape_of(w)} for a tensor of shape {shape_of(x)} need an integer axis"
            )
        w = arrays.reshape(w, [-1 if i == axis % x.ndim else 1 for i in range(x.ndim)])
    w = arrays.broadcast_to(w, shape_of(x))
    total = r.reduce_sum(w, axis, keepdims)
    center = r.reduce_sum(x * w, axis, keepdims) / total
    return (center, total) if returned else center


def cumsum(a: TensorLike, axis: Axis | None = None, dtype: DTypeLike | None = None, out: object = None) -> Any:
    x = _wide(convert(a), dtype)
    return running_sum(flat(x), 0) if axis is None else running_sum(x, axis)


def cumprod(a: TensorLike, axis: Axis | None = None, dtype: DTypeLike | None = None, out: object = None) -> Any:
    x = _wide(convert(a), dtype)
    return running_product(flat(x), 0) if axis is None else running_product(x, axis)


def _known(a: TensorLike, filler: float) -> Tensor:
    """`a` with a number in the places of NaN that does not count."""
    x = convert(a)
    return s.where(c.is_nan(x), e.cast(filler, x.dtype), x) if x.dtype.is_differentiable else x


def nansum(a: TensorLike, axis: Axes = None, dtype: DTypeLike | None = None, out: object = None, keepdims: bool = False) -> Any:
    return sum_(_known(a, 0.0), axis, dtype, keepdims=keepdims)


def nanprod(
    a: TensorLike, axis: Axes = None, dtype: DTypeLike | None = None, out: object = None, keepdims: bool = False
) -> Any:
    return prod(_known(a, 1.0), axis, dtype, keepdims=keepdims)


def _extreme_known(rule: Rule, filler: float) -> Rule:
    """The largest or smallest of what is not NaN; where nothing else is, NaN."""

    def extreme(a: TensorLike, axis: Axes = None, out: object = None, keepdims: bool = False) -> Any:
        x = convert(a)
        most = rule(_known(x, filler), axis, keepdims=keepdims)
        if not x.dtype.is_differentiable:
            return most
        return s.where(r.reduce_all(c.is_nan(x), axis, keepdims), e.cast(np.nan, x.dtype), most)

    return extreme


def nanmean(
    a: TensorLike, axis: Axes = None, dtype: DTypeLike | None = None, out: object = None, keepdims: bool = False
) -> Any:
    x = floats(a) if dtype is None else e.cast(a, dtype)
    count = r.reduce_sum(e.cast(c.logical_not(c.is_nan(x)), x.dtype), axis, keepdims)
    return r.reduce_sum(_known(x, 0.0), axis, keepdims) / count


def nanvar(
    a: TensorLike, axis: Axes = None, dtype: DTypeLike | None = None, out: object = None, ddof: Real = 0, keepdims: bool = False
) -> Any:
    x = floats(a) if dtype is None else e.cast(a, dtype)
    count = r.reduce_sum(e.cast(c.logical_not(c.is_nan(x)), x.dtype), axis, keepdims)
    off = x - nanmean(x, axis, keepdims=True)
    return r.reduce_sum(_known(off * off, 0.0), axis, keepdims) / (count - ddof)


def nanstd(
    a: TensorLike, axis: Axes = None, dtype: DTypeLike | None = None, out: object = None, ddof: Real = 0, keepdims: bool = False
) -> Any:
    return r.safe_sqrt(nanvar(a, axis, dtype, None, ddof, keepdims))


def _running_without_nan(rule: Rule, filler: float) -> Rule:
    def skipping(a: TensorLike, axis: Axis | None = None, dtype: DTypeLike | None = None, out: object = None) -> Any:
        return rule(_known(a, filler), axis, dtype)

    return skipping


# -- order ------------------------------------------------------------------------------------------------


_SORTS = (None, "quicksort", "mergesort", "heapsort", "stable")


def sort(
    a: TensorLike, axis: Axis | None = -1, kind: str | None = None, order: object = None, *, stable: bool | None = None
) -> Any:
    option(kind, "kind", "np.sort", _SORTS)
    return sorting.sort(flat(a), 0) if axis is None else sorting.sort(a, axis)


def argsort(
    a: TensorLike, axis: Axis | None = -1, kind: str | None = None, order: object = None, *, stable: bool | None = None
) -> Any:
    option(kind, "kind", "np.argsort", _SORTS)
    places = sorting.argsort(flat(a), 0, stable=True) if axis is None else sorting.argsort(a, axis, stable=True)
    return e.cast(places, np.int64)


def partition(a: TensorLike, kth: TensorLike, axis: Axis | None = -1, kind: str = "introselect", order: object = None) -> Any:
    """Sorted altogether, which is a partition at every place."""
    _check_places(a, kth, axis, kind, "partition")
    return sort(a, axis)


def argpartition(
    a: TensorLike, kth: TensorLike, axis: Axis | None = -1, kind: str = "introselect", order: object = None
) -> Any:
    _check_places(a, kth, axis, kind, "argpartition")
    return argsort(a, axis)


def _check_places(a: TensorLike, kth: TensorLike, axis: Axis | None, kind: str | None, function: str) -> None:
    option(kind, "kind", function, ("introselect", None))
    x = convert(a)
    size = x.size if axis is None else x.shape[arrays.normal_axis(axis, x.ndim, function)]
    places = np.ravel(values(kth))
    if places.dtype.kind not in "iu":
        raise TypeError(f"{function}: kth must be integers, got {kth!r}")
    for place in places:
        if isinstance(size, int) and not -size <= place < size:
            raise ValueError(f"{function}: kth={place} is out of bounds for {size} elements")


def _arg(rule: Rule) -> Rule:
    def places_of(a: TensorLike, axis: Axis | None = None, out: object = None, *, keepdims: bool = False) -> Any:
        x = convert(a)
        places = rule(flat(x), 0, output_type=np.int64) if axis is None else rule(x, axis, output_type=np.int64)
        if not keepdims:
            return places
        return arrays.reshape(places, (1,) * x.ndim) if axis is None else arrays.expand_dims(places, axis)

    return places_of


# -- choosing and rounding -------------------------------------------------------------------------------------------


def clip(
    a: TensorLike, a_min: TensorLike | None = None, a_max: TensorLike | None = None, out: object = None, *,
    min: TensorLike | None = None, max: TensorLike | None = None,
) -> Any:  # fmt: skip
    low, high = a_min if min is None else min, a_max if max is None else max
    x = convert(a)
    x = twin(x) if low is None else s.maximum(x, numeric(low, "min", "clip", x.dtype))
    return x if high is None else s.minimum(x, numeric(high, "max", "clip", x.dtype))


def round_(a: TensorLike, decimals: int = 0, out: object = None) -> Any:
    x, decimals = convert(a), whole(decimals, "decimals", "np.round")
    if x.dtype.is_integer:
        return twin(x)
    return s.round(x) if decimals == 0 else s.round(x * 10.0**decimals) / 10.0**decimals


def nan_to_num(
    x: TensorLike, copy: bool = True, nan: TensorLike = 0.0, posinf: TensorLike | None = None, neginf: TensorLike | None = None
) -> Any:
    x = convert(x)
    if not x.dtype.is_differentiable:
        return x
    limits = np.finfo(x.dtype.dtype)
    high = e.cast(limits.max if posinf is None else posinf, x.dtype)
    low = e.cast(limits.min if neginf is None else neginf, x.dtype)
    known = s.where(c.is_nan(x), e.cast(nan, x.dtype), x)
    return s.where(c.is_inf(known), s.where(known > 0, high, low), known)


def real(val: TensorLike) -> Any:
    return e.real(val)


def imag(val: TensorLike) -> Any:
    return e.imag(val)


def angle(z: TensorLike, deg: bool = False) -> Any:
    turned = angle_of(z)
    return turned * (180.0 / np.pi) if deg else turned


def sinc(x: TensorLike) -> Any:
    return normalised_sinc(floats(x))


# -- differences, sums over grids, interpolation -----------------------------------------------------------------------


def diff(a: TensorLike, n: int = 1, axis: int = -1, prepend: TensorLike | None = None, append: TensorLike | None = None) -> Any:
    x = moveaxis(a, axis, -1)
    ends = [None if v is None else convert(v) for v in (prepend, append)]
    first, last = (
        v if v is None else arrays.broadcast_to(v, (*shape_of(x)[:-1], 1)) if v.ndim == 0 else moveaxis(v, axis, -1)
        for v in ends
    )
    # A scalar stands for a slice of that value along the other axes, as NumPy has it.
    x = concatenate([part for part in (first, x, last) if part is not None], -1)
    for _ in range(n):
        x = c.not_equal(x[..., 1:], x[..., :-1]) if x.dtype.is_bool else x[..., 1:] - x[..., :-1]
    return moveaxis(x, -1, axis)


def ediff1d(ary: TensorLike) -> Any:
    return diff(flat(ary))


def trapezoid(y: TensorLike, x: TensorLike | None = None, dx: TensorLike = 1.0, axis: int = -1) -> Any:
    y = moveaxis(floats(y), axis, -1)
    if x is None:
        width = dx
    else:
        x = floats(x)
        width = diff(x if x.ndim == 1 else moveaxis(x, axis, -1))
    return r.reduce_sum((y[..., 1:] + y[..., :-1]) * 0.5 * width, axis=-1)


def interp(
    x: TensorLike, xp: TensorLike, fp: TensorLike, left: TensorLike | None = None, right: TensorLike | None = None,
    period: object = None,
) -> Any:  # fmt: skip
    """Piecewise linear interpolation, differentiable in the points, the grid and the values."""
    if period is not None:
        raise InvalidArgumentError("np.interp on tensors has no period")
    x, xp, fp = promote(floats(x), xp, fp)
    # The cell each point lies in; points outside the grid are computed in the nearest cell and replaced below.
    places = sorting.searchsorted(xp, x, side="right", out_type="int64") - 1
    cell = s.minimum(s.maximum(places, 0), int(xp.shape[0]) - 2)
    x0, x1, f0, f1 = (gather(grid, place) for grid in (xp, fp) for place in (cell, cell + 1))
    inside = f0 + (f1 - f0) * ((x - x0) / (x1 - x0))
    before, after = (fp[0] if left is None else left), (fp[-1] if right is None else right)
    return s.where(x < xp[0], before, s.where(x > xp[-1], after, inside))


def linspace(
    start: TensorLike, stop: TensorLike, num: int = 50, endpoint: bool = True, retstep: bool = False,
    dtype: DTypeLike | None = None, axis: int = 0,
) -> Any:  # fmt: skip
    start, stop = promote(floats(start), floats(stop))
    steps = max(num - 1 if endpoint else num, 1)
    step = (stop - start) / steps
    count = e.cast(constant(np.arange(num)), step.dtype)
    count = arrays.reshape(count, (-1, *([1] * step.ndim)))
    line = start + count * step
    if endpoint and num > 1:  # exactly there, without the rounding of the steps
        line = s.where(c.equal(count, num - 1), stop, line)
    line = moveaxis(line, 0, axis)
    line = line if dtype is None else e.cast(line, dtype)
    return (line, step) if retstep else line


def geomspace(
    start: TensorLike, stop: TensorLike, num: int = 50, endpoint: bool = True, dtype: DTypeLike | None = None, axis: int = 0
) -> Any:
    """start·(stop/start)^t for t from 0 to 1; both ends exactly."""
    start, stop = promote(floats(start), floats(stop))
    for argument, end in (("start", start), ("stop", stop)):
        if not end.wraps and not np.all(end.numpy()):
            raise ValueError(f"geomspace: {argument}: a geometric sequence cannot include zero, got {end.numpy()}")
    part = linspace(zeros_like(start), ones_like(start), num, endpoint)
    line = start * e.pow(stop / start, part)
    if endpoint and num > 1:  # exactly there, whatever the power rounds to
        line = s.where(c.equal(part, 1), stop, line)
    line = moveaxis(line, 0, axis)
    return line if dtype is None else e.cast(line, dtype)


def logspace(
    start: TensorLike, stop: TensorLike, num: int = 50, endpoint: bool = True, base: TensorLike = 10.0,
    dtype: DTypeLike | None = None, axis: int = 0,
) -> Any:  # fmt: skip
    line = linspace(start, stop, num, endpoint, axis=axis)
    base = numeric(base, "base", "logspace", line.dtype)
    line = e.pow(arrays.expand_dims(base, axis) if base.ndim else base, line)
    return line if dtype is None else e.cast(line, dtype)


def vander(x: TensorLike, N: int | None = None, increasing: bool = False) -> Any:
    """Columns are powers of x, as running products: exact for integers, and differentiable at zero."""
    x = _wide(of_rank(numeric(x, "x", "vander"), 1, "x", "vander", most=1), None)
    count = int(x.shape[0]) if N is None else whole(N, "N", "vander", least=0)
    ones = ones_like(x)
    columns = list(itertools.accumulate([ones, *[x] * (count - 1)], e.multiply))[:count]
    if not columns:
        return zeros((int(x.shape[0]), 0), x.dtype)
    return arrays.stack(columns if increasing else columns[::-1], 1)


def polyval(p: TensorLike, x: TensorLike) -> Any:
    coefficients = arrays.unstack(convert(p))
    # Horner's rule: c₀xⁿ + … + cₙ = (…(c₀x + c₁)x + …)x + cₙ.
    total = zeros_like(promote(coefficients[0], x)[1])
    for coefficient in coefficients:
        total = total * x + coefficient
    return total


def convolve(a: TensorLike, v: TensorLike, mode: str = "full") -> Any:
    a, v = promote(a, v)
    if a.ndim != 1 or v.ndim != 1:
        raise InvalidArgumentError(f"convolve: both arguments must be 1-d, got shapes {shape_of(a)} and {shape_of(v)}")
    if v.shape[0] > a.shape[0]:
        a, v = v, a
    n, m = int(a.shape[0]), int(v.shape[0])
    # Every sum of products at once: one row of the padded signal for each place of the result.
    windows = np.arange(n + m - 1)[:, None] + np.arange(m)[None, :]
    out = r.reduce_sum(take(extending.pad(a, [[m - 1, m - 1]]), windows) * arrays.reverse(v, [0]), axis=-1)
    cut = {"full": (0, n + m - 1), "same": ((m - 1) // 2, (m - 1) // 2 + n), "valid": (m - 1, n)}
    if mode not in cut:
        raise ValueError(f"convolve: mode must be 'full', 'same' or 'valid', got {mode!r}")
    return out[cut[mode][0] : cut[mode][1]]


def correlate(a: TensorLike, v: TensorLike, mode: str = "valid") -> Any:
    """Σₙ aₙ₊ₖ conj(vₙ): a convolution with the conjugate of v, read backwards."""
    a, v = promote(a, v)
    if a.ndim != 1 or v.ndim != 1:
        raise InvalidArgumentError(f"correlate: both arguments must be 1-d, got shapes {shape_of(a)} and {shape_of(v)}")
    option(mode, "mode", "correlate", ("full", "same", "valid"))
    if v.shape[0] > a.shape[0]:  # NumPy slides the shorter over the longer and turns the result around
        return arrays.reverse(conjugated(correlate(v, a, mode)), [0])
    return convolve(a, arrays.reverse(conjugated(v), [0]), mode)


# -- dtypes and text: no tensors ---------------------------------------------------------------------------------------


def _plain(function: Rule) -> Rule:
    """NumPy's own function on plain values: its result is no tensor."""

    def rule(*args: Any, **kwargs: Any) -> Any:
        return function(*(values(a) for a in args), **{key: values(value) for key, value in kwargs.items()})

    return rule


def result_type(*arrays_and_dtypes: Any) -> Any:
    plain = (numpy_dtype(convert(a).dtype) if isinstance(a, (Tensor, Readable)) else a for a in arrays_and_dtypes)
    return np.result_type(*plain)


FUNCTIONS: dict[Any, Rule] = {
    np.sum: sum_, np.prod: prod, np.mean: mean, np.max: max_, np.amax: max_, np.min: min_, np.amin: min_, np.ptp: ptp,
    np.all: all_, np.any: any_, np.var: var, np.std: std, np.average: average, np.cumsum: cumsum, np.cumprod: cumprod,
    np.nansum: nansum, np.nanprod: nanprod, np.nanmax: _extreme_known(max_, -np.inf), np.nanmin: _extreme_known(min_, np.inf),
    np.nanmean: nanmean, np.nanvar: nanvar, np.nanstd: nanstd,
    np.sort: sort, np.argsort: argsort, np.partition: partition, np.argpartition: argpartition,
    np.argmax: _arg(sorting.argmax), np.argmin: _arg(sorting.argmin),
    np.clip: clip, np.round: round_, np.around: round_, np.fix: lambda x: trunc(x),
    np.nan_to_num: nan_to_num, np.real: real, np.imag: imag, np.angle: angle, np.sinc: sinc,
    np.diff: diff, np.ediff1d: ediff1d, np.trapezoid: trapezoid, np.interp: interp, np.linspace: linspace,
    np.polyval: polyval, np.convolve: convolve, np.correlate: correlate, np.vander: vander, np.geomspace: geomspace,
    np.logspace: logspace, np.i0: lambda x: bessel_i0(floats(x)), np.nancumsum: _running_without_nan(cumsum, 0.0),
    np.nancumprod: _running_without_nan(cumprod, 1.0),
    np.iscomplexobj: lambda x: convert(x).dtype.is_complex, np.isrealobj: lambda x: not convert(x).dtype.is_complex,
    np.shape: lambda a: shape_of(convert(a)), np.ndim: lambda a: convert(a).ndim,
    np.size: lambda a, axis=None: int(convert(a).size if axis is None else convert(a).shape[axis]),
    np.result_type: result_type, np.array_repr: _plain(np.array_repr), np.array_str: _plain(np.array_str),
    np.array2string: _plain(np.array2string), np.save: _plain(np.save), np.savetxt: _plain(np.savetxt),
    np.savez: _plain(np.savez), np.savez_compressed: _plain(np.savez_compressed),
}  # fmt: skip
