"""Memory against loop length, with and without `memory_limit`: gradtape alone, every point in its own process.

`python -m benchmarks.memory KIND TURNS [LIMIT]` prints one point as JSON: the most bytes held at once from the start of the
recording to the gradient, and the seconds of a run. In eager code that is what Python and NumPy hold (tracemalloc); native code
has memory of its own, so for a compiled function it is what the process grows by (the kernel's high-water mark, Linux).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.run import ROOT, environment

ELEMENTS = 10_000  # of each vector: 40 kB in float32
LIMIT = 4_000_000
TURNS = (10, 30, 100, 200, 400, 1000, 3000)
TOLERANCE = 1e-5


def eager(limit: int | None) -> Any:
    """turns → gradient, recorded operation by operation."""
    import gradtape as gt

    def gradient(turns: int) -> float:
        x, y = gt.fill((ELEMENTS,), 0.9), gt.fill((ELEMENTS,), 0.3)
        with gt.GradientTape(memory_limit=limit) as tape:
            tape.watch(x)
            for _ in range(turns):
                y = gt.sin(y) * x + y * 0.5
            total = gt.reduce_mean(y)
        return float(gt.reduce_sum(tape.gradient(total, x)).numpy())

    return gradient


def compiled(limit: int | None) -> Any:
    """turns → gradient of a compiled function; one program for any number of turns."""
    import gradtape as gt

    @gt.function(memory_limit=limit)
    def loop(x: Any, y: Any, turns: Any) -> Any:
        for _ in range(turns):
            y = gt.sin(y) * x + y * 0.5
        return gt.reduce_mean(y)

    def gradient(turns: int) -> float:
        x, y = gt.fill((ELEMENTS,), 0.9), gt.fill((ELEMENTS,), 0.3)
        with gt.GradientTape() as tape:
            tape.watch(x)
            total = loop(x, y, gt.constant(turns))
        return float(gt.reduce_sum(tape.gradient(total, x)).numpy())

    return gradient


def _status(field: str) -> int:
    """Bytes of a line in /proc/self/status."""
    found = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field)]
    return int(found[0].split()[1]) * 1024


def point(kind: str, turns: int, limit: int | None) -> dict[str, Any]:
    gradient = {"eager": eager, "compiled": compiled}[kind](limit)
    gradient(2)  # imports and rules, trace and machine code
    if kind == "eager":
        start = perf_counter()
        answer = gradient(turns)
        seconds = perf_counter() - start
        tracemalloc.start()
        gradient(turns)
        return {"bytes": tracemalloc.get_traced_memory()[1], "seconds": seconds, "gradient": answer}
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts again
    before = _status("VmRSS")
    start = perf_counter()
    answer = gradient(turns)
    seconds = perf_counter() - start
    return {"bytes": max(_status("VmHWM") - before, 1), "seconds": seconds, "gradient": answer}


def measure(kind: str = "eager", turns: tuple[int, ...] = TURNS, patience: float = 60.0) -> list[dict[str, Any]]:
    """One entry per length: {"turns", "free", "limited"}, the latter two as `point` gives them or {"error"}.

    A kind of run that took longer than `patience` seconds is not tried at greater lengths."""
    found: list[dict[str, Any]] = []
    tried: dict[str, int | None] = {"free": None, "limited": LIMIT}
    for count in turns:
        row: dict[str, Any] = {"turns": count} | {k: _elsewhere(kind, count, limit, patience) for k, limit in tried.items()}
        tried = {k: limit for k, limit in tried.items() if "error" not in row[k]}
        if len(tried) == 2 and abs(row["free"]["gradient"] / row["limited"]["gradient"] - 1) > TOLERANCE:
            row["limited"] = {"error": f"gradient {row['limited']['gradient']}, without limit {row['free']['gradient']}"}
        found.append(row)
    return found


def _elsewhere(kind: str, turns: int, limit: int | None, patience: float) -> dict[str, Any]:
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.memory", kind, str(turns)]
    command += [] if limit is None else [str(limit)]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment(1), capture_output=True, text=True, check=True, timeout=patience
        )
    except subprocess.TimeoutExpired:
        return {"error": f"took longer than {patience:g} s"}
    except subprocess.CalledProcessError as error:
        return {"error": (error.stderr.strip().splitlines() or ["no answer"])[-1]}
    return json.loads(done.stdout)  # type: ignore[no-any-return]


if __name__ == "__main__":
    print(json.dumps(point(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else None)))
