"""`TensorArray`: a list of tensors that loops fill and read.

Each slot holds one tensor version, so writing, overwriting and re-reading are ordinary recorded data flow. The array
remembers, weakly, the tapes that saw its writes: reads after such a tape's block are recorded on it too, as long as it
can still be asked. Invariant: all written slots have the array's dtype and fit its element shape.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gradtape.dtypes import DType, as_dtype
from gradtape.errors import FailedPreconditionError, InvalidArgumentError, OutOfRangeError
from gradtape.frontend.tape import GradientTape
from gradtape.ir.types import TensorShape
from gradtape.ops import shape as arrays
from gradtape.ops.create import constant, zeros
from gradtape.ops.dispatch import convert
from gradtape.ops.record import Scope, TapeKey, current_scope, scope_of
from gradtape.ops.stop import identity
from gradtape.ops.tensor import Tensor, TensorLike, box


class _Cleared:
    """The mark of a slot that `clear_after_read=True` has emptied."""


_CLEARED = _Cleared()


class TensorArray:
    """A list of tensors of one dtype, written and read by index.

    A method that writes changes the array and returns it, so `ta = ta.write(i, x)` and `ta.write(i, x)` both work.
    Slots never written read as zeros.

    >>> import gradtape as gt
    >>> x = gt.Variable(2.0)
    >>> with gt.GradientTape() as tape:
    ...     ta = gt.TensorArray(gt.float32, size=3)
    ...     for i in range(3):
    ...         ta = ta.write(i, x ** i)
    >>> y = ta.stack()  # after the block: still connected
    >>> y.numpy(), tape.gradient(y, x).numpy()
    (array([1., 2., 4.], dtype=float32), np.float32(5.0))

    Args:
        dtype: element type of every slot.
        size: number of slots at the start (0 by default).
        dynamic_size: whether writing beyond the end makes the array longer.
        clear_after_read: True frees a slot when it is read; by default slots can be read again.
        infer_shape: whether all slots must have the shape of the first one written.
        element_shape: a shape (or part of one) that every slot must have.
    """

    def __init__(
        self,
        dtype: Any,
        size: Any = None,
        dynamic_size: bool | None = None,
        clear_after_read: bool | None = None,
        tensor_array_name: str | None = None,
        handle: Any = None,
        flow: Any = None,
        infer_shape: bool = True,
        element_shape: Any = None,
        colocate_with_first_write_call: bool = True,
        name: str | None = None,
    ) -> None:
        if handle is not None:
            raise ValueError("TensorArray: handle belongs to TensorFlow's graphs; build the array with a size instead")
        count = 0 if size is None else _index(size)
        if count < 0:
            raise InvalidArgumentError(f"TensorArray: the size must not be negative, got {count}")
        self._dtype = as_dtype(dtype)
        self._items: list[Any] = [None] * count
        self._dynamic_size = bool(dynamic_size)
        self._clear = bool(clear_after_read)
        self._infer_shape = infer_shape
        self._element_shape = TensorShape(element_shape)
        self._closed = False
        self._tapes: list[tuple[weakref.ref[GradientTape], TapeKey]] = []

    @property
    def dtype(self) -> DType:
        return self._dtype

    @property
    def element_shape(self) -> TensorShape:
        """What is known about the shape of every slot."""
        return self._element_shape

    @property
    def dynamic_size(self) -> bool:
        return self._dynamic_size

    def size(self, name: str | None = None) -> Tensor:
        """The number of slots."""
        self._usable("size")
        return constant(len(self._items))

    def __len__(self) -> int:
        return len(self._items)

    # -- writing -------------------------------------------------------------------------------------------------

    def write(self, index: Any, value: Any, name: str | None = None) -> TensorArray:
        """Put `value` into a slot, replacing what was there."""
        self._usable("write")
        place = _index(index)
        tensor = self._checked(value, "write")
        self._room(place + 1, place, "write")
        self._put(place, tensor)
        return self

    def unstack(self, value: Any, name: str | None = None) -> TensorArray:
        """Replace all slots by the rows of `value`."""
        self._usable("unstack")
        rows = self._rows(value, "unstack")
        if len(rows) > len(self._items) and not self._dynamic_size:
            raise ValueError(
                f"TensorArray.unstack: {len(rows)} rows do not fit into an array of fixed size {len(self._items)}; "
                f"make it with size={len(rows)} or dynamic_size=True"
            )
        self._items = [None] * (len(rows) if self._dynamic_size else len(self._items))
        for place, row in enumerate(rows):
            self._put(place, row)
        return self

    def scatter(self, indices: Any, value: Any, name: str | None = None) -> TensorArray:
        """Write row k of `value` into slot `indices[k]`."""
        self._usable("scatter")
        places = _indices(indices)
        rows = self._rows(value, "scatter")
        if len(places) != len(rows):
            raise InvalidArgumentError(f"TensorArray.scatter: {len(places)} indices for {len(rows)} rows")
        for place in places:
            self._room(None, place, "scatter")
        for place, row in zip(places, rows, strict=True):
            self._room(place + 1, place, "scatter")
            self._put(place, row)
        return self

    def split(self, value: Any, lengths: Any, name: str | None = None) -> TensorArray:
        """Write consecutive parts of `value`, `lengths[k]` rows long, into the slots 0, 1, ..."""
        self._usable("split")
        tensor = self._typed(value, "split")
        sizes = _indices(lengths)
        if not tensor.ndim or sum(sizes) != tensor.shape[0]:
            raise InvalidArgumentError(
                f"TensorArray.split: lengths {sizes} add up to {sum(sizes)}, the value has shape {tuple(tensor.shape)}"
            )
        if len(sizes) > len(self._items) and not self._dynamic_size:
            raise InvalidArgumentError(
                f"TensorArray.split: {len(sizes)} parts do not fit into an array of fixed size {len(self._items)}"
            )
        parts = [self._checked(part, "split") for part in arrays.split(tensor, sizes)]
        self._items = [None] * max(len(self._items), len(parts))
        for place, part in enumerate(parts):
            self._put(place, part, one_shape=len(set(sizes)) == 1)
        return self

    def _rows(self, value: Any, method: str) -> list[Any]:
        tensor = self._typed(value, method)
        if not tensor.ndim:
            raise InvalidArgumentError(f"TensorArray.{method}: a scalar has no rows")
        rows: list[Any] = arrays.unstack(tensor)
        if rows:
            self._checked(rows[0], method)
        return rows

    def _typed(self, value: Any, method: str) -> Any:
        tensor = convert(value) if isinstance(value, (Tensor, TensorLike)) else convert(value, hint=self._dtype)
        if tensor.dtype != self._dtype:
            raise InvalidArgumentError(
                f"TensorArray.{method}: the array has dtype {self._dtype.name} but the value has dtype "
                f"{tensor.dtype.name}; use gt.cast(value, gt.{self._dtype.name})"
            )
        return tensor

    def _checked(self, value: Any, method: str) -> Any:
        tensor = self._typed(value, method)
        if not self._element_shape.is_compatible_with(tensor.shape):
            raise ValueError(
                f"TensorArray.{method}: the value has shape {tuple(tensor.shape)} but the array's elements have shape "
                f"{self._element_shape}; use infer_shape=False for elements of different shapes"
            )
        return tensor

    def _room(self, wanted: int | None, place: int, method: str) -> None:
        """Make the array `wanted` slots long; refuse a slot that cannot exist."""
        if place < 0 or (place >= len(self._items) and not self._dynamic_size):
            cure = "" if place < 0 else "; make it with dynamic_size=True or a larger size"
            raise OutOfRangeError(f"TensorArray.{method}: index {place} is not in an array of size {len(self._items)}{cure}")
        if wanted is not None:
            self._items.extend([None] * (wanted - len(self._items)))

    def _put(self, place: int, tensor: Any, one_shape: bool = True) -> None:
        """Keep a version of the tensor: a later `t[i] = v` by the user does not reach it."""
        if self._infer_shape and one_shape and not self._element_shape.is_fully_defined():
            self._element_shape = TensorShape(tensor.shape)
        self._items[place] = _version(tensor)
        node = tensor._node
        if node is None:
            return
        known = [key for _, key in self._tapes]
        for recorder in current_scope().recorders:
            if recorder.key in node.keys and recorder.key not in known and isinstance(recorder, GradientTape):
                self._tapes.append((weakref.ref(recorder), recorder.key))

    # -- reading -------------------------------------------------------------------------------------------------

    def read(self, index: Any, name: str | None = None) -> Tensor:
        """The tensor in a slot; zeros if nothing was written there."""
        self._usable("read")
        place = _index(index)
        self._inside(place, "read")
        return _version(self._take(place, "read"))

    def stack(self, name: str | None = None) -> Tensor:
        """All slots as one tensor with a new first axis."""
        return self._stacked(range(len(self._items)), "stack")

    def gather(self, indices: Any, name: str | None = None) -> Tensor:
        """The given slots as one tensor with a new first axis."""
        return self._stacked(_indices(indices), "gather")

    def concat(self, name: str | None = None) -> Tensor:
        """All slots joined along their first axis."""
        self._usable("concat")
        items = [self._take(i, "concat") for i in range(len(self._items))]
        if not items:
            self._known_shape("concat")
            return zeros((0, *self._element_shape[1:]), self._dtype)
        if any(item.ndim == 0 for item in items):
            raise InvalidArgumentError("TensorArray.concat: scalars cannot be joined; use stack()")
        with self._reading():
            return arrays.concat(items, 0)

    def identity(self) -> TensorArray:
        """The array itself."""
        self._usable("identity")
        return self

    def close(self, name: str | None = None) -> None:
        """Free the slots; the array cannot be used afterwards."""
        self._items = []
        self._tapes = []
        self._closed = True

    def _stacked(self, places: Any, method: str) -> Tensor:
        self._usable(method)
        for place in places:
            self._inside(place, method)
        items = [self._take(place, method) for place in places]
        if not items:
            self._known_shape(method)
            return zeros((0, *self._element_shape), self._dtype)
        with self._reading():
            return arrays.stack(items)

    def _take(self, place: int, method: str) -> Any:
        item = self._items[place]
        if item is _CLEARED:
            raise InvalidArgumentError(
                f"TensorArray.{method}: slot {place} was already read and freed; make the array with "
                "clear_after_read=False to read it again"
            )
        if item is None:
            self._known_shape(method, place)
            return zeros(tuple(self._element_shape), self._dtype)
        if self._clear:
            self._items[place] = _CLEARED
        return item

    def _known_shape(self, method: str, place: int | None = None) -> None:
        if not self._element_shape.is_fully_defined():
            what = "the array is empty" if place is None else f"slot {place} was never written"
            raise InvalidArgumentError(
                f"TensorArray.{method}: {what} and the shape of its elements is not known; give element_shape"
            )

    def _inside(self, place: int, method: str) -> None:
        if not 0 <= place < len(self._items):
            raise OutOfRangeError(f"TensorArray.{method}: index {place} is not in an array of size {len(self._items)}")

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Record on the tapes that saw the writes and whose block has ended, besides those that record now."""
        scope = current_scope()
        ended = []
        for reference, key in self._tapes:
            tape = reference()
            # a tape that is inside its block but not in the scope is paused: that is respected
            if tape is not None and tape.key is key and key.open and not tape._active and tape.level == scope.level:
                ended.append(tape)
        if not ended:
            yield
            return
        with scope_of(Scope((*ended, *scope.recorders), scope.batches)):
            yield

    def _usable(self, method: str) -> None:
        if self._closed:
            raise FailedPreconditionError(f"TensorArray.{method}: this array was closed; make a new one")

    def __repr__(self) -> str:
        return f"<gt.TensorArray: size={len(self._items)}, dtype={self._dtype.name}, element_shape={self._element_shape}>"


def _version(tensor: Any) -> Any:
    return identity(tensor) if tensor.wraps else box(tensor._data, tensor._node)


def _index(value: Any) -> int:
    if isinstance(value, TensorLike):
        value = value.read()
    try:
        return int(value.__index__())
    except (AttributeError, TypeError):
        raise TypeError(f"TensorArray: {value!r} is not an integer index") from None


def _indices(values: Any) -> list[int]:
    tensor = convert(values)
    if tensor.ndim != 1 or not (tensor.dtype.is_integer or tensor.size == 0):
        raise InvalidArgumentError(
            f"TensorArray: indices must be a list of integers, got shape {tuple(tensor.shape)}, dtype {tensor.dtype.name}"
        )
    return [int(i) for i in tensor.tolist()]
