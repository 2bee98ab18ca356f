"""Process-wide settings. The only reader of environment variables."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from gradtape.devices import (
    LogicalDevice as LogicalDevice,
    PhysicalDevice as PhysicalDevice,
    enable_op_determinism,
    get_device_details,
    get_memory_growth,
    get_soft_device_placement as get_soft_device_placement,
    get_visible_devices as get_visible_devices,
    list_logical_devices as list_logical_devices,
    list_physical_devices as list_physical_devices,
    set_memory_growth,
    set_soft_device_placement as set_soft_device_placement,
    set_visible_devices as set_visible_devices,
)

VERSION = "0.1.0"  # the one place: the package's metadata is made from it

settings: dict[str, Any] = {
    "functions_run_eagerly": os.environ.get("GRADTAPE_EAGER", "") not in ("", "0"),
    "gradients_strict": os.environ.get("GRADTAPE_STRICT_GRADIENTS", "") not in ("", "0"),
    "passes_debugged": os.environ.get("GRADTAPE_DEBUG_PASSES", "") not in ("", "0"),
    "native": os.environ.get("GRADTAPE_NATIVE", "1") not in ("", "0"),
    "native_eager": 50_000,
    "walks_to_learn": 30,
    "native_cache": os.environ.get("GRADTAPE_CACHE"),
    "threads": None,
}
_thread_watchers: list[Callable[[int], None]] = []
_eager_watchers: list[Callable[[int | None], None]] = []
NATIVE_CACHE_BYTES = 512_000_000


def run_functions_eagerly(run_eagerly: bool) -> None:
    """Make `@function` run the undecorated Python function (for debugging).

    >>> f = gt.function(lambda x: x.numpy().tolist())  # no program can do that
    >>> gt.config.run_functions_eagerly(True)
    >>> f(gt.constant([1.0, 2.0]))
    [1.0, 2.0]
    >>> gt.config.run_functions_eagerly(False)
    """
    settings["functions_run_eagerly"] = bool(run_eagerly)


def functions_run_eagerly() -> bool:
    """Whether `run_functions_eagerly(True)` is in force.

    >>> gt.config.functions_run_eagerly()
    False
    """
    return bool(settings["functions_run_eagerly"])


def debug_passes(enabled: bool) -> None:
    """Check every program after each pass (slow): a pass that breaks one is named; and defects of the look at a program with
    floating-point events are raised, where otherwise its results alone are judged. GRADTAPE_DEBUG_PASSES=1 does the same.

    >>> gt.config.debug_passes(False)
    """
    settings["passes_debugged"] = bool(enabled)


def passes_debugged() -> bool:
    """Whether `debug_passes(True)` is in force.

    >>> gt.config.passes_debugged()
    False
    """
    return bool(settings["passes_debugged"])


def native_code(enabled: bool) -> None:
    """Whether functions that do not say `jit_compile` run as machine code, as by default, or on the NumPy backend.

    Functions compiled before keep what they have; GRADTAPE_NATIVE=0 means False from the start.

    >>> gt.config.native_code(True)
    """
    settings["native"] = bool(enabled)


def native_code_enabled() -> bool:
    """Whether `native_code(True)` is in force.

    >>> gt.config.native_code_enabled()
    True
    """
    return bool(settings["native"])


def native_eager(enabled: bool, after: int = 50_000) -> None:
    """Whether eager code is served by machine code once tapes have recorded so many operations: the same NumPy calls and the
    same records, with less time between them; and whether backward passes, and convolutions, that came often are compiled,
    which gives the same to rounding. As by default; `native_eager(False)` and GRADTAPE_NATIVE=0 leave it to Python, to the last
    bit.

    >>> gt.config.native_eager(False)
    >>> gt.config.native_eager(True)
    """
    settings["native_eager"] = int(after) if enabled else None
    for watcher in _eager_watchers:
        watcher(eager_records())


def eager_records() -> int | None:
    """After how many recorded operations machine code serves eager code; None: never.

    >>> records = gt.config.eager_records()
    """
    return settings["native_eager"] if settings["native"] else None


def when_native_eager_changes(watcher: Callable[[int | None], None]) -> None:
    """Call a function with the new number whenever `native_eager` is called.

    >>> gt.config.when_native_eager_changes(lambda number: None)
    """
    _eager_watchers.append(watcher)


def learn_gradients(enabled: bool, after: int = 30) -> None:
    """Whether a gradient that was asked so many times of the same sequence of operations is computed by straight-line code that
    is written for it: the same rules on the same values in the same order. As by default.

    >>> gt.config.learn_gradients(False)
    >>> gt.config.learn_gradients(True)
    """
    settings["walks_to_learn"] = int(after) if enabled else None


def native_cache_directory() -> str | None:
    """Where object code is kept between processes: GRADTAPE_CACHE, or the user's cache directory; None if that is empty.

    >>> directory = gt.config.native_cache_directory()
    """
    given = settings["native_cache"]
    if given is None:
        user = os.path.expanduser("~")
        caches = os.environ.get("XDG_CACHE_HOME") or (os.path.join(user, ".cache") if os.path.isabs(user) else "")
        given = settings["native_cache"] = os.path.join(caches, "gradtape") if caches else ""  # no home: nothing is kept
    return given or None


def set_native_cache_directory(directory: str | os.PathLike[str] | None) -> None:
    """Keep object code there; None keeps none.

    >>> gt.config.set_native_cache_directory(gt.config.native_cache_directory())
    """
    settings["native_cache"] = "" if directory is None else os.fspath(directory)


def native_cache_bytes() -> int:
    """How much object code is kept on disk.

    >>> gt.config.native_cache_bytes() > 0
    True
    """
    return NATIVE_CACHE_BYTES


def set_threads(number: int | None) -> None:
    """How many threads large kernels of compiled functions use; None: as many as OMP_NUM_THREADS or the machine says.

    Results do not depend on it.

    >>> gt.config.set_threads(1)
    >>> gt.config.threads()
    1
    >>> gt.config.set_threads(None)
    """
    if number is not None and int(number) < 1:
        raise ValueError(f"set_threads: needs at least one thread, got {number}")
    settings["threads"] = None if number is None else int(number)
    for watcher in _thread_watchers:
        watcher(threads())


def threads() -> int:
    """How many threads large kernels of compiled functions may use.

    >>> gt.config.threads() >= 1
    True
    """
    given = settings["threads"]
    if given is None:
        # OMP_NUM_THREADS may be a list, one number for each level of nesting
        first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
        given = int(first) if first.isdigit() and int(first) > 0 else _cores()
    return int(given)


def when_threads_change(watcher: Callable[[int], None]) -> None:
    """Call a function with the new number whenever `set_threads` is called.

    >>> gt.config.when_threads_change(lambda number: None)
    """
    _thread_watchers.append(watcher)


def _cores() -> int:
    """The processors this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# what the launchers of MPI (MPICH and its kin, Open MPI, PMIx, SLURM's srun) tell the processes they start
