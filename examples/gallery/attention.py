"""Attention learns to look back

Sequences of digits that must be turned around. One layer of attention with learned positions finds out where to look;
the picture is its map of weights: the antidiagonal.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _command import run

import gradtape as gt


def solve(quick: bool) -> dict[str, Any]:
    rng = np.random.default_rng(4)
    length, digits, width, batch = (6, 5, 24, 32) if quick else (10, 10, 32, 64)

    def weight(*shape: int) -> gt.Variable:
        return gt.Variable(rng.normal(0.0, 1.0 / np.sqrt(shape[0]), shape).astype("float32"))

    table, places = weight(digits, width), weight(length, width)
    q, k, v, out = weight(width, width), weight(width, width), weight(width, width), weight(width, digits)
    weights = [table, places, q, k, v, out]

    def forward(tokens: gt.Tensor) -> tuple[gt.Tensor, gt.Tensor]:
        x = gt.gather(table, tokens) + places
        scores = gt.einsum("btd,bsd->bts", (x @ q), (x @ k)) / np.float32(np.sqrt(width))
        look = gt.nn.softmax(scores)
        return (look @ (x @ v)) @ out, look

    optimizer = gt.optimizers.Adam(0.01)

    @gt.function
    def step(tokens: gt.Tensor) -> gt.Tensor:
        with gt.GradientTape() as tape:
            logits, _ = forward(tokens)
            wanted = gt.reverse(tokens, axis=[1])
            loss = gt.reduce_mean(gt.nn.sparse_softmax_cross_entropy_with_logits(labels=wanted, logits=logits))
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss

    losses = [float(step(gt.constant(rng.integers(0, digits, (batch, length))))) for _ in range(250 if quick else 700)]
    test = rng.integers(0, digits, (200, length))
    logits, look = forward(gt.constant(test))
    right = float(np.mean(np.argmax(logits.numpy(), axis=-1) == test[:, ::-1]))
    assert right > 0.9, right
    return {"summary": f"{right:.1%} of the digits right", "look": look.numpy().mean(axis=0), "losses": losses}


def draw(left: Any, right: Any, look: Any, losses: Any) -> None:
    left.imshow(look, cmap="viridis")
    left.set_title("who looks where")
    left.set_xlabel("position looked at")
    left.set_ylabel("position")
    right.semilogy(losses)
    right.set_title("loss")
    right.set_xlabel("step")


if __name__ == "__main__":
    run(solve, draw, columns=2)
