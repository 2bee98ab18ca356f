"""The sentences of `tape.explain`: what happened, in the user's terms, and the cure. A table."""

from __future__ import annotations

import os
from typing import Any

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
    known: dict[str, Any] = {key: value for key, value in cut.detail.items() if value is not None and value is not False}
    for key in known.keys() & {"variable", "slice"}:
        known[key] = plain_name(str(known[key]))
    function = f"'{known['function']}'" if known.get("function") else "a custom gradient"
    words = {
        "hint": "", "reason": "it has no rule for this input", **known, "function": function, "name": label(source),
        "op": f"'{_NAMES.get(cut.op, cut.op)}'" if cut.op else "an operation",
        "at": "" if cut.place is None else f" at {os.path.basename(cut.place.file)}:{cut.place.line}",
    }  # fmt: skip
    facts = {"", *known, *(["op"] if cut.op else []), *(["place"] if cut.place is not None else [])}
    return next(text for fact, text in _SENTENCES[cut.cause].items() if fact in facts).format(**words)


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


def is_slice(source: Tensor | Variable) -> str | None:
    """The name of the variable that a source is a slice of."""
    return source._variable.name if isinstance(source, VariableSlice) else None


# By cause the sentences for it: said is the first whose fact is known of the cut (part of its detail, or its op or place).
_SENTENCES: dict[str, dict[str, str]] = {
    "not_watched": {
        "variable": "the tape was made with watch_accessed_variables=False and nobody asked it to watch {name}; call "
        "tape.watch(...) with it inside the block, before it is used",
        "slice": "the source is a slice of variable '{slice}' made just for this question: each v[...] is a new tensor; ask "
        "for the gradient of the variable and slice that",
        "late": "{op}{at} used {name} before tape.watch was called with it; watch it before it is used",
        "made": "the source was computed{at} {made}, so the tape does not know it; compute it inside the block, or call "
        "tape.watch with it before it is used",
        "": "the tape does not watch the source: it is a tensor, and tapes watch only trainable variables by themselves; call "
        "tape.watch with it inside the block, before it is used, or make it a gt.Variable",
    },
    "non_trainable_variable": {
        "": "{name} was made with trainable=False, so tapes do not watch it; make it trainable, or call tape.watch with it "
        "inside the block, before it is used",
    },
    "computed_before_the_tape": {
        "never": "the tape was never entered, so it has recorded nothing; compute the target in a `with tape:` block",
        "used": "what {op}{at} uses was computed from {name} before the tape's block began, so the tape has not seen how; move "
        "that computation into the block",
        "op": "{op}{at} used {name} before the tape's block began, so the tape has not seen it; move that computation into the "
        "block",
        "": "the target was computed from {name} outside the tape's block; move that computation into the block",
    },
    "computed_after_the_tape": {
        "": "{op}{at} ran after the tape's block had ended, so it was not recorded; move that line into the block (indent it), "
        "or give the tape the last value that was computed inside",
    },
    "recording_paused": {
        "elsewhere": "{op}{at} ran in a thread or callback in which the tape does not record; run it where the block runs, or "
        "enter the tape there",
        "": "{op}{at} ran while the tape was paused (tape.stop_recording), so it was not recorded; move it out of the paused "
        "part",
    },
    "variable_replaced_by_tensor": {
        "": "the source is a tensor that was computed from variable '{variable}' outside the tape's block: `x = x + 1` puts a "
        "tensor in the place of the variable; use x.assign(...) or x.assign_add(...) to change a variable, or call tape.watch "
        "with the tensor inside the block",
    },
    "left_to_numpy": {
        "numpy_function": "gt.numpy_function{at} works on NumPy arrays, which the tape cannot follow; write it with gradtape's "
        "functions, or give it a derivative with gt.custom_gradient",
        "": "a value computed from {name} became a NumPy array ({how}){at}, which the tape cannot follow, and nothing else "
        "connects it to the target; keep the tensor (np.sin(t) and gt.sin(t) both work on it), or give the NumPy part a "
        "derivative with gt.custom_gradient",
    },
    "converted_to_python_number": {
        "": "a value computed from {name} became a Python number ({how}){at}, which the tape cannot follow, and nothing else "
        "connects it to the target; compute with the tensor itself",
    },
    "integer_or_bool_on_path": {
        "dtype": "{name} has dtype {dtype}, which carries no gradient; use gt.cast(x, gt.float32) before the tape",
        "": "{name} reaches the target only through {op}{at}, which gives integers or booleans and has no gradient; compute "
        "with floating-point values instead (for example gt.where or gt.sigmoid)",
    },
    "stop_gradient": {
        "": "gt.stop_gradient{at} lets no gradient pass to {name}; take it away if the gradient is wanted",
    },
    "through_assignment": {
        "": "the way to {name} crosses the assignment to variable '{variable}'{at}, and the tape was made with "
        "through_assignments=False, TensorFlow's rule that assignments cut gradients; leave that argument out",
    },
    "no_derivative": {
        "": "{op}{at} has no derivative on the way to {name}: {reason}; use a differentiable operation there, or give it a "
        "derivative with gt.custom_gradient",
    },
    "rule_returned_none": {
        "rerun": "inside {function}, called{at}, nothing differentiable connects its result to {name}; look there",
        "argument": "the gradient function of {function}, called{at}, returned None for input {argument}, through which {name} "
        "reaches the target; return a gradient for it",
        "": "{function}, called{at}, uses {name} without taking it as an argument, so its gradient function cannot answer for "
        "it; pass it as an argument",
    },
    "tape_already_freed": {
        "closed": "this tape was closed{at} and freed everything it knew; ask it before it is closed",
        "": "{op}{at} was recorded before the tape was reset or used again, and that record was freed; ask the tape before it "
        "is used again, or make a new tape for each computation",
    },
    "independent": {
        "branch": "{name} only decides{at} which branch runs: the target does not change with it otherwise",
        "shape": "the target depends on the shape of {name} only ({op}{at}), not on its values",
        "derivative": "what was differentiated{at} is piecewise linear in {name}, so that derivative does not change with it",
        "": "the target was not computed from {name}{hint}",
    },
    "zero": {
        "place": "the target depends on {name}, but the gradient is zero: {op}{at} passes none of it on, since its derivative "
        "is zero for these values (a flat or masked part)",
        "": "the target depends on {name}, but every contribution to the gradient is zero; ask tape.explain before the "
        "gradient is taken, or a persistent tape, to see where it becomes zero",
    },
    "connected": {"": "the target depends on {name}, and the tape has a gradient for it"},
}
CAUSES = tuple(_SENTENCES)
