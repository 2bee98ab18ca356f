"""Whole programs natively against the interpreter: the zoo and random functions, values and derivatives of order 1 and 2.

Every program that is compiled on the way (a function, its forward and backward halves, and theirs) runs on both backends.
"""

from __future__ import annotations

import zlib

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

import gradtape as gt
from tests.backends.agreement import compared
from tests.harness.seeds import counted, in_sample, seed_of
from tests.harness.tolerances import same_array
from tests.zoo.checks import gradients, run
from tests.zoo.programs import programs
from tests.zoo.sized_programs import sized_programs
from tests.zoo.test_random_functions import first_order, is_refusal, load, second_order
from tests.zoo.test_zoo import ENTRIES, GRADIENT, eager_gradients, eager_run, same

SAMPLE = 6  # without `make test-all` one entry in so many is run, as compiling takes longest
SECOND = 12  # and one in so many differentiated twice
PARTS = 4
SIZED = 2  # further parts, of functions with sizes known at run time only

PLAIN = [entry for entry in ENTRIES.values() if not entry.order]
SMOOTH = [entry for entry in ENTRIES.values() if entry.order]


def pytest_generate_tests(metafunc):
    if "entry" in metafunc.fixturenames:
        entries = metafunc.module.PLAIN if metafunc.function.__name__ == "test_values_of_the_zoo" else metafunc.module.SMOOTH
        chosen = [entry for entry in entries if in_sample(entry.name, SAMPLE)]
        metafunc.parametrize("entry", chosen, ids=str)


@pytest.fixture
def number(request):
    """Of random functions in a part: a tenth of what `tests/zoo` compares in all."""
    return max(1, request.config.getoption("--programs") // 10 // PARTS)


def test_values_of_the_zoo(entry):
    with compared():
        same(run(entry, gt.function), eager_run(entry.name), entry.name)


def test_derivatives_of_the_zoo(entry):
    order = min(entry.order, 2 if in_sample(entry.name, SECOND) else 1)
    with compared() as made:
        found = gradients(entry, entry.inputs[0], gt.function, order=order)
    if any(program.effects for program in made):  # they ran natively only
        for a, b in zip(found[-1], eager_gradients(entry.name, 0, order)[-1], strict=True):
            same_array(a, b, GRADIENT, entry.name)


def check_random(folder, program, refused=lambda error: False) -> None:
    """Differentiate a random function, one in some twice, on both backends."""
    function, _, _ = load(folder, program, 0)
    with compared():
        try:
            first_order(gt.function(function), 0)
            if zlib.crc32(repr(program).encode()) % SECOND == 0:
                second_order(gt.function(function), 1)
        except Exception as error:
            if not refused(error):
                raise


@pytest.mark.parametrize("part", range(PARTS))
def test_random_functions(part, number, tmp_path, request):
    @seed(seed_of(request, 1000 + part))
    @settings(
        max_examples=number, deadline=None, database=None, suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )  # fmt: skip
    @given(programs())
    def check(program):
        check_random(tmp_path, program)

    check()
    counted(request, number)


@pytest.mark.parametrize("part", range(SIZED))
def test_random_functions_with_sizes_known_at_run_time(part, number, tmp_path, request):
    @seed(seed_of(request, 2000 + part))
    @settings(
        max_examples=max(1, number // 2), deadline=None, database=None, suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )  # fmt: skip
    @given(sized_programs())
    def check(program):
        check_random(tmp_path, program, is_refusal)

    check()
    counted(request, max(1, number // 2))
