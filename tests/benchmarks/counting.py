"""What a gradient costs, counted instead of timed: runs workloads of `benchmarks/` in a process of its own.

`python -m tests.benchmarks.counting` prints the counts as JSON; with `--update` it stores them as the expectation. Counting
replaces constructors before gradtape's ops are defined, which is why it must not happen in the process of the tests.

* impls    calls of the NumPy implementation of an op, forward and backward;
* rules    derivative rules run by backward passes (on bare arrays their Python operators are NumPy calls too);
* records  on the tape when a derivative is asked for, summed over the tapes;
* saved    bytes of the distinct arrays those records keep;
* tensors  boxed tensors made.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

STORED = Path(__file__).with_name("counts.json")
NAMES = ("scalar_loop", "vectors_8", "mlp", "mlp_sgd", "rnn", "penalty", "hvp", "jacobian_64", "jacobian_500")
COUNTS: Counter[str] = Counter()


def counted(name: str, function: Any) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        COUNTS[name] += 1
        return function(*args, **kwargs)

    return None if function is None else call


class OpsCounted(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports `gradtape.core.opdef` such that every op made later counts the calls of its impl."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "gradtape.core.opdef":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        assert spec is not None
        self.inner: Any = spec.loader
        spec.loader = self
        return spec

    def create_module(self, spec: Any) -> Any:
        return self.inner.create_module(spec)

    def exec_module(self, module: Any) -> None:
        self.inner.exec_module(module)
        made = module.Op.__init__

        def init(op: Any, *args: Any, **kwargs: Any) -> None:
            made(op, *args, **kwargs)
            object.__setattr__(op, "impl", counted("impls", op.impl))

        module.Op.__init__ = init


def watch_everything() -> None:
    from gradtape.ad.binding import Binding
    from gradtape.ad.sweep import stop
    from gradtape.core.tensor import Tensor
    from gradtape.tape.gradient_tape import GradientTape

    def missing(pulls: Any, op: Any, write: Any = Binding.__missing__) -> Any:
        pull = write(pulls, op)
        if pull is stop:
            return stop
        joint = op.vjp is not None or op.kind in ("region", "part")

        def counting(sweep: Any, record: Any, ct: Any) -> None:
            COUNTS["rules"] += 1 if joint else sum(node in sweep.needed for node in record.nodes)
            pull(sweep, record, ct)

        pulls[op] = counting
        return counting

    Binding.__missing__ = missing  # type: ignore[method-assign]
    Tensor.__new__ = counted("tensors", lambda cls, *args, **kwargs: object.__new__(cls))  # type: ignore[method-assign]

    def asked(method: Any) -> Any:
        def call(tape: Any, *args: Any, **kwargs: Any) -> Any:
            COUNTS["records"] += len(tape.records)
            COUNTS["saved"] += sum(kept_bytes(tape.records).values())
            return method(tape, *args, **kwargs)

        return call

    GradientTape.gradient = asked(GradientTape.gradient)  # type: ignore[method-assign]
    GradientTape.jacobian = asked(GradientTape.jacobian)  # type: ignore[method-assign]


def kept_bytes(records: Any) -> dict[int, int]:
    import numpy as np

    return {
        id(value): value.nbytes for record in records for value in record.saved if isinstance(value, (np.ndarray, np.generic))
    }


def counts() -> dict[str, dict[str, int]]:
    """Workload → its counts, once the caches are warm."""
    from benchmarks.workloads import BY_NAME

    found = {}
    for name in NAMES:
        step = BY_NAME[name].gradtape(**BY_NAME[name].inputs())
        step()
        COUNTS.clear()
        step()
        found[name] = {kind: COUNTS[kind] for kind in ("impls", "rules", "records", "saved", "tensors")}
    return found


def main() -> None:
    assert "gradtape" not in sys.modules
    sys.meta_path.insert(0, OpsCounted())
    import gradtape  # noqa: F401

    watch_everything()
    text = json.dumps(counts(), indent=1)
    if "--update" in sys.argv:
        STORED.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
