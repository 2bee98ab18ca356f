"""Asking `tape.explain` at every moment: before and after the gradient was taken, of one-shot and persistent tapes."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import gradtape as gt
from gradtape.core.record import CLOCK


@pytest.fixture(autouse=True)
def no_other_tape_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a program of its own: while other tapes are open, more lines are known."""
    monkeypatch.setattr(CLOCK, "open", set())


def line_of(function: Callable[..., Any], mark: str = "# lost") -> str | None:
    """ "file:line" of the line of a function that carries the mark, as `Explanation.location` writes it; None without one."""
    lines, first = inspect.getsourcelines(function)
    found = [first + i for i, line in enumerate(lines) if line.rstrip().endswith(mark)]
    return f"{os.path.relpath(function.__code__.co_filename)}:{found[0]}" if found else None


def asked(build: Callable[[Any], tuple[Any, Any]], **options: Any) -> Any:
    """What the tape answers about `build(tape) -> (target, source)`; the same before and after `gradient`, one-shot and
    persistent. The gradient must be None exactly if the cause says so."""
    found = []
    for persistent in (False, True):
        tape = gt.GradientTape(persistent=persistent, **options)
        target, source = build(tape)
        found.append(tape.explain(target, source))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", gt.GradientWarning)
            answer = tape.gradient(target, source)
        found.append(tape.explain(target, source))
        assert (answer is None) == (found[0].cause not in ("connected", "zero")), found[0]
    if found[0].cause == "zero":  # a one-shot tape that was used up remembers that, but not where
        assert (found[1].cause, found[1].location) == ("zero", None)
        found[1] = found[0]
    assert found[1:] == found[:1] * 3
    return found[0]


def lost(build: Callable[[Any], tuple[Any, Any]], cause: str, *words: str, **options: Any) -> Any:
    """The same, with this cause, at the line marked `# lost` in `build` (none: no location), and these words in the message."""
    why = asked(build, **options)
    assert why.cause == cause, why
    assert why.location == line_of(build), why
    for word in words:
        assert word in why.message, why.message
    return why
