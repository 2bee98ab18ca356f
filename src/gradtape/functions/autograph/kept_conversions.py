"""Rewritten Python functions on disk, so that a process that finds one neither parses its file nor rewrites it.

The key is all that the rewriting reads: the text of the file and where in it the code stands, its names, the builtins that its
module has values of its own for; and gradtape's source and Python's version, which do the rewriting. What is kept is the code
that `transform.compiled` makes. Invariants: what is loaded is what would be made; whoever finds it does not load the rewriting.
"""

from __future__ import annotations

import builtins
import hashlib
import marshal
from types import CodeType
from typing import Any

from gradtape import config
from gradtape.backends import object_cache

KIND = "f"


def key_of(code: CodeType, text: str, space: dict[str, Any]) -> str | None:
    """What names the rewritten form of a function in a file of this text; None if nothing is kept."""
    if config.native_cache_directory() is None or not text:
        return None
    # lambdas of one line are told apart by the positions of their instructions, or by what they return
    is_lambda = code.co_name == "<lambda>"
    constants = [value for value in code.co_consts if not isinstance(value, CodeType)] if is_lambda else ()
    place = code.co_filename, code.co_firstlineno, [*code.co_positions()] if is_lambda else ()
    names = code.co_name, code.co_qualname, code.co_varnames, code.co_freevars, code.co_argcount, code.co_kwonlyargcount
    parts = (object_cache.makers(), repr((place, constants, names, code.co_flags, own_builtins(space))), text)
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def own_builtins(space: dict[str, Any]) -> list[str]:
    """The names of builtins that a module has its own values for."""
    return [name for name in dir(builtins) if name in space]


def load(key: str | None) -> CodeType | None:
    """What the rewriting made of a function; None if it is not there."""
    kept = None if key is None else object_cache.load(key, KIND)
    return None if kept is None else marshal.loads(kept)  # noqa: S302  (as trusted as the machine code beside it)


def store(key: str | None, module: CodeType) -> None:
    """Keep what it made."""
    if key is not None:
        object_cache.store(key, marshal.dumps(module), KIND)
