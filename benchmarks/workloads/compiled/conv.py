"""LeNet on 28×28 pictures, batch 32: two convolutions with average pooling, three dense layers, cross-entropy."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Inputs, generator
from benchmarks.workloads.compiled.making import compiled, normal

BATCH = 32
WRT = ("k0", "k1", "w0", "w1", "w2")


def inputs() -> Inputs:
    rng = generator("conv")
    return {
        "k0": normal(rng, 5, 5, 1, 6, scale=0.2),
        "k1": normal(rng, 5, 5, 6, 16, scale=150**-0.5),
        "w0": normal(rng, 400, 120, scale=400**-0.5),
        "w1": normal(rng, 120, 84, scale=120**-0.5),
        "w2": normal(rng, 84, 10, scale=84**-0.5),
        "x": normal(rng, BATCH, 28, 28, 1),
        "labels": rng.integers(0, 10, BATCH),
    }


def value(k0: Any, k1: Any, w0: Any, w1: Any, w2: Any, x: Any, labels: Any) -> Any:
    def convolved(x: Any, k: Any) -> Any:
        patches = np.lib.stride_tricks.sliding_window_view(x, k.shape[:2], axis=(1, 2))  # (batch, y, x, channels, ky, kx)
        return np.einsum("byxcij,ijco->byxo", patches, k, optimize=True)

    def pooled(x: Any) -> Any:
        b, h, w, c = x.shape
        return x.reshape(b, h // 2, 2, w // 2, 2, c).mean(axis=(2, 4))

    h = pooled(np.maximum(convolved(np.pad(x, ((0, 0), (2, 2), (2, 2), (0, 0))), k0), 0.0))
    h = pooled(np.maximum(convolved(h, k1), 0.0)).reshape(len(x), -1)
    h = np.maximum(np.maximum(h @ w0, 0.0) @ w1, 0.0)
    logits = h @ w2
    top = logits.max(axis=1)
    return np.mean(np.log(np.exp(logits - top[:, None]).sum(axis=1)) + top - logits[np.arange(len(labels)), labels])


def objective(gt: Any, k0: Any, k1: Any, w0: Any, w1: Any, w2: Any, x: Any, labels: Any) -> Any:
    h = gt.nn.avg_pool2d(gt.nn.relu(gt.nn.conv2d(x, k0, 1, "SAME")), 2, 2, "VALID")
    h = gt.nn.avg_pool2d(gt.nn.relu(gt.nn.conv2d(h, k1, 1, "VALID")), 2, 2, "VALID")
    h = gt.nn.relu(gt.reshape(h, (BATCH, 400)) @ w0)
    h = gt.nn.relu(h @ w1)
    return gt.reduce_mean(gt.nn.sparse_softmax_cross_entropy_with_logits(labels, h @ w2))


WORKLOADS = (compiled("conv", "conv net (LeNet), batch 32", inputs, value, objective, WRT, (("fastest", 0.9), ("value", 3.3))),)
