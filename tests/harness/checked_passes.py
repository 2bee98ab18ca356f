"""Passes under watch: the program is verified and run before and after each, and the one that changed a bit is named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape.errors import InternalError
from gradtape.ir.graph import Block, Value
from gradtape.ir.verify import verify
from gradtape.ir.walk import blocks, free, has_effect
from gradtape.ops.staged import VOID
from gradtape.ops.structured import CALL, COND
from gradtape.passes.pipeline import _run, _verified

Run = Callable[[Block], Callable[..., Any]]  # a backend's compile: run(block)(*inputs) gives the results


def debug_optimize(block: Block, inputs: Sequence[Any], run: Run, level: int = 2) -> Block:
    """As `optimize`, verifying and running the program on `inputs` before and after each pass.

    InternalError names a pass after which the program is not well formed or gives other bits (or another error).
    A program with effects is verified only: running it again would print, draw and call again.
    """
    verify(block)
    silent = not any(has_effect(operation) for operation in block.operations)
    memory: list[Any] = [_outcome(block, inputs, run)] if silent else []

    def check(name: str, before: Block, after: Block) -> None:
        _verified(name, before, after)
        if silent:
            outcome = _outcome(after, inputs, run)
            if not _agree(name, memory[0], outcome, [may_be_void(v) for v in block.results]):
                raise InternalError(f"the pass {name} changed what the program computes: {memory[0]} became {outcome}")
            memory[0] = outcome

    return _run(block, level, check)


def _outcome(block: Block, inputs: Sequence[Any], run: Run) -> Any:
    """What a program gives, or the error it ends with."""
    try:
        return list(run(block)(*inputs))
    except Exception as error:
        return error


def _agree(name: str, a: Any, b: Any, void: Sequence[bool]) -> bool:
    if isinstance(a, Exception):
        return True  # the program fails for these inputs; unneeded work that fails may be gone
    same = nearly_same if name == "accumulate" else same_bits
    return (
        not isinstance(b, Exception) and len(a) == len(b) and all(v or same(x, y) for x, y, v in zip(a, b, void, strict=True))
    )


def is_isolated(block: Block) -> bool:
    """True when the block and every region in it read only what they define themselves."""
    return all(set(free(part.operations, part.results)) <= set(part.params) for part in blocks(block))


def may_be_void(value: Value) -> bool:
    """Whether a value may be a placeholder on some path: it is whatever was in memory, and nobody may read it."""
    stack, seen = [value], {value}
    while stack:
        value = stack.pop()
        producer = value.producer
        if producer is None:
            continue
        if producer.op is VOID:
            return True
        inner = [*producer.regions.values()]
        if isinstance(callee := producer.attrs.get("callee"), Block):
            inner.append(callee)
        # by position for branches and callees; of a loop any void makes any result suspect
        if producer.op in (COND, CALL):
            below = [part.results[value.index] for part in inner]
        else:
            below = [*producer.operands, *(v for part in inner for v in part.results)] if inner else []
        stack += [v for v in dict.fromkeys(below) if v not in seen]
        seen.update(below)
    return False


def same_bits(a: Any, b: Any) -> bool:
    """True for equal run-time values, bit by bit; NaNs are equal whatever their payload. Lists item by item."""
    if isinstance(a, list) or isinstance(b, list):
        return isinstance(a, list) and isinstance(b, list) and len(a) == len(b) and all(map(same_bits, a, b))
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind == "c":
        return same_bits(a.real, b.real) and same_bits(a.imag, b.imag)
    if a.dtype.kind == "O":
        return bool((a == b).all())
    if a.dtype.kind in "biu":
        return bool(np.array_equal(a, b))
    differ = (a != b) | (np.signbit(a) != np.signbit(b))
    return not bool((differ & ~(np.isnan(a) & np.isnan(b))).any())


def nearly_same(a: Any, b: Any) -> bool:
    """As `same_bits`, up to the sign of zeros and half of the digits of the largest number."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(nearly_same, a, b))
    if same_bits(a, b) or isinstance(a, list) or isinstance(b, list):
        return same_bits(a, b)
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype != b.dtype or a.shape != b.shape or a.dtype.kind not in "fc":
        return False
    finite = np.isfinite(a)
    scale = np.abs(a[finite]).max(initial=0.0)
    close = np.abs(a[finite] - b[finite]) <= np.sqrt(np.finfo(a.dtype).eps) * scale
    return bool(close.all()) and same_bits(a[~finite], b[~finite])
