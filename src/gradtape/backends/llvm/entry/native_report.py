"""What `explain` tells about a native program: how long it took to make, and what became of its operations."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence

from gradtape.backends.llvm.runtime.notes import Note

SHOWN = 12  # kernels; more are counted


def lines(name: str, notes: Sequence[Note], times: Mapping[str, float], cached: bool, size: int, frame: int) -> list[str]:
    """One line on the whole, one per kernel, product, loop, branch and call of NumPy."""
    origin = "object code from the cache" if cached else "compiled by LLVM"
    head = (
        f"{name} is native code: passes {times['passes'] * 1e3:.1f} ms, written in {times['written'] * 1e3:.1f} ms ({size} "
        f"characters of IR), {origin} in {times['compiled'] * 1e3:.1f} ms; {frame} bytes for values in between"
    )
    told = [head]
    for note in notes[:SHOWN]:
        told.append(f"  {_line(note)}")
    # what leaves native code is what makes a program slow: it is named however many kernels there are
    left = Counter(" ".join(note.ops) for note in notes[SHOWN:] if note.kind == "numpy")
    told += [f"  calls NumPy: {ops}" + (f" ({count} times)" if count > 1 else "") for ops, count in left.items()]
    rest = Counter(note.kind for note in notes[SHOWN:] if note.kind != "numpy")
    if rest:
        told.append("  and " + ", ".join(f"{count} × {kind}" for kind, count in rest.items()))
    return told


def _line(note: Note) -> str:
    where = "" if note.loc is None else f"  ({os.path.basename(note.loc.file)}:{note.loc.line})"
    detail = f", {note.detail}" if note.detail else ""
    ops = " ".join(note.ops)
    if note.kind == "kernel":
        fused = f" of {len(note.ops)} fused operations" if len(note.ops) > 1 else ""
        return f"kernel{fused}{detail}: {ops}{where}"
    if note.kind == "numpy":
        return f"calls NumPy: {ops}{where}"
    return f"{note.kind}{detail}: {ops}{where}"
