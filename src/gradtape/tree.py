"""Nested structures of Python containers: flatten, map, rebuild (TensorFlow's `nest`).

Lists, tuples, named tuples, dicts (in sorted key order), dataclasses and attrs-free objects as leaves. None is a leaf.
Containers are copied, never kept: changing one later changes nothing that was recorded.
"""

from __future__ import annotations

import copy
import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeGuard

# Lists, tuples and mappings inside each other, with leaves of any class; or a leaf alone. Functions say what leaves they take.
Structure: TypeAlias = object


class LeafTuple(tuple[Any, ...]):
    """A tuple that is one value, not a container: `flatten` leaves it whole (shapes are such tuples)."""

    __slots__ = ()


def is_nested(seq: Structure) -> TypeGuard[Any]:
    """Whether `seq` is a container that `flatten` opens.

    >>> gt.nest.is_nested([1, 2]), gt.nest.is_nested(gt.constant([1, 2]))
    (True, False)
    """
    kind = seq.__class__
    known = _NESTED.get(kind)
    if known is None:
        known = _NESTED[kind] = issubclass(kind, (list, tuple, Mapping)) and not issubclass(kind, LeafTuple)
    return known


_NESTED: dict[type, bool] = {}  # a cache: asking an abstract base class is slow


def children(structure: Iterable[Any]) -> list[Any]:
    """What is directly inside a container; dicts in sorted key order."""
    if structure.__class__ is list or not isinstance(structure, Mapping):
        return list(structure)
    return [structure[key] for key in _sorted_keys(structure)]


def _sorted_keys(mapping: Mapping[Any, Any]) -> list[Any]:
    try:
        return sorted(mapping)
    except TypeError:
        return list(mapping)


def _collect(structure: Iterable[Any], leaves: list[Any]) -> None:
    for child in children(structure):
        if _NESTED.get(child.__class__, True) and is_nested(child):  # (leaves of known classes without a call)
            _collect(child, leaves)
        else:
            leaves.append(child)


def flatten(structure: Structure, expand_composites: bool = False) -> list[Any]:
    """The leaves in a fixed order; a leaf alone gives a list of one.

    >>> gt.nest.flatten({"b": 2, "a": [1, (3,)]})
    [1, 3, 2]
    """
    if not is_nested(structure):
        return [structure]
    leaves: list[Any] = []
    _collect(structure, leaves)
    return leaves


def pack_sequence_as(structure: Structure, flat_sequence: Iterable[Any], expand_composites: bool = False) -> Any:
    """`flat_sequence` arranged like `structure`.

    >>> gt.nest.pack_sequence_as({"b": 0, "a": [0]}, [1, 2])
    {'b': 2, 'a': [1]}
    """
    values = list(flat_sequence)
    feed = iter(values)
    try:
        packed = _rebuild(structure, feed)
        if next(feed, feed) is feed:
            return packed
    except StopIteration:
        pass
    raise ValueError(f"the structure has {len(flatten(structure))} leaves but {len(values)} values were given")


def _rebuild(structure: Structure, feed: Iterator[Any]) -> Any:
    if not is_nested(structure):
        return next(feed)
    if structure.__class__ is list:
        return [_rebuild(child, feed) if _NESTED.get(child.__class__, True) else next(feed) for child in structure]
    if isinstance(structure, Mapping):
        # Leaves come in the order of the sorted keys, the result has its keys in the order of the original.
        rebuilt = {key: _rebuild(structure[key], feed) for key in _sorted_keys(structure)}
        ordered = {key: rebuilt[key] for key in structure}
        if isinstance(structure, defaultdict):
            return defaultdict(structure.default_factory, ordered)
        return ordered if type(structure) is dict else type(structure)(ordered)  # type: ignore[call-arg]
    return like(structure, [_rebuild(child, feed) for child in structure])


def like(container: Any, children: Sequence[Any], keys: Iterable[Any] | None = None) -> Any:
    """A container of the same class with other children; a dict with these keys, or its own. What else an object of a user's
    class carries stays with it."""
    kind: Any = container.__class__
    twin: Any
    if isinstance(container, dict):
        content = dict(zip(container if keys is None else keys, children, strict=True))
        if kind is dict:
            return content
        twin = copy.copy(container)
        twin.clear()
        twin.update(content)
        return twin
    if isinstance(container, tuple):  # named tuples take their fields one by one
        return kind(*children) if hasattr(kind, "_fields") else kind(children)
    if kind is list or not isinstance(container, list):
        return kind(children)
    twin = copy.copy(container)
    twin[:] = children
    return twin


def map_structure(func: Callable[..., Any], *structure: Structure, check_types: bool = True, **kwargs: Any) -> Any:
    """`func` applied to corresponding leaves; the result is arranged like the first structure.

    >>> gt.nest.map_structure(lambda a, b: a + b, [1, (2,)], [10, (20,)])
    [11, (22,)]
    """
    if not structure:
        raise ValueError("map_structure needs at least one structure")
    for other in structure[1:]:
        assert_same_structure(structure[0], other, check_types=check_types)
    columns = zip(*(flatten(s) for s in structure), strict=True)
    return pack_sequence_as(structure[0], [func(*column) for column in columns])


def assert_same_structure(
    nest1: Structure, nest2: Structure, check_types: bool = True, expand_composites: bool = False
) -> None:
    """Raise ValueError (shape of the nest) or TypeError (container types) when two structures differ.

    >>> gt.nest.assert_same_structure([1, (2, 3)], [4, (5, 6)])
    """
    if not is_nested(nest1) or not is_nested(nest2):
        if is_nested(nest1) or is_nested(nest2):
            raise ValueError(f"the structures differ: {_outline(nest1)} against {_outline(nest2)}")
        return
    if check_types and type(nest1) is not type(nest2):
        raise TypeError(f"the structures differ in type: {type(nest1).__name__} against {type(nest2).__name__}")
    if isinstance(nest1, Mapping) and set(nest1) != set(nest2):
        raise ValueError(f"the keys differ: {sorted(map(str, nest1))} against {sorted(map(str, nest2))}")
    first, second = children(nest1), children(nest2)
    if len(first) != len(second):
        raise ValueError(f"the structures differ in length: {_outline(nest1)} against {_outline(nest2)}")
    for a, b in zip(first, second, strict=True):
        assert_same_structure(a, b, check_types)


def _outline(structure: Structure) -> str:
    """The structure with dots for leaves."""
    return repr(pack_sequence_as(structure, [_Dot()] * len(flatten(structure))))


@dataclasses.dataclass(frozen=True)
class _Dot:
    def __repr__(self) -> str:
        return "."
