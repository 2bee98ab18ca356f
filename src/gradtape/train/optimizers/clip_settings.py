"""Bounds on gradients before they are used: by value, by the norm of each, or by the norm of all together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gradtape.train.optimizers.gradients import Rows
from gradtape.train.optimizers.numbers import Numbers, RuleValue


@dataclass(frozen=True)
class Clipping:
    """At most one of the three is set; it is false when none is."""

    norm: float | None
    value: float | None
    global_norm: float | None

    def __post_init__(self) -> None:
        given = {"clipnorm": self.norm, "clipvalue": self.value, "global_clipnorm": self.global_norm}
        chosen = {key: bound for key, bound in given.items() if bound is not None}
        if len(chosen) > 1:
            raise ValueError(f"only one of clipnorm, clipvalue and global_clipnorm can be set, got {chosen}")
        for key, bound in chosen.items():
            if not bound > 0:
                raise ValueError(f"{key} must be positive, got {bound}")

    def __bool__(self) -> bool:
        return self.norm is not None or self.value is not None or self.global_norm is not None

    def clipped(self, gradients: list[Any], xp: Numbers) -> list[Any]:
        if self.norm is not None:
            return [_scaled(g, _shrink(_square(g, xp), self.norm, xp)) for g in gradients]
        if self.value is not None:
            bound = self.value
            return [_mapped(g, lambda v: xp.clip(v, -bound, bound)) for g in gradients]
        total = _square(gradients[0], xp)
        for g in gradients[1:]:
            total = total + _square(g, xp)
        factor = _shrink(total, self.global_norm, xp)  # type: ignore[arg-type]  # the only bound left
        return [_scaled(g, factor, xp) for g in gradients]


def _mapped(gradient: RuleValue | Rows, function: Callable[[Any], Any]) -> Any:
    if isinstance(gradient, Rows):
        return Rows(gradient.indices, function(gradient.values))
    return function(gradient)


def _square(gradient: RuleValue | Rows, xp: Numbers) -> Any:
    values = gradient.values if isinstance(gradient, Rows) else gradient
    return xp.sum(values * values)


def _shrink(square: RuleValue, bound: float, xp: Numbers) -> Any:
    """The factor that brings a norm down to the bound, 1 for a norm below it."""
    return bound / xp.maximum(xp.sqrt(square), bound)


def _scaled(gradient: RuleValue | Rows, factor: RuleValue, xp: Numbers | None = None) -> Any:
    # a norm over variables of several dtypes must not change the dtype of any
    return _mapped(gradient, lambda v: v * (factor if xp is None or factor.dtype == v.dtype else xp.cast(factor, v.dtype)))
