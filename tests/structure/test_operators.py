"""Python's operators are there after `import gradtape` alone, whatever else was imported or used."""

import subprocess
import sys


def test_operators_are_bound_by_the_package() -> None:
    program = "import gradtape as gt; v = gt.Variable(2.0); t = gt.constant(3.0); print(float(v * v + t * t - t[...]))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "10.0\n"
