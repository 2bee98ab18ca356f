"""What a workload is: seeded inputs, the objective in plain NumPy, and gradtape's version of it.

A *step* is a function without arguments that computes (value, gradients) once; what it needs is prepared outside the
timed region by the function that makes it. Peers supply steps for the same workload in `benchmarks/peers/`.
This file knows no peer and times nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Inputs = dict[str, Any]
Step = Callable[[], tuple[Any, list[Any]]]


@dataclass(frozen=True)
class Workload:
    """One row of the report. `value(**inputs)` is the reference; gradients are of the inputs named in `wrt`."""

    name: str
    title: str
    inputs: Callable[[], Inputs]
    value: Callable[..., Any]
    gradtape: Callable[..., Step]
    wrt: tuple[str, ...] = ()  # empty: only the forward pass is timed, and only the value compared
    ops: int = 1  # operations in one step; the report divides by it when it is not 1
    goals: tuple[tuple[str, float], ...] = ()  # (peer, largest ratio gradtape/peer we want); "fastest": any of them
    family: str = ""  # workloads of one family differ in their inputs only; peers have one version for all of them
    # (value, gradients) of a step, as NumPy arrays → those of the reference, where a step answers with more than that
    compared: Callable[[Any, list[Any]], tuple[Any, list[Any]]] = lambda value, gradients: (value, gradients)
    primal: Callable[..., Step] | None = None  # gradtape's value alone, where the report says what a gradient costs on top
    table: str = "eager"  # or "compiled": which of the two tables the row stands in

    @property
    def key(self) -> str:
        """Where peers look their version up."""
        return self.family or self.name


@dataclass(frozen=True)
class Series:
    """One scaling plot: the same work at growing sizes, `points` being (size, workload) from small to large."""

    name: str
    title: str
    axis: str
    points: tuple[tuple[int, Workload], ...]
    table: str = "eager"  # whose peers are asked
    what: str = "min"  # "first": the first call is drawn, which traces and compiles


def generator(name: str) -> np.random.Generator:
    """The random numbers of a workload: the same on every machine, in every process."""
    return np.random.default_rng(list(name.encode()))
