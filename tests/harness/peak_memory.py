"""How much memory a program needs: a run that counts the bytes of the intermediate values alive at one time.

A buffer counts once, however many views of it there are, from the operation that makes it until nothing refers to it.
Lists count by their items. Parameters, constants, lone scalars and what an `impl` uses inside do not count. It is a count, the
same in every run; it says nothing about time or about the process.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from gradtape.backends.numpy.emit import emit
from gradtape.backends.numpy.executable import Executable
from gradtape.ir.graph import Block
from gradtape.ops.list_values import TensorList


def peak_bytes(block: Block, *arrays: Any) -> int:
    """The largest number of bytes of intermediate values alive at one time when the program runs on these arrays."""
    program = emit(block, "counted", counting=True)
    ledger = Ledger()
    for given in (*arrays, *program.namespace.values()):
        ledger.ignore(given)
    program.namespace["see"] = ledger.see
    Executable(program, "counted").run(list(arrays))
    return ledger.peak


class Ledger:
    """The buffers and lists alive now, and the most bytes they had so far."""

    def __init__(self) -> None:
        self.peak = 0
        self._bytes = 0
        self._buffers: dict[int, Any] = {}
        self._lists: dict[int, Any] = {}

    def ignore(self, value: Any) -> None:
        """Leave out a value the program was given."""
        for array in _arrays(value):
            self._buffers.setdefault(id(array), array)  # kept, so that the id stays its own

    def see(self, *values: Any) -> None:
        """Count new values; every operation of the program tells its results."""
        for value in values:
            if isinstance(value, TensorList):
                self._watch_list(value)
            else:
                for array in _arrays(value):
                    self._watch(array)
        total = self._bytes
        for reference in list(self._lists.values()):
            total += _scalar_bytes(reference())
        self.peak = max(self.peak, total)

    def _watch(self, array: Any) -> None:
        key, size = id(array), array.nbytes
        if key in self._buffers:
            return

        def gone(_: Any) -> None:
            del self._buffers[key]
            self._bytes -= size

        self._buffers[key] = weakref.ref(array, gone)
        self._bytes += size

    def _watch_list(self, values: TensorList) -> None:
        key = id(values)
        if key not in self._lists:
            self._lists[key] = weakref.ref(values, lambda _: self._lists.pop(key))
            for array in _arrays(values):  # items an op made together with the list
                self._watch(array)


def _arrays(value: Any) -> list[Any]:
    """The arrays that own the memory of a value."""
    if isinstance(value, TensorList):
        return [array for item in value for array in _arrays(item)]
    if not isinstance(value, np.ndarray):
        return []
    while isinstance(value.base, np.ndarray):
        value = value.base
    return [value]


def _scalar_bytes(values: Any) -> int:
    """The bytes of a list's scalars, which nothing else counts; items are of one type."""
    if values and isinstance(values[0], np.generic):
        return len(values) * values[0].nbytes
    return 0
