"""A training step of a perceptron, 784-512-512-10, batch 128, cross-entropy; alone and with the SGD update."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.workload import Inputs, Step, Workload, generator

SIZES = (784, 512, 512, 10)
BATCH = 128
RATE = 1e-3
PARAMETERS = tuple(f"{kind}{layer}" for layer in range(len(SIZES) - 1) for kind in "wb")


def inputs() -> Inputs:
    rng = generator("mlp")
    found: Inputs = {"x": rng.standard_normal((BATCH, SIZES[0])).astype(np.float32)}
    found["labels"] = rng.integers(0, SIZES[-1], BATCH)
    for layer, (rows, columns) in enumerate(pairwise(SIZES)):
        found[f"w{layer}"] = (rng.standard_normal((rows, columns)) / np.sqrt(rows)).astype(np.float32)
        found[f"b{layer}"] = (0.1 * rng.standard_normal(columns)).astype(np.float32)
    return found


def value(x: Any, labels: Any, **p: Any) -> Any:
    h = np.maximum(x @ p["w0"] + p["b0"], 0.0)
    h = np.maximum(h @ p["w1"] + p["b1"], 0.0)
    logits = h @ p["w2"] + p["b2"]
    top = logits.max(axis=1, keepdims=True)
    log_total = np.log(np.exp(logits - top).sum(axis=1)) + top[:, 0]
    return np.mean(log_total - logits[np.arange(len(labels)), labels])


def gradtape(update: bool, x: Any, labels: Any, **p: Any) -> Step:
    import gradtape as gt

    x = gt.constant(x)
    chosen = gt.constant(np.eye(SIZES[-1], dtype=np.float32)[labels])
    variables = [gt.Variable(p[name]) for name in PARAMETERS]
    w0, b0, w1, b1, w2, b2 = variables

    def step() -> tuple[Any, list[Any]]:
        with gt.GradientTape() as tape:
            h = gt.maximum(x @ w0 + b0, 0.0)
            h = gt.maximum(h @ w1 + b1, 0.0)
            logits = h @ w2 + b2
            loss = gt.reduce_mean(gt.reduce_logsumexp(logits, axis=1) - gt.reduce_sum(logits * chosen, axis=1))
        gradients = tape.gradient(loss, variables)
        if update:
            for variable, gradient in zip(variables, gradients, strict=True):
                variable.assign_sub(gradient * RATE)
        return loss, gradients

    return step


WORKLOADS = (
    Workload(
        "mlp",
        "MLP 784-512-512-10, batch 128, forward + backward",
        inputs,
        value,
        partial(gradtape, False),
        wrt=PARAMETERS,
        goals=(("fastest", 0.9),),
    ),
    Workload(
        "mlp_sgd",
        "the same with the SGD update",
        inputs,
        value,
        partial(gradtape, True),
        wrt=PARAMETERS,
        goals=(("fastest", 0.9),),
    ),
)
