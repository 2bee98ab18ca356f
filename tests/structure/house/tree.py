"""The source as data: modules, the rooms they are in, their syntax and what they import, functions included.

Reads text only, and imports nothing of what it reads.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, TypeVar

N = TypeVar("N", bound=ast.AST)
PUBLIC = "public"  # the room of the package's top: namespaces that re-export
BASE = {"errors", "dtypes", "tree", "config", "devices", "typing"}  # modules at the top that all rooms stand on


class Import(NamedTuple):
    """One imported module and where."""

    module: str
    line: int
    top_level: bool  # runs when the importing module is imported
    for_types: bool  # under `if TYPE_CHECKING`


@dataclass(frozen=True)
class Module:
    """One file of the package."""

    name: str  # dotted
    path: Path
    tree: Tree

    @cached_property
    def text(self) -> str:
        return self.path.read_text()

    @cached_property
    def syntax(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> dict[type[ast.AST], list[ast.AST]]:
        """All nodes of the syntax by their class: the file is walked once for all who count something."""
        nodes: dict[type[ast.AST], list[ast.AST]] = defaultdict(list)
        for node in ast.walk(self.syntax):
            nodes[type(node)].append(node)
        return nodes

    def all(self, *classes: type[N]) -> Iterator[N]:
        """The nodes of these classes."""
        for cls in classes:
            yield from self.nodes.get(cls, ())  # type: ignore[misc]

    @cached_property
    def lines(self) -> int:
        """All but comments: whoever explains a line does not pay for it."""
        return len(self.text.splitlines()) - len(self.comments)

    @cached_property
    def code(self) -> int:
        """Lines that are neither blank nor a comment."""
        return self.lines - sum(not line.strip() for line in self.text.splitlines())

    @cached_property
    def comments(self) -> list[str]:
        """Lines that hold nothing but a comment."""
        inside = {
            line
            for node in self.all(ast.Constant, ast.JoinedStr)
            if node.end_lineno != node.lineno
            for line in range(node.lineno + 1, (node.end_lineno or 0) + 1)
        }
        numbered = enumerate(self.text.splitlines(), 1)
        return [line for number, line in numbered if number not in inside and line.lstrip().startswith("#")]

    @property
    def relative(self) -> str:
        return self.path.relative_to(self.tree.source).as_posix()

    @property
    def room(self) -> str:
        return self.tree.room(self.relative)

    @cached_property
    def imports(self) -> tuple[Import, ...]:
        """Every import; `from package import module` counts as an import of the module."""
        functions = [*_spans(self.all(ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))]
        types = [*_spans(node for node in self.all(ast.If) if "TYPE_CHECKING" in ast.unparse(node.test))]
        return tuple(
            Import(name, line, not any(line in span for span in functions), any(line in span for span in types))
            for line, name in sorted(self._imported())
        )

    def _imported(self) -> Iterator[tuple[int, str]]:
        for node in self.all(ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        for node in self.all(ast.ImportFrom):
            assert node.level == 0, f"{self.relative}:{node.lineno}: imports are absolute"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield node.lineno, whole if whole in self.tree else str(node.module)


def _spans(nodes: Iterable[ast.stmt | ast.expr]) -> Iterator[range]:
    return (range(node.lineno, (node.end_lineno or node.lineno) + 1) for node in nodes)


class Tree:
    """A package by the folder of its source."""

    def __init__(self, source: Path) -> None:
        self.source = source
        self.by_name: dict[str, Module] = {}
        for path in sorted(source.rglob("*.py")):
            parts = path.relative_to(source.parent).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            self.by_name[name] = Module(name, path, self)

    def __iter__(self) -> Iterator[Module]:
        return iter(self.by_name.values())

    def __contains__(self, name: str) -> bool:
        return name in self.by_name

    @staticmethod
    def room(relative: str) -> str:
        """The folder below the package that a file stands in; files at the top are the base or public."""
        first, *rest = relative.split("/")
        if rest:
            return first
        return "base" if first.removesuffix(".py") in BASE else PUBLIC
