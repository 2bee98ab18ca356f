"""A pendulum that learns to stand up

A cart with a pole hanging down. The force over four seconds is found so that the pole stands upright at the end: a
hundred and twenty unknowns, the dynamics as a compiled loop, its gradient in the hands of L-BFGS.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.optimize
from _command import run

import gradtape as gt

CART, POLE, LENGTH, GRAVITY = 1.0, 0.3, 0.8, 9.81


def solve(quick: bool) -> dict[str, Any]:
    steps = 80 if quick else 120
    dt = 4.0 / steps

    def field(s: gt.Tensor, force: gt.Tensor) -> gt.Tensor:
        angle, speed, spin = s[1], s[2], s[3]
        sine, cosine = gt.sin(angle), gt.cos(angle)
        down = CART + POLE * sine**2
        push = (force + POLE * sine * (LENGTH * spin**2 + GRAVITY * cosine)) / down
        turn = (-force * cosine - POLE * LENGTH * spin**2 * cosine * sine - (CART + POLE) * GRAVITY * sine) / (LENGTH * down)
        return gt.stack([speed, spin, push, turn])

    @gt.function
    def simulate(forces: gt.Tensor) -> gt.Tensor:
        s = gt.constant(np.zeros(4))
        path = gt.zeros((steps + 1, 4), gt.float64)
        for i in range(steps):
            middle = s + 0.5 * dt * field(s, forces[i])
            s = s + dt * field(middle, forces[i])
            path[i + 1] = s
        return path

    @gt.function
    def cost(forces: gt.Tensor) -> gt.Tensor:
        path = simulate(forces)
        end = path[-8:]
        upright = gt.reduce_mean(
            (gt.cos(end[:, 1]) + 1.0) ** 2 + 0.05 * end[:, 3] ** 2 + 0.1 * end[:, 0] ** 2 + 0.05 * end[:, 2] ** 2
        )
        return 100.0 * upright + 0.01 * gt.reduce_mean(forces**2) + 0.1 * gt.reduce_mean(path[:, 0] ** 2)

    guess = 2.0 * np.sin(np.linspace(0.0, 4.0 * np.pi, steps))
    answer = scipy.optimize.minimize(
        gt.value_and_grad(cost), guess, jac=True, method="L-BFGS-B", options={"maxiter": 300 if quick else 800}
    )
    path = simulate(gt.constant(answer.x)).numpy()
    assert np.cos(path[-1, 1]) < -0.95, np.cos(path[-1, 1])
    return {"summary": f"height of the pole at the end {-np.cos(path[-1, 1]):.3f}", "path": path, "forces": answer.x, "dt": dt}


def draw(left: Any, right: Any, path: Any, forces: Any, dt: float) -> None:
    for i in range(0, len(path), max(1, len(path) // 30)):
        x, angle = path[i, 0], path[i, 1]
        shade = str(0.85 - 0.85 * i / len(path))
        left.plot([x, x + LENGTH * np.sin(angle)], [0.0, -LENGTH * np.cos(angle)], "o-", c=shade, ms=3)
    left.set_aspect("equal")
    left.set_title("late is dark")
    right.step(dt * np.arange(len(forces)), forces)
    right.set_title("force")
    right.set_xlabel("seconds")


if __name__ == "__main__":
    run(solve, draw, columns=2)
