"""A compiled gradient consists of exactly as many operations, kernels, calls of NumPy and bytes as is written down."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.counting_compiled import NAMES, STORED
from tests.harness.process import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
HOW = "if that is meant, run `python -m tests.benchmarks.counting_compiled --update` and say why in the change"
EXPECTED: dict[str, dict[str, Any]] = json.loads(STORED.read_text())


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, Any]]:
    command = [sys.executable, "-m", "tests.benchmarks.counting_compiled"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    counts: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return counts


def test_every_program_has_an_expectation() -> None:
    assert set(EXPECTED) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_counts(name: str, found: dict[str, dict[str, Any]]) -> None:
    kinds = {*EXPECTED[name], *found[name]}
    changed = {
        kind: f"{EXPECTED[name].get(kind)} → {found[name].get(kind)}"
        for kind in sorted(kinds)
        if EXPECTED[name].get(kind) != found[name].get(kind)
    }
    assert not changed, f"{name} is another program than before: {changed}; {HOW}"
