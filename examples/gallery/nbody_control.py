"""A spacecraft steered among planets

Which push at the start brings a spacecraft past two heavy bodies to a target, arriving slowly? The flight is a loop of
leapfrog steps; its gradient with respect to the push and to a few later burns is one backward program, which SciPy's
BFGS follows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.optimize
from _command import run

import gradtape as gt

BODIES = np.array([[1.2, 0.4], [2.4, -0.5]])
MASSES = np.array([0.6, 0.8])
TARGET = np.array([3.6, 0.6])


def solve(quick: bool) -> dict[str, Any]:
    steps = 120 if quick else 400
    dt, burns = 4.0 / steps, 4

    def pull(x: gt.Tensor) -> gt.Tensor:
        away = x - BODIES
        distance = gt.sqrt(gt.reduce_sum(away**2, axis=1) + 0.02)
        return -gt.reduce_sum(MASSES[:, None] * away / distance[:, None] ** 3, axis=0)

    @gt.function
    def fly(burn: gt.Tensor) -> gt.Tensor:
        x, v = gt.constant(np.zeros(2)), gt.constant(np.zeros(2))
        path = gt.zeros((steps + 1, 2), gt.float64)
        for i in range(steps):
            if i % (steps // burns) == 0:
                v = v + burn[i // (steps // burns)]
            v = v + 0.5 * dt * pull(x)
            x = x + dt * v
            v = v + 0.5 * dt * pull(x)
            path[i + 1] = x
        return path

    @gt.function
    def cost(flat: gt.Tensor) -> gt.Tensor:
        burn = gt.reshape(flat, (burns, 2))
        path = fly(burn)
        miss = gt.reduce_sum((path[-1] - TARGET) ** 2)
        speed = gt.reduce_sum(((path[-1] - path[-2]) / dt) ** 2)
        return 50.0 * miss + 0.5 * speed + 0.05 * gt.reduce_sum(burn**2)

    guess = np.zeros((burns, 2))
    guess[0] = (0.9, -0.6)
    first = fly(gt.constant(guess)).numpy()
    answer = scipy.optimize.minimize(
        gt.value_and_grad(cost), guess.ravel(), jac=True, method="BFGS", options={"maxiter": 60 if quick else 300}
    )
    path = fly(gt.constant(answer.x.reshape(burns, 2))).numpy()
    miss = float(np.linalg.norm(path[-1] - TARGET))
    assert miss < 0.1, miss
    return {"summary": f"missed by {miss:.1e} after {answer.nit} iterations", "first": first, "path": path}


def draw(axes: Any, first: Any, path: Any) -> None:
    axes.scatter(*BODIES.T, s=200 * MASSES, c="tab:orange", label="planets", zorder=3)
    axes.plot(*first.T, "--", c="gray", label="first guess")
    axes.plot(*path.T, label="found")
    axes.plot(*TARGET, "r*", ms=14, label="target")
    axes.set_xlim(-0.4, 4.2)
    axes.set_ylim(-1.6, 1.6)
    axes.set_aspect("equal")
    axes.legend(fontsize=8, loc="lower left")


if __name__ == "__main__":
    run(solve, draw)
