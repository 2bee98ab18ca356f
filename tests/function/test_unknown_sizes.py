"""Every sample of every op and composite in a function whose signature leaves sizes open: the value and the derivatives of
orders 1 and 2 are those of eager code. Where a rule needs a size, the function is traced for the sizes at hand: that shows
here only in time.

Of each op the first sample is differentiated twice; of its others every other one is taken, and one in some is differentiated
twice. `make test-all` does it with each, and takes every sample with each size open alone, and as machine code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape.ir.types import TensorSpec
from tests.harness.cases import Case, all_cases, tensor
from tests.harness.derivatives import differentiable, dot
from tests.harness.numeric import random_like
from tests.harness.seeds import in_sample
from tests.harness.tolerances import same_array

CLOSE = 1e-11  # other sums in other orders
TWICE = 4  # of so many samples one is differentiated twice
OTHERS = 2  # of so many samples beyond the first of an operation one has all its sizes open
# what is recorded beside programs, never in them
NOT_IN_PROGRAMS = frozenset({"gradient"})

CASES = [
    case
    for case in all_cases()
    if not case.fails and case.name not in NOT_IN_PROGRAMS and any(np.ndim(leaf) for leaf in case.leaves)
]
BY_NAME: dict[str, list[Case]] = {}
for _case in CASES:
    BY_NAME.setdefault(_case.name, []).append(_case)


class Asked:
    """What is asked of a case, and what eager code answers."""

    def __init__(self, case: Case, order: int = 2) -> None:
        self.case, self.order = case, order
        self.leaves = case.doubles()
        generator = case.generator()
        outputs = case.outputs([tensor(x) for x in self.leaves])
        slopes = differentiable(outputs) if case.differentiable else []
        self.weights = [random_like(generator, t._data).astype(t._data.dtype) for t in slopes]
        self.directions = [random_like(generator, x) for x in self.leaves]
        self.expected = self.answers(lambda *xs: case.outputs(list(xs)))

    def answers(self, function: Any) -> list[list[Any]]:
        """Values, first derivatives, second ones if they are asked for."""
        xs = [tensor(x) for x in self.leaves]
        values = [t.numpy() for t in function(*xs)]
        if not self.weights:
            return [values]
        with gt.GradientTape() as outer:
            outer.watch(xs if self.order > 1 else [])
            with gt.GradientTape() as inner:
                inner.watch(xs)
                outputs = differentiable(function(*xs))
            seeds = [tensor(w) for w in self.weights]
            first = inner.gradient(outputs, xs, output_gradients=seeds, unconnected_gradients="zero")
            if self.order == 1:
                return [values, [gt.convert_to_tensor(g).numpy() for g in first]]
            slope = dot(self.directions, first)
        second = outer.gradient(slope, xs, unconnected_gradients="zero")
        return [values, *([gt.convert_to_tensor(g).numpy() for g in order] for order in (first, second))]

    def check(self, shapes: list[list[int | None]], native: bool) -> None:
        """The same in a function of this signature."""
        signature = [TensorSpec(shape, x.dtype) for shape, x in zip(shapes, self.leaves, strict=True)]
        case = self.case
        function = gt.function(
            lambda *xs: case.outputs(list(xs)), input_signature=signature, jit_compile=native, autograph=False
        )
        for order, (found, expected) in enumerate(zip(self.answers(function), self.expected, strict=True)):
            for a, b in zip(found, expected, strict=True):
                same_array(a, b, CLOSE, f"{case.id} with sizes {shapes}: derivative of order {order}")


def all_open(leaves: list[Any]) -> list[list[int | None]]:
    return [[None] * np.ndim(x) for x in leaves]


def one_open(leaves: list[Any]) -> Iterator[list[list[int | None]]]:
    for i, x in enumerate(leaves):
        for k in range(np.ndim(x)):
            shapes: list[list[int | None]] = [list(np.shape(leaf)) for leaf in leaves]
            shapes[i][k] = None
            yield shapes


@pytest.mark.parametrize("name", BY_NAME)
def test_all_sizes_open(name: str) -> None:
    with np.errstate(all="ignore"):
        for place, case in enumerate(BY_NAME[name]):
            if place and not in_sample(case.id, OTHERS):
                continue
            asked = Asked(case, 2 if place == 0 or in_sample(case.id, TWICE) else 1)
            asked.check(all_open(asked.leaves), native=False)


def _every(request: pytest.FixtureRequest, usual: int) -> int:
    """Take all of them where many programs are asked for, else one of so many."""
    return 1 if request.config.getoption("--programs") >= 1000 else usual


PARTS = 8


@pytest.mark.parametrize("part", range(PARTS))
def test_one_size_open(part: int, request: pytest.FixtureRequest) -> None:
    with np.errstate(all="ignore"):
        for case in CASES[part :: PARTS * _every(request, 6)]:
            asked = Asked(case, 2 if in_sample(case.id, TWICE) else 1)
            for shapes in one_open(asked.leaves):
                asked.check(shapes, native=False)


@pytest.mark.parametrize("part", range(PARTS))
def test_natively(part: int, request: pytest.FixtureRequest) -> None:
    with np.errstate(all="ignore"):
        for case in CASES[part + 3 :: PARTS * _every(request, 16)]:
            asked = Asked(case, 2 if in_sample(case.id, TWICE) else 1)
            asked.check(all_open(asked.leaves), native=True)
