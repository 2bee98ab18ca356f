"""What can stand between a target and a source: a `Cut`, and the one an operation without a derivative makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gradtape.ir.graph import Location


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """Where a way ends: the cause, the operation, the user's line, and what the sentence needs besides."""

    cause: str
    op: str = ""
    place: Location | None = None
    detail: dict[str, Any] = field(default_factory=dict)


CONNECTED = Cut("connected")  # the tape can differentiate up to here
UNSEEN = Cut("unseen")  # a value of the source's variable that the tape does not know


def best(found: Sequence[Cut]) -> Cut:
    """A way that can be differentiated; else one that matters; else the first."""
    if len(found) == 1:
        return found[0]
    for wanted in (CONNECTED, UNSEEN):
        if wanted in found:
            return wanted
    return next((cut for cut in found if cut.cause != "independent"), found[0])


def op_cut(op: Any, place: Location | None, derived: bool = False) -> Cut:
    """What an operation without a derivative does to a way; `derived`: it ran in a backward pass that the tape recorded."""
    name = op.name
    if name == "stop_gradient":
        return Cut("stop_gradient", name, place)
    if name == "numpy_function":
        return Cut("left_to_numpy", name, place, {"how": "gt.numpy_function"})
    if derived:
        return Cut("independent", name, place, {"derivative": True})
    if "depend" in op.reason:  # on shapes only, not on values
        return Cut("independent", name, place, {"shape": True})
    if op.differentiable or name.startswith("random_"):
        return Cut("no_derivative", name, place, {"reason": op.reason})
    return Cut("integer_or_bool_on_path", name, place, {"reason": op.reason})
