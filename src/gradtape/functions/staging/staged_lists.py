"""Python lists whose items live in the program: what list methods, indexing and `len` mean on them.

The list object stays the same; its single `StagedItems` is replaced. Every function is called after the write was logged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradtape.core.dispatch import apply, convert
from gradtape.core.tensor import Tensor
from gradtape.errors import InvalidArgumentError
from gradtape.functions.staging.joins import to_spec
from gradtape.functions.staging.staged_values import StagedItems, staged_items
from gradtape.ops.lists import LIST_GET, LIST_LEN, LIST_PUSH, LIST_STACK, list_new, list_pop, list_set
from gradtape.trace.effects import active, refuse_in_trial
from gradtape.trace.tracing import TracedList
from gradtape.trace.weak import WeakTensor


def _items(target: list[Any]) -> StagedItems:
    items = staged_items(target)
    if items is None:
        raise TypeError("not a list of the program")
    return items


def item_of(value: Any) -> Any:
    """An item taken out: a list inside a list of the program is a Python list again."""
    return [StagedItems(value)] if isinstance(value, TracedList) else value


def _refuse_numbers(value: Any) -> None:
    """A Python number among tensors would be one of them."""
    if isinstance(value, (bool, int, float, complex, WeakTensor)) or value.__class__ in (list, tuple):
        refuse_in_trial("a Python number, or a list, is put into a list")


def append(target: list[Any], value: Any) -> None:
    """One more item."""
    _refuse_numbers(value)
    before = _items(target)
    length = apply(LIST_LEN, before.items) if before.length is None else before.length
    active().aliases.items.stored(target, length, value, new=True)
    target[0] = before.with_items(apply(LIST_PUSH, before.items, to_spec(value, before.items.spec.item)), 1)


def extend(target: list[Any], values: Any) -> None:
    """More items."""
    if staged_items(values) is not None:
        raise InvalidArgumentError("extending a staged list by a staged list is not supported; append in a loop")
    for value in values:
        append(target, value)


def pop(target: list[Any], index: Any = -1) -> Any:
    """Take the last item off."""
    if index.__class__ is not int or index != -1:
        raise InvalidArgumentError("a list that grows in a staged loop can only be popped at its end: use pop()")
    before = _items(target)
    rest, last = list_pop(before.items)
    last = item_of(last)
    active().aliases.items.removed(target, last)
    target[0] = before.with_items(rest, -1)
    return last


def clear(target: list[Any]) -> None:
    """No items."""
    active().aliases.items.vacate(target)
    target[0] = StagedItems(list_new([], _items(target).items.spec.item))


def get(target: list[Any], index: Any) -> Any:
    """`target[index]`; a slice gives a tensor's rows as another list only through gt.stack."""
    if isinstance(index, slice):
        known = _items(target).length
        if known is None or any(isinstance(bound, Tensor) for bound in (index.start, index.stop, index.step)):
            return stacked(target)[index]
        return [get(target, place) for place in range(known)[index]]
    item = item_of(apply(LIST_GET, _items(target).items, convert(index)))
    active().aliases.items.taken(target, index, item)
    return item


def put(target: list[Any], index: Any, value: Any) -> None:
    """`target[index] = value`."""
    _refuse_numbers(value)
    before = _items(target)
    active().aliases.items.stored(target, index, value, new=False)
    target[0] = before.with_items(list_set(before.items, index, to_spec(value, before.items.spec.item)), 0)


def length(target: list[Any]) -> Any:
    """`len(target)`."""
    return apply(LIST_LEN, _items(target).items)


def stacked(target: list[Any]) -> Any:
    """All items as one tensor: what library functions are given for such a list."""
    items = _items(target)
    shape = tuple(items.items.spec.item.shape)
    static = all(isinstance(d, int) for d in shape)
    return apply(LIST_STACK, items.items, length=items.length, item_shape=shape if static else None)


METHODS: dict[str, Callable[..., Any]] = {
    "append": append, "extend": extend, "pop": pop, "clear": clear, "__len__": length, "__getitem__": get, "__setitem__": put,
}  # fmt: skip


def method(target: list[Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
    """A list method on a list of the program."""
    if name not in METHODS:
        raise InvalidArgumentError(
            f"list.{name} is not supported on a list that is filled in a staged loop; supported: append, extend, pop, clear, "
            "indexing, len, loops, gt.stack"
        )
    return METHODS[name](target, *args, **(kwargs or {}))
