"""The sentences of `tape.explain`: what happened, in the user's terms, and the cure. One function per cause, chosen by name."""

from __future__ import annotations

import os
from collections.abc import Callable

from gradtape.core.tensor import Tensor
from gradtape.ir.graph import Location
from gradtape.ops.dynamic import MASK_INDICES
from gradtape.ops.elementwise import POW, POWER
from gradtape.ops.select import WHERE, WHERE_TRUE
from gradtape.ops.sorting import ARG_EXTREME
from gradtape.tools.explain_cuts import Cut
from gradtape.variables.variable import Variable, VariableSlice

# op → what its users call it, where that is another name
_NAMES = {
    ARG_EXTREME.name: "argmax' or 'argmin",
    WHERE_TRUE.name: WHERE.name,
    MASK_INDICES.name: "boolean_mask",
    POWER.name: POW.name,
}


def sentence(cut: Cut, source: Tensor | Variable) -> str:
    """What to tell the user about a cut."""
    return _SENTENCES[cut.cause](cut, label(source))


def label(source: Tensor | Variable) -> str:
    """What the user calls the source."""
    return f"variable '{plain_name(source.name)}'" if isinstance(source, Variable) else "the source"


def plain_name(name: str) -> str:
    """The name of a variable as the user gave it."""
    return name.removesuffix(":0")


def shown(place: Location | None) -> str | None:
    """A file and line as the user knows them: relative to where the program runs, if it lies there."""
    if place is None:
        return None
    try:
        here = os.getcwd() + os.sep
    except OSError:  # the directory is gone
        here = os.sep * 2
    return f"{place.file[len(here) :] if place.file.startswith(here) else place.file}:{place.line}"


def _at(cut: Cut) -> str:
    return "" if cut.place is None else f" at {os.path.basename(cut.place.file)}:{cut.place.line}"


def _op(cut: Cut) -> str:
    return f"'{_NAMES.get(cut.op, cut.op)}'" if cut.op else "an operation"


def _not_watched(cut: Cut, name: str) -> str:
    if "variable" in cut.detail:
        return (
            f"the tape was made with watch_accessed_variables=False and nobody asked it to watch {name}; call tape.watch(...) "
            "with it inside the block, before it is used"
        )
    if "slice" in cut.detail:
        return (
            f"the source is a slice of variable '{plain_name(cut.detail['slice'])}' made just for this question: each v[...] "
            "is a new tensor; ask for the gradient of the variable and slice that"
        )
    if "late" in cut.detail:
        return f"{_op(cut)}{_at(cut)} used {name} before tape.watch was called with it; watch it before it is used"
    if "made" in cut.detail:
        return (
            f"the source was computed{_at(cut)} {cut.detail['made']}, so the tape does not know it; compute it inside the "
            "block, or call tape.watch with it before it is used"
        )
    return (
        "the tape does not watch the source: it is a tensor, and tapes watch only trainable variables by themselves; call "
        "tape.watch with it inside the block, before it is used, or make it a gt.Variable"
    )


def _non_trainable(cut: Cut, name: str) -> str:
    return (
        f"{name} was made with trainable=False, so tapes do not watch it; make it trainable, or call tape.watch with it inside "
        "the block, before it is used"
    )


def _before(cut: Cut, name: str) -> str:
    if "entered" in cut.detail:
        return "the tape was never entered, so it has recorded nothing; compute the target in a `with tape:` block"
    if "used" in cut.detail:
        return (
            f"what {_op(cut)}{_at(cut)} uses was computed from {name} before the tape's block began, so the tape has not "
            "seen how; move that computation into the block"
        )
    if not cut.op:
        return f"the target was computed from {name} outside the tape's block; move that computation into the block"
    return (
        f"{_op(cut)}{_at(cut)} used {name} before the tape's block began, so the tape has not seen it; move that computation "
        "into the block"
    )


def _after(cut: Cut, name: str) -> str:
    return (
        f"{_op(cut)}{_at(cut)} ran after the tape's block had ended, so it was not recorded; move that line into the block "
        "(indent it), or give the tape the last value that was computed inside"
    )


def _paused(cut: Cut, name: str) -> str:
    if "elsewhere" in cut.detail:
        return (
            f"{_op(cut)}{_at(cut)} ran in a thread or callback in which the tape does not record; run it where the block "
            "runs, or enter the tape there"
        )
    return (
        f"{_op(cut)}{_at(cut)} ran while the tape was paused (tape.stop_recording), so it was not recorded; move it out of the "
        "paused part"
    )


def _replaced(cut: Cut, name: str) -> str:
    return (
        f"the source is a tensor that was computed from variable '{plain_name(cut.detail['variable'])}' outside the tape's "
        "block: `x = x + 1` puts a tensor in the place of the variable; use x.assign(...) or x.assign_add(...) to change a "
        "variable, or call tape.watch with the tensor inside the block"
    )


