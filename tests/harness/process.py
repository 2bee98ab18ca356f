"""What belongs to the whole process, and which a test therefore gives back as it found it.

A test that leaves a setting, an environment variable or a tape behind would fail another one, in some order only. Here it fails
itself: `state` before and after a test are compared (`tests/conftest.py`). Nothing here changes anything but `fresh`, which
forgets what is bound to be left (random streams, restores that wait for their variables).
"""

from __future__ import annotations

import contextvars
import gc
import os
import signal
import sys
import threading
import tracemalloc
from typing import Any

import numpy as np

import gradtape as gt
from gradtape import config
from gradtape.core.dispatch import RUNNERS
from gradtape.core.observers import SESSION
from gradtape.train import late_restore

SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGALRM", "SIGVTALRM") if hasattr(signal, name)]
EMPTY = contextvars.Context()
OTHERS = {"numpy.ufunc.extobj", "decimal_context"}
PATIENCE = 900  # seconds after which something hangs: so long that no load of the machine looks like it
OF_OTHERS = ("PYTEST_", "KMP_", "TF_FORCE_GPU_")  # which pytest, scikit-learn and Keras set when they are first loaded


def fresh() -> None:
    """Random streams from their start, and no restore that waits."""
    gt.random.set_seed(0)
    for restore in tuple(late_restore._OUTSTANDING):
        restore.forget()


def state() -> dict[str, Any]:
    """Everything of the process that a test may see of another."""
    return {
        "settings of gradtape": dict(config.settings),
        "tapes and traces": _variables_of_the_context(),
        "errors of NumPy": np.geterr(),
        "observers and hooks": (list(SESSION.observers), list(RUNNERS)),
        "environment": {name: value for name, value in os.environ.items() if not name.startswith(OF_OTHERS)},
        "directory": os.getcwd(),
        "path": list(sys.path),
        "garbage collector": (gc.isenabled(), gc.get_threshold()),
        "signals": [signal.getsignal(number) for number in SIGNALS],
        "limits": (sys.getrecursionlimit(), sys.getswitchinterval()),
        "traces of Python": (sys.gettrace(), sys.getprofile(), tracemalloc.is_tracing()),
        "threads": [thread for thread in threading.enumerate() if not thread.daemon],
    }


def _variables_of_the_context() -> dict[Any, Any]:
    """Those that are not as they are at the start; not those of others, which are not compared by what they say."""
    every = contextvars.copy_context().items()
    return {variable: value for variable, value in every if variable.name not in OTHERS and not _default(variable, value)}


def _default(variable: contextvars.ContextVar[Any], value: Any) -> bool:
    try:
        default = EMPTY.run(variable.get)
    except LookupError:
        return False
    return value is default or bool(value == default)


def differences(before: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """What is not as it was, by name: (before, now)."""
    now = state()
    return {name: (before[name], now[name]) for name in before if before[name] != now[name]}
