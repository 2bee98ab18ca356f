"""Adadelta, Adamax, Nadam and Ftrl, with Keras's formulas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradtape.train.optimizers.base import Optimizer
from gradtape.train.optimizers.numbers import Numbers, RuleValue
from gradtape.train.optimizers.schedules import LearningRate, Rate


class Adadelta(Optimizer):
    """Steps in the proportion of past steps to past gradients, both as running root mean squares (Zeiler, 2012).

    >>> import gradtape as gt
    >>> w = gt.Variable(1.0)
    >>> opt = gt.optimizers.Adadelta(learning_rate=1.0, rho=0.0, epsilon=1.0)
    >>> _ = opt.minimize(lambda: 0.5 * w * w, [w])
    >>> print(round(float(w), 4))
    0.2929
    """

    slot_names = ("accumulated_grad", "accumulated_delta_var")

    def __init__(
        self, learning_rate: LearningRate = 0.001, rho: float = 0.95, epsilon: float = 1e-07, weight_decay: float | None = None,
        clipnorm: float | None = None, clipvalue: float | None = None, global_clipnorm: float | None = None,
        name: str = "adadelta",
    ) -> None:  # fmt: skip
        self.rho, self.epsilon = float(rho), float(epsilon)
        super().__init__(learning_rate, weight_decay, clipnorm, clipvalue, global_clipnorm, name)

    def update(self, xp: Numbers, w: RuleValue, g: RuleValue, slots: Sequence[Any], rate: Rate) -> tuple[Any, tuple[Any, ...]]:
        # a ← ρ a + (1-ρ) g²;  s = √(d + ε) / √(a + ε) · g;  d ← ρ d + (1-ρ) s²;  w ← w - η s
        a, d = slots
        a = a * self.rho + g * g * (1.0 - self.rho)
        step = xp.sqrt(d + self.epsilon) / xp.sqrt(a + self.epsilon) * g
        d = d * self.rho + step * step * (1.0 - self.rho)
        return w - step * rate, (a, d)


class Adamax(Optimizer):
    """Adam with the largest gradient, slowly forgotten, in the place of the root mean square (Kingma & Ba, 2015).

    >>> import gradtape as gt
    >>> w = gt.Variable([1.0, -2.0])
    >>> opt = gt.optimizers.Adamax(learning_rate=0.1)
    >>> _ = opt.minimize(lambda: gt.reduce_sum(w * w), [w])
    >>> print(w.numpy().round(3))
    [ 0.9 -1.9]
    """

    slot_names: tuple[str, ...] = ("momentum", "norm")

    def __init__(
        self, learning_rate: LearningRate = 0.001, beta_1: float = 0.9, beta_2: float = 0.999, epsilon: float = 1e-07,
        weight_decay: float | None = None, clipnorm: float | None = None, clipvalue: float | None = None,
        global_clipnorm: float | None = None, name: str | None = None,
    ) -> None:  # fmt: skip
        self.beta_1, self.beta_2, self.epsilon = float(beta_1), float(beta_2), float(epsilon)
        super().__init__(learning_rate, weight_decay, clipnorm, clipvalue, global_clipnorm, name or type(self).__name__.lower())

    def scaled(self, rate: Rate, step: int | RuleValue) -> Any:
        return rate / (1.0 - self.beta_1**step)

    def update(self, xp: Numbers, w: RuleValue, g: RuleValue, slots: Sequence[Any], rate: Rate) -> tuple[Any, tuple[Any, ...]]:
        # m ← β₁ m + (1-β₁) g;  u ← max(β₂ u, |g|);  w ← w - α m / (u + ε)
        m, u = slots
        m = m + (g - m) * (1.0 - self.beta_1)
        u = xp.maximum(u * self.beta_2, xp.maximum(g, -g))
        return w - m * rate / (u + self.epsilon), (m, u)


class Nadam(Adamax):
    """Adam with Nesterov's momentum, which grows with the steps (Dozat, 2016).

    >>> import gradtape as gt
    >>> w = gt.Variable([1.0, -2.0])
    >>> opt = gt.optimizers.Nadam(learning_rate=0.1)
    >>> _ = opt.minimize(lambda: gt.reduce_sum(w * w), [w])
    >>> print(w.numpy().round(3))
    [ 0.894 -1.894]
    """

    # The last three are powers and products that are the same for all elements: as slots, rules need no step number.
    slot_names = ("momentum", "velocity", "decay", "product", "power")

    def slot_value(self, name: str) -> float:
        return 0.0 if name in ("momentum", "velocity") else 1.0

    def scaled(self, rate: Rate, step: int | RuleValue) -> Any:
        return rate

    def update(self, xp: Numbers, w: RuleValue, g: RuleValue, slots: Sequence[Any], rate: Rate) -> tuple[Any, tuple[Any, ...]]:
        # μₜ = β₁ (1 - 0.96ᵗ/2), Pₜ = μ₁ ⋯ μₜ; m, v as Adam's;
        # w ← w - η (μₜ₊₁ m / (1 - Pₜ₊₁) + (1 - μₜ) g / (1 - Pₜ)) / (√(v / (1 - β₂ᵗ)) + ε)
        m, v, decay, product, power = slots
        decay, power = decay * 0.96, power * self.beta_2
        now, following = self.beta_1 * (1.0 - 0.5 * decay), self.beta_1 * (1.0 - 0.48 * decay)
        product = product * now
        m = m + (g - m) * (1.0 - self.beta_1)
        v = v + (g * g - v) * (1.0 - self.beta_2)
        ahead = following * m / (1.0 - product * following) + (1.0 - now) * g / (1.0 - product)
        return w - ahead * rate / (xp.sqrt(v / (1.0 - power)) + self.epsilon), (m, v, decay, product, power)


class Ftrl(Optimizer):
    """Follow the regularized leader: sparse weights of online learning (McMahan et al., 2013).

    >>> import gradtape as gt
    >>> w = gt.Variable([1.0, -2.0])
    >>> opt = gt.optimizers.Ftrl(learning_rate=0.1, l1_regularization_strength=100.0)
    >>> _ = opt.minimize(lambda: gt.reduce_sum(w * w), [w])
    >>> w.numpy()
    array([0., 0.], dtype=float32)
    """

    slot_names = ("accumulator", "linear")

    def __init__(
        self, learning_rate: LearningRate = 0.001, learning_rate_power: float = -0.5, initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0, l2_regularization_strength: float = 0.0,
        l2_shrinkage_regularization_strength: float = 0.0, beta: float = 0.0, weight_decay: float | None = None,
        clipnorm: float | None = None, clipvalue: float | None = None, global_clipnorm: float | None = None, name: str = "ftrl",
    ) -> None:  # fmt: skip
        if learning_rate_power > 0.0:
            raise ValueError(f"Ftrl: learning_rate_power must not be positive, got {learning_rate_power}")
        self.power = -float(learning_rate_power)
        self.initial_accumulator_value = float(initial_accumulator_value)
        self.l1, self.l2 = float(l1_regularization_strength), float(l2_regularization_strength)
        self.shrinkage, self.beta = float(l2_shrinkage_regularization_strength), float(beta)
        super().__init__(learning_rate, weight_decay, clipnorm, clipvalue, global_clipnorm, name)

    def slot_value(self, name: str) -> float:
        return self.initial_accumulator_value if name == "accumulator" else 0.0

    def update(self, xp: Numbers, w: RuleValue, g: RuleValue, slots: Sequence[Any], rate: Rate) -> tuple[Any, tuple[Any, ...]]:
        # n' = n + g²;  z ← z + g + 2 s w - (n'ᵖ - nᵖ) w / η;  w ← (clip(z, ±l₁) - z) / (n'ᵖ / η + 2 l₂ + β / η)
        n, z = slots
        total = n + g * g
        new = total**self.power / rate
        z = z + g + 2.0 * self.shrinkage * w - (new - n**self.power / rate) * w
        return (xp.clip(z, -self.l1, self.l1) - z) / (new + (2.0 * self.l2 + self.beta / rate)), (total, z)
