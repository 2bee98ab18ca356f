"""Data parallelism under TensorFlow's names: one replica per rank, variables that are the same on all of them.

A strategy adds no arithmetic: its variables are replicated values, so the gradient of the replicas' losses in them is already
the sum over all ranks (`rank_gradients.py`), equal everywhere, and optimizers apply it as it is. Invariant: variables made in a
scope start with the values of rank 0 and change on all ranks alike.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

import numpy as np

from gradtape import tree
from gradtape.core.dispatch import convert
from gradtape.core.hooks import HOOKS
from gradtape.core.tensor import Tensor
from gradtape.core.typing import TensorLike
from gradtape.distribute.rank_kinds import MIRRORED, is_replicated
from gradtape.errors import InvalidArgumentError
from gradtape.ops.random_state import STATE
from gradtape.ops.rank_functions import all_gather, all_reduce, broadcast
from gradtape.ops.reduce import reduce_sum
from gradtape.ops.shape import concat
from gradtape.tree import Structure
from gradtape.variables.variable import Variable
from gradtape.variables.variable_creators import variable_creator_scope

T = TypeVar("T")


class ReduceOp(Enum):
    """How values of replicas become one."""

    SUM = "SUM"
    MEAN = "MEAN"


class VariableSynchronization(Enum):
    """When the copies of a variable are made the same: when written, but `ON_READ` ones are each rank's own."""

    AUTO, NONE, ON_WRITE, ON_READ = range(4)


class VariableAggregation(Enum):
    """What becomes of values that differ between replicas when a replica assigns them to a variable that is the same on all."""

    NONE, SUM, MEAN, ONLY_FIRST_REPLICA = range(4)


def _checked(reduce_op: ReduceOp | str) -> ReduceOp:
    try:
        return reduce_op if isinstance(reduce_op, ReduceOp) else ReduceOp(str(reduce_op).upper())
    except ValueError:
        raise InvalidArgumentError(f"reduce_op is SUM or MEAN, got {reduce_op!r}") from None


@dataclass(frozen=True)
class ValueContext:
    """What a function of `experimental_distribute_values_from_function` is told."""

    replica_id_in_sync_group: int
    num_replicas_in_sync: int


class ReplicaContext:
    """Where a function runs that `Strategy.run` was given: one replica of several."""

    def __init__(self, strategy: Strategy) -> None:
        self.strategy = strategy

    @property
    def replica_id_in_sync_group(self) -> int:
        """Which replica this is: the rank."""
        return HOOKS.world.rank

    @property
    def num_replicas_in_sync(self) -> int:
        """How many replicas there are."""
        return HOOKS.world.size

    def all_reduce(self, reduce_op: ReduceOp | str, value: Structure) -> Any:
        """The sum or mean of the replicas' values, on all of them, any structure; differentiable."""
        op = _checked(reduce_op).value.lower()
        for leaf in tree.flatten(value):
            if op == "sum" and HOOKS.world.size > 1 and isinstance(leaf, Tensor) and is_replicated(leaf):
                raise InvalidArgumentError(
                    "all_reduce: this value is the same on all replicas already, as gradients of a strategy's variables are: "
                    "adding it up would count it once for each replica. Use it as it is, or reduce it by MEAN"
                )
        return tree.map_structure(lambda leaf: all_reduce(leaf, op), value)

    def all_gather(self, value: TensorLike, axis: int = 0) -> Tensor:
        """The replicas' values behind one another, on all of them; their lengths along `axis` may differ."""
        return self.strategy.gather(value, axis)


