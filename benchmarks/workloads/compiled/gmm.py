"""The log-likelihood of a Gaussian mixture with full covariances: 25 components in 20 dimensions, 1,000 points.

The inverse of a covariance's root is a triangular matrix with exp of `diagonal` on its diagonal and `lower` below it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Inputs, generator
from benchmarks.workloads.compiled.making import compiled, normal

D, K, N = 20, 25, 1000
WRT = ("alphas", "means", "diagonal", "lower")


def inputs() -> Inputs:
    rng = generator("gmm")
    return {
        "alphas": normal(rng, K),
        "means": normal(rng, K, D, scale=0.5),
        "diagonal": normal(rng, K, D, scale=0.2),
        "lower": normal(rng, K, D, D, scale=0.1),
        "points": normal(rng, N, D),
        "below": np.tril(np.ones((D, D), np.float32), -1),
        "unit": np.eye(D, dtype=np.float32),
    }


def value(alphas: Any, means: Any, diagonal: Any, lower: Any, points: Any, below: Any, unit: Any, np: Any = np) -> Any:
    root = lower * below + np.exp(diagonal)[:, :, None] * unit
    # root·(point - mean) for all points and components: one product for the points, a small one for the means
    moved = np.reshape(points @ np.reshape(np.transpose(root, (2, 0, 1)), (D, K * D)), (N, K, D))
    moved = moved - np.sum(root * means[:, None, :], axis=2)
    terms = alphas + np.sum(diagonal, axis=1) - 0.5 * np.sum(moved * moved, axis=2)
    top = np.max(terms, axis=1)
    each = np.log(np.sum(np.exp(terms - top[:, None]), axis=1)) + top
    return np.sum(each) / N - np.log(np.sum(np.exp(alphas)))


def objective(gt: Any, alphas: Any, means: Any, diagonal: Any, lower: Any, points: Any, below: Any, unit: Any) -> Any:
    root = lower * below + gt.exp(diagonal)[:, :, None] * unit
    moved = gt.reshape(points @ gt.reshape(gt.transpose(root, (2, 0, 1)), (D, K * D)), (N, K, D))
    moved = moved - gt.reduce_sum(root * means[:, None, :], axis=2)
    terms = alphas + gt.reduce_sum(diagonal, axis=1) - 0.5 * gt.reduce_sum(moved * moved, axis=2)
    return gt.reduce_sum(gt.reduce_logsumexp(terms, axis=1)) / N - gt.reduce_logsumexp(alphas)


WORKLOADS = (
    compiled("gmm", "Gaussian mixture, d 20, k 25, n 1,000", inputs, value, objective, WRT, (("fastest", 0.9), ("value", 3.0))),
)
