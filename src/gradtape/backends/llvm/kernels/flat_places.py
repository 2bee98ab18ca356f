"""Places as numbers: positions in a flattened array, which of several writers comes last, diagonals of matrices.

Index maps and checks only; what is written to such places is in `scatter.py`.
"""

from __future__ import annotations

from gradtape.backends.llvm.kernels import keys
from gradtape.backends.llvm.kernels.callback_code import write_callback
from gradtape.backends.llvm.kernels.kernel_code import Access, loops
from gradtape.backends.llvm.kernels.keys import Mapping, widened
from gradtape.backends.llvm.kernels.scope import Scope
from gradtape.backends.llvm.planning.lowering import Lowering, Lowerings, always
from gradtape.backends.llvm.planning.values import Array, Lowered, Place, Scalar
from gradtape.backends.llvm.runtime.notes import Note
from gradtape.backends.llvm.writing.element_types import REGISTER, is_integer, literal, name_of
from gradtape.backends.llvm.writing.ir_text import Index, Writer
from gradtape.core.opdef import Op
from gradtape.dtypes import int64
from gradtape.ir.graph import Operation, Value
from gradtape.ops.dynamic import PLACES_AT, WINNERS_AT
from gradtape.ops.matrix import MATRIX_DIAG, MATRIX_DIAG_PART
from gradtape.ops.scatter import FLAT_INDEX

# -- positions


def _opened(scope: Scope, operation: Operation) -> Mapping:
    dims = scope.program.dims(operation.attrs["shape"])
    mapping = keys.opened(scope, operation, operation.attrs["key"], dims, operation.operands)
    scope.sized(operation, operation.result.type, mapping.dims)
    return mapping


def _position(scope: Scope, operation: Operation, place: Place) -> str:
    mapping: Mapping = scope.ready(operation)
    return str(scope.offset(scope.program.dims(operation.attrs["shape"]), mapping.place(scope, place)))


def _check_tuples(scope: Scope, operation: Operation) -> None:
    """Every index along the last axis is inside its axis; else the call fails."""
    w = scope.writer
    (x,) = operation.operands
    bad = w.cell("i1")
    w.store("i1", "false", bad)
    sizes = scope.program.dims(operation.attrs["shape"])
    with Access(scope) as access:

        def body(place: tuple[Index, ...]) -> None:
            out = w.load("i1", bad)
            for k, size in enumerate(sizes):
                index = widened(w, scope.element(x, (*place, k)), x.type.dtype)
                # gathered, not branched on: the loop stays a plain one that can be vectorised
                out = w.let(f"or i1 {out}, {w.let(f'icmp uge i64 {index}, {size}')}")
            w.store("i1", out, bad)

        loops(scope, list(scope.dims(operation.result)), body, access)
    scope.fail_if(w.load("i1", bad), operation)


def _flat_index(scope: Scope, operation: Operation, place: Place) -> str:
    w = scope.writer
    (x,) = operation.operands
    indices = [widened(w, scope.element(x, (*place, k)), x.type.dtype) for k in range(len(operation.attrs["shape"]))]
    return str(scope.offset(scope.program.dims(operation.attrs["shape"]), indices))


def _winners(scope: Scope, operation: Operation) -> list[Lowered]:
    """Each position writes its number to its place; those whose number is still there have won."""
    if not supported(operation):
        return write_callback(scope, operation)
    w, result = scope.writer, operation.result
    mapping = _opened(scope, operation)
    if not mapping.dims:
        return [Scalar("true", result.type.dtype)]
    home = scope.room(result)
    dims = scope.program.dims(operation.attrs["shape"])
    slot = scope.take(w.multiply(w.product(dims), 8))
    # not cleared: only places that were written are read again
    last = Array(slot.address, dims, int64)
    scope.program.notes.append(Note("kernel", (operation.op.name,), operation.loc, "at places"))

    def write(place: tuple[Index, ...]) -> None:
        scope.store(str(scope.offset(mapping.dims, place)), last, mapping.place(scope, place))

    def compare(place: tuple[Index, ...]) -> None:
        number = scope.load(last, mapping.place(scope, place))
        scope.store(w.let(f"icmp eq i64 {number}, {scope.offset(mapping.dims, place)}"), home, place)

    for step in (write, compare):
        # who writes last wins, so one thread writes, in order
        loops(scope, list(mapping.dims), step, None)
    scope.give(slot)
    return [home]


# -- diagonals


def _side(w: Writer, flag: str, then: Index, orelse: Index) -> Index:
    return then if then == orelse else w.let(f"select i1 {flag}, i64 {then}, i64 {orelse}")


