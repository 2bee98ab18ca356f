"""A chain of ten operations on vectors of 10 … 10⁷ elements, and a Python loop that tracing unrolls: the scaling plots."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.workload import Inputs, Workload
from benchmarks.workloads.compiled.making import compiled
from benchmarks.workloads.small_vectors import STEPS_ANY_SIZE, inputs, value


def chain(gt: Any, x: Any, w: Any, b: Any, steps: int) -> Any:
    for _ in range(steps):
        x = gt.tanh(x * w + b) - x * 0.1
    return gt.reduce_sum(x)


def of_size(length: int) -> Workload:
    """Cost against size."""
    given = partial(inputs, length, STEPS_ANY_SIZE)
    title = f"chain of 10 ops on vectors of {length:,}"
    return compiled(f"size_{length}", title, given, value, chain, ("x", "w", "b"), family="compiled_vectors")


def weighted_inputs(length: int) -> Inputs:
    return {"x": np.float32(0.5), "weights": np.linspace(0.5, 1.0, length, dtype=np.float32), "length": length}


def weighted_value(x: Any, weights: Any, length: int) -> Any:
    for i in range(length):
        x = x + 0.01 * np.sin(weights[i] * x)
    return x


def weighted(gt: Any, x: Any, weights: Any, length: int) -> Any:
    for i in range(length):  # a loop of Python: every turn is traced
        x = x + 0.01 * gt.sin(weights[i] * x)
    return x


def of_python_loop(length: int) -> Workload:
    """Time of the first call against the length of a Python loop."""
    given = partial(weighted_inputs, length)
    title = f"Python loop of {length:,} turns, first call"
    return compiled(f"tracing_{length}", title, given, weighted_value, weighted, ("x",), family="compiled_python_loop")
