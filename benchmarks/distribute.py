"""`make bench ONLY=distribute`: what ranks cost. Sums in a compiled loop against bare C and mpi4py, a training step against
PyTorch's DistributedDataParallel, scaling of a split domain, and from measured latency and bandwidth a model for more machines.

It needs mpi4py and mpiexec; C needs mpicc, PyTorch an environment of its own (`--torch PYTHON`). Figures are minima of short
repeats, taken in turns; they say nothing where other programs use the cores.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from math import log2
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TURNS = 3
MACHINES = [2**k for k in range(1, 11)]


def _run(command: Sequence[str], **environment: str) -> str:
    settings = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **settings, **environment})
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr[-2000:]}")
    return done.stdout


def _mpiexec() -> str:
    from gradtape.distribute.launcher import find_mpiexec

    starter = find_mpiexec()
    if starter is None:
        raise SystemExit("benchmarks.distribute: there is no mpiexec: pip install mpi4py mpich")
    return starter


def _ours(ranks: int, what: str) -> Any:
    """What a workload below gives on rank 0."""
    return json.loads(
        _run([_mpiexec(), "-n", str(ranks), sys.executable, "-m", "benchmarks.distribute_ranks", what]).splitlines()[-1]
    )


def _compiled_c(folder: str) -> str | None:
    compiler = Path(_mpiexec()).parent / "mpicc"
    if not compiler.exists():
        return None
    program = str(Path(folder) / "all_reduce")
    _run([str(compiler), "-O2", str(ROOT / "benchmarks" / "c" / "all_reduce.c"), "-o", program])
    return program


def sums() -> dict[str, float]:
    """Microseconds of the sum of 8 bytes over 2 ranks, in a loop."""
    best: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        program = _compiled_c(folder)
        for _ in range(TURNS):
            rows = {"compiled loop": _ours(2, "sum"), "mpi4py": _ours(2, "mpi4py"), "eager": _ours(2, "eager")}
            if program is not None:
                library = str(Path(_mpiexec()).parents[1] / "lib")
                rows["bare C"] = float(_run([_mpiexec(), "-n", "2", program], LD_LIBRARY_PATH=library))
            best = {name: min(value, best.get(name, value)) for name, value in rows.items()}
    return best


def steps(torch: str | None) -> dict[str, float]:
    """Microseconds of a gradient step of a 784-256-10 perceptron, 64 rows on each of 2 ranks."""
    best: dict[str, float] = {}
    for _ in range(TURNS):
        rows = {"gradtape": _ours(2, "step"), "gradtape, one rank": _ours(1, "step")}
        if torch:
            rows["torch DDP, gloo"] = float(_run([torch, str(ROOT / "benchmarks" / "peers" / "torch_ddp.py")]).splitlines()[-1])
        best = {name: min(value, best.get(name, value)) for name, value in rows.items()}
    return best


def scaling() -> dict[str, float]:
    """Milliseconds of 200 steps of the heat equation and its gradient: 256 rows in all (strong), 256 rows per rank (weak)."""
    return {f"{kind}, {ranks} ranks": _ours(ranks, kind) for kind in ("strong", "weak") for ranks in (1, 2)}


def model(latency: float, bandwidth: float, compute: float, size: float) -> list[float]:
    """Microseconds of a step on 2 to 1,024 machines: computing, then a ring or a tree, whichever is quicker.

    Assumed: computing takes what it takes on one, nothing overlaps, a tree pays 2 log₂ N messages of the whole, a ring
    2 (N - 1) messages of an N-th; a message costs `latency` microseconds and its bytes at `bandwidth` bytes per microsecond.
    """
    times = []
    for n in MACHINES:
        tree = 2 * log2(n) * (latency + size / bandwidth)
        ring = 2 * (n - 1) * (latency + size / n / bandwidth)
        times.append(compute + min(tree, ring))
    return times


def _plot(path: Path, times: list[float], compute: float) -> None:
    """Efficiency against machines, as SVG."""
    width, height, points = 480, 260, []
    for k, time in enumerate(times):
        points.append(f"{50 + 42 * k},{220 - 180 * compute / time:.1f}")
    labels = "".join(f'<text x="{50 + 42 * k}" y="240" text-anchor="middle">{n}</text>' for k, n in enumerate(MACHINES))
    marks = "".join(f'<text x="40" y="{224 - 180 * p / 100}" text-anchor="end">{p} %</text>' for p in (0, 50, 100))
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">'
        f'<polyline points="{" ".join(points)}" fill="none" stroke="#26c" stroke-width="2"/>{labels}{marks}'
        f'<text x="240" y="256" text-anchor="middle">machines: time that is spent computing, by the model</text></svg>\n'
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.distribute")
    parser.add_argument("--torch", help="a Python that has torch")
    parser.add_argument("--output", default=str(ROOT / ".benchmarks" / "distribute.json"), help="where the figures go")
    options = parser.parse_args(arguments)
    network = _ours(2, "network")
    answers: dict[str, Any] = {
        "sum of 8 bytes, µs": sums(), "gradient step, µs": steps(options.torch), "heat equation, ms": scaling(),
        "network": network,
    }  # fmt: skip
    one = answers["gradient step, µs"]["gradtape, one rank"]
    times = model(network["latency"], network["bandwidth"], one, 4.0 * (784 * 256 + 256 + 2560 + 10))
    answers["model of a step, µs"] = dict(zip(map(str, MACHINES), times, strict=True))
    for title, rows in answers.items():
        print(title)
        for name, value in rows.items():
            print(f"  {name:24} {value:12.2f}")
    target = Path(options.output)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(answers, indent=1) + "\n")
    _plot(target.with_suffix(".svg"), times, one)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
