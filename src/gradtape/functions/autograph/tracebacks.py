"""Tracebacks as the user would see them without conversion: user frames and lines only.

Frames of gradtape go; a frame whose work goes on in a generated piece of the same function goes too, since the piece
carries the function's name and the line that matters. Nothing else about an exception is changed.
"""

from __future__ import annotations

from types import TracebackType
from typing import TypeVar

from gradtape.core.record import INTERNAL
from gradtape.functions.autograph.code_registry import ENTRIES

Error = TypeVar("Error", bound=BaseException)


def strip(error: Error) -> Error:
    """The same exception, its traceback and those of its causes reduced to the user's frames."""
    pending: list[BaseException | None] = [error]
    seen: set[int] = set()
    while pending:
        current = pending.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        current.__traceback__ = user_frames(current.__traceback__)
        pending += [current.__cause__, current.__context__]
    return error


def user_frames(traceback: TracebackType | None) -> TracebackType | None:
    """The entries of a traceback that stand in the user's code."""
    entries = []
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename not in INTERNAL:
            entries.append(traceback)
        traceback = traceback.tb_next
    kept: TracebackType | None = None
    piece = False  # whether the entry after this one is a generated piece of the same function
    for entry in reversed(entries):
        if not piece:
            kept = TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
        known = ENTRIES.get(id(entry.tb_frame.f_code))
        piece = known is not None and known.generated
    return kept
