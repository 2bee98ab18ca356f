"""What an op says of itself (`Op.memory`, `Op.fails`) against what its `impl` does on the samples of all ops and functions.

A fact that is forgotten is one of these defaults: results are fresh memory, no values of the right types make an op fail.
"""

from __future__ import annotations

import copy
import warnings
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from gradtape.core.opdef import Fails, Memory, Op
from gradtape.ops.activations import SIGMOID
from gradtape.ops.index import TAKE
from gradtape.ops.registry import OPS
from gradtape.ops.select import FLOORDIV
from tests.harness.cases import all_cases, in_precision
from tests.harness.spy import Call, spied

UNSEEN_SHARING = {
    "broadcast_to": "views of 4096 elements or more only",
    "updated": "of eager code, for buffers that were written already",
    "list_collapse": "of lists",
}
UNSEEN_FAILURES = {
    "list_add": "two lengths", "list_drop": "an empty list", "sized": "sizes known at run time", "sum_to": "sizes, too",
}  # fmt: skip
FLOATS = (0.0, 1.0, -1.0, 1000.0, np.nan, np.inf, -np.inf)
WHOLE = (0, 1, -1, 7, 10**6, -(10**6))


@cache
def calls() -> dict[Op, list[Call]]:
    """Every primitive call of every sample, in double and single precision and on integers."""
    found: dict[Op, list[Call]] = defaultdict(list)
    for case in all_cases():
        if case.fails:
            continue
        doubles, singles = ([in_precision(x, double) for x in case.leaves] for double in (True, False))
        whole = [np.rint(x).astype(np.int32) for x in case.leaves if x.dtype.kind == "f" and np.isfinite(x).all()]
        for leaves in (doubles, singles, whole):
            with np.errstate(all="ignore"), suppress(ValueError, TypeError):  # some refuse integers
                if len(leaves) == len(case.leaves):
                    for call in spied(case, leaves)[1]:
                        found[call.op].append(call)
    return found


def arrays(value: Any) -> Iterator[np.ndarray[Any, Any]]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from arrays(item)
    elif isinstance(value, np.ndarray) and value.ndim and value.size:
        yield value


def shares(result: Any, value: Any) -> bool:
    return any(np.shares_memory(a, b) for a in arrays(result) for b in arrays(value))


def is_own(result: Any) -> bool:
    """Whether arrays may be written to, each element being one number in memory."""
    return all(a.flags.writeable and all(s for s, n in zip(a.strides, a.shape, strict=True) if n > 1) for a in arrays(result))


def memory_complaints(op: Op, calls: list[Call]) -> list[str]:
    foreign = [call for call in calls if not isinstance(call.results[0], list) and not is_own(call.results)]
    shared = [call for call in calls if not isinstance(call.results[0], list) and shares(call.results, call.inputs)]
    match op.memory:
        case Memory.FRESH:
            return [f"{op.name}: the result of {call.inputs} {call.attrs} is not its own" for call in foreign + shared]
        case Memory.VIEW:
            others = [c for c in calls for i, r in enumerate(c.results) if shares(r, (*c.inputs[:i], *c.inputs[i + 1 :]))]
            return [f"{op.name}: a result is a view of another input: {call.inputs}" for call in others]
        case _:
            seen = shared or foreign or op.name in UNSEEN_SHARING or any(isinstance(call.results[0], list) for call in calls)
            return [] if seen else [f"{op.name}: all results are fresh"]


def failures(calls: list[Call]) -> set[str]:
    """ "integers": some make the op fail where all inputs are integers; "values": where others are not. One input at a time
    is replaced in the calls of the samples."""
    found = set()
    for call in calls:
        for i, x in enumerate(call.inputs):
            if not isinstance(x, (np.ndarray, np.generic)) or not x.size or x.dtype.kind not in "fciu":
                continue
            for number in FLOATS if x.dtype.kind in "fc" else WHOLE:
                with np.errstate(all="ignore"), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    other = np.full(x.shape, np.array(number).astype(x.dtype), x.dtype)[()]
                    try:
                        call.op.impl(*call.inputs[:i], other, *call.inputs[i + 1 :], **call.attrs)
                    except Exception:
                        kinds = {v.dtype.kind for v in call.inputs if isinstance(v, (np.ndarray, np.generic))}
                        found.add("integers" if kinds <= set("iub") else "values")
    return found


def failure_complaints(op: Op, calls: list[Call]) -> list[str]:
    kinds = failures([call for call in calls if all(np.size(x) for x in call.inputs if isinstance(x, np.ndarray))])
    match op.fails:
        case Fails.NEVER:
            return [f"{op.name} fails for some {kind}" for kind in kinds]
        case Fails.INTEGERS:
            return [f"{op.name} fails for some {kind}" for kind in kinds - {"integers"}]
        case Fails.VALUES:
            return [] if kinds or op.name in UNSEEN_FAILURES else [f"{op.name} never fails"]


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_memory(op: Op) -> None:
    assert memory_complaints(op, calls()[op]) == []


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_fails(op: Op) -> None:
    assert failure_complaints(op, calls()[op]) == []


@pytest.mark.parametrize("op", [op for op in OPS if op.overwrites is not None], ids=lambda op: op.name)
def test_overwrites(op: Op) -> None:
    """Written over its first input the result is the same, in that input's own memory."""
    tried = [
        call for call in calls()[op] if np.shape(call.results[0]) and np.shape(call.inputs[0]) == np.shape(call.results[0])
    ]
    lists = [call for call in calls()[op] if isinstance(call.inputs[0], list)]
    for call in tried + lists:
        first = copy.copy(call.inputs[0])
        if isinstance(first, list) or first.dtype == call.results[0].dtype:
            assert op.overwrites is not None
            result = op.overwrites(first, *call.inputs[1:], **call.attrs)
            assert result is first
            assert len(result) == len(call.results[0])
            assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(result, call.results[0], strict=True))
    assert tried or lists or op.name == "list_drop"


def test_the_checks_are_able_to_complain() -> None:
    same = replace(SIGMOID, impl=lambda x: x)
    assert memory_complaints(same, [Call(same, c.inputs, c.attrs, (c.inputs[0],)) for c in calls()[SIGMOID]])
    assert memory_complaints(replace(SIGMOID, memory=Memory.SHARED), calls()[SIGMOID])
    assert failure_complaints(replace(TAKE, fails=Fails.NEVER), calls()[TAKE])
    assert failure_complaints(replace(TAKE, fails=Fails.INTEGERS), calls()[TAKE])
    assert failure_complaints(replace(FLOORDIV, fails=Fails.NEVER), calls()[FLOORDIV])
    assert failure_complaints(replace(SIGMOID, fails=Fails.VALUES), calls()[SIGMOID])
