"""Which states of a loop to keep when it is reversed within a memory limit: binomial checkpointing.

A loop of n iterations is reversed from its last iterations to its first, `piece` iterations at a time; their states come from
the nearest state that is kept. With s states (the one at the start among them) and every piece advanced over at most r times,
β(s, r) = C(s + r, s) pieces can be reversed, and no order needs fewer advances than the one used here: A. Griewank and
A. Walther, "Algorithm 799: revolve", ACM TOMS 26, 2000. Pure arithmetic: nothing here runs a program.

Invariant: a larger limit never means more advances, nor, for the same loop, less memory planned.
"""

from __future__ import annotations

import math
from typing import NamedTuple


class Plan(NamedTuple):
    """How a loop is reversed: iterations per piece, states kept beside the one at the start, iterations run again, bytes."""

    piece: int
    states: int
    advances: int
    size: int


def plan(length: int, limit: int, state: int, item: int | None) -> Plan:
    """The quickest way within `limit` bytes; the smallest one whose time is bounded (`floor`) if that is more.

    `state`: the bytes of one state. `item`: the bytes an iteration keeps while its piece is reversed; None: not known, then
    pieces are single iterations, which keep who knows what.
    """
    best = floor(length, state, item)
    for piece in pieces(length, item):
        kept = piece * (item or 0)
        number = -(-length // piece)
        states = number - 1 if not state else min((limit - kept) // state - _WORKING, number - 1)
        if states < 0:
            continue
        found = Plan(piece, states, _advances(number, states + 1) * piece, kept + (states + _WORKING) * state)
        if found.size <= limit and (found.advances, found.size) < (best.advances, best.size):
            best = found
    return best


_WORKING = 2  # states on the way: before and after the iteration that runs


def floor(length: int, state: int, item: int | None) -> Plan:
    """The least memory with which every iteration is run again at most log2(length) times."""
    allowed = max(1, math.ceil(math.log2(max(length, 2))))
    states = 0
    while repetitions(length, states + 1) > allowed:
        states += 1
    return Plan(1, states, _advances(length, states + 1), (item or 0) + (states + _WORKING) * state)


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
