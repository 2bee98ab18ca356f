"""Where random programs begin: at the same place in each run, or, with `--fresh`, at one that nobody has seen."""

from __future__ import annotations

import random

import pytest

FRESH = random.SystemRandom()


def seed_of(request: pytest.FixtureRequest, part: int) -> int:
    """The seed of one part of the programs; with `--fresh` another one in each run, which a failure shows."""
    return FRESH.randrange(10**6, 2**31) if request.config.getoption("--fresh") else part


def counted(request: pytest.FixtureRequest, programs: int) -> None:
    """Note how many random programs a test has run, for the last line of the run."""
    request.node.user_properties.append(("random programs", programs))
