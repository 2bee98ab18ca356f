"""The value the user holds: an immutable array version, and the record that made it.

`_data` is a NumPy array or (for 0-d) a NumPy scalar and is never written to once another object can see it; `_node` is
the version's identity for the tapes that watch it, or None. Python operators are attached in `ops/operators.py`;
conversion from Python values is `core/conversion.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gradtape.core.array_methods import ArrayMethods
from gradtape.core.dlpack import exported
from gradtape.core.escapes import refuse_escape, watched
from gradtape.core.exits import left
from gradtape.core.hinting import Hinting
from gradtape.core.record import CLOCK, Record
from gradtape.core.sparse_deferral import NO_ARRAY, asked_by_sparse_matrix
from gradtape.dtypes import BY_NUMPY, DType, as_dtype
from gradtape.errors import OutOfRangeError
from gradtape.ir.types import TensorShape

if TYPE_CHECKING:
    from gradtape.core.typing import Array, DTypeLike, Index, TensorLike, Value


class Operators(ArrayMethods, Hinting):
    """Python's operators, for everything that reads as a tensor; `ops/operators.py` binds them to the ops."""

    __slots__ = ()
    __pandas_priority__ = 5000  # above a DataFrame's 4000: `series * t` is left to the tensor, which is recorded
    _hasna = False  # pandas asks it of arrays whose dtype is not NumPy's: `frame.loc[i, "a"] = t`
    _ELSEWHERE: ClassVar[dict[str, str]] = {name: f"use {cure}" for name, cure in {
        "view": "gt.reshape(t, shape)", "flat": "t.reshape(-1), or np.put(t, places, values)", "resize": "gt.reshape(t, shape)",
        "set_shape": "t = gt.ensure_shape(t, shape)", "append": "gt.concat([t, [v]], 0), or a Python list and gt.stack",
        "detach": "gt.stop_gradient(t)", "grad": "tape.gradient(target, t) of a gt.GradientTape",
        "backward": "tape.gradient(t, sources) of a gt.GradientTape", "assign": "a gt.Variable, or t[...] = v",
        **dict.fromkeys(("requires_grad", "requires_grad_"), "tape.watch(t), or a gt.Variable"), "dim": "t.ndim",
        "permute": "gt.transpose(t, perm)", "unsqueeze": "gt.expand_dims(t, axis)", "clone": "gt.identity(t)",
        "at": "t[i] = v: this tensor gets a new version, and what was computed before keeps the old one",
        "to": "gt.cast(t, dtype); everything is on the CPU", "float": "gt.cast(t, gt.float32)", "long": "gt.cast(t, gt.int64)",
        **dict.fromkeys(("cpu", "cuda", "contiguous", "block_until_ready"), "t itself: values are there at once, on the CPU"),
        "data": "t.numpy(), or gt.stop_gradient(t)", "type": "t.dtype, or gt.cast(t, dtype)", "int": "gt.cast(t, gt.int32)",
        "double": "gt.cast(t, gt.float64)", "half": "gt.cast(t, gt.float16)", "numel": "t.size", "t": "t.T",
        **dict.fromkeys(("grad_fn", "is_leaf", "retain_grad"), "tape.explain(target, t), tape.gradient(target, t)"),
        **dict.fromkeys(("expand", "expand_as"), "gt.broadcast_to(t, shape)"), "unbind": "gt.unstack(t)", "norm": "gt.norm(t)",
        **dict.fromkeys(("mm", "bmm", "matmul"), "a @ b"), "masked_fill": "gt.where(mask, value, t)", "split": "gt.split(t, n)",
        **{name: f"a {sign} b" for name, sign in (("add", "+"), ("sub", "-"), ("mul", "*"), ("div", "/"))},
        "flip": "gt.reverse(t, [0])", **{name: f"gt.{name}(t)" for name in (
            "abs", "ceil", "cos", "cosh", "erf", "exp", "floor", "log", "log1p", "pow", "rsqrt", "sigmoid", "sign", "sin",
            "sinh", "sqrt", "square", "tan", "tanh", "unique",
        )},
        **{name: f"gt.nn.{name}(t)" for name in ("relu", "softmax", "log_softmax")},
        **{f"{name}_": "t[...] = value, or assign, assign_add, assign_sub of a gt.Variable" for name in (
            "add", "clamp", "copy", "div", "fill", "mul", "normal", "squeeze", "sub", "uniform", "unsqueeze", "zero",
        )},
    }.items()}  # fmt: skip

    _INTERNAL = "level wraps read read_own variable take_version watched_by"

    if TYPE_CHECKING:

        def __add__(self, other: TensorLike) -> Tensor: ...
        def __radd__(self, other: TensorLike) -> Tensor: ...
        def __sub__(self, other: TensorLike) -> Tensor: ...
        def __rsub__(self, other: TensorLike) -> Tensor: ...
        def __mul__(self, other: TensorLike) -> Tensor: ...
        def __rmul__(self, other: TensorLike) -> Tensor: ...
        def __truediv__(self, other: TensorLike) -> Tensor: ...
        def __rtruediv__(self, other: TensorLike) -> Tensor: ...
        def __floordiv__(self, other: TensorLike) -> Tensor: ...
        def __rfloordiv__(self, other: TensorLike) -> Tensor: ...
        def __mod__(self, other: TensorLike) -> Tensor: ...
        def __rmod__(self, other: TensorLike) -> Tensor: ...
        def __divmod__(self, other: TensorLike) -> tuple[Tensor, Tensor]: ...
        def __rdivmod__(self, other: TensorLike) -> tuple[Tensor, Tensor]: ...
        def __pow__(self, other: TensorLike) -> Tensor: ...
        def __rpow__(self, other: TensorLike) -> Tensor: ...
        def __matmul__(self, other: TensorLike) -> Tensor: ...
        def __rmatmul__(self, other: TensorLike) -> Tensor: ...
        def __neg__(self) -> Tensor: ...
        def __pos__(self) -> Tensor: ...
        def __abs__(self) -> Tensor: ...
        def __invert__(self) -> Tensor: ...
        def __and__(self, other: TensorLike) -> Tensor: ...
        def __or__(self, other: TensorLike) -> Tensor: ...
        def __xor__(self, other: TensorLike) -> Tensor: ...
        def __lshift__(self, other: TensorLike) -> Tensor: ...
        def __rlshift__(self, other: TensorLike) -> Tensor: ...
        def __rshift__(self, other: TensorLike) -> Tensor: ...
        def __rrshift__(self, other: TensorLike) -> Tensor: ...
        def __round__(self, ndigits: int | None = None) -> Tensor: ...
        def __lt__(self, other: TensorLike) -> Tensor: ...
        def __le__(self, other: TensorLike) -> Tensor: ...
        def __gt__(self, other: TensorLike) -> Tensor: ...
        def __ge__(self, other: TensorLike) -> Tensor: ...
        def __eq__(self, other: object) -> Tensor: ...  # type: ignore[override]
        def __ne__(self, other: object) -> Tensor: ...  # type: ignore[override]


