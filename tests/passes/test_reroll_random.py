"""Random loop bodies, written out: they are folded, and the program computes the same bits and says the same things."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given, settings, strategies as st

from gradtape.passes.reroll import reroll
from gradtape.passes.reroll.repeats import Run, find_runs
from tests.passes.programs import inputs, program
from tests.passes.unrolled import Unrolled, folded, size

SEEDS = st.integers(0, 2**32 - 1)


@given(seed=SEEDS, count=st.integers(3, 16), length=st.integers(3, 14), depth=st.integers(0, 1), effects=st.booleans())
@settings(max_examples=80, deadline=None)
def test_bits_and_effects_stay(seed: int, count: int, length: int, depth: int, effects: bool) -> None:
    made = Unrolled(seed, count, length, depth, effects)
    folded(made.block, made.arrays(seed))


@given(seed=SEEDS)
@settings(max_examples=20, deadline=None)
def test_long_loops_are_folded(seed: int) -> None:
    made = Unrolled(seed, 40, 8)
    assert size(reroll(made.block)) * 2 < size(made.block)


@given(seed=SEEDS, count=st.integers(3, 12), inner=st.integers(3, 12), length=st.integers(2, 6), effects=st.booleans())
@settings(max_examples=40, deadline=None)
def test_nested_loops_keep_bits_and_effects(seed: int, count: int, inner: int, length: int, effects: bool) -> None:
    made = Unrolled(seed, count, length, 0, effects, inner)
    folded(made.block, made.arrays(seed))


@given(seed=SEEDS, length=st.integers(1, 40), effects=st.booleans())
@settings(max_examples=30, deadline=None)
def test_other_programs_keep_their_meaning(seed: int, length: int, effects: bool) -> None:
    block = program(seed, length, effects=effects)
    folded(block, inputs(block, seed))


def runs_by_hand(symbols: list[int]) -> list[Run]:
    found = set()
    for period in range(1, len(symbols) // 3 + 1):
        start = 0
        for at in range(len(symbols) - period + 1):
            if at + period == len(symbols) or symbols[at] != symbols[at + period]:
                word = symbols[start : start + period]
                primitive = not any(period % q == 0 and word == word[:q] * (period // q) for q in range(1, period))
                if at + period - start >= 3 * period and primitive:
                    found.add(Run(start, at + period, period))
                start = at + 1
    return sorted(found, key=lambda run: (run.period, run.start))


@given(seed=SEEDS)
@settings(max_examples=200, deadline=None)
def test_all_runs_are_found(seed: int) -> None:
    rng = random.Random(seed)
    alphabet = rng.choice((1, 2, 3, 5))
    word = [rng.randrange(alphabet) for _ in range(rng.randint(1, 6))]
    around = [[rng.randrange(alphabet) for _ in range(rng.randint(0, 8))] for _ in range(2)]
    symbols = [*around[0], *word * rng.randint(1, 6), *around[1]]
    assert find_runs(np.array(symbols)) == runs_by_hand(symbols)


def test_no_symbols() -> None:
    assert find_runs(np.array([], np.int64)) == []
