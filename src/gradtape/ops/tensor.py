"""The value the user holds: an immutable array version, and the record that made it.

`_data` is a NumPy array or (for 0-d) a NumPy scalar and is never written to once another object can see it; `_node` is
the version's identity for the tapes that watch it, or None. Python operators are attached in `ops/operators.py`;
conversion from Python values is `convert` in `ops/dispatch.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape.dtypes import DType, as_dtype
from gradtape.ir.types import TensorShape
from gradtape.ops.record import Record


class Operators:
    """Python's operators, for everything that reads as a tensor; `ops/operators.py` binds them to the ops."""

    __slots__ = ()
    if TYPE_CHECKING:

        def __add__(self, other: Any) -> Tensor: ...
        def __radd__(self, other: Any) -> Tensor: ...
        def __sub__(self, other: Any) -> Tensor: ...
        def __rsub__(self, other: Any) -> Tensor: ...
        def __mul__(self, other: Any) -> Tensor: ...
        def __rmul__(self, other: Any) -> Tensor: ...
        def __truediv__(self, other: Any) -> Tensor: ...
        def __rtruediv__(self, other: Any) -> Tensor: ...
        def __floordiv__(self, other: Any) -> Tensor: ...
        def __rfloordiv__(self, other: Any) -> Tensor: ...
        def __mod__(self, other: Any) -> Tensor: ...
        def __rmod__(self, other: Any) -> Tensor: ...
        def __pow__(self, other: Any) -> Tensor: ...
        def __rpow__(self, other: Any) -> Tensor: ...
        def __matmul__(self, other: Any) -> Tensor: ...
        def __rmatmul__(self, other: Any) -> Tensor: ...
        def __neg__(self) -> Tensor: ...
        def __pos__(self) -> Tensor: ...
        def __abs__(self) -> Tensor: ...
        def __invert__(self) -> Tensor: ...
        def __and__(self, other: Any) -> Tensor: ...
        def __or__(self, other: Any) -> Tensor: ...
        def __xor__(self, other: Any) -> Tensor: ...
        def __lt__(self, other: Any) -> Tensor: ...
        def __le__(self, other: Any) -> Tensor: ...
        def __gt__(self, other: Any) -> Tensor: ...
        def __ge__(self, other: Any) -> Tensor: ...
        def __eq__(self, other: object) -> Tensor: ...  # type: ignore[override]
        def __ne__(self, other: object) -> Tensor: ...  # type: ignore[override]


class TensorLike(Operators):
    """Anything that can be read as a tensor: `Variable` is one. Subclasses define `read`."""

    __slots__ = ()

    def read(self) -> Tensor:
        """The current value as a tensor, watched as the scope demands."""
        raise TypeError(f"{type(self).__name__} cannot be read as a tensor")

    def __dlpack__(self, **options: Any) -> Any:
        return self.read().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.read().__dlpack_device__()


