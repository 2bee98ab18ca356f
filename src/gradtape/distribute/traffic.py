"""What communication cost this rank: calls, bytes, seconds in which it waited for others and in which data travelled.

Counted always, in all; by the user's lines only while somebody measures (`MpiWorld.measure`), since compiled programs then
leave each operation to Python. `by_line` brings the ranks' tables together; the rank that waits least is the one that the
others wait for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gradtape.distribute.rank_errors import Statement


@dataclass
class Amount:
    """Of one line, or in all."""

    calls: int = 0
    bytes: int = 0
    waited: float = 0.0  # seconds until all ranks had come: what imbalance costs
    moved: float = 0.0  # seconds after that

    def add(self, bytes: int, waited: float, moved: float) -> None:
        """One operation more."""
        self.calls += 1
        self.bytes += bytes
        self.waited += waited
        self.moved += moved


Lines = dict[tuple[str, str], Amount]  # (operation, line of the user) → what it cost


class Traffic:
    """Sums; `lines` is None while nobody asks for them."""

    def __init__(self) -> None:
        self.total = Amount()
        self.lines: Lines | None = None

    def add(self, statement: Statement, waited: float, moved: float) -> None:
        """One operation was done."""
        self.total.add(statement.bytes, waited, moved)
        if self.lines is not None:
            self.lines.setdefault((statement.name, statement.line), Amount()).add(statement.bytes, waited, moved)


@dataclass
class LineTraffic:
    """One operation at one line, over all ranks."""

    operation: str
    line: str
    own: Amount  # of this rank
    waited: list[float]  # seconds, by rank

    @property
    def imbalance(self) -> float:
        """Seconds that the rank that waited longest lost to the one that came last."""
        return max(self.waited) - min(self.waited)

    @property
    def last(self) -> int:
        """The rank that the others waited for."""
        return self.waited.index(min(self.waited))


def by_line(ranks: Sequence[Lines], rank: int) -> list[LineTraffic]:
    """The ranks' tables as one, the dearest line of this rank first."""
    places = dict.fromkeys(place for lines in ranks for place in lines)
    none = Amount()
    table = [
        LineTraffic(*place, ranks[rank].get(place, none), [lines.get(place, none).waited for lines in ranks])
        for place in places
    ]
    return sorted(table, key=lambda one: -(one.own.waited + one.own.moved + one.imbalance))


def summary(table: Sequence[LineTraffic], seconds: float) -> list[str]:
    """A few lines for a terminal."""
    waited, moved = sum(one.own.waited for one in table), sum(one.own.moved for one in table)
    if not table:
        return []
    share = (waited + moved) / max(seconds, 1e-12)
    size = sum(one.own.bytes for one in table) / 1e6
    lines = [
        f"communication: {waited + moved:.3g} s ({share:.0%}), {waited:.3g} s of it waiting for other ranks; {size:.3g} MB in "
        f"{sum(one.own.calls for one in table):,} calls"
    ]
    worst = max(table, key=lambda one: one.imbalance)
    if worst.imbalance > 0.05 * seconds:
        lines.append(
            f"imbalance: ranks wait for rank {worst.last} in {worst.operation} at {worst.line}, {worst.imbalance:.3g} s"
        )
    return lines
