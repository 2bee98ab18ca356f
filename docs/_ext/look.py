"""The built site in a real browser: `python -m docs._ext.look` (`make look`) opens every page from disk, as a reader does.

Each page is shown 1280 and 400 pixels wide, light and dark. It must not be wider than the screen, every image must be there,
nothing may go wrong in the console, nothing may be fetched, every link must lead somewhere, and text must stand out from what
is behind it. Then the search, the switch of the theme and the menu of versions are used. `--screens folder` keeps screenshots
of some pages, for somebody to look at.
"""

from __future__ import annotations

import argparse
import html.parser
import sys
import time
import urllib.parse
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.harness.browser import Browser, Page
from tests.harness.process import PATIENCE

SITE = Path(__file__).resolve().parents[2] / "_site"
SHOWN = [(1280, False), (1280, True), (400, False), (400, True)]
SCREENS = (
    "index", "start/quickstart", "learn/functions", "learn/simulations", "howto/gradient_is_none", "comefrom/tensorflow",
    "reference/index", "reference/api/nn", "gallery/index", "gallery/programs/pinn", "benchmarks", "faq",
)  # fmt: skip
LEAST_CONTRAST = 3.0  # WCAG's least for large text and parts of the interface; body text and code have more
MISSING_IMAGES = """
(async () => {
  const images = [...document.images];
  for (const image of images) image.loading = 'eager';
  await Promise.all(images.map((i) => i.complete || new Promise((done) => { i.onload = i.onerror = done; })));
  return images.filter((image) => !image.naturalWidth).map((image) => image.getAttribute('src'));
})()
"""
WIDE = """
(() => {
  if (document.documentElement.scrollWidth <= innerWidth) return [];
  const scrolls = (e) => e && e !== document.body && (getComputedStyle(e).overflowX !== 'visible' || scrolls(e.parentElement));
  const out = (e) => e.getBoundingClientRect().right > innerWidth + 1 && !scrolls(e.parentElement);
  return [...document.querySelectorAll('main *')].filter(out).slice(0, 3)
    .map((e) => e.tagName.toLowerCase() + ' "' + e.textContent.trim().slice(0, 40) + '"').concat(['the page']);
})()
"""
PALE = """
(() => {
  const numbers = (text) => (text.match(/[0-9.]+/g) || []).map(Number);
  const light = (rgb) => {
    const part = rgb.slice(0, 3).map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2];
  };
  const behind = (element) => {
    for (; element; element = element.parentElement) {
      const colour = numbers(getComputedStyle(element).backgroundColor);
      if (colour.length && (colour[3] ?? 1) > 0.5) return colour;
    }
    return [255, 255, 255];
  };
  const found = new Map();
  for (const element of document.querySelectorAll('article *, header *, nav *')) {
    const own = [...element.childNodes].filter((n) => n.nodeType === 3).map((n) => n.textContent.trim()).join(' ').trim();
    if (!own || !element.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
    const [a, b] = [numbers(getComputedStyle(element).color), behind(element)].map(light).sort((a, b) => b - a);
    const contrast = (a + 0.05) / (b + 0.05);
    if (contrast < %s) found.set(element.className || element.tagName, `"${own.slice(0, 30)}" ${contrast.toFixed(2)}`);
  }
  return [...found].map(([name, text]) => `${name}: ${text}`);
})()
"""


