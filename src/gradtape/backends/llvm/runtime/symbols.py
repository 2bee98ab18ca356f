"""Where native code finds Python's and NumPy's functions and objects: addresses by name, told to LLVM.

Offsets are those of the NumPy 2 and CPython ABI with the GIL; other builds are refused by `available`.
"""

from __future__ import annotations

import ctypes
import functools
import sysconfig
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from gradtape.backends.llvm.runtime import machine
from gradtape.backends.llvm.writing.algebra import I32, I64, Kind
from gradtape.backends.llvm.writing.builder import PTR, Builder, Member, Pointer, external

T = TypeVar("T")

# an array object, and a NumPy scalar, which has its value where an array has its data
TYPE, DATA, RANK, DIMS = Member(8, PTR), Member(16, PTR), Member(24, I32), Member(32, PTR)
DESCR, FLAGS = Member(56, PTR), Member(64, I32)
SCALAR = Member(16, I64)
PLAIN = 0x101  # flags of an array that is C-contiguous and aligned
# places in NumPy's table of functions
NUMPY = {"gt_array_copy": 85, "gt_array_empty": 184, "gt_array_scalar": 60, "gt_set_handler": 304}

_KEPT: dict[str, object] = {}
_DTYPES = {np.dtype(kind).name: np.dtype(kind) for kind in (*"?bBhHiIlLefdFD",)}  # those that have a name in native code


def available() -> bool:
    """Whether this Python has the layout of objects that native code reads."""
    return not sysconfig.get_config_var("Py_GIL_DISABLED") and ctypes.sizeof(ctypes.c_void_p) == 8


def python(name: str, result: Kind[T], *kinds: Kind[object]) -> Callable[..., T]:
    """A function of Python's C API, or of NumPy's by our name for it, to be called like a routine."""
    call = external(name, result, *kinds)

    def known(f: Builder, *arguments: object) -> T:
        _address(name)
        return call(f, *arguments)

    return known


@functools.cache
def _address(name: str) -> None:
    """Tell LLVM where a function is."""
    if name not in NUMPY:
        machine.symbol(name, ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0)
        return
    from numpy._core import _multiarray_umath  # type: ignore[attr-defined]

    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = ctypes.cast(get(_multiarray_umath._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
    machine.symbol(name, table[NUMPY[name]] or 0)


def lasting(f: Builder, name: str, thing: object) -> Pointer[Any]:
    """A Python object that lives for ever, by name."""
    _keep(name, thing)
    return f.external(name)


def _keep(name: str, thing: object) -> None:
    if name not in _KEPT:
        _KEPT[name] = thing
        machine.symbol(name, id(thing))


def scalar_type(dtype: np.dtype[Any]) -> tuple[str, object]:
    """The type of NumPy's scalars of a dtype, to be kept under a name."""
    return f"gt_scalar_{dtype.name}", dtype.type


def described(dtype: np.dtype[Any]) -> tuple[str, object]:
    """A dtype as arrays have it, to be kept under a name."""
    return f"gt_descr_{dtype.name}", dtype


def introduce(name: str) -> None:
    """Tell LLVM where something is that a program of another process named, if its name says what it is."""
    kind, _, dtype = name.removeprefix("gt_").partition("_")
    if name in NUMPY or (name.startswith("Py") and hasattr(ctypes.pythonapi, name)):
        _address(name)
    elif kind in ("scalar", "descr") and dtype in _DTYPES:
        _keep(*(scalar_type if kind == "scalar" else described)(_DTYPES[dtype]))
