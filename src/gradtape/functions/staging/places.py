"""Places that traced code can write to, and the log of writes.

A `Place` is something assignable, whatever names lead to it: an attribute, a container's content, a tensor object's
version, a variable, a global, a closure cell, a TensorArray. Before converted code writes to one, its old content goes to
the log of the innermost staged construct; so a branch or loop body can be undone, and every place it wrote is its state.
Invariant: a place has one identity (`key`), independent of the name under which it was written.
"""

from __future__ import annotations

from array import array
from collections import deque
from types import FunctionType
from typing import Any

from gradtape.core.tensor import Tensor, box
from gradtape.functions.staging.staged_values import Undefined
from gradtape.functions.tokens import ObjectIdentity

MISSING = Undefined("what has no value")


class Place:
    """Something that can be written: `read` gives its content, `write` sets it without logging."""

    __slots__ = ("key", "label", "line")

    def __init__(self, key: Any, label: str) -> None:
        self.key = key
        self.label = label
        self.line = ""  # "file:line" of the first write

    def read(self) -> Any:
        raise TypeError(f"{type(self).__name__} cannot be read")

    def write(self, value: Any) -> None:
        raise TypeError(f"{type(self).__name__} cannot be written")

    def taken(self) -> Any:
        """Its content as a loop or branch that writes it takes it along."""
        return self.read()


class Attribute(Place):
    """`target.name`."""

    __slots__ = ("held", "name")

    def __init__(self, target: Any, name: str) -> None:
        super().__init__(("attribute", id(target), name), f"`{type(target).__name__}.{name}`")
        self.held = ObjectIdentity(target)  # weakly: a program must not keep the object alive whose method it is
        self.name = name

    @property
    def target(self) -> Any:
        return self.held.target

    def read(self) -> Any:
        target = self.target
        if target is None:
            return MISSING  # it is gone, and its attributes with it
        if isinstance(target, type) or hasattr(type(target), self.name):
            return getattr(target, self.name, MISSING)
        return getattr(target, "__dict__", {}).get(self.name, MISSING)  # not what a `__getattr__` would make up

    def write(self, value: Any) -> None:
        target = self.target
        if target is None:
            return
        if value is MISSING:
            if isinstance(target, type) and self.name in vars(target):
                delattr(target, self.name)
            else:  # past a `__delattr__` of the user's, as below
                getattr(target, "__dict__", {}).pop(self.name, None)
        else:
            # past a `__setattr__` of the user's, which may refuse or count: what is put back is no write of the user's program
            plain = type(target).__setattr__.__class__ is FunctionType and not isinstance(target, type)
            (object.__setattr__ if plain else setattr)(target, self.name, value)


class Content(Place):
    """What an object holds that is changed in place. `kind` begins its key, `kept` copies what it holds."""

    __slots__ = ("target",)
    kind = ""
    name = ""  # in messages, if that is not the kind
    kept: Any = None

    def __init__(self, target: Any) -> None:
        super().__init__((self.kind, id(target)), f"a {self.name or self.kind}")
        self.target = target

    def read(self) -> Any:
        return self.kept(self.target)

    def write(self, value: Any) -> None:
        self.target.clear()
        self.target.update(value)


class ListContent(Content):
    """All items of a list."""

    __slots__ = ()
    kind, kept = "list", list

    def write(self, value: Any) -> None:
        self.target[:] = value


class DictContent(Content):
    """All items of a dict."""

    __slots__ = ()
    kind, kept = "dict", dict


class SetContent(Content):
    """All members of a set."""

    __slots__ = ()
    kind, kept = "set", frozenset


class DequeContent(Content):
    """All items of a `collections.deque`."""

    __slots__ = ()
    kind, kept = "deque", tuple

    def write(self, value: Any) -> None:
        self.target.clear()
        self.target.extend(value)


class NumbersContent(Content):
    """All numbers of an `array.array` or a `bytearray`."""

    __slots__ = ()
    kind, name, kept = "numbers", "array of numbers", staticmethod(lambda target: target[:])

    def write(self, value: Any) -> None:
        self.target[:] = value


