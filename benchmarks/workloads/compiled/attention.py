"""A transformer block: attention with 4 heads and a network of two layers, with norms; batch 8, 128 tokens, 128 features."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Inputs, generator
from benchmarks.workloads.compiled.making import compiled, normal

BATCH, TOKENS, FEATURES, HEADS = 8, 128, 128, 4
SIZE = FEATURES // HEADS
WRT = ("qkv", "out", "up", "down")


def inputs() -> Inputs:
    rng = generator("attention")
    return {
        "qkv": normal(rng, FEATURES, 3 * FEATURES, scale=FEATURES**-0.5),
        "out": normal(rng, FEATURES, FEATURES, scale=FEATURES**-0.5),
        "up": normal(rng, FEATURES, 4 * FEATURES, scale=FEATURES**-0.5),
        "down": normal(rng, 4 * FEATURES, FEATURES, scale=(4 * FEATURES) ** -0.5),
        "x": normal(rng, BATCH, TOKENS, FEATURES),
    }


def value(qkv: Any, out: Any, up: Any, down: Any, x: Any, np: Any = np) -> Any:
    def normed(x: Any) -> Any:
        centred = x - np.mean(x, axis=-1, keepdims=True)
        return centred / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)

    parts = np.reshape(normed(x) @ qkv, (BATCH, TOKENS, 3, HEADS, SIZE))
    q, k, v = (np.transpose(parts[:, :, n], (0, 2, 1, 3)) for n in range(3))
    scores = q @ np.swapaxes(k, 2, 3) * SIZE**-0.5
    weights = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    mixed = weights / np.sum(weights, axis=-1, keepdims=True) @ v
    x = x + np.reshape(np.transpose(mixed, (0, 2, 1, 3)), (BATCH, TOKENS, FEATURES)) @ out
    x = x + np.maximum(normed(x) @ up, 0.0) @ down
    return np.mean(x * x)


def objective(gt: Any, qkv: Any, out: Any, up: Any, down: Any, x: Any) -> Any:
    def normed(x: Any) -> Any:
        centred = x - gt.reduce_mean(x, axis=-1, keepdims=True)
        return centred * gt.math.rsqrt(gt.reduce_mean(centred * centred, axis=-1, keepdims=True) + 1e-5)

    parts = gt.transpose(gt.reshape(normed(x) @ qkv, (BATCH, TOKENS, 3, HEADS, SIZE)), (2, 0, 3, 1, 4))
    q, k, v = parts[0], parts[1], parts[2]
    mixed = gt.nn.softmax(gt.matmul(q, k, transpose_b=True) * SIZE**-0.5) @ v
    x = x + gt.reshape(gt.transpose(mixed, (0, 2, 1, 3)), (BATCH, TOKENS, FEATURES)) @ out
    x = x + gt.nn.relu(normed(x) @ up) @ down
    return gt.reduce_mean(x * x)


WORKLOADS = (
    compiled(
        "attention", "attention block, B 8, T 128, D 128", inputs, value, objective, WRT, (("fastest", 0.9), ("value", 3.3))
    ),
)
