"""What the home test runs: a function of tensors with one input for it, from the zoo or from a random generator.

A case says nothing about where its tensors live (`homes.py`) or how it is run (`modes.py`).
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

import gradtape as gt
from tests.zoo.registry import Entry, Instance, arguments

_NUMBERS = count()


@dataclass(frozen=True)
class Case:
    """A function of tensors: `make` gives a fresh copy of it, `given` its input in the zoo's notation."""

    name: str
    make: Callable[[], Instance]
    given: tuple[Any, ...]
    order: int  # how often it is differentiated
    text: str = ""  # the source, for messages; empty where the name says it
    again: Callable[[str], Case] | None = None  # the same with another text, where it may be made shorter

    def __str__(self) -> str:
        return self.name

    def arrays(self) -> list[Any]:
        """The numbers of its tensors, in the order of the structure of arguments."""
        return [np.asarray(leaf.numpy()) for leaf in gt.nest.flatten(list(arguments(self.given))) if gt.is_tensor(leaf)]

    def packed(self, tensors: list[Any]) -> list[Any]:
        """The arguments with these tensors."""
        rest = iter(tensors)
        return gt.nest.map_structure(lambda leaf: next(rest) if gt.is_tensor(leaf) else leaf, list(arguments(self.given)))


def loaded(text: str) -> dict[str, Any]:
    """The names of a module with this text, its source known to `linecache`."""
    name = f"<case {next(_NUMBERS)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space: dict[str, Any] = {"__name__": "cases"}
    exec(compile(text, name, "exec"), space)
    return space


def of_text(name: str, text: str, given: tuple[Any, ...], variable: Any = None, order: int = 2) -> Case:
    """A case of the function `program` in a text; with `variable`, its last parameter is a variable of these numbers."""
    function = loaded(text)["program"]

    def make() -> Instance:
        if variable is None:
            return Instance(function)
        state = gt.Variable(variable)
        return Instance(lambda *args: function(*args, state), variables=(state,))

    return Case(name, make, given, order, text, lambda shorter: of_text(name, shorter, given, variable, order))


def of_entry(entry: Entry) -> Case:
    return Case(entry.name, entry.make, entry.inputs[0], entry.order)
