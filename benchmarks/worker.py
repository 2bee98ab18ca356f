"""One peer in one process: answers requests, one JSON object per line, until its input ends.

`{"check": name}`           → {"value", "along", "first"}: the answer of the first call, and how long that took
`{"time": name, "seconds"}` → {"times": [...]}: seconds of single calls for about that long, never fewer than one call
`{"forget": name}`          → {}: its inputs may go

Started by `benchmarks/run.py` as `python -m benchmarks.worker PEER THREADS`, possibly in another virtual environment: this
file and what it imports need only NumPy and the peer.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
from time import perf_counter
from typing import Any

from benchmarks.check import answer
from benchmarks.workload import Step
from benchmarks.workloads import BY_NAME

MOST_CALLS = 2000
LONG = 0.05  # seconds of a call that finds its way back into the caches by itself


class Worker:
    """The steps of one peer, built on first request."""

    def __init__(self, peer: str, threads: int) -> None:
        self.peer: Any = importlib.import_module(f"benchmarks.peers.{peer}")
        self.version = self.peer.version()
        self.peer.set_threads(threads)
        self.steps: dict[str, Step] = {}
        self.least: dict[str, float] = {}  # seconds of the shortest call so far

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        if "check" in request:
            return self.check(request["check"])
        if "forget" in request:
            self.steps.pop(request["forget"], None)
            gc.collect()
            return {}
        return {"times": self.time(request["time"], request["seconds"])}

    def check(self, name: str) -> dict[str, Any]:
        workload = BY_NAME[name]
        if workload.key not in self.peer.STEPS:
            return {"absent": True}
        step = self.steps[name] = self.peer.STEPS[workload.key](**workload.inputs())
        start = perf_counter()
        value, gradients = step()
        first = self.least[name] = perf_counter() - start
        convert = self.peer.to_numpy
        value, gradients = workload.compared(convert(value), [convert(g) for g in gradients])
        return {"first": first} | answer(workload, value, gradients)

    def time(self, name: str, seconds: float) -> list[float]:
        step = self.steps[name]
        times: list[float] = []
        gc.collect()
        if hasattr(step, "timed"):  # a step that times its calls itself, from inside a shared library
            return step.timed(seconds, MOST_CALLS)  # type: ignore[no-any-return]
        if self.least[name] < LONG:
            step()  # caches went cold while the other peers ran
        end = perf_counter() + seconds
        while len(times) < MOST_CALLS:
            start = perf_counter()
            step()
            now = perf_counter()
            times.append(now - start)
            if now > end:
                break
        self.least[name] = min(self.least[name], *times)
        return times


def main(peer: str, threads: str) -> None:
    # the libraries print to standard output when they like: keep a private copy for the answers
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def send(message: dict[str, Any]) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    try:
        worker = Worker(peer, int(threads))
    except ImportError as error:
        send({"missing": str(error)})
        return
    send({"version": worker.version, "python": sys.version.split()[0]})
    for line in sys.stdin:
        try:
            send(worker.answer(json.loads(line)))
        except Exception as error:  # a peer that fails on one workload is a row of the report, not the end of the run
            send({"error": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    main(*sys.argv[1:])
