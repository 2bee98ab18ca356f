"""Messages between two ranks: short ones travel with a header, long ones behind it; what is received must be what was sent."""

import re

import pytest

from tests.distribute.launching import needs_ranks, results, run
from tests.distribute.message_programs import MOST, SIZES

PROGRAMS = "tests.distribute.message_programs"
HERE = r"tests[/\\]distribute[/\\]message_programs\.py:\d+"


@needs_ranks
def test_messages_of_all_lengths_between_eager_and_compiled_code() -> None:
    answers = results(PROGRAMS, 2)
    assert len(answers) == 4 * len(SIZES) + 2
    for name, values in answers.items():
        assert values == answers[f"eager, {name.rpartition(', ')[2]}"][: len(values)], name
    # by hand: rank 0 ends with x + 0 + 1 + 2, rank 1 with 2.5 (x + 0 + 1) + 1.5 · 2, and x is 0.5
    assert answers["eager, 1"] == [[3.5**2], [2 * 3.5 + 2 * 6.75 * 2.5]]


SAMPLE = (MOST + 1, 3)  # of `make test`


@needs_ranks
@pytest.mark.parametrize(
    "lengths", [(3, 4), (3, MOST + 1), SAMPLE, (MOST + 1, MOST + 2), (MOST + 2, MOST + 1), (40_000, 20_000), (20_000, 40_000)]
)
def test_a_message_of_another_length_is_refused(lengths: tuple[int, int], request: pytest.FixtureRequest) -> None:
    if lengths != SAMPLE and request.config.getoption("programs") <= 200:
        pytest.skip("each starts a world of its own: a matter of `make test-all`")
    done = run(2, "-m", PROGRAMS, *map(str, lengths))
    assert done.returncode != 0
    sent = rf"rank 0 calls send to 1 of float64\[{lengths[0]}\] at .*{HERE}"
    assert re.search(rf"rank 1 calls recv from 0 of float64\[\S+ at .*{HERE}, but {sent}", done.stderr), done.stderr[-3000:]
