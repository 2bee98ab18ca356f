"""`ExponentialMovingAverage`: smoothed copies of variables, for evaluation."""

from __future__ import annotations

from collections.abc import Sequence

from gradtape.core.dispatch import convert
from gradtape.core.typing import Real
from gradtape.errors import InvalidArgumentError
from gradtape.ops.elementwise import cast
from gradtape.ops.select import minimum
from gradtape.variables.variable import Variable


class ExponentialMovingAverage:
    """Averages of variables that forget: each `apply` moves them by 1 - decay of the way to the present values.

    >>> w = gt.Variable(0.0)
    >>> ema = gt.train.ExponentialMovingAverage(decay=0.75)
    >>> ema.apply([w])
    >>> _ = w.assign(8.0)
    >>> ema.apply([w])
    >>> float(ema.average(w))
    2.0
    """

    def __init__(
        self, decay: Real, num_updates: Real | None = None, zero_debias: bool = False, name: str = "ExponentialMovingAverage"
    ) -> None:
        if zero_debias:
            raise InvalidArgumentError("ExponentialMovingAverage: averages begin at the variables' values: nothing to debias")
        self.decay, self.num_updates, self.name = decay, num_updates, name
        self._averages: dict[object, Variable] = {}

    def apply(self, var_list: Sequence[Variable]) -> None:
        """Move the averages of these variables; the first time, they begin at the variables' values."""
        for variable in var_list:
            average = self._averages.get(variable.ref())
            if average is None:
                name = f"{self.name}/{variable.name}"
                average = self._averages[variable.ref()] = Variable(variable.value(), trainable=False, name=name)
            decay = cast(convert(self.decay, hint=average.dtype), average.dtype)
            if self.num_updates is not None:
                count = cast(convert(self.num_updates, hint=average.dtype), average.dtype)
                decay = minimum(decay, (1.0 + count) / (10.0 + count))
            average.assign_sub((1.0 - decay) * (average - variable))

    def average(self, var: Variable) -> Variable | None:
        """The variable that holds the average; None if `apply` has not seen it."""
        return self._averages.get(var.ref())
