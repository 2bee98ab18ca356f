"""The table of checks: each names its column, and the cases it applies to. Tests and the coverage page are made from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from gradtape.core.opdef import Op
from tests.harness import batches, lanes, process, slopes, values
from tests.harness.cases import Case, all_cases


class Check(NamedTuple):
    name: str
    column: str
    run: Callable[[Case], None]
    applies: Callable[[Case], bool]


def _valid(case: Case) -> bool:
    return not case.fails


def _slopes(case: Case) -> bool:
    return case.differentiable


def _real(case: Case) -> bool:
    return not case.fails and bool(case.leaves) and all(x.dtype.kind == "f" and np.isfinite(x).all() for x in case.leaves)


CHECKS = (
    Check("forward", "forward", values.check_forward, _valid),
    Check(
        "expand",
        "forward",
        values.check_expand,
        lambda c: not c.fails and isinstance(c.owner, Op) and c.owner.expand is not None,
    ),
    Check("infer", "infer", values.check_infer, _valid),
    Check("first", "first", slopes.check_first, _slopes),
    Check("second", "second", slopes.check_second, _slopes),
    Check("jvp", "jvp", slopes.check_jvp, _slopes),
    Check("batch_rule", "batch", batches.check_batch_rule, lambda c: not c.fails and isinstance(c.owner, Op)),
    Check("vectorized_map", "batch", batches.check_vectorized_map, lambda c: not c.fails and bool(c.leaves)),
    Check("single", "float32", values.check_single, lambda c: not c.fails and bool(c.leaves)),
    Check("integers", "edge cases", values.check_integers, _real),
    Check("layouts", "edge cases", values.check_layouts, lambda c: not c.fails and bool(c.leaves)),
    Check("repeated", "edge cases", slopes.check_repeated, lambda c: c.differentiable and slopes.alike(c) is not None),
    Check("empty", "edge cases", lanes.check_empty, lanes.lane_wise),
    Check("masked", "edge cases", lanes.check_masked, lanes.lane_wise),
    Check(
        "no_gradient",
        "edge cases",
        values.check_no_gradient,
        lambda c: not c.fails and bool(c.leaves) and not c.owner.differentiable,
    ),
    Check("error", "errors", values.check_error, lambda c: c.fails),
)
BY_NAME = {check.name: check for check in CHECKS}


def cases_of(name: str) -> list[Case]:
    """The cases a check applies to."""
    return [case for case in all_cases() if BY_NAME[name].applies(case)]


def owners_of(name: str) -> Any:
    """A test of each op or composite, with all its cases: a tenth of the tests that pytest has to find, send and report."""
    cases: dict[str, list[Case]] = {}
    for case in cases_of(name):
        cases.setdefault(case.name, []).append(case)
    return pytest.mark.parametrize("cases", [pytest.param(each, id=owner) for owner, each in cases.items()])


def run(name: str, cases: list[Case]) -> None:
    """The check on every case, each from the start of the random streams; all that fail are told."""
    failures = []
    for case in cases:
        process.fresh()
        try:
            BY_NAME[name].run(case)
        except Exception as error:
            error.add_note(f"the case is {case.id}")
            failures.append(error)
    if failures:
        raise failures[0] if len(failures) == 1 else ExceptionGroup(f"{name}: {len(failures)} of {len(cases)} cases", failures)
