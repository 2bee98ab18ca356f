"""Elements as another type: `bitcast` reads the same bits, `saturate_cast` gives the nearest value that the type has."""

from __future__ import annotations

import numpy as np

from gradtape.core import batching
from gradtape.core.arguments import dtype_of, numeric
from gradtape.core.dispatch import apply
from gradtape.core.opdef import Memory, Op, Sample, composite, nondiff
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Array, Dims, DTypeLike, TensorLike
from gradtape.dtypes import DType
from gradtape.errors import InvalidArgumentError
from gradtape.ir.types import TensorSpec
from gradtape.ops.sampling import integers, normal


def _bitcast_shape(shape: Dims, old: int, new: int) -> Dims:
    """Smaller elements have an axis of their own behind, which larger ones take away again."""
    return (*shape, old // new) if old > new else shape[:-1] if old < new else shape


def _bitcast_impl(x: Array, *, dtype: DType) -> Array:
    shape = _bitcast_shape(x.shape, x.dtype.itemsize, dtype.size)
    return np.ascontiguousarray(x).reshape(-1).view(dtype.dtype).reshape(shape)[()]


BITCAST: Op = nondiff(
    "bitcast", "x", _bitcast_impl,
    infer=lambda x, *, dtype: TensorSpec(_bitcast_shape(tuple(x.shape), x.dtype.size, dtype.size), dtype),
    reason="bits are no smooth function of a number", batch=batching.leading, memory=Memory.SHARED,
    call=lambda x, dtype: bitcast(x, dtype),
    samples=lambda: [
        Sample(integers(9, 3).astype("int32"), "uint32"),
        Sample(integers(9, 2, 2), "uint8"),
        Sample(integers(9, 3, 2).astype("int32"), "int64"),
        Sample(np.array(2**60), "float64"),
        Sample(integers(9, 3).astype("int32"), "int64", raises=(ValueError, "last axis")),
    ],
)  # fmt: skip


def bitcast(input: TensorLike, type: DTypeLike, name: str | None = None) -> Tensor:
    """The same bits read as elements of another type; smaller elements get an axis of their own, the last.

    >>> gt.bitcast(gt.constant([1.0, -2.0]), gt.uint32).numpy()
    array([1065353216, 3221225472], dtype=uint32)
    """
    x, dtype = numeric(input, "input", "bitcast"), dtype_of(type, "type", "bitcast")
    if x.dtype.is_bool or dtype.is_bool or dtype.name == "string":
        raise InvalidArgumentError(f"bitcast: from {x.dtype.name} to {dtype.name}: only numbers have bits to read; use gt.cast")
    if dtype.size > x.dtype.size and (not x.ndim or x.shape[-1] != dtype.size // x.dtype.size):
        raise InvalidArgumentError(
            f"bitcast: from {x.dtype.name} to {dtype.name} the last axis must have size {dtype.size // x.dtype.size}, "
            f"got shape {tuple(x.shape)}"
        )
    return apply(BITCAST, x, dtype=dtype)


def _inside(low: float, high: float, kind: np.dtype) -> tuple[float, float]:
    """The bounds as numbers of another type, rounded inwards: 2³¹ - 1 is no float32."""
    ends = [kind.type(low), kind.type(high)]
    for i, limit in enumerate((low, high)):
        if abs(int(ends[i]) if isinstance(limit, int) else float(ends[i])) > abs(limit):  # exact, as Python's integers are
            ends[i] = np.nextafter(ends[i], kind.type(0))
    return ends[0], ends[1]


@composite(
    samples=lambda: [
        Sample(normal(2, 3), "float64"),
        Sample(normal(2) + 1j * normal(2), "complex128"),
        Sample(np.array([-300.0, 1.5, 300.0]), "uint8"),
        Sample(np.array([-3, 70000]), "int16"),
    ]
)
def saturate_cast(value: TensorLike, dtype: DTypeLike, name: str | None = None) -> Tensor:
    """`cast` that gives the smallest or largest value of the type where a value lies beyond it."""
    x, wanted = numeric(value, "value", "saturate_cast"), dtype_of(dtype, "dtype", "saturate_cast")
    if x.dtype.is_complex:
        if wanted.is_complex:
            part = wanted.real_dtype
            return complex(saturate_cast(real(x), part), saturate_cast(imag(x), part))
        x = real(x)
    have, want = x.dtype, wanted.real_dtype
    if have != want and not have.is_bool and not want.is_bool:
        low, high = max(have.min, want.min), min(have.max, want.max)
        if low > have.min or high < have.max:
            low, high = (low, high) if have.is_integer else _inside(low, high, have.dtype)
            x = clip_by_value(x, have.dtype.type(low), have.dtype.type(high))
    return cast(x, wanted)


OPS = (BITCAST,)

from gradtape.ops.elementwise import cast, complex, imag, real
from gradtape.ops.select import clip_by_value
