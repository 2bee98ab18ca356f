"""The outcome of a call, in a form in which that of a function and of its converted twin can be compared."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from gradtape.functions.autograph import convert
from gradtape.functions.autograph.tracebacks import strip

LOG: list[Any] = []
HARNESS = __file__


def note(value: Any) -> Any:
    """Leave a trace of having been evaluated."""
    LOG.append(value if not isinstance(value, FunctionType) else value.__qualname__)
    return value


@dataclass(frozen=True)
class Outcome:
    value: Any
    error: str | None
    frames: tuple[tuple[str, int, str], ...]
    log: tuple[Any, ...]


def outcome(function: Callable[..., Any], *args: Any) -> Outcome:
    LOG.clear()
    try:
        value = function(*args)
    except Exception as error:
        strip(error)
        entries = traceback.extract_tb(error.__traceback__)
        frames = tuple((e.filename, e.lineno or 0, e.name) for e in entries if e.filename != HARNESS)
        cause = f" from {error.__cause__!r}" if error.__cause__ is not None else ""
        return Outcome(None, f"{type(error).__name__}: {error}{cause}", frames, tuple(map(repr, LOG)))
    return Outcome(repr(value), None, (), tuple(map(repr, LOG)))


def assert_same(function: Callable[..., Any], *args: Any) -> None:
    """Same value, or same exception with the same text and frames; same evaluations in the same order."""
    expected = outcome(function, *args)
    converted = convert(function)
    assert converted is not function, "the function was not converted"
    got = outcome(converted, *args)
    assert got == expected
