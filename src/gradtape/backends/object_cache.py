"""Object code on disk, between processes: one file per module (`.o`), program (`.p`, see `llvm/entry/kept_programs.py`), long
constant (`.c`) or rewritten Python function (`.f`, see `functions/autograph/kept_conversions.py`), in the user's directory.

A file is written under another name and moved into place, so processes never see half of one; it carries the digest of its
key and content, so one that is damaged, or another's, is not used but made again. The directory is bounded: the files used
longest ago go first. A directory that cannot be written is no reason to fail: then nothing is kept.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from gradtape import config

MAGIC = b"gradtape object 2\n"
NEW, OLD = ".new", 3600  # how files are called before they are complete, and after how many seconds nobody completes them
LOOKS = 64  # how often the size is looked at while as much as the limit is written, by all processes together


@functools.cache
def makers() -> str:
    """What makes what is kept: the versions of everything, and of gradtape's own files the time of their last change."""
    files = []
    waiting = [str(Path(config.__file__).parent)]
    while waiting:
        for entry in os.scandir(waiting.pop()):
            if entry.is_dir():
                waiting.append(entry.path)
            elif entry.name.endswith(".py"):
                state = entry.stat()
                files.append((entry.path, state.st_size, state.st_mtime_ns))
    return repr((sys.version, np.__version__, sorted(files)))


def load(key: str, kind: str = "o") -> bytes | None:
    """The object code of a module, None if there is none or it is damaged."""
    place = _path(key, kind)
    if place is None:
        return None
    try:
        content = place.read_bytes()
    except OSError:
        return None
    head = len(MAGIC) + 32
    if content[: len(MAGIC)] != MAGIC or content[len(MAGIC) : head] != _digest(key, content[head:]):
        with contextlib.suppress(OSError):
            place.unlink()
        return None
    with contextlib.suppress(OSError):
        os.utime(place)  # used just now
    return content[head:]


def store(key: str, code: bytes, kind: str = "o") -> None:
    """Keep the object code of a module."""
    place = _path(key, kind)
    if place is None:
        return
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=place.parent, prefix=NEW)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(MAGIC + _digest(key, code) + code)
            os.replace(name, place)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
    except OSError:
        return
    limit = config.native_cache_bytes()
    # A look takes a second in a full directory; keys are digests, as good as random numbers: no process has to begin with one.
    if int(key[:15], 16) % limit < LOOKS * len(code):
        trim(place.parent.parent, limit)


def _digest(key: str, code: bytes) -> bytes:
    return hashlib.sha256(key.encode() + b"\0" + code).digest()


def trim(directory: Path, limit: int) -> None:
    """Remove what was used longest ago until the files fit into the limit."""
    files = []
    for file in directory.glob("*/*.[cfop]"):
        with contextlib.suppress(OSError):
            state = file.stat()
            files.append((state.st_mtime, state.st_size, file))
    for file in directory.glob(f"*/{NEW}*"):  # of a process that ended while it wrote
        with contextlib.suppress(OSError):
            if file.stat().st_mtime < time.time() - OLD:
                file.unlink()
    total = sum(size for _, size, _ in files)
    for _, size, file in sorted(files):
        if total <= limit:
            break
        with contextlib.suppress(OSError):
            file.unlink()
        total -= size


def _path(key: str, kind: str) -> Path | None:
    directory = config.native_cache_directory()
    return None if directory is None else Path(directory) / key[:2] / f"{key}.{kind}"
