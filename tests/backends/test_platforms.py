"""Where LLVM or the CPU is not as expected, functions still work: on the baseline of x86-64 without any extension, without
machine code, and without a working llvmlite. Each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.harness.process import PATIENCE

ROOT = Path(__file__).parents[2]
PROGRAM = """
import warnings
import numpy as np
import gradtape as gt

@gt.function
def f(x, w):
    total = gt.constant(0.0)
    for i in gt.range(5):
        total = total + gt.reduce_sum(gt.tanh(x @ w) * gt.cast(i, gt.float32)) + x[i % 3, 0]
    return total

x = gt.constant(np.linspace(-1, 1, 9).reshape(3, 3).astype("float32"))
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = f(x, x)
    slope = tape.gradient(y, x)
    gt.function(lambda x: x * 2.0)(x)
with gt.GradientTape() as tape:
    tape.watch(x)
    expected = f.python_function(x, x)
np.testing.assert_allclose(y, expected, rtol=1e-5)
np.testing.assert_allclose(slope, tape.gradient(expected, x), rtol=1e-4, atol=1e-5)
print([str(w.message) for w in said], "native code" in f.explain())
"""
BASELINE = """
import llvmlite.binding as llvm
import platform
llvm.get_host_cpu_name = lambda: "x86-64" if platform.machine() in ("x86_64", "AMD64") else "generic"
llvm.get_host_cpu_features = lambda: llvm.FeatureMap()
"""
BROKEN = """
import sys
sys.modules["llvmlite"] = None
"""


def output(folder: Path, before: str = "", **environment: str) -> str:
    settings = {**os.environ, "GRADTAPE_CACHE": "", "OPENBLAS_NUM_THREADS": "1", **environment}
    script = folder / "script.py"  # AutoGraph reads it
    script.write_text(before + PROGRAM)
    done = subprocess.run([sys.executable, script], cwd=ROOT, env=settings, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_baseline_of_the_architecture(tmp_path):
    assert output(tmp_path, BASELINE) == "[] True"


def test_no_machine_code(tmp_path):
    assert output(tmp_path, GRADTAPE_NATIVE="0") == "[] False"


def test_without_llvm_one_message_says_so(tmp_path):
    said = output(tmp_path, BROKEN)
    assert said.count("functions run on the NumPy backend") == 1
    assert said.endswith("False")
