"""A Kalman filter that finds its own noise

A filter tracks a position from noisy measurements. How noisy motion and sensor are is not known: both are found by
maximising the likelihood, whose gradient goes through the filter's recursion, matrix by matrix.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.optimize
from _command import run

import gradtape as gt

F = np.array([[1.0, 1.0], [0.0, 1.0]])
H = np.array([[1.0, 0.0]])
G = np.array([[0.25, 0.5], [0.5, 1.0]])  # noise of a random acceleration


def solve(quick: bool) -> dict[str, Any]:
    rng = np.random.default_rng(5)
    n, motion, sensor = 120 if quick else 400, 0.05, 2.0
    state, truth = np.zeros(2), []
    for _ in range(n):
        state = F @ state + np.array([0.5, 1.0]) * rng.normal(0.0, motion)
        truth.append(state[0])
    seen = gt.constant(np.array(truth) + rng.normal(0.0, sensor, n))

    @gt.function
    def filtered(noise: gt.Tensor) -> tuple[gt.Tensor, gt.Tensor, gt.Tensor]:
        q, r = gt.exp(2.0 * noise[0]) * G, gt.exp(2.0 * noise[1])
        x, p = gt.constant(np.zeros((2, 1))), gt.constant(np.eye(2) * 10.0)
        fit, path, width = gt.constant(np.float64(0.0)), gt.zeros((n,), gt.float64), gt.zeros((n,), gt.float64)
        for i in range(n):
            x, p = F @ x, F @ p @ F.T + q
            surprise = seen[i] - (H @ x)[0, 0]
            spread = (H @ p @ H.T)[0, 0] + r
            gain = p @ H.T / spread
            x, p = x + gain * surprise, p - gain @ H @ p
            fit = fit + 0.5 * (gt.math.log(spread) + surprise**2 / spread)
            path[i] = x[0, 0]
            width[i] = gt.sqrt(p[0, 0])
        return fit, path, width

    cost = gt.value_and_grad(lambda noise: filtered(noise)[0])
    answer = scipy.optimize.minimize(cost, np.log([0.5, 0.5]), jac=True, method="BFGS")
    found = np.exp(answer.x)
    assert 0.7 < found[1] / sensor < 1.4, found
    _, path, width = filtered(gt.constant(answer.x))
    summary = f"sensor noise {found[1]:.2f} (true {sensor}), motion noise {found[0]:.3f} (true {motion})"
    return {"summary": summary, "truth": np.array(truth), "seen": seen.numpy(), "path": path.numpy(), "width": width.numpy()}


def draw(left: Any, right: Any, truth: Any, seen: Any, path: Any, width: Any) -> None:
    time, first = np.arange(len(truth)), slice(0, 60)
    left.plot(time[first], seen[first], ".", ms=4, c="gray", label="measured")
    left.plot(time[first], truth[first], c="k", lw=1, label="true")
    left.plot(time[first], path[first], c="tab:blue", label="filtered")
    left.set_title("position, the first steps")
    left.legend(fontsize=8)
    right.plot(time, seen - truth, ".", ms=3, c="gray", label="measured")
    right.plot(time, path - truth, c="tab:blue", label="filtered")
    right.fill_between(time, -2 * width, 2 * width, alpha=0.3, label="what the filter expects, 2σ")
    right.set_ylim(-7.0, 7.0)
    right.set_title("distance from the truth")
    right.legend(fontsize=8, loc="lower right")
    for axes in (left, right):
        axes.set_xlabel("step")


if __name__ == "__main__":
    run(solve, draw, columns=2)
