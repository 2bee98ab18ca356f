"""What a call gives and writes, described before there are values: structures whose leaves say which output goes there.

While a function is traced, an `OutputCollector` makes templates of its result and of what it wrote, and collects the outputs
of the block on the way; at run time `filled` puts the outputs in. Filled with types or with traced tensors, a template gives
a structure of these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradtape import tree
from gradtape.core.dispatch import apply, convert
from gradtape.core.tensor import Readable, Tensor
from gradtape.errors import InvalidArgumentError
from gradtape.functions.outside_arrays import itself
from gradtape.functions.staging.absent import is_absent, whole
from gradtape.functions.staging.staged_values import Maybe, StagedItems, staged_items
from gradtape.ir.types import ListSpec, TensorSpec
from gradtape.ops.lists import LIST_GET
from gradtape.trace.tracing import TracedTensor
from gradtape.trace.weak import WeakTensor, default_number
from gradtape.variables.indexed_slices import IndexedSlices
from gradtape.variables.variable import Variable

# the leaves of what a function may return or store
VALUES = (
    Tensor, Readable, np.ndarray, np.generic, bool, int, float, complex, str, bytes, type(None), IndexedSlices, StagedItems,
)  # fmt: skip


class Output:
    """A leaf of a template: output number `index` of the block, as a tensor, a Python number or a list of tensors."""

    __slots__ = ("index", "number")

    def __init__(self, index: int, number: type | None = None) -> None:
        self.index = index
        self.number = number  # the Python type to convert to, for state that was a Python number


class Optional:
    """A leaf that is None where output `flag` is false."""

    __slots__ = ("flag", "inner")

    def __init__(self, flag: int, inner: Any) -> None:
        self.flag = flag
        self.inner = inner


class Slices(NamedTuple):
    """A leaf that is an `IndexedSlices` of two outputs."""

    values: Any
    indices: Any
    dense_shape: Any


def filled(template: Any, outs: Sequence[Any]) -> Any:
    """A template with its outputs put in."""
    kind = template.__class__
    if kind is Output:
        return _leaf(template, outs[template.index])
    if kind is Optional:
        flag = outs[template.flag]
        if isinstance(flag, TracedTensor):
            return Maybe(flag, filled(template.inner, outs), None)
        # asked for types, `flag` is a type: then the answer is the type that it may have
        return filled(template.inner, outs) if not isinstance(flag, Tensor) or bool(flag) else None
    if kind is list or kind is tuple:
        return kind([filled(t, outs) for t in template])
    if kind is dict:
        return {k: filled(v, outs) for k, v in template.items()}
    if kind is Slices:
        parts = filled(template.values, outs), filled(template.indices, outs)
        slices = Slices if isinstance(parts[0], TensorSpec) else IndexedSlices  # asked for types: there are no tensors
        return slices(*parts, template.dense_shape)
    if tree.is_nested(template):
        return tree.pack_sequence_as(template, [filled(t, outs) for t in tree.flatten(template)])
    return template


def _leaf(leaf: Output, value: Any) -> Any:
    if isinstance(value, TracedTensor) or not isinstance(value, Tensor):
        if isinstance(value, TracedTensor) and isinstance(value._data.type, ListSpec):
            return [StagedItems(value)]  # type: ignore[arg-type]
        return value
    if leaf.number is not None:
        return leaf.number(value._data)
    if isinstance(value._data, list):
        return [apply(LIST_GET, value, np.int32(i)) for i in range(len(value._data))]
    return value


class OutputCollector:
    """Makes templates out of traced values, collecting the outputs of the block."""

    def __init__(self, tracer: Any) -> None:
        self.tracer = tracer
        self.outputs: list[Any] = []
        self.places: dict[Any, int] = {}

    def output(self, tensor: Any) -> int:
        value = self.tracer.trace.operand(tensor)
        # two names of one tensor are one output, and one object in the caller's hands
        # (found by the value of the program, not by the tensor object)
        if value not in self.places:
            self.places[value] = len(self.outputs)
            self.outputs.append(value)
        return self.places[value]

    def template(self, value: Any, label: str, number: type | None = None, numbers: bool = False) -> Any:
        value = itself(value)
        if is_absent(value):
            if not numbers:
                raise InvalidArgumentError(
                    f"{label} is set on some paths only and was not there before the call: set it before (None will do)"
                )
            return self.template(value.get(), label, number, numbers)
        if isinstance(value, Maybe):
            return Optional(self.output(value.flag), self.template(value.value, label, number, numbers))
        if isinstance(value, WeakTensor):
            if number is not None:  # a Python number it was, and only numbers went into it: a Python number it is
                return Output(self.output(value.strong()), _kind_of(value))
            value = default_number(value)
        if isinstance(value, TracedTensor):
            return Output(self.output(value))
        if staged_items(value) is not None:
            return Output(self.output(value[0].items))
        if isinstance(value, Tensor):
            return Output(self.output(value))
        if isinstance(value, Variable):
            return Output(self.output(value.read())) if numbers else value
        if isinstance(value, IndexedSlices):
            return Slices(self.template(value.values, label), self.template(value.indices, label), value.dense_shape)
        if isinstance(value, Mapping) and type(value) is dict:
            if numbers:
                whole(value)
            return {k: self.template(v, label, None, numbers) for k, v in value.items()}
        if type(value) in (list, tuple):
            return type(value)([self.template(v, label, None, numbers) for v in value])
        if tree.is_nested(value):
            return tree.pack_sequence_as(value, [self.template(v, label, None, numbers) for v in tree.flatten(value)])
        if numbers and isinstance(value, (bool, int, float, complex, np.ndarray, np.generic)):
            return Output(self.output(self.tracer.trace.constant(convert(value)._data)))
        return value


def _kind_of(value: WeakTensor) -> type:
    return {"b": bool, "i": int, "f": float}.get(value.dtype.dtype.kind, complex)
