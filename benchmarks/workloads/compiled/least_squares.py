"""Least squares as nested reductions: Σᵢ (yᵢ - Σⱼ aᵢⱼ xⱼ)² + λ Σⱼ xⱼ², 1,024 equations, 32 unknowns."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Inputs, generator
from benchmarks.workloads.compiled.making import compiled, normal

EQUATIONS, UNKNOWNS, WEIGHT = 1024, 32, 0.1


def inputs() -> Inputs:
    rng = generator("least_squares")
    return {"x": normal(rng, UNKNOWNS), "a": normal(rng, EQUATIONS, UNKNOWNS), "y": normal(rng, EQUATIONS)}


def value(x: Any, a: Any, y: Any, np: Any = np) -> Any:
    return np.sum((y - np.sum(a * x, axis=1)) ** 2) + WEIGHT * np.sum(x * x)


def objective(gt: Any, x: Any, a: Any, y: Any) -> Any:
    residual = y - gt.reduce_sum(a * x, axis=1)
    return gt.reduce_sum(residual * residual) + WEIGHT * gt.reduce_sum(x * x)


WORKLOADS = (
    compiled("least_squares", "least squares, nested reductions", inputs, value, objective, ("x",), (("fastest", 0.9),)),
)
