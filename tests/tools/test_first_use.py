"""The tools come with their first use: in a process that has imported nothing but the library."""

import subprocess
import sys

import pytest

TAPE = """
import gradtape as gt
x = gt.constant(0.0)
with gt.GradientTape() as tape:
    tape.watch(x)
    y = gt.sqrt(x) * 0.0
"""


@pytest.mark.parametrize("use", ["tape.explain(y, x)", "tape.gradient(y, x)", "tape.nan_report()", "tape.picture()"])
def test_a_tool_is_there_when_it_is_needed(use):
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", TAPE + use], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
