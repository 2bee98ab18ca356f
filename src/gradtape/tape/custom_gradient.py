"""Derivatives written by the user: `custom_gradient`, `recompute_grad`, `grad_pass_through`."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ParamSpec, TypeAlias, TypeVar, overload

import numpy as np

from gradtape import tree
from gradtape.ad.custom import Again, record_custom
from gradtape.ad.recording import Recording
from gradtape.core.dispatch import convert
from gradtape.core.hooks import HOOKS
from gradtape.core.record import Record, RecordingScope, current_scope, scope_of
from gradtape.core.tensor import Readable, Tensor, box
from gradtape.errors import (
    FailedPreconditionError,
    InaccessibleTensorError,
    InvalidArgumentError,
    OperatorNotAllowedInGraphError,
)
from gradtape.functions.building import Build
from gradtape.functions.staging.aliasing.aliases import Restart
from gradtape.functions.staging.joins import JoinError
from gradtape.functions.stand_in_recorders import StandInRecorder, VariableValues, captured_versions
from gradtape.ops.create import zeros_like
from gradtape.tape.recomputed import LimitedRecording, stage_recomputed
from gradtape.trace.effects import active, converted
from gradtape.trace.tracing import current_trace
from gradtape.tree import Structure


def _tensors_in(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], list[int]]:
    """All leaves of the arguments, and which of them are tensors."""
    leaves = tree.flatten((args, kwargs))
    return leaves, [i for i, leaf in enumerate(leaves) if isinstance(leaf, (Tensor, Readable))]


def _replaced(structure: Structure, leaves: list[Any], places: list[int], tensors: Sequence[Any]) -> Any:
    """The arguments with other tensors at these places."""
    fresh = list(leaves)
    for place, tensor in zip(places, tensors, strict=False):
        # (strict=False above: variables that were read follow the arguments)
        fresh[place] = leaves[place] if tensor is None else tensor
    return tree.pack_sequence_as(structure, fresh)


_UNREAD = object()  # in the place of a variable: a value that no variable has


def _variables_at(leaves: list[Any], places: list[int]) -> list[Any]:
    """The arguments that are variables, which the function may read by another way too."""
    return [leaves[i] if isinstance(leaves[i], Readable) else _UNREAD for i in places]


@contextlib.contextmanager
def _set(variables: Sequence[Any], tensors: Sequence[Any]) -> Iterator[None]:
    """Variables with other values for a while; None among the tensors: the value it has."""
    moved = [(v, t) for v, t in zip(variables, tensors, strict=False) if t is not None and v is not _UNREAD]
    # a captured tensor has no name under which another value could be put
    if any(variable is None for variable, _ in moved):
        raise FailedPreconditionError(
            "a function that captured a watched tensor cannot run on another value of it; pass it as an argument"
        )
    before = [variable._tensor for variable, _ in moved]
    for variable, tensor in moved:
        variable._tensor = tensor
    try:
        yield
    finally:
        for (variable, _), tensor in zip(moved, before, strict=True):
            variable._tensor = tensor


P = ParamSpec("P")
R = TypeVar("R")
Ruled: TypeAlias = Callable[P, tuple[R, Callable[..., Any]]]  # a function with its gradient, as the user writes it


@overload
def custom_gradient(f: Ruled[P, R]) -> Callable[P, R]: ...
@overload
def custom_gradient(f: None = None) -> Callable[[Ruled[P, R]], Callable[P, R]]: ...
def custom_gradient(f: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """Decorator: `f` returns (result, grad_fn) and grad_fn is its derivative.

    `grad_fn(*upstream)` answers one gradient per tensor argument of `f`, positional first, then keywords. Variables
    that `f` reads are differentiated automatically, unless `grad_fn` takes `variables` and answers
    (argument_gradients, variable_gradients). Written in gradtape operations, grad_fn can be differentiated again.

    >>> @gt.custom_gradient
    ... def clipped(x):
    ...     return x * x, lambda upstream: gt.clip_by_value(upstream * 2.0 * x, -1.0, 1.0)
    >>> x = gt.Variable(5.0)
    >>> with gt.GradientTape() as tape:
    ...     y = clipped(x)
    >>> tape.gradient(y, x).numpy()
    np.float32(1.0)
    """
    if f is None:
        return custom_gradient

    @functools.wraps(f)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return _with_own_gradient(f, args, kwargs)

    return wrapped


def _with_own_gradient(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function that answers (result, grad_fn), and record the call as one operation with that gradient."""
    leaves, places = _tensors_in(args, kwargs)
    inputs = [convert(leaves[i]).__copy__() for i in places]  # `t[i] = v` inside f must not move them
    # f runs under a recorder of its own: what the tapes around see is the one operation with the user's rule
    captured = Recording(catch_variables=True)
    own = {id(leaves[i]) for i in places}
    with captured.recording():
        answer = converted(f)(*args, **kwargs)
    if not isinstance(answer, tuple) or len(answer) != 2 or not callable(answer[1]):
        raise TypeError(f"custom_gradient: '{_name(f)}' must return (result, grad_fn), got {type(answer).__name__}")
    result, grad_fn = answer
    outputs = [convert(r) for r in tree.flatten(result)]
    # A variable that is an argument has its gradient among those of the arguments.
    variables = [(v, nodes) for v, nodes in captured.variables.values() if id(v) not in own]
    takes_variables = _takes(grad_fn, "variables")
    versions = [v.read() for v, _ in variables]
    # While a function is traced the rule is traced too, although nobody may ever ask for the gradient: what it raises must
    # wait.
    ask = grad_fn if active() is None else raising_when_asked(grad_fn, [leaves[i] for i in places], len(variables))

    shares = None if HOOKS.rule_shares is None else HOOKS.rule_shares([*inputs, *versions])

    def backward(cts: tuple[Any, ...], needed: tuple[bool, ...]) -> list[Any]:
        if takes_variables and variables:
            grads, variable_grads = ask(*cts, variables=[v for v, _ in variables])
            variable_grads = list(variable_grads)
        else:
            grads = ask(*cts)
            variable_grads = _captured_gradients(captured, outputs, cts, variables)
        answers = [*_one_per_input(grads, leaves, places, f), *_checked_variables(variable_grads, variables, f)]
        return answers if shares is None else shares(answers)

    def run(tensors: Sequence[Any], whole: bool = False) -> list[Any]:
        own = [*_variables_at(leaves, places), *(v for v, _ in variables)]
        with _set(own, tensors):
            own_args, own_kwargs = _replaced((args, kwargs), leaves, places, tensors)
            result = custom_gradient(f)(*own_args, **own_kwargs) if whole else f(*own_args, **own_kwargs)[0]
            return [convert(r) for r in tree.flatten(result)]

    again = Again(_name(f), run, functools.partial(run, whole=True), False)
    twins = record_custom([*inputs, *versions], outputs, backward, again)
    if not variables or takes_variables:
        captured.close()
    return tree.pack_sequence_as(result, list(twins))


