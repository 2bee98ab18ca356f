"""A chain of operations on vectors, forward and backward: 200 on short ones, where overhead counts; 10 on 10 … 10⁷ elements."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.workload import Inputs, Step, Workload, generator

STEPS = 40
STEPS_ANY_SIZE = 2
OPS_PER_STEP = 5  # product, sum, tanh, product, difference


def inputs(length: int, steps: int) -> Inputs:
    rng = generator("small_vectors")
    return {n: (0.5 * rng.standard_normal(length)).astype(np.float32) for n in ("x", "w", "b")} | {"steps": steps}


def value(x: Any, w: Any, b: Any, steps: int) -> Any:
    for _ in range(steps):
        x = np.tanh(x * w + b) - x * 0.1
    return x.sum()


def gradtape(x: Any, w: Any, b: Any, steps: int) -> Step:
    import gradtape as gt

    start, w, b = gt.Variable(x), gt.Variable(w), gt.Variable(b)

    def step() -> tuple[Any, list[Any]]:
        with gt.GradientTape() as tape:
            x = start
            for _ in range(steps):
                x = gt.tanh(x * w + b) - x * 0.1
            total = gt.reduce_sum(x)
        return total, tape.gradient(total, [start, w, b])

    return step


WORKLOADS = tuple(
    Workload(
        f"vectors_{length}",
        f"chain of 200 ops on vectors of {length}, forward + backward",
        partial(inputs, length, STEPS),
        value,
        gradtape,
        wrt=("x", "w", "b"),
        ops=STEPS * OPS_PER_STEP,
        family="vectors",
    )
    for length in (8, 64)
)


def of_size(length: int) -> Workload:
    """A short chain on vectors of any length: cost against size."""
    return Workload(
        f"size_{length}",
        f"chain of 10 ops on vectors of {length:,}",
        partial(inputs, length, STEPS_ANY_SIZE),
        value,
        gradtape,
        wrt=("x", "w", "b"),
        ops=STEPS_ANY_SIZE * OPS_PER_STEP,
        family="vectors",
    )
