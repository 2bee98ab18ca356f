"""A differential equation solved by a network

A physics-informed network: u(x) is a small network, and the loss is how badly it fulfils `-u'' + u = f`, with
`u(0) = u(1) = 0`. The second derivative of the network with respect to its input stands inside the loss, and the loss is
differentiated again with respect to the weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _command import run

import gradtape as gt


def exact(x: np.ndarray) -> np.ndarray:
    return np.sin(3.0 * np.pi * x) + x * (1.0 - x)


def solve(quick: bool) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    width = 24
    w1 = gt.Variable(rng.normal(0.0, 4.0, (1, width)))
    b1 = gt.Variable(rng.uniform(-4.0, 4.0, width))
    w2 = gt.Variable(rng.normal(0.0, 1.0 / np.sqrt(width), (width, width)))
    w3 = gt.Variable(rng.normal(0.0, 1.0 / np.sqrt(width), (width, 1)))
    weights = [w1, b1, w2, w3]
    x = gt.constant(np.linspace(0.0, 1.0, 40 if quick else 80)[:, None])
    source = (9.0 * np.pi**2 + 1.0) * np.sin(3.0 * np.pi * x.numpy()) + 2.0 + x.numpy() * (1.0 - x.numpy())

    def u(x: gt.Tensor) -> gt.Tensor:
        return x * (1.0 - x) * (gt.tanh(gt.tanh(x @ w1 + b1) @ w2) @ w3)  # zero at both ends by construction

    optimizer = gt.optimizers.Adam(gt.optimizers.schedules.ExponentialDecay(0.02, 500, 0.7))

    @gt.function
    def step() -> gt.Tensor:
        with gt.GradientTape() as tape:
            with gt.GradientTape() as second:
                second.watch(x)
                with gt.GradientTape() as first:
                    first.watch(x)
                    value = u(x)
                slope = first.gradient(value, x)
            bend = second.gradient(slope, x)
            loss = gt.reduce_mean((-bend + value - source) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss

    losses = [float(step()) for _ in range(800 if quick else 4000)]
    error = float(np.abs(u(x).numpy() - exact(x.numpy())).max())
    assert error < (0.2 if quick else 0.02), error
    return {"summary": f"largest error {error:.1e}", "x": x.numpy()[:, 0], "u": u(x).numpy()[:, 0], "losses": losses}


def draw(left: Any, right: Any, x: Any, u: Any, losses: Any) -> None:
    fine = np.linspace(0.0, 1.0, 300)
    left.plot(fine, exact(fine), lw=4, alpha=0.35, label="exact")
    left.plot(x, u, ".", ms=4, label="network")
    left.legend()
    left.set_title("-u'' + u = f")
    right.semilogy(losses)
    right.set_xlabel("step")
    right.set_title("residual")


if __name__ == "__main__":
    run(solve, draw, columns=2)
