"""Two spirals, told apart by a small network

The classic toy: points on two spirals that no straight line separates. A network with two hidden layers learns the
border; one training step, gradients and Adam included, is one compiled function.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from _command import run

import gradtape as gt


def spirals(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    radius = np.sqrt(rng.uniform(0.02, 1.0, n))
    label = rng.integers(0, 2, n)
    angle = 3.0 * np.pi * radius + np.pi * label
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1) + rng.normal(0.0, 0.02, (n, 2))
    return points.astype("float32"), label.astype("float32")


class Network(gt.Module):
    def __init__(self, sizes: tuple[int, ...], rng: np.random.Generator) -> None:
        super().__init__()
        pairs = list(pairwise(sizes))
        self.weights = [gt.Variable(rng.normal(0.0, 1.5 / np.sqrt(a), (a, b)).astype("float32")) for a, b in pairs]
        self.biases = [gt.Variable(np.zeros(b, "float32")) for _, b in pairs]

    def __call__(self, x: gt.Tensor) -> gt.Tensor:
        for w, b in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = gt.tanh(x @ w + b)
        return (x @ self.weights[-1] + self.biases[-1])[:, 0]


def solve(quick: bool) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    points, labels = spirals(300 if quick else 800, rng)
    network = Network((2, 32, 32, 1), rng)
    optimizer = gt.optimizers.Adam(0.01)

    @gt.function
    def step(x: gt.Tensor, y: gt.Tensor) -> gt.Tensor:
        with gt.GradientTape() as tape:
            loss = gt.reduce_mean(gt.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=network(x)))
        optimizer.apply_gradients(
            zip(tape.gradient(loss, network.trainable_variables), network.trainable_variables, strict=True)
        )
        return loss

    losses = [float(step(gt.constant(points), gt.constant(labels))) for _ in range(600 if quick else 2500)]
    right = np.mean((network(gt.constant(points)).numpy() > 0) == (labels > 0.5))
    assert right > 0.95, right
    side = np.linspace(-1.15, 1.15, 160).astype("float32")
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    belief = gt.sigmoid(network(gt.constant(grid))).numpy().reshape(160, 160)
    return {
        "summary": f"{right:.1%} of the points on their side",
        "points": points,
        "labels": labels,
        "side": side,
        "belief": belief,
        "losses": losses,
    }


def draw(left: Any, right: Any, points: Any, labels: Any, side: Any, belief: Any, losses: Any) -> None:
    left.contourf(side, side, belief, levels=20, cmap="RdBu", alpha=0.8)
    left.scatter(*points.T, c=labels, cmap="RdBu", s=8, edgecolors="k", linewidths=0.2)
    left.set_aspect("equal")
    left.set_title("what the network believes")
    right.semilogy(losses)
    right.set_xlabel("step")
    right.set_title("loss")


if __name__ == "__main__":
    run(solve, draw, columns=2)
