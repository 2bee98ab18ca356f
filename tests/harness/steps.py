"""How many steps Python takes in a call: lines run and functions called. Counts, no clocks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def steps_of(run: Callable[[], Any]) -> int:
    """The lines executed (loops and comprehensions count each turn) and the Python and C functions called."""
    count = 0

    def local(frame: Any, event: str, arg: Any) -> Any:
        nonlocal count
        count += 1
        return local

    def profile(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        count += event == "c_call"

    before_trace, before_profile = sys.gettrace(), sys.getprofile()
    sys.setprofile(profile)
    sys.settrace(local)
    try:
        run()
    finally:
        sys.settrace(before_trace)
        sys.setprofile(before_profile)
    return count


def is_linear(small: int, large: int, factor: float, slack: float = 1.15) -> bool:
    """Whether work on `factor` times as much took that many times the steps: n log n passes, n to the 1.3 does not."""
    return large <= slack * factor * small
