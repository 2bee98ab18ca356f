"""PyTorch with `torch.compile`, where it finishes: it unrolls Python loops, so long ones are left out (the 20 sweeps of `heat`
alone take two minutes to compile).

A loop that branches on data breaks its graph at every turn, and gradients inside the graph are not traced: no rows for those.
"""

from __future__ import annotations

from typing import Any

from benchmarks.peers.torch import set_threads as set_threads, to_numpy as to_numpy, version as version
from benchmarks.peers.torch_eager import steps

UNROLLED = (
    "scalar_loop",
    "nested_loops",
    "newton",
    "lstm_tiny",
    "jacobi",
    "heat",
    "seidel",
    "triangular",
    "durbin",
    "nbody",
    "nested_ad",
)


def _compiled(function: Any) -> Any:
    import torch

    torch._dynamo.reset()  # programs of earlier workloads are not needed any more
    return torch.compile(function, dynamic=False)


STEPS = steps(_compiled, left_out=UNROLLED)
