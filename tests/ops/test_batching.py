"""Generated from the samples of every op and composite: batch rules against loops."""

from gradtape.ops.registry import OPS
from tests.harness.batches import own_calls
from tests.harness.cases import Case
from tests.harness.checks import cases_of, owners_of, run


@owners_of("batch_rule")
def test_batch_rule(cases: list[Case]) -> None:
    run("batch_rule", cases)


def test_samples_reach_their_primitive() -> None:
    reached = {case.owner for case in cases_of("batch_rule") if own_calls(case)}
    assert [op.name for op in OPS if op not in reached] == []


@owners_of("vectorized_map")
def test_vectorized_map(cases: list[Case]) -> None:
    run("vectorized_map", cases)
