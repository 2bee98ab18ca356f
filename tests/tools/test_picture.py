"""`tape.picture()`: the right nodes, edges, groups and numbers; text, DOT and JSON; files; nothing kept alive."""

from __future__ import annotations

import gc
import json
import re
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape.tools import page
from gradtape.tools.picture_model import CLASSES, LINES, WHOLE

FOLDER = Path(page.__file__).parent


def cell(x: Any, h: Any, w: Any, u: Any) -> Any:
    return gt.tanh(x @ w + h @ u)


def recurrent(steps: int, **options: Any) -> tuple[gt.GradientTape, Any, Any]:
    w, u = gt.Variable(np.full((2, 3), 0.1, "f"), name="w"), gt.Variable(np.eye(3, dtype="f"), name="u")
    xs = gt.constant(np.ones((steps, 4, 2), "f"))
    with gt.GradientTape(**options) as tape:
        h = gt.zeros((4, 3))
        for t in range(steps):
            h = cell(xs[t], h, w, u)
        loss = gt.reduce_mean(h * h)
    return tape, loss, [w, u]


def nodes_of(picture: Any, op: str) -> list[dict[str, Any]]:
    return [node for node in picture.data["nodes"] if node["op"] == op]


def without_lines(text: str) -> str:
    return re.sub(r"test_picture\.py:\d+(–\d+)?", "*", text)


# -- what is drawn -------------------------------------------------------------------------------------------------------


def test_outline_of_a_small_program() -> None:
    x = gt.Variable([1.0, 2.0], name="x")
    with gt.GradientTape() as tape:
        y = gt.sin(x) * 2.0 + x
        z = gt.reduce_sum(y)
    assert without_lines(tape.picture(target=z).text()) == (
        "tape: 4 operations, 1 variable, 8 B saved\n"
        "├─ sin (2,)  *  from x\n"
        "├─ multiply (2,)  *  from sin, ·\n"
        "├─ add (2,)  *  from multiply, x\n"
        "└─ reduce_sum ()  *  from add  ← target"
    )


def test_a_loop_is_drawn_once_with_its_count_and_what_it_carries() -> None:
    tape, loss, _ = recurrent(50)
    assert without_lines(tape.picture(target=loss).text()) == (
        "tape: 202 operations, 2 variables, 4.1 kB saved\n"
        "├─ ↻ ×50  cell  *\n"
        "│  ├─ matmul#1 (4, 3)  *  from x, w\n"
        "│  ├─ matmul#2 (4, 3)  *  from tanh before, u\n"
        "│  ├─ add (4, 3)  *  from matmul#1, matmul#2\n"
        "│  └─ tanh (4, 3)  *  from add\n"
        "├─ multiply (4, 3)  *  from tanh ×2\n"
        "└─ reduce_mean ()  *  from multiply  ← target"
    )


def test_functions_are_groups_and_sites_name_function_line_and_expression() -> None:
    x, h, w, u = (gt.Variable(np.eye(2), name=name) for name in "xhwu")
    with gt.GradientTape() as tape:
        gt.reduce_sum(cell(x, h, w, u))
    data = tape.picture().data
    (call,) = [group for group in data["groups"] if isinstance(group, dict)]
    assert call["kind"] == "call"
    assert call["title"] == "cell"
    file, line, function, text, start, end = data["sites"][nodes_of(tape.picture(), "tanh")[0]["site"]]
    assert file == __file__
    assert Path(file).read_text().splitlines()[line - 1].strip() == text == "return gt.tanh(x @ w + h @ u)"
    assert function == "cell"
    assert text[start:end] == "gt.tanh(x @ w + h @ u)"


def test_edges_say_which_operand() -> None:
    a, b = gt.Variable(2.0, name="a"), gt.Variable(3.0, name="b")
    with gt.GradientTape() as tape:
        gt.subtract(b, a)
    data = tape.picture().data
    names = {(data["nodes"][s]["op"], slot) for s, t, slot, _, _ in data["edges"] if data["nodes"][t]["op"] == "subtract"}
    assert names == {("b", 0), ("a", 1)}


