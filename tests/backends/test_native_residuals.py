"""Residuals of loops between the two halves of a program: lists that nobody looks at are never taken apart in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape.backends.llvm.entry.packing import PackedList
from gradtape.backends.llvm.entry.stacked import LazyList
from gradtape.dtypes import float64
from gradtape.ir.types import ListSpec, TensorSpec

X = gt.constant(np.linspace(0.2, 0.9, 12))


def growing(x: Any) -> Any:
    y = x
    for k in range(1, 12):
        y[:k] = gt.tanh(y[:k] + y[k] * y[:k][::-1])
    return gt.reduce_sum(y)


def growing_in_steps(x: Any) -> Any:
    y = x
    for k in range(1, 12):
        for j in range(3):
            y[:k] = gt.sin(y[:k] * y[j])
    return gt.reduce_sum(y)


def until_small(x: Any) -> Any:
    y = x
    for k in range(2, 12):
        while gt.reduce_sum(y[:k]) > 1.0:
            y[:k] = y[:k] * gt.cos(y[:k])
    return gt.reduce_sum(y * y)


def triangle(x: Any) -> Any:
    total = 0.0 * x[0]
    for i in range(12):
        total = total + gt.reduce_sum(gt.exp(x[i:] * x[i]) * gt.sin(x[i:])) ** 2
    return total


def looked_at(self: Any) -> Any:
    raise AssertionError("the items were looked at")


def gradient(f: Callable[..., Any], orders: int) -> Any:
    x = gt.identity(X)
    with gt.GradientTape() as outer:
        outer.watch(x)
        if orders == 1:
            y = f(x)
        else:
            with gt.GradientTape() as tape:
                tape.watch(x)
                y = f(x)
            y = gt.reduce_sum(tape.gradient(y, x) ** 2)
    return outer.gradient(y, x).numpy()


@pytest.mark.parametrize("orders", [1, 2])
@pytest.mark.parametrize("program", [growing, growing_in_steps, until_small, triangle])
def test_no_item_is_looked_at(program: Any, orders: int, monkeypatch: pytest.MonkeyPatch) -> None:
    f = gt.function(program)
    gradient(f, orders)
    with monkeypatch.context() as patched:
        patched.setattr(PackedList, "unpacked", looked_at)
        answer = gradient(f, orders)
    np.testing.assert_allclose(answer, gradient(program, orders), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("how", ["r", "u", "lr"])
def test_what_a_record_asks_is_answered_without_looking(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What every list answers, whatever its form; the bytes are those of the words that hold it."""
    arrays = [np.arange(3.0), np.arange(3.0) if how == "u" else np.arange(5.0)]
    item = TensorSpec([None], float64)
    words = [2, *([3] if how == "u" else [])]
    for array in arrays:
        words += [*([] if how == "u" else [len(array)]), *array.view(np.int64)]
    lists = PackedList(np.array([1, *words] if how == "lr" else words), ListSpec(ListSpec(item) if how == "lr" else item), how)
    plain = list(lists.values[0] if how == "lr" else lists.values)
    for one, other in zip(plain, arrays, strict=True):
        np.testing.assert_array_equal(one, other)
    again = PackedList(lists.words, lists.type, how)
    monkeypatch.setattr(LazyList, "values", property(looked_at))
    assert (len(again), bool(again), again.dtype) == (1 if how == "lr" else 2, True, np.dtype(np.float64))
    assert again.nbytes == lists.words.nbytes