class _Anchors(html.parser.HTMLParser):
    """What a page can be entered at, and where it leads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.links: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and name == "id":
                self.names.add(value)
            elif value and name == "href" and tag == "a":
                self.links.add(value)


@cache
def anchors(path: Path) -> _Anchors:
    return _Anchors(path.read_text(encoding="utf-8"))


def broken_links(path: Path) -> Iterator[str]:
    """Links of a page to a file or a place that is not there."""
    for link in sorted(anchors(path).links):
        parts = urllib.parse.urlsplit(link)
        if parts.scheme or link == "#":
            continue
        target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
        fragment = urllib.parse.unquote(parts.fragment)
        if not target.is_file() or (fragment and fragment not in anchors(target).names):
            yield f"a link leads nowhere: {link}"


def faults(browser: Browser, path: Path) -> Iterator[str]:
    """What is wrong with a page."""
    yield from broken_links(path)
    try:
        with browser.page(path) as page:
            for source in page.js(MISSING_IMAGES):
                yield f"no image {source}"
            for width, dark in SHOWN:
                show(page, width, dark)
                state = f"{width} px, {'dark' if dark else 'light'}"
                for place in page.js(WIDE):
                    yield f"{state}: too wide: {place}"
                for place in page.js(PALE % LEAST_CONTRAST):
                    yield f"{state}: hard to read: {place}"
    except AssertionError as wrong:  # what the console said
        yield str(wrong)


def show(page: Page, width: int, dark: bool) -> None:
    """Another size or theme of an open page, once what moves has arrived."""
    page.call("Emulation.setDeviceMetricsOverride", width=width, height=850, deviceScaleFactor=1, mobile=False)
    scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    page.call("Emulation.setEmulatedMedia", features=scheme)
    if page.js("'theme' in document.documentElement.dataset"):
        until(page, f"document.documentElement.dataset.theme === '{'dark' if dark else 'light'}'")
    page.js("document.getAnimations().forEach((moving) => moving.finish())")  # colours fade from one theme to the other


def until(page: Page, expression: str) -> None:
    """Wait until an expression is true of a page."""
    deadline = time.monotonic() + PATIENCE
    while not page.js(expression):
        assert time.monotonic() < deadline, f"never came true: {expression}"
        time.sleep(0.02)


def use(browser: Browser, root: Path) -> Iterator[str]:
    """Search, change the theme by hand, open the menu of versions: what a reader does on the first page."""
    for width, dark in SHOWN:
        try:
            # Sphinx asks for the element `#gt.jacobian`, where the dot would have to be quoted: the words of that page's first
            # lines are shown under a result in place of those of the entry
            with browser.page(root / "index.html", width, 850, dark, known="Anchored content block not found") as page:
                search(page, "jacobian")
            with browser.page(root / "index.html", width, 850, dark) as page:
                if width >= 960:  # else it is in the menu
                    other = "light" if dark else "dark"
                    page.click(".theme-switch-button")
                    until(page, f"document.querySelector('.theme-change-button[data-mode={other}]').checkVisibility()")
                    page.click(f".theme-change-button[data-mode={other}]")
                    until(page, f"document.documentElement.dataset.theme === '{other}'")
                    page.js("localStorage.clear()")
                    page.click(".version-menu summary")
                    until(page, f"document.querySelector('.version-menu li').innerText.startsWith('{root.name}')")
                else:
                    page.click(".primary-toggle")
                    until(page, "document.querySelector('#pst-primary-sidebar-modal').open")
        except AssertionError as wrong:
            yield f"the first page, {width} px, {'dark' if dark else 'light'}: {wrong}"


def search(page: Page, word: str) -> None:
    """Find a word, by the button, and follow the first result."""
    page.js("[...document.querySelectorAll('.search-button__button')].find((b) => b.checkVisibility()).click()")
    until(page, "document.querySelector('dialog.pst-search-dialog, #pst-search-dialog').open")
    page.type("#pst-search-dialog input[type=search]", word)
    page.press("Enter")
    until(page, "location.pathname.endsWith('search.html') && document.querySelectorAll('ul.search li').length > 3")
    until(page, "document.querySelector('.search-summary')?.textContent.includes('found')")
    assert page.js("document.documentElement.scrollWidth <= innerWidth"), "the results are too wide"
    page.js("document.querySelector('ul.search li a').click()")
    until(page, f"!location.pathname.endsWith('search.html') && document.body?.innerText.toLowerCase().includes('{word}')")


def photograph(browser: Browser, root: Path, folder: Path) -> None:
    """Keep what some pages look like."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in SCREENS:
        with browser.page(root / f"{name}.html") as page:
            page.js(MISSING_IMAGES)
            for width, dark in SHOWN:
                show(page, width, dark)
                page.screenshot(folder / f"{name.replace('/', '-')}-{width}-{'dark' if dark else 'light'}.png")


def main() -> int:
    """Look at the newest version of the site."""
    from gradtape.config import VERSION

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--screens", type=Path, help="a folder for screenshots")
    arguments = parser.parse_args()
    if Browser.executable() is None:
        print("look: Chromium is not installed (apt install chromium)")
        return 1
    root = SITE / VERSION
    pages = sorted(path for path in root.rglob("*.html") if "_static" not in path.parts)
    browser, wrong = Browser(), 0
    try:
        for path in pages:
            for fault in faults(browser, path):
                wrong += 1
                print(f"{path.relative_to(root)}: {fault}", flush=True)
        for fault in use(browser, root):
            wrong += 1
            print(fault, flush=True)
        if arguments.screens:
            photograph(browser, root, arguments.screens)
    finally:
        browser.close()
    print(f"{len(pages)} pages of {root}, each at {len(SHOWN)} sizes and themes: {wrong or 'no'} faults")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
