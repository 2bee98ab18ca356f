"""What `tape.explain` costs: what every record carries for it, always, and how long an answer takes.

    python -m benchmarks.explaining             # about two minutes
    python -m benchmarks.explaining --rounds 5  # does it still run?

The always-on part (the user's line, the time, the past of values that are not recorded, exits to NumPy) is measured against
the same operations with `bare_record` in the place of `ops.recorded.record`: the same statements without that part. Both run in
one process, in turn; the figure is the least processor time of many rounds. The goals: at most 10 % of an eager operation, and
less than a second for an answer about 100,000 records.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

import gradtape as gt
from gradtape.core import dispatch
from gradtape.core.record import Record

CALLS = 1000


def bare_record(scope: Any, op: Any, nodes: Any, saved: Any, attrs: Any, out: Any, data: Any, depth: int = 2) -> Any:
    """What `record` would be without what explanations need."""
    entry = Record()
    entry.op = op
    entry.nodes = nodes
    entry.saved = saved
    entry.attrs = attrs
    entry.keys = scope.keys
    shape = entry.shape = data.shape
    entry.code = None
    out._node = entry
    records = scope.records
    records.append(entry)
    budget = records.budget - (data.nbytes + 200 if shape else 200)
    records.budget = budget
    if budget < 0:
        records.sweep()
    return out


@contextmanager
def without_explanations() -> Iterator[None]:
    """Operations leave out what explanations need."""
    whole = dispatch.record
    dispatch.record = bare_record
    try:
        yield
    finally:
        dispatch.record = whole


# one small elementwise operation each, as a user writes it in a loop
OPERATIONS = ("-a", "a + b", "a * b", "a * 2.0", "gt.exp(a)", "gt.tanh(a)", "gt.where(mask, a, b)")
MASK = np.arange(8) > 3


def loop_of(operation: str) -> Callable[[Any, Any], None]:
    """A function that runs an operation many times."""
    space: dict[str, Any] = {"gt": gt, "mask": gt.constant(MASK), "CALLS": CALLS}
    exec(f"def loop(a, b):\n    for _ in range(CALLS):\n        {operation}", space)
    found: Callable[[Any, Any], None] = space["loop"]
    return found


def recorded(loop: Callable[[Any, Any], None]) -> float:
    """Processor seconds of one operation while a tape records."""
    x, y = gt.Variable(np.linspace(0.1, 1.0, 8)), gt.Variable(np.linspace(1.0, 2.0, 8))
    with gt.GradientTape():
        a, b = x * 1.0, y * 1.0
        start = time.process_time()
        loop(a, b)
        return (time.process_time() - start) / CALLS


def shares(rounds: int) -> dict[str, tuple[float, float]]:
    """Operation → (seconds as it is, seconds without the always-on part)."""
    best = {name: [float("inf"), float("inf")] for name in OPERATIONS}
    loops = {name: loop_of(name) for name in OPERATIONS}
    gc.disable()
    for turn in range(rounds):
        for name, loop in loops.items():
            for bare in (0, 1) if turn % 2 else (1, 0):  # who comes first after another operation is slower
                with without_explanations() if bare else nullcontext():
                    best[name][bare] = min(best[name][bare], recorded(loop))
        gc.collect()
    gc.enable()
    return {name: (pair[0], pair[1]) for name, pair in best.items()}


def conversions(rounds: int) -> float:
    """Seconds that one `.numpy()` of a watched tensor takes more than one of a constant."""
    x = gt.Variable(np.linspace(0.1, 1.0, 8))
    least = [float("inf"), float("inf")]
    for _ in range(rounds):
        with gt.GradientTape():
            for place, tensor in enumerate((x * 1.0, gt.constant(np.ones(8)))):
                start = time.process_time()
                for _ in range(CALLS):
                    tensor.numpy()
                least[place] = min(least[place], (time.process_time() - start) / CALLS)
    return least[0] - least[1]


def answers(records: int = 100_000) -> dict[str, float]:
    """Seconds of one question about a tape of this many records: before and after its gradient was taken."""
    x, w, other = gt.Variable(1.0), gt.Variable(1.0), gt.Variable(1.0)
    with gt.GradientTape() as tape:
        y = gt.stop_gradient(x)
        for _ in range(records // 2):
            y = gt.sin(y) * w
    found = {}
    for moment in ("before", "after"):
        for name, source in (("stop_gradient", x), ("connected", w), ("independent", other)):
            start = time.process_time()
            why = tape.explain(y, source)
            found[f"{name}, {moment} the gradient"] = time.process_time() - start
            if why.cause != name:
                raise AssertionError(f"expected {name}, got {why}")
        if moment == "before":
            tape.gradient(y, w)
    return found


def report(rounds: int) -> str:
    lines = ["| operation on 8 numbers, recorded | µs | without the always-on part | share |", "|---|---|---|---|"]
    for name, (whole, bare) in shares(rounds).items():
        lines.append(f"| `{name}` | {whole * 1e6:.2f} | {bare * 1e6:.2f} | {100 * (whole - bare) / whole:.1f} % |")
    lines += ["", f"`.numpy()` of a watched tensor takes {conversions(rounds) * 1e9:.0f} ns more than of a constant.", ""]
    lines += ["| answer about 100,000 records | s |", "|---|---|"]
    lines += [f"| {name} | {seconds:.2f} |" for name, seconds in answers().items()]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.explaining", description="What tape.explain costs.")
    parser.add_argument("--rounds", type=int, default=100, help="rounds of which the least time counts (default: %(default)s)")
    print(report(parser.parse_args(arguments).rounds))


if __name__ == "__main__":
    main()
