"""Variables of strategies: the same on all ranks, or each rank's own until all read it together.

What a strategy's variable does depends on whether a replica runs (inside `Strategy.run`) or not. Compiled functions that
found out are bound to it by a guard: `context` is the one way to ask.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from enum import Enum
from typing import Any, Self

from gradtape.core.dispatch import convert
from gradtape.core.hooks import HOOKS
from gradtape.core.tensor import Tensor, box
from gradtape.core.typing import TensorLike
from gradtape.distribute.rank_kinds import MIRRORED, is_replicated
from gradtape.errors import InvalidArgumentError
from gradtape.ops.rank_functions import all_reduce, broadcast
from gradtape.trace.effects import active
from gradtape.variables.indexed_slices import IndexedSlices
from gradtape.variables.variable import Variable

CURRENT: ContextVar[Any] = ContextVar("gradtape_strategy", default=None)  # the strategy whose scope is open
REPLICA: ContextVar[Any] = ContextVar("gradtape_replica", default=None)  # the replica that runs
_OWN: ContextVar[bool] = ContextVar("gradtape_own_values", default=False)


class _StrategyContext:
    """Which strategy and replica there are; an object, since guards read attributes."""

    @property
    def strategy(self) -> Any:
        return CURRENT.get()

    @property
    def replica_runs(self) -> bool:
        return REPLICA.get() is not None


_CONTEXT = _StrategyContext()


def context(name: str) -> Any:
    """`strategy` or `replica_runs`; a function that is traced now is traced anew where it is another."""
    value, tracer = getattr(_CONTEXT, name), active()
    if tracer is not None:
        tracer.guards.label(_CONTEXT, "gt.distribute")
        tracer.guards.attribute(_CONTEXT, name, value)
    return value


class VariableSynchronization(Enum):
    """When the copies of a variable are made one: when a replica writes it (`AUTO`, `ON_WRITE`), or `ON_READ`: each rank has a
    value of its own, and reading it outside of replicas gives what they are together."""

    AUTO, NONE, ON_WRITE, ON_READ = range(4)


class VariableAggregation(Enum):
    """What becomes of values that differ between replicas, when one is assigned to a variable that is the same on all, or when
    an `ON_READ` variable is read."""

    NONE, SUM, MEAN, ONLY_FIRST_REPLICA = range(4)

    def of(self, tensor: Tensor) -> Tensor:
        """One value of the replicas' values."""
        if self is VariableAggregation.ONLY_FIRST_REPLICA:
            return broadcast(tensor)
        return all_reduce(tensor, self.name.lower())


class MirroredVariable(Variable):
    """A variable that is the same on all ranks, whatever replicas assign."""

    __slots__ = ()  # a variable becomes one after it was made: they must look alike in memory
    _aggregation = VariableAggregation.NONE

    def assign(
        self, value: TensorLike, use_locking: bool | None = None, name: str | None = None, read_value: bool = True
    ) -> Self:
        """Replace the value by what the replicas' values are together."""
        return super().assign(self._together(value, "assign"))

    def assign_add(
        self, delta: TensorLike, use_locking: bool | None = None, name: str | None = None, read_value: bool = True
    ) -> Self:
        """Add what the replicas' values are together."""
        return super().assign_add(self._together(delta, "assign_add"))

    def assign_sub(
        self, delta: TensorLike, use_locking: bool | None = None, name: str | None = None, read_value: bool = True
    ) -> Self:
        """Subtract what the replicas' values are together."""
        return super().assign_sub(self._together(delta, "assign_sub"))

    def _together(self, value: TensorLike, method: str) -> TensorLike:
        if HOOKS.world.size == 1 or isinstance(value, (int, float, complex)) or not context("replica_runs"):
            return value
        tensor = convert(value) if isinstance(value, (Tensor, Variable)) else convert(value, hint=self.dtype)
        if _is_common(tensor):
            return tensor
        if self._aggregation is VariableAggregation.NONE:
            raise InvalidArgumentError(
                f"{method}: inside Strategy.run, variable '{self.name}' would get a value that may differ between replicas, "
                "but is the same on all. Say what becomes of such values: gt.Variable(..., aggregation="
                "gt.distribute.VariableAggregation.MEAN), or SUM or ONLY_FIRST_REPLICA; or keep one value per replica with "
                "synchronization=gt.distribute.VariableSynchronization.ON_READ"
            )
        return self._aggregation.of(tensor)


