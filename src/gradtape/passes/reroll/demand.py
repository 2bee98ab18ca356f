"""What the rest of the program wants from a loop, and whether folding it pays.

A value of the last iterations that the loop carries anyway comes out as a result; any other is read from a list of all
iterations (`ys`), by index. A stack, concatenation or list of all of them in order takes the whole list. Nothing here
changes the program.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradtape.ops.lists import LIST_NEW
from gradtape.ops.shape import CONCAT, STACK
from gradtape.passes.reroll.line import OVERHEAD, Item, Table
from gradtape.passes.reroll.rolling import RolledLoop

GATHERING = (STACK, CONCAT, LIST_NEW)


Listed = tuple[int, int | None]  # a result of an iteration, and where a unit axis is inserted to join the items there


@dataclass(eq=False, slots=True)
class Demand:
    """Results of an iteration that are wanted as a list (`listed`) or of the last iteration only (`last`)."""

    listed: dict[Listed, None] = field(default_factory=dict)
    last: dict[int, None] = field(default_factory=dict)
    reads: int = 0  # operations that read single items
    nested: bool = False  # whether the loop is one of several that should look alike


def demand(table: Table, loop: RolledLoop, repeated: Any, hopeful: bool) -> Demand:
    """What is used of a loop outside it. `repeated` items are part of a run: their reads will be folded too, if `hopeful`."""
    wanted = Demand()
    users, numbers = table.uses(loop.base, loop.end)
    outside = users >= loop.stop
    if not outside.any():
        return wanted
    users, numbers = users[outside], numbers[outside]
    whole = np.zeros(len(users), bool)
    for user in sorted(set(users.tolist())):  # np.unique would load numpy.ma first, which takes longer than most programs
        if user < len(table.items) and table.items[user].op in GATHERING:
            places = {place for place, _ in covers(table.operands(user, user + 1, 1)[0], loop)}
            axis = new_axis(table.items[user])
            wanted.listed |= dict.fromkeys((place, axis) for place in sorted(places))
            wanted.reads += len(places)
            whole |= (users == user) & np.isin((numbers - loop.base) % loop.width, list(places))
    users, numbers = users[~whole], numbers[~whole]
    iterations, places = np.divmod(numbers - loop.base, loop.width)
    for place in sorted(set(places.tolist())):
        here = places == place
        carried = depth(loop, place)
        handed = iterations[here] >= loop.count - max(carried, 1)
        if handed.all() and (place, None) not in wanted.listed:
            if not carried:
                wanted.last[place] = None
            continue
        wanted.listed[place, None] = None
        reads = here & (iterations < loop.count - carried)
        pairs = set(zip(users[reads].tolist(), numbers[reads].tolist(), strict=True))
        if hopeful:
            folded = {table.items[user].token for user, _ in pairs if repeated[user]}
            wanted.reads += len(folded) + sum(1 for user, _ in pairs if not repeated[user])
        else:
            wanted.reads += len(pairs)
    return wanted


def new_axis(item: Item) -> int | None:
    """Where a stack needs a new axis in its operands, if that is not the first one (which a list has by itself)."""
    return (item.attrs["axis"] or None) if item.op is STACK else None


def depth(loop: RolledLoop, place: int) -> int:
    """From how many iterations back a result is used in the loop: so many of its last values come out of it."""
    return int(loop.distance[loop.place == place].max(initial=0))


def covers(numbers: Any, loop: RolledLoop) -> Iterator[tuple[int, int]]:
    """Where operands are one result of all iterations in order: (the result, position of the first)."""
    starts = np.flatnonzero((numbers >= loop.base) & (numbers < loop.base + loop.width))
    steps = np.arange(loop.count) * loop.width
    for start in starts.tolist():
        part = numbers[start : start + loop.count]
        if len(part) == loop.count and (part == part[0] + steps).all():
            yield int(part[0]) - loop.base, start


def pays(table: Table, loop: RolledLoop, wanted: Demand) -> bool:
    """True when the program becomes so much smaller that a loop is worth having."""
    indices = len({tuple(column) for column in loop.holes.T.tolist() if column[0] != column[-1]})
    scanned = len({tuple(column) for column in loop.sources[:, loop.scanned].T.tolist()})
    listed = len({tuple(column) for column in loop.sources[:, loop.listed].T.tolist()})
    body = table.weight(loop.start, loop.start + loop.period)
    after = body + OVERHEAD + indices + scanned + wanted.reads + listed * (1 + loop.count // 2)
    return 2 * after <= table.weight(loop.start, loop.stop)
