"""An LSTM with 8 units over 1,024 steps of one sequence: long, with tiny products."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Inputs, generator
from benchmarks.workloads.compiled.making import compiled, normal

STEPS, FEATURES, HIDDEN = 1024, 8, 8


def inputs() -> Inputs:
    rng = generator("lstm_tiny")
    return {
        "w": normal(rng, FEATURES, 4 * HIDDEN, scale=0.3),
        "u": normal(rng, HIDDEN, 4 * HIDDEN, scale=0.3),
        "b": normal(rng, 4 * HIDDEN, scale=0.1),
        "xs": normal(rng, STEPS, FEATURES),
    }


def value(w: Any, u: Any, b: Any, xs: Any, np: Any = np) -> Any:
    h, c, total = np.zeros(HIDDEN, xs.dtype), np.zeros(HIDDEN, xs.dtype), 0.0
    for row in xs @ w + b:
        z = row + h @ u
        i, f, o = (1 / (1 + np.exp(-z[k * HIDDEN : (k + 1) * HIDDEN])) for k in (0, 1, 3))
        c = f * c + i * np.tanh(z[2 * HIDDEN : 3 * HIDDEN])
        h = o * np.tanh(c)
        total = total + np.sum(h * h)
    return total / STEPS


def objective(gt: Any, w: Any, u: Any, b: Any, xs: Any) -> Any:
    h, c, total = gt.zeros((HIDDEN,)), gt.zeros((HIDDEN,)), 0.0
    for row in xs @ w + b:
        i, f, g, o = gt.split(row + h @ u, 4)
        c = gt.sigmoid(f) * c + gt.sigmoid(i) * gt.tanh(g)
        h = gt.sigmoid(o) * gt.tanh(c)
        total = total + gt.reduce_sum(h * h)
    return total / STEPS


WORKLOADS = (
    compiled(
        "lstm_tiny", "LSTM with 8 units, 1,024 steps", inputs, value, objective, ("w", "u", "b"), (("c", 1.5), ("value", 3.0))
    ),
)
