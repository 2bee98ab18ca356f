"""BLAS from native code: which library, and functions of our own around it that every module calls the same way.

NumPy's own OpenBLAS is used where its library can be found (it has 64-bit sizes and the interface for row-major matrices), else
the functions that SciPy gives to Cython. Sizes and steps are i64 here whatever the library takes. Knows no programs.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from gradtape.backends.llvm.runtime import machine
from gradtape.backends.llvm.runtime.support import Part
from gradtape.backends.llvm.writing.algebra import DOUBLE, I8, I32, I64, SINGLE, Flag, Format, Kind, Whole, select
from gradtape.backends.llvm.writing.builder import PTR, VOID, Builder, Pointer, external

LETTER = {"float": "s", "double": "d"}
NAMES = tuple(letter + name for name in ("gemm", "trsm", "trsv") for letter in "sd")
SYSTEMS = {"float64": "dgesv", "complex128": "zgesv"}  # LAPACK's, by element type
ROW_MAJOR, AS_IT_IS, TRANSPOSED, UPPER, LOWER, ANY_DIAGONAL, LEFT = 101, 111, 112, 121, 122, 131, 141  # as CBLAS numbers them


@dataclass(frozen=True, slots=True)
class BlasSource:
    """Where the functions come from. `fortran`: everything by address, column-major; else CBLAS."""

    fortran: bool
    wide: bool  # whether sizes have 64 bits, not 32
    addresses: dict[str, int]


@lru_cache(maxsize=1)
def source() -> BlasSource:
    """The library of this process; its functions are known to native code afterwards."""
    # NumPy's own first: it is loaded already, and two libraries would have two pools of threads for the same cores
    library = _numpy() or _scipy()
    for name, address in library.addresses.items():
        machine.symbol(f"gt_{name}", address)
    return library


def _numpy() -> BlasSource | None:
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
            # (not every build has LAPACK's names: then systems call NumPy)
            for name in SYSTEMS.values():
                if (solver := getattr(library, f"scipy_{name}_{suffix}", None)) is not None:
                    addresses[name] = ctypes.cast(solver, ctypes.c_void_p).value or 0
            return BlasSource(False, bool(suffix), addresses)
    return None


def _scipy() -> BlasSource:
    """What SciPy exports for Cython: Fortran functions with 32-bit sizes."""
    from scipy.linalg import cython_blas

    name_of = ctypes.pythonapi.PyCapsule_GetName
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    capsules = {name: cython_blas.__pyx_capi__[name] for name in NAMES}
    wide = b"int64" in name_of(capsules["sgemm"]) or b"long" in name_of(capsules["sgemm"])
    addresses = {name: pointer_of(capsule, name_of(capsule)) or 0 for name, capsule in capsules.items()}
    return BlasSource(True, wide, addresses)


BLAS = Part(__name__)


def _product(format: Format) -> Callable[..., None]:
    """`gt_blas_float` and its like: c = a·b, or c += a·b, for row-major matrices.

    A flag says that a matrix is given transposed: its columns lie densely.
    """

    def body(
        f: Builder, turn_a: Flag, turn_b: Flag, m: Whole, n: Whole, k: Whole, a: Pointer, step_a: Whole, b: Pointer,
        step_b: Whole, c: Pointer, step_c: Whole, add: Flag,
    ) -> None:  # fmt: skip
        library = source()
        size = I64 if library.wide else I32
        name = f"gt_{LETTER[format.scalar]}gemm"
        sizes = [number.resized(size) for number in (m, n, k, step_a, step_b, step_c)]
        one = format.wrap(f.writer, format.literal(1.0))
        beta = select(add, one, 0.0)
        if not library.fortran:
            kinds: list[Kind[Any]] = [I32, I32, I32, size, size, size, format, PTR, size, PTR, size, format, PTR, size]
            turns = [select(flag, f.number(TRANSPOSED, I32), AS_IT_IS) for flag in (turn_a, turn_b)]
            arguments = [ROW_MAJOR, *turns, *sizes[:3], one, a, sizes[3], b, sizes[4], beta, c, sizes[5]]
            external(name, VOID, *kinds)(f, *arguments)
            return
        # Fortran wants everything by address, column-major: c = a·b there is cᵀ = bᵀ·aᵀ here, so operands change places
        m_, n_, k_, sa, sb, sc = (f.variable(size, number) for number in sizes)
        ta, tb = (f.variable(I8, select(flag, f.number(ord("T"), I8), ord("N"))) for flag in (turn_a, turn_b))
        alpha_, beta_ = f.variable(format, one), f.variable(format, beta)
        external(name, VOID, *[PTR] * 13)(f, tb, ta, n_, m_, k_, alpha_, b, sb, a, sa, beta_, c, sc)

    return BLAS.add(f"gt_blas_{format.scalar}", body)


PRODUCT = {format.scalar: _product(format) for format in (SINGLE, DOUBLE)}


def _triangular(format: Format, vector: bool) -> Callable[..., None]:
    """`gt_triangular_matrix_float` and its like: the solution in the place of the right side, which a row-major matrix has."""

    def body(f: Builder, lower: Flag, adjoint: Flag, n: Whole, columns: Whole, a: Pointer, b: Pointer) -> None:
        library = source()
        size = I64 if library.wide else I32
        rows, width = n.resized(size), columns.resized(size)
        triangle, turn = select(lower, f.number(LOWER, I32), UPPER), select(adjoint, f.number(TRANSPOSED, I32), AS_IT_IS)
        name = f"gt_{LETTER[format.scalar]}{'trsv' if vector else 'trsm'}"
        if vector:
            external(name, VOID, *[I32] * 4, size, PTR, size, PTR, size)(
                f, ROW_MAJOR, triangle, turn, ANY_DIAGONAL, rows, a, rows, b, 1
            )
            return
        kinds: list[Kind[Any]] = [*[I32] * 5, size, size, format, PTR, size, PTR, size]
        one = format.wrap(f.writer, format.literal(1.0))
        external(name, VOID, *kinds)(f, ROW_MAJOR, LEFT, triangle, turn, ANY_DIAGONAL, rows, width, one, a, rows, b, width)

    return BLAS.add(f"gt_triangular_{'vector' if vector else 'matrix'}_{format.scalar}", body)


_TRIANGULAR = [_triangular(format, vector) for format in (SINGLE, DOUBLE) for vector in (True, False)]


def _system(name: str) -> Callable[..., None]:
    """`gt_system_dgesv` and its like: the solution in the place of right sides, factors in that of the matrix, all by columns.

    What is not 0 at `failed` afterwards is the column whose pivot is.
    """

    def body(f: Builder, n: Whole, columns: Whole, a: Pointer, pivots: Pointer, b: Pointer, failed: Pointer) -> None:
        if name not in source().addresses:  # nobody calls it then
            return
        size = I64 if source().wide else I32
        rows, width = f.variable(size, n.resized(size)), f.variable(size, columns.resized(size))
        external(f"gt_{name}", VOID, *[PTR] * 8)(f, rows, width, a, rows, pivots, b, rows, failed)

    return BLAS.add(f"gt_system_{name}", body)


_SYSTEMS = [_system(name) for name in SYSTEMS.values()]
