"""Bare NumPy: the calls behind the single ops, without any differentiation. The floor, not a competitor."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.workload import Step
from benchmarks.workloads import single_op


def _op(op: str, x: Any, y: Any, m: Any) -> Step:
    call = {
        "multiply": lambda: x * y,
        "add": lambda: x + y,
        "sin": lambda: np.sin(x),
        "tanh": lambda: np.tanh(x),
        "matmul": lambda: m @ m,
        "reduce_sum": lambda: np.add.reduce(m, axis=1),
        "getitem": lambda: m[2],
    }[op]

    def step() -> tuple[Any, list[Any]]:
        for _ in range(single_op.CALLS):
            z = call()
        return z.sum(), []

    return step


STEPS = {f"op_{op}": partial(_op, op) for op in single_op.NAMES}


def version() -> str:
    return np.__version__


def set_threads(count: int) -> None:
    """Set by the environment."""


def to_numpy(value: Any) -> Any:
    return value
