"""Loops that run longer for some examples of a batch than for others were refused under `vectorized_map`.

A range whose length is an example's number, lists that both sides of a branch fill, and a tape inside the mapped function
around a `while` that examples leave one after the other now work; a list that grows in such a loop is refused in words.
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


def many(x):
    return gt.cast(gt.abs(x) * 2.0, gt.int32)


@program
def over_a_range(x):
    s = x
    for i in gt.range(many(x)):
        s = gt.sin(s * x) + gt.cast(i, x.dtype)
    return s


@program
def over_a_range_with_steps(x):
    s = x
    for i in gt.range(1, 3 * many(x), 2):
        s = s * 0.5 * x + gt.cast(i * i, x.dtype)
    return s


@program
def over_a_python_range(x):
    s = x
    for i in range(many(x)):
        s = gt.cos(s) * (i + 1.0)
    return s


@program
def ranges_in_ranges(x):
    s = x
    for i in gt.range(many(x)):
        for _ in gt.range(i):
            s = gt.sin(s) + x * 0.1
        if s > 1.0:
            s = s * x
    return s


@program
def a_vector_for_each(x):
    v = gt.stack([x, x * x])
    for i in gt.range(many(x)):
        v[i % 2] = gt.reduce_sum(v) * 0.3
    return v


@program
def lists_filled_on_both_sides(x):
    parts = []
    for _ in gt.range(3):
        if x > 0.0:
            parts.append(x * x)
        else:
            parts.append(gt.exp(x))
            x = x + 1.0
    return gt.stack(parts)


def loop(x):
    s = x
    while s < 3.0:
        s = s + gt.exp(-s * s) + 0.5
    return s * x


def slope(function):
    def first(x):
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return tape.gradient(y, x, unconnected_gradients="zero")

    first.__name__ = f"slope_of_{function.__name__}"
    return first


def loop_in_a_branch(x):
    y = x * x
    if x > -1.0:
        for _ in gt.range(many(x)):
            y = gt.sin(y) * x
    return y


PROGRAMS += [slope(loop), slope(slope(loop)), slope(over_a_range), slope(loop_in_a_branch), slope(slope(ranges_in_ranges))]


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_examples_go_on_as_long_as_each_does(function):
    order = 2 - function.__name__.count("slope")
    expected = derivatives(lambda x: gt.stack([function(x[i]) for i in range(len(X))]), (X,), order)
    ways = {mode: gt.function(lambda x: gt.vectorized_map(function, x), **options) for mode, options in COMPILED.items()}
    ways["eager"] = lambda x: gt.vectorized_map(function, x)
    once = min(order, 1)  # machine code, as in `modes.agree`
    for name, way in ways.items():
        depth = once if name == "native" and not in_sample(function.__name__, TWICE) else order
        compare(derivatives(way, (X,), depth), expected[: depth + 1], f"{function.__name__}, {name}")


def grows(x):
    parts = []
    for _ in gt.range(many(x)):
        parts.append(x)
    return gt.reduce_sum(gt.stack(parts))


def grows_on_one_side(x):
    parts = [x]
    for _ in gt.range(3):
        if x > 0.0:
            parts.append(x)
    return gt.add_n(parts)


@pytest.mark.parametrize("function", [grows, grows_on_one_side])
def test_lists_of_differing_length_are_refused_in_words(function):
    words = r"a list of the program is changed in it, which has one length for all: use a tensor \(t\[i\] = v\), or map_fn"
    for way in (gt.vectorized_map, gt.function(lambda f, x: gt.vectorized_map(f, x), jit_compile=False)):
        with pytest.raises(gt.errors.InvalidArgumentError, match=words):
            way(function, gt.constant([1.0, 2.0, -3.0]))
    alike = gt.constant([1.0, 1.1])
    np.testing.assert_allclose(
        gt.vectorized_map(grows_on_one_side, alike), gt.stack([grows_on_one_side(x) for x in alike]), rtol=1e-6
    )
