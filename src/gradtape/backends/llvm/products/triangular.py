"""Triangular systems of two real matrices: BLAS on the program's own memory. Others (batches, complex ones, other libraries)
call the op's `impl`, which loads SciPy's linear algebra: that takes longer than compiling most programs.
"""

from __future__ import annotations

from gradtape.backends.llvm.kernels.scope import Scope
from gradtape.backends.llvm.planning.lowering import Lowering
from gradtape.backends.llvm.planning.values import Lowered
from gradtape.backends.llvm.products import blas
from gradtape.backends.llvm.runtime.callbacks import write_callback
from gradtape.backends.llvm.writing.element_types import MEMORY, name_of
from gradtape.core.opdef import Op
from gradtape.ir.graph import Operation
from gradtape.ops.linalg_solve import TRIANGULAR_SOLVE


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


LOWERINGS: dict[Op, Lowering] = {TRIANGULAR_SOLVE: Lowering(memory=_solve)}
