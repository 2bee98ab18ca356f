"""Programs on disk: the machine code of a traced program by its digest, so that passes and writing are skipped.

The key is the program's text before any pass (`ir/printer.py`: text and program determine each other), with all else that
decides what becomes of it: gradtape's own source, the versions of Python, NumPy and LLVM, the CPU. A file has the key of the
object code (`backends/object_cache.py` keeps and verifies both) and the names that the code needs of this process.
Invariants: a program is loaded only if all these names mean here what they meant where it was written; whoever finds one loads
no module that only writing needs (`tests/structure/test_layers.py`).
"""

from __future__ import annotations

from importlib import import_module

from gradtape import config
from gradtape.backends import object_cache
from gradtape.backends.llvm.runtime import machine, symbols
from gradtape.backends.llvm.runtime.support import Part
from gradtape.core.record import VariableKey
from gradtape.ir.graph import Block
from gradtape.ir.printer import text_and_objects

KIND, CONSTANT = "p", "c"
END = "\0"  # of each text in a file
PRODUCTS = "gradtape.backends.llvm.products"
LIBRARIES = {"gt_mm_": "gemm", "gt_windows_": "gemm", "gt_depthwise_": "depthwise"}  # parts that are made for each type


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
    kept = object_cache.load(key, KIND)
    if kept is None:
        return None
    object_key, level, *texts = kept.decode().split(END)
    declared = [*zip(texts[::2], texts[1::2], strict=True)]
    data = [name for name, _ in declared if name.startswith(machine.DATA)]
    raws = [object_cache.load(name.removeprefix(machine.DATA), CONSTANT) for name in data]
    constants = {name: raw for name, raw in zip(data, raws, strict=True) if raw is not None}
    if len(constants) < len(data) or not all(_is_known(*named) for named in declared if named[0] not in constants):
        return None
    code = object_cache.load(object_key)
    return None if code is None else machine.Library("", int(level), code, constants)


def _is_known(name: str, declaration: str) -> bool:
    """Whether a name means here what it meant there; what makes it known is done as if the program were written now."""
    _, _, part = declaration.partition(" ; ")
    if part:
        home, digest = part.split()
        module = import_module(home)
        if name == "gt_parallel":
            module.pool()
        for prefix, library in LIBRARIES.items():
            if name.startswith(prefix):
                import_module(f"{PRODUCTS}.{library}").library(name.rpartition("_")[2])
        return any(each.has(name, digest) for each in Part.all)
    if name.startswith("llvm."):
        return True
    if not machine.knows(name):
        symbols.introduce(name)
    return machine.knows(name)


def store(key: str, source: str, level: int, declared: dict[str, str], constants: dict[str, bytes]) -> None:
    """Keep where a program's machine code is, and its long constants."""
    for name, raw in constants.items():
        object_cache.store(name.removeprefix(machine.DATA), raw, CONSTANT)
    texts = [text for named in declared.items() for text in named]
    object_cache.store(key, END.join([machine.key_of(source, level), str(level), *texts]).encode(), KIND)
