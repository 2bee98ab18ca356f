"""Datasets in traced loops: `for x in dataset` of a function is a loop of the program that asks Python for each element.

A pass is opened when the program comes to the loop. Asking is an effect of the program, so it happens once for each turn and in
order, whatever is differentiated. A pass that a failing program leaves behind is closed with the next ones of its loop.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from threading import Lock
from typing import Any

import numpy as np

from gradtape.core.dispatch import convert
from gradtape.data.data_iterators import tensor_specs
from gradtape.data.elements import Leaves
from gradtape.data.streams import Stage, Stream
from gradtape.functions.staging.iterables import Puller
from gradtape.ir.types import TensorSpec
from gradtape.tape.python_functions import numpy_function

_LEFT_OPEN = 8  # passes of one loop that did not come to their end, at most


class LoopSource(Puller):
    """The passes of one loop of a program: opened, asked and closed by number."""

    def __init__(self, stage: Stage, wrap: Callable[[Any], Any]) -> None:
        self.stage, self.wrap = stage, wrap
        self.specs = tensor_specs(stage.structure)
        self.passes: dict[int, Stream] = {}
        self.elements: dict[int, Leaves] = {}
        self.numbers, self.lock = itertools.count(), Lock()
        # where the program opens a pass
        self.handle = numpy_function(self._open, [], TensorSpec((), "int64"))

    def more(self, going: Any) -> Any:
        """Whether there is another element, which is then the current one; without `going`, the pass is closed."""
        return numpy_function(self._advance, [self.handle, convert(going)], TensorSpec((), "bool"))

    def item(self) -> Any:
        """The current element."""
        return self.stage.structure.pack(tuple(numpy_function(self._current, [self.handle], self.specs)))

    # -- when the program runs -----------------------------------------------------------------------------------------

    def _open(self) -> Any:
        number = next(self.numbers)
        with self.lock:
            left = [self.passes.pop(old) for old in list(self.passes)[: len(self.passes) - _LEFT_OPEN]]
        for stream in left:
            stream.close()
        stream = self.stage.open()
        with self.lock:
            self.passes[number] = stream
        return np.int64(number)

    def _advance(self, handle: Any, going: Any) -> Any:
        number = int(handle)
        try:
            if going:
                self.elements[number] = next(self.passes[number])
                return np.True_
        except StopIteration:
            pass
        except BaseException:
            self._close(number)
            raise
        self._close(number)
        return np.False_

    def _current(self, handle: Any) -> list[Any]:
        return list(self.elements.pop(int(handle)))

    def _close(self, number: int) -> None:
        with self.lock:
            stream = self.passes.pop(number, None)
        self.elements.pop(number, None)
        if stream is not None:
            stream.close()
