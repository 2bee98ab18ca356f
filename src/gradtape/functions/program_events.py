"""Floating-point events of compiled functions, told as eager code tells them: the line, the operation, the expression, once.

The processor notes that something happened in a call, perhaps on a lane that nobody uses. Then eager code runs the program once
more and warns of what really happens, at the instructions that were traced; each such look that ends well doubles the number of
calls until the next. A program that must not, or takes too long to run twice is judged by its results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradtape.ad.evaluation import Evaluation, Sizes, TooLongError
from gradtape.config import passes_debugged
from gradtape.core.float_events import LOOK, listen as listen_to_numpy
from gradtape.core.record import NOBODY, scope_of, user_frame, warn_at
from gradtape.core.tensor import box
from gradtape.functions.numerics import finite
from gradtape.ir.graph import Block, Instruction, Location, Operation
from gradtape.ir.walk import has_effect

LONGEST = 20_000  # operations of a run that is looked at


class HeardEvaluation(Evaluation):
    """A run that warns at the instructions of the program."""

    def __init__(self) -> None:
        super().__init__(LONGEST)
        self.events = 0
        self.place: Location | None = None

    def step(self, operation: Operation, operands: list[Any], sizes: Sizes) -> Sequence[Any]:
        """One operation."""
        if operation.op.kind == "region":
            return super().step(operation, operands, sizes)
        self.place = place = operation.loc
        with np.errstate(all=None if isinstance(place, Instruction) and not place.silent else "ignore"):
            return super().step(operation, operands, sizes)


def listen(block: Block, name: str, executable: Any) -> None:
    """Tell the user of the events of an executable, as those of this block."""
    looks = 0
    repeatable = not any(has_effect(operation) for operation in block.operations)

    def listener(results: Sequence[Any], *arrays: Any) -> None:
        nonlocal looks
        if set(np.geterr().values()) == {"ignore"}:
            return
        listen_to_numpy()
        look = HeardEvaluation()
        token = LOOK.set(look)
        try:
            if not repeatable:
                raise TooLongError
            with scope_of(NOBODY):
                look.run(block, [box(array) for array in arrays])
        except (Warning, FloatingPointError):
            raise  # what the user's filters, or np.errstate, make of an event
        except Exception as error:  # it takes too long; and whatever a look meets, the call itself has gone well
            if passes_debugged() and not isinstance(error, TooLongError):
                raise
            _judge(name, results, arrays)
        finally:
            LOOK.reset(token)
        if look.events or words[2]:
            looks += 1
            words[1] = (1 << min(looks, 62)) - 1
        else:  # lanes that are not used, or a vector's that are not there
            words[2] = True

    words = executable.listen(listener)


def _judge(name: str, results: Sequence[Any], arrays: Sequence[Any]) -> None:
    if all(map(finite, arrays)) and not all(map(finite, results)):
        frame, cure = user_frame(1), "gt.debugging.enable_check_numerics() stops at the line that makes them"
        said = f"function `{name}` gave values that are not finite, from inputs that are; {cure}"
        warn_at(frame, frame.f_lineno, said, RuntimeWarning)
