"""Planning a program takes steps in proportion to its length: counted, on programs that a Python loop unrolls."""

from __future__ import annotations

import sys
from typing import Any

from gradtape.backends.llvm.kernels.table import TABLES
from gradtape.backends.llvm.planning import grouping
from gradtape.backends.llvm.planning.plan import BlockPlan
from gradtape.ir.graph import Block
from gradtape.ops.elementwise import ADD, MULTIPLY
from gradtape.ops.reduce import REDUCE_SUM
from tests.backends.build import program, tensor


def unrolled(count: int) -> Block:
    """total += Σ x·total, again and again, and z·total of each: what is made of registers that all sums before it made."""

    def body(build: Any, x: Any, z: Any) -> list[Any]:
        total, results = build(REDUCE_SUM, x, axis=(0,), keepdims=False), []
        for _ in range(count):
            total = build(ADD, total, build(REDUCE_SUM, build(MULTIPLY, x, total), axis=(0,), keepdims=False))
            results.append(build(MULTIPLY, z, total))
        return results

    return program([tensor(64), tensor(48)], body)


def steps(count: int) -> int:
    """Instructions of `grouping.py` that are run for the plan of a program."""
    block, steps = unrolled(count), 0

    def seen(frame: Any, event: str, _: Any) -> Any:
        nonlocal steps
        if frame.f_code.co_filename != grouping.__file__:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        steps += event == "opcode"
        return seen

    before = sys.gettrace()
    sys.settrace(seen)
    try:
        plan = BlockPlan(block, TABLES.lowerings, TABLES.patterns, None, None, frozenset(), frozenset())  # type: ignore[arg-type]  # no regions
    finally:
        sys.settrace(before)
    assert len(plan.kernels) > count
    return steps


def test_grouping_is_linear() -> None:
    assert steps(160) <= 4.5 * steps(40)
