"""A gradient costs exactly as many calls, records, bytes and tensors as is written down: a guard without a stopwatch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks.counting import NAMES, STORED
from tests.harness.process import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
HOW = "if that is meant, run `python -m tests.benchmarks.counting --update` and say why in the change"


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, int]]:
    command = [sys.executable, "-m", "tests.benchmarks.counting"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    counts: dict[str, dict[str, int]] = json.loads(done.stdout)
    return counts


EXPECTED: dict[str, dict[str, int]] = json.loads(STORED.read_text())


def test_every_workload_has_an_expectation() -> None:
    assert set(EXPECTED) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_counts(name: str, found: dict[str, dict[str, int]]) -> None:
    changed = {
        kind: f"{count} → {found[name][kind]} ({'more' if found[name][kind] > count else 'fewer'})"
        for kind, count in EXPECTED[name].items()
        if found[name][kind] != count
    }
    assert not changed, f"{name} costs something else than before: {changed}; {HOW}"
