"""Small programs that eager code ran and a function refused: numbers into arrays, raising gradients, unknown ranks."""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as gt
from tests.corpus.modes import COMPILED, agree, compiled

modes = pytest.mark.parametrize("mode", COMPILED)


def numbers_into_an_array(x, n):
    ints, floats = gt.TensorArray(gt.int32, size=n), gt.TensorArray(gt.float64, size=n)
    k, f = 0, 0.5
    for i in gt.range(n):
        ints = ints.write(i, k)
        floats = floats.write(i, k)
        if x > 0.0:
            floats = floats.write(i, f)
        k, f = k + 2, f * 1.5
    return ints.stack(), floats.stack() * x * x


def test_python_numbers_of_a_loop_take_the_dtype_of_the_array():
    agree(numbers_into_an_array, (0.7, gt.constant(3)), (-0.7, gt.constant(4)))


@modes
@pytest.mark.parametrize(("dtype", "start"), [(gt.int32, 0.5), (gt.bool, 1), (gt.float32, 1j)])
def test_but_not_one_of_a_poorer_kind(mode, dtype, start):
    def f(n):
        array, k = gt.TensorArray(dtype, size=n), start
        for i in gt.range(n):
            array = array.write(i, k)
            k = k + start
        return array.stack()

    for function in (f, compiled(f, mode)):
        with pytest.raises(gt.errors.InvalidArgumentError, match=r"the array has dtype .* but the value has dtype"):
            function(gt.constant(3))


def branch_in_finally(x):
    y = x
    try:
        y = gt.sin(x)
    finally:
        if x > 0.0:
            y = y * y
            for _ in gt.range(2):
                y = y + x
    return y


def test_a_branch_in_finally():
    agree(branch_in_finally, (0.7,), (-0.7,))


@gt.custom_gradient
def value_only(x):
    def grad(upstream):
        raise ValueError("this has no gradient")

    return gt.sin(x), grad


@modes
def test_a_gradient_function_that_raises_is_asked_for_the_gradient_only(mode):
    f = compiled(lambda x, y: value_only(x) * y, mode)
    x, y = gt.constant(0.7), gt.constant(2.0)
    assert float(f(x, y)) == pytest.approx(2.0 * np.sin(0.7))
    with gt.GradientTape(persistent=True) as tape:
        tape.watch([x, y])
        z = f(x, y)
    with pytest.raises(ValueError, match="this has no gradient"):
        tape.gradient(z, x)


@modes
def test_a_gradient_function_that_raises_with_a_tape_inside(mode):
    def f(x):
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = value_only(x)
        return tape.gradient(y, x)

    with pytest.raises(ValueError, match="this has no gradient"):
        compiled(f, mode)(gt.constant(0.7))


@modes
def test_a_gradient_function_that_raises_under_a_condition(mode):
    @gt.custom_gradient
    def checked(x, allowed):
        def grad(upstream):
            if not allowed:
                raise ValueError("this has no gradient")
            return upstream * gt.cos(x), None

        return gt.sin(x), grad

    f = compiled(lambda x, allowed: checked(x, allowed), mode)
    x = gt.constant(0.7)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = f(x, True)
    assert float(tape.gradient(y, x)) == pytest.approx(np.cos(0.7))
    assert float(f(x, False)) == pytest.approx(np.sin(0.7))


def test_a_concrete_function_of_unknown_rank():
    f = gt.function(lambda x, scale=2.0: gt.reduce_sum(x * x) * scale)
    concrete = f.get_concrete_function(gt.TensorSpec(None, gt.float32))
    for x in (gt.constant(3.0), gt.ones([4]), gt.ones([2, 5]), gt.ones([3])):
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = concrete(x)
        assert float(y) == float(gt.reduce_sum(x * x) * 2.0)
        np.testing.assert_allclose(tape.gradient(y, x), 4.0 * x.numpy())
    assert f.experimental_get_tracing_count() == 3  # one per rank
    assert concrete.for_ranks(1).structured_outputs.shape == ()
    with pytest.raises(gt.errors.InvalidArgumentError, match="must have dtype float32, got int32"):
        concrete(gt.constant([1]))
    with pytest.raises(TypeError, match="give a tensor for each of"):
        concrete()


ORDER = np.array([2, 0, 1])


def array_as_index(x):
    out = [0.0, 0.0, 0.0]
    for i in range(3):
        out[ORDER[i]] = x[i] * float(i + 1)
    table = {2: x[0], 0: x[1]}
    return gt.stack(out) * table[ORDER[0]] * x[ORDER[1]]


def array_as_index_in_a_staged_loop(x, n):
    s = x[0]
    for _ in gt.range(n):
        for i in range(3):
            s = gt.sin(s) * x[ORDER[i]] + [1.0, 2.0, 3.0][ORDER[i]]
    return s


def test_an_array_used_as_python_index():
    agree(array_as_index, ([0.3, 0.4, -0.5],))
    agree(array_as_index_in_a_staged_loop, ([0.3, 0.4, -0.5], gt.constant(2)))


@modes
def test_an_array_used_as_index_that_changes(mode):
    order = np.array([0, 1])
    f = compiled(lambda x: [x, x * 2.0][order[0]], mode)
    assert float(f(gt.constant(1.0))) == 1.0
    order[0] = 1
    assert float(f(gt.constant(1.0))) == 2.0
