"""Why a function was traced again: the difference between two calls, in words, and the warning when it happens often.

Works on `Leaf` descriptions only (names, shapes, dtypes, texts), never on the arguments, so that keeping reasons keeps
nothing alive. Invariant: two calls with different keys have a difference this file can name.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

from gradtape.core.record import user_frame, warn_at
from gradtape.errors import RetracingWarning
from gradtape.functions.signature import Leaf, Numbered

WARN_AFTER = 5  # retraces of one function for a Python value or a shape


class Reason(NamedTuple):
    """One difference. `kind` is "first", "shape", "value", "object", "dtype", "structure", "guard" or "dropped"."""

    kind: str
    text: str


FIRST = Reason("first", "first call")


def differences(old: Sequence[Leaf], new: Sequence[Leaf]) -> list[Reason]:
    """What is different between two calls, argument by argument."""
    reasons = []
    if [leaf.name for leaf in old] == [leaf.name for leaf in new]:
        for a, b in zip(old, new, strict=True):
            if a != b:
                reasons.append(_difference(a, b))
        return reasons
    before, after = {leaf.name: leaf for leaf in old}, {leaf.name: leaf for leaf in new}
    for a, b in zip_longest(old, new):
        if a is not None and b is not None and a.name == b.name and a != b:
            reasons.append(_difference(a, b))
        elif a is not None and a.name not in after and _outermost(a.name, after):
            reasons.append(Reason("structure", f"argument `{a.name}`: {_described(a)} → not given"))
        elif b is not None and b.name not in before and _outermost(b.name, before):
            reasons.append(Reason("structure", f"argument `{b.name}`: not given → {_described(b)}"))
    return reasons


def _outermost(name: str, others: dict[str, Leaf]) -> bool:
    """Whether no container around a leaf tells the difference already."""
    return ("[" not in name and "." not in name) or name.split("[")[0].split(".")[0] not in others


def _difference(a: Leaf, b: Leaf) -> Reason:
    name = f"argument `{b.name}`: "
    if a.kind == b.kind == "tensor":
        if a.dtype != b.dtype:
            more = f", shape {_shape(a)} → {_shape(b)}" if a.shape != b.shape else ""
            return Reason("dtype", f"{name}dtype {a.dtype} → {b.dtype}{more}")
        return Reason("shape", f"{name}shape {_shape(a)} → {_shape(b)}")
    if a.kind == b.kind == "value":
        cure = f" (a Python value; pass gt.constant({_variable(b.name)}) to avoid a trace per value)"
        if b.type not in ("int", "float", "bool", "complex"):
            cure = " (a Python value: each has its own trace)"
        if a.type != b.type:
            return Reason("value", f"{name}{a.text} → {b.text}, {a.type} → {b.type}{cure}")
        return Reason("value", f"{name}{a.text} → {b.text}{cure}")
    if a.kind == b.kind == "object":
        same = f"another {b.type} object" if a.text == b.text else f"{a.text} → {b.text}"
        return Reason("object", f"{name}{same} (each object has its own trace)")
    return Reason("structure", f"{name}{_described(a)} → {_described(b)}")


def _described(leaf: Leaf) -> str:
    return f"a tensor of shape {_shape(leaf)}, dtype {leaf.dtype}" if leaf.kind == "tensor" else leaf.text


def _shape(leaf: Leaf) -> str:
    assert leaf.shape is not None
    dims = ["?" if isinstance(d, Numbered) else str(d) for d in leaf.shape]
    return f"({', '.join(dims)}{',' if len(dims) == 1 else ''})"


def _variable(name: str) -> str:
    return name if name.isidentifier() else "value"


def nearest(histories: Sequence[Sequence[Leaf]], new: Sequence[Leaf]) -> list[Reason]:
    """The differences to the most similar earlier call; of equally similar ones, the latest."""
    if not histories:
        return [FIRST]
    return min((differences(old, new) for old in reversed(histories)), key=len)


def warn_retracing(name: str, count: int, reasons: Sequence[Reason]) -> None:
    """Say once that a function keeps being traced, why, and the cure."""
    kinds = {reason.kind for reason in reasons}
    if "shape" in kinds:
        cure = "use gt.function(reduce_retracing=True), or an input_signature with None for the dimensions that vary"
    else:
        cure = "pass numbers that vary as tensors (gt.constant(n)), and create objects once, outside the loop"
    frame: Any = user_frame(1)
    why = f"the last time because of {reasons[0].text}. Tracing is slow; {cure}. {name}.explain() lists all traces"
    warn_at(frame, frame.f_lineno, f"`{name}` was traced {count} times, {why}", RetracingWarning)
