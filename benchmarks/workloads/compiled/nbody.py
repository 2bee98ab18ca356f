"""Sixteen bodies that attract each other, 500 steps of symplectic Euler; the derivative is by the positions at the start."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Inputs, generator
from benchmarks.workloads.compiled.making import compiled, normal

BODIES, STEPS, STEP, SOFTENING = 16, 500, 1e-3, 0.1


def inputs() -> Inputs:
    rng = generator("nbody")
    return {
        "p": normal(rng, BODIES, 3),
        "v": normal(rng, BODIES, 3, scale=0.5),
        "mass": rng.uniform(0.5, 1.5, BODIES).astype(np.float32),
        "steps": STEPS,
    }


def value(p: Any, v: Any, mass: Any, steps: int, np: Any = np) -> Any:
    for _ in range(steps):
        d = p[None, :, :] - p[:, None, :]
        s = np.sum(d * d, axis=2) + SOFTENING
        v = v + STEP * np.sum(d * (mass / (s * np.sqrt(s)))[:, :, None], axis=1)
        p = p + STEP * v
    return np.sum(p * p)


def objective(gt: Any, p: Any, v: Any, mass: Any, steps: int) -> Any:
    for _ in gt.range(steps):
        d = p[None, :, :] - p[:, None, :]
        s = gt.reduce_sum(d * d, axis=2) + SOFTENING
        v = v + STEP * gt.reduce_sum(d * (mass / (s * gt.sqrt(s)))[:, :, None], axis=1)
        p = p + STEP * v
    return gt.reduce_sum(p * p)


WORKLOADS = (
    compiled("nbody", "N-body, 16 bodies, 500 steps", inputs, value, objective, ("p",), (("c", 1.5), ("fastest", 0.9))),
)
