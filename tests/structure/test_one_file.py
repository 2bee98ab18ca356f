"""What CONTRIBUTING says about new things, tried in a copy: an operation, a lowering and a pass take a file each."""

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


LOWERED = """
import numpy as np
import gradtape as gt

x = gt.constant(np.linspace(-3.0, 3.0, 7))
compiled = gt.function(gt.math.log_cosh)
np.testing.assert_allclose(compiled(x), np.log(np.cosh(x.numpy())), rtol=1e-14)
assert "calls NumPy" not in compiled.explain(), compiled.explain()
"""
PASSED = """
import numpy as np
from gradtape.backends.numpy import compile_block
from gradtape.ir.printer import to_text
from tests.harness.checked_passes import debug_optimize
from tests.passes.golden import block_of

block = block_of("func f(%x: float64[3]) {\\n  %0: float64[3] = multiply(%x, %x)\\n  give outputs(%0)\\n}")
text = to_text(debug_optimize(block, [np.arange(3.0)], compile_block), locations=False)
assert "square(%x)" in text, text
"""


def _written(heading: str, entry: str) -> tuple[str, str]:
    """The piece of Python in a section of CONTRIBUTING, and the line for a table that begins with `entry`."""
    section = (ROOT / "CONTRIBUTING.md").read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return section.partition("```python\n")[2].partition("```")[0], entry + section.partition(f"`{entry}")[2].partition("`")[0]


def _copy(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "src" / "gradtape"


def _run(source: Path, program: str) -> None:
    paths = {"PYTHONPATH": f"{source.parent}:{ROOT}"}
    done = subprocess.run([sys.executable, "-c", program], env=paths, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _with_log_cosh(source: Path, operation: str) -> None:
    family = source / "ops" / "elementwise.py"
    before, names, ops = family.read_text().partition("__all__ = [")
    samples = "def _reals() -> list[Sample]:\n    return [Sample(normal(3, 2)), Sample(normal()), Sample(normal(0))]\n\n"
    ops = ops.replace('"log1p",', '"log1p", "log_cosh",', 1).replace("OPS = (", "OPS = (\n    LOG_COSH,", 1)
    family.write_text(before + samples + operation + names + ops)


def test_a_new_op_takes_one_file(tmp_path: Path) -> None:
    source = _copy(tmp_path)
    _with_log_cosh(source, OPERATION)
    _run(source, USE)


def test_a_new_lowering_takes_one_file(tmp_path: Path) -> None:
    """The op has no `expand` here: without the lowering, native code calls NumPy for it."""
    source = _copy(tmp_path)
    _with_log_cosh(source, "\n".join(line for line in OPERATION.split("\n") if "expand=" not in line))
    formula, entry = _written("Adding a lowering", "elementwise.LOG_COSH: ")
    written = source / "backends" / "llvm" / "kernels" / "formulas.py"
    before, table, after = written.read_text().partition("LOWERINGS: dict[Op, Lowering] = {\n")
    written.write_text(f"{before}{formula}\n\n{table}    {entry}\n{after}")
    _run(source, LOWERED)


def test_a_new_pass_takes_one_file_and_a_line(tmp_path: Path) -> None:
    source = _copy(tmp_path)
    text, entry = _written("Adding a pass", '("squares", ')
    (source / "passes" / "squares.py").write_text(text)
    pipeline = source / "passes" / "pipeline.py"
    before, table, after = pipeline.read_text().partition("PASSES: tuple[tuple[str, Pass, int], ...] = (\n")
    pipeline.write_text(f"{before}from gradtape.passes.squares import squares\n\n{table}    {entry}\n{after}")
    _run(source, PASSED)
