"""Python objects that give something else each time they are asked: what a trace may not use up or freeze without a word.

A program is traced once. An iterator from outside that the trace advances would give its first items at every call, so it is
replaced by a `Consumed`, which says so with the line at the first use, whoever uses it. Random numbers of Python and NumPy,
clocks, dates, queues, standard input and the environment are frozen, as in TensorFlow: a warning names the line, at each
trace. `FROZEN` is the one table of what is known to be so, by name: nothing is imported for it.
"""

from __future__ import annotations

import os
import random
import sys
import warnings
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from gradtape.core.record import user_location
from gradtape.core.tensor import Readable, Tensor
from gradtape.errors import AutographWarning, InvalidArgumentError
from gradtape.trace.effects import active

_QUEUE = ("empty", "full", "get", "get_nowait", "qsize")
# modules with functions, and classes with methods, that give something else each time
FROZEN: dict[str, tuple[str, ...]] = {
    "time": (
        "ctime", "gmtime", "localtime", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time",
        "process_time_ns", "thread_time", "thread_time_ns", "time", "time_ns",
    ),
    "builtins": ("input",), "os": ("getenv",), "posix": ("getpid", "listdir", "urandom"),
    "secrets": ("choice", "randbelow", "randbits", "token_bytes", "token_hex", "token_urlsafe"),
    "datetime.datetime": ("now", "today", "utcnow"), "datetime.date": ("today",),
    "queue.Queue": _QUEUE, "_queue.SimpleQueue": _QUEUE, "multiprocessing.queues.Queue": _QUEUE,
    "os._Environ": ("get",), "_io.StringIO": ("getvalue", "read", "tell"), "_io.BytesIO": ("getvalue", "read", "tell"),
}  # fmt: skip
# and those that only tell somebody something, or wait: a program does so at each call, in its place among the other effects
_LEVELS = ("critical", "debug", "error", "exception", "info", "log", "warning")
_WRITING = ("flush", "write", "writelines")
BAR_METHODS = (
    "clear", "close", "display", "refresh", "reset", "set_description", "set_description_str", "set_postfix", "set_postfix_str",
    "unpause", "update",
)  # fmt: skip
TELLING: dict[str, tuple[str, ...]] = {
    "logging": _LEVELS, "logging.Logger": _LEVELS, "logging.LoggerAdapter": _LEVELS, "time": ("sleep",),
    "_io.StringIO": _WRITING, "_io.TextIOWrapper": _WRITING, "_io.BytesIO": _WRITING, "_io.BufferedWriter": _WRITING,
    "queue.Queue": ("put", "put_nowait"), "_queue.SimpleQueue": ("put", "put_nowait"), "_csv.writer": ("writerow", "writerows"),
    "tqdm.std.tqdm": BAR_METHODS, "gradtape.functions.staging.progress.Bar": BAR_METHODS,
}  # fmt: skip
SOURCES = frozenset({  # of random numbers
    "random.Random", "numpy.random._generator.Generator", "numpy.random.mtrand.RandomState",
    "numpy.random.bit_generator.BitGenerator",
})  # fmt: skip
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
    if value.__class__ in _NEVER or not isinstance(value, Iterator) or isinstance(value, (Consumed, Tensor, Readable)):
        return value
    return value if type(value).__next__.__class__ is FunctionType else Consumed(value, label)


def refuse_advancing(iterator: Any, external: Any) -> None:
    """A loop or `next` is about to advance something: not an object from outside."""
    own = type(iterator).__dict__.get("__next__").__class__ is FunctionType  # of the user's class: converted like any method
    if id(iterator) in external and isinstance(iterator, Iterator) and not own and not isinstance(iterator, (Tensor, Readable)):
        (iterator if isinstance(iterator, Consumed) else Consumed(iterator, "what is advanced here"))._refuse()


_NEVER = frozenset({bool, int, float, str, list, tuple, dict, set, type(None), FunctionType, type, ModuleType})  # asked first


def warn_frozen(callee: Any, external: Any) -> None:
    """A function that gives something else at each call is called while a function is traced. Objects made inside the function
    (a generator, a queue) are not meant: they begin anew at each call."""
    source, name = getattr(callee, "__self__", None), getattr(callee, "__name__", "")
    if source is None or isinstance(source, ModuleType):
        frozen = name in FROZEN.get(getattr(callee, "__module__", None) or "", ())
    elif draws(type(source)):
        shared = (random.random.__self__, np.random.rand.__self__)  # type: ignore[attr-defined]
        frozen = id(source) in external or any(source is each for each in shared)
    elif isinstance(source, type):
        frozen = _gives(source, name)
    else:
        frozen = _gives(type(source), name) and (source is os.environ or _is_outside(source, external))
    if not frozen:
        return
    if id(source) in active().told:
        raise InvalidArgumentError(
            f"{user_location()}: `{name}` would read, while the function is traced, what it writes when it runs. Read it "
            "outside the function"
        )
    path, _, number = user_location().rpartition(":")
    warnings.warn_explicit(
        f"`{getattr(callee, '__name__', callee)}` is called while a gt.function is traced: every call of the function will get "
        "what this first one got. Use gt.random for random numbers, pass the value as an argument, or call Python at each run "
        "with gt.numpy_function",
        AutographWarning, path, int(number) if number.isdigit() else 1,
    )  # fmt: skip


def tells(callee: Any, external: Any) -> bool:
    """Whether a function only tells the world outside something, of which the program hears no more."""
    source, name = getattr(callee, "__self__", None), getattr(callee, "__name__", "")
    if source is None or isinstance(source, ModuleType):
        return name in TELLING.get(getattr(callee, "__module__", None) or "", ())
    # a buffer or queue made inside the function is the function's own; loggers belong to the process, however they are got,
    # and bars to its screen
    shared = (
        type(source).__module__ in ("logging", "gradtape.functions.staging.progress")
        or source is sys.stdout
        or source is sys.stderr
    )
    outside = shared or _is_outside(source, external)
    if outside and _gives(type(source), name, TELLING):
        active().told.add(id(source))
        return True
    return False


def draws(cls: type) -> bool:
    """Whether objects of a class are sources of random numbers."""
    return any(f"{base.__module__}.{base.__qualname__}" in SOURCES for base in cls.__mro__)


def _is_outside(source: Any, external: Any) -> bool:
    """Whether an object is from outside, be it behind a `Consumed`: a file is an iterator, too."""
    return id(source) in external or any(v.__class__ is Consumed and v.iterator is source for v in external.values())


def _gives(cls: type, method: str, table: dict[str, tuple[str, ...]] = FROZEN) -> bool:
    return any(method in table.get(f"{base.__module__}.{base.__qualname__}", ()) for base in cls.__mro__)
