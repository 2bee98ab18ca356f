"""Newton's method for x·exp(x) = a until the step is small: 64 problems, each with its own number of iterations."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Inputs, generator
from benchmarks.workloads.compiled.making import compiled

PROBLEMS = 64
SMALL = 1e-3
MOST = 16  # iterations, for libraries that need a bound; `value` checks it


def inputs() -> Inputs:
    return {"a": generator("newton").uniform(0.5, 50.0, PROBLEMS).astype(np.float32)}


def value(a: Any) -> Any:
    total = 0.0
    for target in a:
        x, delta, turns = 1.0, 1.0, 0
        while abs(delta) > SMALL:
            e = np.exp(x)
            delta = (x * e - target) / (e * (x + 1.0))
            x, turns = x - delta, turns + 1
        assert turns <= MOST
        total += x * x
    return total


def objective(gt: Any, a: Any) -> Any:
    total = 0.0
    for target in a:
        x, delta = 1.0, 1.0
        while abs(delta) > SMALL:
            e = gt.exp(x)
            delta = (x * e - target) / (e * (x + 1.0))
            x = x - delta
        total = total + x * x
    return total


WORKLOADS = (compiled("newton", "Newton while to convergence, 64 problems", inputs, value, objective, ("a",), (("c", 1.5),)),)
