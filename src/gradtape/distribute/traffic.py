"""What communication cost this rank: calls, bytes, seconds in which it waited for others and in which data travelled.

Counted always, in all; by the user's lines only while somebody measures (`by_line`), since compiled programs then
leave each operation to Python.
"""

from __future__ import annotations

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


class Traffic:
    """Sums; `lines` is None while nobody asks for them."""

    def __init__(self) -> None:
        self.total = Amount()
        self.lines: dict[tuple[str, str], Amount] | None = None  # (operation, line) → amount

    def add(self, statement: Statement, waited: float, moved: float) -> None:
        """One operation was done."""
        amounts = [self.total]
        if self.lines is not None:
            amounts.append(self.lines.setdefault((statement.name, statement.line), Amount()))
        for amount in amounts:
            amount.calls += 1
            amount.bytes += statement.bytes
            amount.waited += waited
            amount.moved += moved
