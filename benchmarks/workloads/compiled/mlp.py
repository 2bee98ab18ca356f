"""A training step's gradient of a perceptron, 784-512-512-10, batch 128, as in the eager table."""

from __future__ import annotations

from typing import Any

from benchmarks.workloads.compiled.making import compiled
from benchmarks.workloads.mlp import PARAMETERS, inputs, value


def objective(gt: Any, x: Any, labels: Any, w0: Any, b0: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
    h = gt.nn.relu(x @ w0 + b0)
    h = gt.nn.relu(h @ w1 + b1)
    return gt.reduce_mean(gt.nn.sparse_softmax_cross_entropy_with_logits(labels, h @ w2 + b2))


WORKLOADS = (
    compiled("mlp", "MLP 784-512-512-10, batch 128", inputs, value, objective, PARAMETERS, (("fastest", 0.9), ("value", 3.3))),
)
