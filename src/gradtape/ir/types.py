"""What a value IS: its shape and element type.

`TensorShape` is a tuple of dimensions (an int, or None where unknown), so it compares and indexes like NumPy's shapes and
also has TensorFlow's methods. `TensorSpec` is a shape with a dtype; type rules (`infer`) map specs to specs. `ListSpec` is
the type of a list that grows in a program: its length is known only when it runs, its items have one spec.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from gradtape.dtypes import DType, as_dtype, float32
from gradtape.errors import InvalidArgumentError
from gradtape.tree import LeafTuple


class TensorShape(LeafTuple):
    """A shape with TensorFlow's methods; it is a tuple, so `t.shape == (2, 3)` works, and so does `== [2, 3]`.

    >>> s = gt.zeros((2, 3)).shape
    >>> s, s.rank, s.as_list(), s.num_elements(), s == (2, 3)
    (TensorShape([2, 3]), 2, [2, 3], 6, True)
    """

    __slots__ = ()

    def __new__(cls, dims: Iterable[Any] | int | None = ()) -> TensorShape:
        if dims is None or dims is UNKNOWN or dims is UNKNOWN_TO_RULES:
            # one object: it is told apart from () by identity, as both are empty tuples
            return UNKNOWN
        if isinstance(dims, int):
            dims = (dims,)
        return super().__new__(cls, dims)

    @property
    def rank(self) -> int | None:
        return None if self is UNKNOWN or self is UNKNOWN_TO_RULES else len(self)

    ndims = rank

    @property
    def dims(self) -> list[Any] | None:
        return None if self.rank is None else list(self)

    def as_list(self) -> list[Any]:
        if self.rank is None:
            raise ValueError("as_list() is not defined on an unknown TensorShape")
        return list(self)

    def num_elements(self) -> int | None:
        return math.prod(self) if self.is_fully_defined() else None

    def is_fully_defined(self) -> bool:
        return self.rank is not None and all(d is not None for d in self)

    def is_compatible_with(self, other: Any) -> bool:
        """True when both can describe the same tensor (None fits anything)."""
        other = other if isinstance(other, TensorShape) else TensorShape(other)
        if self.rank is None or other.rank is None:
            return True
        return len(self) == len(other) and all(a is None or b is None or a == b for a, b in zip(self, other, strict=True))

    def assert_is_compatible_with(self, other: Any) -> None:
        if not self.is_compatible_with(other):
            raise ValueError(f"Shapes {tuple(self)} and {tuple(TensorShape(other))} are incompatible")

    def merge_with(self, other: Any) -> TensorShape:
        """The shape that says what both say; ValueError when they contradict each other."""
        other = other if isinstance(other, TensorShape) else TensorShape(other)
        self.assert_is_compatible_with(other)
        if self.rank is None or other.rank is None:
            return other if self.rank is None else self
        return TensorShape(b if a is None else a for a, b in zip(self, other, strict=True))

    def with_rank(self, rank: int) -> TensorShape:
        """This shape, which must have (or, unknown, gets) the given rank."""
        if self.rank is None:
            return TensorShape([None] * rank)
        self.assert_has_rank(rank)
        return self

    def with_rank_at_least(self, rank: int) -> TensorShape:
        if self.rank is not None and self.rank < rank:
            raise ValueError(f"Shape {self} must have rank at least {rank}")
        return self

    def with_rank_at_most(self, rank: int) -> TensorShape:
        if self.rank is not None and self.rank > rank:
            raise ValueError(f"Shape {self} must have rank at most {rank}")
        return self

    def assert_has_rank(self, rank: int) -> None:
        if self.rank not in (None, rank):
            raise ValueError(f"Shape {self} must have rank {rank}")

    def assert_is_fully_defined(self) -> None:
        if not self.is_fully_defined():
            raise ValueError(f"Shape {self} is not fully defined")

    def __eq__(self, other: object) -> bool:
        # as in TensorFlow; in Python a tuple equals no list
        if other.__class__ is list:
            return self.rank is not None and tuple(self) == tuple(other)
        if self.rank is None or getattr(other, "rank", 0) is None:
            return self.rank is None and isinstance(other, TensorShape) and other.rank is None
        return tuple.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    # a class that defines `__eq__` has no hash unless it says so
    __hash__ = tuple.__hash__

    def concatenate(self, other: Any) -> TensorShape:
        return TensorShape((*self, *TensorShape(other)))

    def __getitem__(self, index: Any) -> Any:
        part = super().__getitem__(index)
        return TensorShape(part) if isinstance(index, slice) else part

    def __add__(self, other: Any) -> TensorShape:  # tuple + tuple stays a shape
        return TensorShape((*self, *other))

    def __repr__(self) -> str:
        return "TensorShape(None)" if self.rank is None else f"TensorShape({list(self)})"

    def __str__(self) -> str:
        if self.rank is None:
            return "<unknown>"
        return f"({', '.join(map(str, self))}{',' if len(self) == 1 else ''})"

    def __reduce__(self) -> tuple[Any, ...]:
        return TensorShape, ((None if self.rank is None else tuple(self)),)


class _UnknownShape(TensorShape):
    """The unknown shape as type rules and programs see it: who asks for its sizes gets no answer."""

    __slots__ = ()

    def _refuse(self, *args: Any) -> Any:
        raise InvalidArgumentError(
            "the rank of this tensor is not known while the function is traced; say it where the tensor is made: "
            "gt.numpy_function(..., Tout=gt.TensorSpec([None, 3], gt.float32)) for any number of rows of 3, or of the tensor: "
            "t = gt.ensure_shape(t, [None, 3])"
        )

    __iter__ = __len__ = __getitem__ = _refuse


UNKNOWN: TensorShape = tuple.__new__(TensorShape, ())
UNKNOWN_TO_RULES: TensorShape = tuple.__new__(_UnknownShape, ())


@dataclass(frozen=True, init=False)
class TensorSpec:
    """A shape and a dtype: what a tensor is, without its values.

    >>> gt.TensorSpec([None, 3], gt.float64)
    TensorSpec(shape=(None, 3), dtype=gt.float64, name=None)
    """

    shape: TensorShape
    dtype: DType
    name: str | None

    def __init__(self, shape: Any, dtype: Any = float32, name: str | None = None) -> None:
        object.__setattr__(self, "shape", shape if isinstance(shape, TensorShape) else TensorShape(shape))
        object.__setattr__(self, "dtype", as_dtype(dtype))
        object.__setattr__(self, "name", name)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def __hash__(self) -> int:
        # without the name: two arguments of one type are one type
        return hash((tuple.__hash__(self.shape), self.dtype.name))

    @classmethod
    def from_tensor(cls, tensor: Any, name: str | None = None) -> TensorSpec:
        return cls(tensor.shape, tensor.dtype, name)

    def is_compatible_with(self, spec_or_tensor: Any) -> bool:
        return self.dtype == spec_or_tensor.dtype and self.shape.is_compatible_with(spec_or_tensor.shape)

    def __repr__(self) -> str:
        return f"TensorSpec(shape={self.shape}, dtype={self.dtype!r}, name={self.name!r})"


@dataclass(frozen=True)
class ListSpec:
    """A list of values of one type: a Python list or TensorArray filled in a staged loop, or what a loop saved."""

    item: TensorSpec | ListSpec

    @property
    def dtype(self) -> DType:
        return self.item.dtype

    @property
    def shape(self) -> TensorShape:
        return TensorShape(())

    def __repr__(self) -> str:
        return f"ListSpec({self.item!r})"


Spec: TypeAlias = TensorSpec | ListSpec  # the type of a value of a program
