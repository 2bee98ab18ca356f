"""From runs of equal tokens to loops: where iterations start, which of them belong together, where each operand comes from.

A run says that operations are alike, not that they are wired alike. Each operand slot of the repeated part is a column of
value numbers, one per iteration, and so is each hole; in a loop a column moves by a constant step: 0 for a value from
outside, the number of results per iteration for one of the same or an earlier iteration, anything for an index. Iterations
between two changes of step are tried as one loop and checked exactly (`_fitted`): what is returned is a loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from gradtape.passes.reroll.line import Table
from gradtape.passes.reroll.repeats import LEAST, Run

FARTHEST = 4  # iterations back that a value may come from
OFTEN = 0.45  # a column that changes its step more often than this has no step
OUTSIDE = -1
LARGEST = 2**31 - 1  # loop indices are int32


@dataclass(frozen=True, eq=False, slots=True)
class RolledLoop:
    """`count` iterations of `period` items from item `start` on.

    `distance` says for each operand slot how many iterations back its value is made (0: in the same one), or OUTSIDE;
    `place` which result of that iteration it is. Rows of `sources` and `holes` are iterations.
    """

    start: int
    period: int
    count: int
    base: int  # number of the first result
    width: int  # results per iteration
    sources: Any
    holes: Any
    distance: Any
    place: Any
    fixed: Any  # slots with the same outside value in all iterations
    scanned: Any  # slots with constants that differ
    listed: Any  # slots with other outside values that differ

    @property
    def stop(self) -> int:
        return self.start + self.period * self.count

    @property
    def end(self) -> int:
        """One past the number of its last result."""
        return self.base + self.width * self.count

    @property
    def clean(self) -> bool:
        """True when no list has to be made of values that exist already."""
        return not self.listed.any()


def loops_in(table: Table, run: Run) -> list[RolledLoop]:
    """The loops a run consists of, at its own period or a small multiple of it, whichever needs no lists; in order."""
    loops = list(_loops(table, run, 1))
    if _covered(loops) * 2 < run.stop - run.start:
        # state that takes turns (a, b = b, a) is wired alike only every second, third, … iteration
        for multiple in range(2, 7):
            other = list(_loops(table, run, multiple))
            if _covered(other) * 2 >= run.stop - run.start:
                return other
    return loops


def _covered(loops: list[RolledLoop]) -> int:
    return sum(loop.stop - loop.start for loop in loops if loop.clean)


def _loops(table: Table, run: Run, multiple: int) -> Iterator[RolledLoop]:
    period = run.period * multiple
    if LEAST * period > run.stop - run.start:
        return
    start = run.start + _phase(table, run.start, run.stop, period)
    count = (run.stop - start) // period
    if count < LEAST:
        return
    sources = table.operands(start, start + count * period, count)
    holes = _holes(table, start, period, count)
    width = int(table.first[start + period] - table.first[start])
    loose, breaks = _steps(table, sources, holes, int(table.first[start]), max(width, 1))
    done = 0
    for first, last in _stretches(breaks, count):
        # the first iterations may take initial values where later ones take each other's results: try to start earlier;
        # or use a result of the first ones as a constant: try to start later
        for begin in (first - 2, first - 1, first, first + 1, first + 2):
            if begin < done or last - begin < LEAST:
                continue
            part = slice(begin, last)
            loop = _fitted(table, start + begin * period, period, sources[part], holes[part], loose)
            if loop is not None:
                yield loop
                done = last
                break


def _phase(table: Table, start: int, stop: int, period: int) -> int:
    """At which item of the run iterations start: where the fewest values cross, then where the source jumps back."""
    periods = (stop - start) // period
    # the middle of the run: the first and the last iterations are wired to what is around
    middle = start + (periods - 2) // 2 * period
    ahead = min(middle + 2 * period, stop)
    sources = table.sources[table.offsets[middle] : table.offsets[ahead]]
    users = table.users[table.offsets[middle] : table.offsets[ahead]]
    low, high = int(table.first[middle]), int(table.first[middle + period])
    inside = (sources >= low) & (sources < high)
    last = np.zeros(high - low, np.int64)
    np.maximum.at(last, sources[inside] - low, users[inside] - middle)
    producer = np.repeat(np.arange(period), np.diff(table.first[middle : middle + period + 1]))
    crossing = np.zeros(2 * period + 1, np.int64)  # per boundary: values made before it and used after it
    np.add.at(crossing, producer + 1, last > producer)
    np.add.at(crossing, last + 1, -(last > producer).astype(np.int64))
    # a value made late in a period is used in the next: both periods count for the same boundary
    crossing = np.cumsum(crossing)[: 2 * period].reshape(2, period).sum(0)
    length = stop - start

    def rank(offset: int) -> tuple[int, bool, int, int]:
        here, before = table.items[middle + offset].loc, table.items[middle + (offset - 1) % period].loc
        jumps = here is not None and before is not None and here.file == before.file and here.line < before.line
        return int(crossing[offset]), not jumps, offset + (length - offset) % period, offset

    return min(range(period), key=rank)


def _holes(table: Table, start: int, period: int, count: int) -> Any:
    columns = []
    for item in range(start, start + period):
        if table.items[item].holes:
            columns.append(np.array([table.items[item + k * period].holes for k in range(count)], np.int64))
    return np.concatenate(columns, 1) if columns else np.zeros((count, 0), np.int64)


def _steps(table: Table, sources: Any, holes: Any, base: int, width: int) -> tuple[Any, Any]:
    """Which columns (slots, then holes) have no step, and after which iterations a column that has one changes it."""
    count = len(sources)
    columns = np.concatenate((sources, holes), 1)
    steps = np.diff(columns, axis=0)
    changes = steps[1:] != steps[:-1]
    constant = table.is_constant(sources)  # constants can be scanned whatever they are
    changes[:, : sources.shape[1]] &= ~(constant[:-2] & constant[1:-1] & constant[2:])
    # a value from d iterations back is an initial value in the first d
    back = count - 1 - (sources[-1] - base) // width
    back = np.where((sources[-1] >= base) & (back >= 1) & (back <= FARTHEST), back, 0)
    changes[:, : sources.shape[1]] &= np.arange(count - 2)[:, None] >= back
    loose = changes.sum(0) > OFTEN * (count - 2)
    return loose, changes[:, ~loose].any(1)


def _stretches(breaks: Any, count: int) -> list[tuple[int, int]]:
    """The iterations (first, one past last) between changes of step, at least three of them."""
    edges = [0, *(np.flatnonzero(breaks) + 1).tolist(), count - 1]
    return [(a, b + 1) for a, b in pairwise(edges) if b + 1 - a >= LEAST]


def _fitted(table: Table, start: int, period: int, sources: Any, holes: Any, loose: Any) -> RolledLoop | None:
    """These iterations as a loop, if they are one."""
    count, slots = sources.shape
    base = int(table.first[start])
    width = int(table.first[start + period]) - base
    if (np.diff(holes[:, ~loose[slots:]], n=2, axis=0) != 0).any():
        return None
    # numbers that differ are computed from the index, which is int32
    if (np.abs(holes) > LARGEST).any() and (holes != holes[0]).any():
        return None
    inside = sources >= base
    apart = ~inside.any(0)
    iterations = np.arange(count)[:, None]
    back, place = iterations - (sources - base) // max(width, 1), (sources - base) % max(width, 1)
    distance = np.where(apart, OUTSIDE, back[-1])
    # From iteration `distance` on a slot has the same result of so many iterations back; before, a value from outside, which is
    # what the loop carries at its start.
    fits = (inside == (iterations >= distance)) & (~inside | ((back == distance) & (place == place[-1])))
    if not (fits.all(0) | apart).all() or (distance > FARTHEST).any():
        return None
    same = (sources == sources[0]).all(0)
    fixed = apart & same
    scanned = apart & ~same & table.is_constant(sources).all(0)
    listed = apart & ~same & ~scanned
    steady = (np.diff(sources, n=2, axis=0) == 0).all(0)
    if (listed & ~steady & ~loose[:slots]).any():
        return None
    return RolledLoop(start, period, count, base, width, sources, holes, distance, place[-1], fixed, scanned, listed)
