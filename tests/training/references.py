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


def decayed(step: Step, rate: float, weight_decay: float) -> Step:
    return lambda w, g, t: step(w - rate * weight_decay * w, g, t)
