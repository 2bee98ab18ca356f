"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradtape.train.optimizers.base import Optimizer
from gradtape.train.optimizers.numbers import Numbers, RuleValue
from gradtape.train.optimizers.schedules import LearningRate, Rate


class SGD(Optimizer):
    """Gradient descent, with momentum and Nesterov's variant (Sutskever et al., 2013).

    >>> import gradtape as gt
    >>> w = gt.Variable([1.0, 2.0])
    >>> opt = gt.optimizers.SGD(learning_rate=0.5)
    >>> _ = opt.minimize(lambda: gt.reduce_sum(w * w), [w])
    >>> w.numpy()
    array([0., 0.], dtype=float32)
    """

    def __init__(
        self, learning_rate: LearningRate = 0.01, momentum: float = 0.0, nesterov: bool = False,
        weight_decay: float | None = None, clipnorm: float | None = None, clipvalue: float | None = None,
        global_clipnorm: float | None = None, name: str = "SGD",
    ) -> None:  # fmt: skip
        if not 0 <= momentum <= 1:
            raise ValueError(f"SGD: momentum must lie between 0 and 1, got {momentum}")
        self.momentum = float(momentum)
        self.nesterov = nesterov
        self.slot_names = ("momentum",) if momentum else ()
        super().__init__(learning_rate, weight_decay, clipnorm, clipvalue, global_clipnorm, name)

    @property
    def rowwise(self) -> bool:
        return not self.momentum

    def update(self, xp: Numbers, w: RuleValue, g: RuleValue, slots: Sequence[Any], rate: Rate) -> tuple[Any, tuple[Any, ...]]:
        if not self.momentum:
            w -= g * rate
            return w, ()
        # m ← μ m - η g;  w ← w + m, or with Nesterov's look ahead w + μ m - η g
        (m,) = slots
        step = g * rate
        m *= self.momentum
        m -= step
        if self.nesterov:
            w -= step
            w += m * self.momentum
        else:
            w += m
        return w, (m,)
