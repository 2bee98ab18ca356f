"""A loop of scalar operations, y ← sin(y)·x + y·0.5: a thousand turns, and 10² … 10⁶ for the plot of cost against length."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.workload import Inputs, Workload
from benchmarks.workloads.compiled.making import compiled

STEPS = 1000
GOALS = (("c", 1.5),)


def inputs(steps: int) -> Inputs:
    return {"x": np.float32(0.9), "y": np.float32(0.3), "steps": steps}


def value(x: Any, y: Any, steps: int, np: Any = np) -> Any:
    for _ in range(steps):
        y = np.sin(y) * x + y * 0.5
    return y


def objective(gt: Any, x: Any, y: Any, steps: int) -> Any:
    for _ in gt.range(steps):
        y = gt.sin(y) * x + y * 0.5
    return y


def of_length(steps: int) -> Workload:
    """The same loop with another number of turns: cost against length."""
    name, title = f"loop_{steps}", f"scalar loop of {steps:,} turns"
    return compiled(name, title, partial(inputs, steps), value, objective, ("x", "y"), family="compiled_scalar_loop")


WORKLOADS = (
    compiled("scalar_loop", "scalar loop, 1,000 iterations", partial(inputs, STEPS), value, objective, ("x", "y"), GOALS),
)
