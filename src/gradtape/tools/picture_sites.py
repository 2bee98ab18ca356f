"""Where things happened, in the user's own words: the function, the line, the expression and its operands.

A `CodeSite` is an instruction of the user's code. Its text comes from the source as Python's own tracebacks find it, so
notebooks work too; without the source there is still the file and the line.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import os
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FrameType, ModuleType
from typing import Any

from gradtape.core.opdef import Op
from gradtape.core.record import INTERNAL, Line, Record
from gradtape.ops.elementwise import ADD, DIVIDE, MULTIPLY, NEGATIVE, POW, SUBTRACT
from gradtape.ops.matmul import MATMUL
from gradtape.ops.select import FLOORDIV, MOD

_OPERATORS: dict[type[ast.AST], Op] = {
    ast.Add: ADD, ast.Sub: SUBTRACT, ast.Mult: MULTIPLY, ast.Div: DIVIDE, ast.MatMult: MATMUL, ast.Pow: POW, ast.Mod: MOD,
    ast.FloorDiv: FLOORDIV, ast.USub: NEGATIVE,
}  # fmt: skip
_UNNAMED = re.compile(r"Variable(_\d+)?(:\d+)?$")  # the names variables get when nobody names them
_LONGEST = 28  # characters of an expression that still serves as a name
_TALLEST = 40  # lines of an expression that is still read


@dataclass(frozen=True, slots=True)
class CodeSite:
    """One instruction: its file, line, function, the text of the line, and the whole expression (empty when not known), which
    may go on in further lines; `column` and `end` delimit it in `text`."""

    file: str
    line: int
    function: str
    text: str
    column: int
    end: int
    expression: str

    def short(self) -> str:
        """ "name.py:12" without the folder."""
        return f"{os.path.basename(self.file)}:{self.line}"


class Sites:
    """The sites of one tape, each worked out once; the tape's records keep the code objects alive, whose identity counts."""

    def __init__(self) -> None:
        self._by_place: dict[tuple[int, int], CodeSite] = {}
        self._positions: dict[int, list[Any]] = {}

    def of(self, record: Record) -> CodeSite | None:
        """The site of a record; None for a leaf."""
        return None if record.code is None else self.at(record.code, record.lasti)

    def at(self, code: CodeType | Line, lasti: int) -> CodeSite:
        """The site of an instruction."""
        key = (id(code), lasti)
        if key not in self._by_place:
            self._by_place[key] = self._site(code, lasti)
        return self._by_place[key]

    def line(self, record: Record) -> tuple[str, int]:
        """File and line of a record."""
        place = self.of(record)
        return ("", 0) if place is None else (place.file, place.line)

    def _site(self, code: CodeType | Line, lasti: int) -> CodeSite:
        if isinstance(code, Line):
            text = linecache.getline(code.co_filename, code.co_firstlineno).strip()
            return CodeSite(code.co_filename, code.co_firstlineno, code.co_name, text, 0, 0, "")
        if id(code) not in self._positions:
            self._positions[id(code)] = list(code.co_positions())
        positions = self._positions[id(code)]
        first, last, left, right = positions[lasti // 2] if lasti // 2 < len(positions) else (None, None, None, None)
        line = code.co_firstlineno if first is None else first
        whole = linecache.getline(code.co_filename, line).rstrip("\n")
        text = whole.strip()
        column = end = 0
        expression = ""
        if left is not None and right is not None and last is not None:
            indent = len(whole) - len(whole.lstrip())
            column = _characters(whole, left) - indent
            end = _characters(whole, right) - indent if last == first else len(text)
            expression = text[column:end]
            if line < last < line + _TALLEST:
                rest = [linecache.getline(code.co_filename, k) for k in range(line + 1, last + 1)]
                expression = "".join([expression, "\n", *rest[:-1], rest[-1][: _characters(rest[-1], right)]])
        return CodeSite(code.co_filename, line, code.co_qualname, text, max(column, 0), max(min(end, len(text)), 0), expression)


def _characters(text: str, offset: int) -> int:
    """Positions are in bytes of UTF-8."""
    return len(text.encode()[:offset].decode(errors="ignore"))


@lru_cache(maxsize=4096)
def operands(expression: str, op: Op) -> tuple[str, ...]:
    """The source of each operand, where the expression is a call or an operator that means `op`; empty for computations."""
    tree = _parsed(expression)
    if isinstance(tree, ast.BinOp) and _OPERATORS.get(type(tree.op)) is op:
        parts = [tree.left, tree.right]
    elif isinstance(tree, ast.UnaryOp) and _OPERATORS.get(type(tree.op)) is op:
        parts = [tree.operand]
    elif isinstance(tree, ast.Call) and _called(tree.func) == op.name:
        parts = tree.args
    elif isinstance(tree, ast.Subscript):
        parts = [tree.value]
    else:
        return ()
    return tuple(_name(part) for part in parts)


def call_arguments(expression: str, names: tuple[str, str]) -> tuple[str, list[str]]:
    """How a call writes its first two arguments: `tape.gradient(loss, [w, b])` gives ("loss", ["w", "b"]); a second argument
    that is no list is one text."""
    tree = _parsed(expression)
    if not isinstance(tree, ast.Call):
        return "", []
    given = dict(zip(names, tree.args, strict=False)) | {k.arg: k.value for k in tree.keywords if k.arg in names}
    first, second = (given.get(name) for name in names)
    items = second.elts if isinstance(second, (ast.List, ast.Tuple)) else [] if second is None else [second]
    return _text(first), [_text(item) for item in items]


def _parsed(expression: str) -> Any:
    try:
        return ast.parse(f"({expression})", mode="eval").body
    except (SyntaxError, ValueError):
        return None


def _text(part: ast.AST | None) -> str:
    text = "" if part is None else ast.unparse(part)
    return text if len(text) <= 2 * _LONGEST else text[: 2 * _LONGEST - 1] + "…"


def _called(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _name(part: ast.expr) -> str:
    """The text of an operand that is a name, an attribute or an item; empty for a computation."""
    text = ast.unparse(part) if isinstance(part, (ast.Name, ast.Attribute, ast.Subscript)) else ""
    return text if len(text) <= _LONGEST else ""


def is_named(variable: str) -> bool:
    """Whether the user chose the name of a variable."""
    return not _UNNAMED.match(variable)


# -- names ---------------------------------------------------------------------------------------------------------------

_LOOKED_AT = 4000  # objects looked at in search of names
_DEEPEST = 3  # net.layers[0].w


def user_frames() -> list[FrameType]:
    """The frames of the user's code around this call, innermost first."""
    frames = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename not in INTERNAL:
            frames.append(frame)
        frame = frame.f_back
    return frames


def names_of(things: Iterable[Any], frames: list[FrameType]) -> dict[int, tuple[int, str]]:
    """What the code around this call calls some objects: `id` → (rank, "net.w1" or "w" or "layers[0].bias"). Attributes rank
    before plain names (a loop variable is a poor name), items last.

    It looks at names, plain attributes and containers, and runs none of the user's code.
    """
    wanted = {id(thing) for thing in things if thing is not None}
    names: dict[int, tuple[int, str]] = {}
    # Layer by layer, so that a short name is found before a long one, and a budget bounds the work in large programs.
    layer = [entry for frame in frames for entry in _visible(frame)]
    seen: set[int] = set()
    budget = _LOOKED_AT
    for _ in range(_DEEPEST):
        inner: list[tuple[str, Any]] = []
        for name, value in layer[:budget]:
            if id(value) in wanted:
                ranked = (("[" in name) * 2 + ("." not in name), name)
                names[id(value)] = min(names.get(id(value), ranked), ranked, key=lambda entry: entry[0])
            elif id(value) not in seen and len(name) <= _LONGEST:
                seen.add(id(value))
                inner += _parts(name, value)
        budget -= len(layer[:budget])
        layer = inner
    return names


def _visible(frame: FrameType) -> Iterator[tuple[str, Any]]:
    """The names a frame sees. Locals of functions only from Python 3.13 on: before, reading them changes the dictionary that
    the user's own `locals()` gave, and keeps them alive."""
    spaces = [frame.f_globals]
    if sys.version_info >= (3, 13) or not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        spaces.insert(0, frame.f_locals)
    for space in spaces:
        yield from [(name, value) for name, value in list(space.items()) if not name.startswith("__")]


def _parts(name: str, value: object) -> Iterator[tuple[str, Any]]:
    if isinstance(value, (list, tuple)):
        for i in range(min(len(value), 100)):
            yield f"{name}[{i}]", value[i]
    elif type(value) is dict:
        for key, item in list(value.items())[:100]:
            if isinstance(key, (str, int)):
                yield f"{name}[{key!r}]", item
    elif not isinstance(value, (type, ModuleType)) and type(value).__module__ != "builtins":
        for attribute, item in list(_attributes(value).items())[:100]:
            if not attribute.startswith("_"):
                yield f"{name}.{attribute}", item


def _attributes(value: object) -> dict[str, Any]:
    """What an object keeps in its dictionary; no code of the object's class runs."""
    try:
        inside = object.__getattribute__(value, "__dict__")
    except AttributeError:  # slots, or a type of the interpreter's own that hides its dictionary
        return {}
    return inside if isinstance(inside, dict) else {}
