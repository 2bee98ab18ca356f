"""From a code object to the syntax tree it was compiled from.

The whole file is parsed, so a function keeps its lines and columns, and its class is known. Functions are told apart by
name, first line and parameters; lambdas on one line by the positions of their instructions. It never guesses: where two
different lambdas fit, or none, there is no source. Trees are shared: who changes one takes a copy.
"""

from __future__ import annotations

import ast
import dis
import linecache
import sys
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import Any

from gradtape.core.float_events import unwarned
from gradtape.functions.autograph.trees import children

Function = ast.FunctionDef | ast.Lambda


@dataclass(frozen=True, slots=True)
class Source:
    """A function's own syntax, and the class whose private names it uses."""

    node: Function
    class_name: str | None


def text_of(code: CodeType, module_globals: dict[str, Any]) -> str:
    """The file that `code` stands in, or nothing."""
    return "".join(linecache.getlines(code.co_filename, module_globals)) or _command(code)


def find(code: CodeType, text: str) -> Source | None:
    """The syntax of the function that `code` belongs to, in the file with this text, or None."""
    candidates = _functions(text, code.co_firstlineno)
    if code.co_name == "<lambda>":
        return _lambda(code, [s for s in candidates if isinstance(s.node, ast.Lambda) and _same_parameters(s, code)])
    for source in candidates:
        if isinstance(source.node, ast.FunctionDef) and source.node.name == code.co_name and _same_parameters(source, code):
            return source
    return None


def _command(code: CodeType) -> str:
    """The program of `python -c`, which no file has, if the code is part of it: text given to `exec` looks the same."""
    if code.co_filename != "<string>" or "-c" not in sys.orig_argv[:-1]:
        return ""
    text = sys.orig_argv[sys.orig_argv.index("-c") + 1]
    return text if _tree(text) is not None and _has(compile(text, "<string>", "exec", dont_inherit=True), code) else ""


def _has(whole: CodeType, code: CodeType) -> bool:
    return whole == code or any(isinstance(part, CodeType) and _has(part, code) for part in whole.co_consts)


@lru_cache(maxsize=64)
def _tree(text: str) -> ast.Module | None:
    try:
        with unwarned():  # the user has seen them when the file was compiled
            return ast.parse(text)
    except (SyntaxError, ValueError):
        return None


def _functions(text: str, line: int) -> list[Source]:
    """The functions of a file whose code begins on a line: that of the first decorator, if any."""
    tree = _tree(text)
    sources: list[Source] = []
    pending: list[tuple[Any, str | None]] = [(tree, None)] if tree is not None else []
    while pending:
        node, class_name = pending.pop()
        decorators = node.__dict__.get("decorator_list", ())
        start = min([node.lineno, *(d.lineno for d in decorators)]) if "lineno" in node.__dict__ else 0
        if start and not start <= line <= node.end_lineno:
            continue
        if isinstance(node, ast.ClassDef):
            class_name = node.name
        elif isinstance(node, (ast.FunctionDef, ast.Lambda)) and start == line:
            sources.append(Source(node, class_name))
        pending += [(child, class_name) for child in children(node)]
    return sources


def parameters(args: ast.arguments) -> list[str]:
    """Names of all parameters, in the order of a code object's variables."""
    named = [*args.posonlyargs, *args.args, *args.kwonlyargs]
    return [a.arg for a in (*named, args.vararg, args.kwarg) if a is not None]


def mangle(name: str, class_name: str | None) -> str:
    """A private name as Python spells it inside a class."""
    if class_name is None or not name.startswith("__") or name.endswith("__") or not class_name.strip("_"):
        return name
    return f"_{class_name.lstrip('_')}{name}"


def _same_parameters(source: Source, code: CodeType) -> bool:
    names = tuple(mangle(name, source.class_name) for name in parameters(source.node.args))
    return names == code.co_varnames[: len(names)] and len(names) == _count(code)


def _count(code: CodeType) -> int:
    stars = bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)
    return code.co_argcount + code.co_kwonlyargcount + stars


def _lambda(code: CodeType, candidates: list[Source]) -> Source | None:
    """The candidate around whose body the instructions stand, the innermost if they are nested."""
    # the first instructions of a function carry the position of the whole `lambda` or none: those on column 0 say nothing
    places = [p for p in code.co_positions() if None not in p and (p[2], p[3]) != (0, 0)]
    fitting = [s for s in candidates if all(_inside(place, s.node.body) for place in places)]
    fitting.sort(key=lambda s: _extent(s.node.body))
    if not fitting:
        return None
    if places:
        best = [s for s in fitting if _extent(s.node.body) == _extent(fitting[0].node.body)]
        # two bodies that do not contain one another cannot both contain all instructions
        return best[0]
    # Python 3.12 gives no position to a constant that is returned: it is told by its value
    returned = {repr(step.argval) for step in dis.get_instructions(code) if step.opname == "RETURN_CONST"}
    fitting = [s for s in fitting if isinstance(s.node.body, ast.Constant) and repr(s.node.body.value) in returned] or fitting
    alike = {ast.dump(s.node) for s in fitting}
    return fitting[0] if len(alike) == 1 else None


def _inside(place: tuple[Any, ...], body: Any) -> bool:
    line, end_line, column, end_column = place
    return (body.lineno, body.col_offset) <= (line, column) and (end_line, end_column) <= (body.end_lineno, body.end_col_offset)


def _extent(body: Any) -> tuple[int, int]:
    return body.end_lineno - body.lineno, body.end_col_offset - body.col_offset
