"""`if`, `while`, `cond` and `while_loop` under `vectorized_map` were refused where the examples take different courses.

Both sides of a branch now run under masks: examples that do not take a side get the inputs of one that does, so that nothing is
computed which no example asks for. A loop goes on until the last example has left it.
"""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as gt
from tests.corpus.modes import COMPILED, TWICE, compare, derivatives
from tests.harness.seeds import in_sample

X = [0.7, -0.4, 1.9, -2.2]
PROGRAMS = []


def program(function):
    PROGRAMS.append(function)
    return function


@program
def branch(x):
    if x > 0.0:
        return gt.sqrt(x) * gt.log(x)
    return x * x


@program
def branches_with_names(x):
    y = x
    if x > 1.0:
        y, z = gt.log(x), x
    elif x > 0.0:
        z = x * y
    else:
        z = gt.exp(y)
    return y * z


@program
def expressions(x):
    return (gt.sqrt(x) if x > 0.0 and x < 1.0 else x * x * x) + (1.0 if not x > 0.0 else 2.0) * x


@program
def functional(x):
    return gt.cond(x > 0.0, lambda: gt.log(x), lambda: gt.cond(x > -1.0, lambda: x * 3.0, lambda: x * x))


@program
def loop(x):
    s = x
    while s < 3.0:
        s = s + gt.exp(-s * s) + 0.5
    return s * x


@program
def functional_loop(x):
    _, s = gt.while_loop(lambda i, s: s * s < 4.0, lambda i, s: (i + 1, s * 1.5 + 0.1 * x), (gt.constant(0), x))
    return s


@program
def nested(x):
    s = x
    for _ in gt.range(3):
        if s > 1.0:
            s = gt.sqrt(s)
            continue
        while s < 0.5:
            s = s + 0.3 * gt.exp(-s * s)
    return s


@program
def leaving_early(x):
    s = x
    for _ in gt.range(5):
        s = gt.sin(s) + 0.6
        if s > 1.1:
            return s * x
        if s < 0.2:
            break
    return s


@program
def vectors(x):
    v = gt.stack([x, x * x, gt.sin(x)])
    if x > 0.0:
        v[0] = gt.log(x)
    else:
        v = v[::-1] * 2.0
    return v


def one_by_one(function):
    return lambda x: gt.stack([function(x[i]) for i in range(len(X))])


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_examples_take_their_own_course(function):
    expected = derivatives(one_by_one(function), (X,), 2)
    ways = {mode: gt.function(lambda x: gt.vectorized_map(function, x), **options) for mode, options in COMPILED.items()}
    ways["eager"] = lambda x: gt.vectorized_map(function, x)
    ways["map of a function"] = lambda x, f=gt.function(function, jit_compile=False): gt.vectorized_map(f, x)
    for name, way in ways.items():
        depth = 1 if name == "native" and not in_sample(function.__name__, TWICE) else 2  # as in `modes.agree`
        compare(derivatives(way, (X,), depth), expected[: depth + 1], f"{function.__name__}, {name}")


def test_all_examples_on_one_side_and_none_at_all():
    for values in ([1.0, 2.0], [-1.0, -2.0]):
        found = gt.vectorized_map(branch, gt.constant(values)).numpy()
        np.testing.assert_allclose(found, [float(branch(gt.constant(v))) for v in values], rtol=1e-6)


def test_the_side_not_taken_does_not_poison_the_gradient():
    x = gt.constant([4.0, 0.0, -1.0])
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = gt.vectorized_map(lambda t: gt.sqrt(t) if t > 0.0 else t * 2.0, x)
    np.testing.assert_allclose(tape.gradient(y, x).numpy(), [0.25, 2.0, 2.0])


@pytest.mark.parametrize("values", [[1.0, 2.0], [1.0, -2.0]])
def test_an_error_of_a_side_is_one_only_if_an_example_takes_it(values):
    def f(x):
        if x < 0.0:
            if x < -1.0:
                raise ValueError("too small")
            return -x
        return x

    if min(values) > 0.0:
        np.testing.assert_array_equal(gt.vectorized_map(f, gt.constant(values)).numpy(), values)
    else:
        with pytest.raises(ValueError, match="too small"):
            gt.vectorized_map(f, gt.constant(values))


