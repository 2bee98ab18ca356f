"""Passes keep the meaning: random programs give the same bits, and the same effects in the same order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from gradtape.backends.numpy import compile_block
from gradtape.ir.graph import Block
from gradtape.ir.printer import to_text
from gradtape.ir.verify import verify
from gradtape.passes.accumulate import accumulate
from gradtape.passes.canonicalize import canonicalize
from gradtape.passes.cse import cse
from gradtape.passes.dce import dce
from gradtape.passes.fold import fold
from gradtape.passes.hoist import hoist
from gradtape.passes.pipeline import optimize
from gradtape.passes.simplify import simplify
from tests.harness.checked_passes import nearly_same, same_bits
from tests.passes.programs import effects_of, inputs, program, same_effects

SEEDS = st.integers(0, 2**32 - 1)
SIZES = st.integers(1, 20)


def outcome(block: Block, arrays: list[Any]) -> Any:
    """(results, effects), or the error the program ends with."""
    try:
        return effects_of(lambda: compile_block(block)(*arrays))
    except Exception as error:
        return error


def check(function: Callable[[Block], Block], block: Block, arrays: list[Any], same: Callable[[Any, Any], bool]) -> None:
    text = to_text(block, locations=False)
    new = verify(function(verify(block)))
    assert to_text(block, locations=False) == text, "a pass must not change its input"
    before, after = outcome(block, arrays), outcome(new, arrays)
    if isinstance(before, Exception):  # unneeded work that fails may be gone, but nothing new may fail
        assert not isinstance(after, Exception) or type(after) is type(before)
        return
    assert not isinstance(after, Exception), after
    assert len(before[0]) == len(after[0])
    assert all(map(same, before[0], after[0])), (before[0], after[0])
    assert same_effects(before[1], after[1], same), (before[1], after[1])


@pytest.mark.parametrize("function", [canonicalize, fold, simplify, cse, hoist, dce], ids=lambda f: f.__name__)
@given(seed=SEEDS, size=SIZES, effects=st.booleans())
@settings(max_examples=60, deadline=None)
def test_bits_and_effects_stay(function: Callable[[Block], Block], seed: int, size: int, effects: bool) -> None:
    block = program(seed, size, effects=effects)
    check(function, block, inputs(block, seed), same_bits)


@given(seed=SEEDS, size=SIZES)
@settings(max_examples=60, deadline=None)
def test_sparse_sums_keep_the_numbers(seed: int, size: int) -> None:
    block = program(seed, size)
    check(accumulate, block, inputs(block, seed), nearly_same)


@given(seed=SEEDS, size=SIZES, depth=st.integers(0, 3), effects=st.booleans())
@settings(max_examples=120, deadline=None)
def test_all_passes_together(seed: int, size: int, depth: int, effects: bool) -> None:
    block = program(seed, size, depth, effects)
    check(optimize, block, inputs(block, seed), nearly_same)


def test_programs_are_what_they_promise() -> None:
    """The generator makes programs with every kind of structure, most of them run, and some do say something."""
    names, failed, said = set(), 0, 0
    for seed in range(60):
        block = program(seed, effects=True)
        names |= set(to_text(block).replace("(", " ").split())
        found = outcome(block, inputs(block, seed))
        failed += isinstance(found, Exception)
        said += not isinstance(found, Exception) and bool(found[1])
    assert names >= {"cond", "while", "scan", "call", "py_call", "list_get", "add"}
    assert failed < 10
    assert said > 20
