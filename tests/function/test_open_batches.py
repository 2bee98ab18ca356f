"""Convolutions and pooling of a batch whose size only the run knows: one program for all, results as those of eager code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradtape as gt

RNG = np.random.default_rng(5)
CASES: dict[str, tuple[Callable[..., Any], tuple[int, ...], tuple[int, ...]]] = {
    "conv1d": (lambda x, w: gt.nn.conv1d(x, w, 2, "SAME"), (7, 3), (3, 3, 4)),
    "conv2d": (lambda x, w: gt.nn.conv2d(x, w, 1, "SAME"), (6, 5, 3), (3, 3, 3, 4)),
    "channels first": (lambda x, w: gt.nn.conv2d(x, w, 2, "VALID", "NCHW"), (3, 6, 5), (3, 3, 3, 4)),
    "two axes of batch": (lambda x, w: gt.nn.conv2d(x, w, 1, "SAME"), (2, 4, 5, 3), (3, 3, 3, 2)),
    "groups": (lambda x, w: gt.nn.conv2d(x, w, 1, "SAME"), (6, 5, 4), (3, 3, 2, 4)),
    "conv3d": (lambda x, w: gt.nn.conv3d(x, w, [1, 1, 2, 1, 1], "SAME"), (4, 5, 3, 2), (2, 2, 2, 2, 3)),
    "depthwise": (lambda x, w: gt.nn.depthwise_conv2d(x, w, [1, 2, 2, 1], "SAME"), (6, 5, 3), (3, 3, 3, 1)),
    "separable": (
        lambda x, w: gt.nn.separable_conv2d(x, w, gt.ones((1, 1, 6, 2)), [1, 1, 1, 1], "SAME"),
        (6, 5, 3),
        (3, 3, 3, 2),
    ),
    "transpose": (
        lambda x, w: gt.nn.conv2d_transpose(x, w, gt.stack([gt.shape(x)[0], 12, 10, 4]), 2),
        (6, 5, 3),
        (3, 3, 4, 3),
    ),
    "transpose in 1-D": (lambda x, w: gt.nn.conv1d_transpose(x, w, [gt.shape(x)[0], 12, 4], 2), (6, 3), (3, 4, 3)),
    "max_pool1d": (lambda x, w: gt.nn.max_pool1d(x * w, 2, 2, "SAME"), (7, 3), ()),
    "max_pool2d": (lambda x, w: gt.nn.max_pool2d(x * w, 3, 2, "SAME"), (6, 5, 3), ()),
    "max_pool3d": (lambda x, w: gt.nn.max_pool3d(x * w, 2, 2, "VALID"), (4, 5, 4, 3), ()),
    "avg_pool1d": (lambda x, w: gt.nn.avg_pool1d(x * w, 2, 2, "SAME"), (7, 3), ()),
    "avg_pool2d": (lambda x, w: gt.nn.avg_pool2d(x * w, 3, 2, "SAME", "NCHW"), (3, 6, 5), ()),
    "avg_pool3d": (lambda x, w: gt.nn.avg_pool3d(x * w, 2, 2, "VALID"), (4, 5, 4, 3), ()),
    "depth_to_space": (lambda x, w: gt.depth_to_space(x * w, 2), (3, 2, 8), ()),
    "space_to_depth": (lambda x, w: gt.space_to_depth(x * w, 2), (4, 2, 8), ()),
}


@pytest.mark.parametrize("native", [True, False], ids=["native", "reference"])
@pytest.mark.parametrize("name", CASES)
def test_one_program_for_all_batches(name: str, native: bool) -> None:
    f, shape, filters = CASES[name]

    def second_order(x: Any, w: Any) -> Any:
        with gt.GradientTape() as outer:
            outer.watch([x, w])
            with gt.GradientTape() as inner:
                inner.watch([x, w])
                y = f(x, w)
                loss = gt.reduce_sum(y * y * y)
            first = inner.gradient(loss, [x, w])
            penalty = gt.add_n([gt.reduce_sum(g * g) for g in first])
        return y, first, outer.gradient(penalty, [x, w])

    before = gt.config.native_code_enabled()
    gt.config.native_code(native)
    try:
        compiled = gt.function(second_order)
        program = compiled.get_concrete_function(gt.TensorSpec((None, *shape), "float64"), gt.TensorSpec(filters, "float64"))
        w = gt.constant(RNG.normal(size=filters))
        results = [(x, program(x, w)) for x in (gt.constant(RNG.normal(size=(n, *shape))) for n in (3, 1, 0))]
        assert compiled.experimental_get_tracing_count() == 1
        if native:
            assert "calls NumPy" not in str(compiled.explain())
    finally:
        gt.config.native_code(before)
    for x, found in results:
        for a, b in zip(gt.nest.flatten(found), gt.nest.flatten(second_order(x, w)), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9, atol=1e-9)