PROGRAM = """
class Net:
    def __init__(self):
        self.weight = gt.Variable([1.0])

def scaled(a, w):
    return a * w

net = Net()
layers = [gt.Variable([2.0])]
plain = gt.Variable([3.0])
named = gt.Variable([4.0], name="given")
with gt.GradientTape() as tape:
    gt.reduce_sum(scaled(net.weight * layers[0], plain) * named)
picture = tape.picture()
"""


def test_variables_are_called_as_in_the_program() -> None:
    space: dict[str, Any] = {"gt": gt, "__name__": "program"}
    exec(PROGRAM, space)
    found = {node["op"] for node in space["picture"].data["nodes"] if node["kind"] == "variable"}
    assert found == {"net.weight", "layers[0]", "plain", "given"}


def test_locals_of_functions_are_left_alone_and_operands_give_names() -> None:
    before = locals()  # must not grow, nor keep anything alive
    weight = gt.Variable([1.0])
    with gt.GradientTape() as tape:
        gt.sin(weight)
    assert "weight" in tape.picture().text()
    assert not before


def test_versions_of_a_variable_are_one_node_and_an_assignment_is_seen() -> None:
    v = gt.Variable([1.0, 2.0], name="v")
    with gt.GradientTape(through_assignments=True) as tape:
        a = v * 2.0
        v.assign(gt.constant([5.0, 6.0]))
        b = v * 3.0
        v.assign(a + b)
        c = gt.reduce_sum(v * v)
    data = tape.picture(target=c).data
    assert [node["kind"] for node in data["nodes"]].count("variable") == 1
    assert [node["kind"] for node in data["nodes"]].count("assign") == 1


def test_several_outputs_are_one_node() -> None:
    x = gt.Variable(np.eye(2) + 1.0, name="x")
    with gt.GradientTape() as tape:
        q, r = gt.linalg.qr(x)
        gt.subtract(r, q)
    data = tape.picture().data
    assert [node["op"] for node in data["nodes"]] == ["qr", "subtract", "x"]
    assert [[s, t] for s, t, *_ in data["edges"]] == [[0, 1], [0, 1], [2, 0]]
    assert data["nodes"][0]["shape"] == {"outputs": [[2, 2], [2, 2]]}


def test_a_compiled_call_is_one_node_with_its_program() -> None:
    @gt.function
    def decay(x: Any, rate: Any) -> Any:
        while x > 1.0:
            x = x * gt.exp(-rate)
        return x

    rate = gt.Variable(0.3, name="rate")
    with gt.GradientTape() as tape:
        y = decay(gt.constant(5.0), rate) * 2.0
    for _ in range(2):  # before and after the gradient
        picture = tape.picture(target=y)
        (node,) = [node for node in picture.data["nodes"] if node["kind"] == "function"]
        assert node["op"] == "decay"
        assert node["shape"] == []
        assert "while" in picture.data["programs"][node["program"]]
        if tape._spent_at is None:
            assert tape.gradient(y, rate) is not None


def test_a_custom_gradient_has_its_name_and_does_not_run() -> None:
    calls = []

    @gt.custom_gradient
    def clipped(x: Any) -> Any:
        def grad(dy: Any) -> Any:
            calls.append(dy)
            return dy

        return x * 1.0, grad

    v = gt.Variable(1.0)
    with gt.GradientTape() as tape:
        y = clipped(v)
    picture = tape.picture(target=y)
    assert nodes_of(picture, "clipped")
    assert "functions of yours" in picture.data["measures"]["gradient"]["reason"]
    assert not calls
    tape.gradient(y, v)
    assert nodes_of(tape.picture(), "clipped")


def test_the_recorded_backward_pass_of_another_tape_is_a_group() -> None:
    x = gt.Variable([1.0, 2.0], name="x")
    with gt.GradientTape() as outer:
        with gt.GradientTape() as inner:
            y = gt.reduce_sum(x**3)
        gt.reduce_sum(inner.gradient(y, x))
    assert "ƒ backward pass" in outer.picture().text()


