"""LLVM calls `abort` where it finds a mistake of its own: the process lives, and the program runs."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape import config
from gradtape.backends.llvm.runtime import guarding, machine
from gradtape.errors import InternalError
from tests.harness.process import PATIENCE
from tests.structure.modules import ROOT

pytestmark = pytest.mark.skipif(not guarding.available(), reason="nothing is guarded on this system")

ONE = "define i32 @one() {\n  ret i32 1\n}\n"
# an instruction of another processor: LLVM has no code for it, which it says when it has done half of its work
IMPOSSIBLE = (
    "declare void @llvm.aarch64.hint(i32)\ndefine void @hint() {\n  call void @llvm.aarch64.hint(i32 1)\n  ret void\n}\n"
)
PASSES, CODE = "LLVMPY_RunNewModulePassManager", "LLVMPY_TargetMachineEmitToMemory"
KINDS = ["abort", "assertion"]


def aborting(kind: str) -> Callable[[], None]:
    """A guarded call of the C library that ends the process."""
    library, guard = ctypes.CDLL(None), machine._guard()
    address = {"abort": library.abort, "assertion": library.__assert_fail}[kind]
    text, file = (ctypes.create_string_buffer(raw) for raw in (b"x > 0", b"Test.cpp"))
    words = [ctypes.addressof(text), ctypes.addressof(file), 17, 0]

    def call() -> None:
        assert (text.value, file.value) != (b"", b"")  # kept
        guard(ctypes.cast(address, ctypes.c_void_p).value or 0, *words)

    return call


def disposition() -> tuple[int, int, int]:
    """What the process does about SIGABRT: handler, mask and flags (but for one that the C library adds)."""
    action = (ctypes.c_int64 * 32)()
    assert ctypes.CDLL(None).sigaction(signal.SIGABRT, None, action) == 0
    return action[0], action[1], action[17] & 0xFFFFFFFF & ~0x04000000


def compiles(x: float = 0.5) -> None:
    """A program of its own, from tracing to machine code."""
    y = gt.function(lambda x: gt.sin(x) * x)(gt.constant([x, 1.5]))
    np.testing.assert_allclose(y, np.sin([x, 1.5]) * [x, 1.5], rtol=1e-6)


@pytest.fixture
def no_cache() -> Iterator[None]:
    before = config.native_cache_directory()
    config.set_native_cache_directory(None)
    yield
    config.set_native_cache_directory(before)


@pytest.fixture(params=["default", "python", "faulthandler", "ignored"])
def handled(request: Any) -> Iterator[list[int]]:
    """What a user may do about SIGABRT; lists the signals that Python's handler got."""
    heard: list[int] = []
    before = signal.getsignal(signal.SIGABRT)
    on = faulthandler.is_enabled()
    faulthandler.disable()
    if request.param == "python":
        signal.signal(signal.SIGABRT, lambda number, frame: heard.append(number))
    elif request.param == "ignored":
        signal.signal(signal.SIGABRT, signal.SIG_IGN)
    elif request.param == "faulthandler":
        faulthandler.enable(sys.__stderr__)
    yield heard
    faulthandler.disable()
    signal.signal(signal.SIGABRT, before)
    if on:
        faulthandler.enable(sys.__stderr__)


@pytest.mark.usefixtures("no_cache")
@pytest.mark.parametrize("kind", KINDS)
def test_an_abort_is_an_exception(kind: str, handled: list[int]) -> None:
    before = disposition()
    call = aborting(kind)
    for _ in range(3):
        with pytest.raises(guarding.LLVMAbortError):
            call()
    assert disposition() == before
    assert not heard_after(handled)
    compiles()


def heard_after(heard: list[int]) -> list[int]:
    for _ in range(10):  # Python runs handlers between two of its instructions
        pass
    return heard


