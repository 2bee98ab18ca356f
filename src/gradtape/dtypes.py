"""Element types: TensorFlow's names over NumPy's dtypes.

A `DType` is one object per element type, compares equal to its NumPy dtype and name, and is accepted by NumPy wherever a
dtype is. `bfloat16` needs the optional package `ml_dtypes`, imported only when the type is used.
"""

from __future__ import annotations

import builtins
from typing import Any, TypeAlias

import numpy as np

from gradtape.errors import InvalidArgumentError


class DType:
    """The element type of a tensor, e.g. `gt.float32`.

    >>> gt.float32.is_floating, gt.float32 == "float32", gt.complex64.real_dtype
    (True, True, gt.float32)
    """

    __slots__ = (
        "_numpy", "is_bool", "is_complex", "is_differentiable", "is_floating", "is_integer", "is_unsigned", "kind", "name",
    )  # fmt: skip
    name: str
    kind: str  # NumPy's letter: b bool, i and u integers, f floating (bfloat16 too), c complex, O string
    _numpy: np.dtype[Any] | None

    def __init__(self, name: str, numpy_type: builtins.type | None = None) -> None:
        self.name = name
        self._numpy = None if numpy_type is None else np.dtype(numpy_type)
        self.kind = "f" if self._numpy is None else self._numpy.kind
        # asked in hot paths, so they are no properties
        self.is_floating = self.kind == "f"
        self.is_complex = self.kind == "c"
        self.is_integer = self.kind in "iu"
        self.is_unsigned = self.kind == "u"
        self.is_bool = self.kind == "b"
        self.is_differentiable = self.kind in "fc"  # the types that carry derivatives

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype; NumPy itself reads this attribute, so `np.zeros(3, gt.float32)` works."""
        if self._numpy is None:
            self._numpy = _bfloat16()
            BY_NUMPY[self._numpy] = self
        return self._numpy

    @property
    def as_numpy_dtype(self) -> builtins.type:
        """The NumPy scalar type, as TensorFlow spells it."""
        return self.dtype.type

    type = as_numpy_dtype  # as NumPy spells it: SciPy's optimisers ask what a function gave

    @property
    def real_dtype(self) -> DType:
        return {"complex64": float32, "complex128": float64}.get(self.name, self)

    @property
    def base_dtype(self) -> DType:
        return self

    @property
    def size(self) -> int:
        return self.dtype.itemsize

    itemsize = size  # NumPy's name, which pandas asks for

    @property
    def min(self) -> Any:
        return np.iinfo(self.dtype).min if self.is_integer else _finfo(self).min

    @property
    def max(self) -> Any:
        return np.iinfo(self.dtype).max if self.is_integer else _finfo(self).max

    def is_compatible_with(self, other: DTypeLike) -> bool:
        return self is as_dtype(other)

    def __eq__(self, other: object) -> bool:
        if other.__class__ is DType:
            return self is other
        if other is None:
            return False
        try:
            return as_dtype(other) is self  # type: ignore[arg-type]  # anything may be compared
        except (TypeError, InvalidArgumentError):
            return False

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"gt.{self.name}"

    def __str__(self) -> str:
        return f"<dtype: '{self.name}'>"

    def __reduce__(self) -> tuple[Any, ...]:
        return as_dtype, (self.name,)


def _finfo(dtype: DType) -> Any:
    if dtype.name == "bfloat16":
        import ml_dtypes

        return ml_dtypes.finfo(dtype.dtype)  # type: ignore[no-untyped-call]
    return np.finfo(dtype.dtype)


def _bfloat16() -> np.dtype[Any]:
    try:
        import ml_dtypes
    except ImportError as error:
        raise ImportError("bfloat16 needs the optional package ml_dtypes: pip install ml_dtypes") from error
    dtype: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return dtype


float16 = DType("float16", np.float16)
bfloat16 = DType("bfloat16")
float32 = DType("float32", np.float32)
float64 = DType("float64", np.float64)
half, double = float16, float64
int8 = DType("int8", np.int8)
int16 = DType("int16", np.int16)
int32 = DType("int32", np.int32)
int64 = DType("int64", np.int64)
uint8 = DType("uint8", np.uint8)
uint16 = DType("uint16", np.uint16)
uint32 = DType("uint32", np.uint32)
uint64 = DType("uint64", np.uint64)
bool_ = DType("bool", np.bool_)
complex64 = DType("complex64", np.complex64)
complex128 = DType("complex128", np.complex128)
string = DType("string", np.object_)

ALL = (
    float16, bfloat16, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64, bool_, complex64, complex128,
    string,
)  # fmt: skip
DTypeLike: TypeAlias = DType | np.dtype | str | type  # what `as_dtype` reads: `type` is that of a Python or NumPy number
BY_NAME = {d.name: d for d in ALL} | {"double": float64, "float": float32, "half": float16}
BY_NUMPY: dict[Any, DType] = {d._numpy: d for d in ALL if d._numpy is not None}
_BY_PYTHON: dict[Any, DType] = {float: float32, int: int32, bool: bool_, complex: complex128, str: string}


def as_dtype(type_value: DTypeLike) -> DType:
    """The `DType` of a name, a NumPy dtype, a Python or NumPy scalar type, or a `DType`.

    >>> gt.as_dtype("float64"), gt.as_dtype(float)
    (gt.float64, gt.float32)
    """
    if type_value.__class__ is DType:
        return type_value
    if isinstance(type_value, np.dtype) and (known := BY_NUMPY.get(type_value)) is not None:
        return known
    if isinstance(type_value, str) and type_value in BY_NAME:
        return BY_NAME[type_value]
    if type_value.__hash__ is not None:
        if type_value in _BY_PYTHON:
            return _BY_PYTHON[type_value]
        if type_value in BY_NUMPY:
            return BY_NUMPY[type_value]
    try:
        numpy_type = np.dtype(type_value)
    except (TypeError, ValueError, SyntaxError) as error:  # NumPy parses strings in several ways
        if isinstance(type_value, int):
            raise TypeError(f"{type_value!r} is not a dtype; give a shape as one argument: gt.zeros((2, 3))") from error
        raise TypeError(f"{type_value!r} is not a dtype; use one of {', '.join(d.name for d in ALL)}") from error
    if numpy_type.name == "bfloat16":
        return BY_NUMPY[bfloat16.dtype]
    if numpy_type.kind in "US":
        return string
    dtype = BY_NUMPY.get(numpy_type.newbyteorder("="))
    if dtype is None:
        raise InvalidArgumentError(f"gradtape has no dtype {numpy_type.name}; use one of {', '.join(d.name for d in ALL)}")
    return dtype


def numpy_dtype(value: DTypeLike) -> np.dtype[Any]:
    """The NumPy dtype of anything `as_dtype` accepts."""
    if isinstance(value, np.dtype):
        return value
    return as_dtype(value).dtype


def __dir__() -> list[str]:  # completion offers the element types, and what reads them
    return [name for name, value in globals().items() if value is DType or isinstance(value, DType)] + ["as_dtype"]
