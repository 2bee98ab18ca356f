"""Random programs (nested branches, loops, calls, lists): forward mode against reverse mode, at first and second order.

⟨w, J t⟩ = ⟨Jᵀ w, t⟩ holds for any program; for its backward half too, which is itself a program. Running operation by operation
(`ad/evaluation.py`) gives what the executable gives.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings, strategies as st

from gradtape.ad.batch import BatchedTensor, batched
from gradtape.ad.dual import jvp_block
from gradtape.ad.evaluation import evaluate
from gradtape.ad.reverse import split
from gradtape.backends.numpy import compile_block
from gradtape.core.tensor import Tensor, box
from gradtape.errors import InvalidArgumentError
from gradtape.ir.graph import Block
from gradtape.ir.types import TensorSpec
from gradtape.ir.verify import verify
from gradtape.ops.list_values import TensorList, spread_spec
from gradtape.ops.structured import CALL
from gradtape.trace.tracing import Trace, params_of, tracing
from tests.harness.checked_passes import nearly_same
from tests.passes.programs import inputs, program


def floating(values: Any) -> list[int]:
    """The places of floating tensors among the values of a block."""
    return [i for i, v in enumerate(values) if isinstance(v.type, TensorSpec) and v.type.dtype.kind == "f"]


def tame(block: Block, seed: int) -> list[Any]:
    return [np.nan_to_num(a, nan=0.3, posinf=2.0, neginf=-2.0)[()] if a.dtype.kind == "f" else a for a in inputs(block, seed)]


def directions(generator: np.random.Generator, arrays: list[Any]) -> list[Any]:
    return [generator.normal(size=np.shape(a)) for a in arrays]


def check_modes(block: Block, arrays: list[Any], generator: np.random.Generator) -> Block | None:
    """Forward against reverse mode of one program; its backward half, None if it cannot be differentiated."""
    moving, ends = floating(block.params), floating(block.results)
    if not moving or not ends:
        return None
    halves = split(block, set(moving), ends)
    both = jvp_block(block, moving, ends)
    for made in (halves.forward, halves.backward, both):
        verify(made)
    try:
        outs = compile_block(halves.forward)(*arrays)
    except IndexError:
        return None
    seeds = directions(generator, [outs[i] for i in ends])
    tangents = directions(generator, [arrays[i] for i in moving])
    grads = dict(zip(halves.answers, compile_block(halves.backward)(*outs[len(block.results) :], *seeds), strict=True))
    pushed = compile_block(both)(*arrays, *tangents)[len(block.results) :]
    right = [(grads[i], t) for i, t in zip(moving, tangents, strict=True) if i in grads]
    left = list(zip(seeds, pushed, strict=True))
    if all(np.isfinite(a).all() for a, _ in right) and all(np.isfinite(b).all() for _, b in left):
        scale = sum(float(np.sum(np.abs(a * b))) for a, b in (*left, *right)) + 1e-300
        if np.isfinite(scale):
            error = abs(sum(np.sum(a * b) for a, b in left) - sum(np.sum(a * b) for a, b in right))
            assert error <= 1e-9 * scale, f"forward against reverse mode: {error} at scale {scale}"
    return halves.backward


@given(seed=st.integers(0, 2**32 - 1), size=st.integers(4, 12))
@settings(max_examples=60, deadline=None)
def test_forward_against_reverse_mode(seed: int, size: int) -> None:
    block = program(seed, size)
    generator = np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        check_modes(block, tame(block, seed), generator)


@given(seed=st.integers(0, 2**32 - 1), size=st.integers(4, 8))
@settings(max_examples=30, deadline=None)
def test_second_order(seed: int, size: int) -> None:
    """The gradient as a program: forward half, then backward half; its own modes agree."""
    block = program(seed, size)
    moving, ends = floating(block.params), floating(block.results)
    if not moving or not ends:
        return
    halves = split(block, set(moving), ends)
    generator = np.random.default_rng(seed)
    arrays = tame(block, seed)
    try:
        outs = compile_block(halves.forward)(*arrays)
    except IndexError:
        return
    seeds = directions(generator, [outs[i] for i in ends])
    saved = list(outs[len(block.results) :])
    with np.errstate(all="ignore"):
        check_modes(halves.backward, [*saved, *seeds], generator)


@given(seed=st.integers(0, 2**32 - 1), size=st.integers(4, 12))
@settings(max_examples=40, deadline=None)
def test_operation_by_operation(seed: int, size: int) -> None:
    block = program(seed, size)
    arrays = inputs(block, seed)
    with np.errstate(all="ignore"):
        try:
            expected = compile_block(block)(*arrays)
        except Exception:
            return
        found = evaluate(block, [box(a) for a in arrays])
    assert all(nearly_same(bare(f), e) for f, e in zip(found, expected, strict=True))


def bare(tensor: Tensor) -> Any:
    data = tensor._data
    return TensorList(data, data.item) if isinstance(data, TensorList) else data


def rows_of(block: Block, seed: int, count: int) -> list[list[Any]]:
    """Several examples; integers and flags, which decide the course, are the same in all."""
    examples = [tame(block, seed + k) for k in range(count)]
    return [[a if a.dtype.kind == "f" else first for a, first in zip(row, examples[0], strict=True)] for row in examples]


def stacked(block: Block, rows: list[list[Any]]) -> list[Any]:
    return [np.stack([row[i] for row in rows]) if i in floating(block.params) else rows[0][i] for i in range(len(block.params))]


def check_batch(block: Block, rows: list[list[Any]], found: list[Any]) -> None:
    """Batched results (None: not batched) against one run per example."""
    expected = [compile_block(block)(*row) for row in rows]
    for i, value in enumerate(block.results):
        if isinstance(value.type, TensorSpec):
            whole = np.stack([outs[i] for outs in expected])
            assert nearly_same(np.broadcast_to(found[i], whole.shape), whole), f"result {i}"


@given(seed=st.integers(0, 2**32 - 1), size=st.integers(4, 10))
@settings(max_examples=60, deadline=None)
def test_batches(seed: int, size: int) -> None:
    """A program on a batch, run operation by operation and as another program, is the program on each example."""
    block = program(seed, size)
    rows = rows_of(block, seed, 2)
    flags = [i in floating(block.params) for i in range(len(block.params))]
    wide = Block([spread_spec(p.type, 2) if flag else p.type for p, flag in zip(block.params, flags, strict=True)])
    trace = Trace(wide)
    with np.errstate(all="ignore"):
        try:
            given = [batched(box(a), 1) if flag else box(a) for a, flag in zip(stacked(block, rows), flags, strict=True)]
            outs = evaluate(block, given)
            with tracing(trace):
                params = [batched(t, 2) if flag else t for t, flag in zip(params_of(wide), flags, strict=True)]
                ends = trace.structured(CALL, {"inputs": params}, {}, {"callee": block})["outputs"]
        except (InvalidArgumentError, TypeError, IndexError):
            return  # examples that take different courses
        check_batch(block, rows, [t._data._data if isinstance(t, BatchedTensor) else t._data for t in outs])
        wide.give(outputs=[trace.operand(t._data if isinstance(t, BatchedTensor) else t) for t in ends])
        check_batch(block, rows, list(compile_block(verify(wide))(*stacked(block, rows))))
