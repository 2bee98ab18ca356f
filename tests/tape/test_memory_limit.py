"""`memory_limit`: the same gradients, bit for bit, with saved values inside the budget."""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as gt


def _chain(limit: int | None, steps: int = 300, size: int = 500, persistent: bool = False):
    x = gt.constant(np.linspace(0.1, 1.0, size))
    with gt.GradientTape(memory_limit=limit, persistent=persistent) as tape:
        tape.watch(x)
        y = x
        for _ in range(steps):
            y = y + 0.01 * gt.sin(y) * x
        loss = gt.reduce_sum(y)
    return tape, loss, x


@pytest.mark.parametrize("limit", [2_000_000, 700_000, 300_000])
def test_gradient_is_the_same_and_the_budget_holds(limit: int) -> None:
    tape, loss, x = _chain(None)
    expected = tape.gradient(loss, x).numpy()
    tape, loss, x = _chain(limit)
    budget = tape._memory.budget
    assert np.array_equal(tape.gradient(loss, x).numpy(), expected)
    # the values of one operation may stand beside the limit while it is being recorded or recomputed
    assert budget.peak <= limit + 3 * 500 * 8


def test_held_bytes_fall_with_the_limit() -> None:
    peaks = []
    for limit in (1_000_000, 600_000, 400_000, 250_000):
        tape, loss, x = _chain(limit)
        budget = tape._memory.budget
        tape.gradient(loss, x)
        peaks.append(budget.peak)
    assert peaks == sorted(peaks, reverse=True)
    assert peaks[-1] < peaks[0] / 3


def test_a_value_used_twice_is_recomputed_once() -> None:
    calls = []

    def gradient(limit: int | None):
        x = gt.constant(np.linspace(0.1, 1.0, 400))
        with gt.GradientTape(memory_limit=limit) as tape:
            tape.watch(x)
            y = x
            for _ in range(200):
                y = gt.sin(y) * x + y * 0.5
            loss = gt.reduce_sum(y)
        if limit is not None:
            compute = type(tape.records[0].saved[0]).compute

            def counted(cell):
                calls.append(cell.value is None)
                compute(cell)

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(type(tape.records[0].saved[0]), "compute", counted)
                return tape.gradient(loss, x).numpy()
        return tape.gradient(loss, x).numpy()

    assert np.array_equal(gradient(None), gradient(200_000))
    assert 0 < sum(calls) <= 4 * 200 + 1


def test_unreachable_limit_warns_with_the_floor_and_still_answers() -> None:
    tape, loss, x = _chain(1000, steps=20)
    with pytest.warns(gt.GradientWarning, match=r"memory_limit=1000 bytes cannot be met: at least \d+ bytes"):
        gradient = tape.gradient(loss, x)
    tape, loss, x = _chain(None, steps=20)
    assert np.array_equal(gradient.numpy(), tape.gradient(loss, x).numpy())


def test_persistent_tape_answers_again_and_differentiates_its_gradient() -> None:
    tape, loss, x = _chain(480_000, steps=30, persistent=True)
    first = tape.gradient(loss, x)
    again = tape.gradient(loss, x)
    second = tape.gradient(first, x)
    free, free_loss, free_x = _chain(None, steps=30, persistent=True)
    free_first = free.gradient(free_loss, free_x)
    assert np.array_equal(first.numpy(), free_first.numpy())
    assert np.array_equal(again.numpy(), first.numpy())
    np.testing.assert_allclose(second.numpy(), free.gradient(free_first, free_x).numpy(), rtol=1e-12)


def test_matrices_variables_several_outputs_and_updates() -> None:
    rng = np.random.default_rng(0)
    start = rng.normal(size=(20, 20)) * 0.1

    def gradients(limit: int | None):
        w = gt.Variable(start)
        with gt.GradientTape(memory_limit=limit) as tape:
            h = gt.constant(np.ones((20, 20)))
            log = gt.zeros((12,), gt.float64)
            for i in range(12):
                a, b = gt.split(gt.tanh(h @ w), 2, axis=1)
                h = gt.concat([b, a], 1) + w
                log[i] = gt.reduce_max(h)
            loss = gt.reduce_sum(log * log)
        return tape.gradient(loss, w).numpy()

    assert np.array_equal(gradients(None), gradients(30_000))


def test_custom_gradients_are_kept_not_recomputed() -> None:
    calls = []

    @gt.custom_gradient
    def noted(x):
        calls.append(1)
        return x * 2.0, lambda upstream: upstream * 3.0

    x = gt.constant(np.ones(100))
    with gt.GradientTape(memory_limit=16_000) as tape:
        tape.watch(x)
        y = noted(gt.sin(x))
        for _ in range(40):
            y = gt.sin(y)
        loss = gt.reduce_sum(y)
    gradient = tape.gradient(loss, x)
    assert len(calls) == 1
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = noted(gt.sin(x))
        for _ in range(40):
            y = gt.sin(y)
        loss = gt.reduce_sum(y)
    np.testing.assert_array_equal(gradient.numpy(), tape.gradient(loss, x).numpy())


def test_negative_limit_is_refused() -> None:
    with pytest.raises(ValueError, match="must not be negative"):
        gt.GradientTape(memory_limit=-1)