def test_gradients_of_a_persistent_tape_are_shown_when_something_uses_them() -> None:
    x = gt.Variable([1.0, 2.0], name="x")
    with gt.GradientTape(persistent=True) as tape:
        y = gt.reduce_sum(x**3)
    tape.gradient(y, x)
    assert "gradient" not in tape.picture().text()
    with gt.GradientTape(persistent=True) as tape:
        y = gt.reduce_sum(x**3)
        z = gt.reduce_sum(tape.gradient(y, x))
    assert len(tape.gradient(z, x)) == 2
    assert "power" in tape.picture().text()
    assert tape.picture(target=z).data["measures"]["gradient"] == {}


# -- numbers -------------------------------------------------------------------------------------------------------------


def test_gradients_are_those_of_the_target() -> None:
    tape, loss, (w, u) = recurrent(6, persistent=True)
    picture = tape.picture(target=loss)
    exact = [np.linalg.norm(g.numpy()) for g in tape.gradient(loss, [w, u])]
    shown = [nodes_of(picture, name)[0]["gradient"]["norm"] for name in ("w", "u")]
    assert shown == pytest.approx(exact, rel=1e-4)
    assert nodes_of(picture, "reduce_mean")[0]["gradient"] == {"norm": 1.0, "max": 1.0}
    assert nodes_of(picture, "reduce_mean")[0]["target"] is True


def test_the_gradient_of_a_variable_is_the_sum_over_its_versions() -> None:
    v = gt.Variable([3.0], name="v")
    with gt.GradientTape(persistent=True, through_assignments=True) as tape:
        a = v * 2.0
        v.assign(gt.constant([7.0]))
        y = gt.reduce_sum(a - v)
    assert nodes_of(tape.picture(target=y), "v")[0]["gradient"]["norm"] == pytest.approx(1.0)
    assert tape.gradient(y, v).numpy() == pytest.approx([1.0])


def test_a_folded_loop_shows_how_the_gradient_changes_over_its_iterations() -> None:
    x = gt.Variable(1.0, name="x")
    with gt.GradientTape() as tape:
        y: Any = x
        for _ in range(WHOLE):
            y = y * 1.001
            y = gt.sin(y)
    picture = tape.picture(target=y)
    (sine,) = nodes_of(picture, "sin")
    assert sine["count"] == WHOLE
    assert 32 <= len(sine["series"]) <= 64
    assert sine["series"][0] < sine["series"][-1]


def test_values_are_summarised_where_the_tape_kept_them() -> None:
    x = gt.Variable(np.array([[1.0, -2.0], [np.nan, 4.0]], "f"), name="x")
    with gt.GradientTape() as tape:
        gt.reduce_sum(gt.exp(x))
    (leaf,), (out,) = nodes_of(tape.picture(), "x"), nodes_of(tape.picture(), "exp")
    assert leaf["value"] == {"first": [1.0, -2.0, "nan", 4.0], "min": -2.0, "mean": 1.0, "max": 4.0, "nonfinite": 1}
    assert out["value"]["max"] == pytest.approx(np.exp(4.0), rel=1e-4)
    assert out["dtype"] == "float32"


def test_times_of_a_profiled_tape_and_values_of_a_debugged_one_stay_after_the_gradient() -> None:
    x = gt.Variable(np.ones(1000), name="x")
    with gt.GradientTape(profile=True) as tape:
        y = gt.reduce_sum(gt.exp(x))
    tape.gradient(y, x)
    data = tape.picture().data
    assert "reason" not in data["measures"]["time"]
    assert data["measures"]["bytes"]["total"] == 8000
    assert all(node["seconds"][0] > 0 for node in data["nodes"] if node["kind"] == "op")
    with gt.GradientTape(debug=True) as tape:
        y = gt.reduce_sum(gt.exp(x))
    tape.gradient(y, x)
    assert nodes_of(tape.picture(), "reduce_sum")[0]["value"]["mean"] == pytest.approx(1000 * np.e, rel=1e-4)


def test_a_used_up_tape_keeps_its_structure_and_says_what_is_gone() -> None:
    tape, loss, sources = recurrent(5)
    before = tape.picture().text()
    tape.gradient(loss, sources)
    picture = tape.picture()
    assert without_lines(picture.text()).splitlines()[1:] == [
        line.replace("  ← target", "") for line in without_lines(before).splitlines()[1:]
    ]
    for measure in ("bytes", "gradient", "values"):
        reason = picture.data["measures"][measure]["reason"]
        assert re.search(r"the gradient call at .*test_picture\.py:\d+ freed the values", reason)
        assert "persistent=True" in reason


