"""Memory that native code takes while it runs: small blocks cut from chunks, large ones alone; what is released is not read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape.backends.llvm.runtime import allocator
from tests.ad.test_sizes import lists_in_one_branch
from tests.backends.agreement import compared
from tests.harness.tolerances import same_array

X = np.array([0.3, -0.7, 1.1])


@pytest.fixture
def poison() -> Iterator[None]:
    """What is released is overwritten."""
    allocator.poison(True)
    yield
    allocator.poison(False)


def loop_in_a_loop(x: Any, n: Any) -> Any:
    u, s = x[:n], x[0]
    for _ in gt.range(3):
        for e in u:
            u = u + e * gt.sin(u) * 0.3
        s = s + gt.reduce_sum(u * u)
    return s + gt.reduce_sum(u)


def arrays_that_grow(x: Any, n: Any) -> Any:
    u, parts = x[:n], []
    for i in gt.range(6):
        u = gt.concat([u, x[:i] * u[0]], 0)
        parts.append(gt.sin(u))
    return gt.reduce_sum(gt.concat(parts, 0)) + gt.reduce_sum(u)


def updates_of_slices(x: Any, n: Any) -> Any:
    y = gt.identity(x)
    for k in gt.range(1, n + 1):
        y[:k] = y[:k] + x[k - 1] * y[:k][::-1]
    return gt.reduce_sum(y * y)


@pytest.mark.parametrize("function", [lists_in_one_branch, loop_in_a_loop, arrays_that_grow, updates_of_slices])
def test_nothing_released_is_read(function: Any, poison: None) -> None:
    program = gt.function(function)

    def derivatives(f: Any, n: int) -> list[Any]:
        x = gt.constant(X)
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = f(x, gt.constant(n))
        return [y.numpy(), tape.gradient(y, x).numpy()]

    with compared():
        for n in (1, 3, 2):
            for a, b in zip(derivatives(program, n), derivatives(function, n), strict=True):
                same_array(a, b, 1e-10, f"{function.__name__} with n = {n}")


@pytest.mark.parametrize("small", [0, allocator.SMALL])
def test_blocks_of_all_sizes(small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than a chunk holds; sizes around those where the way a block is made changes."""
    monkeypatch.setattr(allocator, "SMALL", small)
    sizes = np.array([0, 1, 7, 8, 9, 255, 511, 512, 513, 1000, 4096, *range(0, 700, 13)] * 3, np.int32)
    x = np.linspace(-1.0, 1.0, 4096)

    def total(x: Any, sizes: Any) -> Any:
        s = gt.reduce_sum(x[:7])
        for i in gt.range(sizes.shape[0]):
            s = s * 0.5 + gt.reduce_mean(gt.concat([gt.sin(x[: sizes[i]] * s), x[:1]], 0))  # what the sine is of is kept
        return s

    def gradient(x: Any, sizes: Any) -> Any:
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = total(x, sizes)
        return y, tape.gradient(y, x)

    f = gt.function(gradient, jit_compile=True)
    expected = gradient(gt.constant(x), gt.constant(sizes))
    for _ in range(3):
        for a, b in zip(f(gt.constant(x), gt.constant(sizes)), expected, strict=True):
            same_array(a.numpy(), b.numpy(), 1e-10, "sums over parts")
    assert "list<float64[n" in f.to_text()
