"""Code that every program may call, compiled once in a process: programs name its functions and stay small.

A part is IR text. It is compiled, or read from the object cache, when the first program that needs it is written. Its digest
stands in the declaration of each function, so that object code kept on disk never meets another version of it.
"""

from __future__ import annotations

import ctypes
import hashlib
import threading
from collections.abc import Callable, Mapping
from typing import Any

from gradtape.backends.llvm import machine

_LOCK = threading.RLock()
machine.held_by_forks(_LOCK.acquire, _LOCK.release)


class Part:
    """Some functions and their signatures; `before` tells LLVM the addresses of what they call."""

    def __init__(self, text: str, signatures: Mapping[str, str], before: Callable[[], Any] = lambda: None) -> None:
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        self._text = text
        self._before = before
        self._declared = {name: f"{signature} nounwind ; {digest}" for name, signature in signatures.items()}
        self._library: machine.Library | None = None

    def use(self, module: Any, name: str) -> str:
        """Declare a function in a module; gives the name to call."""
        self.load()
        declared: str = module.declare(name, self._declared[name])
        return declared

    def load(self) -> machine.Library:
        """The part as machine code, whose functions all modules know from now on."""
        with _LOCK:
            if self._library is None:
                self._before()
                library = machine.Library(self._text, level=0)  # it is written as it is to be
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(library))  # programs call it as long as the process lives
                for name in self._declared:
                    machine.symbol(name, library.address(name))
                self._library = library
            return self._library
