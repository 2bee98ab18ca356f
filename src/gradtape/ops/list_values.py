"""What list ops do at run time, on `TensorList`s of bare arrays, and the types of their results.

No function changes a list it was given or writes into an item: items may be shared between lists. The ops with their
derivatives are in `ops/lists.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from gradtape.core.typing import Array, Dims, Size, Value
from gradtape.dtypes import as_dtype
from gradtape.errors import InvalidArgumentError, OutOfRangeError
from gradtape.ir.types import ListSpec, Spec, TensorSpec


class TensorList(list[Any]):
    """A list at run time: arrays (NumPy scalars for 0-d) or lists of them. `item` is the type of the items, if known."""

    __slots__ = ("__weakref__", "item")
    # It passes for a 0-d value where only shapes are asked: to a program, a list is one operand.
    shape: tuple[int, ...] = ()
    ndim = 0

    def __init__(self, values: Iterable[Any] = (), item: Spec | None = None) -> None:
        super().__init__(values)
        self.item: Any = item

    @property
    def dtype(self) -> np.dtype[Any]:
        """That of the numbers in it."""
        if self:
            kind: np.dtype[Any] = self[0].dtype
            return kind
        return np.dtype(np.float32) if self.item is None else self.item.dtype.dtype

    @property
    def nbytes(self) -> int:
        return sum(value.nbytes for value in self)

    @property
    def size(self) -> int:
        return sum(value.size for value in self)

    def __add__(self, other: Any) -> TensorList:
        """Item by item: how cotangents add up."""
        return added(self, other)

    __array_ufunc__ = None  # NumPy must not take it for an array of its items


# -- types -----------------------------------------------------------------------------------------------------------


def item_spec(value: Any) -> Any:
    """The type of a run-time value."""
    if isinstance(value, TensorList):
        return ListSpec(item_spec(value[0]) if value else value.item)
    return TensorSpec(value.shape, as_dtype(value.dtype))


def joined_spec(a: Spec, b: Spec) -> Spec:
    """The type of items of both types: dimensions that differ are known at run time only."""
    if isinstance(a, ListSpec) and isinstance(b, ListSpec):
        return ListSpec(joined_spec(a.item, b.item))
    if isinstance(a, ListSpec) or isinstance(b, ListSpec) or a.dtype != b.dtype or len(a.shape) != len(b.shape):
        raise InvalidArgumentError(f"a list has items of one dtype and rank, got {_named(a)} and {_named(b)}")
    return TensorSpec([m if m == n else None for m, n in zip(a.shape, b.shape, strict=True)], a.dtype)


def _named(spec: Spec) -> str:
    return f"a list of {_named(spec.item)}" if isinstance(spec, ListSpec) else f"{spec.dtype.name}{list(spec.shape)}"


def new_spec(*items: Any, item: Spec | None) -> ListSpec:
    """Of the items together, and of the type given."""
    for spec in items:
        item = spec if item is None else joined_spec(item, spec)
    if item is None:
        raise InvalidArgumentError("an empty list has no items to take their type from; give it")
    return ListSpec(item)


def stacked_spec(values: ListSpec, *, length: Size | None, item_shape: Dims | None) -> TensorSpec:
    """The length is known where the program says it."""
    return TensorSpec((length, *values.item.shape), values.item.dtype)


def joined_rows_spec(values: ListSpec, *, axis: int, length: Size | None, item_shape: Dims | None) -> TensorSpec:
    """The sum of the lengths along `axis`."""
    dims = list(values.item.shape)
    dims[axis] = None if length is None or dims[axis] is None else length * dims[axis]
    return TensorSpec(dims, values.item.dtype)


def parted_spec(x: TensorSpec, lengths: TensorSpec, *, axis: int, size: Size | None) -> ListSpec:
    """How long each part is, only run time knows, unless all are of one `size`."""
    return ListSpec(TensorSpec((*x.shape[:axis], size, *x.shape[axis + 1 :]), x.dtype))


# -- on bare values --------------------------------------------------------------------------------------------------


def place_in(values: TensorList, index: Array) -> int:
    """A Python index, negative ones from the end, inside the list."""
    place = int(index)
    count = len(values)
    if not -count <= place < count:
        raise OutOfRangeError(f"list index out of range: {place} in a list of length {count}")
    return place % count if count else 0


def zero_like(value: Any, known: dict[Any, Array] | None = None, dtype: np.dtype | None = None) -> Any:
    """Zeros like an array, or like every item of a list; items of one shape share their zeros."""
    if isinstance(value, TensorList):
        known = {} if known is None else known
        return TensorList([zero_like(v, known, dtype) for v in value], value.item)
    # Nobody writes into an item, so that a thousand items may share one array of zeros.
    key = (value.shape, value.dtype if dtype is None else dtype)
    zeros = None if known is None else known.get(key)
    if zeros is None:
        zeros = np.zeros(*key)[()]
        if known is not None:
            known[key] = zeros
    return zeros


def zero_of(spec: Spec) -> Value:
    """Zeros of a type; of a list an empty one."""
    if isinstance(spec, ListSpec):
        return TensorList((), spec.item)
    return np.zeros(tuple(spec.shape), spec.dtype.dtype)[()]


def new(*items: Any, item: Spec | None) -> TensorList:
    """A list of these items."""
    return TensorList(items, item)


def rows_of(x: Array) -> TensorList:
    """The rows of an array."""
    if not x.ndim:
        raise InvalidArgumentError("a list of the rows of a tensor needs a first axis, got a scalar")
    return TensorList(x, TensorSpec(x.shape[1:], as_dtype(x.dtype)))


def stacked(values: TensorList, *, length: int | None, item_shape: tuple[int, ...] | None) -> Array:
    """The items as rows of one array."""
    if not values:
        return np.zeros((0, *_shape_of_items(values, item_shape, "stack")), values.dtype)
    return np.array(values) if not values[0].shape else np.stack(values)


def joined(values: TensorList, *, axis: int, length: Size | None, item_shape: tuple[int, ...] | None) -> Array:
    """The items joined along an axis."""
    if not values:
        shape = _shape_of_items(values, item_shape, "concat", axis)
        return np.zeros((*shape[:axis], 0, *shape[axis + 1 :]), values.dtype)
    return np.concatenate(values, axis)


def _shape_of_items(values: TensorList, given: tuple[int, ...] | None, what: str, free: int | None = None) -> tuple[int, ...]:
    """The shape of items that are not there; that of axis `free` does not matter."""
    shape = given if given is not None else () if values.item is None else tuple(values.item.shape)
    if (given is None and values.item is None) or any(d is None and i != free for i, d in enumerate(shape)):
        raise InvalidArgumentError(f"{what} of an empty list: the shape of its items is not known")
    return tuple(shape)


def lengths_of(values: TensorList, *, axis: int) -> Array:
    """The size of each item along an axis."""
    return np.array([value.shape[axis] for value in values], np.int32)


def parted(x: Array, lengths: Array, *, axis: int, size: Size | None) -> TensorList:
    """Consecutive parts of an array along an axis."""
    item = TensorSpec((*x.shape[:axis], size, *x.shape[axis + 1 :]), as_dtype(x.dtype))
    return TensorList(np.split(x, np.cumsum(lengths)[:-1], axis) if len(lengths) else (), item)


def got(values: TensorList, index: Array) -> Array:
    """One item."""
    return values[place_in(values, index)]


def added(a: TensorList, b: TensorList) -> TensorList:
    """Item by item."""
    if len(a) != len(b):
        raise InvalidArgumentError(f"lists of length {len(a)} and {len(b)} cannot be added item by item")
    return TensorList([x + y for x, y in zip(a, b, strict=True)], a.item)


# -- changes of a list itself, never of its items: each gives the list


def on_copy(change: Callable[..., TensorList]) -> Callable[..., TensorList]:
    """A change as a function that leaves its argument alone."""

    def pure(values: TensorList, *others: Any, **attrs: Any) -> TensorList:
        return change(TensorList(values, values.item), *others, **attrs)

    return pure


def push(values: TensorList, value: Array) -> TensorList:
    """One more item at the end."""
    values.append(value)
    return values


def drop(values: TensorList) -> TensorList:
    """Without the last item."""
    if not values:
        raise OutOfRangeError("pop from an empty list")
    values.pop()
    return values


def put(values: TensorList, index: Array, value: Array, *old: Any, item: Any = None) -> TensorList:
    """Another item at one place."""
    values[place_in(values, index)] = value
    return values


def add_at(values: TensorList, index: Array, value: Array) -> TensorList:
    """A value added to one item."""
    place = place_in(values, index)
    values[place] = values[place] + value
    return values


def resize(values: TensorList, length: Array, *, item: Spec) -> TensorList:
    """Grown with zeros to at least this length."""
    missing = int(length) - len(values)
    if missing > 0:
        values.extend([zero_of(item)] * missing)
    return values


def cut(values: TensorList, length: Array) -> TensorList:
    """The first items, at most this many."""
    del values[int(length) :]
    return values


def fit(values: TensorList, like: TensorList) -> TensorList:
    """Cut, or grown with zeros, to the length of another list."""
    missing = zero_like(TensorList(like[len(values) :]), {}, values.dtype if values else None)
    del values[len(like) :]
    values.extend(missing)
    return values


def spread(values: Any, *, size: int, axis: int) -> Any:
    """Every array repeated along a new axis."""
    if isinstance(values, TensorList):
        return TensorList([spread(value, size=size, axis=axis) for value in values])
    shape = (*values.shape[:axis], size, *values.shape[axis:])
    return np.broadcast_to(np.expand_dims(values, axis), shape)


def collapsed(values: Any, *, size: int, axis: int) -> Any:
    """Every array summed over an axis."""
    if isinstance(values, TensorList):
        return TensorList([collapsed(value, size=size, axis=axis) for value in values])
    return values.sum(axis, values.dtype)


def spread_spec(spec: Spec, size: Size, axis: int = 0) -> Spec:
    """The type with one more axis in all arrays."""
    if isinstance(spec, ListSpec):
        return ListSpec(spread_spec(spec.item, size, axis))
    return TensorSpec((*spec.shape[:axis], size, *spec.shape[axis:]), spec.dtype)


def collapsed_spec(spec: Spec, axis: int = 0) -> Spec:
    """The type without one axis of all arrays."""
    if isinstance(spec, ListSpec):
        return ListSpec(collapsed_spec(spec.item, axis))
    return TensorSpec((*spec.shape[:axis], *spec.shape[axis + 1 :]), spec.dtype)
