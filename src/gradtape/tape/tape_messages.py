"""The words a tape has for its users: errors about sources and targets, warnings about integers and assignments."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from gradtape import config, tree
from gradtape.core.arguments import numeric
from gradtape.core.observers import TOOLS
from gradtape.core.record import TRACING, Record, user_frame, warn_at
from gradtape.core.tensor import Readable, Tensor
from gradtape.errors import GradientWarning, InvalidArgumentError
from gradtape.ops.create import ONES_LIKE, ZEROS_LIKE
from gradtape.ops.elementwise import CAST
from gradtape.ops.lists import LIST_ZEROS_LIKE
from gradtape.ops.stop import STOP_GRADIENT
from gradtape.tree import Structure
from gradtape.variables.indexed_slices import IndexedSlices
from gradtape.variables.variable import Variable, unwrapped

if TYPE_CHECKING:
    from gradtape.tape.gradient_tape import GradientTape


Source: TypeAlias = Tensor | Variable  # what a derivative is taken with respect to


class UnconnectedGradients(Enum):
    """What `gradient` answers for a source the target does not depend on."""

    NONE = "none"
    ZERO = "zero"
    RAISE = "raise"

    @classmethod
    def _missing_(cls, value: object) -> None:
        choices = ", ".join(repr(mode.value) for mode in cls)
        raise ValueError(f"unconnected_gradients must be one of {choices} (or UnconnectedGradients.NONE, ...), got {value!r}")


Mode: TypeAlias = UnconnectedGradients | Literal["none", "zero", "raise"]  # what is said of unconnected sources


def warn(message: str) -> None:
    """A GradientWarning that points at the user's line."""
    frame = user_frame(1)
    warn_at(frame, frame.f_lineno, message, GradientWarning)


def check_target(target: object, sources: Sequence[Source] = ()) -> Tensor:
    """A target as a tensor. That of integers among `sources` was spoken of already: one fact, one message."""
    if target.__class__ is Tensor and target._data.dtype.kind in "fc":  # what it nearly always is
        return target
    if isinstance(target, IndexedSlices):
        return target.to_dense()
    if isinstance(target, (Tensor, Readable)):
        tensor = numeric(target, "the target", "gradient")
        if not tensor.dtype.is_differentiable and all(s.dtype.is_differentiable for s in sources):
            warn_not_differentiable("gradient: the target", tensor, "use gt.nn.softmax for gt.argmax, gt.sigmoid for x > y")
        return tensor
    if target is None:
        raise TypeError("gradient: the target is None; did a function without `return` give it, or an earlier gradient?")
    raise TypeError(
        f"gradient: the target must be a tensor computed inside the tape, got {type(target).__name__} {target!r}, which does "
        "not remember where it came from; keep to tensors: no .numpy(), float() or functions of math on the way"
    )


def one_target(target: Structure, method: str, sources: Sequence[Source]) -> Tensor:
    """The target of a Jacobian: one tensor."""
    if tree.is_nested(target):
        kind = type(target).__name__
        raise InvalidArgumentError(f"{method}: the target must be one tensor, got a {kind}; stack or concat it")
    return check_target(target, sources)


def aligned(output_gradients: Structure, target: Structure) -> list[Any]:
    """One weight per target, in the order the targets are flattened."""
    if not tree.is_nested(target) and isinstance(output_gradients, (list, tuple)) and not _one_value(output_gradients):
        return [output_gradients]  # numbers for the entries of one tensor
    flat = tree.flatten(output_gradients)
    if len(flat) != len(tree.flatten(target)):
        raise InvalidArgumentError(
            f"gradient: output_gradients has {len(flat)} entries for {len(tree.flatten(target))} targets"
        )
    return flat


def _one_value(weights: Sequence[Any]) -> bool:
    return len(weights) == 1 and (weights[0] is None or isinstance(weights[0], (Tensor, Readable, np.ndarray)))


def check_source(given: object, told: Sequence[weakref.ref[Source]] = ()) -> Source:
    """A source is a tensor or a variable. Users were `told` of integers when they had a tape watch them."""
    if given.__class__ is Tensor and given._data.dtype.kind in "fc":  # what it often is
        return given
    if given.__class__ is Variable and given._dtype.is_differentiable:
        return given
    source = unwrapped(given)
    if isinstance(source, (Tensor, Variable)):
        if not source.dtype.is_differentiable and not any(integers() is source for integers in told):
            warn_not_differentiable("gradient: the source", source)
        return source
    if source is None:
        raise ValueError("gradient: a source is None; give tensors or variables")
    raise ValueError(
        f"gradient: a source must be a tensor or a variable, got {type(source).__name__} {source!r}; "
        "make it a gt.Variable, or a gt.constant watched with tape.watch"
    )


