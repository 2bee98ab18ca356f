"""In a function whose signature leaves sizes open, `squeeze` left unit axes where they were, and `broadcast_to` of such a
tensor crashed in the backward pass; so did all ops whose derivative asked Python for a size (products, Fourier transforms,
singular values, updates at index arrays). `tests/function/test_unknown_sizes.py` asks every op."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape.errors import InvalidArgumentError
from tests.harness.tolerances import same_array

BOTH = pytest.mark.parametrize("native", [False, True], ids=["interpreted", "native"])


def compiled(function: Any, *shapes: Any, native: bool) -> Any:
    return gt.function(function, input_signature=[gt.TensorSpec(s, gt.float64) for s in shapes], jit_compile=native)


def derivatives(function: Any, x: Any) -> list[Any]:
    """The value, its gradient, and the gradient of a weighted sum of that."""
    x = gt.constant(x)
    with gt.GradientTape() as outer:
        outer.watch(x)
        with gt.GradientTape() as inner:
            inner.watch(x)
            y = function(x)
        first = inner.gradient(y, x)
        s = gt.reduce_sum(first * gt.cos(gt.cast(gt.reshape(gt.range(gt.size(x)), gt.shape(x)), gt.float64)))
    second = outer.gradient(s, x, unconnected_gradients="zero")
    return [y.numpy(), first.numpy(), second.numpy()]


def agrees(function: Any, shape: Any, values: list[Any], native: bool) -> Any:
    program = compiled(function, shape, native=native)
    for x in values:
        for a, b in zip(derivatives(program, x), derivatives(function, x), strict=True):
            same_array(a, b, 1e-12, f"{function.__name__} of shape {np.shape(x)}")
    return program


def numbers(*shape: int) -> Any:
    return np.sin(1.0 + np.arange(float(np.prod(shape)))).reshape(shape)


@BOTH
def test_squeeze_without_an_axis_follows_the_sizes_at_hand(native: bool) -> None:
    def squeezed(x: Any) -> Any:
        return gt.squeeze(x * x * x)

    agrees(squeezed, [None, None, None], [numbers(1, 3, 1), numbers(2, 1, 2), numbers(2, 2, 2), numbers(1, 1, 1)], native)


@BOTH
def test_squeeze_of_an_axis_is_one_program(native: bool) -> None:
    def squeezed(x: Any) -> Any:
        return gt.squeeze(x * x * x, axis=1)

    program = agrees(squeezed, [None, None], [numbers(3, 1), numbers(2, 1), numbers(0, 1)], native)
    assert program.experimental_get_tracing_count() == 1
    with pytest.raises(InvalidArgumentError, match=r"squeeze: axes \(1,\) of shape \(3, 2\) are not 1"):
        program(gt.constant(numbers(3, 2)))


@BOTH
def test_squeeze_of_a_size_that_a_mask_makes(native: bool) -> None:
    def kept(x: Any) -> Any:
        return gt.squeeze(gt.boolean_mask(x * x, x > 0.9), 0)

    agrees(kept, [None], [np.array([0.1, 0.95, 0.2]), np.array([0.99])], native)
    with pytest.raises(InvalidArgumentError, match=r"squeeze: axes \(0,\) of shape \(2,\) are not 1"):
        compiled(kept, [None], native=native)(gt.constant([0.95, 0.99], gt.float64))


def test_what_cannot_be_squeezed_says_what_to_write() -> None:
    @gt.function
    def kept(x: Any) -> Any:
        return gt.squeeze(gt.boolean_mask(x, x > 0.0))

    with pytest.raises(TypeError, match=r"known only when the function runs: name the axes to remove"):
        kept(gt.constant([1.0, -1.0]))


@BOTH
def test_broadcast_to_of_an_open_size(native: bool) -> None:
    def spread(x: Any) -> Any:
        return gt.broadcast_to(gt.sin(x), (2, 3, 4)) ** 2

    values = [numbers(3, 1), numbers(1, 4), numbers(1, 1), numbers(3, 4)]
    program = agrees(spread, [None, None], values, native)
    assert program.experimental_get_tracing_count() == 1


@BOTH
def test_broadcast_to_an_open_size(native: bool) -> None:
    def spread(x: Any) -> Any:
        return gt.broadcast_to(gt.sin(x[:, :1]), gt.shape(x)) * x

    agrees(spread, [None, None], [numbers(3, 2), numbers(1, 4), numbers(2, 0)], native)


@BOTH
def test_a_derivative_that_needs_sizes_is_made_for_those_at_hand(native: bool) -> None:
    def blocks(x: Any) -> Any:
        return gt.nn.conv2d(gt.reshape(x, (1, *x.shape, 1)), np.ones((2, 2, 1, 1)), 1, "SAME") ** 2

    agrees(blocks, [None, None], [numbers(3, 4), numbers(2, 2)], native)


@BOTH
def test_a_written_place_named_twice(native: bool) -> None:
    def written(x: Any) -> Any:
        y = gt.identity(x)
        y[np.array([0, -1, 0])] = gt.sin(x[:3])
        return y * y

    agrees(written, [None], [numbers(3), numbers(5)], native)


@BOTH
def test_a_constant_residual_is_not_differentiated(native: bool) -> None:
    def orders(x: Any) -> Any:
        return gt.math.polygamma(np.array([1.0, 2.0]), 2.0 + x * x)

    agrees(orders, [2], [numbers(2)], native)