def test_numbers_counted_by_an_example():
    def f(x):
        k = 0
        while x < 10.0:
            x, k = x * 2.0, k + 1
        return k

    found = gt.vectorized_map(f, gt.constant([1.0, 6.0, 20.0]))
    assert found.numpy().tolist() == [4, 1, 0]
    assert found.dtype == gt.int32


def test_per_example_gradients_through_a_branch():
    def slope(x):
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = branch(x)
        return tape.gradient(y, x)

    expected = [float(slope(gt.constant(v))) for v in X]
    np.testing.assert_allclose(gt.vectorized_map(slope, gt.constant(X)).numpy(), expected, rtol=1e-5)


def test_variables_and_captured_tensors_get_their_gradients():
    v, c = gt.Variable(2.0), gt.constant(3.0)
    with gt.GradientTape() as tape:
        tape.watch(c)
        y = gt.vectorized_map(lambda x: x * v if x > 0.0 else x * c, gt.constant([1.0, -2.0, 4.0]))
    assert [float(g) for g in tape.gradient(y, [v, c])] == [5.0, -2.0]


# -- residuals and sizes of the sides ------------------------------------------------------------------------------------


def _two_sides(v):
    return gt.reduce_sum(v * v * v) if gt.reduce_sum(v) > 0 else gt.reduce_sum(gt.exp(v))


def _sides_in_sides(v):
    if gt.reduce_sum(v) > 0:
        w = gt.sin(v)
        y = gt.reduce_sum(gt.exp(w) * v) if v[0] > 0.3 else gt.reduce_sum(w * w * v)
    else:
        y = gt.reduce_sum(gt.exp(v))
    return y


def _sizes_of_each_side(v):
    n = gt.shape(v)[0]
    w = v[: n - 1] * 2.0 if gt.reduce_sum(v) > 0 else gt.exp(v[: n - 1])
    return gt.reduce_sum(w * w)


def _differentiated(body):
    """The value of a function and its first and second derivatives, by tapes inside."""

    def inside(v):
        with gt.GradientTape() as outer:
            outer.watch(v)
            with gt.GradientTape() as inner:
                inner.watch(v)
                y = body(v)
            first = inner.gradient(y, v)
            along = gt.reduce_sum(first * gt.sin(v))
        return y, first, outer.gradient(along, v)

    return inside


UP, DOWN, LOW_START = [0.4, -0.9, 1.7], [-1.0, -2.0, -3.0], [-0.5, 2.0, 1.0]
BATCHES = ([UP], [DOWN], [UP, LOW_START], [LOW_START, DOWN, UP])


@pytest.mark.parametrize("size", [3, None])
@pytest.mark.parametrize("body", [_two_sides, _sides_in_sides, _sizes_of_each_side])
def test_tapes_inside_the_map_keep_what_only_one_side_saves(body, size):
    alone = _differentiated(body)
    staged = gt.function(alone, input_signature=[gt.TensorSpec([size], gt.float64)], jit_compile=False)
    for batch in map(np.array, BATCHES):
        answers = gt.vectorized_map(staged, gt.constant(batch))
        singles = [alone(gt.constant(row)) for row in batch]
        for k, answer in enumerate(answers):
            np.testing.assert_allclose(answer, np.stack([single[k] for single in singles]), rtol=1e-12)


def test_sizes_of_the_sides_may_differ_if_all_examples_take_the_same():
    @gt.function(jit_compile=False)
    def shorter(v):
        w = v[1:] if gt.reduce_sum(v) > 0 else gt.exp(v)
        return gt.reduce_sum(w * w)

    for rows in ([UP, LOW_START], [DOWN]):
        singles = [shorter(gt.constant(row, gt.float64)) for row in rows]
        np.testing.assert_allclose(gt.vectorized_map(shorter, gt.constant(rows, gt.float64)), singles, rtol=1e-12)
    with pytest.raises(gt.errors.InvalidArgumentError, match="which take one course and have one shape"):
        gt.vectorized_map(shorter, gt.constant([UP, DOWN], gt.float64))
