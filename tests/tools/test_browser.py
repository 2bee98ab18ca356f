"""The pages in a real browser: they open, show the graph, answer to mouse and keyboard, and nothing goes wrong on them.

Needs Chromium; where it is not installed, these tests are skipped with a message.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape.tools import cli
from tests.harness.browser import Browser, Page
from tests.harness.process import PATIENCE

pytestmark = pytest.mark.skipif(Browser.executable() is None, reason="Chromium is not installed (apt install chromium)")

SIZES = [(1280, 800, False), (1280, 800, True), (400, 780, False), (400, 780, True)]


@pytest.fixture(scope="session")  # once, in any order of the tests
def browser() -> Iterator[Browser]:
    opened = Browser()
    yield opened
    opened.close()


# -- programs ------------------------------------------------------------------------------------------------------------


def dense(x: Any, w: Any, b: Any) -> Any:
    return x @ w + b


def mlp() -> tuple[gt.GradientTape, Any]:
    generator = np.random.default_rng(0)
    shapes = ((6, 16), (16, 16), (16, 3))
    ws = [gt.Variable(generator.normal(size=shape).astype("f"), name=f"w{i}") for i, shape in enumerate(shapes)]
    bs = [gt.Variable(np.zeros(shape[1], "f"), name=f"b{i}") for i, shape in enumerate(shapes)]
    with gt.GradientTape(persistent=True, profile=True) as tape:
        x = gt.constant(generator.normal(size=(8, 6)).astype("f"))
        x = gt.nn.relu(dense(x, ws[0], bs[0]))
        x = gt.nn.relu(dense(x, ws[1], bs[1]))
        loss = gt.reduce_mean(dense(x, ws[2], bs[2]) ** 2)
    tape.gradient(loss, ws)
    return tape, loss


def rnn(steps: int) -> tuple[gt.GradientTape, Any]:
    w, u = gt.Variable(np.full((2, 3), 0.1, "f"), name="w"), gt.Variable(np.eye(3, dtype="f"), name="u")
    with gt.GradientTape() as tape:
        h = gt.zeros((4, 3))
        losses = []
        for _ in range(steps):
            h = gt.tanh(gt.ones((4, 2)) @ w + h @ u)
            losses.append(gt.reduce_mean(h * h))
        loss = gt.add_n(losses)
    return tape, loss


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pages of an MLP step, a recurrence of 50 steps, and a tape of 100,000 records."""
    folder = tmp_path_factory.mktemp("pages")
    tape, loss = mlp()
    tape.picture(folder / "mlp.html", target=loss)
    tape, loss = rnn(50)
    tape.picture(folder / "rnn.html", target=loss)
    x = gt.Variable(0.5, name="x")
    with gt.GradientTape() as tape:
        y: Any = x
        for _ in range(25_000):
            y = gt.sin(y) * 1.01 + x * 0.5
    tape.picture(folder / "long.html", target=y)
    return {path.stem: path for path in folder.iterdir()}


def until(page: Page, expression: str) -> Any:
    """Wait until an expression is true."""
    deadline = time.monotonic() + PATIENCE
    while not (found := page.js(expression)):
        assert time.monotonic() < deadline, expression
        time.sleep(0.02)
    return found


def texts(page: Page) -> list[str]:
    found: list[str] = page.js(
        "[...document.querySelectorAll('.node')].map((n) => n.querySelector('text').firstChild.textContent)"
    )
    return found


