"""Data parallelism under TensorFlow's names: one replica per rank, variables that are the same on all of them.

A strategy adds no arithmetic: its variables are replicated values, so the gradient of the replicas' losses in them is already
the sum over all ranks (`rank_gradients.py`), equal everywhere, and optimizers apply it as it is. Invariant: variables made in a
scope start with the values of rank 0 and change on all ranks alike.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

import numpy as np

from gradtape import tree
from gradtape.core.dispatch import convert
from gradtape.core.hooks import HOOKS
from gradtape.core.tensor import Tensor
from gradtape.core.typing import TensorLike
from gradtape.data.dataset import Dataset
from gradtape.data.elements import ElementStructure, Leaves, mapped
from gradtape.data.shuffling import seeds_of
from gradtape.data.streams import Step, StepStream, Stream
from gradtape.distribute.rank_kinds import is_replicated
from gradtape.distribute.strategy_variables import CURRENT, REPLICA, OnReadVariable, context, create, own_values
from gradtape.errors import InvalidArgumentError
from gradtape.ir.types import TensorSpec
from gradtape.ops.random_state import STATE
from gradtape.ops.rank_functions import all_gather, all_reduce, broadcast
from gradtape.ops.reduce import reduce_sum
from gradtape.ops.shape import concat
from gradtape.tree import Structure
from gradtape.variables.variable_scopes import variable_creator_scope

T = TypeVar("T")


class ReduceOp(Enum):
    """How values of replicas become one."""

    SUM = "SUM"
    MEAN = "MEAN"


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
        token = CURRENT.set(self)
        try:
            with variable_creator_scope(create):
                yield self
        finally:
            CURRENT.reset(token)

    def run(
        self, fn: Callable[..., T], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None, options: object = None
    ) -> T:
        """`fn(*args, **kwargs)` on every replica, each with its own values; random numbers differ between replicas."""
        token, replica = REPLICA.set(ReplicaContext(self)), STATE.replica
        current = CURRENT.set(self)
        if HOOKS.world.size > 1:  # not 0: what is drawn outside of replicas stays the same on all ranks
            STATE.replica = 1 + HOOKS.world.rank
        try:
            with variable_creator_scope(create):
                return fn(*args, **kwargs or {})
        finally:
            STATE.replica = replica
            CURRENT.reset(current)
            REPLICA.reset(token)

    def reduce(self, reduce_op: ReduceOp | str, value: Structure, axis: int | None = None) -> Any:
        """The sum or mean of the replicas' values; with `axis`, over that axis of all of them: a mean then counts every entry
        once, however many each replica has."""
        op = _checked(reduce_op)

        def one(leaf: TensorLike) -> Tensor:
            with own_values():
                x = convert(leaf)
            if axis is None:
                return all_reduce(x, op.value.lower())
            total = all_reduce(reduce_sum(x, axis=axis))
            return total if op is ReduceOp.SUM else total / all_reduce(convert(float(x.shape[axis]), hint=total.dtype))

        return tree.map_structure(one, value)

    def gather(self, value: TensorLike, axis: int = 0) -> Tensor:
        """The replicas' values behind one another along `axis`, on all ranks; their lengths along it may differ."""
        with own_values():
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

    def experimental_distribute_dataset(self, dataset: Iterable[Any], options: object = None) -> Iterable[Any]:
        """The replica's share of each batch: rows of equal number, the first ranks having one more where they do not divide.
        All ranks must have the same batches; of a `gt.data.Dataset` the result is one, too, shuffled on all as on rank 0."""
        if not isinstance(dataset, Dataset):
            return _Shares(dataset)
        # drawn when its stages were made, perhaps before the ranks knew of one another
        for seeds in seeds_of(dataset._stage):
            word, counter, passes = HOOKS.world.broadcast(np.array(seeds.state, np.uint64), 0).tolist()
            seeds.state = word, counter, passes
        return dataset._then(_ShareStage(dataset._stage))

    def experimental_distribute_values_from_function(self, value_fn: Callable[[ValueContext], T]) -> T:
        """What `value_fn` gives on this replica."""
        return value_fn(ValueContext(HOOKS.world.rank, HOOKS.world.size))

    def experimental_local_results(self, value: Any) -> tuple[Any, ...]:
        """The values of the replicas in this process: there is one."""
        with own_values():
            return (value.read_value() if isinstance(value, OnReadVariable) else value,)


