"""Whether an answer is right: value and gradient against the plain NumPy objective, in float64.

The gradient is compared through directional derivatives by central differences, so that the reference needs no
derivative of its own and stays independent of every library measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.workload import Inputs, Workload, generator

VALUE_TOLERANCE = 1e-4  # all workloads run in float32
GRADIENT_TOLERANCE = 2e-3
DIRECTIONS = 3


def reference(workload: Workload) -> dict[str, Any]:
    """The value, and along a few random directions of `wrt` the derivative: what every peer must reproduce."""
    inputs = _double(workload.inputs())
    found: dict[str, Any] = {"value": float(workload.value(**inputs)), "along": []}
    for direction in _directions(workload):
        scale = 1e-7  # small: a wide step would cross the kinks of relu
        ahead, behind = (
            float(workload.value(**inputs | {n: inputs[n] + s * d for n, d in direction.items()})) for s in (scale, -scale)
        )
        found["along"].append((ahead - behind) / (2 * scale))
    return found


def answer(workload: Workload, value: Any, gradients: list[Any]) -> dict[str, Any]:
    """A peer's value and gradients reduced to what `reference` gives; without gradients only the value."""
    along = [
        sum(float(np.sum(np.asarray(g, np.float64) * d)) for g, d in zip(gradients, direction.values(), strict=True))
        for direction in (_directions(workload) if gradients else ())
    ]
    return {"value": float(value), "along": along}


def disagreement(want: dict[str, Any], have: dict[str, Any], value_only: bool = False) -> str:
    """Empty when the answer is right, else what is wrong with it."""
    error = abs(have["value"] - want["value"]) / max(abs(want["value"]), 1e-3)
    if not error <= VALUE_TOLERANCE:
        return f"value {have['value']:.6g}, expected {want['value']:.6g}"
    if value_only:
        return ""
    if len(have["along"]) != len(want["along"]):
        return "the gradient is missing"
    size = max((abs(w) for w in want["along"]), default=1.0)
    for h, w in zip(have["along"], want["along"], strict=True):
        if not abs(h - w) <= GRADIENT_TOLERANCE * max(size, 1e-3):
            return f"gradient along a direction {h:.6g}, expected {w:.6g}"
    return ""


def _double(inputs: Inputs) -> Inputs:
    return {k: v.astype(np.float64) if getattr(v, "dtype", None) == np.float32 else v for k, v in inputs.items()}


def _directions(workload: Workload) -> Iterator[dict[str, Any]]:
    """One at a time: the largest inputs have 10⁷ elements."""
    rng = generator("directions")
    inputs = workload.inputs()
    for _ in range(DIRECTIONS if workload.wrt else 0):
        yield {name: rng.standard_normal(np.shape(inputs[name])) for name in workload.wrt}
