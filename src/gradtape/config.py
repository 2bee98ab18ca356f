"""Process-wide settings. The only reader of environment variables."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

_state: dict[str, Any] = {
    "functions_run_eagerly": os.environ.get("GRADTAPE_EAGER", "") not in ("", "0"),
    "passes_debugged": os.environ.get("GRADTAPE_DEBUG_PASSES", "") not in ("", "0"),
    "native": os.environ.get("GRADTAPE_NATIVE", "1") not in ("", "0"),
    "native_cache": os.environ.get("GRADTAPE_CACHE"),
}
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
    _state["functions_run_eagerly"] = bool(run_eagerly)


def functions_run_eagerly() -> bool:
    """Whether `run_functions_eagerly(True)` is in force."""
    return bool(_state["functions_run_eagerly"])


def debug_passes(enabled: bool) -> None:
    """Check every program after each pass (slow): a pass that breaks one is named. GRADTAPE_DEBUG_PASSES=1 does the same."""
    _state["passes_debugged"] = bool(enabled)


def passes_debugged() -> bool:
    """Whether `debug_passes(True)` is in force."""
    return bool(_state["passes_debugged"])


def native_code(enabled: bool) -> None:
    """Whether compiled functions run as machine code (the default) or, for comparison, on the NumPy backend.

    Functions compiled before keep what they have; GRADTAPE_NATIVE=0 does the same from the start.
    """
    _state["native"] = bool(enabled)


def native_code_enabled() -> bool:
    """Whether `native_code(True)` is in force."""
    return bool(_state["native"])


def native_cache_directory() -> str | None:
    """Where object code is kept between processes: GRADTAPE_CACHE, or the user's cache directory; None if that is empty."""
    given = _state["native_cache"]
    if given is None:
        home = os.environ.get("XDG_CACHE_HOME") or os.path.join(Path.home(), ".cache")
        given = _state["native_cache"] = os.path.join(home, "gradtape")
    return given or None


def set_native_cache_directory(directory: str | os.PathLike[str] | None) -> None:
    """Keep object code there; None keeps none."""
    _state["native_cache"] = "" if directory is None else os.fspath(directory)


def native_cache_bytes() -> int:
    """How much object code is kept on disk."""
    return NATIVE_CACHE_BYTES
