"""A compiled call, run once more operation by operation: recorded, with all operands kept, each record at the user's line.

It serves the tools that must look inside a program. Invariant: a program with effects (print, random numbers, Python functions)
is never run again; neither is one with more than `LONGEST` steps: the caller then has to make do with the call itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtape.ad.custom import Again
from gradtape.ad.evaluation import LocatedEvaluation, TooLongError
from gradtape.ad.recording import Recording
from gradtape.core.record import NOBODY, Record, scope_of
from gradtape.core.tensor import Tensor, box
from gradtape.core.typing import Array
from gradtape.functions.compiled import Compiled
from gradtape.ir.walk import has_effect
from gradtape.tools.operands import Operands

LONGEST = 300_000


class KeepingRecording(Recording):
    """A recording that keeps every operand."""

    __slots__ = ("operands",)

    def __init__(self) -> None:
        super().__init__()
        self.slow = True
        self.operands = Operands()

    def recorded(self, record: Record, inputs: Sequence[Any], nodes: Sequence[Any], out: Tensor | tuple[Tensor, ...]) -> None:
        """Called by dispatch."""
        self.operands.recorded(record, inputs, nodes, out)


@dataclass
class ProgramRun:
    """What running a program gave: the recording, and its inputs and outputs as tensors."""

    recording: KeepingRecording
    inputs: list[Tensor]
    outs: list[Tensor]
    names: list[str | None]  # of the inputs


def run_program(program: Compiled, arrays: Sequence[Any]) -> ProgramRun | None:
    """Run the program of a call on these arrays; None if it cannot be run again."""
    if any(has_effect(operation) for operation in program.block.operations):
        return None
    try:
        return _recorded(arrays, lambda inputs: LocatedEvaluation(program.name, LONGEST).run(program.block, inputs),
                         [value.name for value in program.block.params])  # fmt: skip
    except TooLongError:
        return None


def run_again(again: Again, arrays: Sequence[Any]) -> ProgramRun | None:
    """Run the function of a custom operation on these arrays; None if that may do harm."""
    return _recorded(arrays, again.run, [None] * len(arrays)) if again.repeatable else None


def _recorded(arrays: Sequence[Any], run: Callable[[list[Tensor]], Sequence[Any]], names: list[str | None]) -> ProgramRun:
    recording = KeepingRecording()
    with scope_of(NOBODY), np.errstate(all="ignore"), recording.recording():
        inputs = [recording.watched(box(a)) if _differentiable(a) else box(a) for a in arrays]
        outs = list(run(inputs))
    return ProgramRun(recording, inputs, outs, names)


def _differentiable(array: Array) -> bool:
    return box(array).dtype.is_differentiable
