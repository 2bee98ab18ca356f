"""Floating-point events of eager operations (log of -1, division by zero), told at the user's line, in the user's words.

NumPy and SciPy warn at the line that calls them, which is ours. A filter makes such a warning an exception if it arises below
a form of dispatch; that runs the operation again, silently, and warns where the user stands. Other settings are respected.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextvars import ContextVar
from opcode import opmap
from sys import _getframe
from types import CodeType, FrameType
from typing import Any

import numpy as np

from gradtape.core.observers import TOOLS
from gradtape.core.opdef import Op
from gradtape.core.record import INTERNAL, user_frame, warn_at

FORMS: set[str] = set()  # the file names of dispatch's forms
OPERATORS: set[CodeType] = set()  # impls that machine code may call in the place of a form
_BELOW = ("numpy.", "scipy.")  # modules that operations call
_BINARY = opmap["BINARY_OP"]
_AGAIN: ContextVar[bool] = ContextVar("an operation runs again, and is silent")


def below_the_user(frame: FrameType) -> bool:
    """Whether a frame is gradtape's or one of the libraries that its operations call."""
    return frame.f_code.co_filename in INTERNAL or frame.f_globals.get("__name__", "").startswith(_BELOW)


class _Operations:
    """The modules of a filter: where a warning arises in an operation that dispatch runs, for the first time or again."""

    pattern = "(?!)"  # for those who copy filters: without the frames, it matches nothing

    def __init__(self, again: bool) -> None:
        self._again = again

    def match(self, module: str) -> bool:
        frame: Any = _getframe(1)
        code, place = frame.f_code.co_code, frame.f_lasti
        if _AGAIN.get(False) is not self._again or not module.startswith(("gradtape.", *_BELOW)):
            return False
        while frame is not None and below_the_user(frame):
            if frame.f_code.co_filename in FORMS or frame.f_code in OPERATORS:
                return True
            frame = frame.f_back
        # an operator of tensors in a composite: machine code runs it without a frame, and leaves what fails to the form
        return module.startswith("gradtape.ops.") and code[place] == _BINARY


def rerun(op: Op, datas: Sequence[Any], attrs: dict[str, Any], event: RuntimeWarning) -> Any:
    """The result of an operation that NumPy or SciPy warned of, after warning the user."""
    if op.effect:
        raise event
    token = _AGAIN.set(True)
    try:
        with np.errstate(all="ignore"):
            result = op.impl(*datas, **attrs)
    finally:
        _AGAIN.reset(token)
    frame = user_frame(1)
    warn_at(frame, frame.f_lineno, TOOLS["float_event"](op, result, str(event), frame), type(event))
    return result


def listen() -> None:
    """Put the filters before those that are there."""
    for action, again in (("ignore", True), ("error", False)):
        warnings.filterwarnings(action, category=RuntimeWarning)  # type: ignore[arg-type]
        warnings.filters[0] = (*warnings.filters[0][:3], _Operations(again), 0)  # type: ignore[index]


listen()
