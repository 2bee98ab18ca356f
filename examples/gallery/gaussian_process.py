"""A Gaussian process that chooses its own kernel

The marginal likelihood of a Gaussian process through a Cholesky factor, differentiated with respect to length scale,
height and noise; Newton's method with the exact Hessian needs a handful of steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _command import run

import gradtape as gt


def kernel(p: gt.Tensor, a: Any, b: Any) -> gt.Tensor:
    return gt.exp(2.0 * p[1]) * gt.exp(-0.5 * (a[:, None] - b[None]) ** 2 / gt.exp(2.0 * p[0]))


def solve(quick: bool) -> dict[str, Any]:
    rng = np.random.default_rng(8)
    n = 24 if quick else 60
    x = gt.constant(np.sort(rng.uniform(-3.0, 3.0, n)))
    y = gt.constant(np.sin(2.0 * x.numpy()) + 0.3 * x.numpy() + rng.normal(0.0, 0.2, n))

    @gt.function
    def loss(p: gt.Tensor) -> gt.Tensor:
        factor = gt.linalg.cholesky(kernel(p, x, x) + gt.exp(2.0 * p[2]) * np.eye(n))
        z = gt.linalg.triangular_solve(factor, y[:, None])
        return 0.5 * gt.reduce_sum(z**2) + gt.reduce_sum(gt.math.log(gt.linalg.diag_part(factor)))

    p, trail = np.log([0.3, 1.0, 0.5]), []
    slope, curve = gt.grad(loss), gt.hessian(loss)
    for _ in range(30):
        g, h = slope(gt.constant(p)).numpy(), curve(gt.constant(p)).numpy()
        values, vectors = np.linalg.eigh(h)
        move = -vectors @ ((vectors.T @ g) / np.maximum(np.abs(values), 1.0))  # downhill also where the surface bends down
        trail.append(float(np.linalg.norm(g)))
        p = p + move * min(1.0, 0.7 / np.abs(move).max())
        if trail[-1] < 1e-8:
            break
    assert trail[-1] < 1e-6, trail
    noise = float(np.exp(p[2]))
    assert 0.1 < noise < 0.35, noise
    grid = np.linspace(-3.5, 3.5, 200)
    k, ks, kss = (kernel(p, a, b).numpy() for a, b in ((x.numpy(), x.numpy()), (grid, x.numpy()), (grid, grid)))
    k = k + noise**2 * np.eye(n)
    mean, cover = ks @ np.linalg.solve(k, y.numpy()), kss - ks @ np.linalg.solve(k, ks.T)
    summary = f"noise {noise:.3f} (true 0.2), length {np.exp(p[0]):.2f}, {len(trail)} Newton steps"
    return {
        "summary": summary,
        "x": x.numpy(),
        "y": y.numpy(),
        "grid": grid,
        "mean": mean,
        "std": np.sqrt(np.diag(cover)),
        "trail": trail,
    }


def draw(left: Any, right: Any, x: Any, y: Any, grid: Any, mean: Any, std: Any, trail: Any) -> None:
    left.fill_between(grid, mean - 2 * std, mean + 2 * std, alpha=0.25)
    left.plot(grid, mean)
    left.plot(x, y, "k.", ms=4)
    right.semilogy(trail, "o-")
    right.set_title("norm of the gradient")
    right.set_xlabel("Newton step")


if __name__ == "__main__":
    run(solve, draw, columns=2)
