"""What all tests share: a clean state before each, and one line about the ops at the end."""

import gc
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from gradtape import config
from gradtape.core.record import SCOPE
from gradtape.surface import uncaught
from gradtape.tape import native_forms
from tests.harness import process, quick_code, seeds

# object code of tests is kept in the project: another run finds it, and the user's cache stays as it is
os.environ.setdefault("GRADTAPE_CACHE", str(Path(__file__).resolve().parent.parent / ".cache"))
config.set_native_cache_directory(os.environ["GRADTAPE_CACHE"])
quick_code.install()
uncaught.HIDING = False  # here the library's own lines are what a failure is about


def pytest_addoption(parser: Any) -> None:
    parser.addoption(
        "--programs",
        type=int,
        default=100,
        help="how many random functions tests/zoo compares (default 100); tests/homes compares 2 to 3 times as many",
    )

    parser.addoption("--shuffle", type=int, metavar="SEED", help="run the tests in a random order of this seed")
    parser.addoption("--fresh", action="store_true", help="random programs of new seeds, not the same ones in each run")


def pytest_configure(config: pytest.Config) -> None:
    """The same programs in each run, however busy the machine is, unless fresh ones are asked for."""
    seeds.Asked.programs = config.getoption("programs")
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    settings.register_profile(
        "gradtape",
        deadline=None,
        derandomize=not config.getoption("fresh"),
        database=None,
        print_blob=True,
        suppress_health_check=checks,
    )
    settings.load_profile("gradtape")
    # Hypothesis also draws the constants it reads in the modules that are loaded by then: other programs in another order of
    # the tests, and after each edit of any file. `tests/structure/test_suite.py` checks it.
    if not config.getoption("fresh"):
        providers._get_local_constants = lambda: providers._local_constants


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    seed = config.getoption("shuffle")
    if seed is not None:
        random.Random(seed).shuffle(items)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Garbage collections look through thirty thousand tests neither while they are found nor ever again.

    Programs are cyclic garbage, and most of it lives for one test: in Python's own steps its collection is a seventh of a run.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, 20, 50)
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    quick_code.choose(item.nodeid, os.environ["GRADTAPE_CACHE"])


@pytest.fixture(autouse=True)
def _nothing_left_behind() -> Iterator[None]:
    """A test that leaves a tape recording, or anything else of the process changed, fails itself, not the next one.

    Machine code for eager operations is loaded between tests: in one that measures memory it would look like its own.
    """
    if native_forms.Heat.placed is None and native_forms.Heat.left < 25_000:
        native_forms.noticed(native_forms.Heat.left + 1)
    process.fresh()
    before = process.state()
    yield
    scope = SCOPE.get()
    SCOPE.set(None)
    assert scope is None, "a tape or accumulator is still recording after the test"
    assert process.differences(before) == {}


@pytest.fixture(scope="module")
def reference_backend() -> Iterator[None]:
    """Functions run on the NumPy backend: for what is about the meaning of programs, or to the bit.

    `tests/backends/test_native_programs.py` compares machine code with it.
    """
    config.native_code(False)
    yield
    config.native_code(True)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    ran = terminalreporter.stats.get("passed", []) + terminalreporter.stats.get("failed", [])
    passed = (report.user_properties for report in terminalreporter.stats.get("passed", []))
    programs = sum(value for properties in passed for name, value in properties if name == "random programs")
    if programs:
        terminalreporter.write_line(f"random programs: {programs}, in eager code and compiled, none of which differs")
    if any("tests/ops/" in report.nodeid for report in ran):
        from tests.harness.coverage import summary

        terminalreporter.write_line(summary())
