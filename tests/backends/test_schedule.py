"""Binomial checkpointing: the schedule is optimal, its cost is bounded, and it uses no more memory than it was given."""

from __future__ import annotations

import functools
import math

import pytest

from gradtape.backends.numpy.schedule import floor, next_state, plan, repetitions


@functools.cache
def fewest(number: int, states: int) -> int:
    """Pieces advanced over at least, by trying every place for the next state; `states` counts the one at the start."""
    if number <= 1:
        return 0
    if states == 1:
        return number * (number - 1) // 2
    return min(j + fewest(number - j, states - 1) + fewest(j, states) for j in range(1, number))


def simulated(number: int, states: int) -> tuple[int, int]:
    """(pieces advanced over, most states kept at a time) when `next_state` is followed."""
    stack, end, advances, most = [0], number, 0, 1
    while end:
        begin = stack[-1]
        if end - begin == 1:
            stack.pop()
            end = begin
            continue
        spare = states + 1 - len(stack)
        ahead = next_state(end - begin, spare)
        advances += ahead
        if spare > 1:
            stack.append(begin + ahead)
            most = max(most, len(stack))
        else:
            end = begin + ahead
    return advances, most


@pytest.mark.parametrize("states", [1, 2, 3, 4, 7, 40])
def test_no_order_needs_fewer_advances(states):
    for number in range(1, 40):
        advances, most = simulated(number, states)
        assert advances == fewest(number, states), (number, states)
        assert most <= states


@pytest.mark.parametrize("length", [1, 2, 3, 17, 1000, 10_000])
@pytest.mark.parametrize(("state", "item"), [(800, 1600), (8, 8), (80_000, 8), (8, None), (0, 16), (100, 0)])
def test_more_memory_is_never_slower_and_planned_memory_falls_with_the_limit(length, state, item):
    least = floor(length, state, item)
    before = None
    for exponent in range(60):
        limit = int(1.4**exponent)
        found = plan(length, limit, state, item)
        assert found.size <= max(limit, least.size)
        if before is not None:
            assert found.advances <= before.advances
            assert found.size >= before.size or found.advances == before.advances == 0
        before = found
    assert before.advances < length


def test_planned_advances_are_those_of_the_schedule():
    for limit in (3_000, 10_000, 50_000, 10**6):
        found = plan(777, limit, 800, 1600)
        number = -(-777 // found.piece)
        assert found.advances == simulated(number, found.states + 1)[0] * found.piece


def test_the_least_memory_grows_like_the_logarithm_and_so_does_the_time():
    for length in (10, 1000, 10**6):
        least = floor(length, 1, 10)
        assert least.piece == 1
        assert least.states <= math.log2(length)
        assert repetitions(length, least.states + 1) <= math.ceil(math.log2(length))
        assert least.advances <= length * math.ceil(math.log2(length))
