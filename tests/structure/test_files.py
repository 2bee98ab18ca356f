"""Files stay small, say what they are, and the project refers to nothing outside itself."""

import ast
import os
import statistics
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from tests.structure.modules import ROOT, SOURCE, modules

LIMIT = 600
MEDIAN = 250


def files() -> Iterator[Path]:
    """The project's files: all but what .gitignore names. Git itself may be missing, or refuse the files of another owner."""
    patterns = [line.rstrip("/") for line in (ROOT / ".gitignore").read_text().split()] + [".git"]
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if not any(fnmatch(name, pattern) for pattern in patterns)]
        yield from (Path(folder, name) for name in names if not any(fnmatch(name, pattern) for pattern in patterns))


def test_no_file_is_long() -> None:
    lengths = {str(p.relative_to(SOURCE)): len(p.read_text().splitlines()) for p in modules().values()}
    assert {name: n for name, n in lengths.items() if n > LIMIT} == {}
    assert statistics.median(n for n in lengths.values() if n) <= MEDIAN


def test_every_module_says_what_it_is() -> None:
    texts = {name: path.read_text() for name, path in modules().items()}
    silent = [name for name, text in texts.items() if text and not ast.get_docstring(ast.parse(text))]
    assert silent == []


def test_nothing_refers_outside_the_project() -> None:
    forbidden = "shared" + "/"
    guilty = [path for path in files() if forbidden in path.read_text(errors="ignore")]
    assert guilty == []
