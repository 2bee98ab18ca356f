"""What a Python loop that is staged by trying can go over: ranges, lists and arrays of like things, and `enumerate`, `zip` and
`reversed` of those.

The builtins give iterators that do not say what they go over. Converted code gets iterators that do, and that know whether
an item was taken already; for everything else they are the builtins'.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import numpy as np

from gradtape.core.tensor import Tensor
from gradtape.errors import InvalidArgumentError
from gradtape.functions.foreign_calls import own_iterator
from gradtape.functions.outside_arrays import OutsideArray
from gradtape.functions.staging.iterables import Enumerate, PulledIterable, Range, Reversed, StagedIterable, TensorRows, Zip
from gradtape.functions.staging.progress import Bar
from gradtape.functions.staging.staged_builtins import Fixed
from gradtape.functions.staging.staged_values import staged_items
from gradtape.ops.shape import stack
from gradtape.trace.effects import LENGTH, active

NUMBERS = (bool, int, float)


class _Taken:
    """Notes that an item was taken."""

    parts: tuple[Any, ...] = ()
    fresh = True
    left = ""  # by which loop, at a turn that only the program knows

    def __next__(self) -> Any:
        self.fresh = False
        if self.left:
            raise InvalidArgumentError(f"how many items {self.left} took is known only when the program runs: go over a list")
        return super().__next__()  # type: ignore[misc]


class PythonZip(_Taken, zip):
    """`zip`, with what it goes over."""

    strict = False


class PythonEnumerate(_Taken, enumerate):
    """`enumerate`, with what it goes over."""

    start: Any = 0


class _Backwards:
    def __init__(self, sequence: Any) -> None:
        self._items = reversed(sequence)

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        return next(self._items)


class PythonReversed(_Taken, _Backwards):
    """`reversed`, with what it goes over."""


def used_up(iterated: Any, may_end_early: bool, line: int) -> None:
    """A loop of the program has gone over something."""
    if isinstance(iterated, _Taken) and may_end_early:
        iterated.fresh, iterated.left = False, f"the loop in line {line}"
    elif isinstance(iterated, _Taken):
        deque(cast("Iterator[Any]", iterated), 0)


def python_zip(*parts: Any, **kwargs: Any) -> Any:
    """`zip(*parts)`."""
    if parts and isinstance(parts[0], PulledIterable):
        return parts[0].zipped(*parts[1:])
    zipped = PythonZip(*parts, **kwargs)
    zipped.parts, zipped.strict = parts, kwargs.get("strict", False)
    return own_iterator(zipped)


def python_enumerate(iterable: Any, start: Any = 0) -> Any:
    """`enumerate(iterable, start)`."""
    if isinstance(iterable, PulledIterable):
        return iterable.numbered(start)
    if isinstance(iterable, Bar):
        return iterable.over(lambda items: python_enumerate(items, start))
    numbered = PythonEnumerate(iterable, start)
    numbered.parts, numbered.start = (iterable,), start
    return own_iterator(numbered)


def python_reversed(sequence: Any) -> Any:
    """`reversed(sequence)`."""
    if type(sequence) not in (range, list, tuple):
        return own_iterator(reversed(sequence))
    backwards = PythonReversed(sequence)
    backwards.parts = (sequence,)
    return own_iterator(backwards)


class LikeTensors(TensorRows):
    """Tensors of one type: rows of one tensor. Changing one of them in place must change the one in the list."""

    def __init__(self, tensors: Sequence[Any]) -> None:
        super().__init__(stack(list(tensors)))
        self.tensors = tensors

    def item(self, index: Any) -> Any:
        if index.__class__ is int:
            return self.tensors[index]
        # A row is a copy where Python gives the object in the list. As long as neither is changed in place nobody can tell.
        row = self.tensor[index]
        active().aliases.suspect(row, *self.tensors)
        return row


def python_items(iterated: Any, few: int) -> Callable[[], StagedIterable] | None:
    """What makes of Python values something that a loop of the program can go over; None for all others, and for `few`."""
    kind = iterated.__class__
    if kind is range:
        return (lambda: Range(iterated.start, iterated.stop, iterated.step)) if len(iterated) > few else None
    if kind is np.ndarray or kind is OutsideArray:
        return (lambda: Fixed(iterated)) if iterated.ndim and len(iterated) > few else None
    if isinstance(iterated, Tensor) and iterated.ndim and iterated.shape[0].__class__ is int:
        return (lambda: TensorRows(iterated)) if iterated.shape[0] > few else None
    if kind is list or kind is tuple:
        return _sequence(iterated) if len(iterated) > few and staged_items(iterated) is None else None
    # an iterator of the user's that has given items already: how many are left, nobody knows
    if not isinstance(iterated, _Taken) or not iterated.fresh:
        return None
    parts = [python_items(part, few) for part in iterated.parts]
    if not parts or None in parts:
        return None
    makers: Any = parts
    if isinstance(iterated, PythonEnumerate):
        start = iterated.start
        return (lambda: Enumerate(makers[0](), start)) if start.__class__ is int else None
    if isinstance(iterated, PythonReversed):
        return lambda: Reversed(makers[0]())
    # lengths that differ are an error in the last turn, which a loop of the program does not have
    if isinstance(iterated, PythonZip) and iterated.strict:
        return None
    return lambda: Zip([make() for make in makers])


def _sequence(values: Any) -> Callable[[], StagedIterable] | None:
    """The items of a list or tuple, if they are alike."""
    first = values[0]
    if first.__class__ in NUMBERS:
        # one array of an int and a float would make floats of both
        if all(v.__class__ is first.__class__ for v in values):
            return lambda: Fixed(_noted(values))
        return None
    if isinstance(first, Tensor):
        alike = all(isinstance(v, Tensor) and v.dtype == first.dtype and v.shape == first.shape for v in values)
        # where objects are told apart, each item must stay the object that it is in the list
        return (lambda: LikeTensors(_noted(values))) if alike and not active().aliases.tracking else None
    if first.__class__ is tuple and all(v.__class__ is tuple and len(v) == len(first) for v in values):
        columns = [_sequence(list(column)) for column in zip(*values, strict=True)]
        makers: Any = columns
        if columns and None not in columns:
            return lambda: (_noted(values), Zip([make() for make in makers]))[1]
    return None


def _noted(values: Any) -> Any:
    """All items, as the program knows them."""
    tracer = active()
    items = [tracer.item(values, place, value) for place, value in enumerate(values)]
    # the program is good for this length only: a guard says so
    tracer.item(values, LENGTH, len(values))
    return items
