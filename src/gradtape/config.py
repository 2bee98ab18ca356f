"""Process-wide settings. The only reader of environment variables."""

from __future__ import annotations

import os

_state = {
    "functions_run_eagerly": os.environ.get("GRADTAPE_EAGER", "") not in ("", "0"),
    "passes_debugged": os.environ.get("GRADTAPE_DEBUG_PASSES", "") not in ("", "0"),
}


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
    return _state["functions_run_eagerly"]


def debug_passes(enabled: bool) -> None:
    """Check every program after each pass (slow): a pass that breaks one is named. GRADTAPE_DEBUG_PASSES=1 does the same."""
    _state["passes_debugged"] = bool(enabled)


def passes_debugged() -> bool:
    """Whether `debug_passes(True)` is in force."""
    return _state["passes_debugged"]
