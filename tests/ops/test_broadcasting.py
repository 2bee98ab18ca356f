"""Whatever an op broadcasts, its derivative sums again: generated from every sample with two or more differentiable arguments.

An argument is cut to one row along an axis. If the op still gives results of the same shapes, it broadcast that argument, and
the gradient with respect to it must be the sum of the gradient with respect to the same values repeated."""

import numpy as np
import pytest

import gradtape as gt
from tests.harness.cases import all_cases, tensor
from tests.harness.tolerances import IDENTITY, same_array

# behind public functions that broadcast before they call them, or made by derivatives only
INNER = {"extreme_rows", "linear_recurrence", "list_add", "list_add_at"}
CASES = [c for c in all_cases() if c.differentiable and len(c.leaves) > 1 and not c.sample.kinks and c.name not in INNER]


def gradients(case, leaves):
    """The results, and the gradient of a weighted sum of them with respect to all leaves."""
    sources = [tensor(leaf) for leaf in leaves]
    with gt.GradientTape() as tape:
        tape.watch(sources)
        outs = [out for out in case.outputs(sources) if out.dtype.is_differentiable]
        total = 0.0
        for out in outs:
            weights = np.cos(np.arange(out.size, dtype=np.float64)).reshape(tuple(out.shape))
            total = total + gt.cast(gt.reduce_sum(gt.math.real(out * gt.cast(weights, out.dtype))), gt.float64)
    return [out.numpy() for out in outs], tape.gradient(total, sources, unconnected_gradients="zero")


def same(found, expected):
    """Whether results have the same shapes and values."""
    return all(a.shape == b.shape and np.allclose(a, b, rtol=1e-12, atol=1e-14) for a, b in zip(found, expected, strict=True))


@pytest.mark.filterwarnings("ignore::gradtape.errors.GradientWarning")
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_gradients_of_broadcast_arguments(case):
    leaves = case.doubles()
    for place, leaf in enumerate(leaves):
        for axis in range(leaf.ndim):
            if leaf.shape[axis] < 2:
                continue
            cut = leaf.take([0], axis)
            trial = [cut if i == place else other for i, other in enumerate(leaves)]
            repeated = [np.repeat(cut, leaf.shape[axis], axis) if i == place else other for i, other in enumerate(leaves)]
            try:
                found, slopes = gradients(case, trial)
                expected, wide = gradients(case, repeated)
            except (ValueError, TypeError, IndexError):
                continue  # an op that wants equal shapes
            if len(found) != len(expected) or not same(found, expected):
                continue  # not the same values repeated: another computation
            assert tuple(slopes[place].shape) == cut.shape, f"{case.id}: the gradient of argument {place} was not summed"
            same_array(slopes[place], wide[place].numpy().sum(axis, keepdims=True), IDENTITY, case.id)
