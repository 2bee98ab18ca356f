"""`gradtape launch`: the same script on several ranks of this machine, each line of output labelled with its rank.

It only finds `mpiexec` and starts it: a wheel's beside this Python before the system's. What a failed rank does to the others
is `failing.py`, in the ranks themselves.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from gradtape.config import launched_ranks


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("-n", "--ranks", type=int, default=2, help="how many ranks (default: %(default)s)")
    parser.add_argument("--debug", action="store_true", help="compare every operation between ranks before it runs")
    parser.add_argument("script", help="the Python script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")


def find_mpiexec() -> str | None:
    """The launcher of MPI: that of a wheel, beside this Python, before one of the system."""
    beside = Path(sys.executable).parent / "mpiexec"
    return str(beside) if beside.exists() else shutil.which("mpiexec")


def launch(options: argparse.Namespace) -> int:
    """Run the script; the result is the exit status of the ranks."""
    if options.ranks < 1:
        print(f"gradtape launch: -n must be at least 1, got {options.ranks}", file=sys.stderr)
        return 2
    if not Path(options.script).is_file():
        print(f"gradtape launch: there is no file {options.script}", file=sys.stderr)
        return 2
    starter = find_mpiexec()
    if starter is None:
        print('gradtape launch: there is no mpiexec here. Install MPI: pip install "gradtape[mpi]" mpich', file=sys.stderr)
        return 2
    if launched_ranks() > 1:
        print("gradtape launch: this process is itself one of several ranks; start it outside of mpiexec", file=sys.stderr)
        return 2
    settings = {"GRADTAPE_DEBUG_RANKS": "1"} if options.debug else {}
    # more ranks than cores is nothing unusual on one machine: Open MPI must be told, MPICH does not ask
    settings |= {"PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe", "OMPI_MCA_mpi_yield_when_idle": "1"}
    command = [starter, *_labels(starter), "-n", str(options.ranks), sys.executable, options.script, *options.arguments]
    return _passed_on(command, {**os.environ, **settings})


def _labels(starter: str) -> Sequence[str]:
    """The option that labels lines: MPICH's `-prepend-rank` or Open MPI's `--output tag`."""
    text = subprocess.run([starter, "--version"], capture_output=True, text=True, check=False).stdout  # noqa: S603
    return ["--output", "tag"] if "Open MPI" in text or "OpenRTE" in text or "prte" in text.lower() else ["-prepend-rank"]


def _passed_on(command: Sequence[str], environment: dict[str, str]) -> int:
    process = subprocess.Popen(  # noqa: S603  (the user's own script)
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, bufsize=1
    )
    threads = [
        threading.Thread(target=_copy, args=pair, daemon=True)
        for pair in ((process.stdout, sys.stdout), (process.stderr, sys.stderr))
    ]
    for thread in threads:
        thread.start()
    try:
        status = process.wait()
    except KeyboardInterrupt:
        process.terminate()
        # (130: what shells give for a program that Ctrl-C has ended)
        status = process.wait() or 130
    for thread in threads:
        thread.join()
    return status


def _copy(source: IO[str], target: IO[str]) -> None:
    for line in source:
        target.write(line)
        target.flush()
