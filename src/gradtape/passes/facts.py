"""What the passes ask about values and operations: constants, types, purity, keys that say when two things are the same.

Answers are conservative: "don't know" (None, False) is always allowed. Nothing here changes a program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradtape.dtypes import as_dtype
from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.types import ListSpec, TensorSpec
from gradtape.ir.walk import Rebuild
from gradtape.ops.create import ONES_LIKE, ZEROS_LIKE
from gradtape.ops.shape import BROADCAST_TO, RESHAPE
from gradtape.ops.staged import CONSTANT, FILLED

SMALL = 64 * 1024  # bytes; larger results are not computed, larger constants not looked into, at compile time


def same_type(a: Any, b: Any) -> bool:
    """The same shape and dtype (names of specs do not count)."""
    if isinstance(a, ListSpec) or isinstance(b, ListSpec):
        return isinstance(a, ListSpec) and isinstance(b, ListSpec) and same_type(a.item, b.item)
    return a.dtype is b.dtype and tuple(a.shape) == tuple(b.shape)


def static_bytes(type: Any) -> int | None:
    """The size of a tensor of this type; None for lists and symbolic shapes."""
    if isinstance(type, ListSpec) or not static_shape(type.shape):
        return None
    return int(np.prod(tuple(type.shape), dtype=np.int64)) * int(type.dtype.size)


def static_shape(shape: Sequence[Any]) -> bool:
    """True when every dimension is a plain number."""
    return all(d.__class__ is int or isinstance(d, (int, np.integer)) for d in shape)


def constant_value(value: Value) -> Any:
    """The array (NumPy scalar for 0-d) of a `constant` that has a static shape; None for any other value."""
    producer = value.owner
    if producer.__class__ is not Operation or producer.op is not CONSTANT:
        return None
    return CONSTANT.impl(**producer.attrs)


def emit_constant(scope: Rebuild, value: Any) -> Value:
    """A new `constant` in the block being built."""
    return scope.emit(CONSTANT, [], [TensorSpec(value.shape, as_dtype(value.dtype))], {"value": value}).result


def uniform(value: Value) -> Any:
    """The one number all elements of a value are (a NumPy scalar), where the program says so; else None."""
    while True:
        producer = value.owner
        if producer.__class__ is not Operation:
            return None
        op = producer.op
        if op is CONSTANT:
            return _uniform_array(constant_value(value))
        if op is ZEROS_LIKE or op is ONES_LIKE:
            if isinstance(value.type, ListSpec) or value.type.dtype.kind == "O":
                return None
            return value.type.dtype.dtype.type(0 if op is ZEROS_LIKE else 1)
        if op is FILLED:
            kind, number = value.type.dtype, producer.attrs["value"]
            return None if kind.kind == "O" else kind.dtype.type(number or 0)  # as its impl does: -0.0 is filled as 0.0
        if op is not BROADCAST_TO and op is not RESHAPE:
            return None
        value = producer.operands[0]


def _uniform_array(array: Any) -> Any:
    if isinstance(array, list) or array.dtype.kind == "O":
        return None
    if not array.ndim:
        return array[()]
    # an empty array is not all of some number: whoever asks would replace it by that number
    if not array.size or array.nbytes > SMALL:
        return None
    first = array.flat[0]
    # by bytes: 0.0 and -0.0 differ, NaN equals itself
    return first if array.tobytes() == first.tobytes() * array.size else None


def is_number(value: Value, number: float) -> bool:
    """True when every element is this number; 0.0 and -0.0 are told apart in floating types."""
    constant = uniform(value)
    if constant is None or constant != number:
        return False
    if value.type.dtype.kind not in "fc":
        return True
    parts = (constant.real, constant.imag) if value.type.dtype.kind == "c" else (float(constant),)
    # x + 0.0 is not x for x = -0.0, and x + -0.0 is
    return all(bool(np.signbit(part)) == bool(np.signbit(number)) for part in parts if part == 0)


def attr_key(attr: Any) -> Any:
    """A hashable key, equal only for attributes that mean the same: 1, 1.0 and True differ, so do 0.0 and -0.0."""
    kind = attr.__class__
    if kind is int or kind is str or kind is bool or attr is None:
        return (kind, attr)
    if kind is float:
        return (kind, attr.hex())
    if kind is complex:
        return (kind, attr.real.hex(), attr.imag.hex())
    if isinstance(attr, (tuple, list)):
        return (kind, *(attr_key(part) for part in attr))
    if kind is slice:
        return (kind, attr_key(attr.start), attr_key(attr.stop), attr_key(attr.step))
    if isinstance(attr, dict):
        return (kind, *((key, attr_key(part)) for key, part in attr.items()))
    if isinstance(attr, (np.ndarray, np.generic)):
        # a large array equals itself only: reading it for each key costs more than what sharing would save
        if attr.dtype.kind == "O" or attr.nbytes > SMALL:
            return ("object", id(attr))
        return ("array", attr.dtype.str, attr.shape, attr.tobytes())
    if isinstance(attr, Block):
        return ("object", id(attr))
    # with the class: True == 1 == 1.0 and their hashes are equal
    return (kind, attr) if attr.__hash__ is not None else ("object", id(attr))


def attrs_key(attrs: dict[str, Any]) -> Any:
    """The key of all attributes of an operation."""
    return tuple([(name, attr_key(attrs[name])) for name in sorted(attrs)]) if attrs else ()


def type_key(type: Any) -> Any:
    """A hashable key of a type, names of specs left out."""
    if isinstance(type, ListSpec):
        return ("list", type_key(type.item))
    return (type.dtype.name, tuple(type.shape))