class OnReadVariable(Variable):
    """A variable of which each rank has its own value, as metrics count: replicas read and write theirs without talking; read
    outside of replicas, where all ranks must do it, it is the sum or mean of them."""

    __slots__ = ()
    _aggregation = VariableAggregation.NONE

    def read(self) -> Tensor:
        """The replica's own version; outside of replicas, what all versions are together."""
        return self._combined(super().read())

    @property
    def _shown(self) -> Tensor:
        return self._combined(self._tensor)

    def _combined(self, own: Tensor) -> Tensor:
        return own if self._is_own() else self._aggregation.of(own)

    def _is_own(self) -> bool:
        """Whether it now stands for this rank's value alone."""
        return self._aggregation is VariableAggregation.NONE or _OWN.get() or context("replica_runs")

    def assign(
        self, value: TensorLike, use_locking: bool | None = None, name: str | None = None, read_value: bool = True
    ) -> Self:
        """Replace the replica's own value; outside of replicas, so that reading gives `value`: of a sum each has its part."""
        if self._aggregation is VariableAggregation.SUM and not self._is_own():
            tensor = convert(value) if isinstance(value, (Tensor, Variable)) else convert(value, hint=self.dtype)
            if tensor.dtype.is_differentiable:
                value = tensor / HOOKS.world.size
            elif HOOKS.world.rank:  # what cannot be divided is on rank 0
                value = tensor * 0
        return super().assign(value)

    def _step(self, delta: TensorLike, ufunc: Any, operate: Callable[[Tensor, Tensor], Tensor], method: str) -> Self:
        tensor = self._checked(delta, method)
        if self._aggregation is VariableAggregation.SUM and not self._is_own():
            return self.assign(operate(self.read(), tensor))  # one is added to the sum, not one by each replica
        with own_values():
            return super()._step(tensor, ufunc, operate, method)

    def __repr__(self) -> str:
        with own_values():  # printing must not wait for other ranks
            return super().__repr__()


def _is_common(tensor: Tensor) -> bool:
    """Whether a value is the same on all ranks: replicated, or made of numbers alone."""
    return (not tensor.wraps and tensor._node is None) or is_replicated(tensor)


def check_gradient(gradient: Tensor | IndexedSlices, variable: Variable) -> None:
    """Refuse a gradient that may differ between the replicas of a variable that does not."""
    parts = (gradient.values, gradient.indices) if isinstance(gradient, IndexedSlices) else (gradient,)
    if variable._key in MIRRORED and context("replica_runs") and not all(map(_is_common, parts)):
        raise InvalidArgumentError(
            f"apply_gradients: inside Strategy.run, the gradient of variable '{variable.name}' may differ between replicas, "
            "but the variable is the same on all. What a tape gives for a strategy's variable is the sum over replicas; of "
            "another value make one with gt.distribute.all_reduce(gradient), or all_reduce(gradient, 'mean')"
        )


@contextlib.contextmanager
def own_values() -> Iterator[None]:
    """In the block `ON_READ` variables are what this rank has, as in a replica."""
    token = _OWN.set(True)
    try:
        yield
    finally:
        _OWN.reset(token)


def _member(kind: Any, asked: Any) -> Any:
    return kind[asked.upper()] if isinstance(asked, str) else asked or kind(0)


def create(next_creator: Callable[..., Variable], **kwargs: Any) -> Variable:
    """Make a variable in the scope of a strategy."""
    aggregation = _member(VariableAggregation, kwargs.get("aggregation"))
    on_read = _member(VariableSynchronization, kwargs.get("synchronization")) is VariableSynchronization.ON_READ
    if on_read and kwargs.get("trainable") is None:
        kwargs["trainable"] = False
    variable = next_creator(**kwargs)
    # one scope in another, as of a strategy around its `run`: done already
    if variable._key in MIRRORED or isinstance(variable, OnReadVariable):
        return variable
    if not on_read:
        if HOOKS.world.size > 1 and not variable._stored.wraps:
            # (no assignment: of a function that is traced it would be a step)
            start = variable._stored
            watched = start._node is not None and bool(start._node.keys)
            variable._stored = box(HOOKS.world.broadcast(start._data, 0), start._node if watched else None)
        MIRRORED.add(variable._key)
    if type(variable) is Variable:
        variable.__class__ = OnReadVariable if on_read else MirroredVariable
        vars(variable)["_aggregation"] = aggregation
    return variable
