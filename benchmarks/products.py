"""Matrix products by gradtape's own tiles against BLAS, on one thread: where one is faster than the other.

`python -m benchmarks.products` prints a table: GFLOP/s of each, and which of the two a compiled function calls for these sizes
(`gemm.for_blas`). Run it with `OPENBLAS_NUM_THREADS=1`. The two take turns, called from native code; times are the processor's,
best of several, so that other processes disturb little. `--quick` shows that it runs.
"""

from __future__ import annotations

import argparse
import ctypes
from collections.abc import Callable, Sequence
from time import thread_time
from typing import Any, NamedTuple

import numpy as np

from gradtape.backends.llvm.products import blas, gemm
from gradtape.backends.llvm.runtime import machine
from gradtape.backends.llvm.writing.algebra import Flag, Whole, select
from gradtape.backends.llvm.writing.builder import Builder, Pointer, define
from gradtape.backends.llvm.writing.ir_text import ModuleText

SQUARES = (2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 112, 128, 160, 192, 256, 384, 512, 1024)
SECONDS, ROUNDS, SPEED = 0.002, 15, 2e10  # of one measurement, how many, and multiplications in a second, roughly


class Case(NamedTuple):
    """A product of m × k by k × n, `batch` of them after one another."""

    name: str
    m: int
    n: int
    k: int
    batch: int = 1
    turned: str = ""  # which matrices lie transposed


CASES = [
    *[Case("square", n, n, n) for n in SQUARES],
    *[Case("square, aᵀ", n, n, n, turned="a") for n in (16, 64, 128, 256)],
    *[Case("square, bᵀ", n, n, n, turned="b") for n in (16, 64, 128, 256)],
    *[Case("batched", n, n, n, 100) for n in (4, 8, 16, 32)],
    Case("narrow", 1000, 8, 8), Case("narrow", 1000, 8, 1000), Case("narrow", 2000, 16, 2000), Case("narrow", 2000, 32, 2000),
    *[Case("few rows", m, 1000, 1000) for m in (1, 8, 12, 16)],
    *[Case("few terms", 1000, 1000, k) for k in (4, 8, 16)],
    Case("layer", 64, 784, 128), Case("layer", 64, 128, 784), Case("layer", 256, 256, 784),
]  # fmt: skip


def driver(kind: str) -> tuple[Callable[..., None], Any]:
    """`run(by tiles, repetitions, batch, m, n, k, a, ra, ca, b, rb, cb, c)` as native code, and what keeps it."""
    products = gemm.library(kind)

    def gt_drive(
        f: Builder, tiles: Flag, repetitions: Whole, batch: Whole, m: Whole, n: Whole, k: Whole, a: Pointer, ra: Whole,
        ca: Whole, b: Pointer, rb: Whole, cb: Whole, c: Pointer,
    ) -> None:  # fmt: skip
        with f.loop(repetitions), f.loop(batch) as i:
            x, y, z = (p.to(products.format).at(i * size) for p, size in ((a, m * k), (b, k * n), (c, m * n)))
            with f.if_else(tiles) as (own, other):
                with own:
                    products.serial(f, m, n, k, x, ra, ca, y, rb, cb, z, n, f.flag(False))
                with other:
                    turns = [ca.differs(1), cb.differs(1)]
                    steps = [select(turns[0], ca, ra), select(turns[1], cb, rb)]
                    blas.PRODUCT[kind](f, *turns, m, n, k, x, steps[0], y, steps[1], z, n, f.flag(False))

    module = ModuleText()
    define(module, "gt_drive", gt_drive)
    library = machine.Library(str(module), level=0)
    number, address = ctypes.c_int64, ctypes.c_void_p
    kinds = [ctypes.c_bool, *[number] * 5, address, number, number, address, number, number, address]
    return ctypes.CFUNCTYPE(None, *kinds)(library.address("gt_drive")), library


def measure(run: Callable[..., None], case: Case, dtype: str, rounds: int = ROUNDS) -> tuple[float, float]:
    """Seconds for the case by tiles and by BLAS, the best of several rounds."""
    m, n, k = case.m, case.n, case.k
    random = np.random.default_rng(0)
    a, b, c = (random.normal(size=(case.batch, *shape)).astype(dtype) for shape in ((m, k), (k, n), (m, n)))
    steps = [(1, m) if "a" in case.turned else (k, 1), (1, k) if "b" in case.turned else (n, 1)]
    arguments = (case.batch, m, n, k, a.ctypes.data, *steps[0], b.ctypes.data, *steps[1], c.ctypes.data)
    repetitions = max(1, int(SECONDS * SPEED / (case.batch * (m * n * k + 500))))
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for which, tiles in enumerate((True, False)):
            start = thread_time()
            run(tiles, repetitions, *arguments)
            times[which].append((thread_time() - start) / repetitions)
    return min(times[0]), min(times[1])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few small products only")
    quick = parser.parse_args(arguments).quick
    for kind, dtype in (("float", "float32"), ("double", "float64")):
        run, _library = driver(kind)
        print(f"\n{dtype:12}{'m × k × n':>22}{'batch':>7}{'tiles':>9}{'BLAS':>9}{'tiles/BLAS':>12}  used")
        for case in CASES:
            if quick and case.m * case.n * case.k > 20_000:
                continue
            own, other = measure(run, case, dtype, 2 if quick else ROUNDS)
            work = 2e-9 * case.m * case.n * case.k * case.batch
            used = "BLAS" if gemm.for_blas(case.m, case.n, case.k) else "tiles"
            sizes = f"{case.m} × {case.k} × {case.n}"
            print(
                f"{case.name:12}{sizes:>22}{case.batch:7}{work / own:9.1f}{work / other:9.1f}{other / own:12.2f}  {used}",
                flush=True,
            )


if __name__ == "__main__":
    main()
