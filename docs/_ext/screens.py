"""The screenshots of the documentation, taken by Chromium from what programs really draw.

`python -m docs._ext.screens` (`make pictures`) needs Chromium; without it, it says so and leaves the images as they are.
"""

from __future__ import annotations

import contextlib
import io
import os
import runpy
import tempfile
import time
from pathlib import Path

from docs._ext.learn_pictures import program
from tests.harness.browser import Browser, Page

from gradtape.tools import cli

DOCS = Path(__file__).resolve().parents[1]
SCRIPT = '''"""A training script with a few things wrong."""

import gradtape as gt

w = gt.Variable([0.5, -0.3], name="w")
scale = gt.Variable(1.0, name="scale")
data = gt.constant([[1.0, 2.0], [3.0, -1.0]])


@gt.function
def smooth(x, n):
    return gt.reduce_mean(x) / n


for step in range(10):
    with gt.GradientTape() as tape:
        loss = gt.reduce_sum((data @ gt.reshape(w, (2, 1)) * float(scale)) ** 2)
    gradients = tape.gradient(loss, [w, scale])
    w.assign_sub(0.01 * gradients[0])
for n in range(2, 8):
    with gt.GradientTape() as tape:
        loss = smooth(w, n)
    tape.gradient(loss, w)
with gt.GradientTape() as tape:
    loss = gt.reduce_sum(gt.sqrt(w))
tape.gradient(loss, w)
'''


def functions(page: Page) -> None:
    """A compiled function, opened."""
    find = "[...document.querySelectorAll('.node')].find((n) => n.textContent.includes('newton_root'))"
    page.js(f"{find}.dispatchEvent(new MouseEvent('dblclick', {{bubbles: true}}))")
    page.click("[aria-label='Show everything']")


def picture(page: Page) -> None:
    """A loop, coloured by its gradients, with what is known of one operation."""
    page.click("[data-measure=gradient]")
    page.hover(".node[aria-label^='tanh']")


def report(page: Page) -> None:
    """The top of a report."""


def run(page: str, more: str) -> None:
    """Run the programs of a page, and a few lines more."""
    path = Path(page.rpartition("/")[2]).with_suffix(".py")
    path.write_text(program(DOCS / page) + more, encoding="utf-8")
    runpy.run_path(os.path.abspath(path), run_name="__main__")


def pages() -> None:
    """Write the pages that are photographed into the current folder."""
    run(
        "learn/functions.md",
        "with gt.GradientTape() as tape:\n    root = newton_root(a)\ntape.picture('functions.html', target=root)",
    )
    run("howto/picture_and_run.md", "tape.picture('picture.html', target=loss)")
    Path("train.py").write_text(SCRIPT, encoding="utf-8")
    cli.main(["run", "train.py", "--report", "report.html"])


def main() -> None:
    """Take all screenshots."""
    if Browser.executable() is None:
        print("screens: Chromium is not installed, the screenshots stay as they are")
        return
    browser = Browser()
    try:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                pages()
            for show, image in ((functions, "learn/pictures"), (picture, "images"), (report, "images")):
                print(show.__name__, flush=True)
                with browser.page(Path(f"{show.__name__}.html"), 1180, 820) as page:
                    show(page)
                    time.sleep(0.5)  # what moves has arrived
                    page.screenshot(DOCS / image / f"{show.__name__}.png")
    finally:
        browser.close()


if __name__ == "__main__":
    main()
