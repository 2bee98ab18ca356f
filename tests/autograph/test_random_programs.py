"""Random Python programs mean the same after conversion."""

import itertools
from typing import Any

from hypothesis import HealthCheck, given, settings, strategies as st

from tests.autograph.compare import Outcome, assert_same, outcome
from tests.autograph.random_programs import Fuel, compiled, programs

NUMBERS = itertools.count()


def fueled(function: Any) -> Any:
    def run(*args: Any) -> Outcome:
        Fuel.left = 40
        return outcome(function, *args)

    return run


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(), st.integers(-2, 3), st.integers(-2, 3))
def test_random_programs(text: str, a: int, b: int) -> None:
    from gradtape.functions.autograph import convert

    function = compiled(text, next(NUMBERS))
    converted = convert(function)
    assert converted is not function
    expected, got = fueled(function)(a, b), fueled(converted)(a, b)
    assert got == expected, f"\n{text}"


def test_the_comparison_can_fail() -> None:
    def one(x: int) -> int:
        return x

    def other(x: int) -> int:
        return x + 1

    assert outcome(one, 1) != outcome(other, 1)
    assert_same(one, 1)
