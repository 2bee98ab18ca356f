"""Where the values a tape watches became NumPy arrays or Python numbers, which no tape can follow: for `tape.explain`.

Each open tape's key keeps a table of the user's lines at which that happened, with a few of the versions that left at each;
these are held weakly. Nothing is noted while no tape is open, nor when gradtape looks at its own values.
"""

from __future__ import annotations

import os
import weakref
from sys import _getframe
from types import CodeType
from typing import Any

import numpy as np

from gradtape.core.record import INTERNAL, SCOPE, Record, RecordingScope, TapeKey, Unwatched, user_frame

_NUMPY = os.path.dirname(np.__file__)
_INSTALLED = os.path.dirname(_NUMPY)
# libraries that compute with arrays: what they are given they convert, and what they give back has no gradient
ARRAY_LIBRARIES = ("jax", "pandas", "polars", "sklearn", "skimage", "statsmodels", "xarray")
LIBRARIES = tuple(os.path.join(_INSTALLED, name, "") for name in ("numpy", "scipy", *ARRAY_LIBRARIES))
LOOKING_ONLY = (
    os.path.join(_NUMPY, "testing"), os.path.join(_NUMPY, "_core", "arrayprint.py"),
    os.path.join(_INSTALLED, "pandas", "io", ""), os.path.join(_INSTALLED, "pandas", "plotting", ""),
)  # fmt: skip
_FEW = 32  # versions remembered for one line


def asking_location() -> str:
    """ "file:line" of the user's code that asked for a value, itself or through functions of NumPy and SciPy."""
    frame = user_frame(1)
    while frame.f_code.co_filename.startswith(LIBRARIES) or frame.f_code.co_filename in INTERNAL:
        if frame.f_back is None:
            break
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


class Exit:
    """A line of the user's at which values left, and how. `values` are pairs: a weak reference to the version that left (or
    what stands for it, if nobody watches it), and one to the record that was the tape's last at that moment."""

    __slots__ = ("code", "how", "lasti", "values")

    def __init__(self, code: CodeType, lasti: int, how: str) -> None:
        self.code = code
        self.lasti = lasti
        self.how = how
        self.values: list[tuple[Any, Any]] = []


def left(node: Record, how: str, depth: int = 2) -> None:
    """Called by the method with which the user (`depth` frames from here) took the value of a version out of the tape."""
    frame: Any = _getframe(depth)
    code = frame.f_code
    keys = node.keys
    if len(keys) == 1 and (exits := keys[0].exits) is not None:  # a line that is known, as in a loop
        known = exits.get((id(code), frame.f_lasti))
        if known is not None and len(known.values) == _FEW:
            return
    if code.co_filename in INTERNAL:
        return
    while code.co_filename.startswith(LIBRARIES):
        if code.co_filename.startswith(LOOKING_ONLY) or frame.f_back is None:
            return
        frame = frame.f_back
        code = frame.f_code
    scope = SCOPE.get()
    wanted = [key for key in keys if key.open and (key.holds or key.history)]
    if not wanted and scope is not None:
        wanted = [key for key in scope.keys if key.open and key.holds]
    place = (id(code), frame.f_lasti)  # the exit holds the code, so the number stays its own; the hash of a code is slow
    for key in wanted:
        if key.exits is None:
            key.exits = {}
        exit = key.exits.get(place)
        if exit is None:
            exit = key.exits[place] = Exit(code, frame.f_lasti, how)
        if len(exit.values) < _FEW:
            exit.values.append((node if isinstance(node, Unwatched) else weakref.ref(node), _last(scope, key)))


def _last(scope: RecordingScope | None, key: TapeKey) -> weakref.ref[Record] | None:
    """A weak reference to the last record of a tape; None if there is none, or it does not record here."""
    for recorder in () if scope is None else scope.recorders:
        if recorder.key is key and key.holds and recorder.records:
            return weakref.ref(recorder.records[-1])
    return None
