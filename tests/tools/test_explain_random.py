"""Random programs: `explain` says "connected" or "zero" exactly when there is a gradient, and the same before and after it."""

import random
import warnings

import numpy as np
import pytest

import gradtape as gt
from tests.tools.explained import no_other_tape_is_open as no_other_tape_is_open


@gt.custom_gradient
def first_only(a, b):
    return a * b, lambda up: (up * b, None)


@gt.function
def compiled(a, b):
    c = a
    if a > 0.0:
        c = gt.stop_gradient(a) * 2.0
    return c + 1.0, a * b


CONNECTING = [
    lambda a, b: a * b, lambda a, b: gt.sin(a) + b, lambda a, b: gt.where(a > 0.0, a, b),
    lambda a, b: compiled(a, b)[1], lambda a, b: gt.stack([a, b])[0] * 2.0, lambda a, b: first_only(a, b),
]  # fmt: skip
CUTTING = [
    lambda a, b: gt.stop_gradient(a) + 1.0, lambda a, b: gt.cast(gt.cast(a * 10.0, gt.int32), gt.float32) * 0.1,
    lambda a, b: gt.where(a > b, 1.0, 0.5), lambda a, b: gt.zeros_like(a) + 0.5, lambda a, b: gt.constant(a.numpy() * 0.5),
    lambda a, b: float(a) * gt.constant(0.5), lambda a, b: compiled(a, b)[0], lambda a, b: gt.nn.relu(-gt.abs(a)),
]  # fmt: skip


class Program:
    """A few values, each computed from two earlier ones, at a random time: before, in, paused in, or after the block."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        numbers = np.random.default_rng(seed).uniform(0.2, 1.0, 4).astype(np.float32)
        self.variables = [gt.Variable(v, name=f"v{i}", trainable=i < 3) for i, v in enumerate(numbers)]
        self.watched = gt.constant(numbers[0])
        self.values = [v * 1.0 for v in self.variables if self.random.random() < 0.3]

    def grow(self, steps):
        for _ in range(steps):
            pool = [*self.variables, self.watched, *self.values[-4:]]
            a, b = self.random.choice(pool), self.random.choice(pool)
            op = self.random.choice(CONNECTING if self.random.random() < 0.6 else CUTTING)
            self.values.append(op(gt.convert_to_tensor(a), gt.convert_to_tensor(b)))
            if self.random.random() < 0.1:
                self.random.choice(self.variables).assign(self.values[-1])

    def run(self, tape):
        with tape:
            tape.watch(self.watched)
            for _ in range(3):
                self.grow(self.random.randrange(4))
                with tape.stop_recording():
                    self.grow(self.random.randrange(2))
        if self.random.random() < 0.3:
            self.grow(1)
        return self.values[-1] if self.values else self.variables[0] * 1.0


@pytest.mark.parametrize("seed", range(300))
def test_the_answer_is_the_gradients(seed):
    program = Program(seed)
    options = {"persistent": seed % 3 == 0, "through_assignments": seed % 5 != 0}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", gt.GradientWarning)
        tape = gt.GradientTape(**options)
        target = program.run(tape)
        sources = [*program.variables, program.watched, *program.values]
        before = tape.explain(target, sources)
        answers = tape.gradient(target, sources)
        after = tape.explain(target, sources)
    for answer, early, late in zip(answers, before, after, strict=True):
        assert (answer is None) == (early.cause not in ("connected", "zero")), early
        assert (early.cause == "zero") == (answer is not None and not np.any(answer.numpy())), early
        assert late.cause == early.cause, (early, late)
