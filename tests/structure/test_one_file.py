"""A new operation takes one file: `log_cosh`, written into a copy of its family's file, works everywhere and is checked."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OPERATION = """
LOG_COSH = _unary(
    "log_cosh", lambda x: np.logaddexp(x, -x) - x.dtype.type(np.log(2.0)), lambda x: tanh(x), _reals,
    expand=lambda x: abs(x) + log1p(exp(-2.0 * abs(x))) - 0.6931471805599453,
)
log_cosh = unary(LOG_COSH, "log(cosh(x)), without overflow.")


"""
USE = """
import numpy as np
import gradtape as gt
from tests.harness.checks import CHECKS, cases_of
from tests.harness.operations import page

x = gt.constant(np.linspace(-3.0, 3.0, 7))
right = np.log(np.cosh(x.numpy()))
np.testing.assert_allclose(gt.math.log_cosh(x), right)
np.testing.assert_allclose(gt.vectorized_map(gt.math.log_cosh, x), right)
compiled = gt.function(gt.math.log_cosh)
np.testing.assert_allclose(compiled(x), right)
assert "calls NumPy" not in compiled.explain(), compiled.explain()
assert "| `gt.math.log_cosh` | log(cosh(x)), without overflow. |" in page()
ran = set()
for check in CHECKS:
    for case in cases_of(check.name):
        if case.name == "log_cosh":
            check.run(case)
            ran.add(check.name)
assert ran >= {"forward", "expand", "infer", "first", "second", "jvp", "batch_rule", "vectorized_map", "single", "layouts"}, ran
"""


def test_a_new_op_takes_one_file(tmp_path: Path) -> None:
    source = tmp_path / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    family = source / "gradtape" / "ops" / "elementwise.py"
    text = family.read_text()
    before, names, ops = text.partition("__all__ = [")
    samples = "def _reals() -> list[Sample]:\n    return [Sample(normal(3, 2)), Sample(normal()), Sample(normal(0))]\n\n"
    ops = ops.replace('"log1p",', '"log1p", "log_cosh",', 1).replace("OPS = (", "OPS = (\n    LOG_COSH,", 1)
    family.write_text(before + samples + OPERATION + names + ops)
    paths = {"PYTHONPATH": f"{source}:{ROOT}"}
    done = subprocess.run([sys.executable, "-c", USE], env=paths, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
