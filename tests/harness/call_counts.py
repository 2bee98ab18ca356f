"""How many functions a call calls: a measure of its fixed cost that no clock disturbs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def calls_in(run: Callable[[], Any], *events: str) -> int:
    """How many of these events of the profiler (`call`: a function of Python's, `c_call`: one of C) happen in a run.

    The least of several runs: what other tests left behind (finalizers, callbacks of weak references) may end in any of them.
    """
    return min(_calls(run, events) for _ in range(5))


def _calls(run: Callable[[], Any], events: tuple[str, ...]) -> int:
    count = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in events

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(before)
    return count