class Tensor(Operators):
    """An array of numbers that tapes can follow.

    Made by `gt.constant`, by operations, or from NumPy data. Each version is immutable; `t[i] = v` gives this object a
    new version and leaves what was recorded before untouched.

    >>> import gradtape as gt
    >>> t = gt.constant([4.0, 5.0, 6.0])
    >>> print(t)
    gt.Tensor([4. 5. 6.], shape=(3,), dtype=float32)
    >>> t[0] = 1.0
    >>> t.numpy()
    array([1., 5., 6.], dtype=float32)
    """

    # `level` is used by batched tensors only; the same layout lets `t[i] = batched` turn a plain tensor into one
    __slots__ = ("__weakref__", "_data", "_node", "level")
    wraps = False  # True in subclasses whose ops an evaluator runs: batched and traced tensors
    _data: Any
    _node: Record | None

    # -- what it is ----------------------------------------------------------------------------------------------

    @property
    def shape(self) -> TensorShape:
        return tuple.__new__(TensorShape, self._data.shape)

    @property
    def dtype(self) -> DType:
        return as_dtype(self._data.dtype)

    @property
    def ndim(self) -> int:
        return self._data.ndim  # type: ignore[no-any-return]

    @property
    def size(self) -> int:
        """Number of elements, as NumPy says it."""
        return self._data.size  # type: ignore[no-any-return]

    @property
    def nbytes(self) -> int:
        return self._data.nbytes  # type: ignore[no-any-return]

    @property
    def device(self) -> str:
        return "/CPU:0"

    def get_shape(self) -> TensorShape:
        return self.shape

    # -- leaving the tape ----------------------------------------------------------------------------------------

    def numpy(self) -> Any:
        """The values: a read-only view of the array, or a NumPy scalar for 0-d tensors."""
        data = self._data
        if isinstance(data, np.ndarray):
            data = data.view()
            data.flags.writeable = False
        return data

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        data = self.numpy()
        if copy:
            return np.array(data, dtype=dtype)
        return np.asarray(data, dtype=dtype)

    def item(self, *index: int) -> Any:
        return self._data.item(*index)

    def tolist(self) -> Any:
        return self._data.tolist()

    def __bool__(self) -> bool:
        if self._data.size != 1:
            raise ValueError(
                f"the truth value of a tensor with shape {tuple(self.shape)} is ambiguous; "
                "use gt.reduce_any(t) or gt.reduce_all(t)"
            )
        return bool(self._data)

    def __int__(self) -> int:
        return int(self._data.item())

    def __float__(self) -> float:
        return float(self._data.item())

    def __complex__(self) -> complex:
        return complex(self._data.item())

    def __index__(self) -> int:
        if self._data.dtype.kind not in "iu" or self._data.ndim:
            raise TypeError(
                f"only scalar integer tensors can be used as an index, got shape {tuple(self.shape)}, dtype {self.dtype.name}"
            )
        return int(self._data)

    def __len__(self) -> int:
        if self._data.ndim == 0:
            raise TypeError("a scalar tensor has no len()")
        return len(self._data)

    def __iter__(self) -> Iterator[Tensor]:
        if self._data.ndim == 0:
            raise TypeError("cannot iterate over a scalar tensor")
        for i in range(len(self._data)):
            yield self[i]

    def __dlpack__(self, **options: Any) -> Any:
        return np.array(self._data, order="C").__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return np.empty(0).__dlpack_device__()

    # -- identity, copies, printing ------------------------------------------------------------------------------

    __hash__ = object.__hash__

    if TYPE_CHECKING:

        def __getitem__(self, index: Any) -> Tensor: ...
        def __setitem__(self, index: Any, value: Any) -> None: ...

    def ref(self) -> Any:
        """A hashable reference to this tensor object, as in TensorFlow."""
        return Reference(self)

    def __deepcopy__(self, memo: Any) -> Tensor:
        return box(self._data.copy())

    def __copy__(self) -> Tensor:
        twin = Tensor()
        twin._data = self._data
        twin._node = self._node
        return twin

    def __reduce__(self) -> tuple[Any, ...]:
        return box, (self._data,)

    def __str__(self) -> str:
        return f"gt.Tensor({_values(self._data)}, shape={self.shape}, dtype={self.dtype.name})"

    def __repr__(self) -> str:
        return f"<gt.Tensor: shape={self.shape}, dtype={self.dtype.name}, numpy={_array_repr(self._data)}>"

    def __format__(self, spec: str) -> str:
        return format(self._data.item(), spec) if spec and self._data.ndim == 0 else format(str(self), spec)


class Reference:
    """Hashable handle of a tensor or variable; `deref()` gives it back."""

    __slots__ = ("_object",)

    def __init__(self, target: Any) -> None:
        self._object = target

    def deref(self) -> Any:
        return self._object

    def __hash__(self) -> int:
        return id(self._object)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reference) and other._object is self._object


def box(data: Any, node: Record | None = None) -> Tensor:
    """A tensor around an array nobody else will write to."""
    tensor = Tensor()
    tensor._data = data
    tensor._node = node
    return tensor


def _values(data: Any) -> str:
    return str(data) if data.dtype != object else str(np.asarray(data).tolist())


def _array_repr(data: Any) -> str:
    if isinstance(data, np.ndarray):
        return np.array_repr(data).replace("\n", "\n" + " " * 6)
    return str(data)