def _name(f: Callable[..., Any]) -> str:
    return getattr(f, "__qualname__", None) or type(f).__name__


def _takes(function: Callable[..., Any], name: str) -> bool:
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
    return name in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def _one_per_input(grads: Structure, leaves: list[Any], places: list[int], f: Callable[..., Any]) -> list[Any]:
    """The user's gradients lined up with the tensor inputs: one per tensor, or one per argument."""
    flat = tree.flatten(grads)
    # TensorFlow takes both: one for each tensor, or one for each argument
    if len(flat) == len(places):
        chosen = flat
    elif len(flat) == len(leaves):
        chosen = [flat[i] for i in places]
    else:
        raise InvalidArgumentError(
            f"custom_gradient: the gradient function of '{_name(f)}' returned {len(flat)} gradients for "
            f"{len(places)} tensor arguments; return one per tensor (None where there is none)"
        )
    answers: list[Any] = []
    for grad, place in zip(chosen, places, strict=True):
        if grad is None:
            answers.append(None)
            continue
        grad = convert(grad, hint=leaves[place].dtype)
        if tuple(grad.shape) != tuple(leaves[place].shape):
            raise InvalidArgumentError(
                f"custom_gradient: the gradient function of '{_name(f)}' returned shape {tuple(grad.shape)} for an "
                f"argument of shape {tuple(leaves[place].shape)}"
            )
        answers.append(grad)
    return answers


