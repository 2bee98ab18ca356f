"""RMSprop, Adagrad and Lion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradtape.train.optimizers.base import Optimizer
from gradtape.train.optimizers.numbers import Numbers, RuleValue
from gradtape.train.optimizers.schedules import LearningRate, Rate


class RMSprop(Optimizer):
    """Steps divided by a running root mean square of the gradient (Hinton, 2012); `centered` subtracts its mean.

    >>> import gradtape as gt
    >>> w = gt.Variable(1.0)
    >>> opt = gt.optimizers.RMSprop(learning_rate=0.1, rho=0.75)
    >>> _ = opt.minimize(lambda: w * w, [w])
    >>> print(round(float(w), 4))
    0.8
    """

    def __init__(
        self, learning_rate: LearningRate = 0.001, rho: float = 0.9, momentum: float = 0.0, epsilon: float = 1e-07,
        centered: bool = False, weight_decay: float | None = None, clipnorm: float | None = None,
        clipvalue: float | None = None, global_clipnorm: float | None = None, name: str = "rmsprop",
    ) -> None:  # fmt: skip
        self.rho, self.momentum, self.epsilon = float(rho), float(momentum), float(epsilon)
        self.centered = centered
        self.slot_names = ("velocity", *(("momentum",) if momentum > 0 else ()), *(("average_gradient",) if centered else ()))
        super().__init__(learning_rate, weight_decay, clipnorm, clipvalue, global_clipnorm, name)

    def update(self, xp: Numbers, w: RuleValue, g: RuleValue, slots: Sequence[Any], rate: Rate) -> tuple[Any, tuple[Any, ...]]:
        # v ← ρ v + (1-ρ) g²;  a ← ρ a + (1-ρ) g;  s = η g / √(v - a² + ε);  m ← μ m + s;  w ← w - m
        v = slots[0]
        square = g * g
        square *= 1.0 - self.rho
        v *= self.rho
        v += square
        new = [v]
        spread = v + self.epsilon
        if self.centered:
            average = slots[-1] * self.rho + g * (1.0 - self.rho)
            spread -= average * average
        step = g * rate
        step /= xp.sqrt(spread)
        if self.momentum > 0:
            step += slots[1] * self.momentum
            new.append(step)
        if self.centered:
            new.append(average)
        w -= step
        return w, tuple(new)


class Adagrad(Optimizer):
    """Steps divided by the root of the sum of all squared gradients so far (Duchi et al., 2011).

    >>> import gradtape as gt
    >>> w = gt.Variable(1.0)
    >>> opt = gt.optimizers.Adagrad(learning_rate=0.1, initial_accumulator_value=0.0)
    >>> _ = opt.minimize(lambda: w * w, [w])
    >>> print(round(float(w), 4))
    0.9
    """

    slot_names = ("accumulator",)

    def __init__(
        self, learning_rate: LearningRate = 0.001, initial_accumulator_value: float = 0.1, epsilon: float = 1e-07,
        weight_decay: float | None = None, clipnorm: float | None = None, clipvalue: float | None = None,
        global_clipnorm: float | None = None, name: str = "adagrad",
    ) -> None:  # fmt: skip
        self.initial_accumulator_value, self.epsilon = float(initial_accumulator_value), float(epsilon)
        super().__init__(learning_rate, weight_decay, clipnorm, clipvalue, global_clipnorm, name)

    @property
    def rowwise(self) -> bool:
        return True

    def slot_value(self, name: str) -> float:
        return self.initial_accumulator_value

    def update(self, xp: Numbers, w: RuleValue, g: RuleValue, slots: Sequence[Any], rate: Rate) -> tuple[Any, tuple[Any, ...]]:
        # s ← s + g²;  w ← w - η g / √(s + ε)
        (total,) = slots
        total += g * g
        step = g * rate
        step /= xp.sqrt(total + self.epsilon)
        w -= step
        return w, (total,)


class Lion(Optimizer):
    """Steps of equal size in the direction of the sign of a momentum (Chen et al., 2023).

    >>> import gradtape as gt
    >>> w = gt.Variable([1.0, -2.0])
    >>> opt = gt.optimizers.Lion(learning_rate=0.25)
    >>> _ = opt.minimize(lambda: gt.reduce_sum(w * w), [w])
    >>> w.numpy()
    array([ 0.75, -1.75], dtype=float32)
    """

    slot_names = ("momentum",)

    def __init__(
        self, learning_rate: LearningRate = 0.001, beta_1: float = 0.9, beta_2: float = 0.99, weight_decay: float | None = None,
        clipnorm: float | None = None, clipvalue: float | None = None, global_clipnorm: float | None = None, name: str = "lion",
    ) -> None:  # fmt: skip
        if not 0 < beta_1 <= 1:
            raise ValueError(f"Lion: beta_1 must lie in (0, 1], or the update would not see the gradient; got {beta_1}")
        self.beta_1, self.beta_2 = float(beta_1), float(beta_2)
        super().__init__(learning_rate, weight_decay, clipnorm, clipvalue, global_clipnorm, name)

    def update(self, xp: Numbers, w: RuleValue, g: RuleValue, slots: Sequence[Any], rate: Rate) -> tuple[Any, tuple[Any, ...]]:
        # w ← w - η sign(β₁ m + (1-β₁) g);  m ← β₂ m + (1-β₂) g
        (m,) = slots
        direction = m * self.beta_1
        direction += g * (1.0 - self.beta_1)
        w -= xp.sign(direction) * rate
        m *= self.beta_2
        m += g * (1.0 - self.beta_2)
        return w, (m,)
