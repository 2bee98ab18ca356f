"""`gradients` and `hessians`: derivatives of what a traced function has computed so far, without a tape.

The operations between the sources and the targets are traced once more under a recorder; passes merge the copies with the
originals. Outside a traced function nothing was written down, so there a tape is needed. What a function computes from
constants is not written down either, unless it is asked for: then the function is traced again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradtape import tree
from gradtape.ad.replaying import replay
from gradtape.ad.reverse import extract
from gradtape.core.dispatch import convert
from gradtape.ir.graph import Operation, Value
from gradtape.ops.create import zeros_like
from gradtape.tape.gradient_tape import GradientTape
from gradtape.tape.tape_messages import Mode, UnconnectedGradients
from gradtape.trace.effects import active
from gradtape.trace.tracing import TRACE, Trace, TracedTensor, traced
from gradtape.tree import Structure


def gradients(
    ys: Structure, xs: Structure, grad_ys: Structure = None, name: str = "gradients", gate_gradients: bool = False,
    aggregation_method: object = None, stop_gradients: Structure = None,
    unconnected_gradients: Mode = UnconnectedGradients.NONE,
) -> list[Any]:  # fmt: skip
    """The derivative of the sum of `ys` with respect to each of `xs`, inside a `gt.function`.

    >>> @gt.function
    ... def f(x):
    ...     y = x * x * x
    ...     return gt.gradients(y, x)[0]
    >>> f(gt.constant(2.0)).numpy()
    np.float32(12.0)

    Raises:
        RuntimeError: outside a `gt.function`.
    """
    trace = _trace("gradients")
    sources = _sources(xs)
    targets = [convert(y) for y in tree.flatten(ys)]
    stopped = [convert(t) for t in tree.flatten(stop_gradients)] if stop_gradients is not None else []
    weights = None if grad_ys is None else tree.flatten(grad_ys)
    tape = GradientTape()
    with tape:
        # The operations between sources and targets are traced already, when no tape looked on: they are repeated under one,
        # and what is not used of both copies is dropped later.
        twins, outs = _again(trace, sources, targets, stopped, tape.watch)
    answers = tape.gradient(outs, twins, weights)
    zero = UnconnectedGradients(unconnected_gradients) is UnconnectedGradients.ZERO
    return [zeros_like(x) if g is None and zero else g for g, x in zip(answers, sources, strict=True)]


def hessians(
    ys: Structure, xs: Structure, gate_gradients: bool = False, aggregation_method: object = None, name: str = "hessians"
) -> list[Any]:
    """The second derivative of the sum of `ys` with respect to each of `xs`, inside a `gt.function`.

    >>> @gt.function
    ... def f(x):
    ...     return gt.hessians(gt.reduce_sum(x ** 3.0), x)[0]
    >>> f(gt.constant([1.0, 2.0])).numpy()
    array([[ 6.,  0.],
           [ 0., 12.]], dtype=float32)
    """
    trace = _trace("hessians")
    targets = [convert(y) for y in tree.flatten(ys)]
    answers = []
    for x in _sources(xs):
        outer = GradientTape()
        with outer:
            inner = GradientTape()
            with inner:

                def watch(tensor: Structure, tapes: Sequence[GradientTape] = (outer, inner)) -> None:
                    for tape in tapes:
                        tape.watch(tensor)

                twins, outs = _again(trace, [x], targets, [], watch)
            first = inner.gradient(outs, twins[0])
        answers.append(None if first is None else outer.jacobian(first, twins[0]))
    return answers


def _trace(what: str) -> Trace:
    trace: Trace | None = TRACE.get()
    if trace is None:
        raise RuntimeError(
            f"gt.{what} works inside a gt.function, where the computation is written down; in eager code use a gt.GradientTape"
        )
    return trace


def _sources(xs: Structure) -> list[Any]:
    """The sources as tensors; what was computed from one that is concrete has to be traced to be known."""
    sources = [convert(x) for x in tree.flatten(xs)]
    tracer = active()
    if tracer is not None and any(not x.wraps and x.dtype.is_differentiable for x in sources):
        # operations on concrete tensors are done while tracing, and leave no trace: it starts again with them as operations
        tracer.follow_constants()
    return sources


def _again(
    trace: Trace, sources: Sequence[Any], targets: Sequence[Any], stopped: Sequence[Any], watch: Callable[[Any], None]
) -> list[list[Any]]:
    """Twins of the sources and the targets computed from them. The first are watched: a source that others lead to is computed
    from these again, unless gradients stop there."""
    values = dict.fromkeys(x._data for x in sources if isinstance(x, TracedTensor))
    fixed = {t._data for t in stopped if isinstance(t, TracedTensor)}
    operations = [operation for block in trace.blocks for operation in block.operations]
    computed = _led_to(operations, set(values), fixed)
    # A source that another source leads to is an intermediate value: watched as a leaf it would cut the way to the other.
    starts: dict[Value, Any] = {v: traced(v) for v in values if v not in computed}
    for twin in starts.values():
        watch(twin)
    wanted = [*(v for v in values if v in computed), *(y._data for y in targets if isinstance(y, TracedTensor))]
    between, outside = _between(operations, set(starts), wanted, fixed)
    block = extract([*starts, *outside], between, "again", outputs=wanted)
    inputs = [*starts.values(), *(traced(v) for v in outside)]
    twins = {**starts, **dict(zip(wanted, replay(block, inputs, sizes="new"), strict=True))}
    return [[twins[t._data] if isinstance(t, TracedTensor) else t for t in group] for group in (sources, targets)]


def _led_to(operations: Sequence[Operation], starts: set[Value], fixed: set[Value]) -> set[Value]:
    """Those of `starts` that are computed from others of them."""
    moving = set(starts)
    derived: set[Value] = set()
    for operation in operations:
        # (an effect would happen twice; nothing flows through it)
        if not operation.op.effect and not moving.isdisjoint(operation.operands):
            moving.update(v for v in operation.results if v not in fixed)
            derived.update(v for v in operation.results if v in starts and v not in fixed)
    return derived


def _between(
    operations: Sequence[Operation], starts: set[Value], wanted: Sequence[Value], fixed: set[Value]
) -> tuple[list[Operation], list[Value]]:
    """The operations that lead from `starts` to `wanted`, and the other values they use."""
    moving = set(starts)
    forward = []
    for operation in operations:
        if operation.op.effect or (operation.results and fixed.issuperset(operation.results)):
            continue
        if not moving.isdisjoint(operation.operands):
            forward.append(operation)
            moving.update(v for v in operation.results if v not in fixed and v not in starts)
    # Forwards what depends on the sources, backwards what leads to the targets: the operations in both are between them.
    needed = set(wanted)
    kept = []
    for operation in reversed(forward):
        if not needed.isdisjoint(operation.results):
            kept.append(operation)
            needed.update(operation.operands)
    results = {v for operation in kept for v in operation.results}
    used = dict.fromkeys([*(v for operation in kept for v in operation.operands), *wanted])
    return kept[::-1], [v for v in used if v not in results and v not in starts]
