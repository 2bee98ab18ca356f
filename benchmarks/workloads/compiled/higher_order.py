"""Second derivatives: a Hessian-vector product, a Hessian, and a Jacobian beside them.

A step answers with what was asked for; what is compared is a weighted sum of it and its gradient, as in the eager table.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Inputs, Step, Workload, generator
from benchmarks.workloads import jacobian, second_order
from benchmarks.workloads.compiled.making import normal

FEATURES, HIDDEN = 128, 256
GOALS = (("fastest", 0.9),)


def product_inputs() -> Inputs:
    rng = generator("compiled_hvp")
    return {"x": normal(rng, FEATURES), "v": normal(rng, FEATURES), "w": normal(rng, FEATURES, HIDDEN, scale=FEATURES**-0.5)}


def product_value(x: Any, v: Any, w: Any) -> Any:
    # f = Σ tanh(x·w)², ∇f = w·(2 t (1 - t²))
    t = np.tanh(x @ w)
    return (w @ (2.0 * t * (1.0 - t * t))) @ v


def product(x: Any, v: Any, w: Any) -> Step:
    import gradtape as gt

    @gt.function
    def hessian_vector(x: Any, v: Any, w: Any) -> Any:
        with gt.GradientTape() as outer:
            outer.watch(x)
            with gt.GradientTape() as inner:
                inner.watch(x)
                t = gt.tanh(x @ w)
                y = gt.reduce_sum(t * t)
            slope = gt.reduce_sum(inner.gradient(y, x) * v)
        return slope, [outer.gradient(slope, x)]

    x, v, w = (gt.constant(a) for a in (x, v, w))
    step: Any = lambda: hessian_vector(x, v, w)  # noqa: E731
    step.function = hessian_vector
    return step  # type: ignore[no-any-return]


def hessian(x: Any, v: Any) -> Step:
    import gradtape as gt

    @gt.function
    def all_second(x: Any) -> Any:
        with gt.GradientTape() as outer:
            outer.watch(x)
            with gt.GradientTape() as inner:
                inner.watch(x)
                y = second_order.objective(gt, x)
            g = inner.gradient(y, x)
        return g, [outer.jacobian(g, x)]

    x = gt.constant(x)
    step: Any = lambda: all_second(x)  # noqa: E731
    step.function = all_second
    return step  # type: ignore[no-any-return]


def hessian_compared(g: Any, found: list[Any]) -> tuple[Any, list[Any]]:
    v = second_order.inputs()["v"]
    return v @ g, [v @ found[0]]


def jacobian_step(x: Any, w: Any, b: Any, v: Any) -> Step:
    import gradtape as gt

    @gt.function
    def all_first(x: Any, w: Any, b: Any, v: Any) -> Any:
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = gt.tanh(x @ w + b) @ v
        return y, [tape.jacobian(y, x)]

    x, w, b, v = (gt.constant(a) for a in (x, w, b, v))
    step: Any = lambda: all_first(x, w, b, v)  # noqa: E731
    step.function = all_first
    return step  # type: ignore[no-any-return]


WORKLOADS = (
    Workload(
        "compiled_hvp",
        "Hessian-vector product, network 128-256",
        product_inputs,
        product_value,
        product,
        wrt=("x",),
        goals=GOALS,
        table="compiled",
    ),
    Workload(
        "compiled_hessian",
        "Hessian, 32 elements",
        second_order.inputs,
        second_order.product,
        hessian,
        wrt=("x",),
        goals=GOALS,
        compared=hessian_compared,
        table="compiled",
    ),
    Workload(
        "compiled_jacobian",
        "Jacobian of 64 outputs, network 512-128-64",
        lambda: jacobian.inputs(64),
        jacobian.value,
        jacobian_step,
        wrt=("x",),
        goals=GOALS,
        compared=jacobian.compared,
        table="compiled",
    ),
)
