"""The types of arguments and values, named once for all signatures: what a function takes, what a rule computes with.

Public functions take what reads as something (`TensorLike`, `DTypeLike`, `Shape`, `Axis`, `Axes`, `Index`) and return `Tensor`;
their first line converts: `x = convert(x)`. These unions say what is *documented* to work; what else `convert` meets is told
in its own words, at run time. `gt.types` has the names that users annotate their programs with.

Inside an op there are three kinds of values. Its `impl` computes with `Array`s, its type rule with `TensorSpec`s. Derivative
rules, expansions and batching rules are written in ops, so their values are `Tensor`s: `ad/binding.py` also runs them on bare
arrays, with each op replaced by its `impl`, and they must not notice.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType
from typing import Protocol, TypeAlias

import numpy as np

from gradtape.core.tensor import Readable, Tensor
from gradtape.dtypes import DTypeLike as DTypeLike
from gradtape.ir.polynomial import Dim, Size as Size
from gradtape.ir.types import TensorShape


class SupportsArray(Protocol):
    """An array of another library, such as a pandas Series or a torch tensor, that NumPy can have the values of."""

    def __array__(self) -> np.ndarray: ...


class Unary(Protocol):
    """A public function of one tensor, as `core/forms.py` generates it."""

    def __call__(self, x: TensorLike, name: str | None = None) -> Tensor: ...


class Binary(Protocol):
    """A public function of two tensors."""

    def __call__(self, x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor: ...


# A 0-d value may be a NumPy scalar, as NumPy's functions return them: it has the methods of an array, and is typed as one.
Array: TypeAlias = np.ndarray
# What a tensor may hold; the list is that of a program, a `TensorList`.
Value: TypeAlias = np.ndarray | np.generic | list
Number: TypeAlias = bool | int | float | complex
# Text reads as a tensor of strings. It needs no word of its own here: to type checkers it is a sequence of text.
TensorLike: TypeAlias = (
    Tensor | Readable | np.ndarray | np.generic | SupportsArray | Dim | bool | int | float | complex | Sequence["TensorLike"]
)
# A whole number that may also be a tensor, or a size of a program that is being traced.
Integer: TypeAlias = int | np.integer | Dim | Tensor | Readable
Real: TypeAlias = float | np.floating | Integer
Axis: TypeAlias = Integer
# One for all axes, or one for each.
Integers: TypeAlias = Integer | Sequence[Integer] | np.ndarray
Axes: TypeAlias = Integers | None
Padding: TypeAlias = str | Sequence[Sequence[int]]
Dims: TypeAlias = tuple[Size, ...]
# None stands for a size that is not known, where a type is declared.
Shape: TypeAlias = TensorShape | Sequence[Integer | None] | Integer | np.ndarray
IndexPart: TypeAlias = slice | EllipsisType | TensorLike | None
Index: TypeAlias = IndexPart | tuple[IndexPart, ...]
