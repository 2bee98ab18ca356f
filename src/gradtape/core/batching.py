"""Batching rules shared by many ops: how an op is called when some inputs carry a leading batch axis.

A rule is `rule(op, flags, inputs, attrs)`: `flags[i]` says whether input i has the extra axis 0; the result (or each
result) has it too, unless the op says that it is `alike` for all examples. Rules call ordinary ops on ordinary tensors, so
a batched computation can itself be recorded.
"""

from __future__ import annotations

from typing import Any

from gradtape.core import dispatch
from gradtape.core.hooks import HOOKS
from gradtape.core.opdef import Op, Rule
from gradtape.core.record import TRACING, user_location
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Number
from gradtape.errors import InvalidArgumentError


def elementwise(op: Op, flags: tuple[bool, ...], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """Line up the ranks behind the batch axis; broadcasting does the rest."""
    # (batch, n) and an unbatched (m, n): the ranks of one example decide how they broadcast, so unit axes go between the batch
    # axis and the rest, never in front of it.
    rank = max(_rank(x) - flag for x, flag in zip(inputs, flags, strict=True))
    aligned = [
        _insert_axes(x, rank - (_rank(x) - 1)) if flag and _rank(x) - 1 < rank else x
        for x, flag in zip(inputs, flags, strict=True)
    ]
    return dispatch.apply(op, *aligned, **attrs)


def _rank(x: Tensor | Number) -> int:
    return 0 if isinstance(x, (bool, int, float, complex)) else x.ndim


def _insert_axes(x: Tensor, count: int) -> Tensor:
    """Unit axes right behind the batch axis."""
    shape = tuple(x.shape)
    return HOOKS.reshape(x, (shape[0], *([1] * count), *shape[1:]))


def batch_size(flags: tuple[bool, ...], inputs: tuple[Any, ...]) -> int:
    """The length of the batch axis."""
    return next(x.shape[0] for x, flag in zip(inputs, flags, strict=True) if flag)


def all_batched(flags: tuple[bool, ...], inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Every input with the batch axis: the unbatched ones repeated (as a broadcast view)."""
    size = batch_size(flags, inputs)
    return tuple(
        x if flag else HOOKS.broadcast_to(x, (size, *tuple(x.shape))) for x, flag in zip(inputs, flags, strict=True)
    )  # fmt: skip


def shifted(*names: str) -> Rule:
    """A rule for a one-input op whose attributes `names` hold non-negative axes: move them behind the batch axis."""

    def rule(op: Op, flags: tuple[bool, ...], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        moved = dict(attrs)
        for name in names:
            value = attrs[name]
            moved[name] = tuple(a + 1 for a in value) if isinstance(value, tuple) else value + 1
        return dispatch.apply(op, *all_batched(flags, inputs), **moved)

    return rule


def leading(op: Op, flags: tuple[bool, ...], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """For ops that work on the last axes and treat all leading ones alike (linear algebra, FFT): repeat and call."""
    return dispatch.apply(op, *all_batched(flags, inputs), **attrs)


def looped(op: Op, flags: tuple[bool, ...], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """One call per batch entry, stacked: correct for every op; a test lists who still uses it."""
    results = [
        dispatch.apply(op, *(x[i] if flag else x for x, flag in zip(inputs, flags, strict=True)), **attrs)
        for i in range(batch_size(flags, inputs))
    ]
    # Result by result, where an op has several: each gets a batch axis of its own.
    columns = list(zip(*results, strict=True)) if isinstance(results[0], tuple) else [results]
    if (trace := TRACING.get()) is not None:
        for column in columns:
            trace.check_sizes(op, column)
    for column in columns:
        if len(shapes := {tuple(t.shape) for t in column}) > 1 and all(size.__class__ is int for s in shapes for size in s):
            raise InvalidArgumentError(
                f"{user_location()}: `{op.name}` has another shape for each example of a batch (vectorized_map, Jacobians): "
                f"{sorted(shapes)}. Use a tensor of fixed size and a mask (gt.sequence_mask(n, most)), or gt.map_fn"
            )
    stacked = tuple([HOOKS.stack(list(column)) for column in columns])
    return stacked if isinstance(results[0], tuple) else stacked[0]


def rule_of(op: Op) -> Rule:
    """How an op runs on a batch: as its author says; lane-wise ops by lining up ranks, others one example after the other."""
    return op.batch or (elementwise if op.kind == "elementwise" else looped)