def _captured_gradients(
    captured: Recording, outputs: Sequence[Tensor], cts: tuple[Any, ...], variables: list[tuple[Any, list[Record]]]
) -> list[Any]:
    """Gradients of the variables the function read, by differentiating what it did."""
    if not variables:
        return []
    wanted = [node for _, nodes in variables for node in nodes]
    boxed = bool(current_scope().recorders) or current_scope().level > 0 or any(ct.wraps for ct in cts)
    cotangents = iter(captured.cotangents(outputs, cts, wanted, boxed))
    totals = []
    for _, nodes in variables:
        parts = [g for g in (next(cotangents) for _ in nodes) if g is not None]
        total = None
        for part in parts:
            # a variable that is read twice has two leaves
            total = part if total is None else total + part
        totals.append(total)
    return totals


def _checked_variables(grads: list[Any], variables: list[Any], f: Callable[..., Any]) -> list[Any]:
    if len(grads) != len(variables):
        raise InvalidArgumentError(
            f"custom_gradient: '{_name(f)}' read {len(variables)} variables but its gradient function returned "
            f"{len(grads)} variable gradients"
        )
    return [None if g is None else convert(g, hint=v.dtype) for g, (v, _) in zip(grads, variables, strict=True)]


def recompute_grad(f: Callable[P, R], *, memory_limit: int | None = None) -> Callable[P, R]:
    """`f` without saved intermediate values: the backward pass runs it again. Trades time for memory.

    Works at any order, in forward mode, with keyword arguments, and with variables and watched tensors that `f`
    captures. `f` must be deterministic; variables have the values of the first run when it runs again, and what it
    assigns then is undone. A variable that `f` assigns a constant and then reads has no gradient from that reading.

    `memory_limit` (bytes) bounds what the second run keeps: parts of it, in a `gt.function` the iterations of its loops, are
    run a few more times instead. The gradient has the same bits.

    >>> x = gt.Variable(2.0)
    >>> with gt.GradientTape() as tape:
    ...     y = gt.recompute_grad(lambda t: gt.exp(t * t))(x)
    >>> float(tape.gradient(y, x)) == float(4.0 * gt.exp(4.0))
    True
    """
    if memory_limit is not None and (isinstance(memory_limit, bool) or not isinstance(memory_limit, int) or memory_limit < 0):
        raise ValueError(f"recompute_grad: memory_limit is a number of bytes, got {memory_limit!r}")

    @functools.wraps(f)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if active() is not None:
            return stage_recomputed(converted(f), args, kwargs, memory_limit)
        return _recomputing(f, memory_limit, args, kwargs)

    return wrapped


