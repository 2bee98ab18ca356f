"""SciPy (with `SCIPY_ARRAY_API=1`) and scikit-learn (with `array_api_dispatch`) run on tensors and give tensors."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def wrong(library):
    path = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    run = subprocess.run(
        [sys.executable, "-m", "tests.standard.other_libraries", library],
        check=False, capture_output=True, text=True, cwd=ROOT,
        env=os.environ | {"SCIPY_ARRAY_API": "1", "PYTHONPATH": path},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_scipy():
    assert wrong("scipy") == {}


def test_scikit_learn():
    pytest.importorskip("sklearn")
    assert wrong("sklearn") == {}
