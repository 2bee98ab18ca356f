"""The frame of a native function: memory whose layout is known when the code is written.

It knows offsets only; who lives where, and for how long, is the business of `scope.py`. Invariant: parts that are taken never
overlap.
"""

from __future__ import annotations

from dataclasses import dataclass, field

ALIGN = 64


@dataclass(slots=True)
class FrameLayout:
    """Memory whose layout is known when the code is written: first fit, in the order of the code."""

    size: int = 0
    free: list[tuple[int, int]] = field(default_factory=list)  # (offset, bytes), sorted

    def take(self, count: int) -> int:
        count = max(ALIGN, -(-count // ALIGN) * ALIGN)
        for k, (offset, bytes) in enumerate(self.free):
            if bytes >= count:
                if bytes == count:
                    del self.free[k]
                else:
                    self.free[k] = (offset + count, bytes - count)
                return offset
        offset = self.size
        self.size += count
        return offset

    def give(self, offset: int, count: int) -> None:
        count = max(ALIGN, -(-count // ALIGN) * ALIGN)
        merged: list[tuple[int, int]] = []
        # neighbours become one piece again, or large arrays would find no place among small free ones
        for start, bytes in sorted([*self.free, (offset, count)]):
            if merged and merged[-1][0] + merged[-1][1] == start:
                merged[-1] = (merged[-1][0], merged[-1][1] + bytes)
            else:
                merged.append((start, bytes))
        self.free = merged