def warn_not_differentiable(what: str, value: Source, cure: str = "use gt.cast(x, gt.float32) before the tape") -> None:
    """For integers and booleans, with the cure."""
    label = f" '{value.name}'" if isinstance(value, Variable) else ""
    warn(f"{what}{label} has dtype {value.dtype.name}, which carries no gradient; {cure}")


def warn_assignment(variable: Variable, node: Record) -> None:
    """When the gradient of a variable crossed an assignment to it."""
    place = node.location
    where = "" if place is None else f" at {place[0]}:{place[1]}"
    warn(
        f"the gradient of variable '{variable.name}' passes through its own assignment{where}: it is taken with respect "
        "to the value before the assignment. Pass through_assignments=True to the tape to silence this, or False for "
        "TensorFlow's rule (assignments cut gradients)"
    )


def unconnected(tape: GradientTape, source: Source, targets: list[Any]) -> str:
    """The text of the error for a source without gradient: why it has none."""
    label = f"variable '{source.name}'" if isinstance(source, Variable) else f"the source {source!r}"
    if TRACING.get() is not None:
        return (
            f"gradient: {label} is not connected to the target; watch it before it is used, and compute the target from it "
            "inside the tape's block"
        )
    why = TOOLS["explain"](tape, targets, source)
    return f"gradient: {label} is not connected to the target ({why.cause}): {why.message}" + _at(why)


def _at(why: Any) -> str:
    return "" if why.location is None else f" [{why.location}]"


def warn_unconnected(tape: GradientTape, source: Source, targets: list[Any], mode: UnconnectedGradients) -> None:
    """When the only path from source to target runs through an integer or boolean value, say so; in strict mode, say why
    whenever a gradient is None."""
    if config.gradients_strict():
        if mode is UnconnectedGradients.NONE:
            label = f"variable '{source.name}'" if isinstance(source, Variable) else "a source"
            why = TOOLS["explain"](tape, targets, source)
            warn(f"the gradient of {label} is None ({why.cause}): {why.message}{_at(why)}; see tape.explain(target, source)")
        return
    versions = tape._versions(source)
    if not versions:
        return
    # an integer target was warned about by itself
    ends = {t._node for t in targets if t._node is not None and t.dtype.is_differentiable}
    blocked = _blocking_record(tape, set(versions), ends)
    if blocked is None:
        return
    place = blocked.location
    where = "" if place is None else f" at {place[0]}:{place[1]}"
    label = f"variable '{source.name}'" if isinstance(source, Variable) else "the source"
    warn(
        f"{label} reaches the target only through '{blocked.op.name}'{where}, which gives integers or booleans and has "
        "no gradient; compute with floating-point values instead (for example gt.where or gt.sigmoid)"
    )


def warn_none(tape: GradientTape, source: Source, targets: list[Any]) -> None:
    """When no source has a gradient, for a reason that nobody wants and that is quickly known."""
    known = TRACING.get() is None or not (isinstance(source, Variable) or tape._versions(source))
    if known and not config.gradients_strict() and len(tape.records) <= _FEW:
        why = TOOLS["explain"](tape, targets, source)
        if why.cause in _MISTAKES or "in this order" in why.message or "watch it before" in why.message:
            warn(f"the gradient is None ({why.cause}): {why.message}{_at(why)}")


_FEW = 10_000  # records that are looked at in no time
_MISTAKES = (
    "not_watched", "computed_before_the_tape", "computed_after_the_tape", "variable_replaced_by_tensor", "left_to_numpy",
    "converted_to_python_number", "non_trainable_variable",
)  # fmt: skip


def _blocking_record(tape: GradientTape, sources: set[Record], targets: set[Record]) -> Record | None:
    """The first non-differentiable record on a path from a source to a target, if every path has one.

    None when the path runs through a recorded backward pass: the gradient of a piecewise linear function depends on its
    input through comparisons and indices only, and that is as it should be.
    """
    tainted: dict[Record, Record | None] = dict.fromkeys(sources)
    if (None, 0) in tape.sites:  # tangents were recorded too, at the same lines as the operations themselves
        return None
    through_backward: set[Record] = set()
    for record in tape.records:
        for node in record.nodes:
            if node in tainted:
                earlier = tainted[node]
                tainted[record] = earlier if earlier is not None else (record if _cuts(record) else None)
                if node in through_backward or (record.code, record.lasti) in tape.sites:
                    through_backward.add(record)
                break
    return next((tainted[t] for t in targets if t not in through_backward and tainted.get(t) is not None), None)


def _cuts(record: Record) -> bool:
    """Non-differentiable because of integers: deliberate stops are not warned about."""
    if record.op is CAST:
        return not record.attrs["dtype"].is_differentiable  # type: ignore[index]
    return record.op.kind == "nondiff" and not record.op.effect and record.op not in _SILENT


_SILENT = (STOP_GRADIENT, ZEROS_LIKE, ONES_LIKE, LIST_ZEROS_LIKE)
