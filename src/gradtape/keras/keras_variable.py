"""Keras's variables, each the owner of a `gt.Variable`: sources of tapes, state of compiled functions, written by optimizers.

What Keras adds (initializers that wait, stateless scopes, autocasting, paths) is its `KerasVariable`; what a variable is to
tapes and programs is gradtape's. Invariant: `variable()` is the one `gt.Variable` behind it for its whole life.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from keras.src.backend.common import KerasVariable
from keras.src.backend.common.stateless_scope import get_stateless_scope, in_stateless_scope

from gradtape.core.dispatch import convert
from gradtape.core.tensor import Readable, Tensor
from gradtape.core.typing import DTypeLike, TensorLike
from gradtape.keras.core_ops import convert_to_tensor, is_float
from gradtape.ops.create import zeros
from gradtape.trace.effects import active
from gradtape.variables.variable import Variable as EngineVariable


class WrappedVariable(KerasVariable, Readable):
    """A variable of a Keras layer, optimizer or metric."""

    def _initialize(self, value: TensorLike) -> None:
        start = convert_to_tensor(value, dtype=self._dtype)
        # strategies ask for the last two. Of statistics that layers keep, which Keras says nothing of, the mean is taken;
        # counters and states of random generators are the same on all replicas.
        trainable, aggregation = self._trainable and is_float(self._dtype), getattr(self, "_aggregation", "none")
        if aggregation == "none" and not trainable:
            aggregation = "mean" if is_float(self._dtype) else "only_first_replica"
        self._value = EngineVariable(
            start, trainable=trainable, name=self.path, aggregation=aggregation,
            synchronization=getattr(self, "_synchronization", None),
        )  # fmt: skip

    def _deferred_initialize(self) -> None:
        super()._deferred_initialize()

    def _direct_assign(self, value: Tensor) -> None:
        self._value.assign(value)

    def _convert_to_tensor(self, value: TensorLike, dtype: DTypeLike | None = None) -> Tensor:
        return convert_to_tensor(value, dtype=dtype)

    def _maybe_autocast(self, value: Any) -> Any:
        return super()._maybe_autocast(convert(value) if isinstance(value, EngineVariable) else value)

    @property
    def value(self) -> Tensor:
        # before it has a value only its shape and dtype are asked for, unless a value was assigned in the scope
        if self._value is None and in_stateless_scope() and get_stateless_scope().get_current_value(self) is None:
            return super()._maybe_autocast(zeros(self._shape, self._dtype))
        return super().value

    def read(self) -> Tensor:
        """The current value as a tensor, watched by tapes."""
        return self.value

    def variable(self) -> Readable:
        """The variable that tapes know."""
        if self._value is None:
            raise ValueError(f"the variable {self.path} has no value yet: call the layer once, or `build` it")
        return self._value

    def numpy(self) -> Any:
        return np.asarray(self.value.numpy())

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Any:
        return np.asarray(self.value.__array__(dtype))

    @KerasVariable.trainable.setter
    def trainable(self, value: bool) -> None:
        self._trainable = bool(value)
        if isinstance(self._value, EngineVariable):
            self._value._trainable = self._trainable and is_float(self._dtype)

    def __repr__(self) -> str:
        known = self._value is not None and active() is None  # while a function is traced it has no value to show
        value = f", value={self._value.numpy()}" if known else ""
        return f"<Variable path={self.path}, shape={self.shape}, dtype={self.dtype}{value}>"

    def __hash__(self) -> int:
        return id(self)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    __reduce_ex__ = object.__reduce_ex__


Variable = WrappedVariable  # what Keras calls the class that it finds in this seat
