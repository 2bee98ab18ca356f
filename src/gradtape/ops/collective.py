"""Operations between the ranks of a parallel run: sums, gathers, exchanges, messages, with derivatives of any order.

Each primitive is linear, from array to array, so its adjoint is a primitive again: the table is closed under transposition.
Every rank calls the same ones in the same order; an adjoint is called by all ranks that called the operation, in the opposite
order. What travels is said here; how, by `HOOKS.world`: one rank alone (`OneRank`), or MPI, which `distribute/` puts there.

The last input, `world`, stands for the other ranks. Its value is never read; every recorder watches it, so that an operation is
recorded on all ranks if it is on one, whether or not its own part of the input is watched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from gradtape.config import launched_ranks
from gradtape.core import batching
from gradtape.core.dispatch import apply, convert
from gradtape.core.hooks import HOOKS
from gradtape.core.opdef import Memory, Op, Rule, Sample, general, linear
from gradtape.core.record import LOCAL, REPLICATED, SCOPE, TRACING, leaf
from gradtape.core.tensor import Tensor, box
from gradtape.core.typing import Array
from gradtape.dtypes import as_dtype, numpy_dtype
from gradtape.errors import InvalidArgumentError
from gradtape.ir.types import TensorSpec
from gradtape.ops.sampling import normal


class OneRank:
    """The world of a process that runs alone. Arrays are C-contiguous; results are new ones."""

    rank = 0
    size = 1
    label = ""  # who speaks, where several ranks do
    natively: Any = None  # what native code must know to do the same, if it can

    def all_reduce(self, x: Array, kind: str) -> Array:
        """`kind` of the ranks' arrays, element by element: sum, max or min."""
        return np.array(x)[()]

    def all_gather(self, x: Array) -> Array:
        """The ranks' arrays, stacked."""
        return np.array(x)[None]

    def reduce_scatter(self, x: Array) -> Array:
        """The sum of what the ranks have for this one, their `x[rank]`."""
        return np.array(x[0])[()]

    def all_to_all(self, x: Array) -> Array:
        """Row r is what rank r has for this one."""
        return np.array(x)

    def broadcast(self, x: Array, root: int) -> Array:
        """The array of rank `root`."""
        return np.array(x)[()]

    def reduce(self, x: Array, root: int) -> Array:
        """The sum on rank `root`, zeros on others."""
        return np.array(x)[()]

    def gather(self, x: Array, root: int) -> Array:
        """The ranks' arrays, stacked, on rank `root`; zeros on others."""
        return np.array(x)[None]

    def scatter(self, x: Array, root: int) -> Array:
        """Row `rank` of the array of rank `root`."""
        return np.array(x[0])[()]

    def sendrecv(self, x: Array, dest: int, source: int, tag: int) -> Array:
        """What rank `source` sends here while `x` goes to `dest`; -1 is nobody, and zeros come from there."""
        return np.array(x)[()] if source == 0 else np.zeros_like(x)[()]

    def edges(self, x: Array, periodic: bool) -> Array:
        """`x[1]` of the rank below and `x[0]` of the rank above; zeros beyond the ends, unless the ranks form a ring."""
        return np.array(x[::-1]) if periodic else np.zeros_like(x)

    def meet(self, words: str) -> None:
        """All ranks have come to one place, which `words` name; an error where they have not."""

    def failed(self, block: Any, error: object) -> None:
        """A compiled program ended with an error: whoever waits for it must hear it."""

    def send(self, x: Array, dest: int, tag: int) -> None:
        """`x` goes to rank `dest`."""
        raise InvalidArgumentError("send: there is no other rank to send to")

    def recv(self, shape: tuple[int, ...], dtype: np.dtype[Any], source: int, tag: int) -> Array:
        """What rank `source` sends."""
        raise InvalidArgumentError("recv: there is no other rank to receive from")


HOOKS.world = OneRank()
HOOKS.array_kind = LOCAL if launched_ranks() > 1 else None


def _communicator(op: Op) -> Callable[..., Tensor]:
    """The function that rules and public functions call an op by: it records the call wherever anybody records."""

    def call(*inputs: Any, **attrs: Any) -> Tensor:
        trace, scope = TRACING.get(), SCOPE.get()
        if trace is not None and not any(x.wraps for x in inputs):
            return trace.emit(op, (*inputs, 0.0), attrs)
        recorders = scope.recorders if scope is not None and trace is None and HOOKS.world.size > 1 else ()
        if not recorders:
            out = apply(op, *inputs, 0.0, **attrs)
        else:
            world = leaf(scope.keys, ())  # type: ignore[union-attr]  # it has recorders
            for recorder in recorders:
                recorder.meets_world(world)
            out = _told(apply(op, *inputs, box(np.float32(0), world), **attrs))
        if HOOKS.world.size > 1 and out.__class__ is Tensor and (out._node is None or not out._node.keys):
            out._node = REPLICATED if op in REPLICATING else LOCAL
        return out

    call.op = op  # type: ignore[attr-defined]
    call.__name__ = call.__qualname__ = op.name
    return call


