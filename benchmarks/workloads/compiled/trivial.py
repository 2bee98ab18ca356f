"""A call of a function that does nearly nothing: what a call costs. Its value is x·2, nothing is differentiated."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Inputs, Step, Workload


def inputs() -> Inputs:
    return {"x": np.float32(1.5)}


def value(x: Any) -> Any:
    return x * 2.0


def gradtape(x: Any) -> Step:
    import gradtape as gt

    @gt.function
    def double(x: Any) -> Any:
        return x * 2.0

    x = gt.constant(x)
    step: Any = lambda: (double(x), [])  # noqa: E731
    step.function = double
    return step  # type: ignore[no-any-return]


WORKLOADS = (
    Workload(
        "compiled_trivial",
        "call of a trivial function",
        inputs,
        value,
        gradtape,
        goals=(("jax_jit", 0.2),),
        table="compiled",
    ),
)
