"""Who waits at a terminal is told why; nobody else is. Interrupts leave functions, programs and caches usable."""

from __future__ import annotations

import io
import threading

import numpy as np
import pytest

import gradtape as gt
from gradtape import config
from gradtape.backends.llvm.runtime import machine
from gradtape.functions import compiled, waiting
from gradtape.passes import pipeline, reroll
from gradtape.trace import tracing


class Terminal(io.StringIO):
    def isatty(self):
        return True


def slowly(x):
    threading.Event().wait(0.05)  # (time.sleep would happen when the program runs)
    return gt.sin(x) * 2.0


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(waiting, "PATIENCE", 0.01)


@pytest.mark.usefixtures("impatient", "reference_backend")
def test_a_terminal_is_told_what_takes_long(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    f = gt.function(slowly)
    f(gt.constant(1.0))
    told = terminal.getvalue()
    assert told.startswith("gradtape: tracing `slowly` ... ")
    assert told.splitlines()[0].endswith(" s")
    before = len(told)
    f(gt.constant(2.0))
    assert len(terminal.getvalue()) == before


@pytest.mark.usefixtures("impatient", "reference_backend")
def test_a_notebook_is_told_too(monkeypatch):
    notebook = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})()
    monkeypatch.setattr("sys.stderr", notebook)
    gt.function(slowly)(gt.constant(1.0))
    assert notebook.getvalue().startswith("gradtape: tracing `slowly` ... ")


@pytest.mark.usefixtures("impatient", "reference_backend")
def test_nothing_is_written_where_nobody_looks(capsys):
    gt.function(slowly)(gt.constant(1.0))
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("reference_backend")
def test_a_quick_function_says_nothing(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    gt.function(lambda x: gt.sin(x))(gt.constant(1.0))
    assert terminal.getvalue() == ""
    assert not any(isinstance(thread, threading.Timer) and not thread.finished.is_set() for thread in threading.enumerate())


# -- interrupts ----------------------------------------------------------------------------------------------------------


def interrupting(monkeypatch, owner, name):
    """The first call of a function ends with Ctrl-C, after it has done its work."""
    whole, left = getattr(owner, name), [True]

    def interrupted(*args, **kwargs):
        result = whole(*args, **kwargs)
        if left and left.pop():
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(owner, name, interrupted)


PLACES = {
    "tracing": (tracing.Trace, "emit"), "re-rolling": (reroll, "reroll"), "passes": (pipeline, "canonicalize"),
    "bufferize": (pipeline, "bufferize"), "halves": (compiled, "split"), "executable": (compiled, "executable"),
    "LLVM's passes": (machine, "optimized"), "object code": (machine, "object_code"),
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_an_interrupted_first_call_can_be_made_again(place, monkeypatch):
    monkeypatch.setitem(config.settings, "native_cache", "")  # what is interrupted is not found on disk
    if place == "passes":
        changed = tuple((name, function, level) for name, function, level in pipeline.PASSES)
        ran = []

        def interrupted(block, whole=changed[1][1]):
            if not ran:
                ran.append(True)
                raise KeyboardInterrupt
            return whole(block)

        monkeypatch.setattr(pipeline, "PASSES", (changed[0], ("canonicalize", interrupted, 1), *changed[2:]))
    else:
        interrupting(monkeypatch, *PLACES[place])
    v = gt.Variable(2.0)

    @gt.function(jit_compile=True)
    def f(x):
        y = gt.zeros((12,))
        for i in range(12):
            y[i] = x * v + float(i)
        for k in (1.0, 2.0, 3.0, 4.0, 5.0):
            y = y * k / k + 0.0 * gt.sin(y)
        v.assign_add(1.0)
        return gt.reduce_sum(y)

    def run():
        x = gt.constant(1.5)
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        return float(y), float(tape.gradient(y, x))

    with pytest.raises(KeyboardInterrupt):
        run()
    v.assign(2.0)
    np.testing.assert_allclose(run(), (12 * 3.0 + 66.0, 24.0))
    assert float(v) == 3.0
    assert float(gt.function(lambda x: gt.sin(x), jit_compile=True)(gt.constant(0.5))) == pytest.approx(np.sin(0.5))
