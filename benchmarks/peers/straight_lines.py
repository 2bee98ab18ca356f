"""The straight code of `benchmarks/loop_programs.py` for TensorFlow and PyTorch, value and gradient compiled: how first calls
grow with its length. Whoever imports this module needs neither; `gradient` imports the one it is asked for."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any


def drawn(n: int) -> list[tuple[int, int]]:
    """What each step does, and to which of the last values: drawn beforehand, as `torch.compile` does not trace a generator."""
    draw, steps, count = random.Random(5), [], 0
    while count < n:
        steps.append((draw.randrange(5), draw.randrange(min(len(steps) + 2, 6))))
        count += 2 if steps[-1][0] < 3 else 3
    return steps


def straight_line(steps: list[tuple[int, int]], x: Any, library: Any, full: Callable[[float], Any]) -> Any:
    past = [full(0.3) * x, full(0.2) * x]
    for kind, place in steps:
        y = past[place]
        if kind == 0:
            y = library.sin(y) * 0.9
        elif kind == 1:
            y = y * past[-1] + 0.1
        elif kind == 2:
            y = library.tanh(y) - past[-2]
        elif kind == 3:
            y = y / (1.0 + y * y)
        else:
            y = library.exp(-y) + x
        past = [*past[-5:], y]
    return past[-1]


def _tensorflow(n: int) -> Callable[[float], tuple[Any, Any]]:
    import tensorflow as tf

    steps = drawn(n)

    @tf.function(autograph=False)
    def compiled(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(straight_line(steps, x, tf, lambda value: tf.fill((8,), value)))
        return y, tape.gradient(y, x)

    def call(point: float) -> tuple[Any, Any]:
        value, gradient = compiled(tf.constant(point))
        return value.numpy(), gradient.numpy()

    return call


def _torch(n: int) -> Callable[[float], tuple[Any, Any]]:
    import torch

    steps = drawn(n)

    @torch.compile(fullgraph=True)
    def compiled(x: Any) -> Any:
        return straight_line(steps, x, torch, lambda value: torch.full((8,), value)).sum()

    def call(point: float) -> tuple[Any, Any]:
        x = torch.tensor(point, requires_grad=True)
        y = compiled(x)
        y.backward()
        return y.item(), x.grad.item()

    return call


GRADIENTS = {"tf_function": _tensorflow, "torch_compile": _torch}
