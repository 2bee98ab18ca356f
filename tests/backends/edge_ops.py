"""Every native operation that takes integers, by itself, on integers around every edge: the calls of its samples with other
numbers in them. Found in the registry, so that an op that gets native code is here without anybody's doing.

What it may do is what its NumPy `impl` does: the same numbers, or its error. Ops whose integers another op of the same program
made are listed in `TRUSTING`, each with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from gradtape.backends.llvm.kernels.table import LOWERINGS
from gradtape.core.opdef import Op
from gradtape.ir.types import ListSpec
from tests.backends.edge_programs import edges
from tests.backends.native_calls import Call
from tests.harness.cases import all_cases
from tests.harness.spy import spied

NATIVE = {op for op, how in LOWERINGS.items() if (how.element or how.memory) and not how.broadcasts}
TRUSTING = {
    "pool_put": "takes the places that pool_winner found in the same windows",
    "pool_take": "takes the places that pool_winner found in the same windows",
}
LENGTHS = {"list_resize"}  # whose integers are lengths, for which the reference would take the memory
DRAWS, SAMPLES = 12, 3


def _integers(value: Any) -> bool:
    return isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "iu"


@cache
def calls() -> dict[str, list[Call]]:
    """Some calls with integers of each native op, from its samples."""
    chosen: dict[str, list[Call]] = {}
    for case in all_cases():
        if case.fails or not isinstance(case.owner, Op) or case.owner not in NATIVE:
            continue
        with np.errstate(all="ignore"):
            made = spied(case, [np.asarray(x) for x in case.leaves])[1]
        for call in made:
            kept = chosen.setdefault(call.op.name, [])
            if call.op is case.owner and any(map(_integers, call.inputs)) and len(kept) < SAMPLES:
                kept.append(Call(call.op, call.inputs, call.attrs, case.id))
    return {name: kept for name, kept in chosen.items() if kept and name not in TRUSTING}


def with_edges(call: Call, seed: int) -> Iterator[list[Any]]:
    """The arguments of a call, its integers replaced by some around the edges of what else it is given."""
    draw = np.random.default_rng([seed, *call.label.encode()])
    sizes = sorted({n for value in call.inputs for n in np.shape(value) if not _integers(value)} | {0, 1, 3})
    for turn in range(DRAWS):
        arrays = []
        for value in call.inputs:
            if _integers(value):
                limits = np.iinfo(value.dtype)
                size = int(draw.choice(sizes))
                most = 8 if call.op.name in LENGTHS else limits.max
                around = [n for n in edges(size, "int64") if limits.min <= n <= most]
                inside = [n for n in around if -size <= n <= size] if turn % 2 else around
                value = np.array(draw.choice(np.array(inside or [0], object), np.shape(value)), value.dtype)[()]
            arrays.append(value)
        yield arrays


def alone(call: Call) -> bool:
    """Whether the sizes of its results are known before it runs: those of others are made by whole programs only."""
    inferred = call.op.infer(*call.specs, **call.attrs)
    types = inferred if isinstance(inferred, tuple) else (inferred,)
    return not any(size is None for t in types if not isinstance(t, ListSpec) for size in t.shape)
