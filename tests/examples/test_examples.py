"""Every example runs as a script, with warnings as errors, and asserts its own result."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.process import PATIENCE

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
GALLERY = sorted(path for path in (ROOT / "examples" / "gallery").glob("*.py") if not path.name.startswith("_"))


def test_there_are_examples() -> None:
    names = {path.stem for path in EXAMPLES}
    eager = {"linear_regression", "mlp", "pinn", "maml", "implicit_solver", "scipy_minimize", "tensorflow_programs"}
    assert eager | {"adaptive_ode", "rnn_early_stopping"} <= names


@pytest.mark.parametrize("path", [*EXAMPLES, *GALLERY], ids=lambda p: p.stem)
def test_example(path: Path, tmp_path: Path) -> None:
    if path.stem.startswith("keras") and importlib.util.find_spec("keras") is None:
        pytest.skip("Keras is not installed: pip install 'gradtape[keras]'")
    small = ["--quick"] if path in GALLERY else []
    assert "assert" in path.read_text(), "an example states what it found"
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    result = subprocess.run(
        [sys.executable, "-W", "error", str(path), *small],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert result.stdout.strip()
