"""Where a sequence of numbers repeats itself: all maximal runs with at least three periods, in n log n time.

Windows of 1, 2, 4, … symbols are given class numbers by doubling, as in the construction of a suffix array (Manber and
Myers, 1993). In a run whose shortest period is p, a window of at least p symbols lies exactly p after the same window
before it, so runs of a period in (w/2, w] are the stretches where the distance to the previous equal window of length w
stays p. Nothing here knows what the numbers mean.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

LEAST = 3  # periods


class Run(NamedTuple):
    """Symbols `start` to `stop` repeat with this (shortest) period."""

    start: int
    stop: int
    period: int


def find_runs(symbols: Any) -> list[Run]:
    """The maximal runs of at least `LEAST` periods, shorter periods first.

    >>> import numpy as np
    >>> find_runs(np.array([9, 1, 2, 1, 2, 1, 2, 1, 5]))
    [Run(start=1, stop=8, period=2)]
    """
    classes = np.asarray(symbols, np.int64)
    count = len(classes)
    runs: list[Run] = []
    width = 1
    while LEAST * (width // 2 + 1) <= count:
        order = np.argsort(classes, kind="stable")
        ranked = classes[order]
        same = ranked[1:] == ranked[:-1]
        if not same.any():
            break  # no window of this length, nor a longer one, occurs twice
        distance = np.zeros(len(classes), np.int64)
        distance[order[1:][same]] = np.diff(order)[same]
        runs.extend(_runs_of(distance, width))
        if 2 * width > count:
            break
        # the class of a window of twice the length: the classes of its halves, renumbered
        names = np.empty(len(classes), np.int64)
        names[order] = np.concatenate(([0], np.cumsum(~same)))
        halves = names[: count - 2 * width + 1] * (names.max() + 1) + names[width : count - width + 1]
        classes = halves
        width *= 2
    return sorted(runs, key=lambda run: (run.period, run.start))


def _runs_of(distance: Any, width: int) -> list[Run]:
    fits = (distance > width // 2) & (distance <= width)
    kept = np.where(fits, distance, 0)
    edges = np.flatnonzero(np.diff(kept)) + 1
    starts = np.concatenate(([0], edges))
    stops = np.concatenate((edges, [len(kept)]))
    runs = []
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        period = int(kept[start])
        if period and stop - 1 + width - (start - period) >= LEAST * period:
            runs.append(Run(start - period, stop - 1 + width, period))
    return runs
