"""Exchanges in halves: begun where the operand is known, awaited behind the work that need not wait; the meaning stays."""

from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape.core.hooks import HOOKS
from gradtape.core.opdef import Fails
from gradtape.ir.verify import verify
from gradtape.ir.walk import program
from gradtape.ops.collective import COMMUNICATIONS, POSTED
from gradtape.passes import overlap as passes
from gradtape.passes.pipeline import optimize, prepared

ranks = gt.distribute
X = np.random.default_rng(0).normal(size=(6, 6))


@pytest.fixture(autouse=True)
def two_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A world that says it has two ranks, in which sums are those of one; any work is worth it."""
    monkeypatch.setattr(HOOKS.world, "size", 2, raising=False)
    monkeypatch.setattr(passes, "_LARGE", 1)
    monkeypatch.setattr(passes, "_LONG_SUM", 1)


def scheduled(function: Any, *args: Any) -> Any:
    block = gt.function(function).get_concrete_function(*args)._traced.program.block
    split = passes.overlap(optimize(block))
    verify(split)
    return split


def names(block: Any) -> list[str]:
    return [
        operation.op.name for operation in block.operations if operation.op.name not in ("constant", "reshape", "transpose")
    ]


def test_work_stands_between_the_halves() -> None:
    def f(x: Any) -> Any:
        first = x @ x
        second = gt.tanh(first) @ x  # needs no sum
        return ranks.all_reduce(first) + second @ x

    assert names(scheduled(f, X)) == ["matmul", "all_sum_posted", "tanh", "matmul", "matmul", "all_sum_awaited", "add"]


def test_the_end_of_one_is_no_reason_to_wait_for_another() -> None:
    def f(x: Any) -> Any:
        a, b = x @ x, (x @ x) @ x
        a, b = ranks.all_reduce(a), ranks.all_reduce(b)
        return a, b, gt.reduce_sum(x * x * x)

    assert names(scheduled(f, X)) == [
        "matmul", "all_sum_posted", "matmul", "all_sum_posted", "multiply", "multiply", "reduce_sum", "all_sum_awaited",
        "all_sum_awaited",
    ]  # fmt: skip


@pytest.mark.parametrize("between", ["assert", "print", "loop"])
def test_nothing_that_may_leave_the_program_stands_between(between: str) -> None:
    def f(x: Any) -> Any:
        y = ranks.all_reduce(x @ x)
        z = gt.tanh(x) @ x
        if between == "assert":
            z = gt.debugging.check_numerics(z, "no")
        elif between == "print":
            gt.print("here")
        elif between == "loop":
            for _ in gt.range(3):
                z = z @ x
        return y + gt.tanh(x * 2.0) @ x @ z

    inside, meanwhile = False, []
    for operation in scheduled(f, X).operations:
        inside = (inside or operation.op in POSTED) and not operation.op.name.endswith("_awaited")
        meanwhile += [operation] if inside and operation.op not in POSTED else []
    assert "matmul" in [operation.op.name for operation in meanwhile]
    assert [o for o in meanwhile if o.regions or o.op.effect or o.op.fails is not Fails.NEVER] == []


def random_program(seed: int) -> Any:
    """Products, element operations, exchanges, updates, in any order."""

    def f(x: Any) -> Any:
        rng = np.random.default_rng(seed)
        values = [x]
        for _ in range(rng.integers(6, 20)):
            a, b = (values[rng.integers(max(0, len(values) - 4), len(values))] for _ in range(2))
            kind = rng.integers(0, 8)
            if kind < 2:
                new = gt.tanh(a @ b)
            elif kind == 2:
                new = ranks.all_reduce(a)
            elif kind == 3:
                new = ranks.halo_exchange(a, periodic=bool(rng.integers(2)))[1:-1] + ranks.halo_exchange(b)[:6]
            elif kind == 4:
                new = ranks.sendrecv(a, dest=0, source=0)
            elif kind == 5:
                new = gt.sin(a) * b
            elif kind == 6:
                new = a * 1.0
                new[1:3] = b[:2]
            else:
                new = a + gt.reduce_sum(b, axis=0)
            values.append(new)
        return values[-3:]

    return f


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_mean_the_same(seed: int) -> None:
    f = random_program(seed)
    expected = f(gt.constant(X))
    block = gt.function(f).get_concrete_function(X)._traced.program.block
    split = passes.overlap(optimize(block))
    verify(split)
    order = [POSTED.get(o.op, o.op) for o in program(split) if o.op in COMMUNICATIONS or o.op in POSTED]
    assert order == [o.op for o in program(optimize(block)) if o.op in COMMUNICATIONS]
    for backend in ("numpy", "llvm"):
        for one, other in zip(expected, gt.function(f, backend=backend)(gt.constant(X)), strict=True):
            np.testing.assert_allclose(other.numpy(), one.numpy(), rtol=1e-12, atol=1e-12, err_msg=f"{backend} {seed}")


def test_some_random_programs_have_halves() -> None:
    counts = [
        sum(
            o.op in POSTED
            for o in program(prepared(gt.function(random_program(s)).get_concrete_function(X)._traced.program.block))
        )
        for s in range(12)
    ]
    assert sum(map(bool, counts)) >= 6, counts
