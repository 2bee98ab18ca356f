"""The textbook update of each optimizer, in double precision, one array at a time: what the tests compare with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Step = Callable[[Any, Any, int], Any]  # value, gradient, step number from 1 → new value


def sgd(rate: float, momentum: float = 0.0, nesterov: bool = False) -> Step:
    m: Any = 0.0

    def step(w: Any, g: Any, t: int) -> Any:
        nonlocal m
        m = momentum * m - rate * g
        return w + (momentum * m - rate * g if nesterov else m)

    return step


def adam(rate: float, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-7, amsgrad: bool = False) -> Step:
    m: Any = 0.0
    v: Any = 0.0
    peak: Any = 0.0

    def step(w: Any, g: Any, t: int) -> Any:
        nonlocal m, v, peak
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g**2
        peak = np.maximum(peak, v)
        alpha = rate * np.sqrt(1 - b2**t) / (1 - b1**t)
        return w - alpha * m / (np.sqrt(peak if amsgrad else v) + eps)

    return step


def rmsprop(rate: float, rho: float = 0.9, momentum: float = 0.0, eps: float = 1e-7, centered: bool = False) -> Step:
    v: Any = 0.0
    mean: Any = 0.0
    m: Any = 0.0

    def step(w: Any, g: Any, t: int) -> Any:
        nonlocal v, mean, m
        v = rho * v + (1 - rho) * g**2
        mean = rho * mean + (1 - rho) * g
        m = momentum * m + rate * g / np.sqrt(v - (mean**2 if centered else 0.0) + eps)
        return w - m

    return step


def adagrad(rate: float, start: float = 0.1, eps: float = 1e-7) -> Step:
    total: Any = start

    def step(w: Any, g: Any, t: int) -> Any:
        nonlocal total
        total = total + g**2
        return w - rate * g / np.sqrt(total + eps)

    return step


def lion(rate: float, b1: float = 0.9, b2: float = 0.99) -> Step:
    m: Any = 0.0

    def step(w: Any, g: Any, t: int) -> Any:
        nonlocal m
        w = w - rate * np.sign(b1 * m + (1 - b1) * g)
        m = b2 * m + (1 - b2) * g
        return w

    return step


def adadelta(rate: float, rho: float = 0.95, eps: float = 1e-7) -> Step:
    squares: Any = 0.0
    steps: Any = 0.0

    def step(w: Any, g: Any, t: int) -> Any:
        nonlocal squares, steps
        squares = rho * squares + (1 - rho) * g**2
        delta = -np.sqrt(steps + eps) / np.sqrt(squares + eps) * g
        steps = rho * steps + (1 - rho) * delta**2
        return w + rate * delta

    return step


def adamax(rate: float, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-7) -> Step:
    m: Any = 0.0
    u: Any = 0.0

    def step(w: Any, g: Any, t: int) -> Any:
        nonlocal m, u
        m = b1 * m + (1 - b1) * g
        u = np.maximum(b2 * u, np.abs(g))
        return w - rate / (1 - b1**t) * m / (u + eps)

    return step


def nadam(rate: float, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-7) -> Step:
    m: Any = 0.0
    v: Any = 0.0

    def share(t: int) -> float:
        return b1 * (1 - 0.5 * 0.96**t)

    def step(w: Any, g: Any, t: int) -> Any:
        nonlocal m, v
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g**2
        product = np.prod([share(i) for i in range(1, t + 1)])
        ahead = share(t + 1) * m / (1 - product * share(t + 1)) + (1 - share(t)) * g / (1 - product)
        return w - rate * ahead / (np.sqrt(v / (1 - b2**t)) + eps)

    return step


def ftrl(
    rate: float,
    power: float = -0.5,
    start: float = 0.1,
    l1: float = 0.0,
    l2: float = 0.0,
    shrink: float = 0.0,
    beta: float = 0.0,
) -> Step:
    n: Any = start
    z: Any = 0.0

    def step(w: Any, g: Any, t: int) -> Any:
        nonlocal n, z
        total = n + g**2
        z = z + (g + 2 * shrink * w) - (total**-power - n**-power) / rate * w
        n = total
        quadratic = total**-power / rate + 2 * (l2 + beta / (2 * rate))
        return np.where(np.abs(z) > l1, (np.sign(z) * l1 - z) / quadratic, 0.0)

    return step


def decayed(step: Step, rate: float, weight_decay: float) -> Step:
    return lambda w, g, t: step(w - rate * weight_decay * w, g, t)
