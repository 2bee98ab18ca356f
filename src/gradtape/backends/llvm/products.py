"""Matrix products in native code: loops for tiny ones, BLAS for the rest, operands as they lie in memory.

Transposed, sliced and broadcast operands are not copied where BLAS can read them (`contractions.py` says which it can). A product
that is only added to something is added by BLAS itself; one that is only summed over its batch sums inside.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gradtape.backends.llvm import blas
from gradtape.backends.llvm.callbacks import write_callback
from gradtape.backends.llvm.contractions import (
    Axis,
    Choice,
    chosen,
    made_dense,
    of_matmul,
    of_pair,
    of_role,
    pair_sizes,
    tidy,
    work,
)
from gradtape.backends.llvm.kernels import Access, rolled
from gradtape.backends.llvm.layouts import Layout, dense, is_one, layout_of
from gradtape.backends.llvm.plan import Special
from gradtape.backends.llvm.scope import Note, Scope
from gradtape.backends.llvm.text import Index
from gradtape.backends.llvm.types import MEMORY, REGISTER, bytes_of, is_float, is_native, literal, name_of
from gradtape.backends.llvm.values import Array, Flat, Lowered, Scalar
from gradtape.ir.graph import Block, Operation, Value
from gradtape.ops.contract import _path

TINY = 600  # multiplications up to which loops in place beat a call of BLAS
UNROLLED = 16  # terms of a sum that are written out


class Matrix:
    """An operand or the result while code is written: where element 0 is, and its type."""

    def __init__(self, address: str, dtype: Any) -> None:
        self.address = address
        self.dtype = dtype

    @property
    def kind(self) -> str:
        return MEMORY[name_of(self.dtype)]


# -- operations


def _matmul(scope: Scope, operation: Operation) -> list[Lowered]:
    if not supported(operation):
        return write_callback(scope, operation)
    result = operation.result
    home = scope.room(result)
    a, b = (operand(scope, value) for value in operation.operands)
    shape = tuple(result.type.shape)
    product(scope, operation, of_matmul(operation, a.layout, b.layout, shape, dense(shape)), a, b, home)
    return [home]


def _einsum(scope: Scope, operation: Operation) -> list[Lowered]:
    if not supported(operation):
        return write_callback(scope, operation)
    if len(operation.operands) > 2:
        return _chain(scope, operation)
    result = operation.result
    terms, out, sizes = pair_sizes(operation)
    a, b = (operand(scope, value) for value in operation.operands)
    axes = of_pair(terms, out, sizes, a.layout, b.layout, dense(result.type.shape))
    if not len(result.type.shape):
        register = _dot(scope, operation, axes, a, b)
        return [Scalar(register, result.type.dtype)]
    home = scope.room(result)
    product(scope, operation, axes, a, b, home)
    return [home]


def _chain(scope: Scope, operation: Operation) -> list[Lowered]:
    """Several operands: two at a time, in the order that costs least."""
    return write_callback(scope, operation)


def supported(operation: Operation) -> bool:
    """Whether a product can be computed natively: one dtype for all, a number of any kind."""
    kinds = {name_of(v.type.dtype) for v in (*operation.operands, operation.result)}
    return len(kinds) == 1 and is_native(operation.result.type.dtype) and kinds != {"bool"}


# -- operands


class Operand(NamedTuple):
    """How an operand lies in memory, and where."""

    layout: Layout
    matrix: Matrix


def operand(scope: Scope, value: Value) -> Operand:
    """A value in memory, as it lies there; it is put there if it must."""
    found = layout_of(value, lambda v: isinstance(scope.values.get(v), (Array, Scalar)))
    array = scope.memory(found.base)
    kind = MEMORY[name_of(array.dtype)]
    return Operand(found, Matrix(scope.writer.at(kind, array.address, scope.program.index(found.offset)), array.dtype))


# -- the product


def product(scope: Scope, operation: Operation, axes: list[Axis], a: Operand, b: Operand, home: Array, add: bool = False) -> None:
    """home = a·b, or home += a·b."""
    dtype = home.dtype
    to = Matrix(home.address, dtype)
    if any(isinstance(axis.size, int) and axis.size == 0 for axis in axes):
        if not add:
            _clear(scope, home)
        return
    total = work(axes)
    vector = of_role(axes, "m") or of_role(axes, "n")
    if not is_float(dtype) or not of_role(axes, "k") or not vector or (total is not None and total <= TINY):
        scope.program.notes.append(Note("product", (operation.op.name,), operation.loc, "loops"))
        _loops(scope, axes, a.matrix, b.matrix, to, add)
        return
    axes, copies = made_dense(axes)
    if not add:
        for axis in of_role(axes, "k"):
            if not isinstance(axis.size, int):  # BLAS leaves the result alone where there is nothing to sum
                with scope.writer.when(scope.writer.let(f"icmp eq i64 {scope.program.index(axis.size)}, 0")):
                    _clear(scope, home)
    given = {"a": a.matrix, "b": b.matrix, "c": to}
    slots = []
    for which, inside in copies.items():
        slot = scope.take(scope.writer.multiply(_count(scope, inside), bytes_of(dtype)))
        slots.append(slot)
        temporary = Matrix(slot.address, dtype)
        if which != "c" or add:
            _copy(scope, inside, given[which], which, temporary, None)
        given[which] = temporary
    choice = chosen(axes)
    assert choice is not None
    detail = "BLAS" + "".join(f", {which} copied" for which in copies)
    scope.program.notes.append(Note("product", (operation.op.name,), operation.loc, detail))
    _call(scope, choice, given["a"], given["b"], given["c"], add)
    if "c" in copies:
        _copy(scope, copies["c"], given["c"], None, to, "c")
    for slot in slots:
        scope.give(slot)


def _count(scope: Scope, axes: Sequence[Axis]) -> Index:
    return scope.writer.product([scope.program.index(axis.size) for axis in axes])


def _clear(scope: Scope, home: Array) -> None:
    w = scope.writer
    count = w.multiply(w.product(home.dims), bytes_of(home.dtype))
    w.do(f"call void @llvm.memset.p0.i64(ptr {home.address}, i8 0, i64 {count}, i1 false)")


def _copy(scope: Scope, axes: Sequence[Axis], source: Matrix, from_: str | None, target: Matrix, to: str | None) -> None:
    """Elements from one layout to another; a layout without a letter is dense in the order of the axes."""
    steps = dense([axis.size for axis in axes])
    with Access(scope) as access:

        def body(place: Sequence[Index]) -> None:
            w = scope.writer
            spots = []
            for side, letter in ((source, from_), (target, to)):
                along = steps if letter is None else [getattr(axis, letter) for axis in axes]
                spots.append(w.at(side.kind, side.address, _offset(scope, place, along)))
            w.store(target.kind, w.load(source.kind, spots[0], access.reading), spots[1], access.writing)

        nest(scope, axes, body, access)


def nest(scope: Scope, axes: Sequence[Axis], body: Callable[[Sequence[Index]], None], access: Access | None = None) -> None:
    """Loops over axes, the last innermost; with `access`, its iterations are independent."""
    place: list[Index] = []
    sizes = [scope.program.index(axis.size) for axis in axes]

    def level(d: int) -> None:
        if d == len(axes):
            body(tuple(place))
            return
        if access is not None and d == len(axes) - 1:
            extra = access.loop(sizes[d])
        else:
            extra = rolled(scope, sizes[d], scope.writer.product(sizes[d + 1 :]))
        with scope.writer.loop(sizes[d], extra=extra) as counter:
            place.append(counter)
            level(d + 1)
            place.pop()

    level(0)


def _offset(scope: Scope, place: Sequence[Index], steps: Sequence[Any]) -> Index:
    w = scope.writer
    total: Index = 0
    for index, step in zip(place, steps, strict=True):
        if step is not None:
            total = w.add(total, w.multiply(index, scope.program.index(step)))
    return total


# -- BLAS


class Shape(NamedTuple):
    """A matrix of a BLAS call; an axis is None where its size is 1."""

    rows: Any
    columns: Any
    row: Any  # steps
    column: Any

    @property
    def turned(self) -> Shape:
        return Shape(self.columns, self.rows, self.column, self.row)

    @property
    def stored(self) -> tuple[bool, Any]:
        """Whether it lies transposed, and the step between what lies densely."""
        if self.columns is None:
            return False, 1 if self.row is None else self.row
        if self.rows is None:
            return (False, self.columns) if is_one(self.column) else (True, self.column)
        return (False, self.row) if is_one(self.column) else (True, self.column)


def _shape(rows: Axis | None, columns: Axis | None, which: str) -> Shape:
    sizes = [None if axis is None else axis.size for axis in (rows, columns)]
    steps = [None if axis is None else getattr(axis, which) for axis in (rows, columns)]
    return Shape(*sizes, *steps)


def _call(scope: Scope, choice: Choice, a: Matrix, b: Matrix, c: Matrix, add: bool) -> None:
    """One call of BLAS, or one for each iteration of the loops around it."""
    w = scope.writer
    m, n, k = choice.m, choice.n, choice.k
    sums = of_role(choice.loops, "k")
    loops = [*[axis for axis in choice.loops if axis.role != "k"], *sums]
    left, right, to = _shape(m, k, "a"), _shape(k, n, "b"), _shape(m, n, "c")

    def body(place: Sequence[Index]) -> None:
        x, y, z = (
            w.at(side.kind, side.address, _offset(scope, place, [getattr(axis, letter) for axis in loops]))
            for side, letter in ((a, "a"), (b, "b"), (c, "c"))
        )
        one, zero = literal(1, c.dtype), literal(0, c.dtype)
        beta = one if add else zero
        if sums and not add:  # the first term starts the sum
            later = "false"
            for counter in place[len(loops) - len(sums) :]:
                later = w.let(f"or i1 {later}, {w.let(f'icmp ne i64 {counter}, 0')}")
            beta = w.let(f"select i1 {later}, {c.kind} {one}, {c.kind} {zero}")
        if n is None:
            _gemv(scope, left, x, y, right.row, z, to.row, beta, c.kind)
        elif m is None:
            _gemv(scope, right.turned, y, x, left.column, z, to.column, beta, c.kind)
        elif choice.turned:
            _gemm(scope, right.turned, left.turned, to.turned, y, x, z, beta, c.kind)
        else:
            _gemm(scope, left, right, to, x, y, z, beta, c.kind)

    nest(scope, loops, body)


def _gemm(scope: Scope, a: Shape, b: Shape, c: Shape, x: str, y: str, z: str, beta: str, kind: str) -> None:
    w, index = scope.writer, scope.program.index
    (ta, sa), (tb, sb), (_, sc) = a.stored, b.stored, c.stored
    flags = [f"i1 {'true' if turn else 'false'}" for turn in (ta, tb)]
    sizes = [f"i64 {1 if size is None else index(size)}" for size in (c.rows, c.columns, a.columns)]
    steps = [f"i64 {w.larger(index(step), 1)}" for step in (sa, sb, sc)]
    w.do(
        f"call void {blas.gemm(w.module, kind)}({', '.join([*flags, *sizes])}, ptr {x}, {steps[0]}, ptr {y}, {steps[1]},"
        f" {kind} {beta}, ptr {z}, {steps[2]})"
    )


def _gemv(scope: Scope, a: Shape, x: str, y: str, step: Any, z: str, result: Any, beta: str, kind: str) -> None:
    """z = a·y + beta·z for a matrix at x and a vector at y."""
    w, index = scope.writer, scope.program.index
    turn, apart = a.stored
    sizes = [f"i64 {1 if size is None else index(size)}" for size in ((a.columns, a.rows) if turn else (a.rows, a.columns))]
    steps = [f"i64 {1 if s is None else w.larger(index(s), 1)}" for s in (apart, step, result)]
    w.do(
        f"call void {blas.gemv(w.module, kind)}(i1 {'true' if turn else 'false'}, {', '.join(sizes)}, ptr {x}, {steps[0]}, ptr {y},"
        f" {steps[1]}, {kind} {beta}, ptr {z}, {steps[2]})"
    )


# -- loops


def _loops(scope: Scope, axes: Sequence[Axis], a: Matrix, b: Matrix, c: Matrix, add: bool) -> None:
    w = scope.writer
    sums = of_role(axes, "k")
    outer = sorted((axis for axis in axes if axis.role != "k"), key=lambda axis: -_order(axis.c))
    total = work(sums)
    with Access(scope) as access:
        if total is None or (total > 4 * UNROLLED and of_role(axes, "n")):
            _by_rows(scope, outer, sums, a, b, c, add, access)
            return

        def body(place: Sequence[Index]) -> None:
            spots = [
                w.at(side.kind, side.address, _offset(scope, place, [getattr(axis, letter) for axis in outer]))
                for side, letter in ((a, "a"), (b, "b"), (c, "c"))
            ]
            found = _sum(scope, sums, Matrix(spots[0], a.dtype), Matrix(spots[1], b.dtype), access)
            if add:
                found = _plus(scope, c.dtype, w.load(c.kind, spots[2], access.writing), found)
            w.store(c.kind, found, spots[2], access.writing)

        nest(scope, outer, body, access)


def _order(step: Any) -> int:
    return step if isinstance(step, int) else 1 << 40


def _by_rows(
    scope: Scope, outer: Sequence[Axis], sums: Sequence[Axis], a: Matrix, b: Matrix, c: Matrix, add: bool, access: Access
) -> None:
    """Long sums: rows of the result grow term by term, so that memory is read along rows."""
    w = scope.writer
    at = lambda side, letter, axes, place: w.at(  # noqa: E731
        side.kind, side.address, _offset(scope, place, [getattr(axis, letter) for axis in axes])
    )
    if not add:
        nest(
            scope, outer, lambda place: w.store(c.kind, literal(0, c.dtype), at(c, "c", outer, place), access.writing), access
        )
    inner = [axis for axis in outer if axis.role == "n"][-1:] or outer[-1:]
    order = [*[axis for axis in outer if axis not in inner], *sums, *inner]

    def body(place: Sequence[Index]) -> None:
        x, y = w.load(a.kind, at(a, "a", order, place), access.reading), w.load(b.kind, at(b, "b", order, place), access.reading)
        spot = at(c, "c", order, place)
        before = w.load(c.kind, spot, access.writing)
        w.store(c.kind, _plus(scope, c.dtype, before, _times(scope, c.dtype, x, y)), spot, access.writing)

    nest(scope, order, body, access if inner else None)


def _sum(scope: Scope, axes: Sequence[Axis], a: Matrix, b: Matrix, access: Access) -> str:
    """The sum of products over axes; short ones are written out."""
    w, dtype = scope.writer, a.dtype
    total = work(axes)

    def term(place: Sequence[Index]) -> str:
        registers = [
            w.load(side.kind, w.at(side.kind, side.address, _offset(scope, place, [getattr(axis, letter) for axis in axes])), access.reading)
            for side, letter in ((a, "a"), (b, "b"))
        ]
        return _times(scope, dtype, *registers)

    if total is not None and total <= UNROLLED:
        found = None
        for place in itertools.product(*[range(axis.size) for axis in axes]):
            found = term(place) if found is None else _plus(scope, dtype, found, term(place))
        return literal(0, dtype) if found is None else found
    kind = REGISTER[name_of(dtype)]
    cell = w.cell(kind)
    w.store(kind, literal(0, dtype), cell)

    def body(place: Sequence[Index]) -> None:
        found = term(place)
        w.store(kind, _plus(scope, dtype, w.load(kind, cell), found), cell)

    nest(scope, axes, body)
    return w.load(kind, cell)


def _times(scope: Scope, dtype: Any, x: str, y: str) -> str:
    kind = REGISTER[name_of(dtype)]
    return scope.writer.let(f"fmul contract {kind} {x}, {y}" if is_float(dtype) else f"mul {kind} {x}, {y}")


def _plus(scope: Scope, dtype: Any, x: str, y: str) -> str:
    kind = REGISTER[name_of(dtype)]
    return scope.writer.let(f"fadd reassoc contract {kind} {x}, {y}" if is_float(dtype) else f"add {kind} {x}, {y}")


def _dot(scope: Scope, operation: Operation, axes: Sequence[Axis], a: Operand, b: Operand) -> str:
    scope.program.notes.append(Note("product", (operation.op.name,), operation.loc, "loops"))
    with Access(scope) as access:
        return _sum(scope, axes, a.matrix, b.matrix, access)


# -- what the planner asks


def takes(operation: Operation, value: Value, kind: Callable[[Operation], str]) -> str:
    """An operand is read through index maps if one of its axes stays dense and it is not a small part of a recipe."""
    if not supported(operation):
        return "memory"
    found = layout_of(value, lambda v: False)
    if found.base is value:
        return "memory"
    producer = found.base.producer
    if producer is not None and kind(producer) == "element" and _count_of(found.base) > _count_of(value):
        return "memory"
    return "view" if 1 in [step for step in found.steps if isinstance(step, int)] else "memory"


def _count_of(value: Value) -> int:
    total = 1
    for size in value.type.shape:
        total *= size if isinstance(size, int) else 64
    return total


def patterns(block: Block, users: dict[Value, list[Operation]]) -> dict[Operation, Special]:
    """Operations that are done by the product they use: sums over its batch, additions."""
    found: dict[Operation, Special] = {}
    outputs = set(block.results)
    place = {operation: i for i, operation in enumerate(block.operations)}
    alone = lambda value: len(users.get(value, ())) == 1 and value not in outputs  # noqa: E731
    taken: set[Operation] = set()

    def product_of(value: Value, user: Operation) -> Operation | None:
        """The product that makes a value for this user alone, if it can be done there."""
        made = value.producer
        if made is None or made.op.name != "matmul" or made in taken or made in found or not alone(value) or not supported(made):
            return None
        if any(o.regions or o.op.name.endswith("_into") for o in block.operations[place[made] + 1 : place[user]]):
            return None  # what it reads may change before the user's turn
        return made

    for operation in block.operations:
        name = operation.op.name
        if name == "reduce_sum":
            made = product_of(operation.operands[0], operation)
            rank = len(operation.operands[0].type.shape)
            if made is not None and rank > 2 and max(operation.attrs["axis"], default=rank) < rank - 2:
                found[operation] = Special(_summed, (made,))
                taken.add(made)
        elif name in ("add", "add_into") and len(operation.operands) == 2:
            x, y = operation.operands
            if x is y or any(tuple(v.type.shape) != tuple(operation.result.type.shape) for v in (x, y)):
                continue
            for k, total, part in ((0, x, y), (1, y, x)):
                made = product_of(part, operation)
                if made is None or not is_float(operation.result.type.dtype):
                    continue
                # the total's memory must be ours to change: `bufferize` says so, or it is another product's for this sum alone
                own = total.producer is not None and total.producer.op.name == "matmul" and supported(total.producer) and alone(total)
                if (name == "add_into" and k == 0) or (own and total.producer not in taken):
                    found[operation] = Special(_added, (made,), k)
                    taken.add(made)
                    break
    return found


def _summed(scope: Scope, operation: Operation) -> list[Lowered]:
    """A sum over the batch of a product: the batch is one more axis to sum over."""
    made: Operation = operation.operands[0].producer  # type: ignore[assignment]
    home = scope.room(operation.result)
    a, b = (operand(scope, value) for value in made.operands)
    shape = tuple(made.result.type.shape)
    axes, steps = operation.attrs["axis"], iter(dense(operation.result.type.shape))
    along: list[Any] = []
    for axis in range(len(shape)):
        step = next(steps) if operation.attrs["keepdims"] or axis not in axes else None
        along.append(None if axis in axes else step)
    product(scope, made, of_matmul(made, a.layout, b.layout, shape, along), a, b, home)
    return [home]


def _added(scope: Scope, operation: Operation) -> list[Lowered]:
    """A product added to what is there."""
    (made,) = scope.plan.special[operation].absorbed
    k = operation.operands.index(made.result)
    home = scope.memory(operation.operands[1 - k])
    a, b = (operand(scope, value) for value in made.operands)
    shape = tuple(made.result.type.shape)
    product(scope, made, of_matmul(made, a.layout, b.layout, shape, dense(shape)), a, b, home, add=True)
    return [home]


TAKES: dict[str, Any] = {"matmul": takes, "einsum": takes}
MEMORY_OPS: dict[str, Any] = {"matmul": _matmul, "einsum": _einsum}
