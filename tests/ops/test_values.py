"""Generated from the samples of every op and composite: results, types, precision, layouts and errors."""

import pytest

from tests.harness.cases import Case
from tests.harness.checks import BY_NAME, cases_of


@pytest.mark.parametrize("case", cases_of("forward"), ids=repr)
def test_forward(case: Case) -> None:
    BY_NAME["forward"].run(case)


@pytest.mark.parametrize("case", cases_of("expand"), ids=repr)
def test_expand(case: Case) -> None:
    BY_NAME["expand"].run(case)


@pytest.mark.parametrize("case", cases_of("infer"), ids=repr)
def test_infer(case: Case) -> None:
    BY_NAME["infer"].run(case)


@pytest.mark.parametrize("case", cases_of("single"), ids=repr)
def test_single(case: Case) -> None:
    BY_NAME["single"].run(case)


@pytest.mark.parametrize("case", cases_of("integers"), ids=repr)
def test_integers(case: Case) -> None:
    BY_NAME["integers"].run(case)


@pytest.mark.parametrize("case", cases_of("layouts"), ids=repr)
def test_layouts(case: Case) -> None:
    BY_NAME["layouts"].run(case)


@pytest.mark.parametrize("case", cases_of("error"), ids=repr)
def test_error(case: Case) -> None:
    BY_NAME["error"].run(case)


@pytest.mark.parametrize("case", cases_of("no_gradient"), ids=repr)
def test_no_gradient(case: Case) -> None:
    BY_NAME["no_gradient"].run(case)


@pytest.mark.parametrize("case", cases_of("empty"), ids=repr)
def test_empty(case: Case) -> None:
    BY_NAME["empty"].run(case)


@pytest.mark.parametrize("case", cases_of("masked"), ids=repr)
def test_masked(case: Case) -> None:
    BY_NAME["masked"].run(case)
