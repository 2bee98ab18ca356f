"""The pipeline as a whole: levels, rounds, cost, and the debug mode that names a pass that went wrong."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from gradtape import config
from gradtape.backends.numpy import compile_block
from gradtape.errors import InternalError
from gradtape.ir.graph import Block, Operation
from gradtape.ir.printer import to_text
from gradtape.ir.types import TensorSpec
from gradtape.ir.walk import Rebuild, program, rebuild
from gradtape.ops.elementwise import ADD, EXP, MULTIPLY, SUBTRACT
from gradtape.ops.staged import CONSTANT
from gradtape.passes import pipeline
from gradtape.passes.pipeline import PASSES, optimize, same_form
from tests.harness.checked_passes import debug_optimize
from tests.passes import programs
from tests.passes.golden import block_of

SOURCE = """
func f(%x: float64[3], %y: float64[3]) {
  %0: float64[] = constant(value=float64{1.0})
  carried(%a: float64[3], %b: float64[3]) ys() = scan length() carried(%x, %y) consts(%0, %y) xs() [length=3, reverse=False] {
    body index(%i: int32[]) carried(%1: float64[3], %2: float64[3]) consts(%3: float64[], %4: float64[3]) xs() {
      %5: float64[3] = multiply(%3, %4)
      %6: float64[3] = exp(%5)
      %7: float64[3] = exp(%4)
      %8: float64[3] = add(%6, %7)
      %9: float64[3] = add(%1, %8)
      give carried(%9, %2) ys()
    }
  }
  give outputs(%a, %b)
}
"""
OPTIMIZED = """\
func f(%x: float64[3], %y: float64[3]) {
  %0: float64[3] = exp(%y)
  %1: float64[3] = add(%0, %0)
  carried(%a: float64[3]) ys() = scan length() carried(%x) consts(%1) xs() [length=3, reverse=False] {
    body index(%i: int32[]) carried(%2: float64[3]) consts(%3: float64[3]) xs() {
      %4: float64[3] = add(%2, %3)
      give carried(%4) ys()
    }
  }
  give outputs(%a, %y)
}
"""
INPUTS = [np.array([1.0, -0.0, np.nan]), np.array([0.5, 2.0, -1.0])]


def test_passes_work_together() -> None:
    assert to_text(optimize(block_of(SOURCE)), locations=False) == OPTIMIZED


def test_levels() -> None:
    block = block_of(SOURCE)
    assert optimize(block, 0) is block
    sizes = [sum(1 for _ in program(optimize(block, level))) for level in (0, 1, 2)]
    assert sizes[0] >= sizes[1] > sizes[2]


def test_a_second_time_changes_nothing() -> None:
    for seed in range(20):
        once = optimize(programs.program(seed))
        assert same_form(optimize(once), once)


def test_callees_stay_shared() -> None:
    block = block_of(
        """
        func f(%x: float32[]) {
          outputs(%0: float32[]) = call inputs(%x) [callee=@g]
          outputs(%1: float32[]) = call inputs(%0) [callee=@g]
          give outputs(%1)
        }
        func g inputs(%x: float32[]) {
          %0: float32[] = exp(%x)
          give outputs(%0)
        }
        """
    )
    first, second = optimize(block).operations
    assert first.attrs["callee"] is second.attrs["callee"]


# -- debugging


def plus_to_minus(block: Block) -> Block:
    def visit(scope: Rebuild, operation: Operation) -> None:
        scope.copy(operation, op=SUBTRACT if operation.op is ADD else None)

    return rebuild(block, visit)


def wrong_type(block: Block) -> Block:
    def visit(scope: Rebuild, operation: Operation) -> None:
        scope.copy(operation, types=[TensorSpec((7,), "int8")] if operation.op is EXP else None)

    return rebuild(block, visit)


@pytest.mark.parametrize(
    ("broken", "text"),
    [
        (plus_to_minus, "the pass broken changed what the program computes"),
        (wrong_type, "the pass broken made a program that is not well formed"),
    ],
)
def test_the_broken_pass_is_named(monkeypatch: pytest.MonkeyPatch, broken: Any, text: str) -> None:
    monkeypatch.setattr(pipeline, "PASSES", (*PASSES[:3], ("broken", broken, 1), *PASSES[3:]))
    with pytest.raises(InternalError, match=text):
        debug_optimize(block_of(SOURCE), INPUTS, compile_block)


def test_debugging_gives_the_same_program() -> None:
    new = debug_optimize(block_of(SOURCE), INPUTS, compile_block)
    assert to_text(new, locations=False) == OPTIMIZED


def test_programs_with_effects_are_not_run() -> None:
    for seed in range(30):
        block = programs.program(seed, effects=True)
        if any(operation.op.effect for operation in program(block)):
            _, said = programs.effects_of(
                lambda block=block, seed=seed: debug_optimize(block, programs.inputs(block, seed), compile_block)
            )
            assert said == []


def test_the_switch_verifies_every_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "PASSES", (("broken", wrong_type, 1),))
    optimize(block_of(SOURCE))
    config.debug_passes(True)
    try:
        assert config.passes_debugged()
        with pytest.raises(InternalError, match="the pass broken"):
            optimize(block_of(SOURCE))
    finally:
        config.debug_passes(False)


# -- cost


def straight_line(count: int) -> Block:
    """Many operations: repeated, dead, constant and needed ones."""
    block = Block([TensorSpec((3,), "float64")] * 2)
    values = list(block.params)
    for i in range(count):
        if i % 5 == 0:
            operation = Operation(CONSTANT, [], [values[0].type], {"value": np.full(3, float(i % 50))})
        else:
            pair = [values[-1 - i % 3], values[-1 - (i * i) % len(values[-9:])]]
            operation = Operation((ADD, MULTIPLY, SUBTRACT)[i % 3], pair, [values[0].type])
        values.append(block.append(operation).result)
    return block.give(outputs=values[-3:])


def nested(depth: int, count: int) -> Block:
    """Loops in loops, `count` operations in the innermost."""

    def level(i: int) -> str:
        if i == depth:
            lines = [f"%v{j}: float64[] = exp(%c{i})" for j in range(count)]
            return "\n".join([*lines, f"%r{i}: float64[] = add(%s{i}, %v0)"])
        k = i + 1
        return (
            f"carried(%r{i}: float64[]) ys() = scan length() carried(%s{i}) consts(%c{i}) xs() [length=2, reverse=False] {{\n"
            f"body index(%i{k}: int32[]) carried(%s{k}: float64[]) consts(%c{k}: float64[]) xs() {{\n{level(k)}\n"
            f"give carried(%r{k}) ys()\n}}\n}}"
        )

    return block_of(f"func f(%s0: float64[], %c0: float64[]) {{\n{level(0)}\ngive outputs(%r0)\n}}")


def calls_made(function: Any, block: Block) -> int:
    """How many Python functions a call runs: a measure of work that is the same on every machine."""
    count = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += 1

    sys.setprofile(note)
    try:
        function(block)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("name", [name for name, _, _ in PASSES[1:]])
def test_passes_are_linear(name: str) -> None:
    function = {name: function for name, function, _ in PASSES}[name]
    function(straight_line(100))
    small, large = (calls_made(function, straight_line(count)) for count in (1000, 4000))
    assert large < 4.5 * small
    assert large < 4000 * 120


def test_nested_loops_cost_their_size_times_their_depth() -> None:
    optimize(nested(2, 5))
    small, large = (calls_made(optimize, nested(depth, 20)) for depth in (2, 8))
    assert large < 10 * small
