"""What a plate is made of, from a few thermometers

Heat spreads through a plate whose conductivity is unknown. Twenty-five sensors watch the temperature for a while; the
conductivity is found by following the gradient of the misfit through the whole simulation. The sweeps write the grid in
place.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.optimize
from _command import run

import gradtape as gt


def solve(quick: bool) -> dict[str, Any]:
    n, steps = (16, 60) if quick else (28, 150)
    y, x = np.mgrid[0 : 1 : n * 1j, 0 : 1 : n * 1j]
    truth = (
        0.4
        + 0.5 * np.exp(-(((x - 0.35) ** 2 + (y - 0.6) ** 2) / 0.03))
        - 0.25 * np.exp(-(((x - 0.75) ** 2 + (y - 0.3) ** 2) / 0.02))
    )
    sensors = np.linspace(2, n - 3, 5).round().astype(int)

    @gt.function
    def simulate(k: gt.Tensor) -> gt.Tensor:
        t = gt.zeros((n, n), gt.float64)
        t[0, :] = 1.0  # a hot side
        t[:, 0] = 0.5
        across = 0.5 * (k[:, 1:] + k[:, :-1])
        along = 0.5 * (k[1:, :] + k[:-1, :])
        seen = []
        for i in range(steps):
            flow = across * (t[:, 1:] - t[:, :-1])
            rise = along * (t[1:, :] - t[:-1, :])
            t[1:-1, 1:-1] += 0.24 * (flow[1:-1, 1:] - flow[1:-1, :-1] + rise[1:, 1:-1] - rise[:-1, 1:-1])
            if i % 10 == 9:
                seen.append(gt.gather(gt.gather(t, sensors), sensors, axis=1))
        return gt.stack(seen)

    measured = simulate(gt.constant(truth)).numpy()
    measured = measured + np.random.default_rng(0).normal(0.0, 1e-4, measured.shape)

    @gt.function
    def cost(flat: gt.Tensor) -> gt.Tensor:
        k = gt.exp(gt.reshape(flat, (n, n)))
        rough = gt.reduce_sum((k[1:] - k[:-1]) ** 2) + gt.reduce_sum((k[:, 1:] - k[:, :-1]) ** 2)
        return gt.reduce_sum((simulate(k) - measured) ** 2) + 2e-5 * rough

    start = np.full(n * n, np.log(0.4))
    answer = scipy.optimize.minimize(
        gt.value_and_grad(cost), start, jac=True, method="L-BFGS-B", options={"maxiter": 100 if quick else 400}
    )
    k = np.exp(answer.x.reshape(n, n))
    inner = np.s_[2:-2, 2:-2]
    error, before = (float(np.abs(v[inner] - truth[inner]).mean()) for v in (k, np.exp(start.reshape(n, n))))
    assert error < 0.8 * before, (error, before)
    return {"summary": f"mean error {error:.3f} (first guess {before:.3f})", "truth": truth, "found": k, "sensors": sensors}


def draw(left: Any, right: Any, truth: Any, found: Any, sensors: Any) -> None:
    for axes, values, title in ((left, truth, "conductivity, true"), (right, found, "found")):
        axes.imshow(values, vmin=0.1, vmax=0.9, cmap="magma")
        axes.set_title(title)
        axes.axis("off")
    right.scatter(*np.meshgrid(sensors, sensors), c="w", s=10)


if __name__ == "__main__":
    run(solve, draw, columns=2)
