"""Type checkers know gradtape: they accept a user's typed program and see each mistake of another (`tests/typed`).

mypy always; pyright's engine where it is installed (`pip install basedpyright`, which `make check` does).
"""

import inspect
import json
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gradtape as gt
from gradtape.tape import answers
from tests.structure.modules import ROOT

TYPED = ROOT / "tests" / "typed"
RIGHT, WRONG = TYPED / "right.py", TYPED / "wrong.py"


def mistakes() -> set[int]:
    """The lines of the wrong program that are marked."""
    lines = WRONG.read_text().splitlines()
    return {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}


def test_the_right_program_runs() -> None:
    runpy.run_path(str(RIGHT))


def test_mypy() -> None:
    # with the project's settings, so that what it has learned of src serves `make check`, and the other way round
    command = [sys.executable, "-m", "mypy", "--no-error-summary", RIGHT, WRONG]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    errors = [line for line in run.stdout.splitlines() if ": error:" in line]
    assert [line for line in errors if "wrong.py" not in line] == [], run.stderr
    assert {int(re.findall(r"wrong\.py:(\d+)", line)[0]) for line in errors} == mistakes()


def test_pyright(tmp_path: Path) -> None:
    checker = shutil.which("basedpyright", path=str(Path(sys.executable).parent))
    if checker is None:
        pytest.skip("pyright's engine is not installed here: pip install basedpyright")
    for path in (RIGHT, WRONG):
        shutil.copy(path, tmp_path)
    settings = {"include": ["."], "extraPaths": [str(ROOT / "src")], "typeCheckingMode": "standard"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [checker, "--outputjson", "-p", str(tmp_path / "pyrightconfig.json"), "--pythonpath", sys.executable]
    report = json.loads(subprocess.run(command, capture_output=True, text=True).stdout)
    errors = [d for d in report["generalDiagnostics"] if d["severity"] == "error"]
    assert [d for d in errors if not d["file"].endswith("wrong.py")] == []
    assert {d["range"]["start"]["line"] + 1 for d in errors} == mistakes()


def test_answers_of_a_tape_are_as_their_types_say() -> None:
    with gt.GradientTape(persistent=True, profile=True, debug=True) as tape:
        tape.watch(x := gt.constant([1.0, -2.0]))
        with np.errstate(all="ignore"):
            y = gt.reduce_sum(gt.sqrt(x))
        square = gt.reduce_sum(x * x)
    tape.gradient(y, x)
    given = [tape.explain(y, x), tape.nan_report(), tape.profile(), tape.check(square, x), tape.picture(target=y)]
    for answer in given:
        protocol = getattr(answers, f"{type(answer).__name__}Like")
        wanted = {*inspect.get_annotations(protocol), *(name for name in vars(protocol) if not name.startswith("_"))}
        assert {name for name in wanted if not hasattr(answer, name)} == set()
