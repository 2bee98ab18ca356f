"""Runs workloads on all peers side by side: every peer in its own process, timed in turns, round by round.

An answer that disagrees with the reference is reported and not timed. Numbers are seconds per call; nothing is divided
here (see `report.py`).
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.check import disagreement, reference
from benchmarks.workload import Series, Workload

ROOT = Path(__file__).resolve().parent.parent
TABLES = {  # table → its peers, in the order of the columns
    "eager": ("gradtape", "numpy", "torch", "tensorflow", "autograd", "jax"),
    "compiled": ("gradtape", "value", "c", "jax_jit", "tf_function", "tf_xla", "torch_compile", "torch_eager", "autograd"),
}
PEERS = tuple(dict.fromkeys(name for names in TABLES.values() for name in names))
LIBRARY = {
    "jax_jit": "jax",
    "tf_function": "tensorflow",
    "tf_xla": "tensorflow",
    "torch_compile": "torch",
    "torch_eager": "torch",
}
OWN = ("gradtape", "value", "numpy", "c")  # need no other library, and are nobody's competitors
STARTING = 300.0  # seconds for the import of a library, on a busy machine
PATIENCE = 90.0  # seconds for one answer; a worker that takes longer is replaced
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def environment(threads: int) -> dict[str, str]:
    """What every worker starts with: the same number of threads, no GPU, no start-up chatter, no code compiled earlier."""
    quiet = {"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": str(ROOT)}
    fresh = {"GRADTAPE_NATIVE": "1", "GRADTAPE_CACHE": "", "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}
    return os.environ | dict.fromkeys(THREAD_VARIABLES, str(threads)) | quiet | fresh


class Peer:
    """A running worker process; `missing` says why there is none."""

    def __init__(self, name: str, python: str, threads: int, problem: str = "", patience: float = PATIENCE) -> None:
        self.name = name
        self.python = python
        self.threads = threads
        self.patience = patience
        self.process: Any = None
        self.started = False
        hello = {"missing": problem} if problem else self._started(threads)
        self.version = hello.get("version", "")
        self.python_version = hello.get("python", "")
        self.missing = hello.get("missing") or hello.get("error", "")

    def _started(self, threads: int) -> dict[str, Any]:
        command = [self.python, "-m", "benchmarks.worker", self.name, str(threads)]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        try:
            self.process = subprocess.Popen(command, cwd=ROOT, env=environment(threads), text=True, **pipes)
        except OSError as error:
            return {"missing": str(error)}
        self.started = False
        hello = self._receive(STARTING)
        self.started = "version" in hello
        return hello

    def ask(self, **request: Any) -> dict[str, Any]:
        """One request, one answer. A worker that died or took too long answers with an error, and a new one takes its place."""
        if self.process is None:
            return {"error": "the worker process died, and so did the next"}
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return self._replaced("the worker process died")
        return self._receive(self.patience)

    def _receive(self, patience: float) -> dict[str, Any]:
        if not select.select([self.process.stdout], [], [], patience)[0]:
            return self._replaced(f"took longer than {patience:g} s")
        line = self.process.stdout.readline()
        if not line:
            return self._replaced("the worker process died")
        return json.loads(line)  # type: ignore[no-any-return]

    def _replaced(self, why: str) -> dict[str, Any]:
        self.process.kill()
        self.close()
        self.process = None
        if self.started:  # one that dies at once would die again
            self._started(self.threads)
        return {"error": why}

    def close(self) -> None:
        if self.process is not None:
            for pipe in (self.process.stdin, self.process.stdout):
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
            self.process.wait(timeout=30)


LONG = 5  # as many times the length of a round: a call that takes longer is made in one round only


def measure(workload: Workload, peers: Iterable[Peer], rounds: int, seconds: float) -> dict[str, dict[str, Any]]:
    """Peer name → {"first", "min", "median", "calls"} in seconds, or {"error"}; peers without this workload are left out."""
    want = reference(workload)
    found: dict[str, dict[str, Any]] = {}
    ready = []
    for peer in peers:
        have = peer.ask(check=workload.name)
        if have.get("absent"):
            continue
        wrong = have.get("error") or disagreement(want, have, value_only=peer.name == "value")
        if wrong:
            found[peer.name] = {"error": wrong}
            continue
        found[peer.name] = {"first": have["first"]}
        ready.append(peer)
    times: dict[str, list[float]] = {peer.name: [] for peer in ready}
    for turn in range(rounds):
        for peer in ready if turn % 2 == 0 else reversed(ready):
            if turn and min(times[peer.name], default=0.0) > LONG * seconds:
                continue
            answer = peer.ask(time=workload.name, seconds=seconds)
            if "error" in answer:
                found[peer.name] = answer
                continue
            times[peer.name] += answer["times"]
    for name, measured in times.items():
        if measured and "error" not in found[name]:
            found[name] |= {"min": min(measured), "median": median(measured), "calls": len(measured)}
    for peer in ready:
        peer.ask(forget=workload.name)
    return found


def scale(series: Series, peers: Iterable[Peer], rounds: int, seconds: float, patience: float) -> list[dict[str, Any]]:
    """What `measure` gives at each size. A peer leaves when a call at the next size would take longer than `patience`."""
    found: list[dict[str, Any]] = []
    known: dict[str, list[tuple[int, float]]] = {}
    for size, workload in series.points:
        staying = [peer for peer in peers if _expected(known.get(peer.name, []), size) <= patience]
        measured = measure(workload, staying, rounds if series.what == "min" else 1, seconds)
        found.append({"size": size, "peers": measured})
        for name, entry in measured.items():
            known.setdefault(name, []).append((size, entry.get(series.what, float("inf"))))
    return found


def _expected(known: list[tuple[int, float]], size: int) -> float:
    """Seconds at a size, along the line through the last two points; after the first one nobody knows what is fixed cost."""
    if len(known) < 2:
        return known[0][1] if known else 0.0
    (before, shorter), (last, longer) = known[-2:]
    return longer + max(longer - shorter, 0.0) / (last - before) * (size - last)


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
