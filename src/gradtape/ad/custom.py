"""Operations whose derivative is a Python function: custom gradients and rerun-instead-of-save.

One op, `custom`, stands for all of them. Its record keeps a `CallRule`: called on the backward pass with cotangents, on
bare arrays or on tensors, it answers one cotangent per input of the record.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradtape.ad.batch import batched, unbatched
from gradtape.ad.binding import reboxed
from gradtape.core.dispatch import record_general, stored, unrecorded
from gradtape.core.hooks import HOOKS
from gradtape.core.opdef import Op
from gradtape.core.record import LOCAL, NOBODY, TRACING, Record, RecordingScope, current_scope, scope_of
from gradtape.core.tensor import Tensor, box
from gradtape.ops.reduce import reduce_sum

Rule = Callable[[tuple[Any, ...], tuple[bool, ...]], Sequence[Any]]


class Again(NamedTuple):
    """How a custom operation computes its outputs from other tensors in the place of its arguments (None: the argument
    itself), for tools that look into it or check its rule."""

    name: str
    run: Callable[[Sequence[Any]], Sequence[Any]]  # what it does inside, recorded as such
    call: Callable[[Sequence[Any]], Sequence[Any]]  # the operation as a whole, with its rule
    repeatable: bool  # running it again is known to be harmless


class Answers:
    """What is kept of a rule when its tape is freed: whose it is, and for which inputs it answered None when asked."""

    __slots__ = ("kinds", "name", "outputs", "rerun", "silent")

    def __init__(self, name: str, rerun: bool = False, outputs: tuple[Any, ...] = (), kinds: tuple[Any, ...] = ()) -> None:
        self.name = name
        self.rerun = rerun  # the rule runs the function again
        self.outputs = outputs  # weak references to the outputs as they were computed
        self.kinds = kinds  # among several ranks: what each output is, which its inputs do not tell
        self.silent: set[int] = set()


class CallRule:
    """A user's or transform's backward function, made to fit both bindings of the reverse walk."""

    __slots__ = ("again", "answers", "function", "outputs")

    def __init__(self, function: Rule, outputs: Sequence[Record | None] = (), again: Again | None = None) -> None:
        self.function = function
        # the versions as which they were computed, before the record of the whole gave them new ones
        self.outputs = tuple(None if node is None else weakref.ref(node) for node in outputs)
        self.again = again
        kinds = () if HOOKS.kind_of is None else tuple(None if node is None else HOOKS.kind_of(node) for node in outputs)
        name, repeatable = ("", False) if again is None else (again.name, again.repeatable)
        self.answers = Answers(name, repeatable, self.outputs, kinds)

    def __call__(self, cts: Any, needed: tuple[bool, ...]) -> list[Any]:
        cotangents = cts if isinstance(cts, tuple) else (cts,)
        if all(isinstance(ct, Tensor) for ct in cotangents):
            if HOOKS.array_kind is not None:
                # what a rule gets is the share of this rank, whatever the value was made of
                cotangents = tuple(ct if ct.wraps else ct * box(np.ones((), ct.dtype.dtype)[()], LOCAL) for ct in cotangents)
            return self._noted(list(self.function(cotangents, needed)), needed)
        tensors = tuple(reboxed(ct, HOOKS.array_kind) for ct in cotangents)
        with scope_of(NOBODY):
            answers = self.function(tensors, needed)
        return self._noted([a._data if isinstance(a, Tensor) and not a.wraps else a for a in answers], needed)

    def _noted(self, answers: list[Any], needed: tuple[bool, ...]) -> list[Any]:
        asked = zip(answers, needed, strict=True)
        self.answers.silent = {i for i, (answer, want) in enumerate(asked) if want and answer is None}
        return answers

    def __deepcopy__(self, memo: Any) -> CallRule:
        return self


def _called(*inputs: Any, rule: Any) -> Any:
    raise TypeError("`custom` is recorded by transforms, not called")


def _call_rule(ct: Any, needed: tuple[bool, ...], rule: Any) -> Any:
    return rule(ct, needed)


CUSTOM = Op(
    "custom", "general", ("*xs",), _called, _called, vjp=_call_rule, outputs=0,
    skeleton=lambda attrs: {"answers": attrs["rule"].answers},
)  # fmt: skip


def record_custom(
    inputs: Sequence[Tensor], outputs: Sequence[Tensor], function: Rule, again: Again | None = None
) -> tuple[Tensor, ...]:
    """Twins of `outputs` whose derivative with respect to `inputs` is `function(cts, needed)`.

    Whatever made the outputs, the tapes that record now see a single operation from inputs to outputs; so does the
    program that is being traced, if one is. `again` says how the outputs were computed.
    """
    if TRACING.get() is not None and not any(t.wraps and t.level > 1 for t in (*inputs, *outputs)):  # type: ignore[attr-defined]
        from gradtape.ad.regions import stage_custom

        return tuple(stage_custom(inputs, outputs, function, "" if again is None else again.name))
    twins = []
    for output in outputs:
        twin = output.__copy__()
        twin._node = None
        twins.append(twin)
    level = max((t.level for t in (*inputs, *outputs) if t.wraps), default=0)  # type: ignore[attr-defined]
    scope = current_scope()
    if level and twins:
        twins = _record_batches(inputs, twins, function, level, scope)
        scope = scope.inside(level)
    nodes = tuple(x._node for x in inputs)
    if not scope.recorders or not twins or all(n is None for n in nodes):
        return tuple(unrecorded(CUSTOM, (*nodes, *(output._node for output in outputs)), twins))
    # the record keeps nothing of the inputs; who listens may want to see them
    values = tuple(stored(x) if scope.listeners else np.empty(0) for x in inputs)
    rule = CallRule(function, [output._node for output in outputs], again)
    record_general(scope, CUSTOM, values, nodes, {"rule": rule}, tuple(twins))
    return tuple(twins)


def _record_batches(
    inputs: Sequence[Tensor], outputs: Sequence[Tensor], function: Any, level: int, scope: RecordingScope
) -> list[Any]:
    """Recorders outside the batching evaluator see one operation on whole batches; what all examples share gets the sum."""
    mine = [_at_level(x, level) for x in inputs]
    flags = [_at_level(o, level) for o in outputs]
    size = next(int(t._data.shape[0]) for t, flag in zip((*inputs, *outputs), (*mine, *flags), strict=True) if flag)

    def on_batches(cts: tuple[Any, ...], needed: tuple[bool, ...]) -> list[Any]:
        here = current_scope()
        with scope_of(RecordingScope(here.recorders, here.batches + (None,) * (level - here.level))):
            seeds = tuple(batched(ct, level) if flag else ct for ct, flag in zip(cts, flags, strict=True))
            answers = function(seeds, needed)
        wholes = [None if a is None else unbatched(a, level, size) for a in answers]
        return [w if own or w is None else reduce_sum(w, 0) for w, own in zip(wholes, mine, strict=True)]

    with scope_of(scope.below(level)):
        inner = record_custom(
            [x._data if flag else x for x, flag in zip(inputs, mine, strict=True)],
            [o._data if flag else o for o, flag in zip(outputs, flags, strict=True)],
            on_batches,
        )
    return [batched(t, level) if flag else t for t, flag in zip(inner, flags, strict=True)]


def _at_level(tensor: Any, level: int) -> bool:
    return bool(tensor.wraps and tensor.level == level)
