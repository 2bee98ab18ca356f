"""Every optimizer and option against the textbook update, on bare arrays and recorded on tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradtape as gt
from tests.training import references as ref

opt = gt.optimizers
CASES: dict[str, tuple[Callable[[], Any], Callable[[], ref.Step]]] = {
    "sgd": (lambda: opt.SGD(0.1), lambda: ref.sgd(0.1)),
    "momentum": (lambda: opt.SGD(0.1, momentum=0.9), lambda: ref.sgd(0.1, 0.9)),
    "nesterov": (lambda: opt.SGD(0.1, 0.8, nesterov=True), lambda: ref.sgd(0.1, 0.8, True)),
    "sgd decay": (lambda: opt.SGD(0.1, weight_decay=0.05), lambda: ref.decayed(ref.sgd(0.1), 0.1, 0.05)),
    "adam": (lambda: opt.Adam(0.1), lambda: ref.adam(0.1)),
    "adam betas": (lambda: opt.Adam(0.05, 0.8, 0.95, 1e-3), lambda: ref.adam(0.05, 0.8, 0.95, 1e-3)),
    "amsgrad": (lambda: opt.Adam(0.1, beta_2=0.5, amsgrad=True), lambda: ref.adam(0.1, b2=0.5, amsgrad=True)),
    "adamw": (lambda: opt.AdamW(0.1), lambda: ref.decayed(ref.adam(0.1), 0.1, 0.004)),
    "rmsprop": (lambda: opt.RMSprop(0.1), lambda: ref.rmsprop(0.1)),
    "rmsprop momentum": (lambda: opt.RMSprop(0.1, 0.8, 0.5), lambda: ref.rmsprop(0.1, 0.8, 0.5)),
    "rmsprop centered": (lambda: opt.RMSprop(0.1, centered=True), lambda: ref.rmsprop(0.1, centered=True)),
    "rmsprop both": (
        lambda: opt.RMSprop(0.1, momentum=0.5, epsilon=1e-3, centered=True),
        lambda: ref.rmsprop(0.1, momentum=0.5, eps=1e-3, centered=True),
    ),
    "adagrad": (lambda: opt.Adagrad(0.1), lambda: ref.adagrad(0.1)),
    "adagrad options": (lambda: opt.Adagrad(0.1, 0.5, 1e-2), lambda: ref.adagrad(0.1, 0.5, 1e-2)),
    "adadelta": (lambda: opt.Adadelta(1.0), lambda: ref.adadelta(1.0)),
    "adadelta options": (lambda: opt.Adadelta(0.5, 0.7, 1e-2), lambda: ref.adadelta(0.5, 0.7, 1e-2)),
    "adamax": (lambda: opt.Adamax(0.1), lambda: ref.adamax(0.1)),
    "adamax betas": (lambda: opt.Adamax(0.1, 0.8, 0.5, 1e-3), lambda: ref.adamax(0.1, 0.8, 0.5, 1e-3)),
    "nadam": (lambda: opt.Nadam(0.1), lambda: ref.nadam(0.1)),
    "nadam betas": (lambda: opt.Nadam(0.1, 0.8, 0.9, 1e-3), lambda: ref.nadam(0.1, 0.8, 0.9, 1e-3)),
    "ftrl": (lambda: opt.Ftrl(0.1), lambda: ref.ftrl(0.1)),
    "ftrl options": (
        lambda: opt.Ftrl(0.1, -0.7, 0.2, 0.3, 0.4, 0.1, 0.5),
        lambda: ref.ftrl(0.1, -0.7, 0.2, 0.3, 0.4, 0.1, 0.5),
    ),
    "lion": (lambda: opt.Lion(0.1), lambda: ref.lion(0.1)),
    "lion decay": (lambda: opt.Lion(0.1, 0.8, 0.7, weight_decay=0.1), lambda: ref.decayed(ref.lion(0.1, 0.8, 0.7), 0.1, 0.1)),
}
SHAPES = [(), (3,), (4, 2), (0, 3)]


def trajectories(make: Any, reference: Any, shape: tuple[int, ...], dtype: str, recorded: bool) -> tuple[Any, Any]:
    random = np.random.default_rng(7)
    start = random.normal(size=shape).astype(dtype)
    variable = gt.Variable(start)
    optimizer, step = make(), reference()
    expected = np.asarray(start, np.float64)
    for t in range(1, 6):
        gradient = random.normal(size=shape).astype(dtype)
        if recorded:
            with gt.GradientTape(watch_accessed_variables=False):
                optimizer.apply_gradients([(gt.constant(gradient), variable)])
        else:
            optimizer.apply_gradients([(gt.constant(gradient), variable)])
        expected = step(expected, np.asarray(gradient, np.float64), t)
    assert int(optimizer.iterations) == 5
    return variable.numpy(), expected


@pytest.mark.parametrize("recorded", [False, True], ids=["arrays", "tensors"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("case", CASES)
def test_reference(case: str, shape: tuple[int, ...], recorded: bool) -> None:
    found, expected = trajectories(*CASES[case], shape, "float64", recorded)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("recorded", [False, True], ids=["arrays", "tensors"])
@pytest.mark.parametrize("case", CASES)
def test_float32_stays_float32(case: str, recorded: bool) -> None:
    found, expected = trajectories(*CASES[case], (4, 2), "float32", recorded)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("case", ["adam", "nesterov", "rmsprop both", "lion"])
def test_large_arrays_are_updated_piece_by_piece(case: str) -> None:
    from gradtape.train.optimizers import base

    make, reference = CASES[case]
    random = np.random.default_rng(1)
    w = random.normal(size=(2, base.PIECE + 5))
    variable, optimizer, step, expected = gt.Variable(w), make(), reference(), w
    for t in (1, 2):
        g = random.normal(size=w.shape[::-1]).T  # not contiguous
        optimizer.apply_gradients([(gt.constant(g), variable)])
        expected = step(expected, g, t)
    np.testing.assert_allclose(variable.numpy(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("case", ["sgd", "adam"])
@pytest.mark.parametrize("shape", [(), (3,)], ids=str)
@pytest.mark.parametrize("recorded", [False, True], ids=["arrays", "tensors"])
def test_complex_variables_are_pairs_of_real_ones(case: str, shape: tuple[int, ...], recorded: bool) -> None:
    random = np.random.default_rng(3)
    start, g = random.normal(size=(2, *shape)) + 1j * random.normal(size=(2, *shape))
    variable, optimizer = gt.Variable(start), CASES[case][0]()
    real, imag = CASES[case][1](), CASES[case][1]()
    expected = start
    for t in (1, 2, 3):
        if recorded:
            with gt.GradientTape(watch_accessed_variables=False):
                optimizer.apply_gradients([(gt.constant(g), variable)])
        else:
            optimizer.apply_gradients([(gt.constant(g), variable)])
        expected = real(expected.real, g.real, t) + 1j * imag(expected.imag, g.imag, t)
    np.testing.assert_allclose(variable.numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision(dtype: str) -> None:
    w = gt.Variable(gt.cast([1.0, -1.0], dtype))
    for optimizer in (opt.SGD(0.25, momentum=0.5), opt.Adam(0.25, epsilon=1e-3), opt.Lion(0.25)):
        w.assign(gt.cast([1.0, -1.0], dtype))
        optimizer.apply_gradients([(gt.cast([1.0, -1.0], dtype), w)])
        assert w.dtype.name == dtype
        np.testing.assert_allclose(np.asarray(w).astype("float32"), [0.75, -0.75], atol=0.01)


# -- snapshots: values read before a step keep their values ---------------------------------------------------------


@pytest.mark.parametrize("case", ["sgd", "momentum", "adam"])
def test_values_read_before_a_step_stay(case: str) -> None:
    start = np.arange(6.0).reshape(2, 3)
    w, optimizer = gt.Variable(start), CASES[case][0]()
    one = gt.ones((2, 3), gt.float64)
    held = [w.value(), w.numpy(), w.value()[0], gt.identity(w), np.asarray(w)]
    optimizer.apply_gradients([(one, w)])
    again = w.numpy()
    copy = again.copy()
    optimizer.apply_gradients([(one, w)])
    for value in held:
        np.testing.assert_array_equal(value, start[0] if value.ndim == 1 else start)
    np.testing.assert_array_equal(again, copy)
    assert not np.array_equal(w.numpy(), copy)


def test_slots_read_before_a_step_stay() -> None:
    w, optimizer = gt.Variable([1.0, 2.0]), opt.Adam()
    optimizer.apply_gradients([([1.0, 1.0], w)])
    momentum = optimizer.variables[2].value()
    before = momentum.numpy().copy()
    optimizer.apply_gradients([([5.0, 5.0], w)])
    np.testing.assert_array_equal(momentum.numpy(), before)


def test_a_persistent_tape_keeps_the_old_values() -> None:
    w = gt.Variable([2.0, 3.0])
    with gt.GradientTape(persistent=True) as tape:
        loss = gt.reduce_sum(w**3)
    opt.SGD(0.1).apply_gradients([(tape.gradient(loss, w), w)])
    np.testing.assert_allclose(tape.gradient(loss, w).numpy(), [12.0, 27.0])


def test_a_step_works_in_place_when_nobody_looks() -> None:
    w, optimizer = gt.Variable(np.zeros(10)), opt.Adam()
    g = gt.ones(10, gt.float64)
    optimizer.apply_gradients([(g, w)])
    buffers = [id(v._tensor._data) for v in (w, *optimizer.variables[2:])]
    optimizer.apply_gradients([(g, w)])
    assert [id(v._tensor._data) for v in (w, *optimizer.variables[2:])] == buffers


def test_training_step_works_in_place() -> None:
    w, optimizer = gt.Variable(np.ones((4, 4), np.float32)), opt.SGD(0.1)
    buffers = set()
    for _ in range(3):
        with gt.GradientTape() as tape:
            loss = gt.reduce_sum(gt.matmul(w, w))
        optimizer.apply_gradients([(tape.gradient(loss, w), w)])
        buffers.add(id(w._tensor._data))
    assert len(buffers) == 1


# -- gradients through a step ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [c for c in CASES if not c.startswith("lion")])
def test_gradients_flow_through_steps(case: str) -> None:
    """d/dw0 of a loss after two recorded steps, against central differences of the same program."""
    target = np.array([0.3, -0.7])

    def after_two_steps(start: Any, tape: Any) -> tuple[Any, Any]:
        w, optimizer = gt.Variable(start), CASES[case][0]()
        if tape is not None:
            tape.watch(w)
        for _ in range(2):
            with gt.GradientTape() as inner:
                loss = gt.reduce_sum((w - target) ** 4 + w * w)
            optimizer.apply_gradients([(inner.gradient(loss, w), w)])
        return w, gt.reduce_sum(w**3)

    start = np.array([1.2, 0.8])
    with gt.GradientTape(through_assignments=True) as outer:
        w, result = after_two_steps(start, outer)
    found = outer.gradient(result, w).numpy()
    h = 1e-5
    for i in range(2):
        shift = h * np.eye(2)[i]
        above, below = (float(after_two_steps(start + s, None)[1]) for s in (shift, -shift))
        assert found[i] == pytest.approx((above - below) / (2 * h), rel=1e-6, abs=1e-8)


def test_gradient_with_respect_to_the_learning_rate() -> None:
    rate, w = gt.Variable(np.float64(0.1)), gt.Variable(np.float64(2.0))
    with gt.GradientTape() as outer:
        with gt.GradientTape() as inner:
            loss = w**2
        opt.SGD(rate).apply_gradients([(inner.gradient(loss, w), w)])
        after = w**2  # (2 - 4 r)²
    assert float(outer.gradient(after, rate)) == pytest.approx(-8 * (2 - 0.4))


@pytest.mark.parametrize("clip", ["clipnorm", "global_clipnorm", "clipvalue"])
def test_clipping_at_a_zero_gradient_keeps_derivatives_finite(clip: str) -> None:
    w = gt.Variable(np.zeros(2))
    with gt.GradientTape(through_assignments=True) as outer:
        opt.SGD(0.25, **{clip: 1.0}).minimize(lambda: gt.reduce_sum(w * w), [w])
        result = gt.reduce_sum(3.0 * w)
    np.testing.assert_allclose(outer.gradient(result, w).numpy(), [1.5, 1.5])


def test_a_step_inside_the_block_of_a_spent_tape_is_an_ordinary_step() -> None:
    w = gt.Variable([2.0])
    with gt.GradientTape() as tape:
        loss = gt.reduce_sum(w * w)
        gradient = tape.gradient(loss, w)
        opt.SGD(0.25).apply_gradients([(gradient, w)])
    assert w.numpy().tolist() == [1.0]


def test_a_shared_buffer_is_not_written() -> None:
    first = gt.Variable(np.ones(3))
    second = gt.Variable(first)
    opt.SGD(0.5).apply_gradients([(np.ones(3), first)])
    assert first.numpy().tolist() == [0.5, 0.5, 0.5]
    assert second.numpy().tolist() == [1.0, 1.0, 1.0]


def test_steps_ignore_the_callers_floating_point_traps() -> None:
    w = gt.Variable(np.array([1e300, 1.0]))
    with np.errstate(all="raise"):
        opt.RMSprop(0.1).apply_gradients([(np.array([1e200, 1.0]), w)])  # the square overflows
    assert np.isfinite(w.numpy()).all()
