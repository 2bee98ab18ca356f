"""Loops over columns run over rows of arrays that are turned around: with the values of the loop, and only where that pays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape.backends.llvm.entry import kept_programs, written_program
from gradtape.backends.llvm.planning.column_loops import TURNED
from gradtape.ir.graph import Block
from gradtape.ir.walk import program
from gradtape.ops.structured import SCAN
from tests.harness.seeds import half_of_pairs


def recursive(x: Any) -> Any:
    y = gt.zeros_like(x)
    y[..., 0] = x[..., 0]
    for j in range(1, x.shape[-1]):
        y[..., j] = 0.3 * x[..., j] - 0.1 * x[..., j - 1] + 0.9 * gt.sin(y[..., j - 1])
    return y


def twice(x: Any) -> Any:
    return recursive(recursive(x))


def in_a_loop(x: Any) -> Any:
    for _ in gt.range(3):
        x = recursive(x)
    return x


def backwards(x: Any) -> Any:
    x = gt.identity(x)
    for j in range(x.shape[-1] - 2, -1, -1):
        x[..., j] -= 0.5 * x[..., j + 1] * x[..., -1]
    return x


def sums(x: Any) -> Any:
    total = gt.zeros_like(x)
    for j in range(1, x.shape[-1]):
        total[..., j] = gt.reduce_mean(x[..., j]) * x[..., j - 1] + gt.reduce_max(total[..., j - 1])
    return total


def gradient(loop: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def both(x: Any) -> Any:
        with gt.GradientTape() as tape:
            tape.watch(x)
            out = loop(x)
            total = gt.reduce_sum(out * out)
        return out, tape.gradient(total, x)

    return both


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Block, Block]]:
    """Each program that is written, before and after."""
    noted: list[tuple[Block, Block]] = []
    itself = written_program.by_rows

    def noting(block: Block) -> Block:
        noted.append((block, itself(block)))
        return noted[-1][1]

    monkeypatch.setattr(written_program, "by_rows", noting)
    monkeypatch.setattr(kept_programs, "key_of", lambda traced: None)  # what is on disk is not written
    return noted


SHAPES = [(64, 40), (17, 129), (5, 7, 70), (131, 17)]
# every loop meets every shape in one dtype, and both dtypes; in `make test-all` every shape in both
PAIRS = half_of_pairs(SHAPES, ("float32", "float64"))


@pytest.mark.parametrize(("shape", "dtype"), PAIRS, ids=str)
@pytest.mark.parametrize("loop", [recursive, twice, in_a_loop, backwards, sums], ids=lambda loop: loop.__name__)
def test_values_and_derivatives_are_those_of_the_loop(loop: Any, shape: Any, dtype: str, seen: Any) -> None:
    x = gt.constant(np.random.default_rng(7).normal(size=shape), dtype)
    got = gt.function(gradient(loop), backend="llvm")(x)
    assert seen[0][1] is not seen[0][0]
    for ours, theirs in zip(got, gt.function(gradient(loop), backend="numpy")(x), strict=True):
        scale = np.abs(theirs.numpy()).max()
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=0, atol=scale * (2e-6 if dtype == "float32" else 1e-14))


def turns(block: Block) -> int:
    return sum(operation.op is TURNED for operation in program(block))


def test_all_arrays_of_a_recursion_are_turned_and_zeros_need_not_be(seen: Any) -> None:
    gt.function(gradient(recursive), backend="llvm")(gt.ones((64, 64)))
    ((_, block),) = seen
    loops = [operation for operation in block.operations if operation.op is SCAN]
    keys = [o.attrs["key"] for loop in loops for o in loop.regions["body"].operations if "key" in o.attrs]
    assert len(loops) == 2
    assert {len(key) for key in keys} == {1}
    # x and y in front of the first loop, y behind it and its cotangent for the second; gradients of x and y; y's own past
    assert turns(block) <= 7


def test_what_was_turned_is_used_as_it_is(seen: Any) -> None:
    gt.function(backwards, backend="llvm")(gt.ones((64, 64)))
    gt.function(lambda x: backwards(backwards(x)), backend="llvm")(gt.ones((64, 64)))
    assert [turns(after) for _, after in seen] == [2, 2]


def rows(x: Any) -> Any:
    x = gt.identity(x)
    for i in range(1, 64):
        x[i] += 0.5 * x[i - 1]
    return x


def parts(x: Any) -> Any:
    x = gt.identity(x)
    for j in range(1, 64):
        x[1:, j] += 0.5 * x[1:, j - 1]
    return x


def once(x: Any) -> Any:
    total = gt.zeros((64,))
    for j in range(64):
        total = 0.5 * total + x[:, j]
    return total


def whole(x: Any) -> Any:
    x = gt.identity(x)
    for j in range(1, 64):
        x[:, j] += 1e-3 * gt.reduce_mean(x)
    return x


def short(x: Any) -> Any:
    return recursive(x[:8])


@pytest.mark.parametrize("loop", [rows, parts, once, whole, short], ids=lambda loop: loop.__name__)
def test_other_loops_are_as_they_were(loop: Any, seen: Any) -> None:
    gt.function(loop, backend="llvm")(gt.ones((64, 64)))
    assert [after is before for before, after in seen] == [True]


def test_a_column_that_is_not_there_is_told_as_before() -> None:
    def loop(x: Any, first: Any) -> Any:
        x = gt.identity(x)
        for j in range(1, 64):
            x[:, j] += 0.5 * x[:, first + j - 1]
        return x

    with pytest.raises(gt.errors.OpError) as eager:
        loop(gt.ones((64, 64)), gt.constant(5))
    with pytest.raises(gt.errors.OpError) as native:
        gt.function(loop, backend="llvm")(gt.ones((64, 64)), gt.constant(5))
    assert "64" in str(native.value)
    assert str(native.value).splitlines()[0] == str(eager.value).splitlines()[0]
