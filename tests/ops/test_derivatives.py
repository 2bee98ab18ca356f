"""Generated from the samples of every op and composite: first and second derivatives, forward mode."""

from tests.harness.cases import Case
from tests.harness.checks import owners_of, run


@owners_of("first")
def test_first(cases: list[Case]) -> None:
    run("first", cases)


@owners_of("second")
def test_second(cases: list[Case]) -> None:
    run("second", cases)


@owners_of("jvp")
def test_jvp(cases: list[Case]) -> None:
    run("jvp", cases)


@owners_of("repeated")
def test_repeated(cases: list[Case]) -> None:
    run("repeated", cases)
