"""Variables that a call reads, computes with and assigns: no other thread assigns them meanwhile, so no update is lost.

Every variable has a lock. An eager update holds that of its variable; a call of a compiled function holds those of all it
assigns, from reading them until they are assigned, taken in one order for all programs. Invariant: who holds a lock never
waits for another one for ever. Python code that a program calls may update any variable; there the order cannot be kept, so
it waits a while only: an update that may be lost is better than threads that wait for each other.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

PATIENCE = 5.0  # seconds


class _Holding(threading.local):
    """How many locks of programs this thread holds."""

    count = 0


HOLDING = _Holding()


def acquired(lock: threading.RLock) -> bool:
    """Whether the lock is held now; False only if this thread holds others and has waited long enough."""
    if lock.acquire(False):
        return True
    return bool(lock.acquire(timeout=PATIENCE) if HOLDING.count else lock.acquire())


class Exclusive:
    """The locks of the variables that a program assigns; not the variables, which may go."""

    __slots__ = ("_locks",)

    def __init__(self, variables: Sequence[Any]) -> None:
        # One order for all programs: two calls that assign the same variables never wait for each other in a circle.
        self._locks = sorted([variable._lock for variable in variables], key=id)

    def run(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """The call while no other thread assigns these variables."""
        held = [lock for lock in self._locks if lock.acquire(False) or acquired(lock)]
        HOLDING.count += len(held)
        try:
            return call(*args, **kwargs)
        finally:
            HOLDING.count -= len(held)
            for lock in held:
                lock.release()

    def alone(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """`run` of a call that runs no Python code of users, in the shortest way."""
        if len(self._locks) > 1:
            return functools.partial(self.run, call)
        (lock,) = self._locks

        def run_alone(*args: Any, **kwargs: Any) -> Any:
            held = lock.acquire(False) or acquired(lock)
            try:
                return call(*args, **kwargs)
            finally:
                if held:
                    lock.release()

        return run_alone


def exclusive(variables: Sequence[Any]) -> Exclusive | None:
    """The variables of a program that must be held while it runs, if it assigns any."""
    return Exclusive(variables) if variables else None
