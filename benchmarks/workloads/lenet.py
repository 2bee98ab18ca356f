"""An eager training step of LeNet, the network of `compiled/conv.py`: forward and backward, batch 32."""

from __future__ import annotations

from typing import Any

from benchmarks.workload import Step, Workload
from benchmarks.workloads.compiled.conv import WRT, inputs, objective, value


def gradtape(x: Any, labels: Any, **weights: Any) -> Step:
    import gradtape as gt

    x, labels = gt.constant(x), gt.constant(labels)
    variables = [gt.Variable(weights[name]) for name in WRT]

    def step() -> tuple[Any, list[Any]]:
        with gt.GradientTape() as tape:
            loss = objective(gt, *variables, x, labels)
        return loss, tape.gradient(loss, variables)

    return step


WORKLOADS = (
    Workload(
        "lenet", "conv net (LeNet), batch 32, forward + backward", inputs, value, gradtape, wrt=WRT, goals=(("fastest", 1.0),)
    ),
)