# -- pictures ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "height", "dark"), SIZES)
@pytest.mark.parametrize("name", ["mlp", "rnn", "long"])
def test_a_picture_opens_and_fits(
    browser: Browser, pages: dict[str, Path], name: str, width: int, height: int, dark: bool
) -> None:
    with browser.page(pages[name], width, height, dark) as page:
        shown = texts(page)
        assert {"mlp": "matmul", "rnn": "tanh", "long": "sin"}[name] in shown
        assert len(shown) <= 30
        assert page.js("document.documentElement.dataset.theme") == ("dark" if dark else "light")
        assert page.js("document.documentElement.scrollWidth") <= width
        # something of the graph is on the stage, at a size one can read
        left, top, right, bottom = page.box(".stage")
        boxes = page.js(
            "[...document.querySelectorAll('.node')].map((n) => n.getBoundingClientRect())"
            ".map((r) => [r.left, r.top, r.right, r.bottom])"
        )
        inside = [b for b in boxes if left <= b[0] and top <= b[1] and b[2] <= right and b[3] <= bottom and b[3] - b[1] > 6]
        assert len(inside) >= min(4, len(shown))
        paper = page.js("getComputedStyle(document.body).backgroundColor")
        assert (sum(int(v) for v in paper[4:-1].split(",")) < 200) is dark


def test_hovering_tells_shape_values_gradient_and_line(browser: Browser, pages: dict[str, Path]) -> None:
    with browser.page(pages["mlp"]) as page:
        assert page.js("document.querySelector('.tip-box').hidden")
        page.hover(".node[aria-label^='relu']")
        until(page, "!document.querySelector('.tip-box').hidden")
        text = page.js("document.querySelector('.tip-box').innerText")
        for words in ("relu", "8×16", "test_browser.py:", "x = gt.nn.relu(dense(x, ws[0], bs[0]))", "‖g‖", "value", "forward"):
            assert words in text, words
        assert page.js("document.querySelector('.tip-box mark').textContent") == "gt.nn.relu(dense(x, ws[0], bs[0]))"
        assert page.js("document.querySelectorAll('.edge.near').length") >= 2
        box = page.box(".tip-box")
        assert min(box) >= 0
        assert box[2] <= 1280
        page.hover(".bar h1")
        until(page, "document.querySelector('.tip-box').hidden")


def test_search_marks_counts_and_goes_from_one_to_the_next(browser: Browser, pages: dict[str, Path]) -> None:
    with browser.page(pages["mlp"]) as page:
        page.type(".search input", "matmul")
        assert page.js("document.querySelector('.search output').textContent") == "1 of 3"
        assert page.js("document.querySelectorAll('.node.hit').length") == 3
        assert float(page.js("getComputedStyle(document.querySelector('.node:not(.hit)')).opacity")) < 0.5
        first = page.js("document.querySelector('.node.chosen').dataset.id")
        page.press("Enter")
        assert page.js("document.querySelector('.search output').textContent") == "2 of 3"
        assert page.js("document.querySelector('.node.chosen').dataset.id") != first
        page.press("Escape")
        assert page.js("document.querySelectorAll('.dim').length") == 0
        page.type(".search input", "nothing like it")
        assert page.js("document.querySelector('.search output').textContent") == "none"


def test_choosing_a_box_shows_details_and_neighbours(browser: Browser, pages: dict[str, Path]) -> None:
    with browser.page(pages["rnn"]) as page:
        page.click(".node[aria-label^='tanh']")
        panel = page.js("document.querySelector('.panel').innerText")
        assert "COMPUTED FROM" in panel.upper()
        assert "50 times" in panel
        assert "over the iterations: first" in panel
        page.js("[...document.querySelectorAll('.panel .link')].find((b) => b.textContent === 'add').click()")
        assert page.js("document.querySelector('.node.chosen').getAttribute('aria-label')").startswith("add")
        page.js("document.querySelector('.panel .shut').click()")
        assert page.js("document.querySelector('.panel').hidden")


