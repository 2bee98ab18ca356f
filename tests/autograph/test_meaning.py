"""Converted functions mean what they meant: same value, same exception at the same line, same order of evaluation."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.autograph import programs_control, programs_expressions, programs_scopes
from tests.autograph.compare import assert_same

CASES = [
    pytest.param(function, argument, id=f"{function.__name__}-{place}")
    for module in (programs_control, programs_expressions, programs_scopes)
    for place, (function, argument) in enumerate(module.CASES)
]


@pytest.mark.parametrize(("function", "argument"), CASES)
def test_same_meaning(function: Callable[..., Any], argument: Any) -> None:
    assert_same(function, argument)


def test_there_are_many() -> None:
    modules = (programs_control, programs_expressions, programs_scopes)
    assert len({function for module in modules for function, _ in module.CASES}) >= 150
