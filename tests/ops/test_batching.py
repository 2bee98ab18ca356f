"""Generated from the samples of every op and composite: batch rules against loops."""

import pytest

from gradtape.ops.registry import OPS
from tests.harness.batches import own_calls
from tests.harness.cases import Case
from tests.harness.checks import BY_NAME, cases_of


@pytest.mark.parametrize("case", cases_of("batch_rule"), ids=repr)
def test_batch_rule(case: Case) -> None:
    BY_NAME["batch_rule"].run(case)


def test_samples_reach_their_primitive() -> None:
    reached = {case.owner for case in cases_of("batch_rule") if own_calls(case)}
    assert [op.name for op in OPS if op not in reached] == []


@pytest.mark.parametrize("case", cases_of("vectorized_map"), ids=repr)
def test_vectorized_map(case: Case) -> None:
    BY_NAME["vectorized_map"].run(case)