def test_colours_follow_the_measure(browser: Browser, pages: dict[str, Path]) -> None:
    with browser.page(pages["mlp"]) as page:
        fills = {}
        for measure in ("function", "time", "bytes", "gradient"):
            page.click(f"[data-measure={measure}]")
            assert page.js(f"document.querySelector('[data-measure={measure}]').getAttribute('aria-pressed')") == "true"
            fills[measure] = page.js(
                "[...document.querySelectorAll('.node rect:last-of-type')].map((r) => getComputedStyle(r).fill)"
            )
        assert len({json.dumps(f) for f in fills.values()}) == 4
        assert "norm of the gradient" in page.js("document.querySelector('.panel').innerText").lower()
    with browser.page(pages["rnn"]) as page:  # no times were measured
        page.click("[data-measure=time]")
        assert page.js("document.querySelector('[data-measure=time]').getAttribute('aria-pressed')") == "false"
        assert "GradientTape(profile=True)" in page.js("document.querySelector('.panel').innerText")


def test_loops_unfold_and_groups_close(browser: Browser, pages: dict[str, Path]) -> None:
    with browser.page(pages["rnn"]) as page:
        folded = len(texts(page))
        page.click(".act[aria-label='Unfold all 50 iterations']")
        unfolded = texts(page)
        assert unfolded.count("tanh") == 50
        assert page.js("document.querySelectorAll('.group.iteration .frame').length") == 50
        assert not page.js("document.querySelector('.map').hidden")
        page.js("document.querySelector('.act[aria-label=\"Fold the iterations\"]').dispatchEvent(new MouseEvent('click'))")
        assert len(texts(page)) == folded
        page.click(".act[aria-label='Close into one box']")
        assert any(text.startswith("↻ ×50") for text in texts(page))
        page.js("document.querySelector('.node.closed').dispatchEvent(new MouseEvent('dblclick', {bubbles: true}))")
        assert len(texts(page)) == folded


def test_moving_and_zooming(browser: Browser, pages: dict[str, Path]) -> None:
    with browser.page(pages["rnn"]) as page:
        where = "document.querySelector('.node').getBoundingClientRect()"
        before = page.js(f"(({{left, top, width}}) => [left, top, width])({where})")
        page.drag((300, 300), (360, 340))
        after = page.js(f"(({{left, top, width}}) => [left, top, width])({where})")
        assert after[:2] == pytest.approx([before[0] + 60, before[1] + 40], abs=1)
        page.wheel(300, 300, -300)
        assert page.js(f"{where}.width") > 1.3 * before[2]
        page.click("[aria-label='Zoom out']")
        page.click("[aria-label='Show everything']")
        stage = page.js("(({height}) => height)(document.querySelector('.stage').getBoundingClientRect())")
        assert page.js("document.querySelector('.stage > svg > g').getBoundingClientRect().height") <= stage
        page.press("/")
        assert page.js("document.activeElement === document.querySelector('.search input')")


def test_the_map_shows_and_moves_the_view(browser: Browser, pages: dict[str, Path]) -> None:
    with browser.page(pages["rnn"]) as page:
        page.click(".act[aria-label='Unfold all 50 iterations']")
        x, y = page.middle(".map")
        page.drag((x, y - 30), (x, y + 40))
        assert page.js("document.querySelector('.node').getBoundingClientRect().top") < -500
        pixels = page.js(
            "(() => { const c = document.querySelector('.map'); return c.getContext('2d').getImageData(0, 0, c.width, c.height)"
            ".data.filter((v, i) => i % 4 === 3 && v > 0).length; })()"
        )
        assert pixels > 200


def test_light_and_dark_by_hand(browser: Browser, pages: dict[str, Path]) -> None:
    with browser.page(pages["mlp"]) as page:
        page.click(".theme")
        assert page.js("document.documentElement.dataset.theme") == "dark"
        page.click(".theme")
        assert page.js("document.documentElement.dataset.theme") == "light"
        page.js("localStorage.clear()")


def test_on_a_narrow_screen_the_panel_is_a_sheet(browser: Browser, pages: dict[str, Path]) -> None:
    with browser.page(pages["mlp"], 400, 780) as page:
        assert page.js("document.querySelector('.panel').hidden")
        page.click(".node[aria-label^='relu']")
        box = page.box(".panel")
        assert (box[0], box[2]) == (0, 400)
        assert box[1] > 300
        assert box[3] == pytest.approx(780, abs=1)


