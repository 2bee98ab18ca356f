"""Pages for contributors name files: every one of them is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "gradtape"
PAGES = [ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs" / "internals").glob("*.md"))]
FILE = re.compile(r"(?<![\w/.<])((?:[\w.]+/)+[\w.]+\.(?:py|md|js)|(?:[\w.]+/)+)(?![\w/*])")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_files_named_on_a_page_exist(page: Path) -> None:
    prose = re.sub(r"^```python\n.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    named = {name for name in FILE.findall(prose) if name.count("/") and not name.startswith(("http", "demo_output"))}
    folders = {f"{path.name}/" for path in PACKAGE.rglob("*") if path.is_dir()}  # named within the row of their room
    absent = {name for name in named - folders if not any((base / name).exists() for base in (PACKAGE, ROOT, page.parent))}
    assert not absent


def test_some_files_are_named() -> None:
    assert len(FILE.findall((ROOT / "ARCHITECTURE.md").read_text())) > 20
