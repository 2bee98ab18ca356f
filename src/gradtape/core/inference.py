"""Type rules shared by many ops: how shapes broadcast and dtypes promote. Pure functions of specs; no arrays."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from gradtape.dtypes import DType, as_dtype, bool_, float32
from gradtape.errors import InvalidArgumentError
from gradtape.ir.polynomial import Size
from gradtape.ir.types import UNKNOWN, UNKNOWN_TO_RULES, TensorSpec


def broadcast_shapes(*shapes: Iterable[Size]) -> tuple[Size, ...]:
    """NumPy's broadcasting of shapes; raises naming them when they do not fit. Unknown with anything is unknown."""
    if any([s is UNKNOWN_TO_RULES for s in shapes]):  # noqa: C419  (quicker than a generator)
        return UNKNOWN
    try:
        return np.broadcast_shapes(*(tuple(s) for s in shapes))
    except ValueError as error:
        text = " and ".join(str(tuple(s)) for s in shapes)
        raise InvalidArgumentError(f"shapes {text} do not broadcast") from error


def promote_dtypes(a: DType, b: DType) -> DType:
    """float with integer or bool keeps the float; otherwise as NumPy."""
    if a is b:
        return a
    if (a.name == "string") != (b.name == "string"):
        raise TypeError(f"dtypes {a.name} and {b.name} do not mix: strings are opaque data, not numbers")
    rank_a, rank_b = category(a), category(b)
    # NumPy makes float64 of float32 and int32, to keep every integer exact; here a float tensor keeps its precision and speed.
    if rank_a != rank_b and max(rank_a, rank_b) >= 2 and min(rank_a, rank_b) < 2:
        return a if rank_a > rank_b else b
    return as_dtype(np.promote_types(a.dtype, b.dtype))


def category(d: DType) -> int:
    """0 bool, 1 integer, 2 floating, 3 complex."""
    return 3 if d.is_complex else 2 if d.is_floating else 1 if d.is_integer else 0


def elementwise(*specs: TensorSpec, **attrs: Any) -> TensorSpec:
    """Broadcast the shapes, promote the dtypes."""
    dtype = specs[0].dtype
    for spec in specs[1:]:
        dtype = promote_dtypes(dtype, spec.dtype)
    return TensorSpec(broadcast_shapes(*(s.shape for s in specs)), dtype)


def elementwise_float(*specs: TensorSpec, **attrs: Any) -> TensorSpec:
    """As `elementwise`, integers becoming the default float."""
    spec = elementwise(*specs)
    return spec if spec.dtype.is_differentiable else TensorSpec(spec.shape, float32)


def numbers(*specs: TensorSpec, **attrs: Any) -> TensorSpec:
    """As `elementwise`, refusing booleans: NumPy would make small integers of them."""
    spec = elementwise(*specs)
    if spec.dtype.is_bool:
        raise TypeError(NO_BOOLEANS)
    return spec


NO_BOOLEANS = "booleans are not numbers; use gt.cast first"


def predicate(*specs: TensorSpec, **attrs: Any) -> TensorSpec:
    """Broadcast the shapes; the result is boolean."""
    return TensorSpec(broadcast_shapes(*(s.shape for s in specs)), bool_)


def same(x: TensorSpec, *rest: TensorSpec, **attrs: Any) -> TensorSpec:
    """Shape and dtype of the first input."""
    return TensorSpec(x.shape, x.dtype)


def real_part(x: TensorSpec, **attrs: Any) -> TensorSpec:
    """Shape of the input, its real dtype."""
    return TensorSpec(x.shape, x.dtype.real_dtype)


def reduced_shape(shape: Iterable[Size], axis: tuple[int, ...], keepdims: bool) -> tuple[Size, ...]:
    """The shape left when `axis` (non-negative) is reduced."""
    if keepdims:
        return tuple(1 if i in axis else d for i, d in enumerate(shape))
    return tuple(d for i, d in enumerate(shape) if i not in axis)


def reduction(x: TensorSpec, *, axis: tuple[int, ...], keepdims: bool = False, **attrs: Any) -> TensorSpec:
    """Type of a reduction that keeps the dtype."""
    return TensorSpec(reduced_shape(x.shape, axis, keepdims), x.dtype)
