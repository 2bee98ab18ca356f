"""A mixture of Gaussians by maximum likelihood

Three clouds of points, no labels. Means, Cholesky factors and weights of a mixture are found by gradient descent on the
log-likelihood, written with `logsumexp` and triangular solves as in a textbook.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _command import run

import gradtape as gt


def solve(quick: bool) -> dict[str, Any]:
    rng = np.random.default_rng(6)
    n, k = 300 if quick else 1200, 3
    centres = np.array([[0.0, 0.0], [3.0, 2.0], [-2.0, 3.0]])
    shapes = np.array([[[1.0, 0.6], [0.0, 0.5]], [[0.4, -0.3], [0.0, 0.9]], [[0.7, 0.0], [0.0, 0.7]]])
    label = rng.choice(k, n, p=[0.5, 0.3, 0.2])
    points = gt.constant(centres[label] + np.einsum("ni,nij->nj", rng.normal(size=(n, 2)), shapes[label]))

    means = gt.Variable(points.numpy()[rng.choice(n, k, replace=False)])
    logs = gt.Variable(np.zeros((k, 2)))
    skew = gt.Variable(np.zeros(k))
    logits = gt.Variable(np.zeros(k))
    parameters = [means, logs, skew, logits]

    def factor() -> gt.Tensor:
        scale = gt.exp(logs)
        rows = [gt.stack([scale[:, 0], gt.zeros_like(skew)], axis=1), gt.stack([skew, scale[:, 1]], axis=1)]
        return gt.stack(rows, axis=1)

    def log_density(x: gt.Tensor) -> gt.Tensor:
        away = gt.transpose(x[None] - means[:, None], (0, 2, 1))
        z = gt.linalg.triangular_solve(factor(), away)
        each = -0.5 * gt.reduce_sum(z**2, axis=1) - gt.reduce_sum(logs, axis=1)[:, None] - np.log(2.0 * np.pi)
        return gt.reduce_logsumexp(each + gt.nn.log_softmax(logits)[:, None], axis=0)

    optimizer = gt.optimizers.Adam(0.05)

    @gt.function
    def step() -> gt.Tensor:
        with gt.GradientTape() as tape:
            loss = -gt.reduce_mean(log_density(points))
        optimizer.apply_gradients(zip(tape.gradient(loss, parameters), parameters, strict=True))
        return loss

    losses = [float(step()) for _ in range(300 if quick else 600)]
    distances = np.linalg.norm(means.numpy()[:, None] - centres[None], axis=-1)
    assert distances.min(axis=0).max() < 0.6, distances
    side = np.linspace(-5.0, 5.5, 120)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    density = np.exp(log_density(gt.constant(grid)).numpy()).reshape(120, 120)
    summary = f"centres found within {distances.min(axis=0).max():.2f}"
    return {
        "summary": summary,
        "points": points.numpy(),
        "means": means.numpy(),
        "side": side,
        "density": density,
        "losses": losses,
    }


def draw(left: Any, right: Any, points: Any, means: Any, side: Any, density: Any, losses: Any) -> None:
    left.plot(*points.T, ".", ms=2, c="gray")
    left.contour(side, side, density, levels=8, cmap="viridis")
    left.plot(*means.T, "r+", ms=14, mew=2)
    left.set_aspect("equal")
    right.plot(losses)
    right.set_title("negative log-likelihood")
    right.set_xlabel("step")


if __name__ == "__main__":
    run(solve, draw, columns=2)
