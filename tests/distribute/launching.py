"""Starts programs on several ranks for the tests, and says in words where that cannot be done."""

import json
import os
import shutil
import subprocess
import sys
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.harness.process import PATIENCE

ROOT = Path(__file__).resolve().parents[2]


def mpiexec() -> str | None:
    """The launcher: that of a wheel, beside this Python, before one of the system."""
    beside = Path(sys.executable).parent / "mpiexec"
    return str(beside) if beside.exists() else shutil.which("mpiexec")


def why_not() -> str:
    """Why programs cannot run on several ranks here; empty if they can."""
    if find_spec("mpi4py") is None:
        return "mpi4py is not installed: pip install mpi4py mpich"
    return "" if mpiexec() else "there is no mpiexec: pip install mpich"


needs_ranks = pytest.mark.skipif(bool(why_not()), reason=why_not() or "-")


def start(ranks: int, *command: str, **environment: str) -> subprocess.Popen[str]:
    """A Python program on several ranks, its output captured."""
    settings = {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    # four ranks on two cores: those of Open MPI give way, ours sleep
    settings |= {"OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    settings |= {"PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
    line = [str(mpiexec()), "-n", str(ranks), sys.executable, *command]
    return subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **settings, **environment}, cwd=ROOT
    )


def run(ranks: int, *command: str, timeout: float = PATIENCE, **environment: str) -> subprocess.CompletedProcess[str]:
    """The same, to its end."""
    process = start(ranks, *command, **environment)
    try:
        out, error = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        out, error = process.communicate()
        pytest.fail(f"{ranks} ranks hang after {timeout} s\n{out[-3000:]}\n{error[-3000:]}")
    return subprocess.CompletedProcess(command, process.returncode, out, error)


@lru_cache
def results(module: str, ranks: int, *options: str) -> dict[str, Any]:
    """What `python -m module options` prints as JSON on rank 0: name of a case → what went wrong, or nothing."""
    done = run(ranks, "-W", "error", "-m", module, *options)
    assert done.returncode == 0, f"{module} on {ranks} ranks:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    answers: dict[str, Any] = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
    return answers
