"""Learning-rate schedules: values worked out by hand, in double precision and as tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape.train.optimizers.numbers import ARRAYS, TENSORS

S = gt.optimizers.schedules


def half_cosine(fraction: float) -> float:
    return 0.5 * (1 + math.cos(math.pi * fraction))


TABLE: list[tuple[Any, dict[float, float]]] = [
    (S.ExponentialDecay(0.1, 10, 0.5), {0: 0.1, 5: 0.1 * 0.5**0.5, 20: 0.025}),
    (S.ExponentialDecay(0.1, 10, 0.5, staircase=True), {9: 0.1, 10: 0.05, 29: 0.025}),
    (S.PiecewiseConstantDecay([10, 20], [1.0, 0.5, 0.1]), {0: 1.0, 10: 1.0, 11: 0.5, 20: 0.5, 21: 0.1, 99: 0.1}),
    (S.PolynomialDecay(1.0, 100, 0.2, power=2.0), {0: 1.0, 50: 0.2 + 0.8 * 0.25, 100: 0.2, 500: 0.2}),
    (S.PolynomialDecay(1.0, 10, 0.0, cycle=True), {0: 1.0, 5: 0.5, 10: 0.0, 15: 0.25, 20: 0.0, 21: 0.3}),
    (S.InverseTimeDecay(1.0, 10, 0.5), {0: 1.0, 5: 0.8, 20: 0.5}),
    (S.InverseTimeDecay(1.0, 10, 0.5, staircase=True), {9: 1.0, 19: 1 / 1.5, 20: 0.5}),
    (S.CosineDecay(2.0, 100), {0: 2.0, 25: 2 * half_cosine(0.25), 100: 0.0, 900: 0.0}),
    (S.CosineDecay(2.0, 100, alpha=0.1), {50: 2 * (0.9 * 0.5 + 0.1), 100: 0.2}),
    (S.CosineDecay(0.5, 100, warmup_target=1.5, warmup_steps=10), {0: 0.5, 5: 1.0, 10: 1.5, 60: 0.75, 110: 0.0, 999: 0.0}),
    (S.CosineDecay(0.5, 100, warmup_target=1.5), {0: 1.5, 50: 0.75}),
    (S.CosineDecayRestarts(1.0, 10), {0: 1.0, 5: 0.5, 10: 1.0, 20: 0.5, 30: 1.0, 50: 0.5, 70: 1.0}),
    (S.CosineDecayRestarts(1.0, 10, t_mul=1.0, m_mul=0.5, alpha=0.2), {5: 0.6, 10: 0.5, 15: 0.3, 20: 0.25}),
    (S.CosineDecayRestarts(1.0, 1000, t_mul=3.0, m_mul=0.9), {1000: 0.9, 2500: 0.45, 4000: 0.81}),
]  # fmt: skip
POINTS = [(s, step, value) for s, points in TABLE for step, value in points.items()]


@pytest.mark.parametrize(("schedule", "step", "value"), POINTS, ids=lambda p: type(p).__name__ if callable(p) else str(p))
def test_values(schedule: Any, step: float, value: float) -> None:
    assert schedule.rate(step) == pytest.approx(value, rel=1e-12, abs=1e-12)
    assert float(schedule.formula(gt.constant(np.float64(step)), TENSORS)) == pytest.approx(value, rel=1e-12, abs=1e-12)
    result = schedule(step)
    assert result.dtype == gt.float32
    assert float(result) == pytest.approx(value, rel=1e-6, abs=1e-7)
    assert float(schedule(gt.Variable(step))) == float(result)


def test_tables_have_the_same_functions() -> None:
    assert vars(ARRAYS).keys() == vars(TENSORS).keys()


def test_errors() -> None:
    with pytest.raises(ValueError, match="one more value than boundaries"):
        S.PiecewiseConstantDecay([1], [1.0])
    with pytest.raises(ValueError, match="decay_steps must be positive"):
        S.CosineDecay(1.0, 0)
    with pytest.raises(NotImplementedError, match="must define formula"):
        S.LearningRateSchedule()(0)