class TensorVersion(Content):
    """The version a tensor object stands for: `t[i] = v` gives it another."""

    __slots__ = ()
    kind = "tensor"

    def read(self) -> Any:
        target = self.target
        # another object with the same past: who kept the old version of a tensor still has its gradient
        return target.__copy__() if target.wraps else box(target._data, target._node)

    def write(self, value: Any) -> None:
        target = self.target
        # A write may turn a concrete tensor into a traced one. The object must stay: other names have it.
        if value.__class__ is not target.__class__:
            target.__class__ = value.__class__
        if value.wraps:
            target.level = value.level
        target._data = value._data
        target._node = value._node


class Lifted(Content):
    """A concrete tensor that becomes a value of the program, in place: undone like a write, but nobody's state."""

    __slots__ = ()
    kind, name = "lifted", "tensor"

    def read(self) -> Any:
        return self.target.__class__, self.target._data, self.target._node

    def write(self, value: Any) -> None:
        self.target.__class__, self.target._data, self.target._node = value


class VariableValue(Place):
    """The value a variable has in the program."""

    __slots__ = ("entry",)

    def __init__(self, entry: Any) -> None:
        super().__init__(("variable", id(entry.variable)), f"variable '{entry.variable.name}'")
        self.entry = entry

    def read(self) -> Any:
        return self.entry.tensor

    def write(self, value: Any) -> None:
        self.entry.tensor = value

    def taken(self) -> Any:
        return self.entry.variable.read()  # inside it is a version without a past: whoever watches it does so from here on


class Global(Place):
    """A name of a module."""

    __slots__ = ("name", "space")

    def __init__(self, space: dict[str, Any], name: str) -> None:
        super().__init__(("global", id(space), name), f"global `{name}`")
        self.space = space
        self.name = name

    def read(self) -> Any:
        return self.space.get(self.name, MISSING)

    def write(self, value: Any) -> None:
        if value is MISSING:
            self.space.pop(self.name, None)
        else:
            self.space[self.name] = value


class InnerCell(Place):
    """A variable of an enclosing function that is converted too: it may be made while a body is traced."""

    __slots__ = ("target",)

    def __init__(self, target: Any, name: str) -> None:
        super().__init__(("cell", id(target)), f"`{name}`")
        self.target = target

    def read(self) -> Any:
        try:
            return self.target.cell_contents
        except ValueError:
            return MISSING

    def write(self, value: Any) -> None:
        self.target.cell_contents = value
        if value is MISSING:
            del self.target.cell_contents


class Cell(InnerCell):
    """A variable of an enclosing function that is not converted: it is from outside."""

    __slots__ = ()


class ArrayContent(Content):
    """The content of a TensorArray."""

    __slots__ = ()
    kind, name = "array", "TensorArray"

    def read(self) -> Any:
        return self.target.snapshot()

    def write(self, value: Any) -> None:
        self.target.restore(value)


_CONTENTS = (
    (list, ListContent), (dict, DictContent), (Tensor, TensorVersion), (set, SetContent), (deque, DequeContent),
    ((array, bytearray), NumbersContent),
)  # fmt: skip


def content_of(value: Any) -> Any:
    """The place where a container or tensor keeps what it holds; None for what is not changed in place."""
    return next((place(value) for kind, place in _CONTENTS if isinstance(value, kind)), None)


class Log:
    """The writes of one staged construct (or of the whole function): place → content before its first write here."""

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: dict[Any, tuple[Place, Any]] = {}

    def note(self, place: Place) -> None:
        if place.key not in self.entries:
            self.entries[place.key] = (place, place.read())

    def undo(self) -> None:
        """Everything as it was before."""
        # newest first: a tensor that was lifted, then written, has two entries, and what it was at first must win
        for place, old in reversed(list(self.entries.values())):
            place.write(old)

    def absorb(self, inner: Log) -> None:
        """Writes of an inner construct are writes here too."""
        for key, entry in inner.entries.items():
            # the older content wins: it is what undoing the outer construct must bring back
            self.entries.setdefault(key, entry)