class MirroredStrategy(Strategy):
    """Replicas on the ranks of this machine; the same as `MultiWorkerMirroredStrategy`: a rank is a rank."""


class MultiWorkerMirroredStrategy(Strategy):
    """Replicas on the ranks of one or many machines."""


class _ShareStage(Step):
    """Of each element of a dataset, a batch, the rows that are this rank's."""

    def element_structure(self) -> ElementStructure:
        whole = self.source.structure.template
        return ElementStructure(mapped(lambda spec: TensorSpec((None, *tuple(spec.shape)[1:]), spec.dtype), whole))

    def open(self) -> Stream:
        return _ShareStream(self.source.open())


class _ShareStream(StepStream):
    """One pass."""

    first = True

    def __next__(self) -> Leaves:
        leaves = tuple([own_rows(leaf, self.first) for leaf in next(self.source)])
        self.first = False
        return leaves


class _Shares:
    """Goes over batches like the dataset it was made of, and gives of each the rows that are this rank's."""

    def __init__(self, dataset: Iterable[Any]) -> None:
        self._dataset = dataset

    def __iter__(self) -> Iterator[Any]:
        for number, batch in enumerate(self._dataset):
            yield tree.map_structure(lambda rows: own_rows(rows, not number), batch)  # noqa: B023  (called here)

    def __len__(self) -> int:
        return len(self._dataset)  # type: ignore[arg-type]


def own_rows(rows: Any, first_batch: bool = False) -> Any:
    """Of an array that all ranks have, the rows that are this rank's. The last batch of many may be too small for all."""
    if not np.ndim(rows):
        raise InvalidArgumentError(
            "experimental_distribute_dataset: an element is a batch, whose rows are split over the replicas, but one is a "
            "single number; use dataset.batch(global_batch_size) first"
        )
    count, ranks, rank = len(rows), HOOKS.world.size, HOOKS.world.rank
    if first_batch and count < ranks:
        raise InvalidArgumentError(
            f"experimental_distribute_dataset: the first batch has {count} rows for {ranks} replicas, so that some would never "
            f"have any (this is rank {rank}); start at most {max(count, 1)} ranks, or make batches larger"
        )
    first = rank * (count // ranks) + min(rank, count % ranks)
    part = rows[first : first + count // ranks + (rank < count % ranks)]
    return convert(np.asarray(part)) if isinstance(part, Tensor) and ranks > 1 else part  # which rows differs between ranks


_DEFAULT = Strategy()


def get_strategy() -> Strategy:
    """The strategy whose scope is open; outside of all, one that makes ordinary variables.

    >>> import gradtape as gt
    >>> gt.distribute.get_strategy().num_replicas_in_sync
    1
    """
    return context("strategy") or _DEFAULT


def has_strategy() -> bool:
    """Whether the scope of a strategy is open.

    >>> import gradtape as gt
    >>> gt.distribute.has_strategy()
    False
    """
    return context("strategy") is not None


def get_replica_context() -> ReplicaContext | None:
    """The replica that runs, inside `Strategy.run`; None in the scope of a strategy outside of it, as TensorFlow has it.

    >>> import gradtape as gt
    >>> gt.distribute.get_replica_context().replica_id_in_sync_group
    0
    """
    if context("replica_runs"):
        return REPLICA.get()
    return None if has_strategy() else ReplicaContext(_DEFAULT)


def in_cross_replica_context() -> bool:
    """Whether the scope of a strategy is open and no replica runs.

    >>> import gradtape as gt
    >>> gt.distribute.in_cross_replica_context()
    False
    """
    return has_strategy() and not context("replica_runs")
