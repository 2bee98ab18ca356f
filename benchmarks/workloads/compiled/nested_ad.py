"""A derivative inside a loop that is differentiated: descent by an inner gradient until it is small, then by the parameters.

The inner problem is min over x of Σ log cosh(x·wᵢ - pᵢ) + |x|²/2 with 8 unknowns and 16 parameters.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Inputs, generator
from benchmarks.workloads.compiled.making import compiled, normal

UNKNOWNS, PARAMETERS, RATE, SMALL = 8, 16, 0.02, 1e-3
MOST = 400  # iterations, for libraries that need a bound; `value` checks it


def inputs() -> Inputs:
    rng = generator("nested_ad")
    return {"p": normal(rng, PARAMETERS), "w": normal(rng, UNKNOWNS, PARAMETERS, scale=0.5)}


def value(p: Any, w: Any) -> Any:
    x, turns = np.zeros(UNKNOWNS), 0
    while True:
        g = w @ np.tanh(x @ w - p) + x
        if g @ g <= SMALL**2:
            break
        x, turns = x - RATE * g, turns + 1
    assert turns <= MOST
    return x @ x


def objective(gt: Any, p: Any, w: Any) -> Any:
    x, size = gt.zeros((UNKNOWNS,)), 1.0
    while size > SMALL**2:
        with gt.GradientTape() as tape:
            tape.watch(x)
            r = x @ w - p
            # log cosh r = r + softplus(-2r) - log 2
            y = gt.reduce_sum(r + gt.nn.softplus(-2.0 * r)) + 0.5 * gt.reduce_sum(x * x)
        g = tape.gradient(y, x)
        size = gt.reduce_sum(g * g)
        if size > SMALL**2:
            x = x - RATE * g
    return gt.reduce_sum(x * x)


WORKLOADS = (
    compiled(
        "nested_ad",
        "derivative inside an unbounded while, differentiated",
        inputs,
        value,
        objective,
        ("p",),
        (("fastest", 0.9),),
    ),
)
