"""Every Python block in README and docs runs; a `text` block right after one is what it must print.

AutoGraph reads sources: it finds those of a page's functions in `linecache`, where the page stands with everything but its
Python blocks left blank, so that lines keep their numbers.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import linecache
import os
import re
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GENERATED = ("api", "programs")  # folders that `make site` fills; `test_reference.py` and `test_examples.py` are about them
PAGES = sorted([ROOT / "README.md", *(page for page in (ROOT / "docs").rglob("*.md") if page.parent.name not in GENERATED)])
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
    if page.stem == "keras" and importlib.util.find_spec("keras") is None:
        pytest.skip("Keras is not installed: pip install 'gradtape[keras]'")
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


def _listed(page: Path) -> list[Path]:
    """The pages that the lists of contents of a page name."""
    lists = re.findall(r"^```\{toctree\}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    names = [line.strip() for text in lists for line in text.splitlines() if line.strip() and not line.startswith(":")]
    return [(page.parent / f"{name}.md").resolve() for name in names]


def test_every_page_is_in_the_contents() -> None:
    reached, waiting = set(), [ROOT / "docs" / "index.md"]
    while waiting:
        page = waiting.pop()
        if page not in reached and page.exists():
            reached.add(page)
            waiting += _listed(page)
    assert not {page for page in PAGES if page.name != "README.md"} - reached


LINK = re.compile(r"\]\((?!https?:|mailto:)([^)\s]*)\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"^(```+).*?^\1$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    broken = []
    for link in LINK.findall(re.sub(r"`[^`\n]*`", "", prose)):
        path, _, heading = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (heading and target.suffix == ".md" and heading not in _anchors(target)):
            broken.append(link)
    assert not broken


def _anchors(page: Path) -> set[str]:
    """What the headings of a page are called in links."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_gallery_shows_every_program() -> None:
    from docs._ext.gallery import PICTURES, PROGRAMS, index

    assert len(PROGRAMS) >= 12
    assert index() in (ROOT / "docs" / "gallery" / "index.md").read_text(encoding="utf-8")
    assert {path.stem for path in PICTURES.glob("*.png")} == {program.stem for program in PROGRAMS}


def test_measured_figures_are_the_stored_results() -> None:
    from benchmarks.summary import figures, text

    assert figures() in (ROOT / "README.md").read_text(encoding="utf-8"), "run: python -m benchmarks.summary --write"
    assert text() in (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8"), "run: python -m benchmarks.summary --write"


def test_the_learn_pages_show_what_they_compute() -> None:
    from docs._ext.learn_pictures import DRAWINGS, PAGES, PICTURES

    names = {draw.__name__ for draw in DRAWINGS} | {"functions"}  # a screenshot
    assert {path.stem for path in PICTURES.iterdir()} == names
    for name in names:
        assert f"](pictures/{name}.png)" in (PAGES / f"{name}.md").read_text(encoding="utf-8")
