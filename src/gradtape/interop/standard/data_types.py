"""Data types: casts, promotion, limits, kinds, and what `__array_namespace_info__` tells of the library."""

# ruff: noqa: D103  (each function does what the array API standard documents under its name)

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtape import dtypes as d
from gradtape.core.dispatch import convert
from gradtape.core.inference import category, promote_dtypes
from gradtape.core.tensor import Readable, Tensor
from gradtape.core.typing import DTypeLike, TensorLike
from gradtape.interop.array_namespace import DEVICE, check_device
from gradtape.ops import elementwise as e
from gradtape.ops.stop import identity

DEFAULTS = {"real floating": d.float32, "complex floating": d.complex64, "integral": d.int32, "indexing": d.int64}
DTYPES = tuple(x for x in d.ALL if x.name not in ("string", "float16", "bfloat16"))  # those the standard has
_KINDS = {
    "bool": "b", "signed integer": "i", "unsigned integer": "u", "integral": "iu", "real floating": "f",
    "complex floating": "c", "numeric": "iufc",
}  # fmt: skip
_SCALARS = (bool, int, float, complex)


def astype(x: TensorLike, dtype: DTypeLike, /, *, copy: bool = True, device: object = None) -> Any:
    check_device(device)
    x = convert(x)
    if x.dtype != dtype:
        return e.cast(x, dtype)
    return identity(x) if copy else x


def dtype_of(item: Tensor | Readable | np.ndarray | DTypeLike) -> d.DType:
    """The dtype of an array, or the dtype itself."""
    return d.as_dtype(convert(item).dtype if isinstance(item, (Tensor, Readable, np.ndarray)) else item)


def can_cast(from_: Tensor | Readable | np.ndarray | DTypeLike, to: DTypeLike, /) -> bool:
    return bool(np.can_cast(dtype_of(from_).dtype, d.numpy_dtype(to)))


def result_type(*arrays_and_dtypes: Any) -> d.DType:
    """The dtype an operation on these has; a Python number changes the kind at most, not the precision."""
    numbers = [item for item in arrays_and_dtypes if item.__class__ in _SCALARS]
    typed = [dtype_of(item) for item in arrays_and_dtypes if item.__class__ not in _SCALARS]
    if not typed:
        if not numbers:
            raise ValueError("result_type needs at least one array, dtype or number")
        typed = [default_dtype(numbers[0])]
    common = typed[0]
    for dtype in typed[1:]:
        common = promote_dtypes(common, dtype)
    for number in numbers:
        own = default_dtype(number)
        # A Python float makes a float of an integer array, and changes no float.
        if category(own) > category(common):
            common = d.complex128 if own.is_complex and common is d.float64 else own
    return common


def default_dtype(number: complex) -> d.DType:
    """The dtype of a Python number that stands alone."""
    if isinstance(number, bool):
        return d.bool_
    if isinstance(number, int):
        return d.int32 if -(2**31) <= number < 2**31 else d.int64 if number < 2**63 else d.uint64
    return d.float32 if isinstance(number, float) else d.complex64


def isdtype(dtype: DTypeLike, kind: DTypeLike | tuple[DTypeLike, ...]) -> bool:
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    if isinstance(kind, str):
        if kind not in _KINDS:
            raise ValueError(f"isdtype: kind must be one of {', '.join(_KINDS)}, or a dtype, got {kind!r}")
        return d.as_dtype(dtype).kind in _KINDS[kind]
    return d.as_dtype(dtype) is d.as_dtype(kind)


@dataclass(frozen=True)
class FloatLimits:
    """What `finfo` says, as Python numbers."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: d.DType


@dataclass(frozen=True)
class IntegerLimits:
    """What `iinfo` says."""

    bits: int
    max: int
    min: int
    dtype: d.DType


def finfo(type: Tensor | Readable | np.ndarray | DTypeLike, /) -> FloatLimits:
    real = dtype_of(type).real_dtype
    if not real.is_floating:
        raise TypeError(f"finfo: {real.name} is not a floating-point dtype")
    limits = d._finfo(real)
    eps, largest, least, normal = (float(v) for v in (limits.eps, limits.max, limits.min, limits.smallest_normal))
    return FloatLimits(int(limits.bits), eps, largest, least, normal, real)


def iinfo(type: Tensor | Readable | np.ndarray | DTypeLike, /) -> IntegerLimits:
    dtype = dtype_of(type)
    if not dtype.is_integer:
        raise TypeError(f"iinfo: {dtype.name} is not an integer dtype")
    limits = np.iinfo(dtype.dtype)
    return IntegerLimits(int(limits.bits), int(limits.max), int(limits.min), dtype)


class NamespaceInfo:
    """What `__array_namespace_info__()` gives: devices, dtypes, capabilities."""

    def capabilities(self) -> dict[str, Any]:
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        return DEVICE

    def devices(self) -> list[str]:
        return [DEVICE]

    def default_dtypes(self, *, device: object = None) -> dict[str, d.DType]:
        check_device(device)
        return dict(DEFAULTS)

    def dtypes(self, *, device: object = None, kind: str | tuple[str, ...] | None = None) -> dict[str, d.DType]:
        check_device(device)
        return {x.name: x for x in DTYPES if kind is None or isdtype(x, kind)}


def __array_namespace_info__() -> NamespaceInfo:  # noqa: N807  (the standard's name)
    return NamespaceInfo()


__all__ = ["__array_namespace_info__", "astype", "can_cast", "finfo", "iinfo", "isdtype", "result_type"]
