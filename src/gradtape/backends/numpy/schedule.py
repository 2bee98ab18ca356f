"""Which states of a loop to keep when it is reversed within a memory limit: binomial checkpointing.

A loop of n iterations is reversed from its last iterations to its first, `piece` iterations at a time; their states come from
the nearest state that is kept. With s states (the one at the start among them) and every piece advanced over at most r times,
β(s, r) = C(s + r, s) pieces can be reversed, and no order needs fewer advances than the one used here: A. Griewank and
A. Walther, "Algorithm 799: revolve", ACM TOMS 26, 2000. Pure arithmetic: nothing here runs a program.

Invariant: a larger limit never means more advances, nor, for the same loop, less memory planned.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple


class CheckpointPlan(NamedTuple):
    """How a loop is reversed: iterations per piece, states kept beside the one at the start, iterations run again, bytes."""

    piece: int
    states: int
    advances: int
    size: int


_WORKING = 2  # states on the way: before and after the iteration that runs


@functools.lru_cache(maxsize=1024)
def plan(length: int, limit: int, state: int, item: int | None) -> CheckpointPlan:
    """The quickest way within `limit` bytes; that with the least memory (`floor`) if none is.

    `state`: the bytes of one state. `item`: the bytes an iteration keeps while its piece is reversed; None: not known, then
    pieces are single iterations, which keep who knows what.
    """
    ways = []
    for piece in pieces(length, item):
        least = _leanest(length, piece, state, item)
        room = limit - least.size
        if room >= 0:
            number = -(-length // piece)
            more = number if not state else room // state
            ways.append(_plan(length, piece, min(least.states + more, number - 1), state, item))
    return min(ways, key=lambda way: (way.advances, way.size)) if ways else floor(length, state, item)


def floor(length: int, state: int, item: int | None) -> CheckpointPlan:
    """The least memory with which every iteration is run again at most log2(length) times."""
    ways = [_leanest(length, piece, state, item) for piece in pieces(length, item)]
    return min(ways, key=lambda way: (way.size, way.advances))


def _leanest(length: int, piece: int, state: int, item: int | None) -> CheckpointPlan:
    """With as few states as the bound on the time allows."""
    allowed = max(1, math.ceil(math.log2(length))) if length > 1 else 1
    states = 0
    while repetitions(-(-length // piece), states + 1) > allowed:
        states += 1
    return _plan(length, piece, states, state, item)


def _plan(length: int, piece: int, states: int, state: int, item: int | None) -> CheckpointPlan:
    advances = _advances(-(-length // piece), states + 1) * piece
    return CheckpointPlan(piece, states, advances, piece * (item or 0) + (states + _WORKING) * state)


def pieces(length: int, item: int | None) -> list[int]:
    """The lengths of pieces to choose from, the same for every limit."""
    if item is None or length <= 1:
        return [1]
    return [*(1 << k for k in range(length.bit_length()) if 1 << k < length), length]


def reach(states: int, times: int) -> int:
    """β: how many pieces `states` states can reverse when each is advanced over at most `times` times."""
    return math.comb(states + times, times) if times >= 0 else 0


def repetitions(number: int, states: int) -> int:
    """How many times a piece is advanced over at most, when `number` pieces are reversed with `states` states."""
    low, high = 0, 1
    # doubled, then halved: the number of repetitions grows with the logarithm, and loops may have millions of iterations
    while reach(states, high) < number:
        low, high = high, 2 * high
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if reach(states, middle) >= number else (middle + 1, high)
    return low


def _advances(number: int, states: int) -> int:
    """r·n − β(s + 1, r − 1): the pieces advanced over in all."""
    times = repetitions(number, states)
    return times * number - reach(states + 1, times - 1)


def next_state(number: int, states: int) -> int:
    """How many pieces to advance from a state at the start of `number` ≥ 2 pieces before the next state is kept.

    `states` counts the one at the start. Both parts can then be reversed with as few repetitions as the whole.
    """
    if states == 1:
        return number - 1
    times = repetitions(number, states)
    # the part behind has one state less, the part in front one repetition less; neither is left with more than it can do
    return max(1, reach(states, times - 2), number - reach(states - 1, times))
