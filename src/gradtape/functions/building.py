"""The first trace of a function that makes its variables: what it leaves behind for the trace that is kept.

`if not self.built: self.w = gt.Variable(…); self.built = True`: a trace that makes variables is thrown away and made again, as
in TensorFlow. What it wrote in Python stays, so that the second trace finds the variables and the flags that say so. A place
that the second trace writes as well (a counter of calls) is state of every call: it gets back what it had before the first.
Values of the program cannot stay, since nothing has run yet: a place that only the first trace set to one is refused, by name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from gradtape import tree
from gradtape.errors import InaccessibleTensorError
from gradtape.functions.staging.joins import tensors_in
from gradtape.functions.staging.places import Attribute, Cell, DictContent, Global, ListContent, Log, Place, SetContent
from gradtape.variables.variable import Variable

PYTHON = (Attribute, Cell, DictContent, Global, ListContent, SetContent)  # places that hold Python objects


class Build(Exception):  # noqa: N818  (not an error: control flow of the tracer)
    """A variable is made under a condition that is only a Python number: trace again with that number as it is."""


class InitialValueError(ValueError):
    """The initial value of a variable that a function makes follows from its inputs: only a call of Python can make it."""


class Building:
    """What the first trace of a function wrote and left."""

    def __init__(self) -> None:
        self.kept: dict[Any, tuple[Place, Any]] = {}
        self.lost: dict[Any, Place] = {}  # set to values of the program that is thrown away
        self.under_way = False  # numbers that the function writes are taken as they are: this trace is not the last
        self.done = False
        self.failed: Exception | None = None  # what a trace that staged Python's loops raised: now they are traced turn by turn

    def leave(self, log: Log, created: Sequence[Variable], from_outside: Callable[[Place], bool]) -> None:
        """The end of a trace: everything as before it, except what made the variables."""
        own = {id(v) for v in created}
        for key, (place, old) in reversed(list(log.entries.items())):
            now = place.read()
            if own and isinstance(place, PYTHON) and next(tensors_in(now), None) is None:
                if not any(id(leaf) in own for leaf in tree.flatten(now)):
                    self.kept[key] = place, old
            else:
                if own and isinstance(place, PYTHON) and from_outside(place):  # a list of the trace's own is made anew
                    self.lost[key] = place
                place.write(old)
        self.done |= bool(own)
        self.under_way = False

    def refuse(self, name: str, written: Collection[Any] = ()) -> InaccessibleTensorError | None:
        """The error for a tensor that the kept trace misses, which has written these places; None if it misses none."""
        missing = next((place for key, place in self.lost.items() if key not in written), None)
        if missing is None:
            return None
        for place, old in self.kept.values():  # the next call begins anew
            place.write(old)
        return InaccessibleTensorError(
            f"{missing.line}: {missing.label} is set to a tensor only where the function {name} makes its variables. That is "
            "traced once and never runs, so the tensor has no value to keep: set it at every call, make it of constants "
            "(gt.init_scope), or make it a variable: gt.Variable(..., trainable=False)"
        )

    def settle(self, written: Collection[Any]) -> None:
        """The trace that is kept has written these places too: they are as before the first one."""
        for key, (place, old) in self.kept.items():
            if key in written:
                place.write(old)
