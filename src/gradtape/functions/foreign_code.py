"""While a Python loop is tried as one loop of the program, no code of the user's runs that is not converted.

Converted code notes what it writes. But Python calls functions by itself: operators, conversions, descriptors, iterators,
`__post_init__`, callbacks of sorting. What such a function changes, nobody is told. So the interpreter reports each call in the
thread that traces; what libraries may do is said in `foreign_calls.py`. Invariant: a call is refused before it has begun.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import FrameType
from typing import Any, TypeVar

from gradtape.functions.autograph import policy
from gradtape.functions.autograph.code_registry import ENTRIES
from gradtape.trace.effects import refuse_in_trial

# what the standard library writes for a class: it does nothing but to give attributes to a new object
GENERATED = ("__create_fn__.<locals>.", "<lambda>")
T = TypeVar("T")
_steady = lru_cache(maxsize=4096)(policy.of_libraries)


@contextmanager
def only_converted() -> Iterator[None]:
    """Refuse the loop under trial if any other Python code is about to run in it."""
    # There is one such hook for each thread: whoever has it now, a profiler or a debugger, gets it back.
    others: Any = sys.getprofile()
    suspend, resume = getattr(others, "disable", None), getattr(others, "enable", None)  # a profiler written in C
    if suspend is not None:
        suspend()
    sys.setprofile(_called)
    try:
        yield
    finally:
        sys.setprofile(None if resume is not None else others)
        if resume is not None:
            resume()


def unwatched(function: Callable[..., T], *arguments: Any) -> T:
    """Our own code, where it runs long: nothing of the user's is called in it."""
    if sys.getprofile() is not _called:
        return function(*arguments)
    sys.setprofile(None)
    try:
        return function(*arguments)
    finally:
        sys.setprofile(_called)


def _called(frame: FrameType, event: str, about: Any) -> None:
    code = frame.f_code
    # "call": a Python function begins or a generator goes on; functions of C ("c_call") are judged by `foreign_calls`
    if event == "call" and not _steady(code.co_filename):
        entry, generated = ENTRIES.get(id(code)), code.co_filename == "<string>" and code.co_qualname.startswith(GENERATED)
        if (entry is None or not entry.converted) and not generated and not _importing(frame):
            refuse_in_trial(f"`{code.co_qualname}` is called by Python itself, which may do something else in each turn")


def _importing(frame: FrameType | None) -> bool:
    """Whether a library is imported, as it is when it is first needed: what finds, loads and is a module of it runs once."""
    while frame is not None and (name := frame.f_code.co_filename) != "<frozen importlib._bootstrap>":
        if frame.f_code.co_name == "<module>" and name != "<string>" and not _steady(name):  # a module of the user's
            return False
        frame = frame.f_back
    return frame is not None
