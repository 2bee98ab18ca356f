"""Files stay small, say what they are, and the project refers to nothing outside itself."""

import ast
import os
import statistics
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from tests.structure.house.tree import Module, Tree
from tests.structure.modules import ROOT, modules, source_tree

LIMIT = 600
MEDIAN = 250
FUNCTION = 55


def files() -> Iterator[Path]:
    """The project's files: all but what .gitignore names. Git itself may be missing, or refuse the files of another owner."""
    patterns = [line.rstrip("/") for line in (ROOT / ".gitignore").read_text().split()] + [".git"]
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if not any(fnmatch(name, pattern) for pattern in patterns)]
        yield from (Path(folder, name) for name in names if not any(fnmatch(name, pattern) for pattern in patterns))


def test_no_file_is_long() -> None:
    """Comments are not counted."""
    lengths = {module.relative: module.lines for module in source_tree()}
    assert {name: n for name, n in lengths.items() if n > LIMIT} == {}
    assert statistics.median(n for n in lengths.values() if n) <= MEDIAN


def test_no_function_is_long() -> None:
    """Comments, signature and docstring, which may list many options, aside."""
    functions = ((module, node) for module in source_tree() for node in module.all(ast.FunctionDef, ast.AsyncFunctionDef))
    lengths = {f"{module.relative}:{node.name}": _body_lines(module, node) for module, node in functions}
    assert {name: n for name, n in lengths.items() if n > FUNCTION} == {}


def _body_lines(module: Module, function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    lines = module.text.splitlines()[body[0].lineno - 1 : body[-1].end_lineno] if body else []
    return sum(not line.lstrip().startswith("#") for line in lines)


def silent_handlers(module: Module) -> list[str]:
    """The handlers of all exceptions that raise none themselves and have no comment that says why."""
    lines = module.text.splitlines()
    broad = [
        h for h in module.all(ast.ExceptHandler) if h.type is None or ast.unparse(h.type) in ("Exception", "BaseException")
    ]
    return [
        f"{module.relative}:{handler.lineno}"
        for handler in broad
        if not any(isinstance(node, ast.Raise) for statement in handler.body for node in ast.walk(statement))
        and not any("#" in line for line in lines[handler.lineno - 1 : handler.body[0].lineno])
    ]


def test_whoever_catches_everything_says_why(tmp_path: Path) -> None:
    """Else a defect of ours may go unseen: in a slower path, in an answer that is not there."""
    assert [place for module in source_tree() for place in silent_handlers(module)] == []
    quiet = "try:\n    f()\nexcept Exception:\n    pass\n"
    texts = [quiet, quiet.replace(" Exception", ""), quiet.replace("pass", "raise"), quiet.replace("pass", "pass  # because")]
    texts += [quiet.replace("Exception", "KeyError"), quiet.replace("    pass", "    # because\n    pass")]
    for n, text in enumerate(texts):
        (tmp_path / f"m{n}.py").write_text(text)
    assert [place for module in Tree(tmp_path) for place in silent_handlers(module)] == ["m0.py:3", "m1.py:3"]


def test_every_module_says_what_it_is() -> None:
    texts = {name: path.read_text() for name, path in modules().items()}
    silent = [name for name, text in texts.items() if text and not ast.get_docstring(ast.parse(text))]
    assert silent == []


def test_nothing_refers_outside_the_project() -> None:
    forbidden = "shared" + "/"
    guilty = [path for path in files() if forbidden in path.read_text(errors="ignore")]
    assert guilty == []
