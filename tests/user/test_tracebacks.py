"""What Python, pytest and a debugger show of an error and of a warning: the first two end at the user's line."""

from __future__ import annotations

import subprocess
import sys
import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape.core.record import INTERNAL
from gradtape.surface import uncaught
from tests.harness.process import PATIENCE

USER = """
import gradtape as gt

def test_error():
    gt.zeros([2]) + "a"

def test_loaded_later():
    gt.nn.conv2d(gt.zeros([2, 3]), gt.zeros([1]), 1, "SAME")

def test_warning():
    gt.math.log(gt.constant([-1.0]))

def test_warning_of_a_variable():
    gt.sqrt(gt.Variable([-1.0]))
"""


def test_pytest_ends_at_the_users_line(tmp_path: Path) -> None:
    (tmp_path / "test_user.py").write_text(USER)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_user.py"]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE).stdout
    assert "2 failed, 2 passed, 2 warnings" in said, said
    assert "gradtape/" not in said.replace(str(tmp_path), ""), said
    assert "test_user.py:11: RuntimeWarning: log in `gt.math.log(gt.constant([-1.0]))`" in said
    assert "test_user.py:14: RuntimeWarning: sqrt in `gt.sqrt(gt.Variable([-1.0]))`" in said


def test_python_shows_the_users_line_last_and_a_debugger_sees_all(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        gt.zeros([2]) + "a"
    except TypeError as raised:
        error = raised
    sys.excepthook(type(error), error, error.__traceback__)
    shown = capsys.readouterr().err.splitlines()
    assert shown[-2].strip().strip("~^") == "" or '+ "a"' in shown[-2]
    assert sum(line.startswith("  File") for line in shown) == 1
    whole = traceback.extract_tb(error.__traceback__)
    assert whole[0].filename == __file__
    assert whole[-1].filename in INTERNAL


def test_a_tensor_stored_into_an_array_is_one_error_with_its_cure(capsys: pytest.CaptureFixture[str]) -> None:
    x, array = gt.Variable(2.0), np.zeros(2)
    with gt.GradientTape(), pytest.raises(ValueError, match="setting an array element") as caught:
        array[0] = x * 2
    sys.excepthook(caught.type, caught.value, caught.tb)
    shown = capsys.readouterr().err.splitlines()
    assert "instead of np.zeros or np.empty" in shown[-1]
    assert sum(line.startswith("  File") for line in shown) == 1


def test_ipython_shows_the_users_line_last_in_cells_and_scripts() -> None:
    """IPython's formatter of tracebacks, which cells and `%run` ask alike."""

    def structured_traceback(
        kind: type, error: Exception, trace: Any = None, tb_offset: int = 1, context: int = 5
    ) -> list[str]:
        return traceback.format_exception(kind, error, trace)

    shell = SimpleNamespace(InteractiveTB=SimpleNamespace(structured_traceback=structured_traceback))
    uncaught.in_ipython(shell)
    with pytest.raises(TypeError) as caught:
        gt.reduce_sum(gt.zeros([2]), dim=0)  # type: ignore[call-arg]
    lines = shell.InteractiveTB.structured_traceback(caught.type, caught.value, caught.tb, tb_offset=2)
    assert sum(line.startswith("  File") for line in lines) == 1
    assert lines[-1] == "gt.reduce_sum has no argument `dim`; use axis=\n"
