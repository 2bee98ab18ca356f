"""`make look` sees what is wrong with a page: each fault is put on a page, and found there; a good page has none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from docs._ext.look import broken_links, faults

from tests.harness.browser import Browser

pytestmark = pytest.mark.skipif(Browser.executable() is None, reason="Chromium is not installed (apt install chromium)")

PAGE = """<!doctype html><html><meta charset="utf-8"><meta name="viewport" content="width=device-width"><body style="{}">
<main><article><h1 id="top">Words</h1>{}</article></main></body></html>
"""
DOT = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABh6FO1AAAAABJRU5ErkJggg=="


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    opened = Browser()
    yield opened
    opened.close()


def found(browser: Browser, folder: Path, body: str, style: str = "") -> list[str]:
    path = folder / "page.html"
    path.write_text(PAGE.format(style, body), encoding="utf-8")
    return list(faults(browser, path))


def test_a_good_page_has_no_faults(browser: Browser, tmp_path: Path) -> None:
    body = f"<img src='{DOT}'> <a href='#top'>up</a> <div style='overflow-x: auto'><p style='width: 900px'>scrolls</p></div>"
    assert found(browser, tmp_path, body) == []


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("<p style='width: 900px'>long</p>", ['400 px, light: too wide: p "long"', "400 px, dark: too wide: the page"]),
        ("<img src='none.png'>", ["no image none.png"]),
        ("<p style='color: #eee'>pale</p>", ['1280 px, light: hard to read: P: "pale" 1.16']),
        ("<script>console.error('complained')</script>", ["['complained']"]),
    ],
)
def test_a_fault_is_found(browser: Browser, tmp_path: Path, body: str, words: list[str]) -> None:
    said = found(browser, tmp_path, body)
    for each in words:
        assert each in said, said


def test_links_that_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "other.html").write_text(PAGE.format("", ""), encoding="utf-8")
    path = tmp_path / "links.html"
    path.write_text(PAGE.format("", "".join(f"<a href='{link}'>to</a>" for link in (
        "other.html", "other.html#top", "#top", "https://example.org/", "other.html#none", "#none", "none.html",
    ))), encoding="utf-8")  # fmt: skip
    ends = [said.rpartition(" ")[2] for said in broken_links(path)]
    assert ends == ["#none", "none.html", "other.html#none"]
