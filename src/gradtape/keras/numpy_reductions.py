"""Keras's `numpy` functions that reduce, sort, count or accumulate along axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradtape.core.tensor import Tensor
from gradtape.core.typing import DTypeLike, TensorLike
from gradtape.keras.core_ops import cast, convert_to_tensor
from gradtape.keras.numpy_elementwise import isclose
from gradtape.keras.numpy_types import axes_of, floating, on_tensors as np, promoted, promoted_floats, result_type
from gradtape.ops import compare, cumulative, reduce, select, sorting
from gradtape.ops.create import zeros_like
from gradtape.ops.shape import broadcast_to, expand_dims, reshape

_SMALL_INTEGERS = {"bool": "int32", "int8": "int32", "int16": "int32", "uint8": "uint32", "uint16": "uint32"}


def _whole(x: TensorLike) -> Tensor:
    """A tensor whose sum has room: small integers become 32-bit ones."""
    tensor = convert_to_tensor(x)
    return cast(tensor, _SMALL_INTEGERS.get(tensor.dtype.name, tensor.dtype.name))


def sum_(x: TensorLike, axis: Any = None, keepdims: bool = False) -> Tensor:
    tensor = _whole(x)
    return cast(reduce.reduce_sum(tensor, axes_of(axis), keepdims), tensor.dtype)


def prod(x: TensorLike, axis: Any = None, keepdims: bool = False, dtype: DTypeLike | None = None) -> Tensor:
    tensor = _whole(x) if dtype is None else cast(x, dtype)
    return cast(reduce.reduce_prod(tensor, axes_of(axis), keepdims), tensor.dtype)


def mean(x: TensorLike, axis: Any = None, keepdims: bool = False) -> Tensor:
    tensor = floating(x)
    if tensor.dtype.name in ("float16", "bfloat16"):  # sums of many values leave these types
        return cast(reduce.reduce_mean(cast(tensor, "float32"), axes_of(axis), keepdims), tensor.dtype)
    return reduce.reduce_mean(tensor, axes_of(axis), keepdims)


def var(x: TensorLike, axis: Any = None, keepdims: bool = False) -> Tensor:
    tensor = floating(x)
    wide = cast(tensor, "float32") if tensor.dtype.name in ("float16", "bfloat16") else tensor
    return cast(reduce.reduce_variance(wide, axes_of(axis), keepdims), tensor.dtype.real_dtype)


def std(x: TensorLike, axis: Any = None, keepdims: bool = False) -> Tensor:
    tensor = floating(x)
    wide = cast(tensor, "float32") if tensor.dtype.name in ("float16", "bfloat16") else tensor
    return cast(reduce.reduce_std(wide, axes_of(axis), keepdims), tensor.dtype.real_dtype)


def max_(x: TensorLike, axis: Any = None, keepdims: bool = False, initial: float | None = None) -> Tensor:
    return _extreme(reduce.reduce_max, select.maximum, x, axis, keepdims, initial)


def min_(x: TensorLike, axis: Any = None, keepdims: bool = False, initial: float | None = None) -> Tensor:
    return _extreme(reduce.reduce_min, select.minimum, x, axis, keepdims, initial)


def _extreme(
    rule: Callable[..., Tensor], join: Callable[..., Tensor], x: TensorLike, axis: Any, keepdims: bool, initial: float | None
) -> Tensor:
    tensor = convert_to_tensor(x)
    if tensor.dtype.is_bool:
        return cast(_extreme(rule, join, cast(tensor, "int32"), axis, keepdims, initial), "bool")
    if 0 in tensor.shape and initial is not None and axis is None:
        return convert_to_tensor(initial, tensor.dtype)
    result = rule(tensor, axes_of(axis), keepdims)
    return result if initial is None else join(result, convert_to_tensor(initial, tensor.dtype))


def amax(x: TensorLike, axis: Any = None, keepdims: bool = False) -> Tensor:
    return max_(x, axis, keepdims)


def amin(x: TensorLike, axis: Any = None, keepdims: bool = False) -> Tensor:
    return min_(x, axis, keepdims)


def ptp(x: TensorLike, axis: Any = None, keepdims: bool = False) -> Tensor:
    return max_(x, axis, keepdims) - min_(x, axis, keepdims)


def all_(x: TensorLike, axis: Any = None, keepdims: bool = False) -> Tensor:
    return reduce.reduce_all(cast(x, "bool"), axes_of(axis), keepdims)


def any_(x: TensorLike, axis: Any = None, keepdims: bool = False) -> Tensor:
    return reduce.reduce_any(cast(x, "bool"), axes_of(axis), keepdims)


def allclose(x1: TensorLike, x2: TensorLike, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    return reduce.reduce_all(isclose(x1, x2, rtol, atol, equal_nan))


def count_nonzero(x: TensorLike, axis: Any = None) -> Tensor:
    return reduce.reduce_sum(cast(cast(x, "bool"), "int32"), axes_of(axis))


def average(x: TensorLike, axis: Any = None, weights: TensorLike | None = None) -> Tensor:
    if weights is None:
        return mean(floating(x), axis)
    tensor, factors = promoted_floats(x, weights)
    if factors.ndim != tensor.ndim and axis is not None:
        place = axis % tensor.ndim if isinstance(axis, int) else axis[0] % tensor.ndim
        factors = reshape(factors, tuple(n if i == place else 1 for i, n in enumerate(tensor.shape)))
        factors = broadcast_to(factors, tensor.shape)
    return reduce.reduce_sum(tensor * factors, axes_of(axis)) / reduce.reduce_sum(factors, axes_of(axis))


# -- without NaN -----------------------------------------------------------------------------------------------------------


def nansum(x: TensorLike, axis: Any = None, keepdims: bool = False) -> Tensor:
    tensor = _whole(x)
    return cast(np.nansum(tensor, axes_of(axis), keepdims=keepdims), tensor.dtype)


def nanprod(x: TensorLike, axis: Any = None, keepdims: bool = False) -> Tensor:
    tensor = _whole(x)
    return cast(np.nanprod(tensor, axes_of(axis), keepdims=keepdims), tensor.dtype)


def nancumsum(x: TensorLike, axis: Any = None, dtype: DTypeLike | None = None) -> Tensor:
    return _running(np.nancumsum, x, axis, dtype)


def nancumprod(x: TensorLike, axis: Any = None, dtype: DTypeLike | None = None) -> Tensor:
    return _running(np.nancumprod, x, axis, dtype)


def nanmax(x: TensorLike, axis: Any = None, keepdims: bool = False) -> Tensor:
    return np.nanmax(convert_to_tensor(x), axes_of(axis), keepdims=keepdims)


def nanmin(x: TensorLike, axis: Any = None, keepdims: bool = False) -> Tensor:
    return np.nanmin(convert_to_tensor(x), axes_of(axis), keepdims=keepdims)


def nanmean(x: TensorLike, axis: Any = None, keepdims: bool = False) -> Tensor:
    return np.nanmean(floating(x), axes_of(axis), keepdims=keepdims)


def nanvar(x: TensorLike, axis: Any = None, keepdims: bool = False) -> Tensor:
    return np.nanvar(floating(x), axes_of(axis), keepdims=keepdims)


def nanstd(x: TensorLike, axis: Any = None, keepdims: bool = False) -> Tensor:
    return np.nanstd(floating(x), axes_of(axis), keepdims=keepdims)


# -- order -----------------------------------------------------------------------------------------------------------------


def argmax(x: TensorLike, axis: int | None = None, keepdims: bool = False) -> Tensor:
    return _place(sorting.argmax, x, axis, keepdims)


def argmin(x: TensorLike, axis: int | None = None, keepdims: bool = False) -> Tensor:
    return _place(sorting.argmin, x, axis, keepdims)


def _place(rule: Callable[..., Tensor], x: TensorLike, axis: int | None, keepdims: bool) -> Tensor:
    tensor = convert_to_tensor(x)
    if tensor.dtype.is_bool:
        tensor = cast(tensor, "int32")
    flat = reshape(tensor, (-1,)) if axis is None else tensor
    if tensor.ndim == 0:
        return zeros_like(cast(tensor, "int32"))
    # Keras orders -0.0 before 0.0
    if flat.dtype.is_floating:
        tiny = float(np.finfo(np.float32 if flat.dtype.name == "bfloat16" else flat.dtype.as_numpy_dtype).tiny)
        zero = compare.logical_and(compare.equal(flat, 0.0), compare.sign_bit(flat))
        flat = select.where(zero, cast(-tiny, flat.dtype), flat)
    result = rule(flat, 0 if axis is None else axis, output_type="int32")
    if not keepdims:
        return result
    return reshape(result, (1,) * tensor.ndim) if axis is None else expand_dims(result, axis)


def nanargmax(x: TensorLike, axis: int | None = None, keepdims: bool = False) -> Tensor:
    return _nan_place(argmax, -np.inf, x, axis, keepdims)


def nanargmin(x: TensorLike, axis: int | None = None, keepdims: bool = False) -> Tensor:
    return _nan_place(argmin, np.inf, x, axis, keepdims)


def _nan_place(rule: Callable[..., Tensor], fill: float, x: TensorLike, axis: int | None, keepdims: bool) -> Tensor:
    tensor = convert_to_tensor(x)
    if not tensor.dtype.is_floating:
        return rule(tensor, axis, keepdims)
    result = rule(select.where(np.isnan(tensor), cast(fill, tensor.dtype), tensor), axis, keepdims)
    return select.where(all_(np.isnan(tensor), axis, keepdims), cast(-1, "int32"), result)


def argsort(x: TensorLike, axis: int | None = -1) -> Tensor:
    tensor = convert_to_tensor(x)
    if tensor.dtype.is_bool:
        tensor = cast(tensor, "int32")
    if axis is None:
        tensor, axis = reshape(tensor, (-1,)), 0
    if not tensor.ndim:
        return zeros_like(cast(tensor, "int32"))
    return sorting.argsort(tensor, axis, stable=True)


def argpartition(x: TensorLike, kth: int, axis: int | None = -1) -> Tensor:
    return argsort(x, axis)


def sort(x: TensorLike, axis: int | None = -1) -> Tensor:
    tensor = convert_to_tensor(x)
    kept = tensor.dtype
    if kept.is_bool:
        tensor = cast(tensor, "int32")
    if axis is None:
        tensor, axis = reshape(tensor, (-1,)), 0
    return cast(sorting.sort(tensor, axis), kept)


def searchsorted(sorted_sequence: TensorLike, values: TensorLike, side: str = "left") -> Tensor:
    row, wanted = convert_to_tensor(sorted_sequence), convert_to_tensor(values)
    if row.ndim != 1:
        raise ValueError(
            f"`searchsorted` only supports 1-D sorted sequences. You can use `keras.ops.vectorized_map` to extend it to N-D "
            f"sequences. Received: sorted_sequence.shape={tuple(row.shape)}"
        )
    row, wanted = promoted(row, wanted)
    flat = sorting.searchsorted(row, reshape(wanted, (-1,)), side=side, out_type="int32")
    return reshape(flat, wanted.shape)


def digitize(x: TensorLike, bins: TensorLike) -> Tensor:
    return searchsorted(bins, x, side="right")


# -- quantiles -------------------------------------------------------------------------------------------------------------


def median(x: TensorLike, axis: Any = None, keepdims: bool = False) -> Tensor:
    return np.median(floating(x), axes_of(axis), keepdims=keepdims)


def quantile(x: TensorLike, q: TensorLike, axis: Any = None, method: str = "linear", keepdims: bool = False) -> Tensor:
    return np.quantile(floating(x), q, axes_of(axis), method=method, keepdims=keepdims)


def percentile(x: TensorLike, q: TensorLike, axis: Any = None, method: str = "linear", keepdims: bool = False) -> Tensor:
    return np.percentile(floating(x), q, axes_of(axis), method=method, keepdims=keepdims)


def nanmedian(x: TensorLike, axis: Any = None, keepdims: bool = False) -> Tensor:
    return np.nanmedian(floating(x), axes_of(axis), keepdims=keepdims)


def nanquantile(x: TensorLike, q: TensorLike, axis: Any = None, method: str = "linear", keepdims: bool = False) -> Tensor:
    return np.nanquantile(floating(x), q, axes_of(axis), method=method, keepdims=keepdims)


def nanpercentile(x: TensorLike, q: TensorLike, axis: Any = None, method: str = "linear", keepdims: bool = False) -> Tensor:
    return np.nanpercentile(floating(x), q, axes_of(axis), method=method, keepdims=keepdims)


# -- running sums and counts -----------------------------------------------------------------------------------------------


def cumsum(x: TensorLike, axis: int | None = None, dtype: DTypeLike | None = None) -> Tensor:
    return _running(cumulative.cumsum, x, axis, dtype)


def cumprod(x: TensorLike, axis: int | None = None, dtype: DTypeLike | None = None) -> Tensor:
    return _running(cumulative.cumprod, x, axis, dtype)


def _running(rule: Callable[..., Tensor], x: TensorLike, axis: int | None, dtype: DTypeLike | None) -> Tensor:
    tensor = convert_to_tensor(x)
    if dtype is None:
        dtype = "int32" if tensor.dtype.is_bool else tensor.dtype.name
    tensor = cast(tensor, dtype)
    out = rule(reshape(tensor, (-1,)), 0) if axis is None else rule(tensor, axis)
    return cast(out, dtype)


def diff(a: TensorLike, n: int = 1, axis: int = -1) -> Tensor:
    return np.diff(convert_to_tensor(a), n, axis)


def trapezoid(y: TensorLike, x: TensorLike | None = None, dx: float = 1.0, axis: int = -1) -> Tensor:
    values = floating(y)
    if x is None:
        return np.trapezoid(values, dx=dx, axis=axis)
    values, places = promoted(values, x)
    return np.trapezoid(values, places, axis=axis)


def bincount(x: TensorLike, weights: TensorLike | None = None, minlength: int = 0, sparse: bool = False) -> Tensor:
    if sparse:
        raise ValueError("Unsupported value `sparse=True`: the tensors of the gradtape engine are dense")
    from gradtape.ops.segment import bincount as counts

    values = cast(x, "int32")
    given = None if weights is None else convert_to_tensor(weights)
    wanted = "int32" if given is None else result_type(convert_to_tensor(x).dtype.name, given.dtype.name)
    if given is not None and not given.dtype.is_floating:
        given = cast(given, "float32")
    if values.ndim < 2:
        return cast(counts(values, given, minlength=minlength), wanted)
    longest = select.maximum(reduce.reduce_max(values) + 1, cast(minlength, "int32"))
    length = longest if longest.wraps else int(longest)
    rows = [
        counts(row, None if given is None else given[i], minlength=length, maxlength=length) for i, row in enumerate(values)
    ]
    from gradtape.ops.shape import stack

    return cast(stack(rows), wanted)


def histogram(x: TensorLike, bins: int = 10, range: tuple[float, float] | None = None) -> tuple[Tensor, Tensor]:
    counts, edges = np.histogram(floating(x), bins, range)
    return cast(counts, "int32"), edges


def corrcoef(x: TensorLike) -> Tensor:
    return np.corrcoef(floating(x))
