"""Files stay small, say what they are, and the project refers to nothing outside itself."""

import ast
import statistics
import subprocess

from tests.structure.modules import ROOT, SOURCE, modules

LIMIT = 600
MEDIAN = 250


def test_no_file_is_long() -> None:
    lengths = {str(p.relative_to(SOURCE)): len(p.read_text().splitlines()) for p in modules().values()}
    assert {name: n for name, n in lengths.items() if n > LIMIT} == {}
    assert statistics.median(n for n in lengths.values() if n) <= MEDIAN


def test_every_module_says_what_it_is() -> None:
    texts = {name: path.read_text() for name, path in modules().items()}
    silent = [name for name, text in texts.items() if text and not ast.get_docstring(ast.parse(text))]
    assert silent == []


def test_nothing_refers_outside_the_project() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    forbidden = "shared" + "/"
    guilty = []
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if path.is_file() and forbidden in path.read_text(errors="ignore"):
            guilty.append(name)
    assert guilty == []
