"""Ten steps of Runge-Kutta 4 for y'₀ = x₀·y₀, y'ᵢ = xᵢ·yᵢ₋₁ with 10⁴ unknowns, differentiated by x."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Inputs, generator
from benchmarks.workloads.compiled.making import compiled, normal

LENGTH, STEPS, STEP = 10_000, 10, 0.1


def inputs() -> Inputs:
    rng = generator("ode")
    return {"x": normal(rng, LENGTH), "y": normal(rng, LENGTH)}


def value(x: Any, y: Any, np: Any = np) -> Any:
    def slope(y: Any) -> Any:
        return x * np.concatenate((y[:1], y[:-1]))

    for _ in range(STEPS):
        k1 = slope(y)
        k2 = slope(y + (0.5 * STEP) * k1)
        k3 = slope(y + (0.5 * STEP) * k2)
        k4 = slope(y + STEP * k3)
        y = y + (STEP / 6.0) * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    return np.mean(y * y)


def objective(gt: Any, x: Any, y: Any) -> Any:
    def slope(y: Any) -> Any:
        return x * gt.concat((y[:1], y[:-1]), 0)

    for _ in gt.range(STEPS):
        k1 = slope(y)
        k2 = slope(y + (0.5 * STEP) * k1)
        k3 = slope(y + (0.5 * STEP) * k2)
        k4 = slope(y + STEP * k3)
        y = y + (STEP / 6.0) * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    return gt.reduce_mean(y * y)


WORKLOADS = (
    compiled("ode", "Runge-Kutta 4, n 10⁴, 10 steps", inputs, value, objective, ("x",), (("fastest", 0.9), ("value", 3.0))),
)
