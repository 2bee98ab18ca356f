"""A network as the right-hand side of a differential equation

Noisy points on a spiral that decays. The motion is dx/dt = network(x³), integrated by Runge-Kutta; the gradient goes
through the solver's loop, which is compiled with it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _command import run

import gradtape as gt


def solve(quick: bool) -> dict[str, Any]:
    rng = np.random.default_rng(2)
    steps, dt = (40, 0.15) if quick else (80, 0.1)
    turn = gt.constant(np.array([[-0.1, -2.0], [2.0, -0.1]], "float32"))
    width = 32
    w1 = gt.Variable(rng.normal(0.0, 0.5, (2, width)).astype("float32"))
    b1 = gt.Variable(np.zeros(width, "float32"))
    w2 = gt.Variable(rng.normal(0.0, 0.3, (width, 2)).astype("float32"))
    weights = [w1, b1, w2]

    def truth(x: gt.Tensor) -> gt.Tensor:
        return (x**3) @ turn

    def network(x: gt.Tensor) -> gt.Tensor:
        return gt.tanh((x**3) @ w1 + b1) @ w2

    def integrate(field: Any, x: gt.Tensor) -> gt.Tensor:
        path = [x]
        for _ in range(steps):
            k1 = field(x)
            k2 = field(x + 0.5 * dt * k1)
            k3 = field(x + 0.5 * dt * k2)
            k4 = field(x + dt * k3)
            x = x + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
            path.append(x)
        return gt.stack(path)

    start = gt.constant([[2.0, 0.0]])
    clean = integrate(truth, start).numpy()
    seen = gt.constant(clean + rng.normal(0.0, 0.03, clean.shape).astype("float32"))
    optimizer = gt.optimizers.Adam(0.01)

    @gt.function
    def step(horizon: gt.Tensor) -> gt.Tensor:
        with gt.GradientTape() as tape:
            path = integrate(network, start)
            near = gt.cast(gt.range(steps + 1) < horizon, gt.float32)[:, None, None]  # first the near future, then all of it
            loss = gt.reduce_sum(near * (path - seen) ** 2) / gt.cast(horizon, gt.float32)
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss

    turns = 700 if quick else 2000
    losses = [float(step(gt.constant(min(10 + 2 * (steps * i) // turns, steps + 1)))) for i in range(turns)]
    path = integrate(network, start).numpy()
    assert losses[-1] < (0.5 if quick else 0.1), losses[-1]
    return {
        "summary": f"mean squared distance {losses[-1]:.4f}",
        "seen": seen.numpy()[:, 0],
        "path": path[:, 0],
        "clean": clean[:, 0],
        "losses": losses,
    }


def draw(left: Any, right: Any, seen: Any, path: Any, clean: Any, losses: Any) -> None:
    left.plot(*clean.T, lw=5, alpha=0.25, label="truth")
    left.plot(*seen.T, "k.", ms=3, label="seen")
    left.plot(*path.T, label="learned")
    left.legend(fontsize=8)
    left.set_aspect("equal")
    right.semilogy(losses)
    right.set_xlabel("step")
    right.set_title("squared distance")


if __name__ == "__main__":
    run(solve, draw, columns=2)
