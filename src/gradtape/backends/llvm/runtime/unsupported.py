"""The error that says why a program has no machine code."""

from __future__ import annotations

from gradtape.errors import InternalError
from gradtape.ir.graph import Operation


class UnsupportedError(InternalError):
    """A program has something native code cannot express; it runs on the reference backend. Says what and where."""

    def __init__(self, what: str, operation: Operation | None = None) -> None:
        where = "" if operation is None or operation.loc is None else f", at {operation.loc}"
        super().__init__(f"{what}{where}")