def _numpy(cut: Cut, name: str) -> str:
    if cut.op == "numpy_function":
        return (
            f"gt.numpy_function{_at(cut)} works on NumPy arrays, which the tape cannot follow; write it with gradtape's "
            "functions, or give it a derivative with gt.custom_gradient"
        )
    return (
        f"a value computed from {name} became a NumPy array ({cut.detail['how']}){_at(cut)}, which the tape cannot follow, "
        "and nothing else connects it to the target; keep the tensor (np.sin(t) and gt.sin(t) both work on it), or give the "
        "NumPy part a derivative with gt.custom_gradient"
    )


def _number(cut: Cut, name: str) -> str:
    return (
        f"a value computed from {name} became a Python number ({cut.detail['how']}){_at(cut)}, which the tape cannot follow, "
        "and nothing else connects it to the target; compute with the tensor itself"
    )


def _integer(cut: Cut, name: str) -> str:
    if "dtype" in cut.detail:
        return f"{name} has dtype {cut.detail['dtype']}, which carries no gradient; use gt.cast(x, gt.float32) before the tape"
    return (
        f"{name} reaches the target only through {_op(cut)}{_at(cut)}, which gives integers or booleans and has no gradient; "
        "compute with floating-point values instead (for example gt.where or gt.sigmoid)"
    )


def _stop(cut: Cut, name: str) -> str:
    return f"gt.stop_gradient{_at(cut)} lets no gradient pass to {name}; take it away if the gradient is wanted"


def _assignment(cut: Cut, name: str) -> str:
    return (
        f"the way to {name} crosses the assignment to variable '{plain_name(cut.detail['variable'])}'{_at(cut)}, and the "
        "tape was made with through_assignments=False, TensorFlow's rule that assignments cut gradients; leave that "
        "argument out"
    )


def _no_derivative(cut: Cut, name: str) -> str:
    reason = cut.detail.get("reason") or "it has no rule for this input"
    return (
        f"{_op(cut)}{_at(cut)} has no derivative on the way to {name}: {reason}; use a differentiable operation there, or "
        "give it a derivative with gt.custom_gradient"
    )


def _rule(cut: Cut, name: str) -> str:
    function = f"'{cut.detail['function']}'" if cut.detail.get("function") else "a custom gradient"
    if cut.detail.get("rerun"):
        return f"inside {function}, called{_at(cut)}, nothing differentiable connects its result to {name}; look there"
    if "argument" in cut.detail:
        return (
            f"the gradient function of {function}, called{_at(cut)}, returned None for input {cut.detail['argument']}, through "
            f"which {name} reaches the target; return a gradient for it"
        )
    return (
        f"{function}, called{_at(cut)}, uses {name} without taking it as an argument, so its gradient function cannot answer "
        "for it; pass it as an argument"
    )


def _freed(cut: Cut, name: str) -> str:
    if "closed" in cut.detail:
        return f"this tape was closed{_at(cut)} and freed everything it knew; ask it before it is closed"
    return (
        f"{_op(cut)}{_at(cut)} was recorded before the tape was reset or used again, and that record was freed; ask the tape "
        "before it is used again, or make a new tape for each computation"
    )


def _independent(cut: Cut, name: str) -> str:
    if "branch" in cut.detail:
        return f"{name} only decides{_at(cut)} which branch runs: the target does not change with it otherwise"
    if "shape" in cut.detail:
        return f"the target depends on the shape of {name} only ({_op(cut)}{_at(cut)}), not on its values"
    if "derivative" in cut.detail:
        return f"what was differentiated{_at(cut)} is piecewise linear in {name}, so that derivative does not change with it"
    return f"the target was not computed from {name}{cut.detail.get('hint', '')}"


def _zero(cut: Cut, name: str) -> str:
    if cut.place is None:
        return (
            f"the target depends on {name}, but every contribution to the gradient is zero; ask tape.explain before the "
            "gradient is taken, or a persistent tape, to see where it becomes zero"
        )
    return (
        f"the target depends on {name}, but the gradient is zero: {_op(cut)}{_at(cut)} passes none of it on, since its "
        "derivative is zero for these values (a flat or masked part)"
    )


def _connected(cut: Cut, name: str) -> str:
    return f"the target depends on {name}, and the tape has a gradient for it"


def is_slice(source: Tensor | Variable) -> str | None:
    """The name of the variable that a source is a slice of."""
    return source._variable.name if isinstance(source, VariableSlice) else None


_SENTENCES: dict[str, Callable[[Cut, str], str]] = {
    "not_watched": _not_watched, "non_trainable_variable": _non_trainable, "computed_before_the_tape": _before,
    "computed_after_the_tape": _after, "recording_paused": _paused, "variable_replaced_by_tensor": _replaced,
    "left_to_numpy": _numpy, "converted_to_python_number": _number, "integer_or_bool_on_path": _integer,
    "stop_gradient": _stop, "through_assignment": _assignment, "no_derivative": _no_derivative, "rule_returned_none": _rule,
    "tape_already_freed": _freed, "independent": _independent, "zero": _zero, "connected": _connected,
}  # fmt: skip
CAUSES = tuple(_SENTENCES)
