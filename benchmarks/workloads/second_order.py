"""Second order on f(x) = Σ tanh(x)·exp(-x²/4) + (Σx²)²/n: a gradient penalty, and a Hessian-vector product.

Both are a scalar made of ∇f and its gradient, so they are checked like any other workload: ‖∇f‖² for the penalty, ∇f·v for
the product, whose gradient is Hv. The reference uses ∇f written by hand.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Inputs, Step, Workload, generator

LENGTH = 32


def inputs() -> Inputs:
    rng = generator("second_order")
    return {n: (0.5 * rng.standard_normal(LENGTH)).astype(np.float32) for n in ("x", "v")}


def hand_gradient(x: Any) -> Any:
    # d/dx tanh(x)·g = (1 - tanh²x)·g - tanh(x)·g·x/2 with g = exp(-x²/4); d/dx (Σx²)²/n = 4x·Σx²/n
    t, g = np.tanh(x), np.exp(-x * x / 4)
    return (1 - t * t) * g - t * g * x / 2 + 4 * x * (x * x).sum() / LENGTH


def penalty(x: Any, v: Any) -> Any:
    return (hand_gradient(x) ** 2).sum()


def product(x: Any, v: Any) -> Any:
    return (hand_gradient(x) * v).sum()


def objective(gt: Any, x: Any) -> Any:
    squares = x * x
    total = gt.reduce_sum(squares)
    return gt.reduce_sum(gt.tanh(x) * gt.exp(squares * -0.25)) + total * total * (1.0 / LENGTH)


def gradtape_penalty(x: Any, v: Any) -> Step:
    import gradtape as gt

    x = gt.Variable(x)

    def step() -> tuple[Any, list[Any]]:
        with gt.GradientTape() as outer:
            with gt.GradientTape() as inner:
                y = objective(gt, x)
            g = inner.gradient(y, x)
            s = gt.reduce_sum(g * g)
        return s, [outer.gradient(s, x)]

    return step


def gradtape_product(x: Any, v: Any) -> Step:
    import gradtape as gt

    x, v = gt.Variable(x), gt.constant(v)

    def step() -> tuple[Any, list[Any]]:
        with gt.GradientTape() as outer:
            with gt.GradientTape() as inner:
                y = objective(gt, x)
            s = gt.reduce_sum(inner.gradient(y, x) * v)
        return s, [outer.gradient(s, x)]

    return step


WORKLOADS = (
    Workload("penalty", "gradient of ‖∇f‖², 32 elements", inputs, penalty, gradtape_penalty, wrt=("x",)),
    Workload("hvp", "Hessian-vector product, 32 elements", inputs, product, gradtape_product, wrt=("x",)),
)
