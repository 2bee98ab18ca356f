"""Sizes that only run time knows: each half of a program, each region and each callee has those it needs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape.errors import InvalidArgumentError
from gradtape.ir.dims import symbol
from gradtape.ir.graph import Operation
from gradtape.ir.printer import to_text
from gradtape.ir.sizes import defined_sizes, free_sizes, needed_sizes
from gradtape.ir.types import TensorSpec
from gradtape.ir.verify import verify
from gradtape.ops.registry import op_by_name
from gradtape.ops.staged import FILLED, VOID
from gradtape.passes.canonicalize import canonicalize
from gradtape.passes.fold import fold
from tests.harness.program_parser import parse
from tests.harness.tolerances import same_array

X = np.array([0.3, -0.7, 1.1])


@gt.recompute_grad
def again(z: Any) -> Any:
    return gt.sin(z) * z


@gt.custom_gradient
def ruled(z: Any) -> Any:
    return gt.tanh(z), lambda ct: ct * (1.0 - gt.tanh(z) ** 2) * gt.ones(gt.shape(z), gt.float64)


def called_on_a_part(x: Any, n: Any) -> Any:
    q = again(gt.sin(x[:n][1:]))
    return gt.reduce_sum(gt.gather(q, gt.range(gt.shape(q)[0])) * gt.ones([gt.shape(q)[0]], gt.float64))


def callee_that_needs_an_outer_size(x: Any, n: Any) -> Any:
    u = x[:n]
    return gt.reduce_sum(gt.recompute_grad(lambda z: z * gt.reduce_sum(gt.ones(u.shape, gt.float64) * gt.sin(z[0])))(x))


def lists_in_one_branch(x: Any, n: Any) -> Any:
    u, s = x[:n], x[0]
    for i in gt.range(2):
        if x[i] > 0.0:
            for e in u:
                u = u + e * gt.sin(u) * 0.3
        else:
            u = u * 0.8
        s = s + gt.reduce_sum(u * u)
    return s


def rule_on_slices_in_a_loop(x: Any, n: Any) -> Any:
    s = x[0]
    for i in gt.range(n):
        s = s + gt.reduce_sum(ruled(x[: i + 1]) * ruled(x[: i + 1] * s))
    return s


def tape_on_a_mask_in_a_loop(x: Any, n: Any) -> Any:
    s = x[0]
    for i in gt.range(n):
        w = gt.boolean_mask(x, gt.range(3) <= i) * s
        with gt.GradientTape() as tape:
            tape.watch(w)
            z = gt.reduce_sum(gt.sin(w) * gt.ones([i + 1], gt.float64))
        s = s + gt.reduce_sum(tape.gradient(z, w))
    return s


PROGRAMS = [
    called_on_a_part,
    callee_that_needs_an_outer_size,
    lists_in_one_branch,
    rule_on_slices_in_a_loop,
    tape_on_a_mask_in_a_loop,
]


def derivatives(function: Any, n: int) -> list[Any]:
    x, count = gt.constant(X), gt.constant(n)
    with gt.GradientTape() as outer:
        outer.watch(x)
        with gt.GradientTape() as inner:
            inner.watch(x)
            y = function(x, count)
        first = inner.gradient(y, x)
        s = gt.reduce_sum(first * np.array([0.4, -1.2, 0.9]))
    return [y.numpy(), first.numpy(), outer.gradient(s, x).numpy()]


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_derivatives(function: Any) -> None:
    compiled = gt.function(function)
    for n in (2, 3):
        for a, b in zip(derivatives(compiled, n), derivatives(function, n), strict=True):
            same_array(a, b, 1e-10, f"{function.__name__} with n = {n}")
    assert compiled.experimental_get_tracing_count() == 1


@gt.function
def product(x: Any, n: Any, k: Any) -> Any:
    return gt.reduce_sum(x[:n] * gt.sin(x[:k]))


def test_unknown_sizes_that_meet_count_as_equal() -> None:
    x = gt.constant(X)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = product(x, gt.constant(2), gt.constant(2))
    same_array(tape.gradient(y, x).numpy(), np.where([1, 1, 0], np.sin(X) + X * np.cos(X), 0.0), 1e-12, "gradient")


def test_unknown_sizes_are_not_broadcast() -> None:
    with pytest.raises(
        InvalidArgumentError, match=r"shape \(1,\) met one of shape \(3,\)[^$]*not broadcast: say what is meant"
    ):
        product(gt.constant(X), gt.constant(3), gt.constant(1))


def test_slices_between_the_same_bounds_have_one_length() -> None:
    @gt.function
    def f(x: Any, m: Any, n: Any) -> Any:
        total = gt.reduce_sum(x[: n + 1] * m[n, : n + 1])
        for i in gt.range(3):
            total = total + gt.reduce_sum(m[i, :i] * x[:i] + x[:i][::-1])
        return total

    m = np.arange(9.0).reshape(3, 3)
    found = f(gt.constant(X), gt.constant(m), gt.constant(1)).numpy()
    parts = [(m[i, :i] * X[:i] + X[:i][::-1]).sum() for i in range(3)]
    same_array(found, X[:2] @ m[1, :2] + sum(parts), 1e-12, "sum of parts")
    assert "sized" not in f.to_text()


def test_slices_of_other_axes_or_bounds_have_lengths_of_their_own() -> None:
    @gt.function
    def f(x: Any, y: Any, n: Any, k: Any) -> Any:
        return x[:n] * y[:n], x[:n] * x[:k], x[:n] * x[:n:2]

    arrays = gt.constant(np.arange(5.0)), gt.constant(np.arange(4.0))
    assert [len(part) for part in f(*arrays, gt.constant(1), gt.constant(1))] == [1, 1, 1]
    with pytest.raises(InvalidArgumentError, match="broadcast"):
        f(*arrays, gt.constant(5), gt.constant(5))
    with pytest.raises(InvalidArgumentError, match="broadcast"):
        f(*arrays, gt.constant(1), gt.constant(3))
    assert f.to_text().count("sized") == 3


@gt.function
def image(x: Any, n: Any, k: Any) -> Any:
    return gt.linalg.matvec(x[:n, None] * x[None, :k], x[:n])


def test_unknown_sizes_of_a_product() -> None:
    same_array(image(gt.constant(X), gt.constant(2), gt.constant(2)).numpy(), np.outer(X[:2], X[:2]) @ X[:2], 1e-12, "product")
    with pytest.raises(
        InvalidArgumentError, match=r"matvec: \(2, 3\) does not fit a vector of shape \(2,\)"
    ):  # as in eager code
        image(gt.constant(X), gt.constant(2), gt.constant(3))


# -- what needs and tells sizes ------------------------------------------------------------------------------------------

TWO_NAMES = """
func f(%p: bool[], %x: float64[n]) {
  outputs(%a: float64[k], %b: float64[m]) = cond pred(%p) inputs(%x) {
    then inputs(%y: float64[i]) {
      %s: float64[i] = sin(%y)
      give outputs(%s, %s)
    }
    orelse inputs(%z: float64[j]) {
      %c: float64[j] = cos(%z)
      give outputs(%c, %c)
    }
  }
  %q: float64[m] = filled(shape=($m,), dtype=float64, value=1)
  %r: float64[m] = multiply(%b, %q)
  give outputs(%a, %r)
}
"""


def test_a_value_that_stands_for_another_tells_its_sizes() -> None:
    block = verify(parse(TWO_NAMES, op_by_name))
    assert "shape=($k,)" in to_text(verify(canonicalize(block)))


def test_a_branch_put_in_the_place_of_its_operation_tells_its_sizes() -> None:
    known = "{\n  %p: bool[] = constant(value=bool{True})\n  outputs"
    text = TWO_NAMES.replace("func f(%p: bool[], ", "func f(").replace("{\n  outputs", known, 1)
    block = verify(parse(text, op_by_name))
    verify(fold(canonicalize(block)))


def test_types_in_attributes_only_describe() -> None:
    spec = TensorSpec((symbol("n"),), "float64")
    void = Operation(VOID, (), [spec], {"type": spec})
    filled = Operation(FILLED, (), [spec], {"shape": (symbol("k"),), "dtype": gt.float64, "value": 0})
    assert needed_sizes(void) == frozenset()
    assert needed_sizes(filled) == {"k"}
    assert list(free_sizes([void, filled], ())) == ["k"]
    assert sorted(free_sizes([void, filled], (), described=True)) == ["k", "n"]


def test_a_block_defines_what_no_attribute_needs_before() -> None:
    assert defined_sizes(parse(TWO_NAMES, op_by_name)) == {"n", "k", "m", "i", "j"}
