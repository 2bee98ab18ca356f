"""The flags in which a processor notes floating-point events, each thread its own: C's <fenv.h>, for native code and Python.

A flag says that something happened, perhaps on a lane that is not used; what, and where, is found by looking.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Callable
from typing import Any

from gradtape.backends.llvm.runtime import machine
from gradtape.backends.llvm.writing.algebra import I32
from gradtape.backends.llvm.writing.builder import Int32, external

_LIBRARY = ctypes.CDLL("ucrtbase" if sys.platform == "win32" else None)
# invalid, division by zero, overflow
EVENTS = 0x1C if sys.platform == "win32" else 0b1101 if platform.machine() in ("x86_64", "AMD64", "i386") else 0b0111


def _known(name: str) -> tuple[Callable[[int], int], Callable[..., Int32]]:
    function: Any = getattr(_LIBRARY, name)
    machine.symbol(name, ctypes.cast(function, ctypes.c_void_p).value or 0)
    return function, external(name, I32, I32)


test, tested = _known("fetestexcept")  # Python's function, and that of routines
clear, cleared = _known("feclearexcept")
note, noted = _known("feraiseexcept")
