"""Where random programs begin: at the same place in each run, or, with `--fresh`, at one that nobody has seen.

And which of many cases of one kind `make test` runs: a sample that is the same in each run and order, as it is chosen by names.
`make test-all` runs all of them.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence
from typing import Any

import pytest

FRESH = random.SystemRandom()
MANY = 1000  # programs that `make test-all` asks for: then there is time for everything


def seed_of(request: pytest.FixtureRequest, part: int) -> int:
    """The seed of one part of the programs; with `--fresh` another one in each run, which a failure shows."""
    return FRESH.randrange(10**6, 2**31) if request.config.getoption("--fresh") else part


def counted(request: pytest.FixtureRequest, programs: int) -> None:
    """Note how many random programs a test has run, for the last line of the run."""
    request.node.user_properties.append(("random programs", programs))


class Asked:
    """What this run was asked for; `tests/conftest.py` notes it."""

    programs = 0


def everything() -> bool:
    """Whether this run has time for all cases."""
    return Asked.programs >= MANY


def in_sample(name: str, one_in: int) -> bool:
    """Whether this run has a case: each run has one in so many."""
    return everything() or zlib.crc32(name.encode()) % one_in == 0


def half_of_pairs(rows: Sequence[Any], columns: Sequence[Any]) -> list[tuple[Any, Any]]:
    """As on a chessboard: each row with every other column, each column with every other row; or all pairs."""
    pairs = [(i + j, (row, column)) for i, row in enumerate(rows) for j, column in enumerate(columns)]
    return [pair for place, pair in pairs if everything() or place % 2 == 0]
