"""Who is told, while a function is traced, what converted code reads and writes.

`active()` is None when nothing is traced: converted code then does the plain thing at once. Otherwise it has the methods
`outer(scope, name, value)`, `attr(object, name, value)` and `item(container, key, value)`, each called after a read and
returning the value to use, `converted(function)`, and, called before a write, `before(container)` and `note(place)` (of a name
or attribute: `functions/staging/places.py`); `changed(container)` is called after a list or dict was written (by a method of
it: only if `follows_changes`); `same(a, b)` is `a is b`. The key of a read of a whole container is `LENGTH` (its length) or
`KEYS` (the tuple of its keys or members).
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

LENGTH: Final = type("LENGTH", (), {"__slots__": (), "__repr__": lambda self: "LENGTH"})()
KEYS: Final = type("KEYS", (), {"__slots__": (), "__repr__": lambda self: "KEYS"})()

TRACER: ContextVar[Any] = ContextVar("gradtape_effects", default=None)

active = TRACER.get


@dataclass(slots=True)  # machine code reads the slot
class Traces:
    """How many functions are being traced now, in all threads: while none is, variables need not ask."""

    count: int = 0


TRACING_VARIABLES = Traces()


def trying() -> bool:
    """Whether a Python loop is being tried as a loop of the program: its Python numbers must stay what they are to Python."""
    tracer = active()
    return tracer is not None and tracer.trials.depth > 0


def refuse_in_trial(cause: str) -> None:
    """What is done now needs Python to know which turn it is: if a loop around is tried, it is traced turn by turn."""
    tracer = active()
    if tracer is not None:
        tracer.trials.refuse(cause)


def converted(function: Callable[..., Any]) -> Any:
    """A user's function that the library is about to call: converted like the code around it while something is traced."""
    tracer = active()
    return function if tracer is None or not callable(function) else tracer.converted(function)
