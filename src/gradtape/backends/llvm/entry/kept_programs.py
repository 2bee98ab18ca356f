"""Programs on disk: the machine code of a traced program by its digest, so that passes and writing are skipped.

The key is the program's text before any pass (`ir/printer.py`: text and program determine each other), with all else that
decides what becomes of it: gradtape's own source, the versions of Python, NumPy and LLVM, the CPU. A file has the key of the
object code (`backends/object_cache.py` keeps and verifies both) and the names that the code needs of this process.
Invariants: a program is loaded only if all these names mean here what they meant where it was written; whoever finds one loads
no module that only writing needs (`tests/structure/test_layers.py`).
"""

from __future__ import annotations

from gradtape import config
from gradtape.backends import object_cache
from gradtape.backends.llvm.runtime import machine
from gradtape.backends.llvm.runtime.support import keep as store, kept_code
from gradtape.core.record import VariableKey
from gradtape.ir.graph import Block
from gradtape.ir.printer import text_and_objects


def key_of(traced: Block) -> str | None:
    """The digest of a program; None if it has Python objects that have no text, or is to be checked as it is made."""
    if config.passes_debugged() or config.native_cache_directory() is None:
        return None
    try:
        text, objects = text_and_objects(traced, digests=True)
    except RecursionError:  # regions in regions, deeper than the printer goes
        return None
    # (which variable a value was assigned to is asked by tapes, not by machine code; the text tells them apart)
    if any(thing.__class__ is not VariableKey for thing in objects):
        return None
    return machine.key_of(text, object_cache.makers())


def load(key: str) -> machine.Library | None:
    """The machine code of a program; None if it is not there, or was written for another world."""
    kept = kept_code(key)
    return None if kept is None else kept[1]


__all__ = ["key_of", "load", "store"]
