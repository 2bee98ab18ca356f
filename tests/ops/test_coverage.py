"""The coverage page is current and has no hole where there must be none."""

from tests.harness.coverage import PAGE, holes, page


def test_page_is_current() -> None:
    assert PAGE.read_text() == page(), "docs/reference/op_coverage.md is out of date: run python -m tests.harness.coverage"


def test_no_holes() -> None:
    assert holes() == []
