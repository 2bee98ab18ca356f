"""`TensorArray`: a list of tensors that loops fill and read.

Each slot holds one tensor version, so writing, overwriting and re-reading are ordinary recorded data flow. The array
remembers, weakly, the tapes that saw its writes: reads after such a tape's block are recorded on it too, as long as it
can still be asked. Invariant: all written slots have the array's dtype and fit its element shape.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from gradtape.core.dispatch import apply, convert
from gradtape.core.hinting import Completing
from gradtape.core.record import RecordingScope, TapeKey, current_scope, scope_of
from gradtape.core.tensor import Readable, Tensor, box
from gradtape.core.typing import DTypeLike, Integer, Size, TensorLike
from gradtape.dtypes import DType, as_dtype
from gradtape.errors import FailedPreconditionError, InvalidArgumentError, OutOfRangeError
from gradtape.functions.staging.branches import valued
from gradtape.functions.staging.joins import list_of
from gradtape.functions.staging.places import ArrayContent
from gradtape.functions.staging.staged_values import Maybe, PendingSize, StagedItems, staged_items
from gradtape.ir.slots import Slot
from gradtape.ir.types import ListSpec, TensorShape, TensorSpec
from gradtape.ops import shape as arrays, staged
from gradtape.ops.compare import logical_not
from gradtape.ops.create import constant, ones_like, zeros
from gradtape.ops.elementwise import cast
from gradtape.ops.index import check_range, gather as take
from gradtape.ops.lists import LIST_CONCAT, LIST_FROM_TENSOR, LIST_GET, LIST_LEN, LIST_RESIZE, LIST_SET, LIST_STACK, list_set
from gradtape.ops.reduce import reduce_any
from gradtape.ops.select import maximum
from gradtape.ops.sorting import argmax
from gradtape.ops.stop import identity
from gradtape.tape.gradient_tape import GradientTape
from gradtape.trace.effects import active
from gradtape.trace.tracing import TracedList, TracedTensor, current_trace
from gradtape.trace.weak import WeakTensor

_WRITES = ("write", "scatter")  # which may make an array longer


class TensorArray(Completing):
    """A list of tensors of one dtype, written and read by index.

    A method that writes changes the array and returns it, so `ta = ta.write(i, x)` and `ta.write(i, x)` both work.
    Slots never written read as zeros.

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

    _INTERNAL = "restore snapshot"

    def __init__(
        self, dtype: DTypeLike, size: Integer | None = None, dynamic_size: bool | None = None,
        clear_after_read: bool | None = None, tensor_array_name: str | None = None, handle: object = None, flow: object = None,
        infer_shape: bool = True, element_shape: Iterable[Size | None] | int | None = None,
        colocate_with_first_write_call: bool = True, name: str | None = None,
    ) -> None:  # fmt: skip
        if handle is not None:
            raise ValueError("TensorArray: handle belongs to TensorFlow's graphs; build the array with a size instead")
        pending = _traced(size)
        count = 0 if size is None or pending else _index(size)
        if count < 0:
            raise InvalidArgumentError(f"TensorArray: the size must not be negative, got {count}")
        self._dtype = as_dtype(dtype)
        self._items: list[Any] = [None] * count
        if size is not None and pending:
            # what type the slots have is known at the first write: until then only their number is kept
            self._items = [PendingSize(check_range(convert(size), None, "TensorArray", "size"))]
        # with clear_after_read: whether each slot was read, arranged as the slots are; else empty
        self._freed: list[Any] = list(self._items if pending else [False] * count) if clear_after_read else []
        self._count: int | None = None  # the number of slots where they live in a program and it is known
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
        items = staged_items(self._items)
        if items is not None:
            return constant(self._count) if self._count is not None else apply(LIST_LEN, items.items)
        if self._pending():
            return cast(self._items[0].size, "int32")
        return constant(len(self._items))

    def _pending(self) -> bool:
        return len(self._items) == 1 and isinstance(self._items[0], PendingSize)

    def __len__(self) -> int:
        if staged_items(self._items) is not None:
            if self._count is None:
                raise TypeError("the length of this TensorArray is known only when the function runs; use size()")
            return self._count
        return len(self._items)

    # -- in traced functions -------------------------------------------------------------------------------------

    def snapshot(self) -> Any:
        """What a write can change, for the tracer to undo or carry through a loop."""
        # copies: the lists themselves are changed by later writes
        return [list(self._items), self._closed, list(self._freed)]

    def restore(self, content: list[Any]) -> None:
        """Back to (or on to) a snapshot."""
        self._items, self._closed, self._freed = list(content[0]), content[1], list(content[2])

    def _writing(self) -> bool:
        """Note the write if a function is being traced; True if the slots must live in its program: inside a staged
        loop or branch, where the same code writes different slots."""
        tracer = active()
        if tracer is None:
            return False
        # before anything is changed, so that a trace that is thrown away can put it back
        tracer.note(ArrayContent(self))
        return len(tracer.logs) > 1 or self._pending() or staged_items(self._items) is not None

    def _stage(self, spec: TensorSpec) -> Any:
        """The slots as a list of the program; those never written are zeros."""
        items = staged_items(self._items)
        if items is not None:
            return items.items
        # as long as it is known, results that are stacked have a known size
        self._count = None if self._dynamic_size or self._pending() else len(self._items)
        return list_of(self._items, ListSpec(spec))

    def _item_spec(self, method: str) -> TensorSpec:
        for item in self._items:
            if isinstance(item, Tensor):
                return TensorSpec(item.shape, item.dtype)
        self._known_shape(method)
        return TensorSpec(tuple(self._element_shape), self._dtype)

    def _write_staged(self, index: Integer, tensor: Tensor, method: str = "write") -> None:
        if self._infer_shape and not self._element_shape.is_fully_defined():
            self._element_shape = TensorShape(tensor.shape)
        items = self._stage(TensorSpec(tensor.shape, tensor.dtype))
        place = self._place(index, method)
        self._items = [StagedItems(list_set(self._grown(items, place), place, tensor))]
        if self._clear:
            self._freed = [StagedItems(apply(LIST_SET, self._grown(self._flags(), place), place, constant(False)))]

    def _grown(self, items: TracedList, place: Tensor) -> Any:
        # an index beyond the end is an error then, raised by the program
        if not self._dynamic_size:
            return items
        return apply(LIST_RESIZE, items, maximum(apply(LIST_LEN, items), cast(place, "int32") + 1), item=items.spec.item)

    def _place(self, index: Integer, method: str) -> Any:
        """An index as the program refuses it: negative, or beyond the slots, of which it may know the number."""
        size = None if self._dynamic_size and method in _WRITES else self._count
        if not _traced(index) and size is not None and not 0 <= _index(index) < size:
            raise _outside(_index(index), size, method)
        return check_range(convert(index), size, f"TensorArray.{method}")

    def _flags(self) -> Any:
        """Which slots were freed, as a list of the program."""
        flags = staged_items(self._freed)
        return list_of(self._freed, ListSpec(TensorSpec((), "bool"))) if flags is None else flags.items

    def _read_staged(self, index: Integer, method: str = "read") -> Any:
        items = self._stage(self._item_spec(method))
        place = self._place(index, method)
        if self._clear:
            flags = self._flags()
            _refuse(apply(LIST_GET, flags, place), place, method)
            self._items = [StagedItems(items)]
            self._freed = [StagedItems(apply(LIST_SET, flags, place, constant(True)))]
        return apply(LIST_GET, items, place)

    def _all_staged(self, method: str) -> Any:
        """All slots, as a list of the program: to be stacked or joined."""
        items = self._stage(self._item_spec(method))
        if self._clear:
            flags = apply(LIST_STACK, self._flags(), length=self._count, item_shape=())
            _refuse(reduce_any(flags), argmax(flags), method)
            self._items = [StagedItems(items)]
            self._freed = [StagedItems(apply(LIST_FROM_TENSOR, ones_like(flags)))]
        return items

    def _reading_staged(self) -> bool:
        """Whether slots are read by the program: reading that frees them is a write."""
        # (asked in this order: `_writing` notes the write)
        return (self._clear and self._writing()) or self._pending() or staged_items(self._items) is not None

    # -- writing -------------------------------------------------------------------------------------------------

    def write(self, index: Integer, value: TensorLike, name: str | None = None) -> TensorArray:
        """Put `value` into a slot, replacing what was there."""
        self._usable("write")
        if self._writing() or _traced(index):
            self._write_staged(index, self._checked(value, "write"))
            return self
        place = _index(index)
        tensor = self._checked(value, "write")
        self._room(place + 1, place, "write")
        self._put(place, tensor)
        return self

    def unstack(self, value: TensorLike, name: str | None = None) -> TensorArray:
        """Replace all slots by the rows of `value`."""
        self._usable("unstack")
        writing = self._writing()
        tensor = self._typed(value, "unstack")
        if writing or (_traced(value) and not isinstance(tensor.shape[0], int)):
            self._element_shape = TensorShape(tensor.shape[1:])
            self._count = tensor.shape[0] if isinstance(tensor.shape[0], int) else None
            self._items = [StagedItems(apply(LIST_FROM_TENSOR, tensor))]
            if self._clear:
                self._freed = [StagedItems(apply(LIST_FROM_TENSOR, zeros(tensor.shape[:1], "bool")))]
            return self
        rows = self._rows(tensor, "unstack")
        if len(rows) > len(self._items) and not self._dynamic_size:
            raise ValueError(
                f"TensorArray.unstack: {len(rows)} rows do not fit into an array of fixed size {len(self._items)}; "
                f"make it with size={len(rows)} or dynamic_size=True"
            )
        self._empty(len(rows) if self._dynamic_size else len(self._items))
        for place, row in enumerate(rows):
            self._put(place, row)
        return self

    def scatter(self, indices: TensorLike, value: TensorLike, name: str | None = None) -> TensorArray:
        """Write row k of `value` into slot `indices[k]`."""
        self._usable("scatter")
        indices = _joined(indices)
        if self._writing() or _traced(indices):
            return self._scatter_staged(indices, value)
        places = _indices(indices)
        rows = self._rows(value, "scatter")
        if len(places) != len(rows):
            raise InvalidArgumentError(f"TensorArray.scatter: {len(places)} indices for {len(rows)} rows")
        for place in places:
            # All indices are checked before anything is written: a refused scatter changes nothing.
            self._room(None, place, "scatter")
        for place, row in zip(places, rows, strict=True):
            self._room(place + 1, place, "scatter")
            self._put(place, row)
        return self

    def split(self, value: TensorLike, lengths: TensorLike, name: str | None = None) -> TensorArray:
        """Write consecutive parts of `value`, `lengths[k]` rows long, into the slots 0, 1, ..."""
        self._usable("split")
        self._writing()
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
        # all are checked before the slots are emptied: a refused split changes nothing
        parts = [self._checked(part, "split") for part in arrays.split(tensor, sizes)]
        self._empty(max(len(self._items), len(parts)))
        for place, part in enumerate(parts):
            self._put(place, part, one_shape=len(set(sizes)) == 1)
        return self

    def _scatter_staged(self, indices: TensorLike, value: TensorLike) -> TensorArray:
        rows = self._typed(value, "scatter")
        places = convert(indices)
        if not isinstance(places.shape[0], int):
            raise InvalidArgumentError("TensorArray.scatter: the number of indices must be known; write in a loop instead")
        for k in range(int(places.shape[0])):
            self._write_staged(places[k], self._checked(rows[k], "scatter"), "scatter")
        return self

    def _rows(self, value: TensorLike, method: str) -> list[Any]:
        tensor = self._typed(value, method)
        if not tensor.ndim:
            raise InvalidArgumentError(f"TensorArray.{method}: a scalar has no rows")
        rows: list[Any] = arrays.unstack(tensor)
        if rows:
            self._checked(rows[0], method)
        return rows

    def _typed(self, value: TensorLike, method: str) -> Any:
        tensor = convert(value) if isinstance(value, (Tensor, Readable)) else convert(value, hint=self._dtype)
        if isinstance(tensor, WeakTensor):  # a Python number of a staged loop takes the array's dtype, as any Python number
            tensor = _given_way(tensor, self._dtype)
        if tensor.dtype != self._dtype:
            raise InvalidArgumentError(
                f"TensorArray.{method}: the array has dtype {self._dtype.name} but the value has dtype "
                f"{tensor.dtype.name}; use gt.cast(value, gt.{self._dtype.name})"
            )
        return tensor

    def _checked(self, value: TensorLike, method: str) -> Any:
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
            raise _outside(place, len(self._items), method)
        if wanted is not None:
            self._items.extend([None] * (wanted - len(self._items)))
            if self._clear:
                self._freed.extend([False] * (wanted - len(self._freed)))

    def _empty(self, count: int) -> None:
        """So many slots, none of them written."""
        self._items = [None] * count
        self._freed = [False] * count if self._clear else []

    def _put(self, place: int, tensor: Tensor, one_shape: bool = True) -> None:
        """Keep a version of the tensor: a later `t[i] = v` by the user does not reach it."""
        if self._infer_shape and one_shape and not self._element_shape.is_fully_defined():
            self._element_shape = TensorShape(tensor.shape)
        self._items[place] = _version(tensor)
        if self._clear:
            self._freed[place] = False
        node = tensor._node
        if node is None:
            return
        # Who watches it now may have left its block when the slots are stacked: it is remembered here, so that the result is
        # still connected.
        known = [key for _, key in self._tapes]
        for recorder in current_scope().recorders:
            if recorder.key in node.keys and recorder.key not in known and isinstance(recorder, GradientTape):
                self._tapes.append((weakref.ref(recorder), recorder.key))

    # -- reading -------------------------------------------------------------------------------------------------

    def read(self, index: Integer, name: str | None = None) -> Tensor:
        """The tensor in a slot; zeros if nothing was written there."""
        self._usable("read")
        if self._reading_staged() or _traced(index):
            return self._read_staged(index)
        place = _index(index)
        self._inside(place, "read")
        return _version(self._take(place, "read"))

    def stack(self, name: str | None = None) -> Tensor:
        """All slots as one tensor with a new first axis."""
        if self._reading_staged():
            self._usable("stack")
            shape = tuple(self._element_shape) if self._element_shape.is_fully_defined() else None
            return apply(LIST_STACK, self._all_staged("stack"), length=self._count, item_shape=shape)
        return self._stacked(range(len(self._items)), "stack")

    def gather(self, indices: TensorLike, name: str | None = None) -> Tensor:
        """The given slots as one tensor with a new first axis."""
        indices = _joined(indices)
        if self._reading_staged() or _traced(indices):
            return self._gather_staged(convert(indices))
        return self._stacked(_indices(indices), "gather")

    def concat(self, name: str | None = None) -> Tensor:
        """All slots joined along their first axis."""
        self._usable("concat")
        if self._reading_staged():
            items = self._all_staged("concat")
            return apply(LIST_CONCAT, items, axis=0, length=self._count, item_shape=tuple(self._element_shape))
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
        self._writing()
        self._items, self._freed = [], []
        self._tapes = []
        self._closed = True

    def _gather_staged(self, indices: Tensor) -> Any:
        if not self._clear:
            return take(self.stack(), indices)
        if indices.ndim != 1 or not isinstance(indices.shape[0], int):
            raise InvalidArgumentError(
                "TensorArray.gather: with clear_after_read=True the number of indices must be known; read in a loop instead"
            )
        items = [self._read_staged(indices[k], "gather") for k in range(indices.shape[0])]
        return arrays.stack(items) if items else zeros((0, *self._item_spec("gather").shape), self._dtype)

    def _stacked(self, places: Sequence[int], method: str) -> Tensor:
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
        if self._clear and self._freed[place]:
            raise InvalidArgumentError("".join(_freed_before(place, method)))
        if item is None:
            self._known_shape(method, place)
            return zeros(tuple(self._element_shape), self._dtype)
        if self._clear:
            self._items[place], self._freed[place] = None, True
        return item

    def _known_shape(self, method: str, place: int | None = None) -> None:
        if not self._element_shape.is_fully_defined():
            what = "the array is empty" if place is None else f"slot {place} was never written"
            raise InvalidArgumentError(
                f"TensorArray.{method}: {what} and the shape of its elements is not known; give element_shape"
            )

    def _inside(self, place: int, method: str) -> None:
        if not 0 <= place < len(self._items):
            raise _outside(place, len(self._items), method)

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
        with scope_of(RecordingScope((*ended, *scope.recorders), scope.batches)):
            yield

    def _usable(self, method: str) -> None:
        if self._closed:
            raise FailedPreconditionError(f"TensorArray.{method}: this array was closed; make a new one")

    def __repr__(self) -> str:
        if staged_items(self._items) is not None:
            return f"<gt.TensorArray of a traced function: dtype={self._dtype.name}, element_shape={self._element_shape}>"
        return f"<gt.TensorArray: size={len(self._items)}, dtype={self._dtype.name}, element_shape={self._element_shape}>"


