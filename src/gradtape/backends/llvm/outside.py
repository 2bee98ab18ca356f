"""Where native code finds Python's and NumPy's functions and objects: addresses by name, told to LLVM.

Offsets are those of the NumPy 2 and CPython ABI with the GIL; other builds are refused by `available`.
"""

from __future__ import annotations

import ctypes
import functools
import sysconfig
from typing import Any

import numpy as np

from gradtape.backends.llvm import machine

TYPE, DATA, RANK, DIMS, DESCR, FLAGS = 8, 16, 24, 32, 56, 64  # offsets in an array object
SCALAR = 16  # offset of the value in a NumPy scalar
PLAIN = 0x101  # C-contiguous and aligned
EMPTY, SCALAR_OF = 184, 60  # places in NumPy's table of functions
PYTHON = (
    "PyTuple_New", "PyTuple_SetItem", "PyEval_SaveThread", "PyEval_RestoreThread", "Py_IncRef", "Py_DecRef", "PyLong_FromLong",
    "PyErr_CheckSignals", "PyErr_NoMemory", "PyGILState_Ensure", "PyGILState_Release",
)  # fmt: skip

_KEPT: dict[str, Any] = {}


def available() -> bool:
    """Whether this Python has the layout of objects that native code reads."""
    return not sysconfig.get_config_var("Py_GIL_DISABLED") and ctypes.sizeof(ctypes.c_void_p) == 8


@functools.cache
def symbols() -> None:
    """Tell LLVM where Python's and NumPy's functions and objects are."""
    for name in PYTHON:
        address = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
        machine.symbol(name, address or 0)
    from numpy._core import _multiarray_umath  # type: ignore[attr-defined]

    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = ctypes.cast(get(_multiarray_umath._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
    machine.symbol("gt_array_empty", table[EMPTY] or 0)
    machine.symbol("gt_array_scalar", table[SCALAR_OF] or 0)
    machine.symbol("gt_ndarray", id(np.ndarray))
    machine.symbol("gt_none", id(None))


def lasting(module: Any, name: str, thing: Any) -> str:
    """A Python object that lives for ever, by name."""
    if name not in _KEPT:
        _KEPT[name] = thing
        machine.symbol(name, id(thing))
    found: str = module.outside(name)
    return found
