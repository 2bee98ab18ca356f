"""gradtape's side of a compiled workload, from its objective: `@gt.function` around value and gradient, and around the value.

An objective is a function of gradtape and the workload's inputs, by name. Arrays are arguments of the compiled function,
everything else is fixed when it is traced. This file knows no workload.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.workload import Inputs, Step, Workload


def split(inputs: Inputs, wrt: tuple[str, ...]) -> tuple[Inputs, Inputs, Inputs]:
    """(arrays to differentiate by, in the order of `wrt`; other arrays; everything else)."""
    arrays = {name: a for name, a in inputs.items() if isinstance(a, (np.ndarray, np.generic)) and name not in wrt}
    return {name: inputs[name] for name in wrt}, arrays, {n: a for n, a in inputs.items() if n not in arrays and n not in wrt}


def gradient_step(objective: Callable[..., Any], wrt: tuple[str, ...], **inputs: Any) -> Step:
    import gradtape as gt

    watched, arrays, fixed = split(inputs, wrt)
    names, count = (*watched, *arrays), len(watched)

    @gt.function
    def gradient(*given: Any) -> Any:
        with gt.GradientTape() as tape:
            tape.watch(given[:count])
            value = objective(gt, **dict(zip(names, given, strict=True)), **fixed)
        return value, tape.gradient(value, given[:count])

    tensors = tuple(gt.constant(a) for a in (*watched.values(), *arrays.values()))
    step: Any = lambda: gradient(*tensors)  # noqa: E731  (a `def` cannot carry the function along)
    step.function = gradient
    return step  # type: ignore[no-any-return]


def value_step(objective: Callable[..., Any], wrt: tuple[str, ...], **inputs: Any) -> Step:
    import gradtape as gt

    watched, arrays, fixed = split(inputs, wrt)
    names = (*watched, *arrays)

    @gt.function
    def value(*given: Any) -> Any:
        return objective(gt, **dict(zip(names, given, strict=True)), **fixed)

    tensors = tuple(gt.constant(a) for a in (*watched.values(), *arrays.values()))
    step: Any = lambda: (value(*tensors), [])  # noqa: E731
    step.function = value
    return step  # type: ignore[no-any-return]


def compiled(
    name: str,
    title: str,
    inputs: Callable[[], Inputs],
    value: Callable[..., Any],
    objective: Callable[..., Any],
    wrt: tuple[str, ...],
    goals: tuple[tuple[str, float], ...] = (),
    **more: Any,
) -> Workload:
    """A row of the table of compiled programs; its name gets the prefix `compiled_`."""
    return Workload(
        f"compiled_{name}",
        title,
        inputs,
        value,
        partial(gradient_step, objective, wrt),
        wrt=wrt,
        goals=goals,
        primal=partial(value_step, objective, wrt),
        table="compiled",
        **more,
    )


def normal(rng: np.random.Generator, *shape: int, scale: float = 1.0) -> Any:
    """Float32 random numbers."""
    return (scale * rng.standard_normal(shape)).astype(np.float32)
