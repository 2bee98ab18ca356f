"""Where the names of a converted function live: its globals, and the cells it shares with code that is not converted."""

from __future__ import annotations

from types import CellType
from typing import Any

VARIABLE, FREE, GLOBAL = "variable", "free", "global"  # whose variable a name is


class Bindings:
    """One per converted function; converted code knows it as `scope__`."""

    __slots__ = ("cells", "globals", "name")

    def __init__(self, name: str, space: dict[str, Any], cells: dict[str, CellType]) -> None:
        self.name = name
        self.globals = space
        self.cells = cells

    def __repr__(self) -> str:
        return f"<bindings of {self.name}>"
