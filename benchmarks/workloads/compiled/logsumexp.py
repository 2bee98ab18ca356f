"""log Σ exp(x) of 10⁵ numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Inputs, generator
from benchmarks.workloads.compiled.making import compiled, normal

LENGTH = 100_000


def inputs() -> Inputs:
    return {"x": normal(generator("logsumexp"), LENGTH, scale=3.0)}


def value(x: Any, np: Any = np) -> Any:
    top = np.max(x)
    return np.log(np.sum(np.exp(x - top))) + top


def objective(gt: Any, x: Any) -> Any:
    return gt.reduce_logsumexp(x)


WORKLOADS = (compiled("logsumexp", "log-sum-exp of 10⁵", inputs, value, objective, ("x",), (("fastest", 0.9), ("value", 3.0))),)
