"""Options: prices by simulation, sensitivities by one gradient

An average-price option under stochastic volatility has no formula. Its price is a mean over simulated paths; delta,
vega and the others are the gradient of that mean with the same random numbers. For a plain option the same program must
agree with Black and Scholes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _command import run

import gradtape as gt


def solve(quick: bool) -> dict[str, Any]:
    paths, steps, strike = (20_000 if quick else 100_000), 50, 100.0
    dt = 1.0 / steps
    rng = np.random.default_rng(7)
    shocks = gt.constant(rng.normal(size=(steps, 2, paths // 2)))
    shocks = gt.concat([shocks, -shocks], axis=2)  # antithetic

    @gt.function
    def price(p: dict[str, gt.Tensor], shocks: gt.Tensor, average: bool) -> gt.Tensor:
        log_s, variance = gt.math.log(p["spot"]) + gt.zeros_like(shocks[0, 0]), p["vol"] ** 2 + gt.zeros_like(shocks[0, 0])
        total = gt.zeros_like(log_s)
        for i in range(steps):
            root = gt.sqrt(gt.maximum(variance, 1e-8) * dt)
            log_s = log_s + (p["rate"] - 0.5 * variance) * dt + root * shocks[i, 0]
            twin = -0.6 * shocks[i, 0] + 0.8 * shocks[i, 1]
            variance = variance + 2.0 * (p["vol"] ** 2 - variance) * dt + p["volvol"] * root * twin
            total = total + gt.exp(log_s)
        final = total / steps if average else gt.exp(log_s)
        return gt.exp(-p["rate"]) * gt.reduce_mean(gt.maximum(final - strike, 0.0))

    def ask(spot: float, volvol: float, average: bool) -> tuple[float, dict[str, float]]:
        p = {k: gt.constant(np.float64(v)) for k, v in {"spot": spot, "vol": 0.2, "rate": 0.03, "volvol": volvol}.items()}
        with gt.GradientTape() as tape:
            tape.watch(p)
            value = price(p, shocks, average)
        return float(value), {k: float(g) for k, g in tape.gradient(value, p).items()}

    from scipy.special import ndtr

    d1 = (np.log(1.0) + 0.03 + 0.5 * 0.04) / 0.2
    exact = 100.0 * ndtr(d1) - 100.0 * np.exp(-0.03) * ndtr(d1 - 0.2)
    value, greeks = ask(100.0, 0.0, False)
    assert abs(value - exact) < 0.15, (value, exact)
    assert abs(greeks["spot"] - ndtr(d1)) < 0.01, greeks
    spots = np.linspace(75.0, 130.0, 8 if quick else 24)
    asked = [ask(s, 0.3, True) for s in spots]
    summary = f"plain option {value:.3f} (formula {exact:.3f}), delta {greeks['spot']:.4f} (formula {ndtr(d1):.4f})"
    return {"summary": summary, "spots": spots, "asked": asked}


def draw(left: Any, right: Any, spots: Any, asked: Any) -> None:
    left.plot(spots, [v for v, _ in asked])
    left.set_title("average-price call")
    left.set_xlabel("spot")
    right.plot(spots, [g["spot"] for _, g in asked], label="delta")
    right.plot(spots, [g["vol"] / 50 for _, g in asked], label="vega / 50")
    right.plot(spots, [g["rate"] / 50 for _, g in asked], label="rho / 50")
    right.legend(fontsize=8)
    right.set_xlabel("spot")


if __name__ == "__main__":
    run(solve, draw, columns=2)
