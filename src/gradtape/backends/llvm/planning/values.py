"""What a value of a program is while its code is written: a register, memory, a recipe, or a list in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from gradtape.backends.llvm.writing.ir_text import Index
from gradtape.ir.dims import Dim
from gradtape.ir.graph import Operation, Value


@dataclass(slots=True)
class MemorySlot:
    """A part of the frame (`offset` known when the code is written), or heap memory of a size only run time knows."""

    offset: int | None
    bytes: Index
    address: str
    owner: Any = None  # the scope that gives it back


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value of rank 0, in a register."""

    register: str
    dtype: Any


@dataclass(frozen=True, slots=True)
class Array:
    """Row-major memory without gaps; with `rows`, of the one row (index of so many first axes) that is being computed."""

    address: str
    dims: tuple[Index, ...]
    dtype: Any
    rows: int = 0


Size = int | Dim  # known when the code is written, or of symbols


class Layout(NamedTuple):
    """Element i of a value is element offset + Σ i·steps of the memory of `base`.

    `starts` are operations that read from places that only run time knows, each with the steps of what it reads: these add to
    the offset.
    """

    base: Value
    offset: Size
    steps: tuple[Size, ...]
    starts: tuple[tuple[Operation, tuple[Size, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Lazy:
    """Elements are computed where they are needed, by the operation that defines the value."""

    operation: Operation


@dataclass(frozen=True, slots=True)
class Items:
    """How the items of a list lie in memory: `bytes` apart, as arrays, as records {address, dims} of arrays, or as lists."""

    dtype: Any
    rank: int
    dims: tuple[Index, ...] | None  # of every item; None: each has its own, and memory of its own
    inner: Items | None = None  # of items that are lists {address, length, capacity}

    @property
    def form(self) -> str:
        """As `sharing.form` calls it."""
        return "l" + self.inner.form if self.inner is not None else "u" if self.dims is not None else "r"


@dataclass(frozen=True, slots=True)
class NativeList:
    """A growable list: `state` is the address of {address of the items, length, capacity}.

    Capacity 0 means memory that is not this list's to free: an argument's, a result's.
    """

    state: str
    items: Items


class Flat(tuple[Index]):
    """An index that counts the elements of a whole array in order, whatever its shape."""

    def __new__(cls, index: Index) -> Flat:
        return super().__new__(cls, (index,))


Lowered = Scalar | Array | Lazy | NativeList
Place = Sequence[Index]