def test_taking_a_picture_changes_nothing() -> None:
    tape, loss, sources = recurrent(8, memory_limit=500)
    count = len(tape.records)
    tape.picture(target=loss)
    assert len(tape.records) == count
    found = tape.gradient(loss, sources)
    tape, loss, sources = recurrent(8)
    for a, b in zip(found, tape.gradient(loss, sources), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize("inside", [False, True])
def test_tapes_of_all_kinds(inside: bool) -> None:
    """An empty tape, one that still records, one inside a trace, one inside a vectorised map."""
    with gt.GradientTape() as tape:
        if inside:
            assert tape.picture().text() == "tape: 0 operations"
    assert tape.picture().text() == "tape: 0 operations"
    texts = []

    def step(x: Any) -> Any:
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = gt.reduce_sum(x * x)
        picture = tape.picture(target=y)
        texts.append((without_lines(picture.text()), picture.data["measures"]["gradient"]["reason"]))
        return tape.gradient(y, x)

    gt.vectorized_map(step, gt.constant([[1.0, 2.0], [3.0, 4.0]]))
    gt.function(step)(gt.constant([1.0, 2.0]))
    assert [text.splitlines()[1:] for text, _ in texts] == [
        ["├─ multiply (2,)  *  from x ×2", "└─ reduce_sum ()  *  from multiply"]
    ] * 2
    assert "vectorized_map" in texts[0][1]
    assert "compiled function" in texts[1][1]


# -- large tapes ---------------------------------------------------------------------------------------------------------


def test_a_hundred_thousand_records_fit_on_a_page() -> None:
    x = gt.Variable(0.5, name="x")
    with gt.GradientTape() as tape:
        y: Any = x
        for _ in range(25_000):
            y = gt.sin(y) * 1.01 + x * 0.5
    picture = tape.picture(target=y)
    assert picture.data["tape"]["records"] == 100_000
    assert len(picture.data["nodes"]) == 5
    assert len(picture.html) < 5_000_000
    assert "↻ ×25000" in picture.text()
    assert nodes_of(picture, "x")[0]["gradient"]["norm"] == pytest.approx(abs(float(tape.gradient(y, x))), rel=1e-4)


def test_a_long_program_without_loops_is_shown_by_blocks_of_lines() -> None:
    generator = np.random.default_rng(0)
    names = generator.choice(["sin", "cos", "tanh", "exp"], size=CLASSES + 200)
    lines = [f"    x = gt.{name}(x) * x" for name in names]
    space: dict[str, Any] = {"gt": gt}
    exec(compile("\n".join(["def f(x):", *lines, "    return x"]), "generated.py", "exec"), space)
    x = gt.Variable(0.5)
    with gt.GradientTape() as tape:
        space["f"](x)
    picture = tape.picture()
    assert picture._folded.data["tape"]["by"] == "line"
    boxes = picture._folded.nodes
    assert len(boxes) <= LINES + 1
    assert sum(node.get("count", 1) for node in boxes if node["kind"] == "line") == len(tape.records)
    assert "lines 2–" in boxes[0]["op"]


# -- forms ---------------------------------------------------------------------------------------------------------------


def test_json_is_the_data_and_has_no_words_json_lacks() -> None:
    x = gt.Variable([np.inf, np.nan, 1.0], name="x")
    with gt.GradientTape() as tape:
        gt.reduce_sum(gt.exp(x))
    picture = tape.picture()
    assert json.loads(picture.json(), parse_constant=lambda word: pytest.fail(f"{word} is not JSON")) == picture.data
    assert picture.data["format"] == "gradtape-picture"


def test_dot_quotes_what_must_be_quoted() -> None:
    x = gt.Variable(1.0, name='a"b\\c\n')
    with gt.GradientTape() as tape:
        for _ in range(5):
            x = gt.sin(x)
    text = tape.picture().dot()
    assert text.startswith("digraph tape {")
    assert text.rstrip().endswith("}")
    assert text.count("{") == text.count("}") == 2
    assert '"a\\"b\\\\c\\n\\n()"' in text
    assert re.search(r"n0 -> n0 \[style=dashed", text)  # carried


def test_files_are_written_whole_and_pages_refer_to_nothing_outside(tmp_path: Path) -> None:
    tape, loss, _ = recurrent(3)
    picture = tape.picture(tmp_path / "tape.html", target=loss)
    assert picture.path == str(tmp_path / "tape.html")
    assert [path.name for path in tmp_path.iterdir()] == ["tape.html"]
    html = (tmp_path / "tape.html").read_text(encoding="utf-8")
    assert html == picture.html
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", html)
    assert "@import" not in html
    assert repr(picture) == f"<picture of 14 operations, written to {tmp_path / 'tape.html'}>"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.[jc]s*")), ids=lambda path: path.name)
def test_the_files_of_the_page(path: Path) -> None:
    """As the rest of the source: short, narrow, and fetching nothing."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    assert lines[0].startswith(("//", "/*"))  # what it is
    assert len(lines) <= 600
    assert path.suffix == ".css" or max(map(len, lines)) <= 128
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|innerHTML|\beval\b|\bfetch\b|XMLHttpRequest", text)


def test_no_text_of_the_users_becomes_markup(tmp_path: Path) -> None:
    evil = "</script><img src=x onerror=alert(1)>"
    x = gt.Variable(1.0, name=evil)
    code = compile("def f(x):\n    return gt.sin(x)", f"/tmp/{evil}.py", "exec")
    space: dict[str, Any] = {"gt": gt}
    exec(code, space)
    with gt.GradientTape() as tape:
        space["f"](x)
    picture = tape.picture()
    assert evil in json.dumps(picture.data)
    for html in (picture.html, picture._repr_html_(), tape._repr_html_()):
        assert "<img" not in html
        assert html.count("</script>") == html.count("<script")


def test_a_notebook_shows_pictures_and_tapes() -> None:
    tape, _, _ = recurrent(2)
    assert tape._repr_html_().startswith("<iframe srcdoc=")
    assert tape.picture()._repr_html_() == tape._repr_html_()
    tape.close()
    assert tape._repr_html_() == "<p>A closed GradientTape: it holds nothing any more.</p>"


def test_a_picture_keeps_nothing_alive() -> None:
    tape, loss, _ = recurrent(3)
    picture = tape.picture(target=loss)
    gone = weakref.ref(tape)
    value = weakref.ref(tape.records[0])
    gc.disable()
    try:
        del tape, loss, _
        assert gone() is None
        assert value() is None
    finally:
        gc.enable()
    assert "tanh" in picture.text()


# -- mistakes ------------------------------------------------------------------------------------------------------------


def test_bad_paths_are_refused_before_the_work(tmp_path: Path) -> None:
    tape, _, _ = recurrent(1)
    missing = tmp_path / "no" / "x.html"
    with pytest.raises(
        FileNotFoundError, match=f"cannot write {missing}: there is no folder {missing.parent}; create it first"
    ):
        tape.picture(missing)
    with pytest.raises(IsADirectoryError, match="it is a folder; give the name of a file in it"):
        tape.picture(tmp_path)
    with pytest.raises(TypeError, match="must be a string or a path, got 3 of type int"):
        tape.picture(3)
    (tmp_path / "file").write_text("")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        tape.picture(tmp_path / "file" / "x.html")


def test_a_folder_that_may_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tape, _, _ = recurrent(1)
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(PermissionError, match=r"no permission; choose another place"):
        tape.picture(tmp_path / "x.html")


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tape, _, _ = recurrent(1)
    (tmp_path / "x.html").write_text("old")

    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match=r"cannot write .*x\.html: No space left on device"):
        tape.picture(tmp_path / "x.html")
    assert (tmp_path / "x.html").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["x.html"]


def test_a_closed_tape_and_targets_of_other_kinds() -> None:
    tape, _, _ = recurrent(1)
    with pytest.raises(TypeError, match="picture: the target must be a tensor, or a structure of tensors, got 3 of type int"):
        tape.picture(target=3)
    unseen = tape.picture(target=gt.constant(1.0))
    assert "the target was not computed from watched values" in unseen.data["measures"]["gradient"]["reason"]
    tape.close()
    with pytest.raises(RuntimeError, match="picture: this tape was closed; make a new GradientTape"):
        tape.picture()
