"""What all tests share: a clean state before each, and one line about the ops at the end."""

from collections.abc import Iterator
from typing import Any

import pytest

from gradtape.ops.record import SCOPE


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--programs", type=int, default=500, help="how many random functions tests/zoo compares (default 500)")


@pytest.fixture(autouse=True)
def _nothing_left_recording() -> Iterator[None]:
    """A test that leaves a tape recording fails itself, not the next one."""
    yield
    scope = SCOPE.get()
    SCOPE.set(None)
    assert scope is None, "a tape or accumulator is still recording after the test"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    ran = terminalreporter.stats.get("passed", []) + terminalreporter.stats.get("failed", [])
    if any("tests/ops/" in report.nodeid for report in ran):
        from tests.harness.coverage import summary

        terminalreporter.write_line(summary())
