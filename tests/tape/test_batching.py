"""vectorized_map: one call per operation, per-example gradients, and its refusals."""

import numpy as np
import pytest

import gradtape as gt
from tests.tape.util import close, tape_gradient, wide


def program(x):
    t = gt.sin(x) * x[::-1]
    t[0] = gt.reduce_sum(x**2)
    t[1:] = gt.where(x[1:] > 0.5, t[1:] * 2.0, x[1:])
    return gt.stack([gt.reduce_sum(t), t[1] * t[2], gt.reduce_max(t)])


X = np.random.default_rng(1).uniform(0.1, 1.0, size=(5, 3))


def test_equals_a_loop():
    close(gt.vectorized_map(program, wide(X)), np.stack([program(wide(row)).numpy() for row in X]))


def test_gradient_from_outside():
    x = wide(X)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = gt.vectorized_map(program, x)
    expected = np.stack([tape_gradient(lambda z: gt.reduce_sum(program(z)), row).numpy() for row in X])
    close(tape.gradient(y, x), expected)


def test_per_example_gradients_from_inside():
    def one(x):
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = gt.reduce_sum(program(x))
        return tape.gradient(y, x)

    close(gt.vectorized_map(one, wide(X)), np.stack([one(wide(row)).numpy() for row in X]))


def test_per_example_gradients_of_a_shared_variable():
    w = gt.Variable(np.array([1.0, 2.0, 3.0]))

    def one(x):
        with gt.GradientTape() as tape:
            loss = gt.reduce_sum(w * x) ** 2
        return tape.gradient(loss, w)

    close(gt.vectorized_map(one, wide(X)), 2 * (X @ w.numpy())[:, None] * X)


def test_mixed_inside_and_outside_second_order():
    x = wide(X)

    def one(r):
        with gt.GradientTape() as tape:
            tape.watch(r)
            y = gt.reduce_sum(gt.sin(r) * r[0])
        return tape.gradient(y, r)

    with gt.GradientTape() as outer:
        outer.watch(x)
        s = gt.reduce_sum(gt.vectorized_map(one, x) ** 2)
    expected = np.stack([tape_gradient(lambda z: gt.reduce_sum(one(z) ** 2), row).numpy() for row in X])
    close(outer.gradient(s, x), expected)


def test_jacobian_inside():
    def one(x):
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = program(x)
        return tape.jacobian(y, x)

    close(gt.vectorized_map(one, wide(X)), np.stack([one(wide(row)).numpy() for row in X]))


def test_hessian_inside():
    def one(x):
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = gt.reduce_sum(gt.sin(x) * x[::-1])
        return tape.hessian(y, x)

    close(gt.vectorized_map(one, wide(X)), np.stack([one(wide(row)).numpy() for row in X]))


def test_forward_mode_inside_and_outside():
    def one(x):
        with gt.autodiff.ForwardAccumulator(x, x * 2.0) as acc:
            y = program(x)
        return acc.jvp(y)

    close(gt.vectorized_map(one, wide(X)), np.stack([one(wide(row)).numpy() for row in X]))
    x, t = wide(X), wide(X[::-1])
    with gt.autodiff.ForwardAccumulator(x, t) as acc:
        y = gt.vectorized_map(program, x)
    expected = np.stack([gt.jvp(program, [wide(a)], [wide(b)])[1].numpy() for a, b in zip(X, X[::-1], strict=True)])
    close(acc.jvp(y), expected)


def test_nested():
    a, b = wide(np.arange(3.0)), wide(np.arange(4.0))
    table = gt.vectorized_map(lambda x: gt.vectorized_map(lambda y: gt.sin(x) * y, b), a)
    close(table, np.sin(np.arange(3.0))[:, None] * np.arange(4.0))


def test_structures_and_shared_first_dimension():
    out = gt.vectorized_map(lambda e: {"s": e["a"] + e["b"], "n": e["a"]}, {"a": wide(X), "b": wide(np.ones((1, 3)))})
    close(out["s"], X + 1.0)
    close(out["n"], X)


def test_results_that_do_not_depend_on_the_example_are_repeated():
    close(gt.vectorized_map(lambda x: wide([1.0, 2.0]), wide(X)), np.tile([1.0, 2.0], (5, 1)))


def test_an_empty_batch():
    assert gt.vectorized_map(lambda x: x * 2.0, wide(np.zeros((0, 3)))).shape == (0, 3)


def test_variables_assigned_outside_and_scope_restored_after_an_error():
    with pytest.raises(KeyError):
        gt.vectorized_map(lambda x: {}["missing"], wide(X))
    x = gt.Variable(2.0)
    with gt.GradientTape() as tape:
        y = x * x
    close(tape.gradient(y, x), 4.0)


def with_statement(x):
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = gt.reduce_sum(x * x)
    return tape.gradient(y, x)


def exception(x):
    try:
        return x * {}["missing"]
    except KeyError:
        return x * 2.0


def identity_of_names(x, scale=None, other=program):
    factor = 2.0 if scale is None else scale
    return x * factor if other is program else x


def tool_of_tapes(x, wanted=True):
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = gt.reduce_sum(x * x)
    slope = tape.gradient(y, x)
    if wanted:
        assert tape.nan_report() is None
    return slope


@pytest.mark.parametrize("function", [with_statement, exception, identity_of_names, tool_of_tapes])
def test_functions_without_tests_of_tensors_run_as_python(function):
    """Jumps that no tensor decides are no branches: the function runs on batched tensors, it is not traced."""
    eagerly = []

    def one(x):
        eagerly.append(gt.executing_eagerly())
        return function(x)

    close(gt.vectorized_map(one, wide(X)), 2.0 * X)
    assert eagerly == [True]


def test_refusals():
    with pytest.raises(ValueError, match="scalar"):
        gt.vectorized_map(lambda x: x, wide(1.0))
    with pytest.raises(ValueError, match="differ"):
        gt.vectorized_map(lambda e: e[0], [wide(np.ones(2)), wide(np.ones(3))])
    with pytest.raises(ValueError, match="empty"):
        gt.vectorized_map(lambda e: 1.0, [])
    for use in (bool, float, int, lambda t: t.numpy(), np.asarray):
        with pytest.raises(TypeError, match="vectorized_map"):
            gt.vectorized_map(lambda x, use=use: use(x[0]), wide(X))
