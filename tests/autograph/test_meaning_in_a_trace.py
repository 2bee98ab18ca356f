"""The same while a function is being traced: plain Python values inside a trace keep Python's meaning."""

from collections.abc import Callable
from typing import Any

import pytest

import gradtape as gt
from gradtape.functions.autograph import convert
from tests.autograph.compare import Outcome, outcome
from tests.autograph.programs_scopes import global_write
from tests.autograph.test_meaning import CASES

# a global number that is read and written is an input of the program, not a plain value
PLAIN = [case for case in CASES if case.values[0] is not global_write]


def traced_outcome(function: Callable[..., Any], argument: Any) -> Outcome:
    """What happens when the function runs, once, inside a trace."""
    seen: list[Outcome] = []

    @gt.autograph.experimental.do_not_convert
    def run(x: Any) -> Any:
        seen.append(outcome(convert(function), argument))
        return x

    gt.function(run)(gt.constant(0.0))
    return seen[-1]


@pytest.mark.parametrize(("function", "argument"), PLAIN)
def test_same_meaning_in_a_trace(function: Callable[..., Any], argument: Any) -> None:
    expected = outcome(function, argument)
    assert traced_outcome(function, argument) == expected