class Strategy:
    """One replica of a model per rank, its variables the same on all.

    >>> import gradtape as gt
    >>> strategy = gt.distribute.MultiWorkerMirroredStrategy()
    >>> with strategy.scope():
    ...     w = gt.Variable(2.0)
    >>> strategy.num_replicas_in_sync
    1
    >>> strategy.run(lambda x: w * x, args=(3.0,)).numpy()
    np.float32(6.0)
    """

    @property
    def num_replicas_in_sync(self) -> int:
        """How many replicas there are: one per rank."""
        return HOOKS.world.size

    @contextlib.contextmanager
    def scope(self) -> Iterator[Strategy]:
        """Variables made in the block start with the values of rank 0 and are kept the same on all ranks."""
        token = _CURRENT.set(self)
        try:
            with variable_creator_scope(_mirrored):
                yield self
        finally:
            _CURRENT.reset(token)

    def run(
        self, fn: Callable[..., T], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None, options: object = None
    ) -> T:
        """`fn(*args, **kwargs)` on every replica, each with its own values; random numbers differ between replicas."""
        token, replica = _REPLICA.set(ReplicaContext(self)), STATE.replica
        current = _CURRENT.set(self)
        STATE.replica = HOOKS.world.rank
        try:
            with variable_creator_scope(_mirrored):
                return fn(*args, **kwargs or {})
        finally:
            STATE.replica = replica
            _CURRENT.reset(current)
            _REPLICA.reset(token)

    def reduce(self, reduce_op: ReduceOp | str, value: Structure, axis: int | None = None) -> Any:
        """The sum or mean of the replicas' values; with `axis`, over that axis of all of them: a mean then counts every entry
        once, however many each replica has."""
        op = _checked(reduce_op)

        def one(leaf: TensorLike) -> Tensor:
            x = convert(leaf)
            if axis is None:
                return all_reduce(x, op.value.lower())
            total = all_reduce(reduce_sum(x, axis=axis))
            return total if op is ReduceOp.SUM else total / all_reduce(convert(float(x.shape[axis]), hint=total.dtype))

        return tree.map_structure(one, value)

    def gather(self, value: TensorLike, axis: int = 0) -> Tensor:
        """The replicas' values behind one another along `axis`, on all ranks; their lengths along it may differ."""
        x = convert(value)
        lengths = [int(n) for n in all_gather(convert(np.int64(x.shape[axis]))).numpy()]
        if len(set(lengths)) == 1:
            return all_gather(x, axis)
        parts = []
        for source, length in enumerate(lengths):  # blocks of different lengths travel one after the other
            like = (
                x
                if source == HOOKS.world.rank
                else np.zeros([length if i == axis else n for i, n in enumerate(x.shape)], x.dtype.dtype)
            )
            parts.append(broadcast(like, source))
        return concat(parts, axis)

    def experimental_distribute_dataset(self, dataset: Iterable[Any], options: object = None) -> _Shares:
        """The replica's share of each batch: rows of equal number, the first ranks having one more where they do not divide."""
        return _Shares(dataset)

    def experimental_distribute_values_from_function(self, value_fn: Callable[[ValueContext], T]) -> T:
        """What `value_fn` gives on this replica."""
        return value_fn(ValueContext(HOOKS.world.rank, HOOKS.world.size))

    def experimental_local_results(self, value: T) -> tuple[T, ...]:
        """The values of the replicas in this process: there is one."""
        return (value,)


class MirroredStrategy(Strategy):
    """Replicas on the ranks of this machine; the same as `MultiWorkerMirroredStrategy`: a rank is a rank."""


class MultiWorkerMirroredStrategy(Strategy):
    """Replicas on the ranks of one or many machines."""


class _Shares:
    """Goes over batches like the dataset it was made of, and gives of each the rows that are this rank's."""

    def __init__(self, dataset: Iterable[Any]) -> None:
        self._dataset = dataset

    def __iter__(self) -> Iterator[Any]:
        for batch in self._dataset:
            yield tree.map_structure(own_rows, batch)

    def __len__(self) -> int:
        return len(self._dataset)  # type: ignore[arg-type]


