"""Loops over rows of products: found in every orientation, with the values and derivatives of the loop, NaN for NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape.backends.llvm.entry import kept_programs
from gradtape.ir.graph import Block
from gradtape.ir.walk import program
from gradtape.ops.matmul import MATMUL
from gradtape.passes import pipeline

K, R, N = 18, 20, 20  # what is summed over, rows of the loop, columns
CUTS: dict[str, Callable[[Any], Any]] = {
    "i:": lambda i: slice(i, None), "i+1:": lambda i: slice(i + 1, None), ":i": lambda i: slice(None, i),
    ":i+1": lambda i: slice(None, i + 1), ":": lambda i: slice(None), "3:9": lambda i: slice(3, 9),
    "i:i+4": lambda i: slice(i, i + 4),
}  # fmt: skip


def program_of(seed: int) -> tuple[Any, str]:
    """A loop of products of a row of x and columns of y, each lying either way, written to a row or column of the result."""
    rng = np.random.default_rng(seed)
    name = list(CUTS)[seed % len(CUTS)]
    cut = CUTS[name]
    rows_of_x, rows_of_y, on_the_right, same, down, back = (bool(flag) for flag in rng.integers(0, 2, 6))
    offset, turns = int(rng.integers(-1, 1)), R - (4 if name == "i:i+4" else int(rng.integers(0, 4)))

    def loop(x: Any, y: Any) -> Any:
        y = x if same else y
        mine = rows_of_x if same else rows_of_y
        out = gt.zeros((N, N), x.dtype)
        for t in range(turns):
            i = turns - 1 - t if back else t
            row = x[i + offset] if rows_of_x else x[:, i + offset]
            part = y[cut(i)] if mine else gt.transpose(y)[cut(i)]
            line = gt.linalg.matvec(part, row) if on_the_right else row @ gt.transpose(part)
            if down:
                out[cut(i), i] = line * 0.5
            else:
                out[i, cut(i)] = line * 0.5
        return out

    text = f"{name} {rows_of_x=} {rows_of_y=} {on_the_right=} {same=} {down=} {back=} {offset=} {turns=}"
    return loop, text


def inputs(seed: int, odd: bool) -> list[Any]:
    rng = np.random.default_rng(seed)
    rows_of_x, rows_of_y = (bool(flag) for flag in np.random.default_rng(seed).integers(0, 2, 6)[:2])
    arrays = [rng.normal(size=(R, K) if rows else (K, R)).astype("float64") for rows in (rows_of_x, rows_of_y)]
    if odd:
        for array in arrays:
            array[tuple(rng.integers(0, size) for size in array.shape)] = rng.choice([np.inf, np.nan, -np.inf])
    return [gt.constant(array) for array in arrays]


def objective(loop: Any) -> Any:
    def both(x: Any, y: Any) -> Any:
        with gt.GradientTape() as tape:
            tape.watch([x, y])
            out = loop(x, y)
            # what is not finite is masked, so that its cotangent is zero
            total = gt.reduce_sum(gt.where(gt.math.is_finite(out), out * out, gt.zeros_like(out)))
        return [out, total, *tape.gradient(total, [x, y], unconnected_gradients="zero")]

    return both


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Block, Block]]:
    """Each program that is compiled, before and after the pass."""
    noted: list[tuple[Block, Block]] = []
    pass_itself = pipeline.loop_products

    def noting(block: Block) -> Block:
        noted.append((block, pass_itself(block)))
        return noted[-1][1]

    monkeypatch.setattr(pipeline, "loop_products", noting)
    monkeypatch.setattr(kept_programs, "key_of", lambda traced: None)  # machine code on disk has passed already
    return noted


@pytest.mark.parametrize("seed", range(28))
def test_loops_are_what_they_were(seed: int) -> None:
    loop, text = program_of(seed)
    native = gt.function(objective(loop))
    with np.errstate(all="ignore"):
        for odd in (False, True):
            given = inputs(seed, odd)
            for got, expected in zip(native(*given), objective(loop)(*given), strict=True):
                scale = np.abs(expected.numpy()[np.isfinite(expected.numpy())]).max(initial=1.0)
                np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-10, atol=1e-12 * scale, err_msg=text)


def test_they_are_products(seen: list[tuple[Block, Block]]) -> None:
    for seed in range(14):
        gt.function(objective(program_of(seed)[0]))(*inputs(seed, False))
    assert all(after is not before for before, after in seen)
    assert len(seen) == 14


def covariance(d: Any) -> Any:
    cov = gt.zeros((R, R), d.dtype)
    for i in range(R):
        cov[i, i:] = d[:, i] @ d[:, i:] / (K - 1)
        cov[i:, i] = cov[i, i:]
    return gt.reduce_sum(cov * cov)


def test_a_covariance_and_its_gradient_are_two_products_outside_of_loops(seen: list[tuple[Block, Block]]) -> None:
    def both(d: Any) -> Any:
        with gt.GradientTape() as tape:
            tape.watch(d)
            value = covariance(d)
        return value, tape.gradient(value, d)

    gt.function(both)(gt.constant(np.random.default_rng(0).normal(size=(K, R))))
    ((_, block),) = seen
    inside = [o for loop in block.operations if "body" in loop.regions for o in program(loop.regions["body"]) if o.op is MATMUL]
    assert not inside
    branch = next(o for o in block.operations if "then" in o.regions)
    assert [o.op for o in (*block.operations, *branch.regions["then"].operations)].count(MATMUL) == 2


def test_large_products_stay_loops(seen: list[tuple[Block, Block]]) -> None:
    """A product that would be larger than all that the loop has is not made."""

    @gt.function
    def total(x: Any) -> Any:
        sum_ = gt.zeros((), x.dtype)
        for i in range(200):
            sum_ += gt.reduce_sum(x[:, i] @ x[:, i:])
        return sum_

    total(gt.ones((20, 200)))
    assert [after is before for before, after in seen] == [True]
