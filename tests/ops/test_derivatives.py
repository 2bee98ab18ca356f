"""Generated from the samples of every op and composite: first and second derivatives, forward mode."""

import pytest

from tests.harness.cases import Case
from tests.harness.checks import BY_NAME, cases_of


@pytest.mark.parametrize("case", cases_of("first"), ids=repr)
def test_first(case: Case) -> None:
    BY_NAME["first"].run(case)


@pytest.mark.parametrize("case", cases_of("second"), ids=repr)
def test_second(case: Case) -> None:
    BY_NAME["second"].run(case)


@pytest.mark.parametrize("case", cases_of("jvp"), ids=repr)
def test_jvp(case: Case) -> None:
    BY_NAME["jvp"].run(case)


@pytest.mark.parametrize("case", cases_of("repeated"), ids=repr)
def test_repeated(case: Case) -> None:
    BY_NAME["repeated"].run(case)
