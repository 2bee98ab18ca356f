"""Lists, dicts and sets from outside that a function changes: what they held when the call began, and who looked.

A program repeats the changes at each call. What it computes, and what it writes back, follows from what the container held at
the start, unless the function only ever *added* to it (`history.append(loss)`, `cache[key] = y`) and looked at nothing else.
So the content at the start is guarded for every container that is changed and used in any other way. Tensors and arrays in it
are inputs, read at their place at each call; so are the numbers where they are `installed`. Code that is not converted notes
nothing: before it looks into a container the inputs stand in it (`Tracer.opened`), and what it changed is seen afterwards.
Invariant: every use that is not known to be an addition counts as a look, whatever Python does with the container there.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Container, Iterator
from functools import partial
from typing import Any

import numpy as np

from gradtape.core.tensor import Tensor
from gradtape.functions.guards import Guards
from gradtape.functions.staging.places import Content, DictContent, SetContent, content_of
from gradtape.functions.tokens import frozen, token

CHANGEABLE = (list, dict, set, deque, array, bytearray)


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
        lifted = () if installed is None else {key for key, value in pairs(old) if installed[key] is not value}
        guards.content(place.target, old, partial(_token, lifted))
    guards.changes(place.target)


def _token(lifted: Container[Any], content: Any) -> Any:
    """What counts of a container's content. Of tensors and arrays only which of them are the same: they are inputs. Of the
    numbers that are, their kind."""
    if isinstance(content, (set, frozenset)):
        return token(frozenset(content))
    firsts: dict[int, int] = {}
    return tuple([
        (token(key), firsts.setdefault(id(value), len(firsts))) if is_array(value)
        else (token(key), type(value) if key in lifted else frozen(value, 10**6))
        for key, value in pairs(content)
    ])  # fmt: skip


def is_array(value: Any) -> bool:
    """Whether an item is an input of the program: what it holds at each call counts, not which one it is."""
    return isinstance(value, (Tensor, np.ndarray))


def calling(tracer: Any, function: Callable[..., Any], instead: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """A function or method that is not converted, or what is called `instead`: containers that it is given, or belongs to, may
    be looked at, and changed."""
    owner = getattr(function, "__self__", None)

    def called(*args: Any, **kwargs: Any) -> Any:
        places = [content_of(c) for c in (owner, *args, *kwargs.values()) if isinstance(c, CHANGEABLE)]
        for place in places:
            tracer.opened(place.target)
        before = [place.read() for place in places]
        try:
            return (instead or function)(*args, **kwargs)
        finally:
            # Nobody tells what this code does: what the container holds before and after does. The change is made once more
            # in our sight.
            for place, old in zip(places, before, strict=True):
                now = place.read()
                if not _is_same(old, now):
                    place.write(old)
                    tracer.before(place.target)
                    place.write(now)
                    tracer.changed(place.target)

    return called


def _is_same(old: Any, now: Any) -> bool:
    """Whether the same objects stand in the same places."""
    if not isinstance(old, (list, tuple, dict)):
        return bool(old == now)  # members of a set, numbers
    return len(old) == len(now) and all(
        (k is m or k == m) and a is b for (k, a), (m, b) in zip(pairs(old), pairs(now), strict=True)
    )


class AtStart:
    """In what is written back: the item that stood there when the call began."""

    __slots__ = ("key",)

    def __init__(self, key: Any) -> None:
        self.key = key


def places_at_start(old: Any) -> dict[int, Any]:
    """Where the tensors and arrays of a container stood when the call began, by identity."""
    return {id(value): key for key, value in pairs(old) if is_array(value)}
