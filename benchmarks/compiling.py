"""How long the first call of a small compiled function takes: traced and compiled, in fresh processes.

`python -m benchmarks.compiling PEER` prints the seconds. Another function is compiled before it, so that starting the compiler
itself is not in the figure. gradtape is measured twice, with an empty object cache and with what the first process left there.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import tempfile
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks.run import ROOT, environment
from benchmarks.workloads import BY_NAME

WARM, SMALL = "compiled_trivial", "compiled_least_squares"
TITLES = {"compile_cold": "first call of a small function", "compile_cached": "the same with object code from the cache"}
COMPILERS = ("jax_jit", "tf_function", "tf_xla", "torch_compile")


def first_call(peer: str) -> float:
    module: Any = importlib.import_module(f"benchmarks.peers.{peer}")
    module.set_threads(1)
    for name in (WARM, SMALL):
        step = module.STEPS[name](**BY_NAME[name].inputs())
        start = perf_counter()
        step()
        seconds = perf_counter() - start
    return seconds


def _elsewhere(peer: str, python: str, cache: str, patience: float) -> float | None:
    command = [python, "-W", "ignore", "-m", "benchmarks.compiling", peer]
    settings = environment(1) | {"GRADTAPE_CACHE": cache}
    try:
        done = subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True, check=True, timeout=patience)
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
        return None
    return float(json.loads(done.stdout.splitlines()[-1]))


def measure(pythons: dict[str, str], rounds: int, patience: float = 120.0) -> list[dict[str, Any]]:
    """The two rows of the table; `pythons` are the interpreters of the peers that take part."""
    times: dict[str, dict[str, list[float]]] = {row: {} for row in TITLES}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as cache:
            for row in TITLES:
                found = _elsewhere("gradtape", pythons["gradtape"], cache, patience)
                times[row].setdefault("gradtape", []).extend([] if found is None else [found])
        for peer in [name for name in COMPILERS if name in pythons]:
            found = _elsewhere(peer, pythons[peer], "", patience)
            times["compile_cold"].setdefault(peer, []).extend([] if found is None else [found])
    return [
        {"name": row, "title": title, "ops": 1, "goals": (), "peers": {
            peer: {"first": found[0], "min": min(found), "median": median(found), "calls": len(found)}
            for peer, found in times[row].items() if found
        }} for row, title in TITLES.items()
    ]  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(first_call(sys.argv[1])))
