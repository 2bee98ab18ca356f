"""The source tree as data: modules, their layers and what they import (read from the syntax tree, functions included)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "gradtape"


class Import(NamedTuple):
    module: str
    line: int
    top_level: bool  # runs when the importing module is imported
    for_types: bool  # under `if TYPE_CHECKING`


@cache
def modules() -> dict[str, Path]:
    """Dotted name → file, of every module of the package."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imports(path: Path) -> tuple[Import, ...]:
    """Every import in a file; `from package import module` counts as an import of the module."""
    return tuple(_walk(ast.parse(path.read_text()), top_level=True, for_types=False))


def _walk(node: ast.AST, top_level: bool, for_types: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(alias.name, child.lineno, top_level, for_types)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, "imports are absolute"
            for alias in child.names:
                whole = f"{child.module}.{alias.name}"
                yield Import(whole if whole in modules() else str(child.module), child.lineno, top_level, for_types)
        else:
            inside = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            types = for_types or (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test))
            yield from _walk(child, top_level and not inside, types)
