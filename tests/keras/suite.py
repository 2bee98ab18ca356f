"""Keras's own tests, from the installed package, on gradtape: `python -m tests.keras.suite [--beside place] [folder ...]`.

A folder may be a file of one, too; what else is given (`-k words`, `--tb=short`) is pytest's. A failure has one line: for each
longer traceback pytest parses the test's file, and thousands of tests that only miss an engine are in one of 10,000 lines.

Which tests fail is known, with reasons, in `known_failures.txt`, a list that may only shrink: the run fails if another one
fails, or if one of the list passes. Many tests compare with JAX, feed from TensorFlow or PyTorch, or just import them; they are
counted apart where those are not installed. `--beside` names an environment that has one, of the same Python: its packages are
found after our own (`make bench` makes such environments). In each of the main folders 98 of 100 tests that ran must have
passed; one that hangs is a failure with a name.
"""

from __future__ import annotations

import signal
import sys
from argparse import ArgumentParser
from collections import Counter
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import pytest

FOLDERS = (
    "activations", "initializers", "losses", "metrics", "optimizers", "regularizers", "constraints", "random", "ops", "layers",
    "models", "trainers", "saving", "callbacks", "backend/common", "backend/tests", "utils", "dtype_policies", "quantizers",
)  # fmt: skip
# what tests compare with, feed from or write for, and how they say that it is missing
ENGINES = ("jax", "torch", "tensorflow", "grain", "orbax", "tensorboard", "pandas")
MISSING = (
    *[f"No module named '{name}'" for name in ENGINES], "requires PIL", "requires the `requests` library",
    "requires installing TensorFlow", "requires TensorFlow", "requires the 'orbax-checkpoint' package",
)  # fmt: skip
LEAST = 98.0  # per cent of each of the folders that hold layers, operations and training: the first 13
PATIENCE = 900  # seconds for one test, on a busy machine too
KNOWN = Path(__file__).with_name("known_failures.txt")
SAMPLE = ("activations", "regularizers", "constraints", "initializers")


def keras_tests() -> Path:
    """Where the installed package has its tests, if it ships them (3.10 does not)."""
    spec = find_spec("keras")
    return Path(str(spec and spec.origin)).parent / "src"


def known_failures() -> dict[str, str]:
    """Test and reason: the reason is the heading (a line with #) above the tests that share it."""
    reason, known = "", {}
    for line in KNOWN.read_text().splitlines():
        if line.startswith("#"):
            reason = line.strip("# ")
        elif line.strip():
            known[line.strip()] = reason
    return known


class Ledger:
    """A pytest plugin that keeps what passed and failed."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = {}
        self.failed: set[str] = set()
        self.passed: set[str] = set()
        self.uncollected: list[str] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        outcome = report.outcome
        if report.when != "call" and outcome == "passed":
            return
        if outcome == "failed" and any(words in str(report.longrepr) for words in MISSING):
            outcome = "foreign"
        name = named(report.nodeid)
        self.counts.setdefault(name.split("/")[0], Counter())[outcome] += 1
        if outcome == "failed":
            self.failed.add(name)
        elif outcome == "passed":
            self.passed.add(name)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: Any) -> Any:
        def give_up(number: int, frame: FrameType | None) -> None:
            raise TimeoutError(f"{named(item.nodeid)} runs for more than {PATIENCE} s")

        if not hasattr(signal, "SIGALRM"):  # Windows
            return (yield)
        before = signal.signal(signal.SIGALRM, give_up)
        signal.alarm(PATIENCE)
        try:
            return (yield)
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, before)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.uncollected.append(named(report.nodeid))

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: Any) -> Any:
        """The tests of the trainer choose it, and a device, by the engine's name, from tables of those that Keras ships."""
        config = sys.modules["keras.src.backend.config"].__dict__
        name = config["_BACKEND"]
        config["_BACKEND"] = "numpy" if getattr(collector, "path", Path()).name == "trainer_test.py" else name
        try:
            report = yield
        finally:
            config["_BACKEND"] = name
        batches = getattr(getattr(collector, "obj", None), "TestPyDataset", None) if report.passed else None
        if batches is not None:
            batches.__getitem__ = on_our_device
        return report


def on_our_device(self: Any, index: int) -> tuple[Any, Any]:
    """A batch of the trainer's tests."""
    from keras.src import backend, ops

    with backend.device("cpu"):
        return ops.ones((5, 4)), ops.zeros((5, 3))


def named(nodeid: str) -> str:
    return nodeid.split("keras/src/")[-1]


def keras_conftest() -> None:
    """Some tests import Keras's `conftest`, which is not part of the package."""
    from keras.src.backend import backend

    module = ModuleType("conftest")
    module.__dict__["skip_if_backend"] = lambda name, reason: pytest.mark.skipif(backend() == name, reason=reason)
    sys.modules["conftest"] = module


def share(count: Counter[str]) -> float:
    """Per cent of the tests that ran."""
    return 100.0 * count["passed"] / max(count["passed"] + count["failed"], 1)


def run(folders: tuple[str, ...], beside: tuple[str, ...] = (), options: tuple[str, ...] = ()) -> int:
    """Run them, print counts for each folder and what differs from the list; 1 if something does, or too much fails."""
    for environment in beside:  # Keras looks for some packages when it is imported
        sys.path += map(str, Path(environment).glob("lib/python*/site-packages"))
    import_module("gradtape.keras")  # takes its seat
    keras_conftest()
    root = keras_tests()
    ledger = Ledger()
    ours = ["-q", "-p", "no:cacheprovider", "-W", "ignore", "--tb=line", "--continue-on-collection-errors", "--no-header"]
    places = [f"--rootdir={root.parent.parent}", "-c", "/dev/null", *[str(root / folder) for folder in folders]]
    code = pytest.main([*ours, *options, *places], plugins=[ledger])
    known = known_failures()
    for folder, count in sorted(ledger.counts.items()):
        counts = "  ".join(f"{outcome} {count[outcome]:5}" for outcome in ("passed", "failed", "skipped", "foreign"))
        print(f"{folder:16} {counts}  {share(count):6.2f} %")
    print(f"not collected (they need another engine): {', '.join(sorted(ledger.uncollected)) or 'none'}")
    new, cured = sorted(ledger.failed - set(known)), sorted(set(known) & ledger.passed - ledger.failed)
    for name in new:
        print(f"fails and is not in {KNOWN.name}: {name}")
    for name in cured:
        print(f"passes and is still in {KNOWN.name}: {name}")
    low = [folder for folder, count in ledger.counts.items() if folder in FOLDERS[:13] and share(count) < LEAST]
    for folder in low:
        print(f"less than {LEAST} % pass: {folder}")
    ran = code in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    return 1 if new or cured or low or not ran else 0


if __name__ == "__main__":
    parser = ArgumentParser()
    parser.add_argument("folders", nargs="*", default=FOLDERS)
    parser.add_argument("--beside", action="append", default=[])
    arguments, options = parser.parse_known_args()
    sys.exit(run(tuple(arguments.folders), tuple(arguments.beside), tuple(options)))
