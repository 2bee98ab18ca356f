"""The optimizers: each a rule, with Keras's formulas. What they share is in `base.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradtape.train.optimizers.base import Optimizer
from gradtape.train.optimizers.numbers import Numbers, RuleValue
from gradtape.train.optimizers.schedules import LearningRate, Rate


class SGD(Optimizer):
    """Gradient descent, with momentum and Nesterov's variant (Sutskever et al., 2013).

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


# -- Adam and AdamW --------------------------------------------------------------------------------------------------


class Adam(Optimizer):
    """Steps scaled by running means of the gradient and of its square (Kingma & Ba, 2015; AMSGrad: Reddi et al., 2018).

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


# -- RMSprop, Adagrad and Lion ---------------------------------------------------------------------------------------


class RMSprop(Optimizer):
    """Steps divided by a running root mean square of the gradient (Hinton, 2012); `centered` subtracts its mean.

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


# -- Adadelta, Adamax, Nadam and Ftrl --------------------------------------------------------------------------------


class Adadelta(Optimizer):
    """Steps in the proportion of past steps to past gradients, both as running root mean squares (Zeiler, 2012).

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


__all__ = ["SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "Ftrl", "Lion", "Nadam", "RMSprop"]
