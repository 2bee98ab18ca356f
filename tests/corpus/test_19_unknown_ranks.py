"""A result of `numpy_function` whose shape nobody named passed for a scalar in functions: its sum was the array itself.

Elementwise operations go on without the rank (the program is left to the interpreter); whatever asks for it is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradtape as gt


def twice(a: Any) -> Any:
    return np.asarray(a) * 2


X = gt.constant([1.0, 2.0])
ASK = {
    "reduce_sum": gt.reduce_sum,
    "reduce_mean": gt.reduce_mean,
    "l2_loss": gt.nn.l2_loss,
    "norm": gt.norm,
    "size": gt.size,
    "shape": gt.shape,
    "rank": gt.rank,
    "len": lambda y: gt.constant(len(y)),
    "ndim": lambda y: gt.constant(y.ndim),
    "item": lambda y: y[0],
    "slice": lambda y: y[:1],
    "reshape": lambda y: gt.reshape(y, [-1]),
    "stack": lambda y: gt.stack([y, y]),
    "matmul": lambda y: gt.tensordot(y, y, 1),
    "sum_of_squares": lambda y: gt.reduce_sum(y * y),
    "std": gt.math.reduce_std,
    "clip_by_norm": lambda y: gt.clip_by_norm(y, 1.0),
}
GO_ON = {
    "sine": gt.sin,
    "product": lambda y: y * y,
    "broadcast": lambda y: y + gt.ones([3, 2]),
    "where": lambda y: gt.where(y > 3.0, y, 0.0),
    "ones_like": gt.ones_like,
    "zeros_like": lambda y: gt.zeros_like(y) + 1.0,
}


@pytest.mark.parametrize("jit", [True, False], ids=["native", "interpreted"])
@pytest.mark.parametrize("name", ASK)
def test_who_asks_for_an_unknown_rank_is_refused(name: str, jit: bool) -> None:
    @gt.function(jit_compile=jit)
    def f(x: Any) -> Any:
        return ASK[name](gt.numpy_function(twice, [x], gt.float32))

    with pytest.raises(gt.errors.InvalidArgumentError, match=r"the rank of this tensor is not known.*Tout=gt\.TensorSpec"):
        f(X)


@pytest.mark.parametrize("jit", [True, False], ids=["native", "interpreted"])
@pytest.mark.parametrize("name", [*ASK, *GO_ON])
def test_a_shape_that_is_named_is_enough(name: str, jit: bool) -> None:
    function: Any = {**ASK, **GO_ON}[name]

    @gt.function(jit_compile=jit)
    def f(x: Any) -> Any:
        return function(gt.numpy_function(twice, [x], gt.TensorSpec([None], gt.float32)))

    np.testing.assert_allclose(np.asarray(f(X)), np.asarray(function(gt.constant(twice(X)))), rtol=1e-6)


@pytest.mark.parametrize("jit", [True, False], ids=["native", "interpreted"])
@pytest.mark.parametrize("name", GO_ON)
def test_elementwise_operations_need_no_rank(name: str, jit: bool) -> None:
    @gt.function(jit_compile=jit)
    def f(x: Any) -> Any:
        return GO_ON[name](gt.numpy_function(twice, [x], gt.float32))

    for value in (X, gt.constant(3.0), gt.ones([4, 3, 2])):
        np.testing.assert_allclose(np.asarray(f(value)), np.asarray(GO_ON[name](gt.constant(twice(value)))), rtol=1e-6)


def test_a_gradient_past_it_is_none_as_in_eager_code() -> None:
    @gt.function
    def f(x: Any) -> Any:
        return gt.numpy_function(twice, [x * 3.0], gt.float32) * 2.0

    with gt.GradientTape() as tape:
        tape.watch(X)
        y = f(X)
    assert tape.gradient(y, X) is None


def squared(t: Any) -> Any:
    return gt.py_function(lambda v: v * v, [t], gt.float32)


@pytest.mark.parametrize("jit", [True, False], ids=["native", "interpreted"])
@pytest.mark.parametrize("name", [*GO_ON, "identity"])
def test_derivatives_of_python_code_of_any_rank(name: str, jit: bool) -> None:
    function: Any = {**GO_ON, "identity": lambda y: y}[name]

    def f(x: Any) -> Any:
        return function(squared(x))

    for value in (gt.constant([1.0, 2.0]), gt.constant(3.0), gt.ones([4, 3, 2])):
        answers = []
        for call in (f, gt.function(f, jit_compile=jit)):
            with gt.GradientTape() as tape:
                tape.watch(value)
                y = call(value)
            answers += [(y, tape.gradient(y, value, unconnected_gradients="zero"))]
        for expected, actual in zip(*answers, strict=True):
            np.testing.assert_allclose(actual, expected, rtol=1e-6)


@pytest.mark.parametrize("jit", [True, False], ids=["native", "interpreted"])
@pytest.mark.parametrize("name", ASK)
def test_ensure_shape_says_the_rank(name: str, jit: bool) -> None:
    def f(x: Any) -> Any:
        return ASK[name](gt.ensure_shape(squared(x), [None]))

    call, answers = gt.function(f, jit_compile=jit), []
    for value in (X, gt.constant([3.0, 1.0, 2.0])):
        for way in (f, call):
            with gt.GradientTape() as tape:
                tape.watch(value)
                y = way(value)
            slope = tape.gradient(y, value, unconnected_gradients="zero") if y.dtype.is_floating else 0.0
            answers += [(np.asarray(y), np.asarray(slope))]
        np.testing.assert_allclose(answers[-1][0], answers[-2][0], rtol=1e-6)
        np.testing.assert_allclose(answers[-1][1], answers[-2][1], rtol=1e-6)
    with pytest.raises(ValueError, match=r"returned the shape \(2, 1\), Tout says \(None,\)"):
        call(gt.ones([2, 1]))


def test_a_shape_that_was_said_and_does_not_come_is_an_error() -> None:
    def f(x: Any) -> Any:
        return gt.py_function(lambda v: v * 2.0, [x], gt.TensorSpec([3], gt.float32)) + 1.0

    for call in (f, gt.function(f), gt.function(f, jit_compile=False)):
        with pytest.raises(gt.errors.InvalidArgumentError, match=r"returned the shape \(2,\), Tout says \(3,\)"):
            call(X)
