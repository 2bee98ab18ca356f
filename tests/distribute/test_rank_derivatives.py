"""Every operation between ranks, at orders 1 and 2, forward and reverse, against finite differences of the global function, for
local and replicated targets and sources, eagerly and compiled; and random sequences of them."""

import re
from inspect import isfunction

import pytest

import gradtape as gt
from tests.distribute.derivative_cases import OPERATIONS
from tests.distribute.launching import ROOT, needs_ranks, results, run
from tests.harness.process import PATIENCE

CASES = "tests.distribute.derivative_cases"


def thorough(request: pytest.FixtureRequest) -> bool:
    return int(request.config.getoption("programs")) > 200


@needs_ranks
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_derivatives_are_those_of_the_global_function(ranks: int, request: pytest.FixtureRequest) -> None:
    options = ["--all"] if thorough(request) else []
    problems = results(CASES, ranks, "eager", *options)
    assert len(problems) == (104 if options else 26), "an operation has no case"
    assert [f"{case}: {problem}" for case, problem in problems.items() if problem] == []


@needs_ranks
@pytest.mark.parametrize("backend", ["numpy", "native"])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_derivatives_of_programs_are_those_of_the_global_function(
    ranks: int, backend: str, request: pytest.FixtureRequest
) -> None:
    if (ranks, backend) != (2, "numpy") and not thorough(request):
        pytest.skip("each takes a minute: a matter of `make test-all`; the programs of test_parallel_programs.py are native")
    options = ["--all"] if thorough(request) else []
    problems = results(CASES, ranks, backend, *options)
    assert len(problems) == (96 if options else 24), "an operation has no case"
    assert [f"{case}: {problem}" for case, problem in problems.items() if problem] == []


@needs_ranks
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_derivatives_mean_the_same_wherever_their_sources_live(ranks: int, request: pytest.FixtureRequest) -> None:
    if ranks != 2 and not thorough(request):
        pytest.skip("a table of two thousand programs: a matter of `make test-all`, a part of it on two ranks runs here")
    answers = results("tests.distribute.rank_homes", ranks, *(["--all"] if thorough(request) else []))
    assert answers["wrong"] == {}
    assert answers["count"] > (2000 if thorough(request) else 300)


def test_every_row_of_the_table_of_adjoints_has_its_cases() -> None:
    page = (ROOT / "docs" / "learn" / "many_machines.md").read_text()
    rows = re.findall(r"^\| (`\w+\(.*?) \|", page, re.MULTILINE)
    documented = {name for row in rows for name in re.findall(r"`(\w+)\(", row)}
    variants = {f"all_reduce {kind}" for row in rows if "all_reduce" in row for kind in re.findall(r'"(\w+)"', row)}
    assert len(rows) == 14
    words = {word for case in OPERATIONS for word in re.findall(r"[a-z_]+", case)}
    assert documented == {word for word in words if isfunction(getattr(gt.distribute, word, None))} - {"rank"}
    assert variants | {"all_reduce sum"} == {case for case in OPERATIONS if case.startswith("all_reduce ")}


@needs_ranks
@pytest.mark.parametrize("ranks", [2, 3])
def test_random_sequences_neither_hang_nor_go_wrong(ranks: int, request: pytest.FixtureRequest) -> None:
    first, count = (0, 1000) if thorough(request) else (115, 15)
    command = ["-m", "tests.distribute.random_sequences", str(first), str(count)]
    done = run(ranks, "-W", "error", *command, timeout=PATIENCE + count)
    assert done.stdout == f"checked {count}\n", done.stderr[-3000:]
