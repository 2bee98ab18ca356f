"""Random programs: every kind of tape, and the compiled function, give the same NaN report, and it is true.

A tape that keeps all operands sees every value, so its report is taken as the answer. What it says must hold: non-finite
output, finite inputs; there is a report exactly when the target or the gradient is not finite.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradtape as gt

Step = tuple[str, int, int, float]

STEPS: dict[str, Callable[[Any, Any, float], Any]] = {
    "sin": lambda a, b, c: gt.sin(a),
    "log": lambda a, b, c: gt.math.log(a),
    "sqrt": lambda a, b, c: gt.sqrt(a),
    "exp": lambda a, b, c: gt.exp(a * 10.0),
    "multiply": lambda a, b, c: a * b,
    "add": lambda a, b, c: a + b,
    "subtract": lambda a, b, c: a - b,
    "divide": lambda a, b, c: a / b,
    "where": lambda a, b, c: gt.where(a > c, a, b),
    "shift": lambda a, b, c: a + c,
    "sum": lambda a, b, c: gt.reduce_sum(a) + gt.zeros_like(b),
    "matmul": lambda a, b, c: gt.reshape(gt.matmul(gt.reshape(a, (1, 3)), gt.ones((3, 3), a.dtype) * c), (3,)),
    "scale": lambda a, b, c: a * c,
    "parts": lambda a, b, c: gt.concat([a[1:], b[:1]], 0),
    "stop": lambda a, b, c: gt.stop_gradient(a),
}


def steps_of(random: Any) -> list[Step]:
    names = list(STEPS)
    return [
        (names[random.integers(len(names))], int(random.integers(k + 2)), int(random.integers(k + 2)), float(random.normal()))
        for k in range(random.integers(3, 14))
    ]


def run(steps: list[Step], x: Any) -> Any:
    values = [x, x * 0.5]
    for name, i, j, c in steps:
        values.append(STEPS[name](values[i], values[j], c))
    return gt.reduce_sum(values[-1] * 1.0)


def report_of(steps: list[Step], start: Any, function: Callable[[Any], Any], **options: Any) -> tuple[Any, bool]:
    x = gt.constant(start)
    with gt.GradientTape(**options) as tape:
        tape.watch(x)
        y = function(x)
    gradient = tape.gradient(y, x)
    finite = bool(np.isfinite(y.numpy())) and (gradient is None or bool(np.isfinite(gradient.numpy()).all()))
    return tape.nan_report(), finite


def facts(report: Any) -> Any:
    return report and (report.phase, report.op, report.cause, report.location, report.indices)


@pytest.mark.filterwarnings("ignore:memory_limit=60 bytes cannot be met")
@pytest.mark.parametrize("seed", range(160))
def test_every_tape_says_the_same(seed: int) -> None:
    random = np.random.default_rng(seed)
    steps = steps_of(random)
    start = np.array([0.0, 1.0, -2.0]) if seed % 2 else random.normal(size=3)
    with np.errstate(all="ignore"):
        answer, finite = report_of(steps, start, lambda x: run(steps, x), debug=True)
        assert (answer is None) == finite
        for options in ({}, {"memory_limit": 60}, {"persistent": True}):
            report, _ = report_of(steps, start, lambda x: run(steps, x), **options)
            assert (report is None) == finite
            if report is not None and report.exact:
                assert facts(report) == facts(answer)
        if answer is not None and seed % 4 == 0:
            compiled, _ = report_of(steps, start, gt.function(lambda x: run(steps, x), backend="numpy"))
            assert facts(compiled)[:3] == facts(answer)[:3]
    if answer is not None and answer.cause in ("operation", "derivative"):
        assert all(np.isfinite(values).all() for values in answer.inputs.values())
        assert answer.phase == "backward" or not np.isfinite(answer.value)
