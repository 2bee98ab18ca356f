"""Values of a checkpoint that was restored before the variables they belong to were made.

As in TensorFlow, `restore` may come first: what no object took is kept, and a variable that is made later gets its
value when it is found below the restored objects. Nobody tells us when a variable is put into a list or an object, so the
question is asked when it is needed: until it is answered, a new variable is of a class whose stored value looks itself up
first. Without such a restore variables pay nothing; a restore is forgotten when its values are taken or its objects gone.
Which names there are, and what fits where, is decided in `checkpoint.py`.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from gradtape.core.tensor import Tensor
from gradtape.variables.variable import NEWCOMERS, Variable

Names = Callable[[dict[str, Any], Variable], Iterator[str]]  # under which names objects lead to a variable
Fit = Callable[[Variable, str, Any], Tensor]  # the value as this variable holds it, or an error


def saved_objects(checkpoint: object) -> dict[str, Any]:
    """What a checkpoint saves: its arguments, and attributes that were set later, under any name but those of its methods."""
    return {k: v for k, v in sorted(vars(checkpoint).items()) if k != "save_counter" and not k.startswith("_")}


class LateRestore:
    """What is left of one file, and the objects it was restored into."""

    def __init__(self, owner: Any, objects: dict[str, Any], values: dict[str, Any], names: Names, fit: Fit) -> None:
        self.values = values
        self._owner = weakref.ref(owner)  # the checkpoint: it may get more objects
        self._objects = {name: _reference(item) for name, item in objects.items()}
        self._names = names
        self._fit = fit
        if values:
            _OUTSTANDING.append(self)
            if _await not in NEWCOMERS:
                NEWCOMERS.append(_await)

    def forget(self) -> None:
        """Nothing more is given out; with the last one, new variables are plain again."""
        if self in _OUTSTANDING:
            _OUTSTANDING.remove(self)
        if not _OUTSTANDING and _await in NEWCOMERS:
            NEWCOMERS.remove(_await)

    def value_for(self, variable: Variable) -> Tensor | None:
        """The value that belongs to a variable, if it is found below the objects by now."""
        owner = self._owner()
        objects = {name: reference() for name, reference in self._objects.items()}
        alive = {name: item for name, item in objects.items() if item is not None}
        alive |= saved_objects(owner) if owner is not None else {}
        if (not alive and owner is None) or not self.values:
            self.forget()
            return None
        for name in self._names(alive, variable):
            if name in self.values:
                value = self._fit(variable, name, self.values[name])  # an error leaves the value here: it is told again
                del self.values[name]
                return value
        return None


_OUTSTANDING: list[LateRestore] = []


def _reference(item: object) -> Callable[[], Any]:
    """A restore does not keep a model alive; lists and dicts, which cannot be referred to weakly, are kept."""
    try:
        return weakref.ref(item)
    except TypeError:
        return lambda: item


def _await(variable: Variable) -> None:
    # The class of this one object changes, so that variables which await nothing keep the quick access of a slot.
    kind: Any = type(variable)
    variable.__class__ = _awaiting(kind)


@functools.cache
def _awaiting(kind: type[Variable]) -> Any:
    """The class of variables of this kind that still look for their value in a checkpoint."""
    slot: Any = Variable.__dict__["_stored"]

    def read(self: Variable) -> Tensor:
        for restore in tuple(_OUTSTANDING):
            value = restore.value_for(self)
            if value is not None:
                slot.__set__(self, value)
                self.__class__ = kind
                break
        if not _OUTSTANDING:
            self.__class__ = kind
        return slot.__get__(self)

    def write(self: Variable, tensor: Tensor) -> None:
        read(self)  # a restored value comes first, and is then replaced
        slot.__set__(self, tensor)

    return type(kind.__name__, (kind,), {"__slots__": (), "__module__": kind.__module__, "_stored": property(read, write)})
