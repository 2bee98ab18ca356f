"""Native code touches nothing but its arrays: programs run between inaccessible pages, in processes of their own.

One process runs many programs; if it ends early, the program that ended it has failed, and another process goes on with the
rest. See `guarded.py` for what is guarded and `guarded_programs.py` for the programs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.backends.guarded_programs import PROGRAMS, SIZED, WRONG
from tests.harness.process import PATIENCE

ROOT = Path(__file__).parents[2]


def guarded(frame: str, names: list[str]) -> dict[str, str]:
    """What became of programs: "good", or what went wrong."""
    found: dict[str, str] = {}
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    while names:
        done = subprocess.run(
            [sys.executable, "-m", "tests.backends.guarded", frame, *names],
            cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE,
        )  # fmt: skip
        words = [line.split(" ", 2) for line in done.stdout.splitlines()]
        started = [line[1] for line in words if line[0] == "run"]
        found |= {line[1]: "good" if line[0] == "good" else line[2] for line in words if line[0] in ("good", "bad")}
        if words and words[-1] == ["end"]:
            break
        assert started, done.stderr
        found[started[-1]] = f"the process ended with {done.returncode}: {done.stderr}"
        names = names[names.index(started[-1]) + 1 :]
    return found


CHOSEN = {"apart": list(PROGRAMS), "whole": [name for name in PROGRAMS if name in SIZED]}


@pytest.mark.parametrize("frame", CHOSEN)
def test_nothing_beside_arrays_is_touched(frame: str) -> None:
    """One test for each frame: the programs of a frame share a process."""
    outcome = guarded(frame, CHOSEN[frame])
    assert set(outcome) == set(CHOSEN[frame])
    assert {name: what for name, what in outcome.items() if what != "good"} == {}


def test_the_guards_are_there() -> None:
    found = guarded("whole", [*WRONG, "elementwise"])
    for name, what in found.items():
        if name != "elementwise":
            assert ("written next to 40 bytes" if "beside" in name else "Segmentation fault") in what
    assert found["elementwise"] == "good"
