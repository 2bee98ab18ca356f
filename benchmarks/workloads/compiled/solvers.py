"""Solvers written as loops: forward substitution with a triangular matrix, and the Levinson-Durbin recursion."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Inputs, generator
from benchmarks.workloads.compiled.making import compiled, normal

TRIANGULAR, DURBIN = 400, 256
GOALS = (("c", 1.5),)


def triangular_inputs() -> Inputs:
    rng = generator("triangular")
    matrix = np.tril(normal(rng, TRIANGULAR, TRIANGULAR, scale=0.5 / np.sqrt(TRIANGULAR)), -1)
    matrix += np.diag(rng.uniform(1.0, 2.0, TRIANGULAR).astype(np.float32))
    return {"m": matrix, "b": normal(rng, TRIANGULAR)}


def triangular_value(m: Any, b: Any) -> Any:
    x = np.zeros(len(b))
    for i in range(len(b)):
        x[i] = (b[i] - m[i, :i] @ x[:i]) / m[i, i]
    return np.sum(x * x)


def triangular(gt: Any, m: Any, b: Any) -> Any:
    n = b.shape[0]
    x = gt.zeros((n,))
    for i in gt.range(n):
        x[i] = (b[i] - gt.reduce_sum(m[i, :i] * x[:i])) / m[i, i]
    return gt.reduce_sum(x * x)


def durbin_inputs() -> Inputs:
    # autocorrelations of a sum of decaying terms: positive definite, so the recursion is stable
    k = np.arange(1, DURBIN + 1)
    return {"r": (0.4 * 0.9**k + 0.3 * 0.5**k + 0.1 * np.cos(0.7 * k) * 0.95**k).astype(np.float32)}


def durbin_value(r: Any) -> Any:
    n = len(r)
    y = np.zeros(n)
    y[0] = alpha = -r[0]
    beta = 1.0
    for k in range(1, n):
        beta = (1.0 - alpha * alpha) * beta
        alpha = -(r[k] + r[:k][::-1] @ y[:k]) / beta
        y[:k] = y[:k] + alpha * y[:k][::-1]
        y[k] = alpha
    return np.sum(y * y)


def durbin(gt: Any, r: Any) -> Any:
    n = r.shape[0]
    y = gt.zeros((n,))
    alpha = -r[0]
    y[0] = alpha
    beta = 1.0
    for k in gt.range(1, n):
        beta = (1.0 - alpha * alpha) * beta
        alpha = -(r[k] + gt.reduce_sum(r[:k][::-1] * y[:k])) / beta
        y[:k] = y[:k] + alpha * y[:k][::-1]
        y[k] = alpha
    return gt.reduce_sum(y * y)


WORKLOADS = (
    compiled(
        "triangular", "triangular solve as a loop, n 400", triangular_inputs, triangular_value, triangular, ("m", "b"), GOALS
    ),
    compiled("durbin", "Levinson-Durbin recursion, n 256", durbin_inputs, durbin_value, durbin, ("r",), GOALS),
)
