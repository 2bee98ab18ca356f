"""Every sample under `vectorized_map` inside a function that knows no size: as many examples as the caller brings, any shape.

A batching rule that counts with NumPy does not work on sizes that only run time knows (those of `segment_max` did so).
"""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as gt
from tests.harness.cases import Case, all_cases
from tests.harness.seeds import in_sample
from tests.harness.tolerances import IDENTITY, same_array

PARTS = 4
DRAWN = ("random", "dropout")  # other numbers for each example


def in_scope(case: Case) -> bool:
    plain = not case.fails and bool(case.paths) and not case.name.startswith("list_")
    return plain and not any(word in case.name for word in DRAWN) and sum(np.size(leaf) for leaf in case.leaves) <= 300


CASES = [case for case in all_cases() if in_scope(case)]


@pytest.mark.parametrize("part", range(PARTS))
def test_examples_of_unknown_sizes(part):
    ran = 0
    for case in CASES[part::PARTS]:
        if not in_sample(case.id, 6):
            continue
        leaves = case.doubles()
        expected = case.outputs(leaves)
        signature = [gt.TensorSpec([None] * (1 + np.ndim(leaf)), leaf.dtype) for leaf in leaves]

        def mapped(*batches, case=case):
            return gt.vectorized_map(lambda examples: case.outputs(examples), batches)

        function = gt.function(mapped, input_signature=signature, jit_compile=False)
        results = function(*[np.stack([leaf, leaf]) for leaf in leaves])
        for result, single in zip(results, expected, strict=True):
            if single.dtype != gt.string:
                same_array(result[1], single, IDENTITY, f"{case.id} of unknown sizes, as one of two examples")
        ran += 1
    assert ran > 20
