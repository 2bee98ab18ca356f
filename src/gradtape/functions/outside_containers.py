"""Lists, dicts and sets from outside that a function changes: what they held when the call began, and who looked.

A program repeats the changes at each call. What it computes, and what it writes back, follows from what the container held at
the start, unless the function only ever *added* to it (`history.append(loss)`, `cache[key] = y`) and looked at nothing else.
So the content at the start is guarded for every container that is changed and used in any other way. Tensors and arrays in it
are inputs, read at their place at each call; so are the numbers where they are `installed`.
Invariant: every use that is not known to be an addition counts as a look, whatever Python does with the container there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gradtape.core.tensor import Tensor
from gradtape.functions.guards import Guards
from gradtape.functions.staging.places import Content, DictContent, SetContent
from gradtape.functions.tokens import frozen, token

CHANGEABLE = (list, dict, set, deque)


class ContainerUses:
    """How often the containers from outside were used in one trace, additions not counted."""

    def __init__(self) -> None:
        self._looks: dict[int, int] = {}
        self.assigned: dict[int, set[Any]] = {}  # the keys of dicts to which something was assigned, be it what was there

    def used(self, container: Any) -> None:
        """Converted code gets hold of a container, to do what it likes."""
        self._looks[id(container)] = self._looks.get(id(container), 0) + 1

    def added_to(self, container: Any) -> None:
        """That use was an addition, which looks at nothing."""
        if id(container) in self._looks:
            self._looks[id(container)] -= 1

    def assigns(self, container: Any, key: Any) -> None:
        """A key of a dict is written."""
        if id(container) in self._looks:
            self.assigned.setdefault(id(container), set()).add(key)

    def looked(self, container: Any) -> bool:
        return self._looks.get(id(container), 0) > 0

    def clear(self) -> None:
        self._looks.clear()
        self.assigned.clear()


def pairs(content: Any) -> Iterator[tuple[Any, Any]]:
    """The places of a container and what stands there."""
    return iter(content.items()) if isinstance(content, dict) else iter(enumerate(content))


def only_added(place: Content, before: Any, now: Any) -> bool:
    """Whether everything stands where it stood, so that the change is the same whatever the container holds."""
    if isinstance(place, SetContent):
        return False  # what was added may have been there
    if isinstance(place, DictContent):
        return list(now)[: len(before)] == list(before)
    return only_longer(before, now)


def only_longer(before: Any, now: Any) -> bool:
    """Whether a list begins with what it was."""
    return len(now) >= len(before) and all(a is b for a, b in zip(before, now, strict=False))


def guard_start(place: Content, old: Any, now: Any, installed: Any, uses: ContainerUses, guards: Guards) -> None:
    """Guard what a changed container held at the start of the call, if what the program does follows from it."""
    before = old if installed is None else installed
    if uses.looked(place.target) or not only_added(place, before, now):
        guards.content(place.target, old, _token if installed is None else _token_without_numbers)
    guards.changes(place.target)


def _token(content: Any, number: Callable[[Any], Any] = token) -> Any:
    """What counts of a container's content. Of tensors and arrays only which of them are the same: they are inputs."""
    if isinstance(content, (set, frozenset)):
        return token(frozenset(content))
    firsts: dict[int, int] = {}
    return tuple([
        (token(key), firsts.setdefault(id(value), len(firsts))) if is_array(value)
        else (token(key), number(value) if value.__class__ in (int, float, bool) else frozen(value, 10**6))
        for key, value in pairs(content)
    ])  # fmt: skip


def _token_without_numbers(content: Any) -> Any:
    """The same where Python numbers are inputs too: of their kind."""
    return _token(content, type)


def is_array(value: Any) -> bool:
    """Whether an item is an input of the program: what it holds at each call counts, not which one it is."""
    return isinstance(value, (Tensor, np.ndarray))


class AtStart:
    """In what is written back: the item that stood there when the call began."""

    __slots__ = ("key",)

    def __init__(self, key: Any) -> None:
        self.key = key


def places_at_start(old: Any) -> dict[int, Any]:
    """Where the tensors and arrays of a container stood when the call began, by identity."""
    return {id(value): key for key, value in pairs(old) if is_array(value)}
