"""Branches and loops on tensors in functions that no file has: prompts, commands; and the words where they cannot work."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest

PROGRAM = """
import gradtape as gt

@gt.function
def f(x):
    if x > 0.0:
        x = x * 2.0
    else:
        x = -x
    while x < 100.0:
        x = x * 2.0
    return x

print("values", float(f(gt.constant(1.0))), float(f(gt.constant(-1.0))))
"""


def run(*arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHON_BASIC_REPL": "1", "IPYTHONDIR": os.devnull}
    return subprocess.run(
        [sys.executable, *arguments], input=text, capture_output=True, text=True, check=False, env=environment
    )


def test_a_command() -> None:
    assert run("-c", PROGRAM).stdout == "values 128.0 128.0\n"


@pytest.mark.skipif(sys.version_info < (3, 13), reason="the prompt of Python keeps what was typed from 3.13 on")
def test_the_prompt_of_python() -> None:
    assert "values 128.0 128.0\n" in run("-i", text=PROGRAM).stdout


@pytest.mark.skipif(importlib.util.find_spec("IPython") is None, reason="IPython is not installed")
def test_ipython() -> None:
    assert "values 128.0 128.0\n" in run("-m", "IPython", "-c", PROGRAM).stdout


def test_standard_input_has_no_source_and_the_message_says_what_to_do() -> None:
    done = run("-", text=PROGRAM)
    assert "values" not in done.stdout
    assert (
        "<stdin>:4: AutographWarning: AutoGraph does not convert f: its source is not available (write it in a file"
        in done.stderr
    )
    assert 'File "<stdin>", line 6, in f' in done.stderr
    assert "or use gt.cond / gt.where" in done.stderr
