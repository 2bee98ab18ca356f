"""Loops and repeated segments, found in the sequence of what ran: `fold` turns a sequence of tokens into a tree.

A token says which operation ran at which instruction of the user's code. Where a stretch of tokens follows itself, the
stretch is a body and its copies are iterations; inner loops are found first, and a loop counts as one token of the outer one
whatever its number of iterations, so that loops whose inner loop varies are found too. This file knows nothing about tapes.
Invariant: reading the tree from left to right gives the sequence back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

WORK = 20_000_000  # comparisons of tokens in one search for a loop
TOTAL = 20 * WORK  # ... and in all: a picture with a loop unfolded is better than none


@dataclass(slots=True, eq=False)
class RepeatedRun:
    """Iterations of one body: sequences of the same tokens, each an index into the sequence or a loop."""

    iterations: list[list[Item]]


Item = int | RepeatedRun


def fold(tokens: Sequence[int]) -> list[Item]:
    """The indices of `tokens`, with repeated stretches as loops.

    >>> [item if isinstance(item, int) else len(item.iterations) for item in fold([7, 1, 2, 1, 2, 1, 2, 9])]
    [0, 3, 7]
    """
    values = np.asarray(tokens, np.int64)
    items: list[Item] = list(range(len(values)))
    names: dict[tuple[int, ...], int] = {}
    fresh = int(values.max()) + 1 if len(values) else 0
    left = TOTAL
    while True:
        period, runs, left = _shortest(values, left)
        if not runs:
            return items
        kept: list[Any] = []
        folded: list[Item] = []
        done = 0
        for start, count in runs:
            # Equal bodies get one token wherever they stand, so a loop around them is found in a later round.
            body = tuple(values[start : start + period].tolist())
            token = names.setdefault(body, fresh + len(names))
            kept += [values[done:start], [token]]
            end = start + period * count
            folded += items[done:start]
            folded.append(RepeatedRun([items[i : i + period] for i in range(start, end, period)]))
            done = end
        values = np.concatenate([*kept, values[done:]]).astype(np.int64)
        items = folded + items[done:]


def _shortest(values: np.ndarray, left: int) -> tuple[int, list[tuple[int, int]], int]:
    """The shortest body that repeats somewhere, and its runs: inner loops come before outer ones. `left` is the work that may
    still be done, and comes back reduced."""
    for period in _periods(values):
        left -= len(values)
        if left < 0:
            break
        runs = _runs(values, period)
        if runs:
            return period, runs, left
    return 0, [], left


def _periods(values: np.ndarray) -> list[int]:
    """Lengths a body may have: the most frequent distances between one occurrence of a token and the next."""
    # A stable sort puts the occurrences of one token side by side, in the order of the sequence: neighbours differ by the
    # distance from one occurrence to the next.
    order = np.argsort(values, kind="stable")
    distances, counts = np.unique(np.diff(order)[np.diff(values[order]) == 0], return_counts=True)
    limit = WORK // max(len(values), 1)
    return sorted(distances[np.argsort(-counts, kind="stable")[:limit]].tolist())


def _runs(values: np.ndarray, period: int) -> list[tuple[int, int]]:
    """(start, iterations) of each stretch that repeats with this period, from left to right, without overlaps."""
    if len(values) < 2 * period:
        return []
    # A stretch repeats with this period where each token equals the one a period later; the two False make every run of equal
    # tokens have an edge at both ends.
    same = np.concatenate([[False], values[:-period] == values[period:], [False]])
    edges = np.flatnonzero(same[1:] != same[:-1])
    needed = 3 if period == 1 else period  # two or three operations of one expression are no loop yet
    long = edges[1::2] - edges[::2] >= needed
    runs = []
    done = 0
    for start, stop in zip(edges[::2][long].tolist(), edges[1::2][long].tolist(), strict=True):
        start = _aligned(values, max(start, done), period)
        if stop - start >= needed:
            count = (stop - start) // period + 1
            runs.append((start, count))
            done = start + count * period
    return runs


def _aligned(values: np.ndarray, start: int, period: int) -> int:
    """Where the first whole iteration begins, when what stands before is the rest of an incomplete one: the first round
    of a recurrence often lacks operations on a state that is still a constant."""
    # The comparison above finds the first place from which the tokens repeat, which may lie in the middle of a body.
    body = set(values[start : start + period].tolist())
    first = start
    while first > max(start - period + 1, 0) and int(values[first - 1]) in body:
        first -= 1
    if first == start:
        return start
    ahead = np.flatnonzero(values[start : start + period] == values[first])
    return start + int(ahead[0])


def indices(items: Sequence[Item]) -> Iterator[int]:
    """The sequence again: every index, from left to right."""
    stack: list[Iterator[Item]] = [iter(items)]
    while stack:
        item = next(stack[-1], None)
        if item is None:
            stack.pop()
        elif isinstance(item, RepeatedRun):
            stack.append(iter([i for iteration in item.iterations for i in iteration]))
        else:
            yield item
