"""One small op while a tape records: 8 float32 elements, forward only. The peer `numpy` runs the bare call."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.workload import Inputs, Step, Workload, generator

CALLS = 500
NAMES = ("multiply", "add", "sin", "tanh", "matmul", "reduce_sum", "getitem")


def inputs() -> Inputs:
    rng = generator("single_op")
    return {
        "x": rng.standard_normal(8).astype(np.float32),
        "y": rng.standard_normal(8).astype(np.float32),
        "m": rng.standard_normal((8, 8)).astype(np.float32),
    }


def value(op: str, x: Any, y: Any, m: Any) -> Any:
    return {
        "multiply": lambda: x * y,
        "add": lambda: x + y,
        "sin": lambda: np.sin(x),
        "tanh": lambda: np.tanh(x),
        "matmul": lambda: m @ m,
        "reduce_sum": lambda: m.sum(axis=1),
        "getitem": lambda: m[2],
    }[op]().sum()


def gradtape(op: str, x: Any, y: Any, m: Any) -> Step:
    import gradtape as gt

    x, y, m = gt.constant(x), gt.constant(y), gt.constant(m)
    call = {
        "multiply": lambda: x * y,
        "add": lambda: x + y,
        "sin": lambda: gt.sin(x),
        "tanh": lambda: gt.tanh(x),
        "matmul": lambda: m @ m,
        "reduce_sum": lambda: gt.reduce_sum(m, axis=1),
        "getitem": lambda: m[2],
    }[op]

    def step() -> tuple[Any, list[Any]]:
        with gt.GradientTape() as tape:
            tape.watch([x, y, m])
            for _ in range(CALLS):
                z = call()
        return gt.reduce_sum(z), []

    return step


WORKLOADS = tuple(
    Workload(
        f"op_{op}",
        f"one op under a tape: {op}, 8 elements" if op in NAMES[:4] else f"one op under a tape: {op}, 8×8",
        inputs,
        partial(value, op),
        partial(gradtape, op),
        ops=CALLS,
    )
    for op in NAMES
)
