"""Lists as values: errors, nesting, and derivatives through compositions that samples of single ops do not reach."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape.errors import InvalidArgumentError, OutOfRangeError
from gradtape.ir.types import ListSpec, TensorSpec
from gradtape.ops import lists
from gradtape.ops.list_values import TensorList
from gradtape.ops.lists import (
    list_add,
    list_add_at,
    list_concat,
    list_from_tensor,
    list_get,
    list_len,
    list_new,
    list_pop,
    list_push,
    list_resize,
    list_set,
    list_split,
    list_stack,
)

ROW = TensorSpec((2,), "float64")


def stack_machine(x: Any) -> Any:
    values, last = list_pop(list_from_tensor(x))
    values = list_push(values, last * last)
    values = list_push(values, list_get(values, 0) * list_get(values, -1))
    return list_stack(list_set(values, 1, list_get(values, 2) * x[0]))


def nested(x: Any) -> Any:
    rows = list_from_tensor(x)
    pair = list_new([rows, list_add(rows, rows)])
    pair = list_push(pair, list_get(pair, 0))
    pair = list_set(pair, 0, list_add_at(list_get(pair, 1), -1, x[0] * x[1]))
    total = list_add(list_get(pair, 0), list_get(pair, 2))
    return list_stack(total) * list_stack(total)


def grown(x: Any) -> Any:
    values = list_resize(list_from_tensor(x), 5, ROW)
    values = list_add_at(values, 4, x[1] * x[2])
    return list_stack(list_set(values, 3, list_get(values, 4) * x[0]))


def joined(x: Any) -> Any:
    pieces = list_split(x * x, [1, 0, 2])
    return list_concat(list_push(pieces, list_get(pieces, 2) * list_get(pieces, 0)))


def read_twice(x: Any) -> Any:
    values = list_from_tensor(x)
    total = list_get(values, 0) * 0.0
    for i in range(3):
        total = total + list_get(values, i) * list_get(values, i - 1)
    return total


def gradient(f: Callable[[Any], Any], point: Any, weights: Any) -> Any:
    x = gt.constant(point)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = gt.reduce_sum(f(x) * weights)
    return tape.gradient(y, x).numpy()


@pytest.mark.parametrize("f", [stack_machine, nested, grown, joined, read_twice], ids=lambda f: f.__name__)
def test_compositions_have_derivatives(f: Callable[[Any], Any]) -> None:
    generator = np.random.default_rng(3)
    point, direction, u = (generator.normal(size=(3, 2)) for _ in range(3))
    weights = generator.normal(size=f(gt.constant(point)).shape)

    def loss(at: Any) -> float:
        return float(gt.reduce_sum(f(gt.constant(at)) * weights))

    step = 1e-5
    slope = (loss(point + step * direction) - loss(point - step * direction)) / (2 * step)
    np.testing.assert_allclose(np.sum(gradient(f, point, weights) * direction), slope, rtol=1e-6, atol=1e-8)

    x = gt.constant(point)
    with gt.GradientTape() as outer:
        outer.watch(x)
        with gt.GradientTape() as inner:
            inner.watch(x)
            y = gt.reduce_sum(f(x) * weights)
        product = gt.reduce_sum(inner.gradient(y, x) * u)
    second = outer.gradient(product, x).numpy()
    there, here = (gradient(f, point + s * direction, weights) for s in (step, -step))
    np.testing.assert_allclose(np.sum(second * direction), np.sum((there - here) * u) / (2 * step), rtol=1e-6, atol=1e-8)

    with gt.autodiff.ForwardAccumulator(x, gt.constant(direction)) as accumulator:
        out = f(x)
    np.testing.assert_allclose(np.sum(accumulator.jvp(out).numpy() * weights), slope, rtol=1e-6, atol=1e-8)


def test_values_are_never_changed() -> None:
    values = list_from_tensor(gt.constant([[1.0, 2.0], [3.0, 4.0]]))
    before = [np.array(v) for v in values._data]
    list_push(values, [5.0, 6.0])
    list_set(values, 0, [5.0, 6.0])
    list_add_at(values, 1, [5.0, 6.0])
    list_pop(values)
    assert all(np.array_equal(a, b) for a, b in zip(values._data, before, strict=True))


@pytest.mark.parametrize("index", [2, -3])
def test_indices_out_of_range_are_refused(index: int) -> None:
    values = list_from_tensor(gt.constant([1.0, 2.0]))
    for use in (
        lambda: list_get(values, index),
        lambda: list_set(values, index, 0.0),
        lambda: list_add_at(values, index, 0.0),
    ):
        with pytest.raises(OutOfRangeError, match=f"list index out of range: {index} in a list of length 2"):
            use()


def test_popping_nothing_is_refused() -> None:
    with pytest.raises(IndexError, match="list"):
        list_pop(list_new(item=ROW))


def test_lists_of_different_length_are_not_added() -> None:
    with pytest.raises(InvalidArgumentError, match="length 1 and 2"):
        list_add(list_from_tensor(gt.zeros([1])), list_from_tensor(gt.zeros([2])))


def test_empty_lists_know_their_items() -> None:
    empty = list_new(item=ROW)
    assert list_stack(empty).shape == (0, 2)
    assert list_stack(empty).dtype == gt.float64
    assert list_stack(list_new(item=TensorSpec((None,), "float64")), item_shape=(4,)).shape == (0, 4)
    assert int(list_len(empty)) == 0
    with pytest.raises(InvalidArgumentError, match="shape of its items is not known"):
        list_stack(list_new(item=TensorSpec((None,), "float64")))


def test_types_of_items_are_joined() -> None:
    push = lists.LIST_PUSH.infer
    assert push(ListSpec(ROW), TensorSpec((3,), "float64")) == ListSpec(TensorSpec((None,), "float64"))
    with pytest.raises(InvalidArgumentError, match="one dtype and rank"):
        push(ListSpec(ROW), TensorSpec((2,), "int32"))
    with pytest.raises(InvalidArgumentError, match="a list of float64"):
        push(ListSpec(ListSpec(ROW)), ROW)


def test_zeros_are_shared_and_cheap() -> None:
    values = TensorList([np.ones(3) for _ in range(4)])
    zeros = lists.LIST_ZEROS_LIKE.impl(values)
    assert all(z is zeros[0] for z in zeros)
    assert values.nbytes == 4 * 24
    assert values.size == 12
    assert values.shape == ()
    assert values.ndim == 0
