"""A person who waits for a function at a terminal or in a notebook is told why: tracing or compiling that takes more than a
second says so, in one line, which ends with the seconds it took. Where nobody looks (a pipe, a file) nothing is written.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 1.0  # seconds
_LINE = threading.Lock()  # of the one line that is written: what is done inside of what is waited for says nothing


@contextmanager
def waiting(doing: str, name: str) -> Iterator[None]:
    """Around what may take long: `doing` is a verb, `name` a function's."""
    stream = sys.stderr
    seen = getattr(stream, "isatty", bool)() or type(stream).__module__.startswith("ipykernel")
    if not seen or not _LINE.acquire(blocking=False):
        yield
        return
    began = time.monotonic()
    said = threading.Event()

    def say() -> None:
        said.set()
        stream.write(f"gradtape: {doing} `{name}` ...")
        stream.flush()

    timer = threading.Timer(PATIENCE, say)
    timer.daemon = True
    try:
        timer.start()
        yield
    finally:
        timer.cancel()
        if said.is_set():
            timer.join()
            stream.write(f" {time.monotonic() - began:.1f} s\n")
        _LINE.release()