def _told(out: Tensor) -> Tensor:
    """Tell who records of an operation that ran; of one on batches, when it runs on all examples together."""
    scope, node = SCOPE.get(), out._node
    if scope is not None and node is not None and TRACING.get() is None and HOOKS.world.size > 1 and not out.wraps:
        for recorder in scope.recorders:
            recorder.communicated(node, out.dtype)
    return out


def _linear(
    name: str, impl: Rule, adjoint: Rule, infer: Rule, batch: Rule, args: str = "x world", samples: Rule | None = None,
    call: Rule | None = None,
) -> Op:  # fmt: skip
    op = linear(name, args, impl, adjoint, infer=infer, batch=batch, memory=Memory.FRESH, samples=samples, call=call)
    return replace(op, effect=True)


# -- with a batch axis in front: all examples travel together, and the axis of ranks must come first -----------------------


def _together(flags: tuple[bool, ...], inputs: tuple[Any, ...]) -> tuple[Any, Any]:
    """All examples of `x`, and the world, which is one for all."""
    x, world = inputs
    return x if flags[0] else broadcast_to(x, (world.shape[0], *tuple(x.shape))), 0.0 if flags[1] else world


def _alike(op: Op, flags: tuple[bool, ...], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    return _told(apply(op, *_together(flags, inputs), **attrs))


def _rows_given(op: Op, flags: tuple[bool, ...], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """Of an op whose input has an axis of ranks."""
    x, world = _together(flags, inputs)
    return _told(apply(op, second_first(x), world, **attrs))


def _rows_made(op: Op, flags: tuple[bool, ...], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """Of an op whose result has one."""
    return second_first(_told(apply(op, *_together(flags, inputs), **attrs)))


def _rows_kept(op: Op, flags: tuple[bool, ...], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    return second_first(_rows_given(op, flags, inputs, attrs))


# -- primitives -----------------------------------------------------------------------------------------------------------


def _same(x: TensorSpec, world: TensorSpec, **attrs: Any) -> TensorSpec:
    return TensorSpec(x.shape, x.dtype)


def _row(x: TensorSpec, world: TensorSpec, **attrs: Any) -> TensorSpec:
    return TensorSpec(tuple(x.shape)[1:], x.dtype)


def _rows(x: TensorSpec, world: TensorSpec, *, ranks: int, **attrs: Any) -> TensorSpec:
    return TensorSpec((ranks, *tuple(x.shape)), x.dtype)


# y_r = Σ_s x_s on every rank r, so x̄_s = Σ_r ȳ_r
ALL_SUM = _linear(
    "all_sum",
    lambda x, world=0.0: HOOKS.world.all_reduce(x, "sum"),
    lambda ct: (all_sum(ct), None),
    _same, _alike,
    call=lambda x: all_sum(convert(x)),
    samples=lambda: [Sample(normal(2, 3)), Sample(normal()), Sample(normal(2) + 1j * normal(2))],
)  # fmt: skip
# y_r[s] = x_s, so x̄_s = Σ_r ȳ_r[s]
ALL_STACK = _linear(
    "all_stack",
    lambda x, world=0.0, *, ranks: HOOKS.world.all_gather(x),
    lambda ct: (sum_scatter(ct), None),
    _rows, _rows_made,
    call=lambda x: all_stack(convert(x), ranks=HOOKS.world.size),
    samples=lambda: [Sample(normal(2, 3)), Sample(normal())],
)  # fmt: skip
SUM_SCATTER = _linear(
    "sum_scatter",
    lambda x, world=0.0: HOOKS.world.reduce_scatter(x),
    lambda ct, x_spec: (all_stack(ct, ranks=x_spec.shape[0]), None),
    _row, _rows_given,
    call=lambda x: sum_scatter(convert(x)),
    samples=lambda: [Sample(normal(1, 3)), Sample(normal(1))],
)  # fmt: skip
# y_r[s] = x_s[r]: its own transpose
ALL_SWAP = _linear(
    "all_swap",
    lambda x, world=0.0: HOOKS.world.all_to_all(x),
    lambda ct: (all_swap(ct), None),
    _same, _rows_kept,
    call=lambda x: all_swap(convert(x)),
    samples=lambda: [Sample(normal(1, 3)), Sample(normal(1))],
)  # fmt: skip
# y_r = x_root, so x̄_root = Σ_r ȳ_r, and no other rank's x matters
FROM_ROOT = _linear(
    "from_root",
    lambda x, world=0.0, *, root: HOOKS.world.broadcast(x, root),
    lambda ct, root: (sum_to_root(ct, root=root), None),
    _same, _alike,
    call=lambda x, root=0: from_root(convert(x), root=root),
    samples=lambda: [Sample(normal(2, 3)), Sample(normal())],
)  # fmt: skip
SUM_TO_ROOT = _linear(
    "sum_to_root",
    lambda x, world=0.0, *, root: HOOKS.world.reduce(x, root),
    lambda ct, root: (from_root(ct, root=root), None),
    _same, _alike,
    call=lambda x, root=0: sum_to_root(convert(x), root=root),
    samples=lambda: [Sample(normal(2, 3)), Sample(normal())],
)  # fmt: skip
# y_root[s] = x_s, zeros elsewhere, so x̄_s = ȳ_root[s]
STACK_ON_ROOT = _linear(
    "stack_on_root",
    lambda x, world=0.0, *, root, ranks: HOOKS.world.gather(x, root),
    lambda ct, root: (rows_of_root(ct, root=root), None),
    _rows, _rows_made,
    call=lambda x, root=0: stack_on_root(convert(x), root=root, ranks=HOOKS.world.size),
    samples=lambda: [Sample(normal(2, 3)), Sample(normal())],
)  # fmt: skip
ROWS_OF_ROOT = _linear(
    "rows_of_root",
    lambda x, world=0.0, *, root: HOOKS.world.scatter(x, root),
    lambda ct, root, x_spec: (stack_on_root(ct, root=root, ranks=x_spec.shape[0]), None),
    _row, _rows_given,
    call=lambda x, root=0: rows_of_root(convert(x), root=root),
    samples=lambda: [Sample(normal(1, 3)), Sample(normal(1))],
)  # fmt: skip
# what goes there comes back as a cotangent
SWAP_WITH = _linear(
    "swap_with",
    lambda x, world=0.0, *, dest, source, tag: HOOKS.world.sendrecv(x, dest, source, tag),
    lambda ct, dest, source, tag: (swap_with(ct, dest=source, source=dest, tag=tag), None),
    _same, _alike,
    call=lambda x, dest=0, source=0: swap_with(convert(x), dest=dest, source=source, tag=0),
    samples=lambda: [Sample(normal(2, 3)), Sample(normal(2), -1, -1)],
)  # fmt: skip
# y_r[0] = x_{r-1}[1] and y_r[1] = x_{r+1}[0], so x̄_r[1] = ȳ_{r+1}[0] and x̄_r[0] = ȳ_{r-1}[1]: its own transpose
SWAP_EDGES = _linear(
    "swap_edges",
    lambda x, world=0.0, *, periodic: HOOKS.world.edges(x, periodic),
    lambda ct, periodic: (swap_edges(ct, periodic=periodic), None),
    _same, _rows_kept,
    call=lambda x, periodic=False: swap_edges(convert(x), periodic=periodic),
    samples=lambda: [Sample(normal(2, 3)), Sample(normal(2, 3), True)],
)  # fmt: skip


def _sent(x: Array, world: float = 0.0, *, dest: int, tag: int) -> Array:
    HOOKS.world.send(x, dest, tag)
    return np.zeros((), x.dtype)[()]


# A message has no result on this side but a zero, which every backward pass starts from: its cotangent comes from the receiver.
SEND = _linear(
    "send_to", _sent,
    lambda ct, x_spec, dest, tag: (recv_from(shape=tuple(x_spec.shape), dtype=x_spec.dtype, source=dest, tag=tag), None),
    lambda x, world, *, dest, tag: TensorSpec((), x.dtype), batching.looped,
)  # fmt: skip
RECV = _linear(
    "recv_from",
    lambda world=0.0, *, shape, dtype, source, tag: HOOKS.world.recv(tuple(shape), numpy_dtype(dtype), source, tag),
    lambda ct, source, tag: _only_sent(send_to(ct, dest=source, tag=tag)),
    lambda world, *, shape, dtype, source, tag: TensorSpec(shape, dtype), batching.looped, args="world",
)  # fmt: skip


def _only_sent(zero: Any) -> None:
    """No cotangent of ours is left when a message is on its way."""


def _share(x: Tensor, out: Tensor) -> Tensor:
    """Of the derivative of an extreme: one, shared by the ranks that have it."""
    mine = cast(equal(x, out), x.dtype)
    return mine / all_sum(mine)


# y_r = max_s x_s: the ranks whose x it is share the cotangents of all
ALL_EXTREME = replace(
    general(
        "all_extreme", "x world",
        lambda x, world=0.0, *, kind: HOOKS.world.all_reduce(x, kind),
        vjps=(lambda ct, x, out: all_sum(ct) * _share(x, out), None),
        jvp=lambda tangents, x, out: all_sum((zeros_like(x) if tangents[0] is None else tangents[0]) * _share(x, out)),
        infer=_same, batch=_alike,
        call=lambda x, kind="max": all_extreme(convert(x), kind=kind),
        samples=lambda: [Sample(normal(2, 3)), Sample(normal(3), "min")],
    ),
    effect=True,
)  # fmt: skip

all_sum, all_stack, sum_scatter, all_swap = (_communicator(op) for op in (ALL_SUM, ALL_STACK, SUM_SCATTER, ALL_SWAP))
from_root, sum_to_root = _communicator(FROM_ROOT), _communicator(SUM_TO_ROOT)
stack_on_root, rows_of_root = _communicator(STACK_ON_ROOT), _communicator(ROWS_OF_ROOT)
swap_with, swap_edges, send_to, recv_from = (_communicator(op) for op in (SWAP_WITH, SWAP_EDGES, SEND, RECV))
all_extreme = _communicator(ALL_EXTREME)

CALLS: dict[Op, Callable[..., Tensor]] = {  # how who has the op calls it, the world being left out
    call.op: call  # type: ignore[attr-defined]
    for call in (
        all_sum, all_stack, sum_scatter, all_swap, from_root, sum_to_root, stack_on_root, rows_of_root, swap_with, swap_edges,
        send_to, recv_from, all_extreme,
    )
}  # fmt: skip
REPLICATING = frozenset((ALL_SUM, ALL_EXTREME, ALL_STACK, FROM_ROOT))  # what they give is the same on all ranks

OPS = (
    ALL_SUM, ALL_STACK, SUM_SCATTER, ALL_SWAP, FROM_ROOT, SUM_TO_ROOT, STACK_ON_ROOT, ROWS_OF_ROOT, SWAP_WITH, SWAP_EDGES,
    ALL_EXTREME,
)  # fmt: skip
MESSAGES = (SEND, RECV)  # they need another rank: no sample can run alone
COMMUNICATIONS = frozenset((*OPS, *MESSAGES))


HEADER = 256  # bytes that go ahead of a message: what it is, and who sent it where
INLINE = 4096 - HEADER  # bytes of data, or fewer, that travel with it


def _post(op: Op, apart: bool, headers: int = 0) -> tuple[Op, Op]:
    """An op in two halves: one sends and does not wait, the other waits. Between them are a buffer that others write to, one
    that they read (where that is another, `apart`), and MPI's requests: their number first, 0 where all is done already, and
    behind them the headers that are on their way."""
    words = 5 + headers * HEADER // 8

    def posted(x: Array, world: float = 0.0, **attrs: Any) -> tuple[Array, ...]:
        return (op.impl(x, world, **attrs), *([x] if apart else []), np.zeros(words, np.int64))

    def infer(x: TensorSpec, world: TensorSpec, **attrs: Any) -> tuple[TensorSpec, ...]:
        return (*[TensorSpec(x.shape, x.dtype)] * (1 + apart), TensorSpec((words,), as_dtype(np.int64)))

    why = "made of an operation that has one, when the program is complete"
    first = Op(f"{op.name}_posted", "nondiff", op.args, posted, infer, outputs=2 + apart, reason=why, effect=True)
    last = Op(
        f"{op.name}_awaited", "nondiff", ("out", "*posted"), lambda out, *posted, **attrs: out,
        lambda out, *posted, **attrs: out, memory=Memory.VIEW, reason=why,
    )  # fmt: skip
    return first, last


HALVES = {ALL_SUM: _post(ALL_SUM, False), SWAP_EDGES: _post(SWAP_EDGES, True), SWAP_WITH: _post(SWAP_WITH, True, headers=2)}
POSTED = {first: op for op, (first, _) in HALVES.items()}

from gradtape.ops.compare import equal
from gradtape.ops.create import zeros_like
from gradtape.ops.elementwise import cast
from gradtape.ops.shape import broadcast_to, second_first
