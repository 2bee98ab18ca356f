"""A function that was compiled and dropped left 0.2 MB and more behind: LLVM's pass managers were never freed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import gradtape as gt
from gradtape import config
from tests.harness.memory import heap_growth

LEFT = 20_000  # bytes that a dropped function may leave behind: llvmlite itself loses about 1,500 for each module
NUMBERS = itertools.count(2)  # each function is another one
X = gt.constant([0.1 * i for i in range(10)])


@pytest.fixture(autouse=True)
def no_cache() -> Iterator[None]:
    """Nothing of the functions is found on disk: all are compiled."""
    before = config.native_cache_directory()
    config.set_native_cache_directory(None)
    yield
    config.set_native_cache_directory(before)


def smooth(c: float) -> Callable[[Any], Any]:
    return lambda x: gt.reduce_sum(gt.sin(x * c) * x)


def loop(c: float) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        kept = []
        for _ in gt.range(5):
            if x[0] > 0.0:
                x = x * c
            kept.append(gt.exp(-x))
        return gt.reduce_sum(gt.stack(kept) ** 2)

    return f


def products(c: float) -> Callable[[Any], Any]:
    return lambda x: gt.reduce_sum(gt.matmul(gt.reshape(x, [2, 5]), gt.reshape(x, [5, 2])) * c)


def variable(c: float) -> Callable[[Any], Any]:
    v = gt.Variable(c)

    def f(x: Any) -> Any:
        v.assign_add(1.0)
        return gt.reduce_sum(x * v * x)

    return f


def first_order(function: Callable[[Any], Any]) -> None:
    with gt.GradientTape() as tape:
        tape.watch(X)
        y = function(X)
    tape.gradient(y, X)


def second_order(function: Callable[[Any], Any]) -> None:
    with gt.GradientTape() as outer:
        outer.watch(X)
        with gt.GradientTape() as inner:
            inner.watch(X)
            y = function(X)
        g = inner.gradient(y, X)
    outer.gradient(g, X)


@pytest.mark.parametrize("order", [first_order, second_order])
@pytest.mark.parametrize("kind", [smooth, loop, products, variable])
def test_a_dropped_function_leaves_nothing_behind(kind: Any, order: Any) -> None:
    def step() -> None:
        order(gt.function(kind(float(next(NUMBERS)) / 2)))

    assert heap_growth(step, 3, enough=LEFT) <= LEFT
