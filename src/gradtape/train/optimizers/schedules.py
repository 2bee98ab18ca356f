"""Learning rates that depend on the step, with TensorFlow's formulas.

Each schedule is one formula, written on `Numbers`: in double precision for a known step, on tensors for a traced one.
Calling a schedule gives a float32 tensor, as in TensorFlow; optimizers ask `rate`, which rounds nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from gradtape.core.dispatch import convert
from gradtape.core.tensor import Readable, Tensor, box
from gradtape.core.typing import TensorLike
from gradtape.dtypes import float32, float64
from gradtape.ops.elementwise import cast
from gradtape.train.optimizers.numbers import ARRAYS, TENSORS, Numbers, RuleValue

Rate: TypeAlias = float | Tensor  # a tensor, float64, where a program is traced
LearningRate: TypeAlias = float | np.number | Tensor | Readable | Callable[..., Any]  # a schedule is called with the step


class LearningRateSchedule:
    """Base class: subclasses define `formula(step, xp)`, or override `__call__(step)`.

    >>> halving = gt.optimizers.schedules.ExponentialDecay(0.1, decay_steps=10, decay_rate=0.5)
    >>> print(halving(20).numpy())
    0.025
    """

    def formula(self, step: RuleValue, xp: Numbers) -> Any:
        """The learning rate at `step`, a float64 number or tensor."""
        raise NotImplementedError(f"{type(self).__name__} must define formula(step, xp) or __call__(step)")

    def __call__(self, step: TensorLike) -> Tensor:
        value = self.rate(step)
        return cast(value, float32) if isinstance(value, Tensor) else box(np.float32(value))

    def rate(self, step: TensorLike) -> Any:
        """The learning rate, a Python float; a float64 tensor for a traced step."""
        if type(self).__call__ is not LearningRateSchedule.__call__:
            return self(step)
        tensor = convert(step)
        if tensor.wraps:
            return self.formula(cast(tensor, float64), TENSORS)
        number: Any = np.float64(tensor._data)
        return float(self.formula(number, ARRAYS))


def _positive(value: float, label: str, schedule: str) -> float:
    if value <= 0:
        raise ValueError(f"{schedule}: {label} must be positive, got {value}")
    return float(value)


class _RateDecay(LearningRateSchedule):
    """What decays at a rate per `decay_steps`."""

    def __init__(
        self, initial_learning_rate: float, decay_steps: float, decay_rate: float, staircase: bool = False,
        name: str | None = None,
    ) -> None:  # fmt: skip
        self.name = type(self).__name__ if name is None else name
        self.initial_learning_rate = float(initial_learning_rate)
        self.decay_steps = _positive(decay_steps, "decay_steps", self.name)
        self.decay_rate = float(decay_rate)
        self.staircase = staircase

    def progress(self, step: RuleValue, xp: Numbers) -> Any:
        """Step / decay_steps, rounded down if it decays in stairs."""
        quotient = step / self.decay_steps
        return xp.floor(quotient) if self.staircase else quotient


class ExponentialDecay(_RateDecay):
    """initial · rate^(step / decay_steps); `staircase` rounds the exponent down.

    >>> stairs = gt.optimizers.schedules.ExponentialDecay(1.0, 10, 0.5, staircase=True)
    >>> print(stairs(19).numpy())
    0.5
    """

    def formula(self, step: RuleValue, xp: Numbers) -> Any:
        return self.initial_learning_rate * self.decay_rate ** self.progress(step, xp)


class PiecewiseConstantDecay(LearningRateSchedule):
    """values[0] up to and including step boundaries[0], values[1] up to boundaries[1], …

    >>> steps = gt.optimizers.schedules.PiecewiseConstantDecay([100, 200], [1.0, 0.5, 0.1])
    >>> print([float(steps(n)) for n in (100, 101)])
    [1.0, 0.5]
    """

    def __init__(self, boundaries: Sequence[float], values: Sequence[float], name: str = "PiecewiseConstant") -> None:
        if len(boundaries) != len(values) - 1:
            raise ValueError(
                f"{name}: there must be one more value than boundaries, got {len(values)} values and "
                f"{len(boundaries)} boundaries"
            )
        self.boundaries = list(boundaries)
        self.values = [float(v) for v in values]
        self.name = name

    def formula(self, step: RuleValue, xp: Numbers) -> Any:
        # a chain of selections from the last interval to the first
        value = step * 0.0 + self.values[-1]
        for boundary, earlier in zip(reversed(self.boundaries), reversed(self.values[:-1]), strict=True):
            value = xp.where(step <= boundary, earlier + step * 0.0, value)
        return value


class PolynomialDecay(LearningRateSchedule):
    """(initial - end) · (1 - step / decay_steps)^power + end; `cycle` stretches decay_steps to the next multiple.

    >>> line = gt.optimizers.schedules.PolynomialDecay(1.0, 100, end_learning_rate=0.0)
    >>> print(line(25).numpy())
    0.75
    """

    def __init__(
        self, initial_learning_rate: float, decay_steps: float, end_learning_rate: float = 0.0001, power: float = 1.0,
        cycle: bool = False, name: str = "PolynomialDecay",
    ) -> None:  # fmt: skip
        self.initial_learning_rate = float(initial_learning_rate)
        self.decay_steps = _positive(decay_steps, "decay_steps", name)
        self.end_learning_rate = float(end_learning_rate)
        self.power = power
        self.cycle = cycle
        self.name = name

    def formula(self, step: RuleValue, xp: Numbers) -> Any:
        if self.cycle:
            length = self.decay_steps * xp.maximum(xp.ceil(step / self.decay_steps), 1.0)
        else:
            length = self.decay_steps
            step = xp.minimum(step, length)
        span = self.initial_learning_rate - self.end_learning_rate
        return span * (1.0 - step / length) ** self.power + self.end_learning_rate


class InverseTimeDecay(_RateDecay):
    """initial / (1 + rate · step / decay_steps); `staircase` rounds the quotient down.

    >>> slow = gt.optimizers.schedules.InverseTimeDecay(1.0, decay_steps=10, decay_rate=1.0)
    >>> print(slow(30).numpy())
    0.25
    """

    def formula(self, step: RuleValue, xp: Numbers) -> Any:
        return self.initial_learning_rate / (1.0 + self.decay_rate * self.progress(step, xp))


def _half_cosine(fraction: RuleValue, alpha: float, xp: Numbers) -> Any:
    """From 1 at fraction 0 to alpha at fraction 1."""
    return (1.0 - alpha) * (0.5 * (1.0 + xp.cos(math.pi * fraction))) + alpha


class CosineDecay(LearningRateSchedule):
    """Half a cosine from the initial rate to alpha times it, after an optional linear warm-up to `warmup_target`.

    Loshchilov & Hutter, SGDR: Stochastic Gradient Descent with Warm Restarts (2017).

    >>> wave = gt.optimizers.schedules.CosineDecay(0.0, 100, warmup_target=1.0, warmup_steps=10)
    >>> print([round(float(wave(n)), 3) for n in (0, 5, 10, 60, 110)])
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """

    def __init__(
        self, initial_learning_rate: float, decay_steps: float, alpha: float = 0.0, name: str = "CosineDecay",
        warmup_target: float | None = None, warmup_steps: int = 0,
    ) -> None:  # fmt: skip
        self.initial_learning_rate = float(initial_learning_rate)
        self.decay_steps = _positive(decay_steps, "decay_steps", name)
        self.alpha = float(alpha)
        self.name = name
        self.warmup_target = warmup_target
        self.warmup_steps = warmup_steps

    def formula(self, step: RuleValue, xp: Numbers) -> Any:
        if self.warmup_target is None:
            fraction = xp.minimum(step, self.decay_steps) / self.decay_steps
            return self.initial_learning_rate * _half_cosine(fraction, self.alpha, xp)
        fraction = xp.minimum(xp.maximum(step - self.warmup_steps, 0.0), self.decay_steps) / self.decay_steps
        decayed = self.warmup_target * _half_cosine(fraction, self.alpha, xp)
        if not self.warmup_steps:
            return decayed
        rise = self.warmup_target - self.initial_learning_rate
        return xp.where(step < self.warmup_steps, self.initial_learning_rate + rise * (step / self.warmup_steps), decayed)


class CosineDecayRestarts(LearningRateSchedule):
    """Half cosines one after the other, each t_mul times longer and m_mul times lower than the one before.

    Loshchilov & Hutter, SGDR: Stochastic Gradient Descent with Warm Restarts (2017).

    >>> waves = gt.optimizers.schedules.CosineDecayRestarts(1.0, first_decay_steps=10)
    >>> print([round(float(waves(n)), 3) for n in (0, 5, 10, 20)])
    [1.0, 0.5, 1.0, 0.5]
    """

    def __init__(
        self, initial_learning_rate: float, first_decay_steps: float, t_mul: float = 2.0, m_mul: float = 1.0,
        alpha: float = 0.0, name: str = "SGDRDecay",
    ) -> None:  # fmt: skip
        self.initial_learning_rate = float(initial_learning_rate)
        self.first_decay_steps = _positive(first_decay_steps, "first_decay_steps", name)
        self.t_mul = _positive(t_mul, "t_mul", name)
        self.m_mul, self.alpha = float(m_mul), float(alpha)
        self.name = name

    def formula(self, step: RuleValue, xp: Numbers) -> Any:
        fraction = step / self.first_decay_steps
        if self.t_mul == 1.0:
            restarts = xp.floor(fraction)
            fraction = fraction - restarts
        else:
            # cycle k begins at (1 - t^k) / (1 - t) first lengths and lasts t^k of them; the small term undoes a
            # logarithm that falls just below the integer it should be
            restarts = xp.floor(xp.log(1.0 - fraction * (1.0 - self.t_mul)) / math.log(self.t_mul) + 1e-12)
            length = self.t_mul**restarts
            fraction = (fraction - (1.0 - length) / (1.0 - self.t_mul)) / length
        return self.initial_learning_rate * self.m_mul**restarts * _half_cosine(fraction, self.alpha, xp)


__all__ = [
    "CosineDecay", "CosineDecayRestarts", "ExponentialDecay", "InverseTimeDecay", "LearningRateSchedule",
    "PiecewiseConstantDecay", "PolynomialDecay",
]  # fmt: skip


def __dir__() -> list[str]:  # completion offers no more
    return __all__
