"""Python objects that give something else each time they are asked: what a trace may not use up or freeze without a word.

A program is traced once. An iterator from outside that the trace advances would give its first items at every call, so it is
replaced by a `Consumed`, which says so with the line at the first use, whoever uses it. Python's and NumPy's random numbers and
clocks are frozen, as in TensorFlow: a warning names the line, at each trace.
"""

from __future__ import annotations

import random
import time
import warnings
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from gradtape.errors import AutographWarning, InvalidArgumentError
from gradtape.ops.record import user_location
from gradtape.ops.tensor import Tensor, TensorLike

CLOCKS = frozenset(
    getattr(time, name + suffix) for name in ("time", "perf_counter", "monotonic", "process_time") for suffix in ("", "_ns")
)
SOURCES = (random.Random, np.random.Generator, np.random.RandomState)
ADVANCING = frozenset({"send", "throw", "read", "readline", "readlines", "close"})


class Consumed:
    """Stands for an iterator from outside while a function is traced."""

    __slots__ = ("iterator", "label")

    def __init__(self, iterator: Any, label: str) -> None:
        self.iterator = iterator
        self.label = label

    def _refuse(self) -> Any:
        raise InvalidArgumentError(
            f"{user_location()}: {self.label} is a {type(self.iterator).__name__}, an iterator made outside the function. A "
            "gt.function is traced once, so its items would be those of the first call for ever: take the item outside, "
            "`f(next(it))`, or give the function the list or tensor to go over"
        )

    def __iter__(self) -> Any:
        return self._refuse()

    def __next__(self) -> Any:
        return self._refuse()

    def __getattr__(self, name: str) -> Any:
        return self._refuse() if name in ADVANCING else getattr(self.iterator, name)

    def __eq__(self, other: object) -> bool:
        return other is self or other is self.iterator

    def __hash__(self) -> int:
        return hash(self.iterator)


def consumable(value: Any, label: str) -> Any:
    """A value from outside; an iterator is one that refuses to be used. Objects of a user's class stay themselves: they may be
    more than an iterator."""
    if value.__class__ in _NEVER or not isinstance(value, Iterator) or isinstance(value, (Consumed, Tensor, TensorLike)):
        return value
    return value if type(value).__next__.__class__ is FunctionType else Consumed(value, label)


def refuse_advancing(iterator: Any, external: Any) -> None:
    """A loop or `next` is about to advance something: not an object from outside."""
    if id(iterator) in external and isinstance(iterator, Iterator) and not isinstance(iterator, (Tensor, TensorLike)):
        Consumed(iterator, "what is advanced here")._refuse()


_NEVER = frozenset({bool, int, float, str, list, tuple, dict, set, type(None), FunctionType, type, ModuleType})  # asked first
_SHARED = (random.random.__self__, np.random.rand.__self__)  # type: ignore[attr-defined]


def warn_frozen(callee: Any, external: Any) -> None:
    """A function that gives another number at each call is called while a function is traced. Generators made inside the
    function are not meant: they begin anew at each call."""
    source = getattr(callee, "__self__", None)
    if isinstance(source, ModuleType) or source is None:
        frozen = callee.__hash__ is not None and callee in CLOCKS
    else:
        frozen = isinstance(source, SOURCES) and (id(source) in external or any(source is shared for shared in _SHARED))
    if not frozen:
        return
    path, _, number = user_location().rpartition(":")
    warnings.warn_explicit(
        f"`{getattr(callee, '__name__', callee)}` is called while a gt.function is traced: every call of the function will get "
        "the number of this first one. Use gt.random, or pass the number as an argument",
        AutographWarning, path, int(number) if number.isdigit() else 1,
    )  # fmt: skip