def _outside(place: int, size: int, method: str) -> OutOfRangeError:
    cure = "; make it with dynamic_size=True or a larger size" if place >= size and method in _WRITES else ""
    return OutOfRangeError(f"TensorArray.{method}: index {place} is not in an array of size {size}{cure}")


def _freed_before(place: int | Slot, method: str) -> tuple[Any, ...]:
    return (
        f"TensorArray.{method}: slot ", place if isinstance(place, Slot) else str(place),
        " was already read and freed; make the array with clear_after_read=False to read it again",
    )  # fmt: skip


def _refuse(freed: Tensor, place: Tensor, method: str) -> None:
    """End the program if the slot was freed."""
    attrs = {"template": _freed_before(Slot(0), method), "exception": InvalidArgumentError}
    current_trace().emit(staged.ASSERT, [logical_not(freed), place], attrs)


def _traced(value: object) -> bool:
    return isinstance(value, Maybe) or isinstance(valued(value), TracedTensor)


def _joined(indices: TensorLike) -> Any:
    """Indices that the program computes one by one, as one tensor."""
    return convert(indices) if isinstance(indices, (list, tuple)) and any(map(_traced, indices)) else indices


def _version(tensor: Tensor) -> Any:
    return identity(tensor) if tensor.wraps else box(tensor._data, tensor._node)


def _index(value: Integer) -> int:
    if isinstance(value, Readable):
        value = value.read()
    try:
        return int(value.__index__())
    except (AttributeError, TypeError):
        raise TypeError(f"TensorArray: {value!r} is not an integer index") from None


def _indices(values: TensorLike) -> list[int]:
    tensor = convert(values)
    if tensor.ndim != 1 or not (tensor.dtype.is_integer or tensor.size == 0):
        raise InvalidArgumentError(
            f"TensorArray: indices must be a list of integers, got shape {tuple(tensor.shape)}, dtype {tensor.dtype.name}"
        )
    return [int(i) for i in tensor.tolist()]


def _given_way(number: WeakTensor, dtype: DType) -> Any:
    """A Python number in a dtype of its kind or a richer one, as eager code converts it; else as it is."""
    held = {"b": "b", "i": "iufcV", "f": "fcV", "c": "c"}  # V: bfloat16
    return cast(number.strong(), dtype) if dtype.dtype.kind in held[number.dtype.dtype.kind] else number.strong()
