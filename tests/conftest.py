"""What all tests share: a clean state before each, and one line about the ops at the end."""

import gc
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from gradtape import config
from gradtape.ops.record import SCOPE

# object code of tests is kept in the project: another run finds it, and the user's cache stays as it is
os.environ.setdefault("GRADTAPE_CACHE", str(Path(__file__).resolve().parent.parent / ".cache"))
config.set_native_cache_directory(os.environ["GRADTAPE_CACHE"])


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--programs", type=int, default=200, help="how many random functions tests/zoo compares (default 200)")

    parser.addoption("--shuffle", type=int, metavar="SEED", help="run the tests in a random order of this seed")
    parser.addoption("--fresh", action="store_true", help="random programs of new seeds, not the same ones in each run")


def pytest_configure(config: pytest.Config) -> None:
    """The same programs in each run, however busy the machine is, unless fresh ones are asked for."""
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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    seed = config.getoption("shuffle")
    if seed is not None:
        random.Random(seed).shuffle(items)


def pytest_collection_finish() -> None:
    """Garbage collections need not look through twenty thousand tests again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _nothing_left_recording() -> Iterator[None]:
    """A test that leaves a tape recording fails itself, not the next one."""
    yield
    scope = SCOPE.get()
    SCOPE.set(None)
    assert scope is None, "a tape or accumulator is still recording after the test"


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
    if any("tests/ops/" in report.nodeid for report in ran):
        from tests.harness.coverage import summary

        terminalreporter.write_line(summary())
