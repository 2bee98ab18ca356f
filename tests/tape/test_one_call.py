"""A tape that holds one compiled call answers without a walk (`tape/one_call.py`): the same answers and words as by one.

Each question is asked as it is and with that way closed; what is plain must take it, and what is not must not.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape.tape import gradient_tape

W = gt.Variable(np.linspace(0.5, 1.5, 6).reshape(2, 3), dtype=gt.float32, name="w")
B = gt.Variable([0.25, -0.5, 1.0], name="b")
SCALE = gt.Variable(2.0, name="scale")
UNUSED = gt.Variable(1.0, name="unused")
DOUBLE = gt.Variable([1.0, 2.0], dtype=gt.float64, name="double")
SHORT = gt.Variable([1.0, 2.0], dtype=gt.bfloat16, name="short")
COMPLEX = gt.Variable([1.0 + 2.0j], name="complex")
COUNT = gt.Variable(3, trainable=False, name="count")
X = np.array([[1.0, -2.0], [0.5, 3.0]], np.float32)


@gt.function
def loss(x: Any) -> Any:
    return gt.reduce_sum(gt.tanh(x @ W + B)) * SCALE


@gt.function
def with_logits(x: Any) -> Any:
    logits = x @ W + B
    return gt.reduce_mean(logits**2), logits


@gt.function
def with_count(x: Any) -> Any:
    logits = x @ W + B
    return gt.reduce_mean(logits**2), gt.argmax(logits, axis=1)


@gt.function
def product(a: Any, b: Any) -> Any:
    return gt.reduce_sum(a * b * b)


@gt.function
def root(a: Any) -> Any:
    return gt.reduce_sum(gt.where(a > 0.0, gt.sqrt(a), 0.0))


@gt.function
def rows(x: Any) -> Any:
    return gt.reduce_sum(x @ W, axis=1)


@gt.function
def doubled() -> Any:
    return gt.reduce_sum(DOUBLE**3)


@gt.function
def shortened() -> Any:
    return gt.reduce_sum(gt.cast(SHORT, gt.float32) ** 2)


@gt.function
def absolute() -> Any:
    return gt.reduce_sum(gt.abs(COMPLEX))


@gt.function
def assigned() -> Any:
    value = gt.reduce_sum(B**2)
    B.assign(B * 1.0)
    return value


@gt.function
def inside(x: Any) -> Any:
    with gt.GradientTape() as tape:
        y = loss(x)
    return tape.gradient(y, W)


def step(call: Callable[[], Any], sources: Any, **asked: Any) -> Callable[[], Any]:
    def run() -> Any:
        with gt.GradientTape(**{k: asked[k] for k in asked if k not in ("output_gradients", "unconnected_gradients")}) as tape:
            target = call()
        rest = {k: asked[k] for k in asked if k in ("output_gradients", "unconnected_gradients")}
        answer = tape.gradient(target, sources, **rest)
        return (
            answer,
            tape._asked,
            tape.explain(target, gt.nest.flatten(sources)[0]),
            [(r.op, r.attrs and sorted(r.attrs), r.saved) for r in tape.records],
        )

    return run


def watched(call: Callable[..., Any], *values: Any, sources: Callable[..., Any] = lambda *v: list(v)) -> Callable[[], Any]:
    def run() -> Any:
        given = [gt.constant(value) for value in values]
        with gt.GradientTape() as tape:
            tape.watch(given)
            target = call(*given)
        return tape.gradient(target, sources(*given))

    return run


def in_the_block() -> Any:
    with gt.GradientTape() as tape:
        y = loss(X)
        return tape.gradient(y, [W, B])


def paused() -> Any:
    with gt.GradientTape() as tape:
        with tape.stop_recording():
            loss(X)
        y = loss(X)
    return tape.gradient(y, [W, B])


def twice() -> Any:
    with gt.GradientTape() as tape:
        y = loss(X)
    tape.gradient(y, W)
    return tape.gradient(y, W)


def entered_again() -> Any:
    tape = gt.GradientTape()
    answers = []
    for _ in range(2):
        with tape:
            y = loss(X)
        answers.append(tape.gradient(y, [W, SCALE]))
    return answers


def nested() -> Any:
    with gt.GradientTape() as outer:
        with gt.GradientTape() as tape:
            y = loss(X)
        g = tape.gradient(y, B)
        z = gt.reduce_sum(g * g)
    return outer.gradient(z, [W, B])


def other_tape() -> Any:
    with gt.GradientTape() as tape, gt.GradientTape() as other:
        y = loss(X)
    return tape.gradient(y, W), other.gradient(y, [SCALE, UNUSED])


def tangents() -> Any:
    with gt.autodiff.ForwardAccumulator(B, gt.ones(3)) as accumulator:
        with gt.GradientTape() as tape:
            y = loss(X)
        g = tape.gradient(y, W)
    return g, accumulator.jvp(y), accumulator.jvp(g)


def eager_too() -> Any:
    with gt.GradientTape() as tape:
        y = loss(X) + SCALE
    return tape.gradient(y, [W, SCALE])


def two_calls() -> Any:
    with gt.GradientTape() as tape:
        loss(X)
        y = loss(X)
    return tape.gradient(y, [W, SCALE])


def of_itself() -> Any:
    with gt.GradientTape() as tape:
        y = loss(X)
    return tape.gradient(y, [y, W])


def not_mine() -> Any:
    with gt.GradientTape() as tape:
        loss(X)
    with gt.GradientTape():
        y = loss(X)
    return tape.gradient(y, W)


ONE = [
    step(lambda: loss(X), W), step(lambda: loss(X), [W, B, SCALE]), step(lambda: loss(X), {"b": B, "a": (W, [SCALE])}),
    step(lambda: loss(X), [W, UNUSED]), step(lambda: loss(X), UNUSED),
    step(lambda: loss(X), [W, UNUSED], unconnected_gradients="zero"),
    step(lambda: loss(X), [UNUSED], unconnected_gradients="raise"),
    step(lambda: with_logits(X)[0], [W, B]), step(lambda: with_count(X)[0], [W, B]), step(lambda: loss(X), COUNT),
    watched(product, [1.0, 2.0], [3.0, -1.0]), watched(product, 2.0, 3.0), watched(lambda a, b: product(a, b), [1.0], [2.0]),
    watched(product, np.float64(2.0), np.float64(3.0)), step(doubled, DOUBLE),
    watched(lambda a: product(a, a), [1.0, 2.0]), watched(root, [0.0, 4.0]),
    in_the_block, paused, twice, entered_again, other_tape, step(lambda: loss(X), []),
]  # fmt: skip
WALKED = [
    step(lambda: with_logits(X)[1], [W, B]), step(lambda: rows(X), W),
    watched(product, [np.inf, 2.0], [3.0, -1.0]), step(shortened, SHORT),
    step(absolute, COMPLEX), step(lambda: loss(X), [W, B], persistent=True), step(lambda: loss(X), W, output_gradients=3.0),
    step(lambda: [loss(X), SCALE], [W, SCALE]), step(lambda: loss(X), W, memory_limit=10_000),
    step(lambda: loss(X), W, debug=True),
    step(lambda: loss(X), W, profile=True), step(assigned, B), nested, tangents, eager_too, two_calls, of_itself, not_mine,
    lambda: inside(X),
]  # fmt: skip


def outcome(run: Callable[[], Any]) -> tuple[Any, list[str]]:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            answer = run()
        except Exception as error:
            answer = type(error), str(error)
    return answer, [str(warning.message) for warning in told]


def same(a: Any, b: Any) -> None:
    assert type(a) is type(b)
    if isinstance(a, gt.Tensor):
        assert (a.dtype, type(a._data)) == (b.dtype, type(b._data))
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    elif isinstance(a, (list, tuple)):
        for left, right in zip(a, b, strict=True):
            same(left, right)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        same(list(a.values()), list(b.values()))
    elif not hasattr(a, "to_text"):
        assert a == b or str(a) == str(b)


@pytest.fixture(scope="module", autouse=True)
def _ready() -> None:
    """Every program is traced, compiled in both halves and written down, whichever test comes first."""
    for run in ONE * 3:
        outcome(run)


@pytest.fixture(autouse=True)
def _leaf() -> None:
    """What a test before has assigned was computed under its tape."""
    B.assign([0.25, -0.5, 1.0])


@pytest.mark.parametrize(("run", "short"), [(run, True) for run in ONE] + [(run, False) for run in WALKED])
def test_as_by_a_walk(run: Callable[[], Any], short: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        outcome(run)
    served: list[bool] = []
    way = gradient_tape.gradient_of_call

    def noted(*question: Any) -> Any:
        answers = way(*question)
        served.append(answers is not None)
        return answers

    monkeypatch.setattr(gradient_tape, "gradient_of_call", noted)
    quick = outcome(run)
    assert any(served) if short else not any(served)
    monkeypatch.setattr(gradient_tape, "gradient_of_call", lambda *question: None)
    same(quick, outcome(run))
