"""How a program finds what it captured when it is called: an item of a container, a variable. Nothing is kept alive by that."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from gradtape.functions.staging.places import Content


class ItemReader:
    """Reads an item of a container from outside when the program is called."""

    __slots__ = ("key", "place")

    def __init__(self, place: Any, key: Any) -> None:
        self.place = place
        self.key = key

    def __call__(self) -> Any:
        place = self.place
        return (place.target if isinstance(place, Content) else place.read())[self.key]


def held(variable: Any) -> Callable[[], Any]:
    """Finds a variable without keeping it alive: whoever calls the function has it."""
    reference = weakref.ref(variable)

    def find() -> Any:
        variable = reference()
        if variable is None:
            raise RuntimeError("a variable this function used is gone")
        return variable

    return find


def reader(variable: Any) -> Callable[[], Any]:
    """Reads a variable."""
    find = held(variable)
    return lambda: find().read_own()
