"""The page of public functions is current, and every function on it says what it does."""

from tests.harness.operations import PAGE, page


def test_page_is_current() -> None:
    assert PAGE.read_text() == page(), "docs/reference/operations.md is out of date: run python -m tests.harness.operations"


def test_every_function_has_a_summary() -> None:
    assert [line for line in page().splitlines() if line.endswith("|  |")] == []
