"""All derivatives of the outputs of a small network, x ↦ tanh(x·w + b)·v, with respect to its 512 inputs.

There are never more outputs than inputs, so reverse mode is everybody's right choice. Beside the Jacobian stands one gradient
of the summed outputs: the report says how many of them a Jacobian costs. A step answers with outputs and Jacobian; what is
compared is both of them weighted and summed over the outputs, a scalar and its gradient like elsewhere.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.workload import Inputs, Step, Workload, generator

FEATURES, HIDDEN = 512, 128
OUTPUTS = (64, 500)


def inputs(outputs: int) -> Inputs:
    rng = generator("jacobian")
    return {
        "x": rng.standard_normal(FEATURES).astype(np.float32),
        "w": (rng.standard_normal((FEATURES, HIDDEN)) / np.sqrt(FEATURES)).astype(np.float32),
        "b": (0.1 * rng.standard_normal(HIDDEN)).astype(np.float32),
        "v": (rng.standard_normal((HIDDEN, outputs)) / np.sqrt(HIDDEN)).astype(np.float32),
    }


def weights(outputs: int) -> Any:
    return generator("weights").standard_normal(outputs)


def network(x: Any, w: Any, b: Any, v: Any) -> Any:
    return np.tanh(x @ w + b) @ v


def value(x: Any, w: Any, b: Any, v: Any) -> Any:
    return network(x, w, b, v) @ weights(v.shape[1])


def compared(outputs: Any, gradients: list[Any]) -> tuple[Any, list[Any]]:
    by = weights(len(outputs))
    return by @ outputs, [by @ gradients[0]]


def gradtape(x: Any, w: Any, b: Any, v: Any) -> Step:
    import gradtape as gt

    x, w, b, v = (gt.constant(a) for a in (x, w, b, v))

    def step() -> tuple[Any, list[Any]]:
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = gt.tanh(x @ w + b) @ v
        return y, [tape.jacobian(y, x)]

    return step


def total(x: Any, w: Any, b: Any, v: Any) -> Any:
    return network(x, w, b, v).sum()


def gradtape_gradient(x: Any, w: Any, b: Any, v: Any) -> Step:
    import gradtape as gt

    x, w, b, v = (gt.constant(a) for a in (x, w, b, v))

    def step() -> tuple[Any, list[Any]]:
        with gt.GradientTape() as tape:
            tape.watch(x)
            summed = gt.reduce_sum(gt.tanh(x @ w + b) @ v)
        return summed, [tape.gradient(summed, x)]

    return step


WORKLOADS = (
    *(
        Workload(
            f"jacobian_{outputs}",
            f"Jacobian of {outputs} outputs, network 512-128-{outputs}",
            partial(inputs, outputs),
            value,
            gradtape,
            wrt=("x",),
            family="jacobian",
            compared=compared,
        )
        for outputs in OUTPUTS
    ),
    Workload(
        "jacobian_gradient",
        f"one gradient of the network 512-128-{OUTPUTS[-1]}, its outputs summed",
        partial(inputs, OUTPUTS[-1]),
        total,
        gradtape_gradient,
        wrt=("x",),
    ),
)
