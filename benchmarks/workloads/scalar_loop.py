"""A Python loop of scalar operations, forward and backward: y ← sin(y)·x + y·0.5; a thousand times, and 10² … 10⁵ times."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.workload import Inputs, Step, Workload

STEPS = 1000
OPS_PER_STEP = 4  # sin, two products, one sum


def inputs(steps: int) -> Inputs:
    return {"x": np.float32(0.9), "y": np.float32(0.3), "steps": steps}


def value(x: Any, y: Any, steps: int) -> Any:
    for _ in range(steps):
        y = np.sin(y) * x + y * 0.5
    return y


def gradtape(x: Any, y: Any, steps: int) -> Step:
    import gradtape as gt

    x, start = gt.constant(x), gt.constant(y)

    def step() -> tuple[Any, list[Any]]:
        with gt.GradientTape() as tape:
            tape.watch([x, start])
            y = start
            for _ in range(steps):
                y = gt.sin(y) * x + y * 0.5
        return y, tape.gradient(y, [x, start])

    return step


WORKLOADS = (
    Workload(
        "scalar_loop",
        "scalar loop, 4,000 ops, forward + backward",
        partial(inputs, STEPS),
        value,
        gradtape,
        wrt=("x", "y"),
        ops=STEPS * OPS_PER_STEP,
        goals=(("torch", 0.5), ("tensorflow", 0.05), ("autograd", 0.15)),
    ),
)


def of_length(steps: int) -> Workload:
    """The same loop with another number of turns: cost against length."""
    return Workload(
        f"loop_{steps}",
        f"scalar loop of {steps:,} turns",
        partial(inputs, steps),
        value,
        gradtape,
        wrt=("x", "y"),
        ops=steps * OPS_PER_STEP,
        family="scalar_loop",
    )
