"""What is known of an integer of the program while it is traced: its distance from another one, and its bounds.

Read backwards off the operations that made it; nothing is computed. `x[i:i + 3]` has three entries, or fewer where the axis
ends.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradtape.core.record import TRACING
from gradtape.core.tensor import Tensor


def offset_of(tensor: Tensor) -> tuple[Any, int]:
    """(v, n) where a traced scalar was computed as v + n with a static n."""
    # The program is read backwards through additions of constants. Casts are passed: indices keep their value in all of them.
    value, offset = tensor._data, 0
    while (producer := getattr(value, "producer", None)) is not None and (name := _name(producer)) in (
        "add",
        "subtract",
        "cast",
    ):
        if name == "cast":
            value = producer.operands[0]
            continue
        left, right = producer.operands
        sign = 1 if name == "add" else -1
        if (step := _static(right)) is not None:
            value, offset = left, offset + sign * step
        elif sign == 1 and (step := _static(left)) is not None:
            value, offset = right, offset + step
        else:
            break
    return value, offset


def bounds_of(value: Any) -> tuple[float, float]:
    """The least and the largest that a traced integer can be, as far as loops of known length and constants tell."""
    turns = getattr(TRACING.get(), "turns", {})
    scale, offset = 1, 0  # what is asked for is scale · value + offset
    while value not in turns:
        producer = value.producer
        if producer is None:
            return -math.inf, math.inf
        name, operands = _name(producer), producer.operands
        if name == "constant" and np.size(producer.attrs["value"]):
            ends = [scale * int(end(producer.attrs["value"])) + offset for end in (np.min, np.max)]
            return min(ends), max(ends)
        if name in ("cast", "getitem", "getitem_at"):
            value = operands[0]
            continue
        known = [_static(operand) for operand in operands] if name in ("add", "subtract", "multiply") else []
        if (number := next((n for n in known if n is not None), None)) is None:
            return -math.inf, math.inf
        value = operands[0] if known[0] is None else operands[1]
        if name == "multiply":
            scale *= number
        elif name == "subtract" and known[0] is None:
            offset -= scale * number
        else:
            scale, offset = scale if name == "add" else -scale, offset + scale * number
    ends = [offset, scale * (turns[value] - 1) + offset]
    return min(ends), max(ends)


def _name(producer: Any) -> str:
    """What an operation computes; one that checks its result computes what it checks."""
    name: str = producer.op.name
    return producer.attrs["form"] if name == "exact" else "cast" if name == "narrow" else name


def _static(value: Any) -> int | None:
    producer = value.producer
    if producer is None or producer.op.name != "constant" or np.ndim(producer.attrs["value"]):
        return None
    return int(producer.attrs["value"])
