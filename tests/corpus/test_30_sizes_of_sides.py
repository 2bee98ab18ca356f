"""Sizes of the sides of a branch under `vectorized_map`, and a size that grows from 1 by broadcasting.

A branch whose sides have their own sizes, with an open dimension and a tape inside the map, failed with "shapes (1, max(n-1,0))
and ... do not broadcast": what the batched branch gave was called by a new name, and the dimension it stands for with it. A
state that a loop broadcasts in its first iteration is refused (as a loop of TensorFlow does) by name, with the cure.
"""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as gt
from tests.corpus.modes import COMPILED, arguments, compiled

SIDES = {
    "whole and products": (lambda v: v, lambda v: v[1:] * v[:-1]),
    "tail and exp": (lambda v: v[1:], gt.exp),
    "doubled and head": (lambda v: gt.concat([v, v], 0), lambda v: v[:-1] * 2.0),
}
UP, DOWN, LOW_START = [0.4, -0.9, 1.7], [-1.0, -2.0, -3.0], [-0.5, 2.0, 1.0]


def differentiated(then, orelse):
    def run(v):
        with gt.GradientTape() as outer:
            outer.watch(v)
            with gt.GradientTape() as inner:
                inner.watch(v)
                w = then(v) if gt.reduce_sum(v) > 0 else orelse(v)
                y = gt.reduce_sum(gt.sin(w) * w) * v[0]
            first = inner.gradient(y, v)
            along = gt.reduce_sum(first * gt.sin(v))
        return y, first, outer.gradient(along, v)

    return run


@pytest.mark.parametrize(("sides", "size"), [("whole and products", None), ("tail and exp", 3), ("doubled and head", None)])
def test_tapes_inside_the_map_around_sides_of_their_own_size(sides, size):
    alone = differentiated(*SIDES[sides])
    staged = gt.function(alone, input_signature=[gt.TensorSpec([size], gt.float64)], jit_compile=False)
    for rows in ([UP], [DOWN], [UP, LOW_START]):
        answers = gt.vectorized_map(staged, gt.constant(np.array(rows)))
        singles = [alone(gt.constant(np.array(row))) for row in rows]
        for k, answer in enumerate(answers):
            np.testing.assert_allclose(answer, np.stack([single[k] for single in singles]), rtol=1e-11)
    with pytest.raises(gt.errors.InvalidArgumentError, match="which take one course and have one shape"):
        gt.vectorized_map(staged, gt.constant(np.array([UP, DOWN])))


def grown_by_broadcasting(x, n):
    s = gt.zeros([1], gt.float64)
    for _ in gt.range(n):
        s = s + x
    return s


@pytest.mark.parametrize("mode", COMPILED)
def test_a_state_that_broadcasts_is_refused_by_name(mode):
    given = arguments(([1.0, 2.0, 3.0], gt.constant(3)))
    np.testing.assert_array_equal(grown_by_broadcasting(*given), [3.0, 6.0, 9.0])
    words = r"`s` has shape \(1,\) before an iteration and met a value of shape \(3,\) in it.*gt.broadcast_to"
    with pytest.raises(gt.errors.InvalidArgumentError, match=words):
        compiled(grown_by_broadcasting, mode)(*given)


def test_a_size_that_an_inlined_branch_needs_keeps_its_name():
    """A branch whose test is known while compiling is written in place: sizes that its own inner branches need, and give
    results, are those of the program. They were taken for the branch's own: "no value of the program has the dimension"."""

    def slope(n):
        x = gt.zeros([3], gt.float64) + gt.constant([0.31, -0.52, 0.77], gt.float64)
        with gt.GradientTape() as tape:
            tape.watch(x)
            u = x[:n]
            if x[1] > 0.0:
                u = u * 2.0
            elif n > 2:
                pass
            else:
                u = gt.stack([0.7 * e + x[2] for e in u])
            y = gt.reduce_sum(u * u)
        return tape.gradient(y, x)

    for mode in COMPILED:
        f = compiled(slope, mode)
        for n in (2, 3):
            np.testing.assert_allclose(f(gt.constant(n)), slope(gt.constant(n)), rtol=1e-12)


def test_sizes_of_one_form_in_a_second_derivative():
    """What the backward pass gives is called by another name than what the forward pass kept: max(n-1,0) and max(m-1,0)."""

    def run(x, n):
        with gt.GradientTape() as outer:
            outer.watch(x)
            with gt.GradientTape() as inner:
                inner.watch(x)
                u = x[:n]
                r = gt.sin(u)
                if x[0] > -5.0 and x[1] > 8.0:
                    u = gt.concat([u[:1], u[1:] * -0.8 * x[0]], 0)
                else:
                    u, r = gt.concat([x[:1], u], 0), gt.concat([r, x[:1]], 0)
                y = gt.reduce_sum(u * u) + gt.reduce_mean(gt.sin(r))
            first = inner.gradient(y, x)
            along = gt.reduce_sum(first * first)
        return y, first, outer.gradient(along, x)

    ways = {mode: compiled(run, mode) for mode in COMPILED}
    for x, n in (([0.31, -0.52, 0.77], 1), ([0.31, -0.52, 0.77], 3), ([0.31, 8.5, 0.77], 2)):
        expected = [t.numpy() for t in run(*arguments([x, np.int32(n)]))]
        for mode, way in ways.items():
            for a, b in zip(way(*arguments([x, np.int32(n)])), expected, strict=True):
                np.testing.assert_allclose(a.numpy(), b, rtol=1e-12, err_msg=f"{mode}, {n}")


def test_sizes_that_are_never_equal_are_refused_before_anything_runs():
    with pytest.raises(gt.errors.InvalidArgumentError, match="do not broadcast"):
        gt.function(lambda x: x[1:] + x)(gt.ones([3]))
