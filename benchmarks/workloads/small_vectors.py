"""A chain of 200 operations on short vectors, forward and backward: what overhead costs where arrays are small."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.workload import Inputs, Step, Workload, generator

STEPS = 40
OPS_PER_STEP = 5  # product, sum, tanh, product, difference


def inputs(length: int) -> Inputs:
    rng = generator("small_vectors")
    return {n: (0.5 * rng.standard_normal(length)).astype(np.float32) for n in ("x", "w", "b")}


def value(x: Any, w: Any, b: Any) -> Any:
    for _ in range(STEPS):
        x = np.tanh(x * w + b) - x * 0.1
    return x.sum()


def gradtape(x: Any, w: Any, b: Any) -> Step:
    import gradtape as gt

    start, w, b = gt.Variable(x), gt.Variable(w), gt.Variable(b)

    def step() -> tuple[Any, list[Any]]:
        with gt.GradientTape() as tape:
            x = start
            for _ in range(STEPS):
                x = gt.tanh(x * w + b) - x * 0.1
            total = gt.reduce_sum(x)
        return total, tape.gradient(total, [start, w, b])

    return step


WORKLOADS = tuple(
    Workload(
        f"vectors_{length}",
        f"chain of 200 ops on vectors of {length}, forward + backward",
        partial(inputs, length),
        value,
        gradtape,
        wrt=("x", "w", "b"),
        ops=STEPS * OPS_PER_STEP,
    )
    for length in (8, 64)
)
