"""Every pipeline of `pipelines.py` gives what TensorFlow gave: elements, types, lengths, kinds of errors."""

import json

import pytest

import gradtape as gt
from tests.data.pipelines import CASES, RECORDED, agree, described

THEIRS = json.loads(RECORDED.read_text())
# where ours is meant to be another
DIFFERENT = {
    "padded_too_small": {"error": ["InvalidArgumentError", "ValueError"]},  # TensorFlow: DataLossError
    "mapped_without_a_function": {"error": ["TypeError"]},  # ValueError
    "flat_mapped_tensors": {"error": ["TypeError"]},  # AttributeError
    "gradient_in_a_function": {"value": [-0.2182, 1.4428]},  # no gradient goes through a loop over a dataset
}


def test_all_are_recorded():
    assert set(CASES) == set(THEIRS)


@pytest.mark.parametrize("name", CASES)
def test_as_tensorflow(name):
    ours = described(CASES[name], gt)
    assert agree(ours, DIFFERENT.get(name, THEIRS[name])), ours