_RANKS = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS")


def blas_threads_asked() -> str | None:
    """What the environment says about the threads of NumPy's BLAS, if it says anything.

    >>> asked = gt.config.blas_threads_asked()
    """
    names = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
    return next((f"{os.environ[name]} ({name})" for name in names if os.environ.get(name)), None)


def launched_ranks() -> int:
    """How many processes were started together to run this program, as far as the environment says: 1 if nothing does.

    >>> gt.config.launched_ranks()
    1
    """
    return max([1, *(int(text) for name in _RANKS if (text := os.environ.get(name, "")).isdigit())])


def ranks_debugged() -> bool:
    """Whether ranks compare each operation between them before they do it: GRADTAPE_DEBUG_RANKS=1.

    >>> gt.config.ranks_debugged()
    False
    """
    return os.environ.get("GRADTAPE_DEBUG_RANKS", "") not in ("", "0")


def strict_gradients(enabled: bool) -> None:
    """Warn, with the cause, whenever `tape.gradient` answers None. GRADTAPE_STRICT_GRADIENTS=1 does the same.

    >>> gt.config.strict_gradients(False)
    """
    settings["gradients_strict"] = bool(enabled)


def gradients_strict() -> bool:
    """Whether `strict_gradients(True)` is in force.

    >>> gt.config.gradients_strict()
    False
    """
    return bool(settings["gradients_strict"])


# TensorFlow's names for the same things
experimental_run_functions_eagerly, experimental_functions_run_eagerly = run_functions_eagerly, functions_run_eagerly
threading = SimpleNamespace(
    set_intra_op_parallelism_threads=lambda num_threads: set_threads(int(num_threads) or None),
    get_intra_op_parallelism_threads=lambda: settings["threads"] or 0,
    set_inter_op_parallelism_threads=lambda num_threads: None,  # operations run one after the other
    get_inter_op_parallelism_threads=lambda: 1,
)
experimental = SimpleNamespace(
    list_physical_devices=list_physical_devices,
    list_logical_devices=list_logical_devices,
    get_visible_devices=get_visible_devices,
    set_visible_devices=set_visible_devices,
    get_memory_growth=get_memory_growth,
    set_memory_growth=set_memory_growth,
    get_device_details=get_device_details,
    enable_op_determinism=enable_op_determinism,
)


def __dir__() -> list[str]:  # completion offers settings, not what this file imports
    return [name for name in globals() if name not in ("os", "annotations", "Any", "Callable", "SimpleNamespace", "settings")]
