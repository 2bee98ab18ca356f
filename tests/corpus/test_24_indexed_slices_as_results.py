"""A function that returned `IndexedSlices` failed: its template was built of placeholders that are no tensors."""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as gt
from tests.corpus.modes import COMPILED

modes = pytest.mark.parametrize("mode", COMPILED)
VALUES = np.array([[1.0, 2.0], [3.0, 4.0]])


def scaled(v, i):
    return gt.IndexedSlices(v * v, i, dense_shape=gt.constant([4, 2]))


def in_a_structure(v, i):
    return {"slices": gt.IndexedSlices(v * v, i, dense_shape=[4, 2]), "sum": gt.reduce_sum(v)}


def without_a_shape(v, i):
    return gt.IndexedSlices(v * v, i)


def chosen(v, i):
    if gt.reduce_sum(v) > 0.0:
        return gt.IndexedSlices(v * v, i, [4, 2])
    return gt.IndexedSlices(gt.sin(v), i + 1, [4, 2])


@modes
@pytest.mark.parametrize("make", [scaled, without_a_shape, chosen])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_values_indices_and_derivatives(mode, make, sign):
    found = []
    for function in (make, gt.function(make, **COMPILED[mode])):
        v, i = gt.constant(sign * VALUES), gt.constant([1, 1])
        with gt.GradientTape() as outer:
            outer.watch(v)
            with gt.GradientTape() as inner:
                inner.watch(v)
                slices = function(v, i)
                loss = gt.reduce_sum(slices.values**2 * [[1.0, 2.0], [3.0, 4.0]])
            first = inner.gradient(loss, v)
            total = gt.reduce_sum(first * first)
        assert isinstance(slices, gt.IndexedSlices)
        shape = None if slices.dense_shape is None else tuple(slices.dense_shape)
        found.append((slices.values.numpy(), slices.indices.numpy(), shape, first.numpy(), outer.gradient(total, v).numpy()))
    for actual, expected in zip(found[1], found[0], strict=True):
        if expected is None:
            assert actual is None
        else:
            np.testing.assert_allclose(actual, expected, rtol=1e-12)


@modes
def test_in_a_structure_and_in_another_function(mode):
    f = gt.function(in_a_structure, **COMPILED[mode])
    g = gt.function(lambda v, i: gt.convert_to_tensor(f(v, i)["slices"]), **COMPILED[mode])
    v, i = gt.constant(VALUES), gt.constant([1, 3])
    np.testing.assert_array_equal(gt.convert_to_tensor(f(v, i)["slices"]), gt.convert_to_tensor(in_a_structure(v, i)["slices"]))
    np.testing.assert_array_equal(g(v, i), gt.convert_to_tensor(scaled(v, i)))


def test_types_of_the_result():
    concrete = gt.function(scaled).get_concrete_function(gt.TensorSpec([None, 2], gt.float64), gt.TensorSpec([None], gt.int32))
    shapes = [tuple(spec.shape) for spec in concrete.structured_outputs[:2]]
    assert shapes == [(None, 2), (None,)]


def test_a_shape_that_only_run_time_knows_is_refused():
    with pytest.raises(ValueError, match="dense_shape must be known while the function is traced"):
        gt.function(lambda v, i, s: gt.IndexedSlices(v, i, s))(VALUES, gt.constant([1, 1]), gt.constant([4, 2]))
