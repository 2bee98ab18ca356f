"""`make bench ONLY=distribute`: what ranks cost. Sums and messages in a compiled loop against bare C and mpi4py, a training
step against PyTorch's DistributedDataParallel and JAX, scaling of a split domain, and from measured latency and bandwidth a
model for more machines.

It needs mpi4py and mpiexec; C needs mpicc, PyTorch and JAX environments of their own (`--torch PYTHON`, `--jax PYTHON`). The
figures are minima of short repeats, taken in turns; they say nothing where other programs use the cores. `--only` measures a
part and leaves the others in the file as they are.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from math import log2
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PEERS = {"torch DDP, gloo": "torch_ddp.py", "JAX, gloo": "jax_gloo.py"}
PARTS = "sums", "steps", "scaling", "network"
BYTES = 4.0 * (784 * 256 + 256 + 2560 + 10)  # of the gradient of a step
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


def _ours(ranks: int, *what: str) -> Any:
    """What a workload of `distribute_ranks.py` gives on rank 0."""
    return json.loads(
        _run([_mpiexec(), "-n", str(ranks), sys.executable, "-m", "benchmarks.distribute_ranks", *what]).splitlines()[-1]
    )


def _compiled_c(folder: str) -> list[str]:
    """The library with C's loop; nothing where there is no compiler."""
    compiler, library = Path(_mpiexec()).parent / "mpicc", str(Path(folder) / "ranks.so")
    if not compiler.exists():
        return []
    _run([str(compiler), "-O2", "-shared", "-fPIC", str(ROOT / "benchmarks" / "c" / "ranks.c"), "-o", library])
    return [library]


def sums(turns: int) -> dict[str, float]:
    """Microseconds of the sum of 8 bytes over 2 ranks, and of a message each way, in a loop. C's runs in the same processes, in
    turns with ours: between two starts, on whichever cores, either differs by more than they do from one another."""
    best: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        library = _compiled_c(folder)
        for _ in range(turns):
            rows = {**_ours(2, "loops", *library), "sum, mpi4py": _ours(2, "mpi4py"), "sum, eager": _ours(2, "eager")}
            best = {name: min(value, best.get(name, value)) for name, value in rows.items()}
    return best


def steps(turns: int, peers: dict[str, str | None]) -> dict[str, float]:
    """Microseconds of a gradient step of a 784-256-10 perceptron, 64 rows on each of 2 ranks."""
    best: dict[str, float] = {}
    for _ in range(turns):
        rows = {"gradtape": _ours(2, "step"), "gradtape, one rank": _ours(1, "step")}
        rows |= {"gradtape, eager": _ours(2, "eager_step")}
        for name, python in peers.items():
            if python:  # without their folder, in which other files are called torch.py and jax.py
                rows[name] = float(_run([python, "-P", str(ROOT / "benchmarks" / "peers" / PEERS[name])]).splitlines()[-1])
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


def _plot(path: Path, times: list[float], compute: float, network: dict[str, float]) -> None:
    """Efficiency against machines, as SVG."""
    width, height = 560, 300
    points = " ".join(f"{60 + 50 * k},{240 - 200 * compute / time:.1f}" for k, time in enumerate(times))
    labels = "".join(f'<text x="{60 + 50 * k}" y="258" text-anchor="middle">{n}</text>' for k, n in enumerate(MACHINES))
    marks = "".join(
        f'<text x="52" y="{244 - 2 * p}" text-anchor="end">{p} %</text>'
        f'<line x1="56" x2="516" y1="{240 - 2 * p}" y2="{240 - 2 * p}" stroke="#ccc"/>'
        for p in (0, 25, 50, 75, 100)
    )
    words = f"latency {network['latency']:.1f} µs, {network['bandwidth'] / 1e3:.2f} GB/s, {BYTES / 1e6:.2f} MB, no overlap"
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">'
        f'{marks}<polyline points="{points}" fill="none" stroke="#26c" stroke-width="2"/>{labels}'
        f'<text x="285" y="276" text-anchor="middle">machines</text>'
        f'<text x="285" y="20" text-anchor="middle">share of a step that computes, by the model ({words})</text></svg>\n'
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.distribute")
    parser.add_argument("--torch", help="a Python that has torch")
    parser.add_argument("--jax", help="a Python that has jax")
    parser.add_argument("--turns", type=int, default=3, help="of everybody (default: %(default)s)")
    parser.add_argument("--only", action="append", choices=PARTS, help="a part (repeatable)")
    parser.add_argument("--output", default=str(ROOT / ".benchmarks" / "distribute.json"), help="where the figures go")
    options = parser.parse_args(arguments)
    target = Path(options.output)
    target.parent.mkdir(parents=True, exist_ok=True)
    answers: dict[str, Any] = json.loads(target.read_text()) if options.only and target.exists() else {}
    peers = dict(zip(PEERS, (options.torch, options.jax), strict=True))
    measures: dict[str, tuple[str, Callable[[], Any]]] = {
        "sums": ("8 bytes, µs", lambda: sums(options.turns)),
        "steps": ("gradient step, µs", lambda: steps(options.turns, peers)),
        "scaling": ("heat equation, ms", scaling),
        "network": ("network", lambda: _ours(2, "network")),
    }
    for part in options.only or PARTS:
        title, measure = measures[part]
        answers[title] = measure()
        target.write_text(json.dumps(answers, indent=1) + "\n")
    if "network" in answers and "gradient step, µs" in answers:
        network, one = answers["network"], answers["gradient step, µs"]["gradtape, one rank"]
        times = model(network["latency"], network["bandwidth"], one, BYTES)
        answers["model of a step, µs"] = dict(zip(map(str, MACHINES), times, strict=True))
        target.write_text(json.dumps(answers, indent=1) + "\n")
        _plot(target.with_suffix(".svg"), times, one, network)
    for title, rows in answers.items():
        print(title)
        for name, value in rows.items():
            print(f"  {name:24} {value:12.2f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
