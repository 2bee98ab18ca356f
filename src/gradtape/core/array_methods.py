"""The methods that NumPy's arrays have, for everything that reads as a tensor: `t.sum(axis=0)` is `np.sum(t, axis=0)`.

NumPy's names, arguments and meaning; each calls NumPy's function on the tensor, which the protocols of `interop/protocols.py`
hand to gradtape's ops: so they are recorded, batched and traced like those. Methods that change an array in place (`fill`,
`sort`, `partition`, `put`) give the tensor a new version, as `t[...] = v` does. Unlike in NumPy no result shares memory with
the tensor.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape.core.hooks import HOOKS

_PYTHON_TYPES = (bool, int, float, complex)


class ArrayMethods:
    """NumPy's methods of arrays."""

    __slots__ = ()

    # -- attributes ----------------------------------------------------------------------------------------------

    @property
    def T(self: Any) -> Any:  # noqa: N802  (NumPy's name)
        """The axes in reverse order."""
        return np.transpose(self)

    @property
    def mT(self: Any) -> Any:  # noqa: N802  (NumPy's name)
        """The last two axes exchanged."""
        return np.matrix_transpose(self)

    @property
    def real(self: Any) -> Any:
        return np.real(self)

    @property
    def imag(self: Any) -> Any:
        return np.imag(self)

    @property
    def itemsize(self: Any) -> int:
        """Bytes of one element."""
        return int(self.dtype.size)

    @property
    def nbytes(self: Any) -> int:
        """Bytes of all elements."""
        return int(self.size) * self.itemsize

    # -- shape ---------------------------------------------------------------------------------------------------

    def reshape(self: Any, *shape: Any, order: Any = "C", copy: bool | None = None) -> Any:
        """`t.reshape(2, 3)` or `t.reshape((2, 3))`; one dimension may be -1."""
        return np.reshape(self, shape[0] if len(shape) == 1 else shape, order)

    def ravel(self: Any, order: Any = "C") -> Any:
        return np.ravel(self, order)

    def flatten(self: Any, order: Any = "C") -> Any:
        return np.ravel(self, order)

    def transpose(self: Any, *axes: Any) -> Any:
        """`t.transpose()`, `t.transpose(1, 0)` or `t.transpose((1, 0))`."""
        if len(axes) == 1 and (axes[0] is None or not isinstance(axes[0], (int, np.integer))):
            return np.transpose(self, axes[0])
        return np.transpose(self, axes or None)

    def swapaxes(self: Any, axis1: int, axis2: int) -> Any:
        return np.swapaxes(self, axis1, axis2)

    def squeeze(self: Any, axis: Any = None) -> Any:
        return np.squeeze(self, axis)

    def repeat(self: Any, repeats: Any, axis: int | None = None) -> Any:
        return np.repeat(self, repeats, axis)

    # -- reductions ----------------------------------------------------------------------------------------------

    def sum(self: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, initial: Any = 0) -> Any:
        return np.sum(self, axis, dtype, out, keepdims, initial)

    def prod(self: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, initial: Any = 1) -> Any:
        return np.prod(self, axis, dtype, out, keepdims, initial)

    def mean(self: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        return np.mean(self, axis, dtype, out, keepdims)

    def max(self: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        return np.max(self, axis, out, keepdims)

    def min(self: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        return np.min(self, axis, out, keepdims)

    def var(self: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: bool = False) -> Any:
        return np.var(self, axis, dtype, out, ddof, keepdims)

    def std(self: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: bool = False) -> Any:
        return np.std(self, axis, dtype, out, ddof, keepdims)

    def all(self: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        return np.all(self, axis, out, keepdims)

    def any(self: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        return np.any(self, axis, out, keepdims)

    def cumsum(self: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        return np.cumsum(self, axis, dtype, out)

    def cumprod(self: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        return np.cumprod(self, axis, dtype, out)

    def trace(self: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Any:
        return np.trace(self, offset, axis1, axis2, dtype, out)

    # -- elements ------------------------------------------------------------------------------------------------

    def dot(self: Any, b: Any, out: Any = None) -> Any:
        """The product of vectors and matrices as `np.dot` has it."""
        return np.dot(self, b, out)

    def clip(self: Any, min: Any = None, max: Any = None, out: Any = None) -> Any:
        return np.clip(self, min, max, out)

    def round(self: Any, decimals: int = 0, out: Any = None) -> Any:
        return np.round(self, decimals, out)

    def conj(self: Any) -> Any:
        return np.conjugate(self)

    conjugate = conj

    def astype(self: Any, dtype: Any, order: str = "K", casting: Any = "unsafe", subok: bool = True, copy: bool = True) -> Any:
        """In another dtype. Python's types mean what they mean to NumPy: `t.astype(float)` is float64."""
        from gradtape.core.arguments import dtype_of, option

        wanted = dtype_of(np.dtype(dtype) if dtype in _PYTHON_TYPES or dtype is None else dtype, "dtype", "astype")
        option(casting, "casting", "astype", ("unsafe", "no", "equiv", "safe", "same_kind"))
        if not np.can_cast(self.dtype.dtype, wanted.dtype, casting):
            raise TypeError(f"astype: {self.dtype.name} does not become {wanted.name} under casting={casting!r}")
        if not copy and self.dtype == wanted:
            return self
        return HOOKS.cast(self, wanted)

    def copy(self: Any, order: Any = "C") -> Any:
        """A tensor of its own with the same values: writing to one leaves the other alone."""
        return np.copy(self, order)

    def take(self: Any, indices: Any, axis: int | None = None, out: Any = None, mode: Any = "raise") -> Any:
        return np.take(self, indices, axis, out, mode)

    def compress(self: Any, condition: Any, axis: int | None = None, out: Any = None) -> Any:
        return np.compress(condition, self, axis, out)

    def diagonal(self: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
        return np.diagonal(self, offset, axis1, axis2)

    # -- places, which have no derivative ------------------------------------------------------------------------

    def argmax(self: Any, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> Any:
        return np.argmax(self, axis, out, keepdims=keepdims)

    def argmin(self: Any, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> Any:
        return np.argmin(self, axis, out, keepdims=keepdims)

    def argsort(self: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
        return np.argsort(self, axis, kind, order)

    def nonzero(self: Any) -> Any:
        return np.nonzero(self)

    def searchsorted(self: Any, v: Any, side: Any = "left", sorter: Any = None) -> Any:
        return np.searchsorted(self, v, side, sorter)

    # -- in place ------------------------------------------------------------------------------------------------

    def fill(self: Any, value: Any) -> None:
        """All elements become `value`, in place; recorded."""
        from gradtape.core.arguments import numeric

        self[...] = numeric(value, "value", "fill", self.dtype)

    def sort(self: Any, axis: int = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> None:
        """Sorts in place, as in NumPy; `np.sort(t)` gives a sorted tensor."""
        self[...] = np.sort(self, axis, kind, order)

    def partition(self: Any, kth: Any, axis: int = -1, kind: Any = "introselect", order: Any = None) -> None:
        """Partitions in place, as in NumPy; `np.partition(t, kth)` gives a partitioned tensor."""
        self[...] = np.partition(self, kth, axis, kind, order)

    def put(self: Any, indices: Any, values: Any, mode: Any = "raise") -> None:
        """`t.flat[indices] = values`, in place; recorded."""
        np.put(self, indices, values, mode)
