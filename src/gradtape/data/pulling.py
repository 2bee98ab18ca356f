"""Datasets in traced loops: `for x in dataset` of a function is a loop of the program that asks Python for each element.

A pass is opened when the program comes to the loop. Asking is an effect of the program, so it happens once for each turn and in
order, whatever is differentiated. Elements that no code of the user's makes are handed out in blocks, through which machine
code goes by itself; others one by one, as reading ahead could be seen. A pass belongs to the run of the program that opened it:
it lives as long as the number by which the run knows it, and is closed with that, whatever way the run ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from gradtape.core.dispatch import convert
from gradtape.data.data_iterators import tensor_specs
from gradtape.data.elements import Leaves
from gradtape.data.streams import Pace, Stage, Stream, rows_in
from gradtape.errors import InvalidArgumentError
from gradtape.functions.staging.iterables import Puller
from gradtape.ir.types import TensorSpec
from gradtape.ops.python_calls import PULL_ITEM, PULL_MORE, PULL_OPEN
from gradtape.tape.python_functions import in_program


class Pass:
    """One pass, and the words by which the program finds its current element (`ops/python_calls.py`)."""

    def __init__(self, stream: Stream, specs: list[TensorSpec], count: int) -> None:
        self.stream, self.specs, self.pace = stream, specs, Pace(count)
        self.words = np.zeros(2 + len(specs), np.int64)
        self.cells = self.words.data  # of which NumPy would make an object for each number
        self.rows: Leaves = ()
        self.fixed = all(spec.shape.is_fully_defined() for spec in specs)
        self.ahead = count > 1
        if self.fixed and not self.ahead:
            self._let([np.zeros((1, *spec.shape), spec.dtype.dtype) for spec in specs], 0)

    def _let(self, rows: Any, count: int) -> None:
        self.rows = rows
        self.words[:] = [0, count, *[leaf.ctypes.data for leaf in rows]]

    def advance(self) -> None:
        """To the next element; StopIteration if there is none."""
        words = self.cells
        if words[0] + 1 < words[1]:
            words[0] += 1
        elif self.ahead:
            start = time.perf_counter()
            block = self.stream.block(self.pace.count)
            self.pace.took(time.perf_counter() - start)
            self._let([np.ascontiguousarray(leaf) for leaf in block], rows_in(block))
        elif self.fixed:
            for spec, row, leaf in zip(self.specs, self.rows, next(self.stream), strict=True):
                if row.shape[1:] != leaf.shape:
                    raise InvalidArgumentError(f"an element has the shape {leaf.shape}, its dataset says {spec.shape}")
                row[0] = leaf
            words[1] = 1
        else:
            # sizes that only the element knows: it is asked for
            self.rows = tuple([np.asarray(leaf)[None] for leaf in next(self.stream)])

    def current(self) -> Leaves:
        """Copies: what they are copies of is overwritten by the next."""
        return tuple([np.array(leaf[self.words[0]])[()] for leaf in self.rows])

    def close(self) -> None:
        self.words[1] = 0
        self.stream.close()

    __del__ = close


class PassNumber(np.int64):
    """The address of a pass's words; who has it owns the pass."""

    owned: Pass


class LoopSource(Puller):
    """The passes of one loop of a program: opened, asked and closed by the address of their words."""

    def __init__(self, stage: Stage, wrap: Callable[[Any], Any]) -> None:
        self.stage, self.wrap = stage, wrap
        self.specs = tensor_specs(stage.structure)
        self.count = stage.in_a_block()
        self.passes: WeakValueDictionary[int, Pass] = WeakValueDictionary()
        # where the program opens a pass
        (self.handle,) = in_program(PULL_OPEN, (), self._open, (TensorSpec((), "int64"),))

    def more(self, going: Any) -> Any:
        """Whether there is another element, which is then the current one; without `going`, the pass is closed."""
        (flag,) = in_program(PULL_MORE, (self.handle, convert(going)), self._advance, (TensorSpec((), "bool"),))
        return flag

    def item(self) -> Any:
        """The current element."""
        return self.stage.structure.pack(in_program(PULL_ITEM, (self.handle,), self._current, tuple(self.specs)))

    # -- when the program runs -----------------------------------------------------------------------------------------

    def _open(self) -> Any:
        opened = Pass(self.stage.open(), self.specs, self.count)
        number = PassNumber(opened.words.ctypes.data)
        number.owned = self.passes[int(number)] = opened
        return (number,)

    def _advance(self, handle: Any, going: Any) -> Any:
        try:
            if going:
                self.passes[int(handle)].advance()
                return (np.True_,)
        except StopIteration:
            pass
        except BaseException:
            self.passes[int(handle)].close()
            raise
        self.passes[int(handle)].close()
        return (np.False_,)

    def _current(self, handle: Any) -> Leaves:
        return self.passes[int(handle)].current()
