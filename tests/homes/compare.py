"""The one comparison of the home test: a case in homes and in a mode against eager code; what fails is shown in few lines."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from gradtape.core.opdef import Cost
from gradtape.ir.walk import callee_of
from tests.harness.tolerances import IDENTITY, NATIVE_ULPS, same_array
from tests.homes.cases import Case
from tests.homes.homes import Home
from tests.homes.modes import NATIVE, Answer, Mode, Stage, quiet, reference
from tests.homes.refusals import refusal

GRADIENT = 1e-9  # derivatives: sums in another order
SECONDS = 10  # of processor time, to compile and run a case once


class TooSlowError(AssertionError):
    """A case needs more processor time than any program of its size may."""


@contextmanager
def watchdog(seconds: int = SECONDS) -> Iterator[None]:
    """Stops what takes more processor time than that: it counts the time of this process only, so that load does not matter."""

    def stop(signum: int, frame: Any) -> None:
        raise TooSlowError(f"more than {seconds} s of processor time")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _numbers(actual: Any, expected: Any) -> tuple[Any, Any]:
    """A Python number of eager code may be a tensor of another width: the zoo's own test compares dtypes."""
    return (actual, expected) if actual.dtype == expected.dtype else (np.asarray(actual, float), np.asarray(expected, float))


def in_last_places(case: Case, homes: list[Home]) -> float:
    """How far machine code may be off, in parts of the result: what its functions may be in each place where they are used."""
    stage = Stage(case, homes)
    program = stage.compiled(stage.plain, jit_compile=False).get_concrete_function(*stage.place.passed).program
    return NATIVE_ULPS * _epsilons(program.block)


def _epsilons(block: Any) -> float:
    """The units of the last place of all function values of a run, added up; a loop of unknown length counts once."""
    total = 0.0
    for operation in block.operations:
        inner = [*operation.regions.values(), *filter(None, [callee_of(operation)])]
        length = operation.attrs.get("length")
        total += (length if isinstance(length, int) else 1) * sum(map(_epsilons, inner))
        function = operation.op.kind == "elementwise" and operation.op.cost > Cost.CHEAP  # the others are rounded once by all
        if function and operation.results[0].type.dtype.is_floating:
            total += float(np.finfo(operation.results[0].type.dtype.dtype).eps)
    return total


def agree(actual: Answer, expected: Answer, what: str, places: float = 0.0) -> None:
    """Values, and the derivatives that the mode gave; `places` is how far its functions may be off."""
    assert len(actual.values) == len(expected.values), f"{what}: {len(actual.values)} results against {len(expected.values)}"
    for i, (a, b) in enumerate(zip(actual.values, expected.values, strict=True)):
        same_array(*_numbers(a, b), max(IDENTITY, places), f"{what}: result {i}")
    for part in ("first", "second"):
        wanted = getattr(expected, part)
        for i, (a, b) in enumerate(zip(getattr(actual, part) or [None] * len(wanted), wanted, strict=True)):
            if a is not None:
                same_array(a, b, max(GRADIENT, places), f"{what}: {part} derivative, source {i}")
    for i, (a, b) in enumerate(zip(actual.slopes, expected.slopes[: len(actual.slopes)], strict=True)):
        same_array(a, b, GRADIENT, f"{what}: slope {i} in forward mode")


def check(case: Case, homes: list[Home], mode: Mode, expected: list[Answer] | None = None) -> None:
    """The case in these homes and this mode is what eager code gives; what fails says how to see it again."""
    try:
        _check(case, homes, mode, expected)
    except Exception as error:
        text = shortest(case, homes, mode, error) if case.again is not None and refusal(error) is None else case.text
        where = ", ".join(map(str, homes))
        raise AssertionError(f"{case}: homes [{where}], mode '{mode}': {type(error).__name__}: {error}\n{text}") from error


def _check(case: Case, homes: list[Home], mode: Mode, expected: list[Answer] | None = None) -> None:
    with quiet(), watchdog():
        if expected is None:
            expected = reference(case, homes, mode.count)
        answers = mode.run(case, homes)
        places = in_last_places(case, homes) if mode in NATIVE else 0.0
    for k, (a, b) in enumerate(zip(answers, expected, strict=True)):
        agree(a, b, f"example {k}", places)


def shortest(case: Case, homes: list[Home], mode: Mode, error: Exception) -> str:
    """The case's text without the lines it does not need to fail in this way."""
    assert case.again is not None
    again = case.again

    def fails(text: str) -> bool:
        try:
            shorter = again(text)
            with quiet():
                reference(shorter, homes, mode.count)
        except Exception:
            return False  # not a program any more
        try:
            _check(shorter, homes, mode)
        except Exception as other:
            return type(other) is type(error)
        return False

    return shortened(case.text, fails)


def shortened(text: str, fails: Callable[[str], bool]) -> str:
    """Leave out a line with what is indented below it, as long as `fails` holds, until no line can go."""
    lines = text.splitlines()
    place = 0
    while place < len(lines):
        end = place + 1
        while end < len(lines) and lines[end].strip() and _indent(lines[end]) > _indent(lines[place]):
            end += 1
        without = lines[:place] + lines[end:]
        if lines[place].strip() and fails("\n".join(without) + "\n"):
            lines, place = without, 0
        else:
            place += 1
    return "\n".join(line for i, line in enumerate(lines) if line.strip() or (i and lines[i - 1].strip())) + "\n"


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
