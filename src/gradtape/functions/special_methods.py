"""Special methods of the user's classes, which Python calls by itself: `a * b`, `if a`, `for v in a`, `float(a)`, sorting.

Converted code converts what it calls. But operators, tests, loops, conversions and builtins look up a method on its class and
call it: what it reads would not be guarded, what it writes would not be noted. So while a function is traced, the special
methods of each class it has met are replaced, on the class, by functions that run the converted form in the thread that traces,
and the user's own everywhere else. Invariant: when the last trace that met a class is over, the class is as it was.
"""

from __future__ import annotations

import functools
import threading
from contextvars import ContextVar
from types import FunctionType
from typing import Any

from gradtape.functions.autograph import policy
from gradtape.trace.effects import active

ORIGINAL = "ag__original"
# how objects are made and go, and how attributes are found: converted code sees to these itself, and Python needs them itself;
# how an object is an array: such are inputs, read at each call
_LEFT = frozenset({
    "__array__", "__dlpack__", "__dlpack_device__", "__buffer__",
    "__new__", "__init__", "__del__", "__getattr__", "__getattribute__", "__setattr__", "__delattr__",
    "__get__", "__set__", "__delete__", "__set_name__", "__init_subclass__", "__class_getitem__", "__subclasshook__",
    "__instancecheck__", "__subclasscheck__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__",
    "__getnewargs__", "__sizeof__", "__dir__", "__annotate__",
})  # fmt: skip
# exceptions by which a method that Python called answers it: whether it does so cannot wait until the program runs
_ANSWERS: dict[str, tuple[type[Exception], ...]] = {"__next__": (StopIteration,), "__getitem__": (IndexError,)}
ANSWERS: ContextVar[tuple[type[Exception], ...]] = ContextVar("answers", default=())
_met: dict[type, int] = {}  # classes whose methods are replaced, and for how many traces
_lock = threading.RLock()


class MetClasses:
    """The classes that one trace has met."""

    def __init__(self) -> None:
        self._classes: set[type] = set()

    def meet(self, cls: type) -> None:
        """An object of this class is in the hands of converted code."""
        # up to `object`, which is everybody's: a method may be inherited from any of them
        for base in cls.__mro__[:-1]:
            if base in self._classes:
                return  # and so are those behind it
            self._classes.add(base)
            with _lock:
                _met[base] = _met.get(base, 0) + 1
                if _met[base] == 1:
                    _replace(base)

    def close(self) -> None:
        """The trace is over."""
        with _lock:
            for base in self._classes:
                _met[base] -= 1
                if not _met[base]:
                    del _met[base]
                    _restore(base)
        self._classes.clear()


def _replace(cls: type) -> None:
    for name, method in list(vars(cls).items()):
        special = name.startswith("__") and name.endswith("__") and name not in _LEFT
        users = method.__class__ is FunctionType and (
            policy.of_user(method.__code__.co_filename)
            or (policy.passes_on(method.__code__) and name != "__repr__")  # messages ask for it
        )
        if special and users:
            # (past a metaclass of the user's, which may have a `__setattr__` of its own)
            type.__setattr__(cls, name, _standing_in(method))


def _restore(cls: type) -> None:
    for name, method in list(vars(cls).items()):
        if (original := getattr(method, "__dict__", {}).get(ORIGINAL)) is not None:
            type.__setattr__(cls, name, original)


def original(function: Any) -> Any:
    """The user's own method, where another one stands in for it."""
    return getattr(function, "__dict__", {}).get(ORIGINAL, function) if function.__class__ is FunctionType else function


def _look_into(values: tuple[Any, ...]) -> None:
    tracer = active()
    for value in values:
        if id(value) in tracer.external:
            for name, part in list(getattr(value, "__dict__", {}).items()):
                tracer.attr(value, name, part)


def _standing_in(method: FunctionType) -> Any:
    @functools.wraps(method)
    def special(*args: Any, **kwargs: Any) -> Any:
        if (tracer := active()) is None:
            return method(*args, **kwargs)
        converted = tracer.special(method)
        if converted is method:  # it has no source, as what `dataclasses` writes: it may read all there is
            _look_into(args)
        token = ANSWERS.set(_ANSWERS.get(method.__name__, ()))
        try:
            return converted(*args, **kwargs)
        finally:
            ANSWERS.reset(token)

    del special.__wrapped__  # it is the method, in another form
    special.__dict__[ORIGINAL] = method
    return special
