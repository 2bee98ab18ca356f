"""BLAS from native code: which library, and functions of our own around it that every module calls the same way.

NumPy's own OpenBLAS is used where its library can be found (it has 64-bit sizes and the interface for row-major matrices), else
the functions that SciPy gives to Cython. Sizes and steps are i64 here whatever the library takes. Knows no programs.
"""

from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from gradtape.backends.llvm import machine
from gradtape.backends.llvm.text import Module

LETTER = {"float": "s", "double": "d"}
NAMES = ("sgemm", "dgemm", "sgemv", "dgemv")


@dataclass(frozen=True, slots=True)
class Source:
    """Where the functions come from. `fortran`: everything by address, column-major; else CBLAS."""

    fortran: bool
    integer: str  # i32 or i64
    library: Any
    addresses: dict[str, int]
    suffix: str = ""

    def threads(self, number: int | None = None) -> int:
        """How many threads the library uses; sets the number if one is given. 0: it does not say."""
        if self.library is None:
            return 0
        get, put = (getattr(self.library, f"scipy_openblas_{verb}_num_threads{self.suffix}", None) for verb in ("get", "set"))
        if get is None or put is None:
            return 0
        if number is not None:
            put(ctypes.c_int(number))
        return int(get())


@lru_cache(maxsize=1)
def source() -> Source:
    """The library of this process; its functions are known to native code afterwards."""
    found = _numpy() or _scipy()
    for name, address in found.addresses.items():
        machine.symbol(f"gt_{name}", address)
    return found


def _numpy() -> Source | None:
    """The OpenBLAS inside a NumPy wheel: the very one that NumPy calls."""
    home = Path(np.__file__).resolve().parent
    for folder in (home.parent / "numpy.libs", home / ".dylibs"):
        for path in sorted(folder.glob("*openblas*")) if folder.is_dir() else ():
            suffix = "64_" if re.search(r"openblas64_", path.name) else ""
            try:
                library = ctypes.CDLL(str(path))
                addresses = {
                    name: ctypes.cast(getattr(library, f"scipy_cblas_{name}{suffix}"), ctypes.c_void_p).value or 0
                    for name in NAMES
                }
            except (OSError, AttributeError):
                continue
            return Source(False, "i64" if suffix else "i32", library, addresses, suffix)
    return None


def _scipy() -> Source:
    """What SciPy exports for Cython: Fortran functions with 32-bit sizes."""
    from scipy.linalg import cython_blas

    name_of = ctypes.pythonapi.PyCapsule_GetName
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    capsules = {name: cython_blas.__pyx_capi__[name] for name in NAMES}
    wide = b"int64" in name_of(capsules["sgemm"]) or b"long" in name_of(capsules["sgemm"])
    addresses = {name: pointer_of(capsule, name_of(capsule)) or 0 for name, capsule in capsules.items()}
    return Source(True, "i64" if wide else "i32", None, addresses)


def gemm(module: Module, kind: str) -> str:
    """void (turn a, turn b, m, n, k, a, step a, b, step b, beta, c, step c): c = a·b + beta·c, row-major matrices.

    A flag `turn` says that a matrix is given transposed: its columns lie densely.
    """
    return module.library(f"gt.gemm.{kind}", lambda: _gemm(module, kind, source()))


def gemv(module: Module, kind: str) -> str:
    """void (turn, m, n, a, step a, x, step x, beta, y, step y): y = a·x + beta·y, a row-major m × n, or its transpose."""
    return module.library(f"gt.gemv.{kind}", lambda: _gemv(module, kind, source()))


