"""The tables of compiled rows by number of threads, alone and beside busy processes."""

from __future__ import annotations

import pytest
from benchmarks import threads

from gradtape import config


@pytest.mark.parametrize("more", [[], ["--busy", "1"]])
def test_a_row(capsys: pytest.CaptureFixture[str], more: list[str]) -> None:
    before = config.settings["threads"]
    try:
        threads.main(["logsumexp", "--seconds", "0.02", *more])
    finally:
        config.set_threads(before)
    head, _, row = capsys.readouterr().out.strip().split("\n")
    assert head.startswith("| work | 1 thread")
    assert row.startswith("| log-sum-exp of 10⁵ |")
    assert row.count("µs") == (4 if more else 2)


def test_names_choose_rows() -> None:
    assert [title for title, _ in threads.rows(["trivial", "logsum"])] == ["call of a trivial function", "log-sum-exp of 10⁵"]