def own_rows(rows: Any) -> Any:
    """Of an array that all ranks have, the rows that are this rank's."""
    count, ranks, rank = len(rows), HOOKS.world.size, HOOKS.world.rank
    first = rank * (count // ranks) + min(rank, count % ranks)
    part = rows[first : first + count // ranks + (rank < count % ranks)]
    return convert(np.asarray(part)) if isinstance(part, Tensor) and ranks > 1 else part  # which rows differs between ranks


class MirroredVariable(Variable):
    """A variable that is the same on all ranks, whatever replicas assign."""

    __slots__ = ()  # a variable becomes one after it was made: they must look alike in memory
    _aggregation = VariableAggregation.NONE

    def assign(
        self, value: TensorLike, use_locking: bool | None = None, name: str | None = None, read_value: bool = True
    ) -> Variable:
        """Replace the value by what the replicas' values are together."""
        return super().assign(self._together(value, "assign"))

    def assign_add(
        self, delta: TensorLike, use_locking: bool | None = None, name: str | None = None, read_value: bool = True
    ) -> Variable:
        """Add what the replicas' values are together."""
        return super().assign_add(self._together(delta, "assign_add"))

    def assign_sub(
        self, delta: TensorLike, use_locking: bool | None = None, name: str | None = None, read_value: bool = True
    ) -> Variable:
        """Subtract what the replicas' values are together."""
        return super().assign_sub(self._together(delta, "assign_sub"))

    def take_version(self, tensor: Tensor) -> None:
        """What a compiled function assigned: the program has done what is to be done with the replicas' values."""
        super().assign(tensor)

    def _together(self, value: TensorLike, method: str) -> TensorLike:
        if HOOKS.world.size == 1 or _REPLICA.get() is None or isinstance(value, (int, float, complex)):
            return value
        tensor = convert(value) if isinstance(value, (Tensor, Variable)) else convert(value, hint=self.dtype)
        if is_replicated(tensor):
            return tensor
        if self._aggregation is VariableAggregation.NONE:
            raise InvalidArgumentError(
                f"{method}: inside Strategy.run, variable '{self.name}' would get a value that may differ between replicas, "
                "but is the same on all. Say what becomes of such values: gt.Variable(..., aggregation="
                "gt.distribute.VariableAggregation.MEAN), or SUM or ONLY_FIRST_REPLICA; or keep one value per replica with "
                "synchronization=gt.distribute.VariableSynchronization.ON_READ"
            )
        if self._aggregation is VariableAggregation.ONLY_FIRST_REPLICA:
            return broadcast(tensor)
        return all_reduce(tensor, self._aggregation.name.lower())


def _mirrored(next_creator: Callable[..., Variable], **kwargs: Any) -> Variable:
    asked = kwargs.get("aggregation")
    aggregation = VariableAggregation[asked.upper()] if isinstance(asked, str) else asked or VariableAggregation.NONE
    variable = next_creator(**kwargs)
    # one scope in another, as of a strategy around its `run`: done already
    if variable._key in MIRRORED or kwargs.get("synchronization") in (VariableSynchronization.ON_READ, "ON_READ"):
        return variable
    if HOOKS.world.size > 1 and not variable._stored.wraps:
        variable.assign(HOOKS.world.broadcast(variable._stored._data, 0))
    MIRRORED.add(variable._key)
    if type(variable) is Variable:
        variable.__class__ = MirroredVariable
        vars(variable)["_aggregation"] = aggregation
    return variable


_CURRENT: ContextVar[Strategy | None] = ContextVar("gradtape_strategy", default=None)
_REPLICA: ContextVar[ReplicaContext | None] = ContextVar("gradtape_replica", default=None)
_DEFAULT = Strategy()


def get_strategy() -> Strategy:
    """The strategy whose scope is open; outside of all, one that makes ordinary variables.

    >>> import gradtape as gt
    >>> gt.distribute.get_strategy().num_replicas_in_sync
    1
    """
    return _CURRENT.get() or _DEFAULT


def has_strategy() -> bool:
    """Whether the scope of a strategy is open.

    >>> import gradtape as gt
    >>> gt.distribute.has_strategy()
    False
    """
    return _CURRENT.get() is not None


def get_replica_context() -> ReplicaContext | None:
    """The replica that runs, inside `Strategy.run`; None in the scope of a strategy outside of it, as TensorFlow has it.

    >>> import gradtape as gt
    >>> gt.distribute.get_replica_context().replica_id_in_sync_group
    0
    """
    replica = _REPLICA.get()
    return replica if replica is not None or has_strategy() else ReplicaContext(_DEFAULT)


def in_cross_replica_context() -> bool:
    """Whether the scope of a strategy is open and no replica runs.

    >>> import gradtape as gt
    >>> gt.distribute.in_cross_replica_context()
    False
    """
    return has_strategy() and _REPLICA.get() is None
