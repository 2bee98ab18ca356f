"""Room on Python's stack for the passes, which go into a tree as deep as an expression is long: `a + b + c + …` is one such.

Python counts calls, so that a recursion without end is an error; the passes end where the user's text does. The limit is one
for all threads: the first who needs more raises it, the last one puts it back.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

CALLS = 12  # of the passes, for one node inside another
DEEPEST = 1000  # nodes in one another: Python itself takes about three times that


class _Limit:
    """Python's limit, while some thread needs another."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.before = self.raised = self.users = 0


_LIMIT = _Limit()


@contextmanager
def room_for(depth: int) -> Iterator[None]:
    """Calls may nest as deep as a tree of this depth needs; refuses one that is deeper than any text."""
    if depth > DEEPEST:
        raise RecursionError(f"{depth} expressions in one another")
    needed = CALLS * depth + 200 + _calls()
    with _LIMIT.lock:
        if not _LIMIT.users:
            _LIMIT.before = _LIMIT.raised = sys.getrecursionlimit()
        _LIMIT.users += 1
        if needed > _LIMIT.raised:
            _LIMIT.raised = needed
            sys.setrecursionlimit(needed)
    try:
        yield
    finally:
        with _LIMIT.lock:
            _LIMIT.users -= 1
            if not _LIMIT.users and _LIMIT.raised != _LIMIT.before and sys.getrecursionlimit() == _LIMIT.raised:
                sys.setrecursionlimit(_LIMIT.before)


def _calls() -> int:
    count, frame = 0, sys._getframe()
    while frame.f_back is not None:
        count, frame = count + 1, frame.f_back
    return count
