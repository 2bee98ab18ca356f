"""The suite itself: tests neither see what others left, nor which of them ran before, nor how busy the machine is.

The checks of `tests/harness/process.py` find what they are for, and random programs are the same ones in any order and company.
Where machine code is the subject, LLVM makes what it makes for users (`tests/harness/quick_code.py`).
"""

import ast
import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import gradtape as gt
from gradtape import config
from gradtape.backends.llvm.runtime import machine
from tests.harness import process, quick_code, seeds


@contextmanager
def a_setting() -> Iterator[None]:
    config.debug_passes(True)
    yield
    config.debug_passes(False)


@contextmanager
def a_variable_of_the_environment() -> Iterator[None]:
    os.environ["GRADTAPE_LEFT_BEHIND"] = "1"
    yield
    del os.environ["GRADTAPE_LEFT_BEHIND"]


@contextmanager
def a_directory() -> Iterator[None]:
    before = Path.cwd()
    os.chdir("/")
    yield
    os.chdir(before)


@contextmanager
def a_collector_that_is_off() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@contextmanager
def a_thread() -> Iterator[None]:
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    yield
    done.set()
    thread.join()


LEFT = [
    a_setting,
    a_variable_of_the_environment,
    a_directory,
    a_collector_that_is_off,
    a_thread,
    gt.GradientTape,
    lambda: gt.GradientTape(persistent=True),
    lambda: gt.autodiff.ForwardAccumulator(gt.constant(1.0), gt.constant(1.0)),
    lambda: gt.name_scope("left"),
    lambda: np.errstate(divide="raise", over="raise"),
]


@pytest.mark.parametrize("leave", LEFT)
def test_what_a_test_leaves_behind_is_found(leave: Callable[[], Iterator[None]]) -> None:
    before = process.state()
    with ExitStack() as stack:
        stack.enter_context(leave())  # type: ignore[arg-type]
        assert len(process.differences(before)) == 1
    assert process.differences(before) == {}


def test_random_numbers_start_anew() -> None:
    first = gt.random.normal([3]).numpy().tolist()
    process.fresh()
    assert gt.random.normal([3]).numpy().tolist() == first


def drawn() -> list[tuple[int, float]]:
    """What Hypothesis draws in a test like ours."""
    numbers: list[tuple[int, float]] = []

    @settings(max_examples=100)
    @given(st.integers(), st.floats(0, 1e6))
    def draw(integer: int, number: float) -> None:
        numbers.append((integer, number))

    draw()
    return numbers


def test_random_programs_do_not_depend_on_the_modules_that_are_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if request.config.getoption("fresh"):
        return  # they are meant to differ
    before = drawn()
    for name in ("one", "other"):
        path = tmp_path / f"left_{name}.py"
        path.write_text(f"NUMBERS = {[37 * k + len(name) for k in range(300)]}")
        module = ModuleType(path.stem)
        module.__file__ = str(path)
        exec(path.read_text(), module.__dict__)
        monkeypatch.setitem(sys.modules, path.stem, module)
    assert drawn() == before


def levels_of(test: str, cache: str) -> list[int]:
    """Which levels of LLVM's the modules of a test get, by their lengths."""
    quick_code.choose(test, cache)
    return [machine.level_of(length, heavy=False) for length in range(2_000, 6_000, 10)]


def test_machine_code_is_that_of_users_where_it_is_the_subject(request: pytest.FixtureRequest) -> None:
    here = Path(__file__).parents[1]
    assert all(any(here.glob(f"{start}*")) for start in quick_code.THOROUGH)
    try:
        assert set(levels_of("tests/backends/test_native_math.py::test_accuracy", "c")) == {2}
        assert config.settings["native_cache"] == "c"
        levels = levels_of("tests/corpus/test_26_dead_names.py::test_random_programs", "c")
        assert config.settings["native_cache"] == ("c" if seeds.everything() else str(Path("c", "quick")))
        usual = levels.count(2) / len(levels)
        assert usual == 1.0 if seeds.everything() else 0.2 < usual < 0.3
        assert machine.level_of(machine.HUGE, heavy=True) == 1  # unoptimised it would take too much of the stack
    finally:
        quick_code.choose(request.node.nodeid, os.environ["GRADTAPE_CACHE"])


def hurried(text: str) -> list[int]:
    """The lines that give something less time than one that hangs takes."""
    found = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case (
                ast.keyword(arg="timeout", value=ast.Constant(value=int() | float() as seconds))
                | ast.BinOp(
                    left=ast.Call(func=ast.Attribute(attr="monotonic")), right=ast.Constant(value=int() | float() as seconds)
                )
            ):
                if 0.0 < seconds < process.PATIENCE:
                    found.append(node.lineno)
    return found


def test_no_test_is_in_a_hurry() -> None:
    """What waits for another thread or process waits for `PATIENCE`: fewer seconds would be about the load of the machine."""
    assert hurried("run(x, timeout=30)") == hurried("end = time.monotonic() + 5.0") == [1]
    here = Path(__file__).parents[1]
    places = {path.relative_to(here): hurried(path.read_text()) for path in here.rglob("*.py")}
    assert {path: lines for path, lines in places.items() if lines} == {}
