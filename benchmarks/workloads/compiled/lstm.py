"""An LSTM layer as people train it: batch 32, 50 steps, 64 features, 128 units."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Inputs, generator
from benchmarks.workloads.compiled.making import compiled, normal

STEPS, BATCH, FEATURES, HIDDEN = 50, 32, 64, 128


def inputs() -> Inputs:
    rng = generator("lstm")
    return {
        "w": normal(rng, FEATURES, 4 * HIDDEN, scale=FEATURES**-0.5),
        "u": normal(rng, HIDDEN, 4 * HIDDEN, scale=HIDDEN**-0.5),
        "b": normal(rng, 4 * HIDDEN, scale=0.1),
        "xs": normal(rng, STEPS, BATCH, FEATURES),
    }


def value(w: Any, u: Any, b: Any, xs: Any, np: Any = np) -> Any:
    h, c = np.zeros((BATCH, HIDDEN), xs.dtype), np.zeros((BATCH, HIDDEN), xs.dtype)
    for part in np.reshape(np.reshape(xs, (-1, FEATURES)) @ w + b, (STEPS, BATCH, 4 * HIDDEN)):
        z = part + h @ u
        i, f, o = (1 / (1 + np.exp(-z[:, k * HIDDEN : (k + 1) * HIDDEN])) for k in (0, 1, 3))
        c = f * c + i * np.tanh(z[:, 2 * HIDDEN : 3 * HIDDEN])
        h = o * np.tanh(c)
    return np.mean(h * h)


def objective(gt: Any, w: Any, u: Any, b: Any, xs: Any) -> Any:
    h, c = gt.zeros((BATCH, HIDDEN)), gt.zeros((BATCH, HIDDEN))
    # the input products of all steps at once, as every expert does
    for part in gt.reshape(gt.reshape(xs, (-1, FEATURES)) @ w + b, (STEPS, BATCH, 4 * HIDDEN)):
        i, f, g, o = gt.split(part + h @ u, 4, axis=1)
        c = gt.sigmoid(f) * c + gt.sigmoid(i) * gt.tanh(g)
        h = gt.sigmoid(o) * gt.tanh(c)
    return gt.reduce_mean(h * h)


WORKLOADS = (
    compiled(
        "lstm",
        "LSTM, batch 32, 50 steps, hidden 128",
        inputs,
        value,
        objective,
        ("w", "u", "b"),
        (("fastest", 0.9), ("value", 3.0)),
    ),
)