def _indent(scope: Scope, operation: Operation, d: Index, rows: int, columns: int) -> tuple[Index, Index]:
    """How many elements diagonal d has, and where in its line they begin."""
    w = scope.writer
    lower, upper = operation.attrs["k"]
    # d is negative below the main diagonal, and takes as many rows away; above it takes columns
    length = w.smaller(w.add(w.smaller(d, 0), rows), w.subtract(columns, w.larger(d, 0)))
    if lower == upper:
        return length, 0
    width = max(min(rows + min(n, 0), columns - max(n, 0)) for n in range(lower, upper + 1))
    above, below = (0 if side == "LEFT" else w.subtract(width, length) for side in operation.attrs["align"].split("_"))
    return length, _side(w, w.let(f"icmp sge i64 {d}, 0"), above, below)


def _diagonal_part(scope: Scope, operation: Operation, place: Place) -> str:
    """The element of a diagonal; zero beside short ones."""
    w, (x,) = scope.writer, operation.operands
    rows, columns = (int(n) for n in tuple(x.type.shape)[-2:])
    lower, upper = operation.attrs["k"]
    single = lower == upper
    lead, n = (place[:-1], place[-1]) if single else (place[:-2], place[-1])
    d: Index = upper if single else w.subtract(upper, place[-2])
    down, right = w.larger(w.subtract(0, d), 0), w.larger(d, 0)
    if single:
        return scope.element(x, (*lead, w.add(n, down), w.add(n, right)))
    length, first = _indent(scope, operation, d, rows, columns)
    n = w.subtract(n, first)
    inside = w.let(f"icmp ult i64 {n}, {length}")
    # the element is read before it is chosen: its place must exist
    n = _side(w, inside, n, 0)
    element = scope.element(x, (*lead, w.add(n, down), w.add(n, right)))
    return _chosen(scope, operation, inside, element)


def _diagonal(scope: Scope, operation: Operation, place: Place) -> str:
    """The element of a diagonal at a place of the matrix; zero elsewhere."""
    w, (x,) = scope.writer, operation.operands
    rows, columns = (int(n) for n in tuple(operation.result.type.shape)[-2:])
    lower, upper = operation.attrs["k"]
    *lead, r, c = place
    d = w.subtract(c, r)
    # unsigned: one comparison for both ends of the band
    inside = w.let(f"icmp ule i64 {w.subtract(d, lower)}, {upper - lower}")
    d = _side(w, inside, d, upper)
    n = _side(w, inside, w.smaller(r, c), 0)
    if lower == upper:
        return _chosen(scope, operation, inside, scope.element(x, (*lead, n)))
    _, first = _indent(scope, operation, d, rows, columns)
    return _chosen(scope, operation, inside, scope.element(x, (*lead, w.subtract(upper, d), w.add(first, n))))


def _chosen(scope: Scope, operation: Operation, flag: str, register: str) -> str:
    dtype = operation.result.type.dtype
    kind = REGISTER[name_of(dtype)]
    return scope.writer.let(f"select i1 {flag}, {kind} {register}, {kind} {literal(0, dtype)}")


# -- tables


def supported(operation: Operation) -> bool:
    """Whether the places of writers are numbers that a key has."""
    return keys.accepts(operation.attrs["key"], operation.operands)


def _known_matrix(packed: Value, matrix: Value, k: tuple[int, int]) -> bool:
    """Whether the sizes of a matrix and of its packed diagonals are known."""
    sizes = (*packed.type.shape[-1 if k[0] == k[1] else -2 :], *matrix.type.shape[-2:])
    return all(isinstance(n, int) and n > 0 for n in sizes)


def _reads(operation: Operation, value: Value, table: Lowerings) -> str:
    return "recipe" if supported(operation) else "memory"


LOWERINGS: dict[Op, Lowering] = {
    PLACES_AT: Lowering(element=_position, accepts=supported, prepare=_opened, fails=always, finds_sizes=True),
    FLAT_INDEX: Lowering(
        element=_flat_index,
        accepts=lambda operation: is_integer(operation.operands[0].type.dtype),
        prepare=_check_tuples,
        fails=always,
        finds_sizes=True,
    ),
    WINNERS_AT: Lowering(memory=_winners, reads=_reads, finds_sizes=True),
    MATRIX_DIAG: Lowering(
        element=_diagonal,
        accepts=lambda operation: _known_matrix(operation.operands[0], operation.result, operation.attrs["k"]),
    ),
    MATRIX_DIAG_PART: Lowering(
        element=_diagonal_part,
        accepts=lambda operation: _known_matrix(operation.result, operation.operands[0], operation.attrs["k"]),
    ),
}
