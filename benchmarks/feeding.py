"""The row group `data`: what a pipeline costs for each element, and whether it keeps ahead of a training step.

`python -m benchmarks.feeding` measures gradtape here and the peers in environments of their own (`--root`); workers print JSON.
Times for an element are processor times, the least of three passes, so that a busy machine does not count; waits are by the
clock.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.environments import prepared

ELEMENTS = 10_000
STEP = 0.002  # seconds of a training step


def _least(run: Callable[[], None], count: int) -> float:
    """Microseconds of processor time for one of `count`."""
    seconds = []
    for _ in range(3):
        start = time.process_time()
        run()
        seconds.append(time.process_time() - start)
    return min(seconds) / count * 1e6


def _drained(source: Iterable[Any]) -> Callable[[], None]:
    def run() -> None:
        for _ in source:
            pass

    return run


def _waits(source: Iterable[Any], steps: int = 100) -> float:
    """Microseconds that the middle one of many steps waits for its batch."""
    batches, work, waits = iter(source), np.ones((64, 64), np.float32), []
    next(batches)
    for _ in range(steps):
        start = time.perf_counter()
        while time.perf_counter() - start < STEP:
            work @ work
        start = time.perf_counter()
        next(batches)
        waits.append(time.perf_counter() - start)
    return float(np.median(waits)) * 1e6


def _rows() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    return rng.random((ELEMENTS, 8), np.float32), rng.random((50_000, 64), np.float32)


def pipelines(tf: Any) -> dict[str, tuple[Any, int]]:
    """Every transformation alone, of small elements, and how many elements go through it."""
    small, _ = _rows()
    data, random = tf.data.Dataset, getattr(tf, "random", None)
    slices = data.from_tensor_slices((small, np.arange(ELEMENTS)))
    rows = data.from_tensor_slices(small)
    ragged = [small[i % 1000, : 1 + i % 8] for i in range(ELEMENTS)]
    spec, open_spec = tf.TensorSpec((8,), tf.float32), tf.TensorSpec((None,), tf.float32)
    numbers = data.range(ELEMENTS)
    single = {
        "read rows": slices,
        "range": numbers,
        "random": data.random(1).take(ELEMENTS),
        "shuffle": slices.shuffle(1000),
        "map": slices.map(lambda x, y: (x * 2.0, y)),
        "map of random numbers": rows.map(lambda x: x + random.normal((8,))),
        "map on 2 threads": slices.map(lambda x, y: (x * 2.0, y), num_parallel_calls=2),
        "filter": slices.filter(lambda x, y: x[0] > 0.5),
        "take_while": slices.take_while(lambda x, y: x[0] > -1.0),
        "scan": rows.scan(tf.zeros(8), lambda state, x: (state + x, state * 2.0)),
        "generator": data.from_generator(lambda: iter(small), output_signature=spec),
        "generator of ragged rows": data.from_generator(lambda: iter(ragged), output_signature=open_spec),
        "prefetch": slices.prefetch(2),
        "skip, take": slices.skip(1).take(ELEMENTS),
        "repeat": data.from_tensor_slices(small[:100]).repeat(ELEMENTS // 100),
        "shard": slices.shard(2, 0),
        "concatenate": slices.take(ELEMENTS // 2).concatenate(slices.take(ELEMENTS // 2)),
        "zip": data.zip((rows, numbers)),
        "enumerate": rows.enumerate(),
        "cache": rows.map(lambda x: x + 1.0).cache(),
        "cache of a generator": data.from_generator(lambda: iter(small), output_signature=spec).cache(),
        "choose_from_datasets": data.choose_from_datasets([rows, rows], data.range(2).repeat()),
        "sample_from_datasets": data.sample_from_datasets([rows, rows], [0.5, 0.5], seed=1),
        "batch": slices.batch(32),
        "map and batch": slices.map(lambda x, y: (x * 2.0, y)).batch(32),
        "padded_batch": rows.padded_batch(32),
        "padded_batch of ragged rows": data.from_generator(lambda: iter(ragged), output_signature=open_spec).padded_batch(32),
        "unbatch": slices.batch(32).unbatch(),
        "flat_map": data.range(ELEMENTS // 100).flat_map(lambda i: rows.take(100)),
        "flat_map of ten elements": data.range(ELEMENTS // 10).flat_map(lambda i: data.from_tensor_slices(small[:10])),
        "interleave": data.range(ELEMENTS // 100).interleave(lambda i: rows.take(100), cycle_length=4),
        "interleave blocks of 16": data.range(ELEMENTS // 100).interleave(lambda i: rows.take(100), 4, 16),
        "window": rows.window(10),
        "window, flat_map of batches": rows.window(10).flat_map(lambda window: window.batch(10)),
        "window by one, flat_map of batches": rows.window(10, 1, drop_remainder=True).flat_map(lambda window: window.batch(10)),
    }  # fmt: skip
    counts = {"choose_from_datasets": 2 * ELEMENTS, "sample_from_datasets": 2 * ELEMENTS}
    return {name: (dataset, counts.get(name, ELEMENTS)) for name, dataset in single.items()}


def of_datasets(package: str) -> dict[str, float]:
    """gradtape and TensorFlow: the same program."""
    tf = importlib.import_module(package)
    batches = tf.data.Dataset.from_tensor_slices(_rows()[1]).shuffle(50_000).batch(128).prefetch(2)
    single = pipelines(tf)
    for dataset, _ in single.values():  # caches are full, functions are traced
        _drained(dataset)()
    looped = {name: each for name, each in single.items() if name != "window"}  # its elements are datasets: no tensors
    return {
        **{name: _least(_drained(dataset), count) for name, (dataset, count) in single.items()},
        **{f"{name}, in a function": _least(_looped(tf, dataset), count) for name, (dataset, count) in looped.items()},
        "shuffle, batch 128 of 64, prefetch: a batch": _least(_drained(batches), 391),
        "the same, wait in a step of 2 ms": _waits(batches),
    }


def _looped(tf: Any, source: Any) -> Callable[[], Any]:
    @tf.function
    def run() -> Any:
        count = tf.constant(0)
        for _ in source:
            count += 1
        return count

    run()
    return run


def of_torch() -> dict[str, float]:
    """PyTorch's `DataLoader` in the process."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    torch.set_num_threads(1)
    small, large = _rows()
    rows = TensorDataset(torch.from_numpy(small), torch.arange(ELEMENTS))
    loader = DataLoader(TensorDataset(torch.from_numpy(large)), batch_size=128, shuffle=True)
    return {
        "read rows": _least(_drained(DataLoader(rows, batch_size=None)), ELEMENTS),
        "shuffle": _least(_drained(DataLoader(rows, batch_size=None, shuffle=True)), ELEMENTS),
        "shuffle, batch 128 of 64, prefetch: a batch": _least(_drained(loader), 391),
        "the same, wait in a step of 2 ms": _waits(loader),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(".benchmarks"), help="where the peers' environments are")
    parser.add_argument("--worker", choices=("gradtape", "tensorflow", "torch"), help="measure one, in this interpreter")
    options = parser.parse_args()
    if options.worker is not None:
        print(json.dumps(of_torch() if options.worker == "torch" else of_datasets(options.worker)))
        return
    table = {}
    for peer in ("gradtape", "tensorflow", "torch"):
        python, problem = (sys.executable, "") if peer == "gradtape" else prepared(peer, options.root)
        if problem:
            print(f"{peer}: {problem}", file=sys.stderr)
            continue
        command = [python, "-m", "benchmarks.feeding", "--worker", peer]
        table[peer] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1])
    print(f"{'µs':45}" + "".join(f"{peer:>12}" for peer in table))
    for row in table["gradtape"]:
        print(f"{row:45}" + "".join(f"{table[peer][row]:12.1f}" if row in table[peer] else f"{'–':>12}" for peer in table))


if __name__ == "__main__":
    main()
