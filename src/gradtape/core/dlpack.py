"""DLPack without copies: a tensor's memory for other libraries, and theirs for tensors.

NumPy makes and reads the capsules; it has no name for bfloat16, so such memory travels as 16-bit integers whose type is written
over in the capsule. What is exported is read-only: consumers that know DLPack 1.0, which can say so, get the
memory, and so does JAX, which never writes; others get a copy.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from gradtape.core.bfloat16 import BFLOAT16
from gradtape.core.record import user_frame
from gradtape.dtypes import bfloat16

# DLDataType.code stands behind data (8), device (8) and ndim (4); a versioned capsule has 32 bytes before its DLTensor
_CODES = {b"dltensor": 20, b"dltensor_versioned": 52}
_UINT, _BFLOAT = 1, 4

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]


def exported(data: Any, *, max_version: tuple[int, int] | None = None, copy: bool | None = None, **options: Any) -> Any:
    """A capsule with the memory of a tensor's array."""
    array = np.asarray(data)
    # Before 1.0 a capsule could not be read-only: whoever speaks that would write into a recorded value.
    knows_read_only = max_version is not None and max_version[0] >= 1
    by_jax = array.flags.writeable and str(user_frame(1).f_globals.get("__name__")).startswith("jax.")
    if copy or not (knows_read_only or by_jax):
        if copy is False:
            raise BufferError("a tensor's memory is read-only, which DLPack before 1.0 cannot say: ask with copy=None")
        array = np.array(array, order="C")
    else:
        array = array.view()
        array.flags.writeable = not knows_read_only
    plain = array.view(np.uint16) if array.dtype.kind == BFLOAT16 else array
    capsule = plain.__dlpack__(max_version=max_version, **options)
    if plain is not array:
        _type_code(capsule).value = _BFLOAT
    return capsule


def imported(x: Any, *, copy: bool | None) -> np.ndarray[Any, Any]:
    """The array of another library as a NumPy array: the same memory, read-only, if `copy` is False; else a copy."""
    try:
        capsule = x.__dlpack__(max_version=(1, 0))
    except TypeError:  # of a time before there were versions
        capsule = x.__dlpack__()
    code = _type_code(capsule)
    # Read before NumPy takes the capsule, which it may only do once.
    brain = code.value == _BFLOAT
    if brain:
        code.value = _UINT
    array: np.ndarray[Any, Any] = np.from_dlpack(_Holder(capsule, x.__dlpack_device__()))
    array = array.view(bfloat16.dtype) if brain else array
    if copy is not False:
        return array.copy()
    array = array.view()
    array.flags.writeable = False
    return array


class _Holder:
    """A capsule that was taken already, for NumPy to ask for."""

    def __init__(self, capsule: Any, device: tuple[int, int]) -> None:
        self.capsule, self.device = capsule, device

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


def _type_code(capsule: Any) -> ctypes.c_uint8:
    for name, offset in _CODES.items():
        if _is_valid(capsule, name):
            return ctypes.c_uint8.from_address((_pointer(capsule, name) or 0) + offset)
    raise BufferError("__dlpack__ gave no DLPack capsule")
