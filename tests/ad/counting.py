"""What a program does when it runs: how many operations, and how many bytes of new memory they write. Counts, no clocks.

An array counts when an operation gives one that was not there before: views and updates in place give none. A new list counts
its pointers. The numbers are the same in every run.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import gradtape as gt
from gradtape.ad.reverse import split
from gradtape.backends.numpy.emit import emit
from gradtape.backends.numpy.executable import Executable
from gradtape.ir.graph import Block
from gradtape.ops.list_values import TensorList
from gradtape.passes.pipeline import prepared


class Counts(NamedTuple):
    """Operations executed, and bytes of new memory."""

    operations: int
    bytes: int

    def __add__(self, other: Any) -> Counts:
        return Counts(self.operations + other.operations, self.bytes + other.bytes)


class _Counter:
    def __init__(self, given: Any) -> None:
        self.operations = 0
        self.bytes = 0
        self.known: dict[int, Any] = {}
        for value in given:
            self._new(value)

    def see(self, *values: Any) -> None:
        self.operations += 1
        self.bytes += sum(self._new(value) for value in values)

    def _new(self, value: Any) -> int:
        while isinstance(value, np.ndarray) and isinstance(value.base, np.ndarray):
            value = value.base
        if not isinstance(value, (np.ndarray, TensorList)):
            return value.nbytes if isinstance(value, np.generic) else 0
        if id(value) in self.known:
            return 0
        key = id(value)
        self.known[key] = weakref.ref(value, lambda _: self.known.pop(key))
        return 8 * len(value) if isinstance(value, TensorList) else value.nbytes


def run(block: Block, arrays: list[Any]) -> tuple[tuple[Any, ...], Counts]:
    """The results of a program, after all passes, and what it took."""
    made = emit(prepared(block), "counted", counting=True)
    counter = _Counter([*arrays, *made.namespace.values()])
    made.namespace["see"] = counter.see
    found = Executable(made, "counted").run(list(arrays))
    return found, Counts(counter.operations, counter.bytes)


def gradient_counts(f: Callable[..., Any], *args: Any) -> tuple[Counts, Counts, Counts]:
    """Of a function with one floating result: itself, and its halves with respect to its first argument."""
    tensors = [gt.constant(a) for a in args]
    block = gt.function(f).get_concrete_function(*tensors)._traced.program.block
    arrays = [t._data for t in tensors]
    outs, plain = run(block, arrays)
    halves = split(block, {0}, [0])
    outs, forward = run(halves.forward, arrays)
    _, backward = run(halves.backward, [*outs[len(block.results) :], np.ones_like(outs[0])[()]])
    return plain, forward, backward
