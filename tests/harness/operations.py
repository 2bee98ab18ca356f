"""The page docs/reference/operations.md: every public function by namespace with its summary, from the docstrings.

`python -m tests.harness.operations` writes it; a test keeps it current.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import gradtape as gt

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "operations.md"
INTRODUCTION = """# The public functions

Names, argument names and defaults follow TensorFlow 2; `help(gt.name)` shows the arguments and an example. `gt.math` also
has the mathematical functions of the top level; they are listed once. This page is written by
`python -m tests.harness.operations`.
"""
SPACES = ("math", "nn", "linalg", "signal", "image", "random", "bitwise", "optimizers", "optimizers.schedules", "train",
          "autodiff", "debugging", "test", "nest", "errors")  # fmt: skip


def _space(path: str) -> Any:
    found: Any = gt
    for part in path.split("."):
        found = getattr(found, part)
    return found


def _members(space: Any) -> dict[str, Any]:
    """The public functions and classes of a namespace that are gradtape's own."""
    return {
        name: value
        for name in sorted(dir(space), key=str.lower)
        if not name.startswith("_")
        and isinstance(value := getattr(space, name), (FunctionType, type))
        and not isinstance(value, ModuleType)
        and value.__module__.startswith("gradtape")
    }


def _summary(value: Any) -> str:
    text = (inspect.getdoc(value) or "").partition("\n\n")[0].replace("\n", " ")
    return text.replace("|", "\\|")


def _table(title: str, prefix: str, members: dict[str, Any]) -> list[str]:
    rows = [f"| `{prefix}{name}` | {_summary(value)} |" for name, value in members.items()]
    return [f"## {title}", "", "| name | what it does |", "|---|---|", *rows, ""]


def page() -> str:
    """The text of the page."""
    top = _members(gt)
    lines = [INTRODUCTION, *_table("Top level", "gt.", top)]
    listed = set(map(id, top.values()))
    for path in SPACES:
        members = _members(_space(path))
        if path == "math":
            members = {name: value for name, value in members.items() if id(value) not in listed}
        lines += _table(f"gt.{path}", f"gt.{path}.", members)
    return "\n".join(lines)


def main() -> None:
    PAGE.write_text(page())
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
