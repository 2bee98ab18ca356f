"""`gradtape doctor`: what is installed, what the machine is, where the cache is, how many threads compute, and a self-test.

It reports and repairs nothing. The exit status is that of the self-test: 0 if small programs, a gradient and machine code
among them, are right.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gradtape import config
from gradtape.ops.create import constant
from gradtape.ops.elementwise import sin
from gradtape.ops.reduce import reduce_sum
from gradtape.tape.gradient_tape import GradientTape

_NEEDED = ("numpy", "scipy", "llvmlite")
_OPTIONAL = {"safetensors": "checkpoint", "ml_dtypes": "bfloat16", "keras": "keras", "mpi4py": "mpi"}
_SHOWN = ("sse4.2", "avx", "avx2", "fma", "avx512f", "neon", "sve")


def diagnose() -> int:
    """Print everything; 0 if the self-test passes."""
    for title, lines in (("versions", _versions()), ("machine", _machine()), ("cache", _cache()), ("threads", _threads())):
        print(title)
        for name, value in lines:
            print(f"  {name:12} {value}")
    print("self-test")
    failures = 0
    for name, check in _CHECKS.items():
        try:
            problem = check()
        except Exception as error:  # whatever it is belongs in the report
            problem = f"{type(error).__name__}: {error}"
        failures += problem is not None
        print(f"  {name:12} {problem or 'right'}")
    return 1 if failures else 0


def _versions() -> Iterator[tuple[str, str]]:
    yield "gradtape", f"{config.VERSION}, {Path(__file__).parents[1]}"
    yield "Python", f"{platform.python_version()} ({platform.python_implementation()}), {sys.executable}"
    for name in _NEEDED:
        yield name, _version(name) or "missing"
    for name, extra in _OPTIONAL.items():
        yield name, _version(name) or f"not installed (pip install 'gradtape[{extra}]')"


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _machine() -> Iterator[tuple[str, str]]:
    from gradtape.backends.llvm.runtime import machine, symbols

    yield "system", platform.platform()
    cpu, features = machine.processor()
    yield "processor", f"{cpu}, {os.cpu_count()} cores"
    yield "features", " ".join(name for name in _SHOWN if name in features) or "none of " + " ".join(_SHOWN)
    # The layout of Python's objects is what machine code reads arguments by.
    native = config.native_code_enabled() and symbols.available()
    yield "functions", "machine code (LLVM)" if native else "the NumPy reference: this Python's objects have another layout"


def _cache() -> Iterator[tuple[str, str]]:
    directory = config.native_cache_directory()
    if directory is None:
        yield "folder", "none: compiled programs are not kept"
        return
    files, size = kept(Path(directory))
    yield "folder", directory
    yield "kept", f"{len(files)} files, {size / 1e6:.1f} MB of at most {config.native_cache_bytes() / 1e6:.0f} MB"


def kept(directory: Path) -> tuple[list[Path], int]:
    """The files of the cache and how many bytes they have."""
    files = [path for path in directory.rglob("*") if path.is_file()] if directory.is_dir() else []
    return files, sum(path.stat().st_size for path in files)


def _threads() -> Iterator[tuple[str, str]]:
    yield "kernels", str(config.threads())
    yield "BLAS", _blas_threads()


def _blas_threads() -> str:
    # NumPy does not tell how many threads its BLAS uses; threadpoolctl asks the library itself.
    if importlib.util.find_spec("threadpoolctl") is not None:
        pools: Any = importlib.import_module("threadpoolctl").threadpool_info()
        return ", ".join(sorted({f"{pool['num_threads']} ({pool['internal_api']})" for pool in pools})) or "none found"
    return config.blas_threads_asked() or f"not limited: one per core ({os.cpu_count()})"


# -- the self-test -------------------------------------------------------------------------------------------------------


def _eager() -> str | None:
    x = constant(np.array([0.5, 1.5]))
    with GradientTape() as tape:
        tape.watch(x)
        y = reduce_sum(sin(x) * x)
    return _differs(tape.gradient(y, x), np.cos(x.numpy()) * x.numpy() + np.sin(x.numpy()))


def _loop(x: Any, n: Any) -> Any:
    from gradtape.tape.control_flow import cond, while_loop  # spelled out: the library's own code is not rewritten

    def turn(x: Any, n: Any) -> Any:
        return cond(x < 2.0, lambda: x * x, lambda: x / 3.0), n - 1

    return while_loop(lambda x, n: n > 0, turn, [x, n])[0]


def _compiled() -> str | None:
    from gradtape.functions.function import function

    results = []
    # Eager and native must agree on a loop with a branch, and on its derivative.
    for f in (_loop, function(_loop)):
        x = constant(np.float64(1.3))
        with GradientTape() as tape:
            tape.watch(x)
            y = f(x, constant(7))
        results.append(np.array([float(y), float(tape.gradient(y, x))]))
    return _differs(*results)


def _product() -> str | None:
    from gradtape.functions.function import function

    generator = np.random.default_rng(0)
    a, b = generator.normal(size=(40, 30)), generator.normal(size=(30, 20))
    return _differs(function(lambda a, b: a @ b)(constant(a), constant(b)), a @ b)


def _differs(got: Any, want: Any) -> str | None:
    return None if np.allclose(got, want, rtol=1e-12) else f"WRONG: {np.asarray(got)} instead of {np.asarray(want)}"


_CHECKS: dict[str, Callable[[], str | None]] = {"gradient": _eager, "machine code": _compiled, "BLAS": _product}
