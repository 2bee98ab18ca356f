"""Arrays turned around in memory, for loops over their columns (`planning/column_loops.py`).

All programs call one routine: a nest in each program, fused with what stands around it, takes LLVM four times as long to
compile as the loop it is for. A tile is turned in registers.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from gradtape.backends.llvm.kernels.scope import Scope
from gradtape.backends.llvm.planning.column_loops import TURNED
from gradtape.backends.llvm.planning.lowering import Lowering
from gradtape.backends.llvm.planning.values import Lowered
from gradtape.backends.llvm.runtime.support import Part
from gradtape.backends.llvm.writing.algebra import I32, I64, Integer, Whole
from gradtape.backends.llvm.writing.builder import Builder, Pointer
from gradtape.backends.llvm.writing.element_types import bytes_of
from gradtape.core.opdef import Op
from gradtape.ir.graph import Operation

TILE = 8
TURNING = Part(__name__)


def _routine(kind: Integer) -> Callable[..., None]:
    """`gt_turned_4` and `gt_turned_8`: the transpose of a matrix of numbers of so many bytes."""

    def body(f: Builder, rows: Whole, columns: Whole, source: Pointer, target: Pointer) -> None:
        numbers, turned = source.to(kind), target.to(kind)
        bottom, right = rows - rows % TILE, columns - columns % TILE
        # down first: what is written is read nowhere else, what is read again is in the cache
        with f.loop(right, step=TILE) as left, f.loop(bottom, step=TILE) as top:
            _tile(f, kind, numbers.at(top * columns + left), columns, turned.at(left * rows + top), rows)
        for start, end, first in ((right, columns, f.number(0)), (f.number(0), right, bottom)):
            with f.loop(end, start=start) as j, f.loop(rows, start=first) as i:
                turned[j * rows + i] = numbers[i * columns + j]

    return TURNING.add(f"gt_turned_{kind.bits // 8}", body)


def _tile(f: Builder, kind: Integer, source: Pointer, columns: Whole, target: Pointer, rows: Whole) -> None:
    """Lines i and i + n/2 zipped, log n times: the columns."""
    w, vector, half = f.writer, f"<{TILE} x {kind.type}>", TILE // 2
    lines = [w.let(f"load {vector}, ptr {source.at(columns * i).register}, align {kind.bits // 8}") for i in range(TILE)]
    zips = [", ".join(f"i32 {first + k // 2 + TILE * (k % 2)}" for k in range(TILE)) for first in (0, half)]
    for _ in range(TILE.bit_length() - 1):
        pairs = [(lines[i], lines[i + half]) for i in range(half)]
        lines = [
            w.let(f"shufflevector {vector} {a}, {vector} {b}, <{TILE} x i32> <{order}>") for a, b in pairs for order in zips
        ]
    for j, line in enumerate(lines):
        w.do(f"store {vector} {line}, ptr {target.at(rows * j).register}, align {kind.bits // 8}")


_ROUTINES = [_routine(kind) for kind in (I32, I64)]


def _turned(scope: Scope, operation: Operation) -> list[Lowered]:
    (x,) = operation.operands
    shape, w = x.type.shape, scope.writer
    columns = prod(shape[1:]) if operation.attrs["back"] else shape[-1]
    source, home = scope.memory(x), scope.room(operation.result)
    name = f"gt_turned_{bytes_of(x.type.dtype)}"
    w.do(TURNING.call(w.module, name, prod(shape) // columns, columns, source.address, home.address))
    return [home]


LOWERINGS: dict[Op, Lowering] = {TURNED: Lowering(memory=_turned)}
