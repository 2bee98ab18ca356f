"""Reductions and statistics of nothing: the derivative along an empty axis is a map from a space without directions, so zero,
in both modes and wherever it is computed; and what is refused in eager code is refused when the program runs.

As machine code each reduction has one of the shapes, in `make test-all` every one: compiling takes longest."""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as gt
from tests.harness.seeds import everything

pytestmark = pytest.mark.filterwarnings("ignore")
REDUCTIONS = {
    **{name: getattr(gt, f"reduce_{name}") for name in ("sum", "mean", "max", "min", "prod", "logsumexp")},
    **{name: getattr(gt.math, f"reduce_{name}") for name in ("std", "variance", "euclidean_norm")},
    "cumsum": gt.cumsum, "softmax": gt.nn.softmax, "sort": gt.sort, "norm": gt.norm,
    "moments": lambda x, axis: gt.nn.moments(x, [axis]),
    **{f"np.{name}": getattr(np, name) for name in ("sum", "mean", "std", "var", "prod", "average", "max", "ptp", "median")},
}  # fmt: skip
SHAPES = [((0,), 0), ((0, 3), 0), ((3, 0), 1), ((3, 0), 0), ((2, 0, 3), 1)]


def ways(f, shape, native):
    unknown = [gt.TensorSpec([None] * len(shape), gt.float64)]
    yield "eager", f
    yield "interpreted", gt.function(f, jit_compile=False)
    if native:
        yield "native", gt.function(f)
    yield "of unknown size", gt.function(f, input_signature=unknown, jit_compile=False)


def pushed(f, x):
    with gt.autodiff.ForwardAccumulator(x, gt.zeros_like(x)) as accumulator:
        results = f(x)
    return [accumulator.jvp(y, unconnected_gradients="zero") for y in results]


@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_nothing_has_the_derivative_zero_everywhere(name, shape, axis):
    def f(x):
        return gt.nest.flatten(REDUCTIONS[name](x, axis=axis))

    x = gt.zeros(shape, gt.float64)
    native = everything() or SHAPES[[*REDUCTIONS].index(name) % len(SHAPES)] == (shape, axis)
    try:
        expected = [np.asarray(y) for y in f(x)]
    except (ValueError, gt.errors.InvalidArgumentError):
        for _, way in ways(f, shape, True):
            with pytest.raises((ValueError, gt.errors.InvalidArgumentError)):
                way(x)
        return
    for label, way in ways(f, shape, native):
        with gt.GradientTape() as tape:
            tape.watch(x)
            results = way(x)
        assert tape.gradient(results, x, unconnected_gradients="zero").shape == shape
        slopes = [*pushed(way, x), *gt.function(lambda x, way=way: pushed(way, x), jit_compile=label == "native")(x)]
        for y, value in zip(results, expected, strict=True):
            np.testing.assert_array_equal(y, value, err_msg=label)
        for slope, value in zip(slopes, expected * 2, strict=True):
            np.testing.assert_array_equal(slope, np.zeros(value.shape), err_msg=label)
