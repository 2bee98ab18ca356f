"""Every operation between ranks, at orders 1 and 2, forward and reverse, against finite differences of the global function, for
local and replicated targets and sources, eagerly and compiled; and random sequences of them."""

import pytest

from tests.distribute.launching import needs_ranks, results, run
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
def test_derivatives_of_programs_are_those_of_the_global_function(backend: str, request: pytest.FixtureRequest) -> None:
    if backend == "native" and not thorough(request):
        pytest.skip(
            "LLVM takes a minute for them: a matter of `make test-all`; the programs of test_parallel_programs.py are native"
        )
    options = ["--all"] if thorough(request) else []
    problems = results(CASES, 2, backend, *options)
    assert problems
    assert [f"{case}: {problem}" for case, problem in problems.items() if problem] == []


@needs_ranks
def test_random_sequences_neither_hang_nor_go_wrong(request: pytest.FixtureRequest) -> None:
    count = 2000 if thorough(request) else 25
    done = run(3, "-W", "error", "-m", "tests.distribute.random_sequences", str(count), timeout=PATIENCE + count)
    assert done.stdout == f"checked {count}\n", done.stderr[-3000:]
