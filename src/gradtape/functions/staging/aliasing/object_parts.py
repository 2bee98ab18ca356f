"""The objects inside a value that can be changed in place, by the way that leads to each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from gradtape.core.tensor import Tensor
from gradtape.functions.staging.joins import is_missing
from gradtape.functions.staging.staged_values import Maybe, staged_items
from gradtape.trace.tracing import TracedList
from gradtape.trace.weak import WeakTensor
from gradtape.tree import LeafTuple

Way = tuple[Any, ...]  # keys and indices, from a value to a part of it
Sight = Callable[[Any], Any]  # a list or dict as it was at some time


def has_identity(value: Any) -> bool:
    """Whether a value can be changed in place, and merged where two paths meet."""
    if isinstance(value, Tensor):
        return not isinstance(value, (WeakTensor, TracedList))
    return isinstance(value, (list, dict))


def as_now(value: Any) -> Any:
    """The sight of a value as it is."""
    return value


def there(value: Any) -> Any:
    """The value itself, where it may be missing; None if it is."""
    return value.value if isinstance(value, Maybe) else None if is_missing(value) else value


def children(value: Any) -> dict[Any, Any]:
    """What a container holds, by place; nothing for anything else."""
    if isinstance(value, dict):
        return value
    # the one item of a list of the program stands for values, not objects
    plain_list = isinstance(value, list) and staged_items(value) is None
    return dict(enumerate(value)) if plain_list or (isinstance(value, tuple) and not isinstance(value, LeafTuple)) else {}


def everything_in(value: Any) -> Iterator[Any]:
    """A value and all that containers in it hold, whatever it is."""
    value = there(value)
    yield value
    for child in children(value).values():
        yield from everything_in(child)


def parts_at(value: Any, counts: bool = True, way: Way = ()) -> Iterator[tuple[Way, Any]]:
    """All objects inside a value, with the way to each; `counts`: it is an object itself, not only what one holds."""
    value = there(value)
    if counts and has_identity(value):
        yield way, value
    for key, child in children(value).items():
        yield from parts_at(child, True, (*way, key))


def parts_of(value: Any) -> Iterator[Any]:
    """All objects inside a value, itself among them."""
    return (part for _, part in parts_at(value))


def differing(x: Any, y: Any, counts: bool, sights: tuple[Sight, Sight], way: Way = ()) -> Iterator[tuple[Way, Any, Any]]:
    """The objects in the same place of two values that are not one object, with the way to them; None where there is none."""
    x, y = there(x), there(y)
    if x is y:
        return
    if counts and (has_identity(x) or has_identity(y)):
        yield way, x, y
    first, second = children(sights[0](x)), children(sights[1](y))
    for key in {**first, **second}:
        yield from differing(first.get(key), second.get(key), True, sights, (*way, key))
