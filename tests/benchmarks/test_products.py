"""The table of our own matrix products against BLAS."""

from __future__ import annotations

import pytest
from benchmarks import products


def test_the_table_says_which_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    products.main(["--quick"])
    lines = capsys.readouterr().out.splitlines()
    assert sum("tiles/BLAS" in line for line in lines) == 2
    rows = [line.split() for line in lines if line.startswith(("square", "batched"))]
    assert len(rows) > 10
    assert all(row[-1] == "tiles" and float(row[-2]) > 0 for row in rows)
