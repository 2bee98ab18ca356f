"""What a staged `for` loop can go over: rows of a tensor, ranges with staged bounds, lists of the program, and zip,
enumerate, reversed or map of those. Each knows its length and gives the item at an index of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape.ad.tracing import TracedList, TracedTensor, current_trace
from gradtape.ad.weak import WeakTensor, weak, weak_number
from gradtape.errors import InvalidArgumentError
from gradtape.frontend.effects import active
from gradtape.frontend.staged_values import StagedItems, staged_items
from gradtape.ir.dims import Dim
from gradtape.ops.dispatch import apply, convert
from gradtape.ops.lists import LIST_GET, LIST_LEN
from gradtape.ops.select import maximum, minimum, where
from gradtape.ops.tensor import Tensor, TensorLike


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


class Rows(StagedIterable):
    """The rows of a tensor."""

    def __init__(self, tensor: Any) -> None:
        if not tensor.ndim:
            raise TypeError("cannot iterate over a scalar tensor")
        self.tensor = tensor

    def length(self) -> Any:
        return self.tensor.shape[0]

    def item(self, index: Any) -> Any:
        return self.tensor[index]


class Items(StagedIterable):
    """The items of a list of the program."""

    def __init__(self, items: TracedList, known: int | None = None, owner: Any = None) -> None:
        self.items = items
        self.known = known
        self.owner = owner  # the Python list whose items these are; its later content counts, as in a Python loop

    def length(self) -> Any:
        return apply(LIST_LEN, self.items) if self.known is None else self.known

    def item(self, index: Any) -> Any:
        staged = staged_items(self.owner)
        found = apply(LIST_GET, self.items if staged is None else staged.items, convert(index))
        if isinstance(found, TracedList):
            found = [StagedItems(found)]
        if staged is not None:
            active().identities.taken(self.owner, index, found)
        return found


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
            span = stop - start if step > 0 else start - stop
            size = abs(step)
        else:
            span = where(step > 0, stop - start, start - stop)
            size = where(step > 0, step, -step)
        return maximum((span + size - 1) // size, 0)

    def item(self, index: Any) -> Any:
        number = weak(index._data) if index.__class__ is TracedTensor else index
        if number.__class__ is WeakTensor:
            number = number.recast(weak_number(0).dtype)
        return (
            self.start + number * self.step
            if not (self.start.__class__ is int and self.start == 0 and self.step == 1)
            else number
        )


class Zip(StagedIterable):
    """`zip` of several: as long as the shortest."""

    def __init__(self, parts: Sequence[StagedIterable]) -> None:
        self.parts = parts

    def length(self) -> Any:
        lengths = [part.length() for part in self.parts]
        if all(n.__class__ is int for n in lengths):
            return min(lengths)
        if all(n is lengths[0] or (isinstance(n, Dim) and n == lengths[0]) for n in lengths):
            return lengths[0]
        total = convert(lengths[0])
        for n in lengths[1:]:
            total = minimum(total, convert(n))
        return total

    def item(self, index: Any) -> Any:
        return tuple([part.item(index) for part in self.parts])


class Enumerate(StagedIterable):
    """`enumerate`: the index, a Python number, beside the item."""

    def __init__(self, part: StagedIterable, start: Any) -> None:
        self.part, self.start = part, start

    def length(self) -> Any:
        return self.part.length()

    def item(self, index: Any) -> Any:
        return Range(self.start, 0, 1).item(index), self.part.item(index)


class Reversed(StagedIterable):
    """From the last item to the first."""

    def __init__(self, part: StagedIterable) -> None:
        self.part = part

    def length(self) -> Any:
        return self.part.length()

    def item(self, index: Any) -> Any:
        count = self.part.length()
        return self.part.item((count if count.__class__ is int else convert(count)) - 1 - index)


class Mapped(StagedIterable):
    """`map`: a function of corresponding items."""

    def __init__(self, function: Callable[..., Any], parts: Sequence[StagedIterable]) -> None:
        self.function, self.parts = function, Zip(parts)

    def length(self) -> Any:
        return self.parts.length()

    def item(self, index: Any) -> Any:
        return self.function(*self.parts.item(index))


class Fixed(StagedIterable):
    """A Python sequence beside staged ones: its items must become one tensor to be found by a staged index."""

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = list(values)

    def length(self) -> Any:
        return len(self.values)

    def item(self, index: Any) -> Any:
        if index.__class__ is int:
            return self.values[index]
        if all(isinstance(v, (int, float, bool)) for v in self.values):
            return convert(np.asarray(self.values))[index]  # out of the loop again by `hoist`
        from gradtape.frontend.staged_builtins import item

        return item(self.values, index)


def is_staged_iterable(value: Any) -> bool:
    """Whether a `for` over this value must be staged."""
    return (
        isinstance(value, (StagedIterable, TracedTensor))
        or staged_items(value) is not None
        or isinstance(value, (Tensor, TensorLike))
    )


def staged_iterable(value: Any) -> StagedIterable:
    """A value as something a staged loop can go over."""
    if isinstance(value, StagedIterable):
        return value
    items = value if isinstance(value, StagedItems) else staged_items(value)
    if items is not None:
        return Items(items.items, items.length, None if isinstance(value, StagedItems) else value)
    if isinstance(value, TracedList):
        return Items(value)
    if isinstance(value, TensorLike):
        value = value.read()
    if isinstance(value, Tensor):
        return Rows(value)
    if isinstance(value, range):
        return Range(value.start, value.stop, value.step)
    return Fixed(list(value))


def _whole(value: Any) -> Any:
    """A bound of a range: an int, or an integer scalar of the program that gives way to tensors."""
    if isinstance(value, TensorLike):
        value = value.read()
    if isinstance(value, Dim):
        value = current_trace().dim(value)
    if isinstance(value, Tensor):
        if not value.dtype.is_integer or value.ndim:
            raise TypeError(f"range() needs integers, got a tensor of shape {tuple(value.shape)}, dtype {value.dtype.name}")
        if not value.wraps:
            return int(value)
        made = weak(value._data)
        made._node = None
        return made.recast(weak_number(0).dtype)
    return int(value.__index__())
