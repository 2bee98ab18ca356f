"""Keras's own tests, from the installed package, on gradtape: `python -m tests.keras.suite [--beside place] [folder ...]`.

Which tests fail is known, with reasons, in `known_failures.txt`, a list that may only shrink: the run fails if another one
fails, or if one of the list passes. Many tests compare with JAX, feed from TensorFlow or PyTorch, or just import them; they are
counted apart where those are not installed. `--beside` names an environment that has one, of the same Python: its packages are
found after our own (`make bench` makes such environments).
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections import Counter
from importlib import import_module
from pathlib import Path
from types import ModuleType
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
KNOWN = Path(__file__).with_name("known_failures.txt")
SAMPLE = ("activations", "regularizers", "constraints", "initializers")


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

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.uncollected.append(named(report.nodeid))

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: Any) -> Any:
        """The tests of the trainer choose it by the name of the engine, among those that Keras ships."""
        config = sys.modules["keras.src.backend.config"].__dict__
        name = config["_BACKEND"]
        config["_BACKEND"] = "numpy" if getattr(collector, "path", Path()).name == "trainer_test.py" else name
        try:
            return (yield)
        finally:
            config["_BACKEND"] = name


def named(nodeid: str) -> str:
    return nodeid.split("keras/src/")[-1]


def keras_conftest() -> None:
    """Some tests import Keras's `conftest`, which is not part of the package."""
    from keras.src.backend import backend

    module = ModuleType("conftest")
    module.__dict__["skip_if_backend"] = lambda name, reason: pytest.mark.skipif(backend() == name, reason=reason)
    sys.modules["conftest"] = module


def run(folders: tuple[str, ...], beside: tuple[str, ...] = ()) -> int:
    """Run them, print counts for each folder and what differs from the list; 1 if something does."""
    import_module("gradtape.keras")  # takes its seat
    for environment in beside:
        sys.path += map(str, Path(environment).glob("lib/python*/site-packages"))
    keras_conftest()
    root = Path(str(sys.modules["keras"].__file__)).parent / "src"
    ledger = Ledger()
    options = ["-q", "-p", "no:cacheprovider", "-W", "ignore", "--tb=short", "--continue-on-collection-errors", "--no-header"]
    places = [f"--rootdir={root.parent.parent}", "-c", "/dev/null", *[str(root / folder) for folder in folders]]
    pytest.main([*options, *places], plugins=[ledger])
    known = known_failures()
    for folder, count in sorted(ledger.counts.items()):
        counts = "  ".join(f"{outcome} {count[outcome]:5}" for outcome in ("passed", "failed", "skipped", "foreign"))
        print(f"{folder:16} {counts}")
    print(f"not collected (they need another engine): {', '.join(sorted(ledger.uncollected)) or 'none'}")
    new, cured = sorted(ledger.failed - set(known)), sorted(set(known) & ledger.passed - ledger.failed)
    for name in new:
        print(f"fails and is not in {KNOWN.name}: {name}")
    for name in cured:
        print(f"passes and is still in {KNOWN.name}: {name}")
    return 1 if new or cured else 0


if __name__ == "__main__":
    parser = ArgumentParser()
    parser.add_argument("folders", nargs="*", default=FOLDERS)
    parser.add_argument("--beside", action="append", default=[])
    arguments = parser.parse_args()
    sys.exit(run(tuple(arguments.folders), tuple(arguments.beside)))
