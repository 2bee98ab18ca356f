"""Whether work that is repeated leaves memory behind."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

SLACK = 2 << 20  # bytes that a process may grow by for reasons of its own


def resident() -> int:
    """Bytes of this process in memory, after what nobody needs is gone."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def stays_flat(work: Callable[[int], Any], count: int) -> None:
    """`work(n)` does something n times: after a fifth of them, the rest takes no more memory."""
    work(count // 5)
    before = resident()
    work(count)
    grown = resident() - before
    assert grown < SLACK, f"{grown} bytes more after {count} calls"