class Readable(Operators):
    """Anything that can be read as a tensor: `Variable` is one. Subclasses define `read`."""

    __slots__ = ()
    if TYPE_CHECKING:

        def __index__(self) -> int: ...

    def read(self) -> Tensor:
        """The current value as a tensor, watched as the scope demands."""
        raise TypeError(f"{type(self).__name__} cannot be read as a tensor")

    def variable(self) -> Readable:
        """What tapes and optimizers know it by: itself, or the variable that it wraps (a library's own kind of variable)."""
        return self

    def __dlpack__(self, **options: Any) -> Any:
        return self.read().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.read().__dlpack_device__()


class Tensor(Operators):
    """An array of numbers that tapes can follow.

    Made by `gt.constant`, by operations, or from NumPy data. Each version is immutable; `t[i] = v` gives this object a
    new version and leaves what was recorded before untouched.

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

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.__name__ = "Tensor"  # what users know it by: Python's messages name it so

    # -- what it is ----------------------------------------------------------------------------------------------

    @property
    def shape(self) -> TensorShape:
        return tuple.__new__(TensorShape, self._data.shape)

    @property
    def dtype(self) -> DType:
        return BY_NUMPY.get(self._data.dtype) or as_dtype(self._data.dtype)

    @property
    def ndim(self) -> int:
        return self._data.ndim

    @property
    def size(self) -> int:
        """Number of elements, as NumPy says it."""
        return self._data.size

    @property
    def nbytes(self) -> int:
        return self._data.nbytes

    @property
    def device(self) -> str:
        return "/CPU:0"

    def get_shape(self) -> TensorShape:
        return self.shape

    # -- leaving the tape ----------------------------------------------------------------------------------------

    def numpy(self) -> np.ndarray:
        """The values: a read-only view of the array, or a NumPy scalar (bytes of a string) for 0-d tensors."""
        if CLOCK.open and self._node is not None:
            left(self._node, ".numpy()")
        data = self._data
        if isinstance(data, np.ndarray):
            if not data.ndim:
                return data[()]
            # a view, so that the flag below is the caller's alone
            data = data.view()
            # records share the array: a write from outside would change recorded values unseen
            data.flags.writeable = False
        return data

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if asked_by_sparse_matrix():
            return NO_ARRAY
        # Whoever asks for an array may do so on purpose or by accident: `core/escapes.py` tells them apart, and may raise.
        doubt = None
        if self._node is not None:
            if watched(self._node):
                doubt = refuse_escape(self._node, "__array__", bool(copy))
            if CLOCK.open:
                left(self._node, "np.asarray")
        data = self.numpy()
        # (NumPy's own meaning of `copy`: None copies if it must)
        taken = np.array(data, dtype=dtype) if copy else np.asarray(data, dtype=dtype)
        if doubt is not None:
            # whether the array was taken on purpose shows when it is used
            doubt.follow(taken)
        return taken

    def item(self, *index: int) -> Any:
        if CLOCK.open and self._node is not None:
            left(self._node, ".item()")
        try:
            return self._data.item(*index)
        except (IndexError, TypeError, ValueError) as error:
            kind = OutOfRangeError if isinstance(error, IndexError) else type(error)
            raise kind(f"item: {', '.join(map(repr, index)) or 'no index'} for shape {tuple(self.shape)}: {error}") from None

    def tolist(self) -> Any:
        if CLOCK.open and self._node is not None:
            left(self._node, ".tolist()")
        return self._data.tolist()

    def __bool__(self) -> bool:
        if self._data.size != 1:
            raise ValueError(
                f"the truth value of a tensor with shape {tuple(self.shape)} is ambiguous; "
                "use gt.reduce_any(t) or gt.reduce_all(t)"
            )
        if CLOCK.open and self._node is not None:
            left(self._node, "bool()")
        return bool(self._data)

    def __int__(self) -> int:
        return int(self._number("int"))

    def __float__(self) -> float:
        return float(self._number("float"))

    def __complex__(self) -> complex:
        return complex(self._number("complex"))

    def _number(self, kind: str) -> Any:
        """The one element, for the type of Python's that asks for it."""
        if self._data.size != 1:
            raise TypeError(f"only a tensor of one element is a number; this one has shape {tuple(self.shape)}")
        if self._node is not None:
            if watched(self._node):
                refuse_escape(self._node, f"__{kind}__", depth=3)
            if CLOCK.open:
                left(self._node, f"{kind}()", depth=3)
        return self._data.item()

    def __index__(self) -> int:
        if self._data.dtype.kind not in "iu" or self._data.ndim:
            raise TypeError(
                f"only scalar integer tensors can be used as an index, got shape {tuple(self.shape)}, dtype {self.dtype.name}"
            )
        if CLOCK.open and self._node is not None:
            left(self._node, "an index")
        return int(self._data)

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("a scalar tensor has no len()")
        return int(self.shape[0])

    def __iter__(self) -> Iterator[Tensor]:
        if not self.ndim:
            raise TypeError("cannot iterate over a scalar tensor")
        return (self[i] for i in range(len(self)))  # no generator function: what cannot be iterated says so at once

    def __dlpack__(self, **options: Any) -> Any:
        if CLOCK.open and self._node is not None:
            left(self._node, "__dlpack__()")
        return exported(self._data, **options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return np.empty(0).__dlpack_device__()

    # -- identity, copies, printing ------------------------------------------------------------------------------

    __hash__ = object.__hash__

    if TYPE_CHECKING:

        def __getitem__(self, index: Index) -> Tensor: ...
        def __setitem__(self, index: Index, value: TensorLike) -> None: ...

    def ref(self) -> Reference:
        """A hashable reference to this tensor object, as in TensorFlow."""
        return Reference(self)

    def __copy__(self) -> Tensor:
        twin = Tensor()
        twin._data = self._data
        twin._node = self._node
        return twin

    def __deepcopy__(self, memo: object) -> Tensor:
        """As in TensorFlow, a copy has the gradients of what it was copied from; versions never change, so they are shared."""
        return self.__copy__()

    def __reduce__(self) -> tuple[Any, ...]:
        return box, (self._data,)

    def __str__(self) -> str:
        return f"gt.Tensor({_values(self._data)}, shape={self.shape}, dtype={self.dtype.name})"

    def __repr__(self) -> str:
        return f"<gt.Tensor: shape={self.shape}, dtype={self.dtype.name}, numpy={array_repr(self._data)}>"

    def __format__(self, spec: str) -> str:
        """The bare values, as TensorFlow formats eager tensors: `f"{t}"` is "[1. 2.]", `f"{t:.2f}"` "[1.00 2.00]"."""
        if self.wraps:
            return format(str(self), spec)
        if not spec or not self._data.ndim:
            return format(self._data.item() if spec else str(self._data), spec)
        return np.array2string(np.asarray(self._data), formatter={"all": lambda v: format(v, spec)})


class Reference:
    """Hashable handle of a tensor or variable; `deref()` gives it back."""

    __slots__ = ("_object",)

    def __init__(self, target: object) -> None:
        self._object = target

    def deref(self) -> Any:
        return self._object

    def __hash__(self) -> int:
        return id(self._object)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reference) and other._object is self._object


def box(data: Value, node: Record | None = None) -> Tensor:
    """A tensor around an array nobody else will write to."""
    tensor = Tensor()
    tensor._data = data
    tensor._node = node
    return tensor


def _values(data: Array) -> str:
    text = str(data)
    return "\n" + text if "\n" in text else text


def array_repr(data: Array) -> str:
    """NumPy's text of an array, on lines of its own when it needs several; the bare number of a scalar."""
    text = np.array_repr(data) if isinstance(data, np.ndarray) and data.ndim else str(data)
    return "\n" + text if "\n" in text else text


def is_tensor(x: object) -> bool:
    """Whether `x` is a tensor, a variable or an `IndexedSlices`.

    >>> gt.is_tensor(gt.constant(1.0)), gt.is_tensor(gt.Variable(1.0)), gt.is_tensor(1.0)
    (True, True, False)
    """
    return isinstance(x, (Tensor, Readable))
