"""Programs and the garbage collector: keeping it out of the way while programs are made, and taking apart what nobody needs.

An operation has its results and each result its operation, so a block that is no longer used is found by the collector only;
and while a program of n operations is traced, differentiated and optimised, the collector walks all of it again each time a
quarter has been added, and finds nothing: half of the time of a long program. So it rests meanwhile (`uncollected`), and
blocks between two passes are taken apart by hand (`discard`). Nothing here looks at what a program computes.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import wraps
from threading import Lock
from typing import ParamSpec, TypeVar

from gradtape.ir.graph import Block
from gradtape.ir.walk import blocks

P = ParamSpec("P")
R = TypeVar("R")


class uncollected:  # noqa: N801  (used as a decorator and as a context)
    """The garbage collector rests inside, in all threads; nested and concurrent uses count as one."""

    _lock = Lock()
    _users = 0
    _was_on = False

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def inside(*args: P.args, **kwargs: P.kwargs) -> R:
            with self:
                return function(*args, **kwargs)

        return inside

    def __enter__(self) -> None:
        with uncollected._lock:
            if not uncollected._users:
                uncollected._was_on = gc.isenabled()
                gc.disable()
            uncollected._users += 1

    def __exit__(self, *error: object) -> None:
        with uncollected._lock:
            uncollected._users -= 1
            if not uncollected._users and uncollected._was_on:
                gc.enable()


def discard(block: Block) -> None:
    """Take a block and its regions apart: only for one that nobody else has, no region of which is part of another."""
    for part in list(blocks(block)):
        for operation in part.operations:
            operation.results.clear()
            operation.operands.clear()
        part.params.clear()
