"""What `explain` tells about the pieces of a native program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Note:
    """What `explain` tells about one piece of native code."""

    kind: str  # kernel, product, call of NumPy, loop, branch
    ops: tuple[str, ...]
    loc: Any
    detail: str = ""
