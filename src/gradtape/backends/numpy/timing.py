"""A program that keeps the time of its operations.

What keeping it costs is counted with the next operation. Invariant: it computes what the plain program computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

from gradtape.backends.numpy.executable import Executable
from gradtape.ir.graph import Block, Operation


class TimedExecutable:
    """A program; `times` has the number of runs and the seconds of each operation in the last call."""

    __slots__ = ("_executable", "_last", "times")

    def __init__(self, block: Block, name: str) -> None:
        self.times: dict[Operation, tuple[int, float]] = {}
        self._last = 0.0
        self._executable = Executable(block, name, self._tick)

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        self.times.clear()
        self._last = perf_counter()
        return self._executable(*arrays)

    def _tick(self, operation: Operation, results: Sequence[Any]) -> None:
        now = perf_counter()
        count, seconds = self.times.get(operation, (0, 0.0))
        self.times[operation] = count + 1, seconds + now - self._last
        self._last = now
