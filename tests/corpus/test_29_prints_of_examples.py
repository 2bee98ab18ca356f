"""`gt.print` and `print` under `vectorized_map` were refused, or showed no values.

A mapped function that prints now runs for one example after the other, so that what is seen is what a loop over the examples
shows: their order, and only what each example comes by. Values and derivatives are those of the loop.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest

import gradtape as gt
from tests.corpus.modes import COMPILED, compare, derivatives

X = [0.7, -0.4, 1.9]


def straight(x):
    gt.print("first", x, {"square": x * x}, output_stream=sys.stdout)
    y = gt.sin(x) * x
    print("second", y)
    return y


def in_a_branch(x):
    if x > 0.0:
        gt.print("above", x, output_stream=sys.stdout)
        return x * x
    print("below", x)
    return gt.exp(x)


def in_a_loop(x):
    n = 0
    while x < 3.0:
        gt.print(n, x, output_stream=sys.stdout)
        x, n = x + 1.0, n + 1
    print("after", n)
    return x * x


def with_a_tape(x):
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = helper(x)
    return tape.gradient(y, x)


def helper(x):
    gt.print("helped", x, output_stream=sys.stdout)
    return x * x * x


@pytest.mark.parametrize("function", [straight, in_a_branch, in_a_loop, with_a_tape])
def test_each_example_prints_what_it_prints_alone(function, capfd):
    def loop(x):
        return gt.stack([function(x[i]) for i in range(len(X))])

    ways = {mode: gt.function(lambda x: gt.vectorized_map(function, x), **options) for mode, options in COMPILED.items()}
    ways["eager"] = lambda x: gt.vectorized_map(function, x)
    x = gt.constant(np.array(X))
    expected = loop(x).numpy()
    text = capfd.readouterr().out
    assert text.count("\n") >= len(X)
    for name, way in ways.items():
        np.testing.assert_allclose(way(x).numpy(), expected, rtol=1e-12, err_msg=name)
        assert capfd.readouterr().out == text, name
    order = 2 if function is not with_a_tape else 1
    slopes = derivatives(loop, (X,), order)
    for name, way in ways.items():
        compare(derivatives(way, (X,), order), slopes, f"{function.__name__}, {name}")


class Model:
    """A method is not found by looking at the names of the function that is mapped."""

    def square(self, x):
        gt.print("seen", [x, 1], output_stream=sys.stdout)
        return x * x


def test_prints_that_nobody_saw_coming_show_a_line_for_each_example(capfd):
    model = Model()
    found = gt.vectorized_map(lambda x: model.square(x), gt.constant(X))
    np.testing.assert_allclose(found, np.square(X), rtol=1e-6)
    assert capfd.readouterr().out.splitlines() == ["seen [0.7, 1]", "seen [-0.4, 1]", "seen [1.9, 1]"]


def test_asserts_inside_a_map_look_at_each_example():
    @gt.function
    def f(x):
        def checked(t):
            gt.debugging.assert_positive(t)
            return t * t

        return gt.vectorized_map(checked, x)

    np.testing.assert_allclose(f(gt.constant([1.0, 2.0])), [1.0, 4.0])
    with pytest.raises(gt.errors.InvalidArgumentError):
        f(gt.constant([1.0, -2.0]))
