"""One operation as a program, for eager code: in the place of an `impl` that loops in Python (`heavy` of `core/forms.py`).

A program is made for shapes, dtypes and attributes that were asked for `AFTER` times, more often if the arrays are small, and
gives the op's result to rounding, as `@function` does. While something is traced, and inside such a program, the `impl` itself
runs; and where a result is not finite, so that NumPy says of it what it has to say.
"""

from __future__ import annotations

from threading import get_ident
from typing import Any

import numpy as np

from gradtape.core.forms import MISS
from gradtape.core.hooks import HOOKS
from gradtape.core.record import TRACING
from gradtape.dtypes import as_dtype
from gradtape.errors import OpError
from gradtape.functions.stages import executable
from gradtape.ir.graph import Block, Operation
from gradtape.ir.types import TensorSpec

AFTER = 10  # calls of arrays of 100,000 elements and more: compiling takes as long as some dozens of them
ELEMENTS = 1 << 20  # that all calls before compiling have together, if the arrays are smaller
MOST = 256  # kinds of calls of one op that are remembered


class _Unheard(Exception):  # noqa: N818  (no error: the `impl` is to run)
    """A floating-point event that nobody was told of."""


def _heard(results: Any, *arrays: Any) -> None:
    raise _Unheard


class OneOpPrograms:
    """The programs of one op, by what they are called with: how often that was, a program, or None where there is none."""

    __slots__ = ("_known", "_name", "_running")

    def __init__(self, name: str) -> None:
        self._name = name
        self._known: dict[Any, Any] = {}
        self._running: set[int] = set()  # threads inside a program: where native code calls the `impl`, it is to run

    def __call__(self, arrays: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        """The result of the op, or `MISS`."""
        key = (*[(a.shape, a.dtype) for a in arrays], frozenset(attrs.items()))
        known = self._known.get(key, 0)
        if known is None or TRACING.get() is not None:
            return MISS
        if known.__class__ is int:
            if len(self._known) >= MOST:
                self._known.clear()
            self._known[key] = known + 1
            if known + 1 < max(AFTER, ELEMENTS // (sum([a.size for a in arrays]) + 1)):
                return MISS
            known = self._known[key] = self._compiled(arrays, attrs)
            if known is None:
                return MISS
        thread = get_ident()
        if thread in self._running:
            return MISS
        self._running.add(thread)
        try:
            return known(*arrays)[0]
        except _Unheard:
            return MISS
        finally:
            self._running.discard(thread)

    def _compiled(self, arrays: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        if not all(a.__class__ is np.ndarray and a.dtype.kind in "fiu" and a.dtype != np.float16 for a in arrays):
            return None
        op = HOOKS.op_by_name(self._name)
        types = [TensorSpec(a.shape, as_dtype(a.dtype)) for a in arrays]
        block = Block(types, name=self._name)
        try:
            operation = block.append(Operation(op, block.params, [op.infer(*types, **attrs)], attrs))
            program = executable(block.give(values=operation.results), self._name)
        except (OpError, TypeError, ValueError):  # said by the `impl`, in the words of eager code
            return None
        if getattr(program, "times", None) is None or hasattr(program, "instead"):
            return None
        program.listen(_heard)[2] = True  # an event on the way to finite numbers is no trouble
        return program
