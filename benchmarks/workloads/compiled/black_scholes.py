"""The mean price of 10⁶ European calls, differentiated by spot, strike and time of each: a long chain of element operations."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Inputs, generator
from benchmarks.workloads.compiled.making import compiled

OPTIONS, RATE, VOLATILITY = 1_000_000, 0.03, 0.25


def inputs() -> Inputs:
    rng = generator("black_scholes")
    bounds = {"spot": (60.0, 140.0), "strike": (60.0, 140.0), "time": (0.2, 2.0)}
    return {name: rng.uniform(*ends, OPTIONS).astype(np.float32) for name, ends in bounds.items()}


def value(spot: Any, strike: Any, time: Any) -> Any:
    from scipy.special import ndtr

    spread = VOLATILITY * np.sqrt(time)
    d1 = (np.log(spot / strike) + (RATE + 0.5 * VOLATILITY**2) * time) / spread
    return np.mean(spot * ndtr(d1) - strike * np.exp(-RATE * time) * ndtr(d1 - spread))


def objective(gt: Any, spot: Any, strike: Any, time: Any) -> Any:
    spread = VOLATILITY * gt.sqrt(time)
    d1 = (gt.math.log(spot / strike) + (RATE + 0.5 * VOLATILITY**2) * time) / spread
    first, second = (0.5 + 0.5 * gt.math.erf(d * 0.5**0.5) for d in (d1, d1 - spread))
    return gt.reduce_mean(spot * first - strike * gt.exp(-RATE * time) * second)


WORKLOADS = (
    compiled(
        "black_scholes", "Black–Scholes, 10⁶ options", inputs, value, objective, ("spot", "strike", "time"), (("fastest", 0.6),)
    ),
)
