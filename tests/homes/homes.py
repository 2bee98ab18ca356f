"""Where a tensor lives, seen from a compiled function: the first axis of the home test.

A home is the text of an expression that gives the tensor inside the function; `placed` writes the text of a whole function for
one home per tensor. Text, not closures over arrays: a constant must stand in the source to be one while the function is traced.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

import gradtape as gt
from tests.homes.cases import loaded


@dataclass(frozen=True)
class Home:
    """A home: the expression for tensor number `{i}` of `{shape}`, with the literal `{literal}` and the dtype `{dtype}`."""

    name: str
    expression: str
    visible: str = ""  # which outside object can be watched: passed, captured, variable or none
    unknown: bool = False  # the dimensions are None in the signature

    def __str__(self) -> str:
        return self.name


ARGUMENT = Home("argument", "passed[{place}]", "passed")
UNKNOWN = Home("argument of unknown size", "passed[{place}]", "passed", unknown=True)
CONSTANT = Home("constant", "gt.constant({literal}, gt.{dtype})")
COMPUTED = Home("computed constant", "gt.zeros({shape}, gt.{dtype}) + gt.constant({literal}, gt.{dtype})")
CAPTURED = Home("captured", "captured_{i}", "captured")
VARIABLE = Home("variable", "variable_{i}", "variable")
ASSIGNED = Home("variable assigned inside", "assigned(variable_{i}, {literal})")
ITEM = Home("list item", "items[{i}]", "captured")
ATTRIBUTE = Home("attribute", "holder.tensor_{i}", "captured")
HOMES = (ARGUMENT, UNKNOWN, CONSTANT, COMPUTED, CAPTURED, VARIABLE, ASSIGNED, ITEM, ATTRIBUTE)

_TEXT = """\
import gradtape as gt


def assigned(variable, value):
    variable.assign(value)
    return variable


def scene({names}):
    def settle(passed):
        return [{expressions}]

    return settle
"""


@dataclass(frozen=True)
class Placed:
    """Tensors in their homes: what is passed, what can be seen from outside, and `settle(passed)`, which gives them inside."""

    passed: list[Any]
    signature: list[Any] | None
    visible: list[Any]  # one per tensor: the object outside, None where there is none
    settle: Any
    text: str = field(repr=False)


def placed(homes: list[Home], arrays: list[Any]) -> Placed:
    """Fresh tensors with these numbers, each in its home."""
    passed, signature, visible, expressions = [], [], [], []
    names: dict[str, Any] = {"items": [None] * len(arrays), "holder": SimpleNamespace()}
    for i, (home, array) in enumerate(zip(homes, arrays, strict=True)):
        tensor = gt.constant(array)
        expressions.append(
            home.expression.format(
                i=i, place=len(passed), literal=array.tolist(), shape=list(array.shape), dtype=array.dtype.name
            )
        )
        names[f"captured_{i}"] = names["items"][i] = tensor
        setattr(names["holder"], f"tensor_{i}", tensor)
        start = array if home is VARIABLE else np.zeros_like(array)
        names[f"variable_{i}"] = gt.Variable(start, name=f"variable_{i}")
        visible.append({"passed": tensor, "captured": tensor, "variable": names[f"variable_{i}"]}.get(home.visible))
        if home.visible == "passed":
            passed.append(tensor)
            signature.append(gt.TensorSpec([None if home.unknown else n for n in array.shape], tensor.dtype))
    used = {name: value for name, value in names.items() if any(name in expression for expression in expressions)}
    text = _TEXT.format(names=", ".join(used), expressions=", ".join(expressions))
    return Placed(
        passed, signature if any(home.unknown for home in homes) else None, visible, loaded(text)["scene"](**used), text
    )
