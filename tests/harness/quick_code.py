"""How much LLVM does about the programs of a test: as much as for users where machine code is the subject, else little.

LLVM's passes and its code generator, at the levels users have, take half of the time of all tests. What they make of our
modules is the subject of `THOROUGH`. Elsewhere the question is whether a program means the same natively, and that is decided
before LLVM has it: there one module in `SAMPLE` gets the usual levels, the others the least. In `make test-all` all are usual.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gradtape import config
from gradtape.backends.llvm.runtime import machine
from tests.harness.seeds import everything, in_sample

THOROUGH = ("backends/", "homes/", "zoo/", "corpus/test_19_", "corpus/test_20_", "corpus/test_21_")
SAMPLE = 4  # by the length of its text
USUAL_LEVEL, USUAL_CODE, USUAL_MACHINE = machine.level_of, machine.object_code, machine._machine


class Least(int):
    """Level 0 in code generation too; level 0 itself is for what was written as it is to be."""


class Now:
    """What the test that runs now has, and the module that is being compiled."""

    quick = least = False


def choose(test: str, cache: str) -> None:
    """For a test, by its name. What is quick is kept apart, as programs are also known by what they were made of."""
    Now.quick = not everything() and not test.removeprefix("tests/").startswith(THOROUGH)
    config.set_native_cache_directory(Path(cache) / "quick" if Now.quick else cache)


def level_of(length: int, heavy: bool) -> int:
    """In the place of `machine.level_of`. Long code has the usual level: unoptimised it would take too much of the stack."""
    quick = Now.quick and length < machine.LARGE and not in_sample(str(length), SAMPLE)
    return Least() if quick else USUAL_LEVEL(length, heavy)


def object_code(text: str, level: int) -> Any:
    """In the place of `machine.object_code`, which is called by one thread at a time."""
    Now.least = isinstance(level, Least)
    try:
        return USUAL_CODE(text, level)
    finally:
        Now.least = False


def install() -> None:
    machine.level_of, machine.object_code = level_of, object_code
    machine._machine = lambda level: USUAL_MACHINE(0 if Now.least else level)
