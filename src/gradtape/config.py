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
    "native_cache": os.environ.get("GRADTAPE_CACHE"),
    "threads": None,
}
_thread_watchers: list[Callable[[int], None]] = []
NATIVE_CACHE_BYTES = 512 << 20


def run_functions_eagerly(run_eagerly: bool) -> None:
    """Make `@function` run the undecorated Python function (for debugging).

    >>> import gradtape as gt
    >>> f = gt.function(lambda x: x.numpy().tolist())  # no program can do that
    >>> gt.config.run_functions_eagerly(True)
    >>> f(gt.constant([1.0, 2.0]))
    [1.0, 2.0]
    >>> gt.config.run_functions_eagerly(False)
    """
    settings["functions_run_eagerly"] = bool(run_eagerly)


def functions_run_eagerly() -> bool:
    """Whether `run_functions_eagerly(True)` is in force."""
    return bool(settings["functions_run_eagerly"])


def debug_passes(enabled: bool) -> None:
    """Check every program after each pass (slow): a pass that breaks one is named. GRADTAPE_DEBUG_PASSES=1 does the same."""
    settings["passes_debugged"] = bool(enabled)


def passes_debugged() -> bool:
    """Whether `debug_passes(True)` is in force."""
    return bool(settings["passes_debugged"])


def native_code(enabled: bool) -> None:
    """Whether functions that do not say `jit_compile` run as machine code, as by default, or on the NumPy backend.

    Functions compiled before keep what they have; GRADTAPE_NATIVE=0 means False from the start.
    """
    settings["native"] = bool(enabled)


def native_code_enabled() -> bool:
    """Whether `native_code(True)` is in force."""
    return bool(settings["native"])


def native_cache_directory() -> str | None:
    """Where object code is kept between processes: GRADTAPE_CACHE, or the user's cache directory; None if that is empty."""
    given = settings["native_cache"]
    if given is None:
        user = os.path.expanduser("~")
        caches = os.environ.get("XDG_CACHE_HOME") or (os.path.join(user, ".cache") if os.path.isabs(user) else "")
        given = settings["native_cache"] = os.path.join(caches, "gradtape") if caches else ""  # no home: nothing is kept
    return given or None


def set_native_cache_directory(directory: str | os.PathLike[str] | None) -> None:
    """Keep object code there; None keeps none."""
    settings["native_cache"] = "" if directory is None else os.fspath(directory)


def native_cache_bytes() -> int:
    """How much object code is kept on disk."""
    return NATIVE_CACHE_BYTES


def set_threads(number: int | None) -> None:
    """How many threads large kernels of compiled functions use; None: as many as OMP_NUM_THREADS or the machine says.

    Results do not depend on it.

    >>> import gradtape as gt
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
    """How many threads large kernels of compiled functions may use."""
    given = settings["threads"]
    if given is None:
        # OMP_NUM_THREADS may be a list, one number for each level of nesting
        first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
        given = int(first) if first.isdigit() and int(first) > 0 else _cores()
    return int(given)


def when_threads_change(watcher: Callable[[int], None]) -> None:
    """Call a function with the new number whenever `set_threads` is called."""
    _thread_watchers.append(watcher)


def _cores() -> int:
    """The processors this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def strict_gradients(enabled: bool) -> None:
    """Warn, with the cause, whenever `tape.gradient` answers None. GRADTAPE_STRICT_GRADIENTS=1 does the same."""
    settings["gradients_strict"] = bool(enabled)


def gradients_strict() -> bool:
    """Whether `strict_gradients(True)` is in force."""
    return bool(settings["gradients_strict"])


# TensorFlow's names for the same things
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
