"""Element types: what a dtype is called in registers and in memory, and how literals are written."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

REGISTER = {
    "float32": "float", "float64": "double", "bool": "i1", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint8": "i8", "uint16": "i16", "uint32": "i32", "uint64": "i64",
}  # fmt: skip
MEMORY = {**REGISTER, "bool": "i8"}


def name_of(dtype: Any) -> str:
    """The name of a gradtape or NumPy dtype."""
    return str(dtype.name)


def is_native(dtype: Any) -> bool:
    """Whether values of a dtype can be computed with here; of others only memory is known."""
    return name_of(dtype) in REGISTER


def is_float(dtype: Any) -> bool:
    return name_of(dtype) in ("float32", "float64")


def is_signed(dtype: Any) -> bool:
    return name_of(dtype).startswith("int")


def is_integer(dtype: Any) -> bool:
    return "int" in name_of(dtype)


def bytes_of(dtype: Any) -> int:
    return int(dtype.size)


def literal(value: Any, dtype: Any) -> str:
    """A number as an operand of its register type."""
    name = name_of(dtype)
    if name == "bool":
        return "true" if value else "false"
    if name in ("float32", "float64"):
        # a float literal is written with the 64 bits of the double of the same value
        with np.errstate(all="ignore"):
            number = float(np.float32(value)) if name == "float32" else float(value)
        return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"
    return str(int(value))


def is_finite_literal(text: str) -> bool:
    """Whether a literal is a floating-point number that is neither infinite nor NaN."""
    return text.startswith("0x") and (int(text, 16) >> 52) & 0x7FF != 0x7FF
