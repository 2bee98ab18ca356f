"""The source of this project as the structure tests read it; `house/tree.py` does the reading."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tests.structure.house.tree import Import, Tree

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "gradtape"


@cache
def source_tree() -> Tree:
    """The source, read and parsed once for all tests."""
    return Tree(SOURCE)


@cache
def modules() -> dict[str, Path]:
    """Dotted name → file, of every module of the package."""
    return {module.name: module.path for module in source_tree()}


@cache
def imports(path: Path) -> tuple[Import, ...]:
    """Every import in a file, functions included."""
    return next(module.imports for module in source_tree() if module.path == path)