@pytest.mark.usefixtures("no_cache")
@pytest.mark.parametrize("kind", KINDS)
def test_aborts_in_threads_at_once(kind: str, handled: list[int]) -> None:
    before, caught, call = disposition(), [], aborting(kind)
    start = threading.Barrier(20)  # more than have a place

    def work() -> None:
        start.wait()
        for _ in range(10):
            try:
                call()
            except guarding.LLVMAbortError:
                caught.append(threading.get_ident())

    threads = [threading.Thread(target=work) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(caught) == 200
    assert disposition() == before
    assert not heard_after(handled)
    compiles()


def test_a_call_that_returns_gives_its_result() -> None:
    guard = machine._guard()
    assert guard(ctypes.cast(ctypes.CDLL(None).labs, ctypes.c_void_p).value or 0, -17) == 17
    assert guarding.direct(ctypes.cast(ctypes.CDLL(None).labs, ctypes.c_void_p).value or 0, -17) == 17


def test_a_handler_that_is_installed_meanwhile_stays() -> None:
    """`signal.signal` while LLVM is at work is not undone when it ends."""
    before = signal.getsignal(signal.SIGABRT)
    heard: list[int] = []
    library = ctypes.CDLL(None)
    install = ctypes.CFUNCTYPE(ctypes.c_int64)(lambda: signal.signal(signal.SIGABRT, handler) and 0)

    def handler(number: int, frame: Any) -> None:
        heard.append(number)

    try:
        machine._guard()(ctypes.cast(install, ctypes.c_void_p).value or 0)
        assert signal.getsignal(signal.SIGABRT) is handler
        library.raise_ = library["raise"]
        library.raise_(signal.SIGABRT)
        assert heard_after(heard) == [signal.SIGABRT]
    finally:
        signal.signal(signal.SIGABRT, before)


SCRIPT = """
import ctypes, os, signal, sys, threading, time
from gradtape.backends.llvm.runtime import machine
library = ctypes.CDLL(None)
address = lambda function: ctypes.cast(function, ctypes.c_void_p).value
if "handler" in sys.argv[2:]:
    signal.signal(signal.SIGABRT, lambda number, frame: (print("heard", flush=True), os._exit(7)))
guard = machine._guard()
others = {
    "another thread": lambda: library.abort(),
    "another process": lambda: os.kill(os.getpid(), signal.SIGABRT),
    "broken memory": None,
}
if sys.argv[1] == "broken memory":
    text = ctypes.create_string_buffer(b"x")
    guard(address(library.free), ctypes.addressof(text) + 16)
else:
    threading.Thread(target=lambda: (time.sleep(0.3), others[sys.argv[1]]()), daemon=True).start()
    guard(address(library.pause))
print("lives")
"""


@pytest.mark.parametrize("how", ["another thread", "another process", "broken memory"])
def test_an_abort_that_is_not_llvms_ends_the_process(how: str) -> None:
    run = subprocess.run([sys.executable, "-c", SCRIPT, how], capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE)
    assert run.returncode == -signal.SIGABRT, run
    assert "lives" not in run.stdout


def test_a_signal_of_another_process_goes_to_the_users_handler() -> None:
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, "another process", "handler"], capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE
    )
    assert (run.returncode, run.stdout) == (7, "heard\n"), run


def aborts(monkeypatch: pytest.MonkeyPatch, name: str, times: int) -> list[str]:
    """LLVM that calls `abort` in place of a function of it, so many times; lists the calls of that."""
    calls: list[str] = []
    address, end = machine._llvms, ctypes.cast(ctypes.CDLL(None).abort, ctypes.c_void_p).value or 0

    def changed(asked: str) -> int:
        calls.extend([asked] * (asked == name))
        return end if asked == name and len(calls) <= times else address(asked)

    monkeypatch.setattr(machine, "_llvms", changed)
    return calls


@pytest.mark.parametrize("name", [PASSES, CODE])
@pytest.mark.parametrize("times", range(5))
def test_what_aborts_is_left_out(monkeypatch: pytest.MonkeyPatch, name: str, times: int) -> None:
    machine._guard()
    calls = aborts(monkeypatch, name, times)
    code, passes = machine.compiled(ONE, 3)
    assert len(calls) == times + 1
    assert passes == machine.attempts(3)[times]
    assert code.startswith(b"\x7fELF")
    assert machine.compiled(ONE, 3)[1] == machine.attempts(3)[0]  # what was jumped out of is no matter any more


def test_llvm_that_really_aborts() -> None:
    before = disposition()
    with pytest.raises(machine.CannotCompileError, match="abort"):
        machine.compiled(IMPOSSIBLE, 3)
    assert disposition() == before
    assert machine.compiled(ONE, 3)[1] == machine.attempts(3)[0]


def model(x: Any) -> Any:
    return gt.reduce_sum(gt.tanh(x) * gt.sin(x))


def value_and_gradient(function: Any) -> list[Any]:
    x = gt.constant([0.5, 1.5, -2.5])
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return [y, tape.gradient(y, x)]


@pytest.mark.usefixtures("no_cache")
@pytest.mark.parametrize("name", [PASSES, CODE])
def test_a_program_whose_first_attempt_aborts_has_fewer_passes(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    compiles()
    aborts(monkeypatch, name, 1)
    function = gt.function(model, jit_compile=True)
    for a, b in zip(value_and_gradient(function), value_and_gradient(model), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    assert "LLVM broke the module, so it has fewer passes" in str(function.explain())


@pytest.mark.usefixtures("no_cache")
@pytest.mark.parametrize("name", [PASSES, CODE])
def test_a_program_that_always_aborts_runs_without_machine_code(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    compiles()
    aborts(monkeypatch, name, 10**6)
    with pytest.warns(RuntimeWarning, match=r"runs on the NumPy backend.*LLVM fails on this program.*please report it"):
        results = value_and_gradient(gt.function(model))
    for a, b in zip(results, value_and_gradient(model), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    monkeypatch.undo()
    config.set_native_cache_directory(None)
    compiles(2.5)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_of_a_fork_has_the_users_disposition() -> None:
    before = disposition()
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            machine.compiled(ONE, 2)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(5):
            child = os.fork()
            if not child:
                os._exit(0 if disposition() == before else 3)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        stop.set()
        thread.join()


def test_errors_of_llvm_are_internal_errors() -> None:
    assert issubclass(machine.CannotCompileError, InternalError)
