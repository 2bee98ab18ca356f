"""What a staged `for` loop can go over: rows of a tensor, ranges with staged bounds, lists of the program, and zip,
enumerate, reversed or map of those. Each knows its length and gives the item at an index of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from gradtape.core.dispatch import apply, convert
from gradtape.core.hinting import Completing
from gradtape.core.tensor import Readable, Tensor
from gradtape.dtypes import int32
from gradtape.errors import InvalidArgumentError
from gradtape.functions.staging.staged_values import StagedItems, staged_items
from gradtape.ir.dims import Dim
from gradtape.ops.elementwise import cast
from gradtape.ops.lists import LIST_GET, LIST_LEN
from gradtape.ops.select import maximum, minimum, where
from gradtape.ops.staged import RANGE, known_size
from gradtape.trace.effects import active
from gradtape.trace.tracing import TracedList, TracedTensor, current_trace, traced
from gradtape.trace.weak import WeakTensor, weak, weak_number


class StagedIterable:
    """Something with a length (an int, a Dim or a tensor) and an item at each index (an int or a tensor)."""

    def length(self) -> Any:
        raise TypeError(f"{type(self).__name__} has no length")

    def item(self, index: Any) -> Any:
        raise TypeError(f"{type(self).__name__} has no items")

    def __iter__(self) -> Any:
        count = self.length()
        if not isinstance(count, int):
            raise InvalidArgumentError(
                "the length of this is known only when the function runs: loop over it in converted code (a `for` statement)"
            )
        return (self.item(i) for i in range(count))


class TensorRows(StagedIterable):
    """The rows of a tensor."""

    def __init__(self, tensor: Any) -> None:
        if not tensor.ndim:
            raise TypeError("cannot iterate over a scalar tensor")
        self.tensor = tensor

    def length(self) -> Any:
        return self.tensor.shape[0]

    def item(self, index: Any) -> Any:
        return self.tensor[index]


class ListItems(StagedIterable):
    """The items of a list of the program."""

    def __init__(self, items: TracedList, known: int | None = None, owner: Any = None) -> None:
        self.items = items
        self.known = known
        self.owner = owner  # the Python list whose items these are; its later content counts, as in a Python loop

    def length(self) -> Any:
        return apply(LIST_LEN, self.items) if self.known is None else self.known

    def item(self, index: Any) -> Any:
        # asked in each turn: the body may have appended to the list it goes over
        staged = staged_items(self.owner)
        item = apply(LIST_GET, self.items if staged is None else staged.items, convert(index))
        if isinstance(item, TracedList):
            item = [StagedItems(item)]
        if staged is not None:
            # a change of the item in place is a change of the list
            active().aliases.items.taken(self.owner, index, item)
        return item


class Range(StagedIterable):
    """`range(start, stop, step)` with staged bounds; its numbers give way to tensors like Python's."""

    def __init__(self, start: Any, stop: Any, step: Any) -> None:
        self.start, self.stop, self.step = (_whole(v) for v in (start, stop, step))
        if self.step.__class__ is int and self.step == 0:
            raise ValueError("range() arg 3 must not be zero")

    def length(self) -> Any:
        start, stop, step = self.start, self.stop, self.step
        if start.__class__ is int and stop.__class__ is int and step.__class__ is int:
            return len(range(start, stop, step))
        if step.__class__ is int:
            # the sign of the step decides which way is up, so that the division below rounds up in both
            span = stop - start if step > 0 else start - stop
            size: Any = abs(step)
        else:
            span = where(step > 0, stop - start, start - stop)
            size = where(step > 0, step, -step)
        # an empty range has a negative span
        return maximum((span + size - 1) // size, 0)

    def item(self, index: Any) -> Any:
        number = weak(index._data) if index.__class__ is TracedTensor else index
        if number.__class__ is WeakTensor:
            # the index of a loop is an int32; Python's numbers are wider, and i * i must not overflow
            number = number.recast(weak_number(0).dtype)
        return (
            self.start + number * self.step
            if not (self.start.__class__ is int and self.start == 0 and self.step == 1)
            else number
        )


class Steps(StagedIterable):
    """The numbers of a `gt.range` of the program, without the tensor: under `vectorized_map` each example has so many of its
    own, while a tensor has one size for all."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor
        self.start, self.limit, self.step = (traced(v) for v in tensor._data.producer.operands)

    @staticmethod
    def are(value: Any) -> bool:
        """Whether a tensor is such a range, how long it is is no dimension of the program, and an int32 can always say it."""
        # read off the operation: the tensor itself need not be computed if only its numbers are gone over
        producer = value._data.producer if isinstance(value, TracedTensor) else None
        if producer is None or producer.op is not RANGE or value.dtype != int32 or value._data.type.shape[0].__class__ is int:
            return False
        start, limit, step = (known_size(traced(v)) for v in producer.operands)
        if (
            limit is not None
            or producer.operands[1].type.dtype != int32
            or start.__class__ is not int
            or step.__class__ is not int
        ):
            return False
        # else limit - start may not fit into an int32
        return bool(start >= 0 if step > 0 else start < 0 and step < 0)

    def length(self) -> Any:
        start, limit, step = (cast(t, "int64") for t in (self.start, self.limit, self.step))
        return maximum(-((start - limit) // step), 0)

    def item(self, index: Any) -> Any:
        return cast(self.start, self.tensor.dtype) + cast(index, self.tensor.dtype) * cast(self.step, self.tensor.dtype)


class Zip(StagedIterable):
    """`zip` of several: as long as the shortest."""

    def __init__(self, parts: Sequence[StagedIterable]) -> None:
        self.parts = parts

    def length(self) -> Any:
        lengths = [part.length() for part in self.parts]
        if all(n.__class__ is int for n in lengths):
            return min(lengths)
        # a length that the program knows by name stays one: the results of the loop can have it as a size
        if all(n is lengths[0] or (isinstance(n, Dim) and n == lengths[0]) for n in lengths):
            return lengths[0]
        total = convert(lengths[0])
        for n in lengths[1:]:
            total = minimum(total, convert(n))
        return total

    def item(self, index: Any) -> Any:
        return tuple([part.item(index) for part in self.parts])


class Around(StagedIterable):
    """As long as another one, whose items it changes."""

    def __init__(self, part: StagedIterable) -> None:
        self.part = part

    def length(self) -> Any:
        return self.part.length()


class Enumerate(Around):
    """`enumerate`: the index, a Python number, beside the item."""

    def __init__(self, part: StagedIterable, start: Any) -> None:
        super().__init__(part)
        self.start = start

    def item(self, index: Any) -> Any:
        return Range(self.start, 0, 1).item(index), self.part.item(index)


class Reversed(Around):
    """From the last item to the first."""

    def item(self, index: Any) -> Any:
        count = self.part.length()
        return self.part.item((count if count.__class__ is int else convert(count)) - 1 - index)


class Mapped(Around):
    """`map`: a function of corresponding items."""

    def __init__(self, function: Callable[..., Any], parts: Sequence[StagedIterable]) -> None:
        super().__init__(Zip(parts))
        self.function = function

    def item(self, index: Any) -> Any:
        return self.function(*self.part.item(index))


class Puller(Protocol):
    """One traced loop over something that Python gives item by item when the program runs."""

    def more(self, going: Any) -> Any:
        """Whether there is another item, a bool of the program; it is the current one then. Not `going` ends the loop."""

    def item(self) -> Any:
        """The current item."""


class PulledIterable(Completing):
    """Something whose items Python gives one by one, how many is known at the end: a dataset."""

    _INTERNAL = "numbered puller zipped"

    def puller(self) -> Puller:
        """One loop over it."""
        raise TypeError(f"{type(self).__name__} gives no items to a program")

    def get_next(self) -> Any:
        """What `next` of it is in a program."""
        raise TypeError(f"'{type(self).__name__}' object is not an iterator")

    def numbered(self, start: Any) -> Any:
        """`enumerate` of it."""
        raise TypeError(f"enumerate of a {type(self).__name__} is not supported in a function")

    def zipped(self, *others: Any) -> Any:
        """`zip` of it and others."""
        raise TypeError(f"zip of a {type(self).__name__} is not supported in a function")


def is_staged_iterable(value: Any) -> bool:
    """Whether a `for` over this value must be staged."""
    return (
        isinstance(value, (StagedIterable, TracedTensor, PulledIterable))
        or staged_items(value) is not None
        or isinstance(value, (Tensor, Readable))
    )


def staged_iterable(value: Any) -> StagedIterable:
    """A value as something a staged loop can go over."""
    if isinstance(value, StagedIterable):
        return value
    items = value if isinstance(value, StagedItems) else staged_items(value)
    if items is not None:
        return ListItems(items.items, items.length, None if isinstance(value, StagedItems) else value)
    if isinstance(value, TracedList):
        return ListItems(value)
    if isinstance(value, Readable):
        value = value.read()
    if isinstance(value, Tensor):
        return Steps(value) if Steps.are(value) else TensorRows(value)
    if isinstance(value, range):
        return Range(value.start, value.stop, value.step)
    raise TypeError(f"{type(value).__name__} is no iterable of the program")


def _whole(value: Any) -> Any:
    """A bound of a range: an int, or an integer scalar of the program that gives way to tensors."""
    if isinstance(value, Readable):
        value = value.read()
    if isinstance(value, Dim):
        value = current_trace().dim(value)
    if isinstance(value, Tensor):
        if not value.dtype.is_integer or value.ndim:
            raise TypeError(f"range() needs integers, got a tensor of shape {tuple(value.shape)}, dtype {value.dtype.name}")
        if not value.wraps:
            return int(value)
        number = weak(value._data)
        # integers carry no gradient; a past would make it look watched
        number._node = None
        return number.recast(weak_number(0).dtype)
    return int(value.__index__())
