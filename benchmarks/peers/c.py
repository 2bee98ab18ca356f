"""Hand-written C with hand-derived reverse sweeps, `gcc -O3 -march=native`, one thread: the limit for loops, not a competitor.

Each file of `benchmarks/c/` becomes a shared library when one of its kernels is asked for; calls are timed inside `measure.c`.
Without a compiler the peer is absent.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.workload import Step

SOURCES = Path(__file__).resolve().parent.parent / "c"
FLAGS = ("-O3", "-march=native", "-fno-math-errno", "-fopenmp-simd", "-fPIC")
VECTOR_MATH = ("arrays.c",)  # gcc takes exp and log of vectors from libmvec under this flag only; inputs are finite


def version() -> str:
    compiler = shutil.which("gcc")
    if compiler is None:
        raise ImportError("gcc is not installed")
    return subprocess.run([compiler, "-dumpfullversion"], capture_output=True, text=True, check=True).stdout.strip()


def set_threads(count: int) -> None:
    """The programs have one thread."""


def to_numpy(value: Any) -> Any:
    return value


@cache
def library(source: Path) -> ctypes.CDLL:
    with tempfile.TemporaryDirectory(prefix="gradtape-bench-") as folder:
        made, compiled = str(Path(folder) / "kernels.so"), str(Path(folder) / "kernels.o")
        more = ("-ffast-math",) if source.name in VECTOR_MATH else ()
        subprocess.run(["gcc", *FLAGS, *more, "-c", str(source), "-o", compiled], check=True)
        # linked without that flag, which would flush small numbers to zero in the whole process
        subprocess.run(["gcc", "-shared", compiled, "-o", made, "-lmvec", "-lm"], check=True)
        return ctypes.CDLL(made)


def _source(kernel: str) -> Path:
    """The file that defines it."""
    return next(path for path in sorted(SOURCES.glob("*.c")) if f"void {kernel}(void **args)" in path.read_text())


class Kernel:
    """A step that calls a function of the library; `timed` measures calls from inside it."""

    def __init__(self, name: str, arrays: list[Any], numbers: list[int], gradients: list[Any]) -> None:
        self.function = getattr(library(_source(name)), name)
        self.value = np.zeros(1, np.float32)
        self.gradients = [np.zeros(np.shape(g), np.float32) for g in gradients]
        self.kept = [np.ascontiguousarray(a, np.float32) for a in arrays] + [np.array([n], np.int64) for n in numbers]
        places = [a.ctypes.data for a in (*self.kept, self.value, *self.gradients)]
        self.arguments = (ctypes.c_void_p * len(places))(*places)

    def __call__(self) -> tuple[Any, list[Any]]:
        self.function(self.arguments)
        return self.value[0], self.gradients

    def timed(self, seconds: float, most: int) -> list[float]:
        times = (ctypes.c_double * most)()
        measure = library(SOURCES / "measure.c").measure
        count = measure(self.function, self.arguments, ctypes.c_double(seconds), ctypes.c_long(most), times)
        return list(times[:count])


def _made(name: str, wrt: tuple[str, ...], numbers: Callable[..., list[int]], **inputs: Any) -> Step:
    arrays = [a for a in inputs.values() if isinstance(a, (np.ndarray, np.generic))]
    return Kernel(name, arrays, numbers(**inputs), [inputs[name] for name in wrt])


def _steps(**inputs: Any) -> list[int]:
    return [inputs["steps"]]


# kernel → (by what it differentiates, its whole numbers); arrays are handed over in the order of the workload's inputs
KERNELS: dict[str, tuple[tuple[str, ...], Callable[..., list[int]]]] = {
    "scalar_loop": (("x", "y"), _steps),
    "nested_loops": (("a", "b", "c"), lambda turns, **_: [turns]),
    "newton": (("a",), lambda a: [len(a)]),
    "lstm_tiny": (("w", "u", "b"), lambda xs, **_: [len(xs)]),
    "jacobi": (("a",), lambda a, steps: [steps, len(a)]),
    "heat": (("a",), lambda a, steps: [steps, len(a)]),
    "seidel": (("a",), lambda a, steps: [steps, len(a)]),
    "triangular": (("m", "b"), lambda b, **_: [len(b)]),
    "durbin": (("r",), lambda r: [len(r)]),
    "nbody": (("p",), _steps),
    "logsumexp": (("x",), lambda x: [len(x)]),
    "least_squares": (("x",), lambda a, **_: [*a.shape]),
    "ode": (("x",), lambda x, **_: [len(x)]),
    "black_scholes": (("spot", "strike", "time"), lambda spot, **_: [len(spot)]),
}
STEPS = {f"compiled_{name}": partial(_made, name, *about) for name, about in KERNELS.items()}
