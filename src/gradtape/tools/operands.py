"""The values behind records: what `GradientTape(debug=True)` keeps of each operation, and how an operation is run once more.

Nothing here judges the values. Invariant: `repeated` has no effects; it answers `UNKNOWN` where an operation cannot run again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from gradtape.ad.custom import CUSTOM
from gradtape.core.observers import TapeObserver
from gradtape.core.opdef import Op
from gradtape.core.record import Record
from gradtape.core.recorded import stored
from gradtape.core.tensor import Tensor
from gradtape.functions.compiled import FUNCTION, Compiled
from gradtape.tape.gradient_tape import GradientTape


class Unknown:
    """The value of something that was not kept."""

    def __repr__(self) -> str:
        return "<not kept>"


UNKNOWN = Unknown()


class Kept(NamedTuple):
    """One operation: its inputs and outputs as bare arrays (several outputs: a tuple), and its attributes."""

    inputs: tuple[Any, ...]
    out: Any
    attrs: dict[str, Any]


class Operands(TapeObserver):
    """The observer of a tape made with `debug=True`: keeps every operand as long as the record lives."""

    def __init__(self) -> None:
        self.kept: WeakKeyDictionary[Record, Kept] = WeakKeyDictionary()

    def recorded(self, record: Record, inputs: Sequence[Any], nodes: Sequence[Any], out: Tensor | tuple[Tensor, ...]) -> None:
        """Called by dispatch."""
        values = tuple(stored(t) for t in out) if isinstance(out, tuple) else stored(out)
        self.kept[record] = Kept(tuple(inputs), values, record.attrs or {})


def observe_debug(tape: GradientTape) -> None:
    """What `GradientTape(debug=True)` does."""
    tape.add_observer(Operands())


def operands_of(tape: GradientTape) -> Operands | None:
    """What a tape made with `debug=True` kept; None for another tape."""
    return next((o for o in tape._observers if isinstance(o, Operands)), None)


def version(tensor: Tensor) -> Record | None:
    """The record of a tensor's version, if some recorder knows it."""
    node: Record | None = tensor._node
    return node if node is not None and node.keys else None


def program_of(attrs: dict[str, Any] | None) -> Compiled | None:
    """The program behind the record of a compiled call, from its attributes."""
    program = (attrs or {}).get("program")
    return program if isinstance(program, Compiled) else None


def repeated(op: Op, inputs: Sequence[Any], attrs: dict[str, Any] | None) -> Any:
    """The output of an operation on these arrays (several: a tuple), or UNKNOWN."""
    if op.effect or op is CUSTOM or any(x is UNKNOWN for x in inputs):
        return UNKNOWN
    try:
        with np.errstate(all="ignore"):
            if op is FUNCTION:
                program = program_of(attrs)
                again = program is not None and attrs is not None and attrs["again"] is not None
                return program.run(list(inputs)) if program is not None and again else UNKNOWN
            return op.impl(*inputs, **(attrs or {}))
    except Exception:  # what an impl may raise on values it never saw is open
        return UNKNOWN