# -- compiled functions, NaN, paper ----------------------------------------------------------------------------------------


@gt.function
def settle(x: Any, rate: Any) -> Any:
    total = gt.zeros_like(x)
    for _ in gt.range(20):
        if gt.reduce_sum(x) > 3.0:  # noqa: SIM108  (a branch to be drawn)
            x = x * rate
        else:
            x = x + gt.sin(x) * 0.1
        total += x
    while gt.reduce_sum(total) > 1.0:
        total = total * 0.5
    return total


CLIPPED = """
[...document.querySelectorAll('.node')].filter((node) => {
  const frame = node.querySelector('rect:last-of-type').getBoundingClientRect();
  return [...node.querySelectorAll('text')].some((text) => {
    const r = text.getBoundingClientRect();
    return r.left < frame.left - 1 || r.right > frame.right + 1 || r.top < frame.top - 1 || r.bottom > frame.bottom + 1;
  });
}).map((node) => node.textContent)
"""


@pytest.mark.parametrize(("width", "height", "dark"), SIZES)
def test_a_compiled_function_opens_into_its_program(
    browser: Browser, tmp_path: Path, width: int, height: int, dark: bool
) -> None:
    x, rate = gt.constant([1.0, 2.0, 3.0]), gt.Variable(0.9, name="rate")
    with gt.GradientTape() as tape:
        loss = gt.reduce_mean(settle(x, rate) ** 2)
    tape.picture(tmp_path / "compiled.html", target=loss)
    with browser.page(tmp_path / "compiled.html", width, height, dark) as page:
        assert {"ƒ settle", "rate", "x"} <= set(texts(page))
        find = "[...document.querySelectorAll('.node')].find((n) => n.textContent.includes('settle'))"
        page.js(f"{find}.dispatchEvent(new MouseEvent('dblclick', {{bubbles: true}}))")
        titles = page.js("[...document.querySelectorAll('.group title:first-of-type')].map((t) => t.textContent)")
        for words in ("in function settle", "a loop of 20 iterations", "if, test_browser.py", "then", "else", "a loop of …"):
            assert any(title.startswith(words) for title in titles), words
        assert {"sin", "reduce_sum", "greater", "if", "x"} <= set(texts(page))
        assert page.js(CLIPPED) == []
        page.js("document.querySelector('.panel').hidden = false")
        assert "while gt.reduce_sum(total) > 1.0:" in page.js("document.querySelector('.panel').innerText")


def test_what_a_nan_reaches_is_marked(browser: Browser, tmp_path: Path) -> None:
    w = gt.Variable([1.0, -2.0], name="w")
    with np.errstate(all="ignore"), gt.GradientTape() as tape:
        h = w * 3.0
        loss = gt.reduce_sum(gt.math.log(h) * 2.0 + gt.sin(h))
    tape.picture(tmp_path / "nan.html", target=loss)  # nobody has asked for a gradient or a report
    with browser.page(tmp_path / "nan.html") as page:
        marked = {
            mark: page.js(f"[...document.querySelectorAll('.node.{mark}')].map((n) => n.querySelector('text').textContent)")
            for mark in ("bad", "tainted")
        }
        assert marked == {"bad": ["log"], "tainted": ["multiply", "add", "reduce_sum"]}
        assert "negative number is NaN" in page.js("document.querySelector('.panel').innerText")


