"""A program that keeps the time of its operations: the same source with a call of `tick` after each of them.

What a tick costs is counted with the operation after it. Invariant: it computes what the plain program computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

from gradtape.backends.numpy.emit import emit
from gradtape.backends.numpy.executable import Executable
from gradtape.ir.graph import Block, Operation


class Ticker:
    """The seconds and the number of runs of each operation so far."""

    __slots__ = ("counts", "last", "seconds")

    def __init__(self, count: int) -> None:
        self.seconds = [0.0] * count
        self.counts = [0] * count
        self.last = 0.0

    def start(self) -> None:
        """Nothing has run yet."""
        self.seconds = [0.0] * len(self.seconds)
        self.counts = [0] * len(self.counts)
        self.last = perf_counter()

    def tick(self, place: int) -> None:
        """An operation has ended."""
        now = perf_counter()
        self.seconds[place] += now - self.last
        self.counts[place] += 1
        self.last = now


class TimedExecutable:
    """A compiled program; `ticker` has the times of the last call, in the order of `operations`."""

    __slots__ = ("_executable", "operations", "ticker")

    def __init__(self, block: Block, name: str) -> None:
        program = emit(block, name, timing=True)
        self.operations: Sequence[Operation] = program.timed
        self.ticker = Ticker(len(program.timed))
        program.namespace["tick"] = self.ticker.tick
        self._executable = Executable(program, name)

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        self.ticker.start()
        return self._executable(*arrays)
