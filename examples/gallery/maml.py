"""Learning to learn: MAML on sine waves

Weights from which a few gradient steps suffice to learn any sine wave. The steps themselves are differentiated: a
gradient through gradients, here compiled as one function with the tape inside it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _command import run

import gradtape as gt


def solve(quick: bool) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    width, tasks, shots, inner = 40, 8, 10, 0.02
    sizes = ((1, width), (width,), (width, width), (width,), (width, 1), (1,))
    weights = [gt.Variable(rng.normal(0.0, 1.0 / np.sqrt(s[0]) if len(s) > 1 else 0.1, s).astype("float32")) for s in sizes]

    def network(w: list[gt.Tensor], x: gt.Tensor) -> gt.Tensor:
        h = gt.nn.silu(x @ w[0] + w[1])
        h = gt.nn.silu(h @ w[2] + w[3])
        return h @ w[4] + w[5]

    def adapted(w: list[gt.Tensor], x: gt.Tensor, y: gt.Tensor, steps: int) -> list[gt.Tensor]:
        for _ in range(steps):
            with gt.GradientTape() as tape:
                tape.watch(w)
                loss = gt.reduce_mean((network(w, x) - y) ** 2)
            w = [a - inner * g for a, g in zip(w, tape.gradient(loss, w), strict=True)]
        return w

    optimizer = gt.optimizers.Adam(0.002)

    @gt.function
    def step(x: gt.Tensor, y: gt.Tensor, x2: gt.Tensor, y2: gt.Tensor) -> gt.Tensor:
        with gt.GradientTape() as tape:
            total = 0.0
            for i in range(tasks):
                w = adapted([gt.identity(v) for v in weights], x[i], y[i], 1)
                total += gt.reduce_mean((network(w, x2[i]) - y2[i]) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(total, weights), weights, strict=True))
        return total / tasks

    def waves(count: int) -> tuple[np.ndarray, ...]:
        height, shift = rng.uniform(0.5, 3.0, (count, 1, 1)), rng.uniform(0.0, np.pi, (count, 1, 1))
        x, x2 = (rng.uniform(-5.0, 5.0, (count, shots, 1)) for _ in range(2))
        return tuple(v.astype("float32") for v in (x, height * np.sin(x - shift), x2, height * np.sin(x2 - shift)))

    losses = [float(step(*map(gt.constant, waves(tasks)))) for _ in range(300 if quick else 4000)]
    early, late = np.mean(losses[:20]), np.mean(losses[-20:])
    assert late < (0.9 if quick else 0.6) * early, (early, late)
    grid = np.linspace(-5.0, 5.0, 200, dtype="float32")[:, None]
    x = np.linspace(-4.5, 4.5, shots, dtype="float32")[:, None]
    y = (2.0 * np.sin(x - 1.0)).astype("float32")
    curves = {
        k: network(adapted([gt.identity(v) for v in weights], gt.constant(x), gt.constant(y), k), gt.constant(grid)).numpy()[
            :, 0
        ]
        for k in (0, 1, 10)
    }
    return {
        "summary": f"loss after one step {early:.2f} → {late:.2f}",
        "grid": grid[:, 0],
        "x": x,
        "y": y,
        "curves": curves,
        "losses": losses,
    }


def draw(left: Any, right: Any, grid: Any, x: Any, y: Any, curves: Any, losses: Any) -> None:
    left.plot(grid, 2.0 * np.sin(grid - 1.0), lw=5, alpha=0.25, label="truth")
    left.plot(x, y, "k.")
    for k, curve in curves.items():
        left.plot(grid, curve, label=f"after {k} steps")
    left.legend(fontsize=7)
    smooth = np.convolve(losses, np.ones(50) / 50, "valid") if len(losses) > 100 else losses
    right.plot(smooth)
    right.set_title("loss after one step")
    right.set_xlabel("meta step")


if __name__ == "__main__":
    run(solve, draw, columns=2)
