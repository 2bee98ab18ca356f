"""Ctrl-C at any moment of a first call: while it is traced, rewritten, differentiated or compiled. The next call works.

One process of its own, since what all programs share is written and compiled at the first call of a process.
"""

import subprocess
import sys
from pathlib import Path

from tests.structure.modules import ROOT

SCRIPT = """
import random
import sys
import inspect
import gradtape as gt

GENERATOR = inspect.CO_GENERATOR

class Stop(BaseException):
    pass

def interrupted_at(call, work):
    # raise when Python has entered this many functions of gradtape (generators are entered to be closed, too, where an
    # exception would get lost); whether that happened
    count = 0
    def watch(frame, event, argument):
        nonlocal count
        if event == "call" and "gradtape" in frame.f_code.co_filename and not frame.f_code.co_flags & GENERATOR:
            count += 1
            if count == call:
                sys.setprofile(None)
                raise Stop
    sys.setprofile(watch)
    try:
        work()
    except Stop:
        return True
    finally:
        sys.setprofile(None)
    return False

def model(x, n):
    y = gt.zeros((3, 3))
    for i in range(3):
        y[i] = x[i] * gt.sin(x) + i
    while gt.reduce_sum(y) > n:
        y = gt.tanh(y @ y) * 0.5
    return gt.reduce_sum(y)

def gradient(f, x):
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = f(x, 1.0)
    return tape.gradient(y, x).numpy()

x = gt.constant([0.3, 0.5, 0.7])
expected = gradient(model, x)
draw = random.Random(0)
stops = 0
for again in (False, True):  # first what every program shares, too, is interrupted many times before it is whole
    call, stopped = 1, True
    while stopped:
        f = gt.function(model)
        stopped = interrupted_at(int(call), lambda: gradient(f, x))
        stops += stopped
        if again or not stopped:
            assert abs(gradient(f, x) - expected).max() < 1e-6, f"after the interrupt at call {int(call)}"
            assert abs(gradient(gt.function(model), x) - expected).max() < 1e-6
        call = call * (1.3 if again else 1.08) + draw.randrange(20)
print(stops)
"""


def test_an_interrupt_leaves_nothing_half_done(tmp_path: Path) -> None:
    cold = {"PYTHONPATH": str(ROOT / "src"), "GRADTAPE_CACHE": str(tmp_path / "cache"), "PATH": "/usr/bin:/bin"}
    script = tmp_path / "script.py"  # AutoGraph needs its source
    script.write_text(SCRIPT)
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=ROOT, env=cold)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) > 30
