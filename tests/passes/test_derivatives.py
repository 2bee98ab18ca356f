"""Passes keep the meaning of derivative programs: forward and backward halves of random programs, before and after."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings, strategies as st

import gradtape.ad.regions  # noqa: F401  (the rules of structured operations)
from gradtape.ad.reverse import split
from gradtape.backends.numpy import compile_block
from gradtape.ir.graph import Block
from gradtape.ir.types import TensorSpec
from gradtape.ir.verify import verify
from gradtape.passes.pipeline import optimize
from tests.harness.checked_passes import debug_optimize, nearly_same
from tests.passes.golden import block_of
from tests.passes.programs import inputs, program


def differentiated(block: Block, arrays: list[Any], wanted: set[int]) -> list[Any] | None:
    """The gradients of the sum of all floating-point results, each half optimised and checked; None if the program fails."""
    seeded = [i for i, v in enumerate(block.results) if isinstance(v.type, TensorSpec) and v.type.dtype.kind == "f"]
    if not seeded:
        return None
    halves = split(block, wanted, seeded)
    verify(halves.forward)
    verify(halves.backward)
    try:
        out = compile_block(halves.forward)(*arrays)
    except IndexError:
        return None
    seeds = [np.ones(tuple(block.results[i].type.shape))[()] for i in seeded]
    given = [*out[len(block.results) :], *(arrays[p] for p in halves.params), *seeds]
    before = compile_block(halves.backward)(*given)
    debug_optimize(halves.forward, arrays, compile_block)
    after = compile_block(debug_optimize(halves.backward, given, compile_block))(*given)
    assert all(map(nearly_same, before, after))
    return list(after)


@given(seed=st.integers(0, 2**32 - 1), size=st.integers(4, 14))
@settings(max_examples=50, deadline=None)
def test_gradients_of_random_programs(seed: int, size: int) -> None:
    block = program(seed, size)
    tame = [np.nan_to_num(a, nan=0.3, posinf=2.0, neginf=-2.0)[()] if a.dtype.kind == "f" else a for a in inputs(block, seed)]
    differentiated(block, tame, {0, 1, 2})


READS_IN_A_BRANCH = """
func f(%x: float64[4,4]) {
  %0: float64[] = constant(value=float64{0.0})
  carried(%a: float64[]) ys() = scan length() carried(%0) consts(%x) xs() [length=4, reverse=False] {
    body index(%i: int32[]) carried(%1: float64[]) consts(%2: float64[4,4]) xs() {
      carried(%b: float64[]) ys() = scan length() carried(%1) consts(%2, %i) xs() [length=4, reverse=False] {
        body index(%j: int32[]) carried(%3: float64[]) consts(%4: float64[4,4], %5: int32[]) xs() {
          %6: float64[] = getitem_at(%4, %5, %j, key=(slot(0), slot(1)), size=None)
          %7: float64[] = constant(value=float64{0.5})
          %8: bool[] = greater(%6, %7)
          outputs(%9: float64[]) = cond pred(%8) inputs(%3, %6) {
            then inputs(%10: float64[], %11: float64[]) {
              %12: float64[] = multiply(%11, %11)
              %13: float64[] = add(%10, %12)
              give outputs(%13)
            }
            orelse inputs(%14: float64[], %15: float64[]) {
              give outputs(%14)
            }
          }
          give carried(%9) ys()
        }
      }
      give carried(%b) ys()
    }
  }
  give outputs(%a)
}
"""


def test_reading_elements_costs_an_element_backward_too() -> None:
    """No operation on the whole array is left in the backward loops: additions at a place only."""
    block = block_of(READS_IN_A_BRANCH)
    x = np.random.default_rng(0).random((4, 4))
    assert nearly_same(differentiated(block, [x], {0}), [np.where(x > 0.5, 2 * x, 0.0)])
    backward = optimize(split(block, {0}, [0]).backward)
    whole = [
        o.op.name for loop in backward.operations for o in in_loops(loop) if any(v.type.shape == (4, 4) for v in o.results)
    ]
    assert set(whole) <= {"scan", "cond", "add_at"}
    assert "add_at" in whole


def in_loops(operation: Any) -> list[Any]:
    return [o for region in operation.regions.values() for inner in region.operations for o in (inner, *in_loops(inner))]
