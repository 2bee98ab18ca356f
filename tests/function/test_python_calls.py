"""Python that a compiled function calls each time it runs (`gt.py_function`): values, effects, derivatives are eager code's."""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as gt

MODES = [{}, {"jit_compile": False}]


@pytest.mark.parametrize("options", MODES, ids=["native", "interpreted"])
def test_python_runs_at_each_call(options):
    seen = []

    @gt.function(**options)
    def f(x):
        return gt.py_function(lambda v: (seen.append(float(v)), v * len(seen))[1], [x * 2.0], gt.float32) + 1.0

    assert [float(f(gt.constant(v))) for v in (1.0, 2.0, 3.0)] == [3.0, 9.0, 19.0]
    assert seen == [2.0, 4.0, 6.0]


@pytest.mark.parametrize("options", MODES, ids=["native", "interpreted"])
def test_it_may_look_at_values_and_return_arrays(options):
    def largest_first(v):
        return np.sort(v.numpy())[::-1] if v[0] < 1.0 else v

    f = gt.function(lambda x: gt.py_function(largest_first, [x], gt.TensorSpec([None], gt.float32)) * 2.0, **options)
    np.testing.assert_array_equal(f(gt.constant([0.0, 3.0, 1.0])), [6.0, 2.0, 0.0])
    np.testing.assert_array_equal(f(gt.constant([2.0, 3.0, 1.0])), [4.0, 6.0, 2.0])


def square(v):
    return v * v if float(v) > 0.0 else -v * v * v


@pytest.mark.parametrize("at", [1.5, -0.5])
@pytest.mark.parametrize("options", MODES, ids=["native", "interpreted"])
def test_derivatives_with_the_tape_around_the_function(options, at):
    def program(x, n):
        y = x
        for _ in gt.range(n):
            y = gt.sin(gt.py_function(square, [y], gt.TensorSpec([], gt.float64))) * x
        return y

    def derivatives(run):
        x = gt.constant(np.float64(at))
        with gt.GradientTape() as outer:
            outer.watch(x)
            with gt.GradientTape() as inner:
                inner.watch(x)
                y = run(x, gt.constant(2))
            slope = inner.gradient(y, x)
        with gt.autodiff.ForwardAccumulator(x, gt.ones_like(x)) as forward:
            pushed = run(x, gt.constant(2))
        return [float(v) for v in (y, slope, outer.gradient(slope, x), forward.jvp(pushed))]

    np.testing.assert_allclose(derivatives(gt.function(program, **options)), derivatives(program), rtol=1e-12)


def test_a_tape_inside_the_function_is_refused():
    @gt.function
    def f(x):
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = gt.py_function(square, [x], gt.TensorSpec([], gt.float32))
        return tape.gradient(y, x)

    with pytest.raises(gt.errors.UnimplementedError, match=r"py_function inside a compiled function.*Take the tape out"):
        f(gt.constant(2.0))


def test_several_results_none_and_a_wrong_number():
    f = gt.function(lambda x: gt.py_function(lambda v: (v, v + 1), [x], [gt.float32, gt.int32]))
    first, second = f(gt.constant(2.0))
    assert (float(first), int(second), second.dtype) == (2.0, 3, gt.int32)
    seen = []
    gt.function(lambda x: gt.py_function(seen.append, [x], None) or x)(gt.constant(3.0))
    assert float(seen[0]) == 3.0
    with pytest.raises(gt.errors.InvalidArgumentError, match="returned 1 values, Tout names 2"):
        gt.function(lambda x: gt.py_function(gt.identity, [x], [gt.float32, gt.float32]))(gt.constant(1.0))


def test_an_error_in_it_is_the_users():
    def broken(v):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        gt.function(lambda x: gt.py_function(broken, [x], gt.float32))(gt.constant(1.0))
