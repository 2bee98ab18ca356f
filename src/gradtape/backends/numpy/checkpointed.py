"""Running `checkpointed`: the backward pass of a loop with only some of its states in memory.

States are kept on a stack, the one at the start lowest. The iterations behind the top are reversed in pieces, last piece
first; to get to a piece the loop advances from the top, and leaves states on the way as `schedule.py` says. Every result is
computed by the same operations on the same values as without a limit, so it has the same bits, whatever the limit.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape.backends.numpy.schedule import CheckpointPlan, next_state, plan
from gradtape.errors import GradientWarning
from gradtape.ir.graph import Operation
from gradtape.ops.list_values import TensorList

Run = Callable[[list[Any]], Sequence[Any]]  # empties the list it is given


_SAID: dict[Any, Any] = {}  # warnings given


class Checkpointed:
    """One `checkpointed` operation of a program."""

    def __init__(self, operation: Operation) -> None:
        self._groups = dict(operation.layout)
        self._backwards = bool(operation.attrs["reverse"])
        self._limit = int(operation.attrs["limit"])
        self._loc = operation.loc
        self._warned = False

    def __call__(
        self, arguments: list[Any], count: int, saved: Any, items: Sequence[Any], advance: Run, reverse: Run, see: Any = None
    ) -> tuple[Any, ...]:
        """Cotangents and lists of items.

        `arguments` are the operands but for the length; the list is emptied. `saved` are the types an iteration keeps,
        `items` those of the lists to make; `see` is told of lists, when somebody counts bytes.
        """
        sizes = self._groups
        s, shared = sizes["state"], sizes["consts"] + sizes["xs"]
        start = arguments[:s]
        others = arguments[s : s + shared]
        cts = arguments[s + shared : s + shared + sizes["cts"]]
        seeds = arguments[s + shared + sizes["cts"] :]
        arguments.clear()
        ys = [TensorList([None] * count, item) for item in items]
        if not count:
            return (*cts, *ys)
        way = self._plan(count, start, saved)
        stack = _Stack(start, see)
        del start
        end = count
        # Each turn either leaves one more state, nearer to the end, or reverses the piece that the top stands before.
        while end:
            begin = stack.places[-1]
            number = -(-(end - begin) // way.piece)
            if number > 1:
                spare = way.states + 2 - len(stack.places)
                ahead = next_state(number, spare) * way.piece
                state = advance([*self._span(begin, begin + ahead, count), *stack.top(), *others])
                # (the last state that there is room for is not kept: its piece is reversed at once)
                if spare > 1:
                    stack.push(begin + ahead, state)
                    continue
                begin += ahead
            else:
                state = stack.pop()
            span = self._span(begin, end, count)
            given = [*span, *state, *others, *cts, *seeds]
            del state
            # who runs the piece has them now: the old cotangents must not live beside the new ones
            cts.clear()
            given_back = list(reverse(given))
            cts = given_back[: sizes["cts"]]
            for whole, part in zip(ys, given_back[sizes["cts"] :], strict=True):
                whole[span[0] : span[0] + span[1]] = part
            end = begin
        return (*cts, *ys)

    def _span(self, begin: int, end: int, count: int) -> tuple[Any, Any]:
        """The lowest index and the number of the iterations from `begin` to `end`, in the order in which they ran."""
        return np.int32(count - end if self._backwards else begin), np.int32(end - begin)

    def _plan(self, count: int, start: list[Any], saved: Any) -> CheckpointPlan:
        item = None if saved is None or any(None in tuple(t.shape) for t in saved) else sum(map(_bytes_of, saved))
        way = plan(count, self._limit, sum(int(value.nbytes) for value in start), item)
        if way.size > self._limit and not self._warned:
            self._warned = True
            loc = self._loc
            warnings.warn_explicit(
                f"memory_limit cannot be met: of the limit, {self._limit} bytes are for reversing this loop of {count} "
                f"iterations, and {way.size} bytes are used ({way.states} states beside the first, and what one iteration "
                "needs); less would take too long. Raise the limit, or carry less from one iteration to the next",
                GradientWarning, loc.file if loc else "gradtape", loc.line if loc else 0, registry=_SAID,
            )  # fmt: skip
        return way


class _Stack:
    """States by place (the iteration they stand before), one list for each value of the state."""

    def __init__(self, start: list[Any], see: Callable[..., None] | None) -> None:
        self.places = [0]
        self._values = [TensorList([value]) for value in start]
        self._see = see
        self._tell()

    def top(self) -> list[Any]:
        return [values[-1] for values in self._values]

    def push(self, place: int, state: Sequence[Any]) -> None:
        self.places.append(place)
        for values, value in zip(self._values, state, strict=True):
            values.append(value)
        self._tell()

    def pop(self) -> list[Any]:
        self.places.pop()
        return [values.pop() for values in self._values]

    def _tell(self) -> None:
        if self._see is not None and self._values:
            self._see(*self._values)


def _bytes_of(spec: Any) -> int:
    return int(np.prod(tuple(spec.shape), dtype=np.int64)) * int(spec.dtype.size)
