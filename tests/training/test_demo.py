"""The command line and its demo: right numbers, a well-formed picture, with and without tqdm."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from gradtape.tools import cli, demo, svg
from tests.harness.process import PATIENCE

SVG = "{http://www.w3.org/2000/svg}"


def test_demo_in_a_process_of_its_own(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-W", "error", "-m", "gradtape.tools.cli", "demo", "--steps", "60"],
        cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    path = tmp_path / "demo_output" / "demo.svg"
    assert f"Picture: {path}" in result.stdout
    assert "accuracy" in result.stdout
    ET.parse(path)
    report = tmp_path / "demo_output" / "report.html"
    assert f"Report:  {report}" in result.stdout
    text = report.read_text(encoding="utf-8")
    assert "demo.py:" in text  # here the demo's lines are the user's
    assert "<strong>66</strong><span>tapes" in text  # 60 steps and six exercises
    assert text.count("data-graph=") >= 5


def test_demo_learns_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm", None)  # plain prints
    found = demo.run(str(tmp_path / "deep" / "picture.svg"), steps=250)
    assert found["gradient_error"] < 1e-6
    assert found["second_derivative_error"] < 1e-12
    assert found["loop_error"] < 1e-12
    assert found["branch_error"] == 0
    assert found["test_accuracy"] > 0.97
    assert "step     0" in capsys.readouterr().out
    assert (tmp_path / "deep" / "report.html").exists()
    root = ET.parse(tmp_path / "deep" / "picture.svg").getroot()
    words = {t.text for t in root.iter(f"{SVG}text")}
    assert {"boundary", "class 0", "class 1", "loss", "step", "Training loss"} <= words
    assert len(list(root.iter(f"{SVG}circle"))) == 402  # 400 points and two in the legend
    (image,) = root.iter(f"{SVG}image")
    assert image.get("href", "").startswith("data:image/png;base64,")
    assert "http" not in (tmp_path / "deep" / "picture.svg").read_text().replace(SVG[1:-1], "")


def test_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out.startswith("gradtape ")
    for wrong in (["nothing"], ["demo", "--steps", "0"]):
        with pytest.raises(SystemExit) as stop:
            cli.main(wrong)
        assert stop.value.code == 2


def test_spirals_are_reproducible_and_balanced() -> None:
    points, labels = demo.spirals(100, 3)
    again, _ = demo.spirals(100, 3)
    np.testing.assert_array_equal(points, again)
    assert points.shape == (100, 2)
    assert labels.sum() == 50


@pytest.mark.parametrize(
    ("limits", "expected"),
    [((0, 1000), [0, 200, 400, 600, 800, 1000]), ((-1.18, 1.18), [-1, -0.5, 0, 0.5, 1]), ((0, 3), [0, 1, 2, 3])],
)
def test_ticks(limits: tuple[float, float], expected: list[float]) -> None:
    assert svg.ticks(*limits) == expected


def test_log_ticks() -> None:
    np.testing.assert_allclose(svg.log_ticks(1e-4, 1), [1e-4, 1e-3, 1e-2, 1e-1, 1])
    np.testing.assert_allclose(svg.log_ticks(0.1, 1), [0.1, 0.2, 0.5, 1])


def test_contour_of_a_circle() -> None:
    axis = np.linspace(-1.5, 1.5, 61)
    x, y = np.meshgrid(axis, axis)
    strokes = np.array(svg.contour(axis, axis, x**2 + y**2, 1.0))
    np.testing.assert_allclose(np.linalg.norm(strokes, axis=-1), 1.0, atol=1e-3)
    assert np.linalg.norm(strokes[:, 0] - strokes[:, 1], axis=-1).sum() == pytest.approx(2 * np.pi, rel=1e-3)


def test_text_is_escaped() -> None:
    ET.fromstring(svg.page(10, 10, [svg.text(0, 0, "a < b & c", 10, "black")], "<title>"))
