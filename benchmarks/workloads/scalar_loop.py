"""A Python loop of scalar operations, forward and backward: y ← sin(y)·x + y·0.5, a thousand times."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Inputs, Step, Workload

STEPS = 1000
OPS_PER_STEP = 4  # sin, two products, one sum


def inputs() -> Inputs:
    return {"x": np.float32(0.9), "y": np.float32(0.3)}


def value(x: Any, y: Any) -> Any:
    for _ in range(STEPS):
        y = np.sin(y) * x + y * 0.5
    return y


def gradtape(x: Any, y: Any) -> Step:
    import gradtape as gt

    x, start = gt.constant(x), gt.constant(y)

    def step() -> tuple[Any, list[Any]]:
        with gt.GradientTape() as tape:
            tape.watch([x, start])
            y = start
            for _ in range(STEPS):
                y = gt.sin(y) * x + y * 0.5
        return y, tape.gradient(y, [x, start])

    return step


WORKLOADS = (
    Workload(
        "scalar_loop",
        "scalar loop, 4,000 ops, forward + backward",
        inputs,
        value,
        gradtape,
        wrt=("x", "y"),
        ops=STEPS * OPS_PER_STEP,
        goals=(("torch", 0.5), ("tensorflow", 0.05), ("autograd", 0.15)),
    ),
)
