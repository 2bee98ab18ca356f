"""The workloads of `benchmarks/distribute.py`: `mpiexec -n 2 python -m benchmarks.distribute_ranks loops` runs one."""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

import gradtape as gt

ranks = gt.distribute
LOOP = 1000


def best(call: Callable[[], Any], repeats: int = 40) -> float:
    """Seconds of the quickest call, all ranks beginning together."""
    call()
    least = np.inf
    for _ in range(repeats):
        ranks.barrier()
        start = perf_counter()
        call()
        least = min(least, perf_counter() - start)
    return float(least)


def in_loops() -> dict[str, float]:
    """Medians of sums and messages: of the compiled loops, and of C's in the library whose path was given."""
    other = 1 - ranks.rank()

    @gt.function
    def sums(x: Any) -> Any:
        for _ in gt.range(LOOP):
            x = ranks.all_reduce(x * 0.5)
        return x

    @gt.function
    def messages(x: Any) -> Any:
        for _ in gt.range(LOOP):
            x = ranks.sendrecv(x * 0.5, dest=other, source=other)
        return x

    x, answers = gt.constant(np.ones(1)), {}
    for name, loop in {"sum": sums, "message": messages}.items():
        loop(x)
        times: dict[str, list[float]] = {f"{name}, compiled loop": []}
        if in_c := [getattr(ctypes.CDLL(path), f"seconds_of_{name}s") for path in sys.argv[2:]]:
            from mpi4py import MPI

            in_c[0].restype, times[f"{name}, bare C"], comm = ctypes.c_double, [], MPI._handleof(MPI.COMM_WORLD)
            handle = ctypes.c_int(comm) if MPI._sizeof(MPI.Comm) == 4 else ctypes.c_void_p(comm)
        for _ in range(200):
            ranks.barrier()
            start = perf_counter()
            loop(x)
            times[f"{name}, compiled loop"].append(perf_counter() - start)
            for function in in_c:
                times[f"{name}, bare C"].append(function(handle, LOOP))
        answers |= {title: float(np.median(each)) / LOOP * 1e6 for title, each in times.items()}
    return answers


def by_mpi4py() -> float:
    from mpi4py import MPI

    x, y = np.ones(1), np.empty(1)

    def loop() -> None:
        for _ in range(LOOP):
            MPI.COMM_WORLD.Allreduce(x, y)

    return best(loop) / LOOP * 1e6


def eager() -> float:
    x = gt.constant(np.ones(1))
    return best(lambda: ranks.all_reduce(x), 400) * 1e6


def network() -> dict[str, float]:
    """Latency of a short message in microseconds, and bytes per microsecond of a long one."""
    short, long = gt.constant(np.ones(1, np.float32)), gt.constant(np.ones(1 << 20, np.float32))
    other = 1 - ranks.rank()
    latency = best(lambda: ranks.sendrecv(short, other, other), 200) * 1e6
    return {"latency": latency, "bandwidth": (4 << 20) / (best(lambda: ranks.sendrecv(long, other, other)) * 1e6 - latency)}


def step(compiled: bool = True) -> float:
    random = np.random.default_rng(0)
    strategy = ranks.MultiWorkerMirroredStrategy()
    with strategy.scope():
        sizes = ((784, 256), (256, 10))
        weights = [gt.Variable(random.normal(size=s).astype(np.float32) * 0.05) for s in sizes]
        biases = [gt.Variable(np.zeros(s[1], np.float32)) for s in sizes]
        optimizer = gt.optimizers.SGD(0.01)
    variables = [weights[0], biases[0], weights[1], biases[1]]

    def train(x: Any, y: Any) -> Any:
        with gt.GradientTape() as tape:
            hidden = gt.nn.relu(x @ weights[0] + biases[0])
            each = gt.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=hidden @ weights[1] + biases[1])
            loss = gt.reduce_sum(each) / (64.0 * ranks.size())
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    x = gt.constant(random.normal(size=(64, 784)).astype(np.float32))
    y = gt.constant(random.integers(0, 10, 64))
    run = gt.function(train) if compiled else train
    return best(lambda: strategy.run(run, args=(x, y)), 100) * 1e6


def heat(rows: int) -> float:
    @gt.function
    def energy(u: Any, k: Any) -> Any:
        for _ in gt.range(200):
            v = gt.pad(ranks.halo_exchange(u), [[0, 0], [1, 1]])
            u = u + k * (v[2:, 1:-1] + v[:-2, 1:-1] + v[1:-1, 2:] + v[1:-1, :-2] - 4.0 * u)
        return ranks.all_reduce(gt.reduce_sum(u**2))

    u, k = gt.constant(np.random.default_rng(0).normal(size=(rows, 256))), ranks.replicated(np.array(0.1))

    def slope() -> Any:
        with gt.GradientTape() as tape:
            tape.watch([u, k])
            target = energy(u, k)
        return tape.gradient(target, [u, k])

    return best(slope, 5) * 1e3


WORKLOADS: dict[str, Callable[[], Any]] = {
    "loops": in_loops, "mpi4py": by_mpi4py, "eager": eager, "network": network, "step": step,
    "eager_step": lambda: step(compiled=False),
    "strong": lambda: heat(256 // ranks.size()), "weak": lambda: heat(256),
}  # fmt: skip

if __name__ == "__main__":
    answer = WORKLOADS[sys.argv[1]]()
    if ranks.rank() == 0:
        print(json.dumps(answer), flush=True)
