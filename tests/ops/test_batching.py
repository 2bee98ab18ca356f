"""Generated from the samples of every op and composite: batch rules against loops."""

import pytest

import gradtape as gt
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


@pytest.mark.parametrize("compile", [False, True])
def test_a_shape_that_differs_between_examples_is_refused_with_line_and_cure(compile):
    def mapped():
        return gt.vectorized_map(lambda n: gt.reduce_sum(gt.range(n)), gt.constant([2, 3]))

    words = r"test_batching.py:\d+: `range` has another shape for each example .*\[\(2,\), \(3,\)\].*gt.sequence_mask"
    with pytest.raises(gt.errors.InvalidArgumentError, match=words):
        (gt.function(mapped, jit_compile=False) if compile else mapped)()
