"""From the module that `transform.compiled` makes, or that was found on disk, to the code of the converted function: the names
are those that the user wrote, and what is converted is known as such from now on."""

from __future__ import annotations

import sys
from types import CodeType
from typing import Any

from gradtape.functions.autograph.code_registry import Entry, note

FACTORY = "ag__factory"
CONVERTED = "ag__converted"
OPTIMIZED = 0x01  # a function's code, as opposed to a class body's
# how functions that the user wrote as expressions are called in tracebacks
EXPRESSION_NAMES = {"lambda": "<lambda>", "genexpr": "<genexpr>", "genlist": "<genexpr>"}
if sys.version_info < (3, 12):  # since then, comprehensions have no frames of their own
    EXPRESSION_NAMES |= {"listcomp": "<listcomp>", "setcomp": "<setcomp>", "dictcomp": "<dictcomp>"}


def converted_code(module: CodeType, code: CodeType) -> CodeType:
    """The converted function of a compiled module, named like the original."""
    return _renamed(_code_named(_code_named(module, FACTORY), CONVERTED), code.co_name, code.co_qualname, generated=False)


def _code_named(code: CodeType, name: str) -> CodeType:
    return next(c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == name)


def _renamed(code: CodeType, name: str, qualname: str, generated: bool) -> CodeType:
    """Names as if the user's functions stood where the user wrote them; what is converted is known as such from now on."""
    consts = tuple(_renamed_inside(c, name, qualname) if isinstance(c, CodeType) else c for c in code.co_consts)
    named = code.replace(co_name=name, co_qualname=qualname, co_consts=consts)
    note(named, Entry(converted=True, generated=generated))
    return named


def _renamed_inside(code: CodeType, owner: str, qualname: str) -> CodeType:
    raw = code.co_name
    if raw == "<lambda>" or (raw.startswith("ag__") and raw.split("_")[2] not in EXPRESSION_NAMES):
        return _renamed(code, owner, qualname, generated=True)
    name = EXPRESSION_NAMES[raw.split("_")[2]] if raw.startswith("ag__") else raw
    if not code.co_flags & OPTIMIZED:
        return _moved(code, code.co_qualname, f"{qualname}.<locals>.{name}")
    return _renamed(code, name, f"{qualname}.<locals>.{name}", generated=False)


def _moved(code: CodeType, old: str, new: str) -> CodeType:
    """A class body, which is left alone: it and what is in it keep their names, below another one."""

    def moved(value: Any) -> Any:
        if isinstance(value, CodeType):
            return _moved(value, old, new)
        return new + value[len(old) :] if isinstance(value, str) and value == old else value

    consts = tuple(moved(c) for c in code.co_consts)
    return code.replace(co_qualname=new + code.co_qualname[len(old) :], co_consts=consts)
