"""Floating-point events of eager operations (log of -1, division by zero), told at the user's line, in the user's words.

NumPy and SciPy warn at the line that calls them, which is ours. A filter makes such a warning an exception if it arises below
a form of dispatch; that runs the operation again, silently, and warns where the user stands. Other settings are respected.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from opcode import opmap
from sys import _getframe, modules
from threading import RLock
from types import CodeType, FrameType
from typing import Any

import numpy as np

from gradtape.core.observers import TOOLS
from gradtape.core.opdef import Op
from gradtape.core.record import INTERNAL, location, user_frame

FORM_FILES: set[str] = set()  # the file names of dispatch's forms
OPERATORS: set[CodeType] = set()  # impls that machine code may call in the place of a form
_BELOW = ("numpy.", "scipy.")  # modules that operations call
LOOK: ContextVar[Any] = ContextVar("who looks at a program: the instruction is its `place`, what it hears `events`")
_FILTERS = RLock()
SILENT: ContextVar[bool] = ContextVar("whether operations that are traced are silent about events, as those of derivatives")


def below_the_user(frame: FrameType) -> bool:
    """Whether a frame is gradtape's or one of the libraries that its operations call."""
    return frame.f_code.co_filename in INTERNAL or frame.f_globals.get("__name__", "").startswith(_BELOW)


class _Operations:
    """The modules of a filter: where a warning arises in an operation that dispatch runs."""

    pattern = "(?!)"  # for those who copy filters: without the frames, it matches nothing

    def match(self, module: str) -> bool:
        frame: Any = _getframe(1)
        code, place = frame.f_code.co_code, frame.f_lasti
        if not module.startswith(("gradtape.", *_BELOW)):
            return False
        while frame is not None and below_the_user(frame):
            if frame.f_code.co_filename in FORM_FILES or frame.f_code in OPERATORS:
                return True
            frame = frame.f_back
        # an operator of tensors in a composite: machine code runs it without a frame, and leaves what fails to the form
        return module.startswith("gradtape.ops.") and code[place] == opmap["BINARY_OP"]


def rerun(op: Op, datas: Sequence[Any], attrs: dict[str, Any], event: RuntimeWarning) -> Any:
    """The result of an operation that NumPy or SciPy warned of, after warning the user."""
    if op.effect:
        raise event
    with np.errstate(all="ignore"), unwarned():
        result = op.impl(*datas, **attrs)
    frame = user_frame(1)
    code, lasti, space = frame.f_code, frame.f_lasti, frame.f_globals
    if (look := LOOK.get(None)) is not None:
        look.events += 1
        code, lasti, space = look.place.code, look.place.lasti, _globals_of(look.place.file) or space
    said, registry = TOOLS["float_event"](op, result, str(event), code, lasti), space.setdefault("__warningregistry__", {})
    file, line = location(code, lasti)
    # Python counts once for each text and line; what the next operation of a line makes of an infinity is no news
    told, filters = registry.get((type(event), line), (said, None))
    if told == said or filters is not warnings.filters:
        warnings.warn_explicit(said, type(event), file, line, space.get("__name__"), registry)
        if (said, type(event), line) in registry:  # not with "always"
            registry[type(event), line] = said, warnings.filters
    return result


@contextmanager
def unheard() -> Iterator[None]:
    """Operations that are traced are silent about their events."""
    token = SILENT.set(True)
    try:
        yield
    finally:
        SILENT.reset(token)


def _globals_of(file: str) -> dict[str, Any] | None:
    """The names of the module of a file."""
    return next((vars(module) for module in list(modules.values()) if getattr(module, "__file__", None) == file), None)


@contextmanager
def unwarned() -> Iterator[None]:
    """Nobody hears of warnings; and Python does not forget what it has warned of, as it does when its filters are changed."""
    with _FILTERS:  # of two threads at once the second would put back the silence of the first, for good
        before = warnings.filters
        warnings.filters = [("ignore", None, Warning, None, 0)]
        try:
            yield
        finally:
            warnings.filters = before


def listen() -> None:
    """Put the filter before those that are there; every change makes Python forget what it has warned of."""
    if warnings.filters and isinstance(warnings.filters[0][3], _Operations):
        return
    warnings.filterwarnings("error", category=RuntimeWarning)
    warnings.filters[0] = (*warnings.filters[0][:3], _Operations(), 0)  # type: ignore[index]


listen()
