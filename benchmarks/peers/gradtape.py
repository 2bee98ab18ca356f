"""gradtape itself: its steps stand next to the workloads."""

from __future__ import annotations

from typing import Any

from benchmarks.workloads import BY_NAME

STEPS = {workload.key: workload.gradtape for workload in BY_NAME.values()}


def version() -> str:
    import gradtape

    return gradtape.__version__


def set_threads(count: int) -> None:
    """The BLAS threads are set by the environment; gradtape's eager ops have none of their own."""


def to_numpy(value: Any) -> Any:
    return value.numpy()