def _gemm(module: Module, kind: str, lib: Source) -> str:
    name = f"gt_{LETTER[kind]}gemm"
    head = (
        f"define internal void @gt.gemm.{kind}(i1 %ta, i1 %tb, i64 %m, i64 %n, i64 %k, ptr %a, i64 %sa, ptr %b, i64 %sb,"
        f" {kind} %beta, ptr %c, i64 %sc) nounwind noinline {{"
    )
    one = "1.0"
    if not lib.fortran:
        i = lib.integer
        module.declare(name, f"void (i32, i32, i32, {i}, {i}, {i}, {kind}, ptr, {i}, ptr, {i}, {kind}, ptr, {i})")
        flags = ["  %fa = select i1 %ta, i32 112, i32 111", "  %fb = select i1 %tb, i32 112, i32 111"]
        sizes, narrow = _sizes(i, ("m", "n", "k", "sa", "sb", "sc"))
        call = (
            f"  call void @{name}(i32 101, i32 %fa, i32 %fb, {i} {sizes['m']}, {i} {sizes['n']}, {i} {sizes['k']}, {kind}"
            f" {one},"
            f" ptr %a, {i} {sizes['sa']}, ptr %b, {i} {sizes['sb']}, {kind} %beta, ptr %c, {i} {sizes['sc']})"
        )
        return "\n".join([head, *flags, *narrow, call, "  ret void", "}"])
    # row-major c = a·b is column-major cᵀ = bᵀ·aᵀ: operands change places, flags stay
    module.declare(name, "void (ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr)")
    lines, spot = _spots(lib.integer, kind, ("m", "n", "k", "sa", "sb", "sc"), {"one": one, "beta": "%beta"}, ("ta", "tb"))
    call = (
        f"  call void @{name}(ptr {spot['tb']}, ptr {spot['ta']}, ptr {spot['n']}, ptr {spot['m']}, ptr {spot['k']}, ptr"
        f" {spot['one']},"
        f" ptr %b, ptr {spot['sb']}, ptr %a, ptr {spot['sa']}, ptr {spot['beta']}, ptr %c, ptr {spot['sc']})"
    )
    return "\n".join([head, *lines, call, "  ret void", "}"])


def _gemv(module: Module, kind: str, lib: Source) -> str:
    name = f"gt_{LETTER[kind]}gemv"
    head = (
        f"define internal void @gt.gemv.{kind}(i1 %ta, i64 %m, i64 %n, ptr %a, i64 %sa, ptr %x, i64 %sx, {kind} %beta,"
        f" ptr %y, i64 %sy) nounwind noinline {{"
    )
    one = "1.0"
    if not lib.fortran:
        i = lib.integer
        module.declare(name, f"void (i32, i32, {i}, {i}, {kind}, ptr, {i}, ptr, {i}, {kind}, ptr, {i})")
        sizes, narrow = _sizes(i, ("m", "n", "sa", "sx", "sy"))
        call = (
            f"  call void @{name}(i32 101, i32 %fa, {i} {sizes['m']}, {i} {sizes['n']}, {kind} {one}, ptr %a, {i}"
            f" {sizes['sa']},"
            f" ptr %x, {i} {sizes['sx']}, {kind} %beta, ptr %y, {i} {sizes['sy']})"
        )
        return "\n".join([head, "  %fa = select i1 %ta, i32 112, i32 111", *narrow, call, "  ret void", "}"])
    module.declare(name, "void (ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr)")
    lines, spot = _spots(lib.integer, kind, ("m", "n", "sa", "sx", "sy"), {"one": one, "beta": "%beta"}, ("not",))
    call = (
        f"  call void @{name}(ptr {spot['not']}, ptr {spot['n']}, ptr {spot['m']}, ptr {spot['one']}, ptr %a, ptr {spot['sa']},"
        f" ptr %x, ptr {spot['sx']}, ptr {spot['beta']}, ptr %y, ptr {spot['sy']})"
    )
    return "\n".join([head, "  %not = xor i1 %ta, true", *lines, call, "  ret void", "}"])


def _sizes(integer: str, names: tuple[str, ...]) -> tuple[dict[str, str], list[str]]:
    """Sizes as the library's integers."""
    if integer == "i64":
        return {name: f"%{name}" for name in names}, []
    return {name: f"%{name}.n" for name in names}, [f"  %{name}.n = trunc i64 %{name} to {integer}" for name in names]


def _spots(
    integer: str, kind: str, sizes: tuple[str, ...], numbers: dict[str, str], flags: tuple[str, ...]
) -> tuple[list[str], dict[str, str]]:
    """Everything by address, as Fortran wants it: sizes, numbers, and flags as the letters N and T."""
    values, lines = _sizes(integer, sizes)
    spots: dict[str, str] = {}
    stores: list[tuple[str, str, str]] = [(name, integer, values[name]) for name in sizes]
    stores += [(name, kind, number) for name, number in numbers.items()]
    for flag in flags:
        lines.append(f"  %{flag}.c = select i1 %{flag}, i8 84, i8 78")
        stores.append((flag, "i8", f"%{flag}.c"))
    for name, type, value in stores:
        spots[name] = f"%{name}.p"
        lines += [f"  %{name}.p = alloca {type}", f"  store {type} {value}, ptr %{name}.p"]
    return lines, spots
