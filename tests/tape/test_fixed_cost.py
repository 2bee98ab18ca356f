"""What a tape costs before anything is computed: calls of Python and C functions, counted, so that it cannot creep back.

A count is the same on every machine. Bounds are a few calls above what was counted when they were written; in brackets what it
was before the common cases were recognised at the first comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradtape as gt
from tests.harness.call_counts import calls_in

X = gt.constant(np.ones(8, np.float32))
DATA = gt.constant(np.ones(8, np.float32))


def calls_of(run: Callable[[], Any]) -> int:
    """How many functions a call calls, those of gradtape's own code and those of C."""
    for _ in range(40):  # programs are compiled, and walks written down
        run()
    return calls_in(run, "call", "c_call")


def empty_block() -> None:
    with gt.GradientTape():
        pass


def eager_gradient() -> None:
    with gt.GradientTape() as tape:
        tape.watch(X)
        y = X * X
    tape.gradient(y, X)


@gt.function
def square(x: gt.Tensor) -> gt.Tensor:
    return gt.reduce_sum(x * x)


def compiled_gradient() -> None:
    with gt.GradientTape() as tape:
        tape.watch(X)
        y = square(X)
    tape.gradient(y, X)


def training_step(count: int) -> Callable[[], None]:
    variables = [gt.Variable(np.full(8, i, np.float32)) for i in range(count)]

    @gt.function
    def loss_of(x: gt.Tensor) -> gt.Tensor:
        total = x * variables[0]
        for variable in variables[1:]:
            total = total + x * variable
        return gt.reduce_sum(total)

    def step() -> None:
        with gt.GradientTape() as tape:
            loss = loss_of(DATA)
        tape.gradient(loss, variables)

    return step


@pytest.mark.parametrize(
    ("run", "bound"),
    [(empty_block, 42), (eager_gradient, 180), (compiled_gradient, 118), (training_step(10), 410)],
    ids=["empty block [49]", "eager gradient [237]", "compiled gradient [238]", "ten variables [998]"],
)
def test_calls(run: Callable[[], None], bound: int) -> None:
    assert calls_of(run) <= bound


def test_a_variable_more() -> None:
    """A variable that a compiled call reads, watches, and gives a gradient of."""
    assert (calls_of(training_step(12)) - calls_of(training_step(4))) / 8 <= 31
