"""A tanh recurrent cell over 50 steps, batch 32, hidden 64, forward and backward, as a Python loop."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Inputs, Step, Workload, generator

STEPS, BATCH, FEATURES, HIDDEN = 50, 32, 32, 64


def inputs() -> Inputs:
    rng = generator("rnn")
    return {
        "x": rng.standard_normal((STEPS, BATCH, FEATURES)).astype(np.float32),
        "w": (rng.standard_normal((FEATURES, HIDDEN)) / np.sqrt(FEATURES)).astype(np.float32),
        "u": (0.5 * rng.standard_normal((HIDDEN, HIDDEN)) / np.sqrt(HIDDEN)).astype(np.float32),
        "b": (0.1 * rng.standard_normal(HIDDEN)).astype(np.float32),
    }


def value(x: Any, w: Any, u: Any, b: Any) -> Any:
    h = np.zeros((BATCH, HIDDEN), x.dtype)
    for t in range(STEPS):
        h = np.tanh(x[t] @ w + h @ u + b)
    return np.mean(h * h)


def gradtape(x: Any, w: Any, u: Any, b: Any) -> Step:
    import gradtape as gt

    x, variables = gt.constant(x), [gt.Variable(w), gt.Variable(u), gt.Variable(b)]
    w, u, b = variables

    def step() -> tuple[Any, list[Any]]:
        with gt.GradientTape() as tape:
            h = gt.zeros((BATCH, HIDDEN))
            # the input products of all steps at once, as every expert does
            inputs = gt.reshape(gt.reshape(x, (-1, FEATURES)) @ w + b, (STEPS, BATCH, HIDDEN))
            for t in range(STEPS):
                h = gt.tanh(inputs[t] + h @ u)
            loss = gt.reduce_mean(h * h)
        return loss, tape.gradient(loss, variables)

    return step


WORKLOADS = (
    Workload("rnn", "RNN, 50 steps, batch 32, hidden 64, forward + backward", inputs, value, gradtape, wrt=("w", "u", "b")),
)
