"""Functions whose Python loops were folded: values and derivatives of both orders are those of the loops as written.

Second derivatives are those of the reference backend, of one function in some of machine code; in `make test-all` of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradtape as gt
from tests.harness.seeds import in_sample
from tests.passes.test_reroll import CASES, gradient

TWICE = 6  # of so many functions one is differentiated twice as machine code
ORDINARY = [(function, specs) for function, specs, _ in CASES if function is not gradient]


def loss(function: Callable[..., Any], arguments: list[Any]) -> Any:
    found = function(*arguments)
    return sum(gt.reduce_sum(gt.sin(out)) for out in (found if isinstance(found, (list, tuple)) else [found]))


def slopes(function: Callable[..., Any], arguments: list[Any]) -> list[Any]:
    with gt.GradientTape() as tape:
        tape.watch(arguments)
        value = loss(function, arguments)
    return tape.gradient(value, arguments, unconnected_gradients="zero")


def curvatures(function: Callable[..., Any], arguments: list[Any]) -> list[Any]:
    with gt.GradientTape() as tape:
        tape.watch(arguments)
        value = sum(gt.reduce_sum(slope * slope) for slope in slopes(function, arguments))
    return tape.gradient(value, arguments, unconnected_gradients="zero")


@pytest.mark.parametrize("derivative", [slopes, curvatures])
@pytest.mark.parametrize(("function", "specs"), ORDINARY, ids=lambda x: getattr(x, "__name__", ""))
def test_derivatives_of_folded_loops(function: Callable[..., Any], specs: Any, derivative: Callable[..., Any]) -> None:
    rng = np.random.default_rng(1)
    arguments = [gt.constant(rng.normal(size=tuple(s.shape))) for s in specs]
    expected = derivative(function, arguments)
    native = derivative is slopes or in_sample(function.__name__, TWICE)
    found = derivative(gt.function(function, autograph=False, jit_compile=native), arguments)
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9, atol=1e-12)
