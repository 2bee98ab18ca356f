"""What can stand between a target and a source: a `Cut`, and the one an operation without a derivative makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gradtape.core.opdef import Op
from gradtape.ir.graph import Location
from gradtape.ops.python_calls import NUMPY_FUNCTION
from gradtape.ops.stop import STOP_GRADIENT


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """Where a way ends: the cause, the operation, the user's line, and what the sentence needs besides."""

    cause: str
    op: str = ""
    place: Location | None = None
    detail: dict[str, Any] = field(default_factory=dict)


CONNECTED = Cut("connected")  # the tape can differentiate up to here
UNSEEN = Cut("unseen")  # a value of the source's variable that the tape does not know


def best(cuts: Sequence[Cut]) -> Cut:
    """A way that can be differentiated; else one that matters; else the first."""
    if len(cuts) == 1:
        return cuts[0]
    for wanted in (CONNECTED, UNSEEN):
        if wanted in cuts:
            return wanted
    return next((cut for cut in cuts if cut.cause != "independent"), cuts[0])


def op_cut(op: Op, place: Location | None, derived: bool = False) -> Cut:
    """What an operation without a derivative does to a way; `derived`: it ran in a backward pass that the tape recorded."""
    name = op.name
    if op is STOP_GRADIENT:
        return Cut(name, name, place)
    if op is NUMPY_FUNCTION:
        return Cut("left_to_numpy", name, place, {"numpy_function": True})
    if derived:
        return Cut("independent", name, place, {"derivative": True})
    if "depend" in op.reason:  # on shapes only, not on values
        return Cut("independent", name, place, {"shape": True})
    if op.differentiable or name.startswith("random_"):
        return Cut("no_derivative", name, place, {"reason": op.reason})
    return Cut("integer_or_bool_on_path", name, place, {"reason": op.reason})
