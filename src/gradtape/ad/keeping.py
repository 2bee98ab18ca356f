"""What a loop keeps of each iteration for its backward pass, and what the backward pass computes again from it.

Both cost time: a number kept is written and read, far from the nearest cache once the loop is long; a sum or a product is
computed again in less time than that. `cheapest` weighs the two for all values at once, as a minimum cut: the cheapest set of
values to keep from which everything wanted can be computed. Only operations that cannot fail and have no effect are
done again, and of the values that were going to be kept only arrays are given up: numbers live in registers anyway.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Iterator
from itertools import pairwise

from gradtape.ad.budget import static_bytes
from gradtape.core.opdef import Cost
from gradtape.ir.graph import Operation, Value
from gradtape.ir.types import TensorSpec
from gradtape.ops.reduce import REDUCE_MEAN, REDUCE_SUM

KEPT_BYTE = 4  # what keeping a byte costs, in the unit of `Cost`
KEPT = 128  # what keeping a value costs, however small
SMALL = 16  # elements of an array that is worth a thought
MANY = 1500  # operations of a body that is too long to think about
FOREVER = 1 << 60
_REDUCTIONS = (REDUCE_SUM, REDUCE_MEAN)  # their cost is per element of what they read


def cheapest(saved: Collection[Value], at_hand: Callable[[Value], bool]) -> set[Value] | None:
    """The values to keep in the place of `saved`, from which those can be computed; None: those themselves.

    `at_hand` says which values the backward pass has in any case.
    """
    arrays = [value for value in saved if _elements(value) >= SMALL and value.producer is not None]
    # nothing could be computed again: no network is built for most loops
    if not any(_price(value.producer) < FOREVER for value in arrays if value.producer is not None):
        return None
    fixed = {value for value in saved if value not in arrays}
    # Each value is two nodes, `value` (wanted) and `(value,)` (computed again). Cutting value → (value,) keeps it, cutting
    # (value,) → done pays for computing it; an operation done again wants its operands, at no price of its own.
    network = _Network()
    for value in arrays:
        network.edge("wanted", value, FOREVER)
    pending, seen = list(arrays), set(arrays)
    while pending:
        value = pending.pop()
        producer = value.producer
        keeping = 0 if value in fixed or at_hand(value) else _keeping(value)
        network.edge(value, (value,), keeping)
        price = FOREVER if producer is None else _price(producer)
        # what cannot be done again is cut off by keeping it, or something computed from it
        network.edge((value,), "done", price)
        # at hand or fixed: what it was made from is of no interest
        if price == FOREVER or not keeping:
            continue
        assert producer is not None
        for operand in producer.operands:
            network.edge((value,), operand, FOREVER)
            if operand not in seen:
                seen.add(operand)
                pending.append(operand)
        if len(seen) > MANY:
            return None
    network.fill("wanted", "done")
    reached = network.reached("wanted")
    # the cut edges among the keeping ones: from what can still be reached to what cannot
    kept = {value for value in seen if value in reached and (value,) not in reached}
    return None if kept == set(arrays) else kept | fixed


def _elements(value: Value) -> int:
    """How many, if the type says it and it is an array; else 0."""
    if not isinstance(value.type, TensorSpec) or static_bytes(value.type) is None or not value.type.shape:
        return 0
    return math.prod(value.type.shape)


def _keeping(value: Value) -> int:
    size = static_bytes(value.type)
    # an unknown size is kept only where nothing else can be; still less than FOREVER, which means never
    return FOREVER // 4 if size is None else KEPT + KEPT_BYTE * size


def _price(operation: Operation) -> int:
    """What doing an operation again costs."""
    cost = operation.op.cost
    if cost is Cost.DEAR or operation.regions or len(operation.results) != 1:
        return FOREVER
    # the sum of a matrix costs its elements, not its one result
    read = operation.operands[0] if operation.op in _REDUCTIONS else operation.result
    sizes = [_elements(value) for value in (read, operation.result)]
    if not all(sizes):
        return FOREVER
    return 1 + cost * max(sizes)


_Levels = dict[object, int]
_Untried = dict[object, Iterator[object]]


class _Network:
    """Edges with capacities; `fill` sends as much as can be from one node to another (Dinic's method)."""

    def __init__(self) -> None:
        self.room: dict[object, dict[object, int]] = {}

    def edge(self, a: object, b: object, capacity: int) -> None:
        there = self.room.setdefault(a, {})
        there[b] = there.get(b, 0) + capacity
        self.room.setdefault(b, {}).setdefault(a, 0)

    def fill(self, source: object, sink: object) -> None:
        while True:
            level = self._levels(source)
            if sink not in level:
                return
            # neighbours that were tried in vain are not tried again at these levels: a value that all others read has many
            untried = {a: iter(room) for a, room in self.room.items()}
            at = {a: next(ahead, None) for a, ahead in untried.items()}
            while self._path(source, sink, level, untried, at):
                pass

    def reached(self, source: object) -> set[object]:
        """The nodes that more could be sent to."""
        return set(self._levels(source))

    def _levels(self, source: object) -> _Levels:
        level = {source: 0}
        queue = deque([source])
        while queue:
            a = queue.popleft()
            for b, room in self.room[a].items():
                if room > 0 and b not in level:
                    level[b] = level[a] + 1
                    queue.append(b)
        return level

    def _path(
        self, source: object, sink: object, level: dict[object, int], untried: _Untried, at: dict[object, object]
    ) -> bool:
        """One way with room along growing levels, filled. `at` is the neighbour through which a node was left last."""
        way = [source]
        while way[-1] != sink:
            a = way[-1]
            room, above = self.room[a], level[a] + 1
            b = at.get(a)
            while b is not None and not (room[b] > 0 and level.get(b) == above):
                b = next(untried[a], None)
            if b is not None:
                at[a] = b
                way.append(b)
                continue
            level[a] = -1  # leads nowhere
            way.pop()
            if not way:
                return False
        steps = list(pairwise(way))
        amount = min(self.room[a][b] for a, b in steps)
        for a, b in steps:
            self.room[a][b] -= amount
            self.room[b][a] += amount
        return True
