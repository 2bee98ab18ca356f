"""Versions that a program gives a variable out of values which nobody watches: leaves, as in eager code.

A variable as source means the sum over its leaf versions, and what is assigned while a function is traced may be one: that
depends on who watches the inputs when the program runs. So such an assignment is an operation that says it (`LEAF` of
`ops.regions`): its result is the value assigned; its derivative goes to that value if it depends on something watched, else
to one more input of the program, which stands for all leaf versions of the variable. Tapes know this input as a version of
the variable. Nothing of it is left in what runs.

A value computed from the version before it (`assign_add`, the step of an optimizer) is never a leaf: whoever watches the
variable watches that version. Invariant: variables that tapes do not watch by themselves have no such input.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from gradtape.ad.activity import passes_derivative
from gradtape.ad.leaves import depends
from gradtape.core.record import SCOPE, current_scope, leaf
from gradtape.core.tensor import Tensor, box
from gradtape.ir.graph import Block, Operation, Value
from gradtape.ops.structured import CUSTOM, LEAF, UNDECIDED
from gradtape.trace.tracing import TracedTensor, current_trace, traced
from gradtape.variables.variable import Variable

NEAR = 64  # operations looked at for the version before


class VersionTracer(Protocol):
    """What is asked here of who traces a function: the value a variable has in the program, and the input for its leaves."""

    def variable(self, variable: Variable) -> Any: ...
    def versions_of(self, variable: Variable) -> TracedTensor: ...


def as_version(tracer: VersionTracer, variable: Variable, tensor: TracedTensor) -> TracedTensor:
    """A traced value as the next version of a variable."""
    if not variable.trainable or _follows(tensor._data, tracer.variable(variable).tensor._data):
        return tensor
    trace = current_trace()
    source = tracer.versions_of(variable)
    around = trace.onlookers(source)
    # who records right here follows the value that is assigned, or makes a leaf of the version when it is read
    value = traced(tensor._data)
    node = tensor._node if depends(tensor._node) else None
    undecided = node is not None and not depends(node, always=True)
    if undecided:  # ... but only a run tells which of the two: an answer for the variable is refused where it is asked
        around, value = [*around, *current_scope().recorders], tensor
    source = stand_in(tracer, variable, around) if around else traced(source._data)
    # The identity with a rule of its own: its derivative goes to the stand-in for the leaf versions, unless the value assigned
    # depends on something watched.
    block = Block([tensor._data.type], layout={"cts": 1})
    block.give(grads=block.params)
    groups = {"inputs": [source], "values": [value], "consts": []}
    result = [tensor._data.type], {"outputs": 1}
    attrs = {"places": (0,), LEAF: UNDECIDED if undecided else True}
    (version,) = trace.structured(CUSTOM, groups, {"vjp": block}, attrs, result)["outputs"]
    if not undecided:
        version._node = node
    return version


def _follows(value: Value, before: Value) -> bool:
    """Whether a value is computed from the version before it, as far as a short look tells."""
    pending, seen = [value], {value}
    while pending and len(seen) < NEAR:
        value = pending.pop(0)
        if value is before:
            return True
        producer = value.producer
        if not isinstance(producer, Operation) or producer.op.kind == "region":
            continue
        for place, operand in enumerate(producer.operands):
            if operand not in seen and passes_derivative(producer.op, place):
                seen.add(operand)
                pending.append(operand)
    return False


def stand_in(tracer: VersionTracer, variable: Variable, recorders: Iterable[Any]) -> TracedTensor:
    """The input for the leaf versions of a variable, known to these recorders, if they watch it, as one version of it."""
    source: TracedTensor = tracer.versions_of(variable)
    known = () if source._node is None else source._node.keys
    new = [r for r in recorders if r.key not in known and r.watches(variable)]
    if new:
        keys = (*(key for key in known if key.open), *(r.key for r in new))
        if source._node is None:
            source._node = leaf(keys, source.shape, (variable._key,))
        source._node.keys = keys
        for recorder in new:
            recorder.add_version(variable, source._node)
    return source


def versions_now(variable: Variable, tracer: VersionTracer | None) -> Tensor:
    """What a call of a program is given for the leaf versions of a variable: to the tapes that watch it, a version of it."""
    scope = SCOPE.get()
    around = () if scope is None else scope.recorders
    if tracer is not None:
        source = tracer.versions_of(variable)
        return stand_in(tracer, variable, [*current_trace().onlookers(source), *around]).__copy__()
    stored = variable._stored
    recorders = [r for r in around if r.watches(variable)]
    if not recorders:
        return box(stored._data)
    node = leaf(tuple(r.key for r in recorders), stored._data.shape, (variable._key,))
    for recorder in recorders:
        recorder.add_version(variable, node)
    return box(stored._data, node)
