"""Jacobians, batches and forward mode of compiled functions: around them, inside them, inside their loops."""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as gt
from tests.ad import checks
from tests.harness.tolerances import same_array

VECTOR = np.array([0.3, -0.7, 1.1])


# -- Jacobians ---------------------------------------------------------------------------------------------------------------


def wandering(x):
    """Loops, a branch, a list, a call: several results."""
    items = []
    y = x
    for v in x:
        if v > 0.0:
            y = gt.sin(y) * v
        items.append(gt.reduce_sum(y * y))
    return gt.stack(items) * y


@pytest.mark.parametrize("signature", [None, [gt.TensorSpec([None], gt.float64)]])
def test_jacobian_and_hessian(signature):
    f = gt.function(wandering, input_signature=signature)
    x = gt.constant(VECTOR)
    found = []
    for g in (wandering, f):
        with gt.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = g(x)
            total = gt.reduce_sum(y * y)
        found.append((tape.jacobian(y, x).numpy(), tape.hessian(total, x).numpy()))
    for a, e, what in zip(found[1], found[0], ("jacobian", "hessian"), strict=True):
        same_array(a, e, checks.ALIKE, what)
    inside = gt.function(lambda x: _jacobian(wandering, x))(x)
    same_array(inside.numpy(), found[0][0], checks.ALIKE, "jacobian inside")


def _jacobian(f, x):
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return tape.jacobian(y, x)


def test_hessian_by_nested_tapes():
    f = gt.function(lambda x: gt.reduce_sum(wandering(x)))
    x = gt.constant(VECTOR)
    found = []
    for g in (lambda x: gt.reduce_sum(wandering(x)), f):
        with gt.GradientTape() as outer:
            outer.watch(x)
            with gt.GradientTape() as tape:
                tape.watch(x)
                y = g(x)
            first = tape.gradient(y, x)
        found.append(outer.jacobian(first, x).numpy())
    same_array(found[1], found[0], checks.ALIKE, "hessian")
    same_array(found[1], found[1].T, checks.ALIKE, "symmetry")


def test_batch_jacobian():
    def f(x):
        y = x
        for _ in gt.range(3):
            y = gt.sin(y) * gt.reduce_sum(x, 1, keepdims=True)
        return y

    x = gt.constant(np.arange(6.0).reshape(2, 3) / 5.0)
    found = []
    for g in (f, gt.function(f)):
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = g(x)
        found.append(tape.batch_jacobian(y, x).numpy())
    same_array(found[1], found[0], checks.ALIKE, "batch_jacobian")


def test_custom_rules_in_a_jacobian():
    @gt.custom_gradient
    def bent(v):
        return gt.exp(v), lambda ct: ct * gt.sin(v)

    f = gt.function(lambda x: bent(x) * gt.reduce_sum(x))
    expected = _jacobian(lambda x: bent(x) * gt.reduce_sum(x), gt.constant(VECTOR))
    same_array(_jacobian(f, gt.constant(VECTOR)).numpy(), expected.numpy(), checks.ALIKE, "jacobian")


def test_parts_of_many_sizes_in_a_jacobian():
    """Lists with items of different sizes, with a batch axis in each."""

    def f(x):
        out = [x[:1]]
        for i in gt.range(3):
            out.append(x[: i + 1] * x[i])
        return gt.concat(out, 0)

    expected = _jacobian(f, gt.constant(VECTOR))
    same_array(_jacobian(gt.function(f), gt.constant(VECTOR)).numpy(), expected.numpy(), checks.ALIKE, "jacobian")


def test_vectorized_map_around_a_function():
    f = gt.function(lambda x: gt.sin(x) * gt.reduce_sum(x))
    rows = gt.constant(np.arange(6.0).reshape(2, 3))
    with gt.GradientTape() as tape:
        tape.watch(rows)
        y = gt.vectorized_map(f, rows)
    expected = np.stack([(np.sin(r) * r.sum()) for r in rows.numpy()])
    same_array(y.numpy(), expected, checks.ALIKE, "values")
    with gt.GradientTape() as plain:
        plain.watch(rows)
        z = gt.sin(rows) * gt.reduce_sum(rows, 1, keepdims=True)
    same_array(tape.gradient(y, rows).numpy(), plain.gradient(z, rows).numpy(), checks.ALIKE, "gradient")


def test_per_example_gradients_inside_a_function():
    def f(w, rows):
        def one(row):
            with gt.GradientTape() as tape:
                tape.watch(w)
                loss = gt.reduce_sum(gt.sin(w * row))
            return tape.gradient(loss, w)

        return gt.vectorized_map(one, rows)

    w, rows = gt.constant(VECTOR), gt.constant(np.arange(6.0).reshape(2, 3))
    expected = np.cos(VECTOR * rows.numpy()) * rows.numpy()
    same_array(gt.function(f)(w, rows).numpy(), expected, checks.ALIKE, "per-example gradients")


def test_branches_may_differ_between_examples():
    f = gt.function(lambda a: gt.vectorized_map(lambda row: row * 2.0 if gt.reduce_sum(row) > 0.0 else row, a))
    same_array(f(gt.constant([[1.0, 2.0], [-1.0, 0.5]])).numpy(), [[2.0, 4.0], [-1.0, 0.5]], checks.ALIKE, "branches")


def test_examples_inside_a_function_have_their_own_random_numbers():
    f = gt.function(lambda a: gt.vectorized_map(lambda row: row + gt.random.normal([2], dtype=gt.float64), a))
    found = f(gt.constant(np.zeros((3, 2)))).numpy()
    assert len(np.unique(found)) == 6


# -- forward mode --------------------------------------------------------------------------------------------------------------


def test_forward_over_reverse_and_reverse_over_forward():
    """Hessian-vector products, compiled, in all ways."""

    def f(x):
        y = x
        for v in x:
            y = gt.sin(y) * v if v > 0.0 else gt.exp(-y * y)
        return gt.reduce_sum(y)

    v = gt.constant([0.2, 0.5, -1.0], gt.float64)

    def forward_over_reverse(x):
        with gt.autodiff.ForwardAccumulator(x, v) as acc:
            with gt.GradientTape() as tape:
                tape.watch(x)
                y = f(x)
            g = tape.gradient(y, x)
        return acc.jvp(g)

    def reverse_over_forward(x):
        with gt.GradientTape() as tape:
            tape.watch(x)
            with gt.autodiff.ForwardAccumulator(x, v) as acc:
                y = f(x)
            t = acc.jvp(y)
        return tape.gradient(t, x)

    def forward_over_forward(x):
        with gt.autodiff.ForwardAccumulator(x, v) as outer:
            with gt.autodiff.ForwardAccumulator(x, v) as acc:
                y = f(x)
            t = acc.jvp(y)
        return outer.jvp(t)

    x = gt.constant(VECTOR)
    expected = forward_over_reverse(x).numpy()
    for g in (forward_over_reverse, reverse_over_forward):
        same_array(g(x).numpy(), expected, checks.ALIKE, g.__name__)
        same_array(gt.function(g)(x).numpy(), expected, checks.ALIKE, g.__name__)
    curvature = gt.function(forward_over_forward)(x).numpy()
    same_array(curvature, float((expected * v.numpy()).sum()), checks.ALIKE, "forward over forward")
