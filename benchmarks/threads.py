"""Compiled rows with one thread and with two, and one of them beside processes that are always busy.

    python -m benchmarks.threads                     # each row of the table, one thread and two, taking turns in one process
    python -m benchmarks.threads mlp lstm conv       # rows whose names start so
    python -m benchmarks.threads mlp --busy 2        # calls beside two busy processes: mean and longest

One thread and two take turns, so that what else the machine does hurts both alike, and the least time counts; beside busy
processes all times do. A row that two threads make slower by more than a twentieth is marked. Knows no workload.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import gradtape as gt
from benchmarks.workloads import WORKLOADS

SECONDS, COUNTS = 1.0, (1, 2)  # for a row, of threads


def rows(names: list[str]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Title and step of the compiled rows whose names start with one of these; all of them without names."""
    for workload in WORKLOADS:
        short = workload.name.removeprefix("compiled_")
        if workload.table == "compiled" and short != workload.name and (not names or short.startswith(tuple(names))):
            yield workload.title, workload.gradtape(**workload.inputs())


def least(step: Callable[[], Any], seconds: float) -> dict[int, float]:
    """The least time of a call, by number of threads."""
    times = dict.fromkeys(COUNTS, float("inf"))
    end = perf_counter() + seconds
    while perf_counter() < end:
        for count in COUNTS:
            gt.config.set_threads(count)
            step()  # the pool has its size, and what the other left in the caches is gone
            start = perf_counter()
            step()
            times[count] = min(times[count], perf_counter() - start)
    return times


@contextmanager
def busy(count: int) -> Iterator[None]:
    """So many processes that do nothing but count."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def beside(step: Callable[[], Any], seconds: float) -> tuple[float, float]:
    """Mean and longest time of a call."""
    times = []
    end = perf_counter() + seconds
    while perf_counter() < end:
        start = perf_counter()
        step()
        times.append(perf_counter() - start)
    return sum(times) / len(times), max(times)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.threads", description="Compiled rows by number of threads.")
    parser.add_argument("names", nargs="*", help="rows whose names start so (default all)")
    parser.add_argument("--busy", type=int, default=0, help="processes that are busy meanwhile; then mean and longest time")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for each row")
    given = parser.parse_args(arguments)
    heads = [f"{n} thread{'s' * (n > 1)}" for n in COUNTS]
    print(f"| work | {' | '.join(f'{h}, mean and longest' if given.busy else h for h in heads)} | two / one |")
    print(f"|---|{'---|' * len(COUNTS)}---|")
    for title, step in rows(given.names):
        step()
        if given.busy:
            cells, figures = [], []
            with busy(given.busy):
                for count in COUNTS:
                    gt.config.set_threads(count)
                    mean, longest = beside(step, given.seconds)
                    figures.append(mean)
                    cells.append(f"{mean * 1e6:,.0f} µs, {longest * 1e6:,.0f} µs")
        else:
            figures = list(least(step, given.seconds).values())
            cells = [f"{time * 1e6:,.1f} µs" for time in figures]
        ratio = figures[1] / figures[0]
        print(f"| {title} | {' | '.join(cells)} | {f'**{ratio:.2f}**' if ratio > 1.05 else f'{ratio:.2f}'} |", flush=True)


if __name__ == "__main__":
    main()
