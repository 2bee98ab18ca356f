"""Generated from the samples of every op and composite: results, types, precision, layouts and errors."""

from tests.harness.cases import Case
from tests.harness.checks import owners_of, run


@owners_of("forward")
def test_forward(cases: list[Case]) -> None:
    run("forward", cases)


@owners_of("expand")
def test_expand(cases: list[Case]) -> None:
    run("expand", cases)


@owners_of("infer")
def test_infer(cases: list[Case]) -> None:
    run("infer", cases)


@owners_of("single")
def test_single(cases: list[Case]) -> None:
    run("single", cases)


@owners_of("integers")
def test_integers(cases: list[Case]) -> None:
    run("integers", cases)


@owners_of("layouts")
def test_layouts(cases: list[Case]) -> None:
    run("layouts", cases)


@owners_of("error")
def test_error(cases: list[Case]) -> None:
    run("error", cases)


@owners_of("no_gradient")
def test_no_gradient(cases: list[Case]) -> None:
    run("no_gradient", cases)


@owners_of("empty")
def test_empty(cases: list[Case]) -> None:
    run("empty", cases)


@owners_of("masked")
def test_masked(cases: list[Case]) -> None:
    run("masked", cases)
