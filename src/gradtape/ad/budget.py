"""How many bytes the derivative that is being built may keep for its backward pass.

`limited(bytes)` holds for what is differentiated inside it, to any depth. Loops share the limit: a quarter of it is for loops
that keep what they need for all iterations, as long as it lasts; the other loops are reversed one after the other, each within
the rest. A loop around loops takes half and leaves half to those inside. Nothing here counts bytes when programs run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from gradtape.ir.dims import Dim
from gradtape.ir.graph import Value
from gradtape.ir.types import ListSpec, TensorSpec
from gradtape.ops.structured import SCAN


class Budget:
    """A limit, and what is left of the part of it that loops may take to keep everything."""

    __slots__ = ("_whole", "limit")

    def __init__(self, limit: int) -> None:
        self._whole = limit // 4
        self.limit = limit - self._whole  # for each loop that is reversed piece by piece

    def take(self, count: int) -> bool:
        """Whether these bytes may be kept from the forward pass to the backward pass; if so they are taken."""
        fits = count <= self._whole
        if fits:
            self._whole -= count
        return fits


BUDGET: ContextVar[Budget | None] = ContextVar("BUDGET", default=None)


@contextmanager
def limited(limit: int | None) -> Iterator[None]:
    """Differentiate within so many bytes; None: without a limit."""
    token = BUDGET.set(None if limit is None else Budget(limit))
    try:
        yield
    finally:
        BUDGET.reset(token)


def known_bytes(values: Iterable[Value]) -> int | None:
    """The bytes of these values together; None if only run time knows. A list made by a loop has one item per iteration."""
    total = 0
    for value in values:
        size = static_bytes(value.type, _length(value))
        if size is None:
            return None
        total += size
    return total


def _length(value: Value) -> int | None:
    producer = value.producer
    if producer is None or producer.op is not SCAN or value not in producer.result_group("ys"):
        return None
    length = producer.attrs["length"]
    return length if isinstance(length, int) else None


def static_bytes(spec: TensorSpec | ListSpec, length: int | None = None) -> int | None:
    """The bytes of a value of a type, if the type says it; `length` is that of a list."""
    if isinstance(spec, ListSpec):
        item = static_bytes(spec.item)
        return None if item is None or length is None else item * length
    if any(size is None or isinstance(size, Dim) for size in spec.shape):
        return None
    return math.prod(spec.shape) * int(spec.dtype.size)
