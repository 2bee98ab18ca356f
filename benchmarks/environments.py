"""One virtual environment per peer, made on demand in a folder of the caller's and reused as long as its packages are the same.

A peer that cannot be installed is an answer, not an error: `prepared` says why. It measures nothing.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

# torch is pinned: an unpinned one may bring several gigabytes of packages for graphics cards
PACKAGES: dict[str, tuple[str, ...]] = {
    "torch": ("torch==2.13.0", "numpy"),
    "tensorflow": ("tensorflow-cpu",),
    "autograd": ("autograd", "scipy"),
    "jax": ("jax", "jaxlib"),
}
STAMP = "installed"  # written last, holding the packages: an interrupted installation starts again


def call(command: Sequence[str]) -> str:
    """Run a command; what went wrong, or nothing."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return ""
    lines = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith("error")]
    return (errors or lines or [f"exit status {done.returncode}"])[-1]


def prepared(peer: str, root: Path, call: Callable[[Sequence[str]], str] = call) -> tuple[str, str]:
    """(interpreter of the peer, "") or ("", why there is none)."""
    folder = root / peer
    python = folder / "bin" / "python"
    wanted = "\n".join(PACKAGES[peer]) + "\n"
    stamp = folder / STAMP
    if python.exists() and stamp.exists() and stamp.read_text() == wanted:
        return str(python), ""
    print(f"installing {' '.join(PACKAGES[peer])} into {folder}", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    problem = call([sys.executable, "-m", "venv", str(folder)])
    if not problem:
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES[peer]]
        problem = call(install)
    if problem:
        shutil.rmtree(folder, ignore_errors=True)
        return "", f"could not be installed: {problem}"
    stamp.write_text(wanted)
    return str(python), ""
