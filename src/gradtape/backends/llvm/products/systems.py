"""Linear systems of two matrices on the program's own memory: general ones by LAPACK, real triangular ones by BLAS.

Others (batches, sizes of the run, other libraries) call the op's `impl`. LAPACK has matrices by columns: a general system is
written as one of transposed matrices, so that whoever computes them puts them down as LAPACK wants them.
"""

from __future__ import annotations

from gradtape.backends.llvm.kernels.callback_code import write_callback
from gradtape.backends.llvm.kernels.scope import Scope
from gradtape.backends.llvm.planning.lowering import Lowering
from gradtape.backends.llvm.planning.values import Lowered
from gradtape.backends.llvm.planning.writing_out import Maker, native_op
from gradtape.backends.llvm.products import blas
from gradtape.backends.llvm.writing.element_types import MEMORY, bytes_of, name_of
from gradtape.core.opdef import Op
from gradtape.dtypes import as_dtype
from gradtape.ir.graph import Operation, Value
from gradtape.ops.elementwise import CAST
from gradtape.ops.linalg_solve import SOLVE, TRIANGULAR_SOLVE
from gradtape.ops.shape import TRANSPOSE

# Aᵀ and Bᵀ → Xᵀ with A X = B: row-major matrices here are matrices by columns there
SYSTEM = native_op("system", "a b", lambda a, b: b, lambda a, b: SOLVE.impl(a.T, b.T).T)

_PRECISE = {"float32": "float64", "float64": "float64", "complex64": "complex128", "complex128": "complex128"}


def is_solved_here(a: Value, b: Value) -> bool:
    """Whether LAPACK solves a system of these matrices without Python."""
    sizes, name = (*a.type.shape, *b.type.shape), blas.SYSTEMS.get(_PRECISE.get(name_of(a.type.dtype), ""))
    known = len(sizes) == 4 and all(isinstance(size, int) and size for size in sizes)
    return known and a.type.dtype == b.type.dtype and name in blas.source().addresses


def _by_columns(make: Maker, a: Value, b: Value) -> Value | None:
    """In double precision, as NumPy does it."""
    if not is_solved_here(a, b):
        return None
    dtype = as_dtype(_PRECISE[name_of(a.type.dtype)])
    a_turned, b_turned = (make(CAST, make(TRANSPOSE, value, perm=(1, 0)), dtype=dtype) for value in (a, b))
    return make(CAST, make(TRANSPOSE, make(SYSTEM, a_turned, b_turned), perm=(1, 0)), dtype=a.type.dtype)


def _system(scope: Scope, operation: Operation) -> list[Lowered]:
    a, b = operation.operands
    (columns, n), w = b.type.shape, scope.writer
    matrix, right, home = scope.memory(a), scope.memory(b), scope.room(operation.result)
    count = n * n * bytes_of(a.type.dtype)
    slots = factors, pivots = scope.take(count), scope.take(8 * n)
    scope.copied(right, home)
    w.copy(factors.address, matrix.address, count)
    failed = w.cell("i64")
    w.store("i64", 0, failed)
    name = f"gt_system_{blas.SYSTEMS[name_of(a.type.dtype)]}"
    w.do(blas.BLAS.call(w.module, name, n, columns, factors.address, pivots.address, home.address, failed))
    for slot in slots:
        scope.give(slot)
    scope.fail_if(w.let(f"icmp ne i64 {w.load('i64', failed)}, 0"), operation)
    return [home]


def _solve(scope: Scope, operation: Operation) -> list[Lowered]:
    a, b = (value.type for value in operation.operands)
    kind, sizes = MEMORY.get(name_of(a.dtype)), (*a.shape, *b.shape)
    known = len(sizes) == 4 and all(isinstance(size, int) and size for size in sizes)
    if not known or kind is None or kind not in blas.LETTER or a.dtype != b.dtype or blas.source().fortran:
        return write_callback(scope, operation)
    w, n, columns = scope.writer, sizes[0], sizes[3]
    matrix, home = scope.memory(operation.operands[0]), scope.room(operation.result)
    with w.loop(n) as i:  # a triangular matrix is singular exactly when its diagonal has a zero
        pivot = w.load(kind, w.at(kind, matrix.address, w.multiply(i, n + 1)))
        scope.fail_if(w.let(f"fcmp oeq {kind} {pivot}, 0.0"), operation)
    scope.copied(scope.memory(operation.operands[1]), home)
    lower, adjoint = (int(operation.attrs[name]) for name in ("lower", "adjoint"))
    name = f"gt_triangular_{'vector' if columns == 1 else 'matrix'}_{kind}"
    w.do(blas.BLAS.call(w.module, name, lower, adjoint, n, columns, matrix.address, home.address))
    return [home]


LOWERINGS: dict[Op, Lowering] = {
    TRIANGULAR_SOLVE: Lowering(memory=_solve),
    SOLVE: Lowering(rewrite=_by_columns, complex=True),
    SYSTEM: Lowering(memory=_system),
}
