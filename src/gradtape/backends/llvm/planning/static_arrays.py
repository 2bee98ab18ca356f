"""Constants as memory: those that are not worth filling in when the program runs. Short ones are part of the module, where LLVM
sees them; long ones are memory of the process, which the module names by their digest (`machine.DATA`).
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from gradtape.backends.llvm.planning.values import Array
from gradtape.backends.llvm.runtime.machine import DATA
from gradtape.backends.llvm.writing.ir_text import ModuleText
from gradtape.dtypes import DType
from gradtape.ir.graph import Operation
from gradtape.ops.staged import CONSTANT

SMALL = 1024  # bytes up to which a constant of one number is written out
IN_TEXT = 256  # bytes of an array that stands in the text of a module


def constant_array(module: ModuleText, value: np.ndarray[Any, Any], dtype: DType) -> Array:
    """A constant as memory of the module."""
    dims = tuple(map(int, value.shape))
    known = module.arrays.get(id(value))  # long ones are read and digested once, however often they are used
    if known is not None:
        return Array(known[1], dims, dtype)
    raw = value.tobytes()
    if len(raw) > IN_TEXT:
        address = module.data(DATA + hashlib.sha256(raw).hexdigest(), raw)
        module.arrays[id(value)] = value, address
        return Array(address, dims, dtype)
    text = 'c"\\' + raw.hex("\\") + '"' if raw else "zeroinitializer"
    return Array(module.constant((raw, value.dtype.str), f"[{len(raw)} x i8]", text), dims, dtype)


def is_splat(value: np.ndarray[Any, Any]) -> bool:
    """Whether an array is one number, many times."""
    flat, size = value.reshape(-1), value.size
    first = flat[:1].tobytes()  # bytes, not numbers: of zeros with signs, and of NaNs
    few = all(flat[at : at + 1].tobytes() == first for at in (size // 2, size - 1))  # before all of them are looked at
    return bool(size) and few and (size == 1 or first * size == value.tobytes())


def is_static(operation: Operation) -> bool:
    """Whether an operation is a constant that is in memory before the program runs."""
    value = np.asarray(operation.attrs.get("value"))
    return operation.op is CONSTANT and value.ndim > 0 and (value.nbytes <= SMALL or not is_splat(value))


def constant_of(module: ModuleText, operation: Operation) -> Array | None:
    """The memory of a constant that has some."""
    value = operation.attrs.get("value")
    return constant_array(module, np.asarray(value), operation.result.type.dtype) if is_static(operation) else None