def test_on_paper_all_graphs_are_drawn_whole(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    assert cli.main(["run", str(tmp_path / "script.py"), "--report", str(tmp_path / "report.html")]) == 0
    with browser.page(tmp_path / "report.html", 720, 400, dark=True) as page:  # so low that nobody has seen the graphs yet
        page.call("Emulation.setEmulatedMedia", media="print")
        page.js("window.dispatchEvent(new Event('beforeprint'))")
        assert page.js("document.documentElement.dataset.theme") == "light"
        graphs = page.js("""
            [...document.querySelectorAll('.graph')].map((graph) => {
              const frame = graph.getBoundingClientRect(), nodes = [...graph.querySelectorAll('.node')];
              return [nodes.length, nodes.filter((node) => {
                const r = node.getBoundingClientRect();
                return r.left < frame.left || r.right > frame.right || r.top < frame.top || r.bottom > frame.bottom;
              }).length];
            })""")
        assert len(graphs) == 2
        assert all(nodes > 2 and outside == 0 for nodes, outside in graphs), graphs
        assert page.js("[...document.querySelectorAll('.report td, .graph')].every((c) => c.scrollWidth <= c.clientWidth + 1)")
        page.js("window.dispatchEvent(new Event('afterprint'))")
        dark = [{"name": "prefers-color-scheme", "value": "dark"}]
        page.call("Emulation.setEmulatedMedia", media="", features=dark)
        until(page, "document.documentElement.dataset.theme === 'dark'")
        assert len(page.call("Page.printToPDF", printBackground=True)["data"]) > 20_000


# -- the layout ----------------------------------------------------------------------------------------------------------

BOXES = """
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const states = new Map(%s);
  const scene = gradtape.scene(data, states);
  const box = (b) => [b.id, b.x, b.y, b.w, b.h, b.parent ? b.parent.id || 'root' : ''];
  return { nodes: scene.nodes.map(box), groups: scene.groups.map(box),
    arrows: scene.arrows.filter((a) => !a.carrier).map((a) => [a.from.id, a.to.id]),
    width: scene.width, height: scene.height, curves: scene.curves.length };
})()
"""


@pytest.mark.parametrize(
    ("name", "states"), [("mlp", "[]"), ("rnn", "[]"), ("rnn", "[[1, 'all']]"), ("rnn", "[[1, 'closed']]")]
)
def test_boxes_do_not_overlap_and_arrows_point_down(browser: Browser, pages: dict[str, Path], name: str, states: str) -> None:
    with browser.page(pages[name]) as page:
        scene = page.js(BOXES % states)
    check_layout(scene)


def test_layouts_of_random_graphs(browser: Browser, tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    for case in range(4):
        leaves = [gt.Variable(float(k + 1), name=f"v{k}") for k in range(3)]
        with gt.GradientTape() as tape:
            values: list[Any] = list(leaves)
            for _ in range(40):
                a, b = (values[int(i)] for i in generator.integers(max(0, len(values) - 12), len(values), 2))
                values.append([gt.add, gt.multiply, gt.maximum][int(generator.integers(3))](a, b))
            kept = values[-6:]
        path = tmp_path / f"{case}.html"
        tape.picture(path, target=kept)
        with browser.page(path) as page:
            check_layout(page.js(BOXES % "[]"))


def check_layout(scene: Any) -> None:
    nodes = {name: np.array(box) for name, *box, _ in scene["nodes"]}
    boxes = list(nodes.values())
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            apart = (
                a[0] + a[2] <= b[0] + 0.1 or b[0] + b[2] <= a[0] + 0.1 or a[1] + a[3] <= b[1] + 0.1 or b[1] + b[3] <= a[1] + 0.1
            )
            assert apart, (a, b)
    frames = {name: np.array(box) for name, *box, _ in scene["groups"]} | {
        "root": np.array([0, 0, scene["width"], scene["height"]])
    }
    for _, x, y, w, h, parent in [*scene["nodes"], *scene["groups"]]:
        outer = frames[parent]
        assert x >= outer[0] - 0.1
        assert y >= outer[1] - 0.1
        assert x + w <= outer[0] + outer[2] + 0.1
        assert y + h <= outer[1] + outer[3] + 0.1
    for source, sink in scene["arrows"]:
        assert nodes[source][1] + nodes[source][3] <= nodes[sink][1] + 0.1, (source, sink)
    assert scene["curves"] >= len(scene["arrows"]) > 0


# -- reports, notebooks, safety ------------------------------------------------------------------------------------------

SCRIPT = """
import gradtape as gt
v = gt.Variable([1.0, 2.0, 3.0])
w = gt.Variable(1.0)
for step in range(5):
    with gt.GradientTape() as tape:
        y = gt.reduce_sum(gt.sin(v) * gt.exp(v))
    tape.gradient(y, [v, w])
for n in range(6):
    with gt.GradientTape() as tape:
        y = gt.reduce_sum(v ** float(n))
    tape.gradient(y, v)
"""


@pytest.mark.parametrize(("width", "height", "dark"), SIZES)
def test_a_report_opens_sorts_and_draws(browser: Browser, tmp_path: Path, width: int, height: int, dark: bool) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    path = tmp_path / "report.html"
    assert cli.main(["run", str(script), "--report", str(path)]) == 0
    with browser.page(path, width, height, dark) as page:
        assert page.js("document.documentElement.scrollWidth") <= width
        assert page.js("document.documentElement.dataset.theme") == ("dark" if dark else "light")
        assert "no gradient of y with respect to w" in page.js("document.querySelector('.findings').innerText")
        assert page.js("document.querySelectorAll('.graph').length") == 2
        page.js("document.querySelectorAll('.graph')[1].scrollIntoView()")
        until(page, "document.querySelectorAll('.graph')[1].querySelectorAll('.node').length > 2")
        column = "[...document.querySelector('table.profile').tBodies[0].rows].map((r) => Number(r.cells[4].dataset.v))"
        page.js("document.querySelector('table.profile th:nth-child(5)').click()")
        down = page.js(column)
        assert down == sorted(down, reverse=True)
        page.js("document.querySelector('table.profile th:nth-child(5)').click()")
        assert page.js(column) == sorted(down)


def test_a_notebook_cell_shows_the_picture(browser: Browser, tmp_path: Path) -> None:
    tape, loss = rnn(5)
    path = tmp_path / "notebook.html"
    path.write_text(
        f"<!DOCTYPE html><meta charset='utf-8'><body>{tape.picture(target=loss)._repr_html_()}</body>", encoding="utf-8"
    )
    with browser.page(path, 900, 700) as page:
        until(page, "document.querySelector('iframe').contentDocument.querySelectorAll('.node').length > 5")


def test_names_and_values_of_the_users_stay_text(browser: Browser, tmp_path: Path) -> None:
    evil = "</script><img src=x onerror='window.hacked=1'><b>bold</b>"
    x = gt.Variable(1.0, name=evil)
    space: dict[str, Any] = {"gt": gt}
    exec(compile("def f(x):\n    return gt.sin(x)", f"/tmp/{evil}.py", "exec"), space)
    with gt.GradientTape() as tape:
        space["f"](x)
    tape.picture(tmp_path / "evil.html")
    with browser.page(tmp_path / "evil.html") as page:
        page.hover(".node.leaf")
        page.click(".node.leaf")
        page.click(".node:not(.leaf)")
        assert page.js("window.hacked === undefined && document.querySelectorAll('img, b').length === 0")
        assert "</script>" in page.js("document.body.innerText")


def test_an_empty_tape_says_so(browser: Browser, tmp_path: Path) -> None:
    with gt.GradientTape() as tape:
        pass
    tape.picture(tmp_path / "empty.html")
    with browser.page(tmp_path / "empty.html") as page:
        assert "Nothing was recorded" in page.js("document.body.innerText")


def test_the_harness_notices_errors_and_requests(browser: Browser, tmp_path: Path) -> None:
    for body, words in (
        ("<script>throw new Error('boom')</script>", "boom"),
        ("<script>console.error('complained')</script>", "complained"),
        ("<img src='http://127.0.0.1:9/x.png'>", "request to http://127.0.0.1:9/x.png"),
    ):
        path = tmp_path / "bad.html"
        path.write_text(f"<!DOCTYPE html><body>{body}</body>")
        with pytest.raises(AssertionError, match=words), browser.page(path):
            pass
