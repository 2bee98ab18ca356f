"""Loops that replace elements: what the backward pass needs of an array is had again by putting elements back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradtape as gt
from tests.harness.tolerances import same_array

N = 40  # more elements than are saved whole
X = np.random.default_rng(3).normal(size=N)
M = np.tril(np.random.default_rng(4).normal(size=(N, N)) * 0.1, -1) + np.diag(1.0 + np.random.default_rng(5).random(N))


def solve(x: Any, m: Any) -> Any:
    y = gt.zeros([N], x.dtype)
    for i in gt.range(N):
        y[i] = (x[i] - gt.reduce_sum(m[i, :i] * y[:i])) / m[i, i]
    return gt.reduce_sum(y * y)


def two_slices(x: Any, m: Any) -> Any:
    y = gt.identity(x)
    for i in gt.range(1, N):
        y[i] = gt.sin(gt.reduce_sum(y[:i] * y[:i][::-1]) * 0.1) + y[i] * gt.tanh(gt.reduce_sum(y[i:] * m[i, i:]))
    return gt.reduce_sum(y * m[0])


def versions_between_updates(x: Any, m: Any) -> Any:
    y = gt.identity(x)
    for i in gt.range(3, N):
        y[i] = y[i] * 0.5 + y[i - 3]
        y[i - 1] = gt.reduce_sum(y[1:i] * m[i, 1:i]) * 0.1 + gt.reduce_sum(gt.sin(y)) * 0.01
        y[0] = gt.reduce_sum(y[: i + 1 : 2] * y[0]) * 0.1
    return gt.reduce_sum(y * y)


def until_it_is_small(x: Any, m: Any) -> Any:
    y, i = gt.identity(x), gt.constant(0)
    while i < N - 1 and gt.abs(y[i]) > 1e-9:
        y[i + 1] = y[i + 1] * 0.3 + gt.tanh(gt.reduce_sum(y[: i + 1] * y[: i + 1]) * 0.1)
        i = i + 1
    return gt.reduce_sum(y * y * m[0, 0])


def rows(x: Any, m: Any) -> Any:
    y = gt.identity(m)
    for i in gt.range(1, N):
        y[i, i - 1] = gt.reduce_sum(y[i - 1, :i] * x[:i]) * 0.2 + gt.reduce_sum(y[:, i] * x)
    return gt.reduce_sum(y * m)


def whole_rows(x: Any, m: Any) -> Any:
    y = gt.identity(m)
    for i in gt.range(N - 1):
        y[i] += y[i + 1 :, i] @ y[i + 1 :] * 0.1
    return gt.reduce_sum(y * x)


def columns_then_rows(x: Any, m: Any) -> Any:
    y = gt.identity(m)
    for i in gt.range(1, N):
        y[:, i] = gt.tanh(y[:, :i] @ x[:i]) + y[:, i]
        y[i, :] = gt.reduce_sum(y[:i] * y[:i], 0) * 0.01
        y[0] = 0.5
    return gt.reduce_sum(y * y)


def neighbours(x: Any, m: Any) -> Any:
    y = gt.identity(m)
    for i in gt.range(1, N):
        y[i] = y[i] * y[i - 1] + x
    return gt.reduce_sum(y)


def cholesky(x: Any, m: Any) -> Any:
    y = m + gt.transpose(m) + 4.0 * gt.eye(N, dtype=m.dtype)
    for i in gt.range(N):
        for j in gt.range(i):
            y[i, j] = (y[i, j] - gt.reduce_sum(y[i, :j] * y[j, :j])) / y[j, j]
        y[i, i] = gt.sqrt(y[i, i] - gt.reduce_sum(y[i, :i] * y[i, :i]))
    return gt.reduce_sum(gt.linalg.band_part(y, -1, 0) * x)


def lu(x: Any, m: Any) -> Any:
    y = m + 4.0 * gt.eye(N, dtype=m.dtype)
    for i in gt.range(N):
        for j in gt.range(i):
            y[i, j] = (y[i, j] - gt.reduce_sum(y[i, :j] * y[:j, j])) / y[j, j]
        for j in gt.range(i, N):
            y[i, j] -= gt.reduce_sum(y[i, :i] * y[:i, j])
    return gt.reduce_sum(y * y * x)


def sweeps(x: Any, m: Any) -> Any:
    y = gt.identity(m)
    for _ in gt.range(3):
        for i in gt.range(1, N - 1, 7):
            for j in gt.range(1, N - 1):
                y[i, j] = gt.sin(y[i - 1, j] + y[i, j - 1]) * x[j] + y[i, j] * y[i + 1, j + 1]
    return gt.reduce_sum(y * y)


def until_each_is_small(x: Any, m: Any) -> Any:
    y = gt.identity(m)
    for i in gt.range(5):
        j = gt.constant(0)
        while j < N - 1 and gt.abs(y[i, j]) < 10.0:
            y[i, j + 1] = y[i, j + 1] * y[i, j] + x[j]
            j += 1
    return gt.reduce_sum(y * y)


def an_update_in_front(x: Any, m: Any) -> Any:
    y = gt.identity(m)
    for i in gt.range(1, 6):
        y[i, 0] = y[i - 1, 3] * y[i, 0]
        for j in gt.range(1, N):
            y[i, j] = y[i, j] * y[i, j - 1] + y[i - 1, j]
    return gt.reduce_sum(y * x)


def old_versions(x: Any, m: Any) -> Any:
    """What stood in the array before an inner loop is multiplied with what it puts there, in it and behind it."""
    y, total = gt.identity(m), gt.zeros((), m.dtype)
    for i in gt.range(1, 6):
        before = gt.sin(y)
        for j in gt.range(1, N):
            y[i, j] = y[i, j] * y[i, j - 1] + before[i - 1, j] * before[i, j]
        total += gt.reduce_sum(before * y * y)
    return total + gt.reduce_sum(y * x)


NESTED = [cholesky, lu, sweeps, until_each_is_small]
PROGRAMS = [
    *NESTED, an_update_in_front, old_versions, solve, two_slices, versions_between_updates, until_it_is_small, rows, whole_rows,
    columns_then_rows, neighbours,
]  # fmt: skip


def derivatives(function: Any, order: int) -> list[Any]:
    x, m = gt.constant(X), gt.constant(M)
    with gt.GradientTape() as tape:
        tape.watch((x, m))
        y, *first = derivatives_at(function, x, m) if order == 2 else (function(x, m),)
        total = gt.reduce_sum(gt.sin(first[0])) if order == 2 else y
    return [y, *first, *tape.gradient(total, (x, m))]


def derivatives_at(function: Any, x: Any, m: Any) -> list[Any]:
    with gt.GradientTape() as tape:
        tape.watch((x, m))
        y = function(x, m)
    return [y, *tape.gradient(y, (x, m))]


@pytest.mark.parametrize("native", [False, True], ids=["reference", "native"])
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_derivatives(function: Any, native: bool) -> None:
    order = 2 if function in (two_slices, until_each_is_small) else 1
    compiled = gt.function(function, jit_compile=native)
    for a, b in zip(derivatives(compiled, order), derivatives(function, order), strict=True):
        same_array(a.numpy(), b.numpy(), 1e-10, function.__name__)


ROWS = [whole_rows, columns_then_rows]


@pytest.mark.parametrize("function", NESTED, ids=lambda f: f.__name__)
def test_no_array_is_saved_for_a_loop_in_a_loop(function: Any) -> None:
    assert f"float64[{N},{N}]>" not in program(function)


@pytest.mark.parametrize("function", [solve, two_slices, until_it_is_small, *ROWS], ids=lambda f: f.__name__)
def test_no_slice_is_saved(function: Any) -> None:
    text = program(function)
    row = function in ROWS
    assert f"list<float64[{N}]>" in text if row else "list<float64[]>" in text
    assert "list<float64[n" not in text
    assert f"list<float64[{N},{N}]>" not in text
    assert row or f"list<float64[{N}]>" not in text


def test_rows_that_are_read_are_saved_where_that_is_no_more() -> None:
    """To put back a row costs as much as to save the one that was read, and the array would go along."""
    assert program(neighbours).count(f"list<float64[{N}]>") == 2  # the factors of the product


def program(function: Any) -> str:
    """The gradient as a program, which is right."""

    @gt.function
    def gradient(x: Any, m: Any) -> Any:
        return derivatives_at(function, x, m)[1:]

    found = gradient(gt.constant(X), gt.constant(M))
    for a, b in zip(found, derivatives(function, 1)[1:], strict=True):
        same_array(a.numpy(), b.numpy(), 1e-10, function.__name__)
    return str(gradient.to_text())
