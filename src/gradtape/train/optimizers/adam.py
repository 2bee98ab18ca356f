"""Adam and AdamW."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradtape.train.optimizers.base import Optimizer
from gradtape.train.optimizers.numbers import Numbers, RuleValue
from gradtape.train.optimizers.schedules import LearningRate, Rate


class Adam(Optimizer):
    """Steps scaled by running means of the gradient and of its square (Kingma & Ba, 2015; AMSGrad: Reddi et al., 2018).

    >>> import gradtape as gt
    >>> w = gt.Variable([1.0, -2.0])
    >>> opt = gt.optimizers.Adam(learning_rate=0.1)
    >>> _ = opt.minimize(lambda: gt.reduce_sum(w * w), [w])
    >>> print(w.numpy().round(3))
    [ 0.9 -1.9]
    """

    def __init__(
        self, learning_rate: LearningRate = 0.001, beta_1: float = 0.9, beta_2: float = 0.999, epsilon: float = 1e-07,
        amsgrad: bool = False, weight_decay: float | None = None, clipnorm: float | None = None, clipvalue: float | None = None,
        global_clipnorm: float | None = None, name: str = "adam",
    ) -> None:  # fmt: skip
        self.beta_1, self.beta_2, self.epsilon = float(beta_1), float(beta_2), float(epsilon)
        self.amsgrad = amsgrad
        self.slot_names = ("momentum", "velocity", "velocity_hat") if amsgrad else ("momentum", "velocity")
        super().__init__(learning_rate, weight_decay, clipnorm, clipvalue, global_clipnorm, name)

    def scaled(self, rate: Rate, step: int | RuleValue) -> Any:
        # both running means start at zero: α = η √(1 - β₂ᵗ) / (1 - β₁ᵗ) makes up for it
        return rate * ((1.0 - self.beta_2**step) ** 0.5 / (1.0 - self.beta_1**step))

    def update(self, xp: Numbers, w: RuleValue, g: RuleValue, slots: Sequence[Any], rate: Rate) -> tuple[Any, tuple[Any, ...]]:
        # m ← β₁ m + (1-β₁) g;  v ← β₂ v + (1-β₂) g²;  w ← w - α m / (√v + ε)
        m, v, *peak = slots
        change = g - m
        change *= 1.0 - self.beta_1
        m += change
        change = g * g
        change -= v
        change *= 1.0 - self.beta_2
        v += change
        if peak:
            peak = [xp.maximum(peak[0], v)]  # AMSGrad: the largest v so far
        size = xp.sqrt(peak[0] if peak else v)
        size += self.epsilon
        step = m * rate
        step /= size
        w -= step
        return w, (m, v, *peak)


class AdamW(Adam):
    """Adam with decoupled weight decay: w shrinks by η · weight_decay · w besides (Loshchilov & Hutter, 2019).

    >>> import gradtape as gt
    >>> gt.optimizers.AdamW().weight_decay
    0.004
    """

    def __init__(
        self, learning_rate: LearningRate = 0.001, weight_decay: float = 0.004, beta_1: float = 0.9, beta_2: float = 0.999,
        epsilon: float = 1e-07, amsgrad: bool = False, clipnorm: float | None = None, clipvalue: float | None = None,
        global_clipnorm: float | None = None, name: str = "adamw",
    ) -> None:  # fmt: skip
        if weight_decay is None:
            raise ValueError("AdamW: weight_decay must be a number; use Adam to go without")
        super().__init__(
            learning_rate, beta_1, beta_2, epsilon, amsgrad, weight_decay, clipnorm, clipvalue, global_clipnorm, name
        )
