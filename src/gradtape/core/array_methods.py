"""The methods that NumPy's arrays have, for everything that reads as a tensor: `t.sum(axis=0)` is `np.sum(t, axis=0)`.

NumPy's names, arguments and meaning; each calls NumPy's function on the tensor, which the protocols of `interop/protocols.py`
hand to gradtape's ops: so they are recorded, batched and traced like those. Methods that change an array in place (`fill`,
`sort`, `partition`, `put`) give the tensor a new version, as `t[...] = v` does. Unlike in NumPy no result shares memory with
the tensor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

import numpy as np

from gradtape.core.hinting import shown_as
from gradtape.core.hooks import HOOKS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gradtape.core.tensor import Tensor
    from gradtape.core.typing import Axes, DTypeLike, Index, Integer, Real, TensorLike
    from gradtape.dtypes import DType

    Out: TypeAlias = Tensor | None
    Order = Literal["C", "F", "A", "K"]
    Mode = Literal["raise", "wrap", "clip"]
    Casting = Literal["unsafe", "no", "equiv", "safe", "same_kind"]

_np: Any = np  # NumPy's stubs promise arrays; given tensors, its functions return what their protocols make: tensors
_PYTHON_TYPES = (bool, int, float, complex)


@shown_as("Tensor")
class ArrayMethods:
    """NumPy's methods of arrays."""

    __slots__ = ()
    if TYPE_CHECKING:  # what the methods use of the classes that have them

        @property
        def dtype(self) -> DType: ...
        @property
        def size(self) -> int: ...
        def __setitem__(self, index: Index, value: TensorLike) -> None: ...

    # -- attributes ----------------------------------------------------------------------------------------------

    @property
    def T(self) -> Tensor:  # noqa: N802  (NumPy's name)
        """The axes in reverse order."""
        return _np.transpose(self)

    @property
    def mT(self) -> Tensor:  # noqa: N802  (NumPy's name)
        """The last two axes exchanged."""
        return _np.matrix_transpose(self)

    @property
    def real(self) -> Tensor:
        return _np.real(self)

    @property
    def imag(self) -> Tensor:
        return _np.imag(self)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return int(self.dtype.size)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return int(self.size) * self.itemsize

    # -- shape ---------------------------------------------------------------------------------------------------

    def reshape(self, *shape: Integer | Sequence[Integer], order: Order = "C", copy: bool | None = None) -> Tensor:
        """`t.reshape(2, 3)` or `t.reshape((2, 3))`; one dimension may be -1."""
        return _np.reshape(self, shape[0] if len(shape) == 1 else shape, order)

    def ravel(self, order: Order = "C") -> Tensor:
        return _np.ravel(self, order)

    def flatten(self, order: Order = "C") -> Tensor:
        return _np.ravel(self, order)

    def transpose(self, *axes: Axes) -> Tensor:
        """`t.transpose()`, `t.transpose(1, 0)` or `t.transpose((1, 0))`."""
        if len(axes) == 1 and (axes[0] is None or not isinstance(axes[0], (int, np.integer))):
            return _np.transpose(self, axes[0])
        return _np.transpose(self, axes or None)

    def swapaxes(self, axis1: int, axis2: int) -> Tensor:
        return _np.swapaxes(self, axis1, axis2)

    def squeeze(self, axis: Axes = None) -> Tensor:
        return _np.squeeze(self, axis)

    def repeat(self, repeats: TensorLike, axis: int | None = None) -> Tensor:
        return _np.repeat(self, repeats, axis)

    # -- reductions ----------------------------------------------------------------------------------------------

    def sum(
        self, axis: Axes = None, dtype: DTypeLike | None = None, out: Out = None, keepdims: bool = False, initial: Real = 0
    ) -> Tensor:
        return _np.sum(self, axis, dtype, out, keepdims, initial)

    def prod(
        self, axis: Axes = None, dtype: DTypeLike | None = None, out: Out = None, keepdims: bool = False, initial: Real = 1
    ) -> Tensor:
        return _np.prod(self, axis, dtype, out, keepdims, initial)

    def mean(self, axis: Axes = None, dtype: DTypeLike | None = None, out: Out = None, keepdims: bool = False) -> Tensor:
        return _np.mean(self, axis, dtype, out, keepdims)

    def max(self, axis: Axes = None, out: Out = None, keepdims: bool = False) -> Tensor:
        return _np.max(self, axis, out, keepdims)

    def min(self, axis: Axes = None, out: Out = None, keepdims: bool = False) -> Tensor:
        return _np.min(self, axis, out, keepdims)

    def var(
        self, axis: Axes = None, dtype: DTypeLike | None = None, out: Out = None, ddof: float = 0, keepdims: bool = False
    ) -> Tensor:
        return _np.var(self, axis, dtype, out, ddof, keepdims)

    def std(
        self, axis: Axes = None, dtype: DTypeLike | None = None, out: Out = None, ddof: float = 0, keepdims: bool = False
    ) -> Tensor:
        return _np.std(self, axis, dtype, out, ddof, keepdims)

    def all(self, axis: Axes = None, out: Out = None, keepdims: bool = False) -> Tensor:
        return _np.all(self, axis, out, keepdims)

    def any(self, axis: Axes = None, out: Out = None, keepdims: bool = False) -> Tensor:
        return _np.any(self, axis, out, keepdims)

    def cumsum(self, axis: Axes = None, dtype: DTypeLike | None = None, out: Out = None) -> Tensor:
        return _np.cumsum(self, axis, dtype, out)

    def cumprod(self, axis: Axes = None, dtype: DTypeLike | None = None, out: Out = None) -> Tensor:
        return _np.cumprod(self, axis, dtype, out)

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DTypeLike | None = None, out: Out = None) -> Tensor:
        return _np.trace(self, offset, axis1, axis2, dtype, out)

    # -- elements ------------------------------------------------------------------------------------------------

    def dot(self, b: TensorLike, out: Out = None) -> Tensor:
        """The product of vectors and matrices as `np.dot` has it."""
        return _np.dot(self, b, out)

    def clip(self, min: TensorLike | None = None, max: TensorLike | None = None, out: Out = None) -> Tensor:
        return _np.clip(self, min, max, out)

    def round(self, decimals: int = 0, out: Out = None) -> Tensor:
        return _np.round(self, decimals, out)

    def conj(self) -> Tensor:
        return _np.conjugate(self)

    conjugate = conj

    def astype(
        self, dtype: DTypeLike | None, order: str = "K", casting: Casting = "unsafe", subok: bool = True, copy: bool = True
    ) -> Tensor | Self:
        """In another dtype. Python's types mean what they mean to NumPy: `t.astype(float)` is float64."""
        from gradtape.core.arguments import dtype_of, option

        wanted = dtype_of(np.dtype(dtype) if dtype in _PYTHON_TYPES or dtype is None else dtype, "dtype", "astype")
        option(casting, "casting", "astype", ("unsafe", "no", "equiv", "safe", "same_kind"))
        if not np.can_cast(self.dtype.dtype, wanted.dtype, casting):
            raise TypeError(f"astype: {self.dtype.name} does not become {wanted.name} under casting={casting!r}")
        if not copy and self.dtype == wanted:
            return self
        return HOOKS.cast(self, wanted)

    def copy(self, order: Order = "C") -> Tensor:
        """A tensor of its own with the same values: writing to one leaves the other alone."""
        return _np.copy(self, order)

    def take(self, indices: TensorLike, axis: int | None = None, out: Out = None, mode: Mode = "raise") -> Tensor:
        return _np.take(self, indices, axis, out, mode)

    def compress(self, condition: TensorLike, axis: int | None = None, out: Out = None) -> Tensor:
        return _np.compress(condition, self, axis, out)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
        return _np.diagonal(self, offset, axis1, axis2)

    # -- places, which have no derivative ------------------------------------------------------------------------

    def argmax(self, axis: Axes = None, out: Out = None, *, keepdims: bool = False) -> Tensor:
        return _np.argmax(self, axis, out, keepdims=keepdims)

    def argmin(self, axis: Axes = None, out: Out = None, *, keepdims: bool = False) -> Tensor:
        return _np.argmin(self, axis, out, keepdims=keepdims)

    def argsort(self, axis: Axes = -1, kind: str | None = None, order: None = None, *, stable: bool | None = None) -> Tensor:
        return _np.argsort(self, axis, kind, order)

    def nonzero(self) -> tuple[Tensor, ...]:
        return _np.nonzero(self)

    def searchsorted(self, v: TensorLike, side: Literal["left", "right"] = "left", sorter: TensorLike | None = None) -> Tensor:
        return _np.searchsorted(self, v, side, sorter)

    # -- in place ------------------------------------------------------------------------------------------------

    def fill(self, value: TensorLike) -> None:
        """All elements become `value`, in place; recorded."""
        from gradtape.core.arguments import numeric

        self[...] = numeric(value, "value", "fill", self.dtype)

    def sort(self, axis: int = -1, kind: str | None = None, order: None = None, *, stable: bool | None = None) -> None:
        """Sorts in place, as in NumPy; `np.sort(t)` gives a sorted tensor."""
        self[...] = _np.sort(self, axis, kind, order)

    def partition(self, kth: int | Sequence[int], axis: int = -1, kind: str = "introselect", order: None = None) -> None:
        """Partitions in place, as in NumPy; `np.partition(t, kth)` gives a partitioned tensor."""
        self[...] = _np.partition(self, kth, axis, kind, order)

    def put(self, indices: TensorLike, values: TensorLike, mode: Mode = "raise") -> None:
        """`t.flat[indices] = values`, in place; recorded."""
        _np.put(self, indices, values, mode)
