"""Memory against loop length, with and without `memory_limit`: gradtape alone, every point in its own process.

`python -m benchmarks.memory TURNS [LIMIT]` prints one point as JSON: the most bytes that Python and NumPy held at once from
the start of the recording to the gradient (tracemalloc), and the seconds of a run that is not traced.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from time import perf_counter
from typing import Any

from benchmarks.run import ROOT, environment

ELEMENTS = 10_000  # of each vector: 40 kB in float32
LIMIT = 4_000_000
TURNS = (10, 30, 100, 200, 400, 1000, 3000)
TOLERANCE = 1e-5


def gradient(turns: int, limit: int | None) -> float:
    import gradtape as gt

    x, y = gt.fill((ELEMENTS,), 0.9), gt.fill((ELEMENTS,), 0.3)
    with gt.GradientTape(memory_limit=limit) as tape:
        tape.watch(x)
        for _ in range(turns):
            y = gt.sin(y) * x + y * 0.5
        total = gt.reduce_mean(y)
    return float(gt.reduce_sum(tape.gradient(total, x)).numpy())


def point(turns: int, limit: int | None) -> dict[str, Any]:
    gradient(2, limit)  # imports and rules
    start = perf_counter()
    answer = gradient(turns, limit)
    seconds = perf_counter() - start
    tracemalloc.start()
    gradient(turns, limit)
    return {"bytes": tracemalloc.get_traced_memory()[1], "seconds": seconds, "gradient": answer}


def measure(turns: tuple[int, ...] = TURNS, patience: float = 60.0) -> list[dict[str, Any]]:
    """One entry per length: {"turns", "free", "limited"}, the latter two as `point` gives them or {"error"}.

    A kind of run that took longer than `patience` seconds is not tried at greater lengths."""
    found: list[dict[str, Any]] = []
    tried: dict[str, int | None] = {"free": None, "limited": LIMIT}
    for count in turns:
        row: dict[str, Any] = {"turns": count} | {kind: _elsewhere(count, limit, patience) for kind, limit in tried.items()}
        tried = {kind: limit for kind, limit in tried.items() if "error" not in row[kind]}
        if len(tried) == 2 and abs(row["free"]["gradient"] / row["limited"]["gradient"] - 1) > TOLERANCE:
            row["limited"] = {"error": f"gradient {row['limited']['gradient']}, without limit {row['free']['gradient']}"}
        found.append(row)
    return found


def _elsewhere(turns: int, limit: int | None, patience: float) -> dict[str, Any]:
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.memory", str(turns), *([] if limit is None else [str(limit)])]
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
    print(json.dumps(point(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else None)))
