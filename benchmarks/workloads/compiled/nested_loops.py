"""Two nested loops of 100 turns with a branch on the state inside: s ← sin(u) or b·u, with u = a·s + c·(j/50 - 1).

The map is continuous where the branch changes and contracting, so float32 and float64 stay together.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Inputs
from benchmarks.workloads.compiled.making import compiled

TURNS = 100


def inputs() -> Inputs:
    return {"a": np.float32(0.9), "b": np.float32(0.6), "c": np.float32(0.7), "turns": TURNS}


def value(a: Any, b: Any, c: Any, turns: int, np: Any = np) -> Any:
    s, total = 0.5, 0.0
    for _ in range(turns):
        for j in range(turns):
            u = a * s + c * (j * 0.02 - 1.0)
            s = np.sin(u) if u > 0 else b * u
            total = total + s * s
    return total / turns**2


def objective(gt: Any, a: Any, b: Any, c: Any, turns: int) -> Any:
    s, total = 0.5, 0.0
    for _ in gt.range(turns):
        for j in gt.range(turns):
            u = a * s + c * (gt.cast(j, gt.float32) * 0.02 - 1.0)
            s = gt.sin(u) if u > 0 else b * u
            total = total + s * s
    return total / turns**2


WORKLOADS = (
    compiled("nested_loops", "nested loops 100×100 with a branch", inputs, value, objective, ("a", "b", "c"), (("c", 1.5),)),
)
