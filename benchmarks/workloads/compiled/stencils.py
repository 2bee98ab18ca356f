"""In-place stencils: Jacobi in two dimensions, heat in three, Gauss-Seidel (each element uses those just written) in two.

The objective is the sum of squares at the end; the derivative is by the start. The stencils are linear, so a backward pass
has to keep nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Inputs, generator
from benchmarks.workloads.compiled.making import compiled, normal

JACOBI, JACOBI_STEPS = 128, 50
HEAT, HEAT_STEPS = 32, 10
SEIDEL, SEIDEL_STEPS = 40, 5
GOALS = (("c", 1.5), ("jax_jit", 0.5))


def jacobi_inputs() -> Inputs:
    return {"a": normal(generator("jacobi"), JACOBI, JACOBI), "steps": JACOBI_STEPS}


def heat_inputs() -> Inputs:
    return {"a": normal(generator("heat"), HEAT, HEAT, HEAT), "steps": HEAT_STEPS}


def seidel_inputs() -> Inputs:
    return {"a": normal(generator("seidel"), SEIDEL, SEIDEL), "steps": SEIDEL_STEPS}


def five_points(a: Any) -> Any:
    return 0.2 * (a[1:-1, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] + a[2:, 1:-1] + a[:-2, 1:-1])


def heated(a: Any) -> Any:
    middle = a[1:-1, 1:-1, 1:-1]
    return (
        0.125 * (a[2:, 1:-1, 1:-1] - 2.0 * middle + a[:-2, 1:-1, 1:-1])
        + 0.125 * (a[1:-1, 2:, 1:-1] - 2.0 * middle + a[1:-1, :-2, 1:-1])
        + 0.125 * (a[1:-1, 1:-1, 2:] - 2.0 * middle + a[1:-1, 1:-1, :-2])
        + middle
    )


def jacobi_value(a: Any, steps: int) -> Any:
    a = a.copy()
    b = a.copy()
    for _ in range(steps):
        b[1:-1, 1:-1] = five_points(a)
        a[1:-1, 1:-1] = five_points(b)
    return np.sum(a * a)


def heat_value(a: Any, steps: int) -> Any:
    a = a.copy()
    b = a.copy()
    for _ in range(steps):
        b[1:-1, 1:-1, 1:-1] = heated(a)
        a[1:-1, 1:-1, 1:-1] = heated(b)
    return np.sum(a * a)


def seidel_value(a: Any, steps: int) -> Any:
    a = a.copy()
    for _ in range(steps):
        for i in range(1, len(a) - 1):
            for j in range(1, len(a) - 1):
                a[i, j] = a[i - 1 : i + 2, j - 1 : j + 2].sum() / 9.0
    return np.sum(a * a)


def jacobi(gt: Any, a: Any, steps: int) -> Any:
    a, b = gt.identity(a), gt.identity(a)
    for _ in gt.range(steps):
        b[1:-1, 1:-1] = five_points(a)
        a[1:-1, 1:-1] = five_points(b)
    return gt.reduce_sum(a * a)


def heat(gt: Any, a: Any, steps: int) -> Any:
    a, b = gt.identity(a), gt.identity(a)
    for _ in gt.range(steps):
        b[1:-1, 1:-1, 1:-1] = heated(a)
        a[1:-1, 1:-1, 1:-1] = heated(b)
    return gt.reduce_sum(a * a)


def seidel(gt: Any, a: Any, steps: int) -> Any:
    a = gt.identity(a)
    last = a.shape[0] - 1
    for _ in gt.range(steps):
        for i in gt.range(1, last):
            for j in gt.range(1, last):
                above = a[i - 1, j - 1] + a[i - 1, j] + a[i - 1, j + 1]
                beside = a[i, j - 1] + a[i, j] + a[i, j + 1]
                below = a[i + 1, j - 1] + a[i + 1, j] + a[i + 1, j + 1]
                a[i, j] = (above + beside + below) * (1.0 / 9.0)
    return gt.reduce_sum(a * a)


WORKLOADS = (
    compiled("jacobi", "Jacobi 2-D, 128², 100 sweeps", jacobi_inputs, jacobi_value, jacobi, ("a",), GOALS),
    compiled("heat", "heat 3-D, 32³, 20 sweeps", heat_inputs, heat_value, heat, ("a",), GOALS),
    compiled("seidel", "Gauss-Seidel 2-D in place, 40², 5 sweeps", seidel_inputs, seidel_value, seidel, ("a",), GOALS),
)
