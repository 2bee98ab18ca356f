"""Exponential moving averages of variables, eagerly and in functions."""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as gt


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("updates", [None, 2])
def test_averages_follow_the_formula(compiled: bool, updates: int | None) -> None:
    w = gt.Variable(np.array([1.0, -2.0]))
    ema = gt.train.ExponentialMovingAverage(0.9, updates)
    ema.apply([w])
    expected = w.numpy()
    move = gt.function(lambda: ema.apply([w])) if compiled else lambda: ema.apply([w])
    decay = 0.9 if updates is None else min(0.9, (1 + updates) / (10 + updates))
    for i in range(4):
        w.assign([i + 2.0, i * 3.0])
        move()
        expected = expected - (1 - decay) * (expected - w.numpy())
    average = ema.average(w)
    np.testing.assert_allclose(average, expected, rtol=1e-12)
    assert not average.trainable
    assert ema.average(gt.Variable(1.0)) is None


def test_nothing_to_debias() -> None:
    with pytest.raises(ValueError, match="nothing to debias"):
        gt.train.ExponentialMovingAverage(0.9, zero_debias=True)
