"""Runs workloads on all peers side by side: every peer in its own process, timed in turns, round by round.

An answer that disagrees with the reference is reported and not timed. Numbers are seconds per call; nothing is divided
here (see `report.py`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.check import disagreement, reference
from benchmarks.workload import Workload

ROOT = Path(__file__).resolve().parent.parent
PEERS = ("gradtape", "numpy", "torch", "tensorflow", "autograd", "jax")
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def environment(threads: int) -> dict[str, str]:
    """What every worker starts with: the same number of threads, no GPU, no start-up chatter."""
    quiet = {"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": str(ROOT)}
    return os.environ | dict.fromkeys(THREAD_VARIABLES, str(threads)) | quiet


class Peer:
    """A running worker process; `missing` says why there is none."""

    def __init__(self, name: str, python: str, threads: int) -> None:
        self.name = name
        self.python = python
        self.process = subprocess.Popen(
            [python, "-m", "benchmarks.worker", name, str(threads)], cwd=ROOT, env=environment(threads), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        hello = self._receive()
        self.version = hello.get("version", "")
        self.python_version = hello.get("python", "")
        self.missing = hello.get("missing") or hello.get("error", "")

    def ask(self, **request: Any) -> dict[str, Any]:
        """One request, one answer; a worker that died answers with an error."""
        try:
            self.process.stdin.write(json.dumps(request) + "\n")  # type: ignore[union-attr]
            self.process.stdin.flush()  # type: ignore[union-attr]
        except BrokenPipeError:
            return {"error": "the worker process died"}
        return self._receive()

    def _receive(self) -> dict[str, Any]:
        line = self.process.stdout.readline()  # type: ignore[union-attr]
        return json.loads(line) if line else {"error": "the worker process died"}  # type: ignore[no-any-return]

    def close(self) -> None:
        self.process.stdin.close()  # type: ignore[union-attr]
        self.process.wait(timeout=30)


def measure(workload: Workload, peers: Iterable[Peer], rounds: int, seconds: float) -> dict[str, dict[str, Any]]:
    """Peer name → {"first", "min", "median", "calls"} in seconds, or {"error"}; peers without this workload are left out."""
    want = reference(workload)
    found: dict[str, dict[str, Any]] = {}
    ready = []
    for peer in peers:
        have = peer.ask(check=workload.name)
        if have.get("absent"):
            continue
        wrong = have.get("error") or disagreement(want, have)
        if wrong:
            found[peer.name] = {"error": wrong}
            continue
        found[peer.name] = {"first": have["first"]}
        ready.append(peer)
    times: dict[str, list[float]] = {peer.name: [] for peer in ready}
    for turn in range(rounds):
        for peer in ready if turn % 2 == 0 else reversed(ready):
            answer = peer.ask(time=workload.name, seconds=seconds)
            if "error" in answer:
                found[peer.name] = answer
                continue
            times[peer.name] += answer["times"]
    for name, measured in times.items():
        if "error" not in found[name]:
            found[name] |= {"min": min(measured), "median": median(measured), "calls": len(measured)}
    return found


def import_times(pythons: dict[str, str], threads: int, rounds: int) -> dict[str, dict[str, Any]]:
    """Seconds from a started interpreter to an imported library, in fresh processes, in turns; the first round apart.

    Libraries in `site-packages` have their bytecode from the installer; gradtape's source tree (and NumPy next to it) gets
    a cache that the first round fills, so that nobody compiles source.
    """
    code = "import time; t = time.perf_counter(); import {0}; print(time.perf_counter() - t)"
    times: dict[str, list[float]] = {name: [] for name in pythons}
    with tempfile.TemporaryDirectory() as cache:
        cached = environment(threads) | {"PYTHONPYCACHEPREFIX": cache}
        cached.pop("PYTHONDONTWRITEBYTECODE", None)
        for _ in range(rounds + 1):
            for name, python in pythons.items():
                settings = cached if name in ("gradtape", "numpy") else environment(threads)
                done = subprocess.run(
                    [python, "-c", code.format(name)], cwd="/", env=settings, capture_output=True, text=True, check=False
                )
                if done.returncode == 0:
                    times[name].append(float(done.stdout.split()[-1]))
    return {
        name: {"first": found[0], "min": min(found[1:]), "median": median(found[1:]), "calls": len(found) - 1}
        for name, found in times.items()
        if len(found) > 1
    }


def default_python(peer: str, given: dict[str, str]) -> str:
    """The interpreter of a peer: the one given for it, else the one running this."""
    return given.get(peer, sys.executable)
