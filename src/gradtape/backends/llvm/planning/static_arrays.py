"""Constants as memory of the module: those that are not worth filling in when the program runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape.backends.llvm.planning.values import Array
from gradtape.backends.llvm.writing.ir_text import ModuleText
from gradtape.dtypes import DType
from gradtape.ir.graph import Operation
from gradtape.ops.staged import CONSTANT

SMALL = 1024  # bytes up to which a constant of one number is written out


def constant_array(module: ModuleText, value: np.ndarray[Any, Any], dtype: DType) -> Array:
    """A constant as memory of the module."""
    data = np.ascontiguousarray(value)
    raw = data.tobytes()
    text = 'c"\\' + raw.hex("\\") + '"' if raw else "zeroinitializer"
    address = module.constant((raw, data.dtype.str), f"[{len(raw)} x i8]", text)
    return Array(address, tuple(int(n) for n in data.shape), dtype)


def is_splat(value: np.ndarray[Any, Any]) -> bool:
    """Whether an array is one number, many times."""
    return bool(value.size) and (value.ndim == 0 or (value.reshape(-1)[:1].tobytes() * value.size) == value.tobytes())


def is_static(operation: Operation) -> bool:
    """Whether an operation is a constant that is in memory before the program runs."""
    if operation.op is not CONSTANT:
        return False
    value = np.asarray(operation.attrs["value"])
    return value.ndim > 0 and (value.nbytes <= SMALL or not is_splat(value))


def constant_of(module: ModuleText, operation: Operation) -> Array | None:
    """The memory of a constant that has some."""
    if not is_static(operation):
        return None
    return constant_array(module, np.asarray(operation.attrs["value"]), operation.result.type.dtype)
