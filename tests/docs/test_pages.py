"""Every Python block in README and docs runs; a `text` block right after one is what it must print.

AutoGraph reads sources: it finds those of a page's functions in `linecache`, where the page stands with everything but its
Python blocks left blank, so that lines keep their numbers.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import os
import re
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _blocks(page: Path) -> list[tuple[str, str, int]]:
    text = page.read_text(encoding="utf-8")
    return [(m.group(1), m.group(2), text[: m.start()].count("\n") + 2) for m in BLOCK.finditer(text)]


def _as_python(page: Path, blocks: list[tuple[str, str, int]]) -> list[str]:
    """The lines of a page as a Python file."""
    lines = ["\n"] * page.read_text(encoding="utf-8").count("\n")
    for language, code, line in blocks:
        if language == "python":
            rows = code.splitlines(keepends=True)
            lines[line - 1 : line - 1 + len(rows)] = rows
    return lines


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_code_blocks_run_and_print_what_they_say(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    space: dict[str, object] = {"__name__": "__docs__"}
    blocks = _blocks(page)
    source = _as_python(page, blocks)
    monkeypatch.setitem(linecache.cache, str(page), (len(source), None, source, str(page)))
    for i, (language, code, line) in enumerate(blocks):
        if language != "python":
            continue
        printed = io.StringIO()
        # blank lines in front keep the line numbers of the page in tracebacks
        compiled = compile("\n" * (line - 1) + code, str(page), "exec")
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("error")
            exec(compiled, space)
        if i + 1 < len(blocks) and blocks[i + 1][0] == "text":
            said = printed.getvalue().replace(f"{page.parent}{os.sep}", "")  # the page is the script: named without its folder
            assert said.rstrip() == blocks[i + 1][1].rstrip(), f"{page.name}:{line}"


def test_every_page_is_reachable_from_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    missing = [
        page.name
        for page in PAGES
        if page.name not in ("README.md", "index.md") and page.name not in readme and page.name not in index
    ]
    assert not missing


def test_the_measured_table_is_the_stored_results() -> None:
    from benchmarks.summary import text

    assert text() in (ROOT / "README.md").read_text(encoding="utf-8"), "run: python -m benchmarks.summary --write"
