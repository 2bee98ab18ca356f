"""Errors about values that only run time knows, in words about the argument: `argmax: axis must be known while tracing`.

Axes, sizes of windows and the like shape a program, so while it is traced they must be numbers. The functions that need one
just ask the tensor for its value, in many places; what it was to the user, the name of an argument in a call on some line, is
read here from the traceback of the error. Only the text of the error changes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any

from gradtape.ad.batch import BatchedTensor, NoSingleValue
from gradtape.core.exits import LIBRARIES
from gradtape.core.record import INTERNAL
from gradtape.errors import OperatorNotAllowedInGraphError, StaticDimensionNeeded
from gradtape.ir.polynomial import Dim
from gradtape.trace.tracing import TracedTensor, described, known_value
from gradtape.variables.variable import Variable

UNKNOWN = (OperatorNotAllowedInGraphError, StaticDimensionNeeded, NoSingleValue)
_HERE = os.path.dirname(__file__)
# frames of these carry the arguments of any call
_PLUMBING = (os.path.join(_HERE, "autograph") + os.sep, os.path.join(_HERE, "stag"), os.path.join(_HERE, "run_time"))
_DATA = {
    "arr", "data", "ids", "indices", "input", "input_tensor", "labels", "params", "segment_ids", "self", "targets", "tensor",
    "updates", "value", "values", "x",
}  # fmt: skip


def name_argument(error: Exception) -> None:
    """Make an error that a value is not known yet say which argument of which function it was given as, if it was one."""
    if not isinstance(error, UNKNOWN) or error.__traceback__ is None:
        return
    place, function, argument, tensor = _argument(error) or (None,) * 4
    if argument is None:
        return
    if isinstance(tensor, BatchedTensor):
        why = f"it is a tensor inside vectorized_map (each {tuple(tensor.shape)}), another one for each example"
    else:
        what = f"a tensor of the program ({described(tensor)})" if isinstance(tensor, TracedTensor) else str(tensor)
        what = f"the variable '{tensor.name}'" if isinstance(tensor, Variable) else what
        why = f"it is {what}, which gets its value when the function runs"
    error.args = (
        f"{place}: {function}: {argument} must be known while tracing, but {why}: give Python numbers (x.shape[i] of a known "
        "size), or make it an argument of the gt.function that is a Python number, for which it is traced once each",
    )


def _argument(error: Exception) -> tuple[str, str, str, Any] | None:
    """The line, the function that the user called there last, and its argument that is not known, with its tensor."""
    place = called = None
    entry = error.__traceback__
    while entry is not None:
        file = entry.tb_frame.f_code.co_filename
        if file not in INTERNAL and not file.startswith(LIBRARIES):
            place, called = f"{file}:{entry.tb_lineno}", None
        elif called is None and place is not None and not file.startswith(_PLUMBING):
            argument = _unknown_argument(entry.tb_frame, getattr(error, "tensor", None))
            called = None if argument is None else (place, entry.tb_frame.f_code.co_name, *argument)
        entry = entry.tb_next
    return called


def _unknown_argument(frame: FrameType, asked: Any) -> tuple[str, Any] | None:
    """The parameter of a function that is or holds the tensor that was asked for its value, or else one that nobody knows."""
    unknown = {name: list(_unknown(frame.f_locals.get(name))) for name in _parameters(frame.f_code)}
    for name, tensors in unknown.items():
        if name != "self" and any(tensor is asked for tensor in tensors):
            return name, asked
    return next(((name, tensors[0]) for name, tensors in unknown.items() if tensors and name not in _DATA), None)


def _parameters(code: CodeType) -> tuple[str, ...]:
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _unknown(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _unknown(item)
    elif isinstance(value, (BatchedTensor, Variable)):
        yield from (value,) * value.dtype.is_integer
    elif (isinstance(value, TracedTensor) and value.dtype.is_integer and known_value(value) is None) or isinstance(value, Dim):
        yield value
