"""Planning a program takes steps in proportion to its length, and gives memory to what needs it: both counted."""

from __future__ import annotations

import sys
from typing import Any

from gradtape.backends.llvm.kernels.table import TABLES
from gradtape.backends.llvm.planning import grouping
from gradtape.backends.llvm.planning.plan import BlockPlan
from gradtape.ir.graph import Block
from gradtape.ops.elementwise import ADD, MULTIPLY, SIN
from gradtape.ops.index import GETITEM, UPDATE
from gradtape.ops.reduce import REDUCE_SUM
from gradtape.passes.inplace import TWINS
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


def planned(block: Block) -> BlockPlan:
    return BlockPlan(block, TABLES.lowerings, TABLES.patterns, None, None, frozenset(), frozenset())  # type: ignore[arg-type]  # no regions


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
        plan = planned(block)
    finally:
        sys.settrace(before)
    assert len(plan.kernels) > count
    return steps


def test_grouping_is_linear() -> None:
    assert steps(160) <= 4.5 * steps(40)


def kept(block: Block) -> list[tuple[str, tuple[int, ...]]]:
    """The recipes of a block that get memory."""
    roots = planned(block).roots
    return [(one.op.name, tuple(one.result.type.shape)) for one in block.operations if one in roots]


def test_before_a_change_in_place_one_of_the_recipes_that_read_gets_memory() -> None:
    def body(build: Any, x: Any) -> list[Any]:
        before, after = (build(GETITEM, x, key=(slice(*ends),)) for ends in ((0, 62), (2, 64)))
        mean = build(MULTIPLY, build(ADD, before, after), build.constant(0.5))
        return [build(TWINS[UPDATE], x, mean, key=(slice(1, 63),))]

    assert kept(program([tensor(64)], body)) == [("add", (62,))]


def test_before_a_change_in_place_a_row_gets_memory_and_not_its_outer_product() -> None:
    def body(build: Any, x: Any, column: Any) -> list[Any]:
        row = build(GETITEM, x, key=(0,))
        return [build(TWINS[UPDATE], x, build(MULTIPLY, column, row), key=(slice(1, None),))]

    assert kept(program([tensor(64, 48), tensor(63, 1)], body)) == [("getitem", (48,))]


def test_what_recipes_behind_a_change_in_place_read_gets_memory_before_it() -> None:
    def body(build: Any, x: Any, y: Any) -> list[Any]:
        row = build(GETITEM, x, key=(0,))
        before = build(SIN, row)
        changed = build(TWINS[UPDATE], x, before, key=(1,))
        return [changed, build(TWINS[UPDATE], y, build(MULTIPLY, row, build.constant(2.0)), key=(0,))]

    assert ("getitem", (48,)) in kept(program([tensor(64, 48), tensor(64, 48)], body))
