"""What the questions to a tape are answered with, for editors and type checkers: the classes themselves are in the tools.

`tests/structure/test_types.py` holds these to the classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any, Protocol


class ExplanationLike(Protocol):
    """Why a target and a source are connected, or not; printed, it shows the line too."""

    cause: str  # one word of a fixed list; "connected" if there is a gradient
    location: str | None
    message: str


class NanReportLike(Protocol):
    """The first operation that made something non-finite; printed, it is a few lines with the cure."""

    phase: str  # "forward" or "backward"
    op: str
    location: str | None
    indices: tuple[tuple[int, ...], ...]
    inputs: dict[str, Any]
    message: str


class ProfileLike(Protocol):
    """Time and bytes by line of the user's code, the slowest first; printed, it is a table."""

    rows: Sequence[Any]  # each with location, op, count, forward, backward, bytes, share
    forward: float
    backward: float
    bytes: int


class CheckResultLike(Protocol):
    """The gradient beside finite differences: true if nothing is wrong; printed, it says what is."""

    ok: bool
    error: float
    sources: Sequence[Any]
    rows: Sequence[Any]
    wrong: Sequence[Any]


class PictureLike(Protocol):
    """The graph of a tape; a notebook shows it."""

    path: str | None
    html: str

    def save(self, path: str | PathLike[str]) -> PictureLike: ...
    def text(self) -> str: ...
    def dot(self) -> str: ...
    def json(self) -> str: ...