def _recomputing(f: Callable[..., Any], memory_limit: int | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call `f`, and record the call as one operation that keeps its inputs only."""
    leaves, places = _tensors_in(args, kwargs)
    inputs = [convert(leaves[i]).__copy__() for i in places]  # `t[i] = v` inside f must not move them
    scope = current_scope()
    values = VariableValues()
    # accumulators go on, and carry their tangents through the forward pass itself; tapes only look on
    listening = tuple(r for r in scope.recorders if not r.key.holds)
    taping = tuple(r for r in scope.recorders if r.key.holds)
    stand_ins = [StandInRecorder(r, values) for r in taping]
    with scope_of(RecordingScope((*listening, *stand_ins, values), scope.batches)):
        result = f(*args, **kwargs)
    outputs = [convert(r) for r in tree.flatten(result)]
    captured = captured_versions(stand_ins, inputs, outputs)
    values.finish(stand_ins)
    for stand_in in stand_ins:
        # this is the point of it: what the first run recorded is let go
        stand_in.records.clear()

    def backward(cts: tuple[Any, ...], needed: tuple[bool, ...]) -> list[Any]:
        # the function must read what it read the first time, whatever was assigned since
        with values.restored():
            again = Recording() if memory_limit is None else LimitedRecording(memory_limit)
            return _rerun(f, (args, kwargs), leaves, places, inputs, captured, cts, again)

    def run(tensors: Sequence[Any], function: Callable[..., Any] = f) -> list[Any]:
        read: dict[Record | None, Any] = {t._node: v for v, t in values.first.values() if t._node is not None}
        own = [*(read.get(t._node, _UNREAD) for t in inputs), *(read.get(node) for node in captured)]
        with values.restored(), _set(own, tensors):
            own_args, own_kwargs = _replaced((args, kwargs), leaves, places, tensors)
            return [convert(r) for r in tree.flatten(function(*own_args, **own_kwargs))]

    with scope_of(RecordingScope(taping, scope.batches)):
        # What the function read besides its arguments is an input of the record too, by its identity alone.
        given = [*inputs, *(box(np.empty(0), node) for node in captured)]
        whole = functools.partial(run, function=recompute_grad(f, memory_limit=memory_limit))
        twins = record_custom(given, outputs, backward, Again(_name(f), run, whole, True))
    _hand_over(listening, outputs, twins)
    return tree.pack_sequence_as(result, list(twins))


def _hand_over(recorders: Sequence[Any], outputs: Sequence[Tensor], twins: Sequence[Tensor]) -> None:
    """Let accumulators, which followed the forward pass to `outputs`, know those that the tapes' record gave instead."""
    for recorder in recorders:
        for old, new in zip(outputs, twins, strict=True):
            # no tape watches: the accumulator's own record is all there is
            if new._node is None or not new._node.keys:
                new._node = old._node
            else:
                new._node.keys = (*new._node.keys, recorder.key)
                recorder.carry(old._node, new._node)


def _rerun(
    f: Callable[..., Any], structure: Structure, leaves: list[Any], places: list[int], inputs: list[Any],
    captured: list[Record], cts: Sequence[Tensor], again: Recording,
) -> list[Any]:  # fmt: skip
    """Run `f` again, recorded by `again`, and carry the cotangents back through that run."""
    boxed = bool(current_scope().recorders) or current_scope().level > 0 or any(ct.wraps for ct in cts)
    with again.recording():
        # The second run starts from the same versions: tapes around it go on to what the first one was computed from.
        twins = [again.watched(x) for x in inputs]
        starts: list[Any] = [t._node for t in twins]  # before f, which may update its arguments
        for node in captured:
            again.know(node)
        args, kwargs = _replaced(structure, leaves, places, twins)
        outputs = [convert(r) for r in tree.flatten(f(*args, **kwargs))]
    cotangents = again.cotangents(outputs, cts, [*starts, *captured], boxed)
    again.close()
    return cotangents


def grad_pass_through(f: Callable[P, R]) -> Callable[P, R]:
    """`f` forward, identity backward (a straight-through estimator).

    >>> x = gt.Variable(2.6)
    >>> with gt.GradientTape() as tape:
    ...     y = gt.grad_pass_through(gt.round)(x) ** 2
    >>> tape.gradient(y, x).numpy()
    np.float32(6.0)
    """

    @custom_gradient
    @functools.wraps(f)
    def passing(*args: Any, **kwargs: Any) -> Any:
        return f(
            *args, **kwargs
        ), lambda *upstream, variables=None: (upstream, [None] * len(variables)) if variables is not None else upstream

    return passing


# -- gradient functions that raise -----------------------------------------------------------------------------------
# In programs the error comes when the gradient is asked for, not when the value is.
# The gradient of a custom operation is traced with its value. What the user's gradient function raises then becomes an
# operation of the backward pass, as a `raise` in a branch becomes one of the branch.

# what says that the program itself cannot be made as it is
_OWN = (Build, InaccessibleTensorError, JoinError, OperatorNotAllowedInGraphError, Restart)


def raising_when_asked(grad_fn: Callable[..., Any], inputs: Sequence[Any], variables: int) -> Callable[..., Any]:
    """The gradient function; where it raises, a gradient that raises when the program computes it."""

    def asked(*cts: Any, **kwargs: Any) -> Any:
        from gradtape.functions.autograph.raising import emit_error

        try:
            return grad_fn(*cts, **kwargs)
        except _OWN:
            raise
        except Exception as error:  # of the user's function: anything
            if len(current_trace().blocks) < 2:  # no region of its own: it is asked for now
                raise
            emit_error(error, cts[0])
        zeros = [zeros_like(convert(x)) for x in inputs]
        return (zeros, [None] * variables) if kwargs else zeros

    return asked
