"""Matrix products in native code: loops for tiny ones, `gemm.py` for the rest, operands as they lie in memory.

Transposed, sliced and broadcast operands are not copied: steps say how they lie. A product that is only added to something is
added where it is computed; one that is only summed over its batch sums inside.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gradtape.backends.llvm.kernels.callback_code import write_callback
from gradtape.backends.llvm.kernels.kernel_code import Access, loops
from gradtape.backends.llvm.kernels.keys import At
from gradtape.backends.llvm.kernels.parallel import shared
from gradtape.backends.llvm.kernels.scope import Scope
from gradtape.backends.llvm.planning.layouts import dense, is_one, layout_of
from gradtape.backends.llvm.planning.lowering import Lowering, Lowerings, count_of
from gradtape.backends.llvm.planning.plan import Special
from gradtape.backends.llvm.planning.values import Array, Layout, Lowered, Scalar
from gradtape.backends.llvm.planning.writing_out import Maker
from gradtape.backends.llvm.products import gemm
from gradtape.backends.llvm.products.contractions import (
    Axis,
    Choice,
    chosen,
    of_matmul,
    of_pair,
    of_role,
    packed,
    pair_sizes,
    tidy,
    weight,
    work,
)
from gradtape.backends.llvm.runtime.notes import Note
from gradtape.backends.llvm.writing.element_types import MEMORY, REGISTER, bytes_of, is_float, is_native, literal, name_of
from gradtape.backends.llvm.writing.ir_text import Index
from gradtape.core.opdef import Op
from gradtape.ir.graph import Block, Operation, Value
from gradtape.ops.contract import EINSUM, contraction_path, split_equation
from gradtape.ops.elementwise import ADD, MULTIPLY
from gradtape.ops.matmul import MATMUL
from gradtape.ops.reduce import REDUCE_SUM
from gradtape.passes.inplace import ARITHMETIC, is_twin

FEW = 8  # rows of a product of windows that are few
TINY = 600  # multiplications up to which loops in place beat a call
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
    _agree(scope, operation)
    home = scope.room(result)
    a, b = (operand(scope, value) for value in operation.operands)
    shape = tuple(result.type.shape)
    product(scope, operation, of_matmul(operation, a.layout, b.layout, shape, dense(shape)), a, b, home)
    return [home]


def _einsum(scope: Scope, operation: Operation) -> list[Lowered]:
    if not supported(operation):
        return write_callback(scope, operation)
    result = operation.result
    terms, out, sizes = pair_sizes(operation)
    _agree(scope, operation)
    a, b = (operand(scope, value) for value in operation.operands)
    axes = of_pair(terms, out, sizes, a.layout, b.layout, dense(result.type.shape))
    # one number: a sum in a register, with no memory for BLAS to write to
    if not len(result.type.shape):
        register = _dot(scope, operation, axes, a, b)
        return [Scalar(register, result.type.dtype)]
    home = scope.room(result)
    product(scope, operation, axes, a, b, home)
    return [home]


def _outer(make: Maker, x: Value, y: Value) -> Value | None:
    """A product with one term: elements times elements, which others may be fused with."""
    # (broadcast, the two are a column times a row: no sum is left)
    if not is_one(x.type.shape[-1]) or not is_one(y.type.shape[-2]) or x.type.dtype != y.type.dtype:
        return None
    return make(MULTIPLY, x, y) if is_float(x.type.dtype) else None


def _pairs(make: Maker, *xs: Value, equation: str) -> Value | None:
    """An einsum of several operands: two at a time, in the order that costs least."""
    if len(xs) <= 2:
        return None
    terms, out = split_equation(equation)
    # sizes that nobody knows yet are guessed: a bad order is slow, not wrong
    guess = tuple(tuple(weight(n) for n in x.type.shape) for x in xs)
    values, letters = list(xs), list(terms)
    for step in contraction_path(equation, guess):
        chosen_ones = [(values.pop(i), letters.pop(i)) for i in sorted(step, reverse=True)]
        x, name = chosen_ones.pop()
        while chosen_ones:
            y, other = chosen_ones.pop()
            rest = "".join([out, *letters, *(n for _, n in chosen_ones)])
            last = not letters and not chosen_ones
            # a letter that nobody needs any more is summed here; the last pair gives the letters in the order of the result
            kept = out if last else "".join(dict.fromkeys(c for c in name + other if c in rest))
            x = make(EINSUM, x, y, equation=f"{name},{other}->{kept}")
            name = kept
        values.append(x)
        letters.append(name)
    return values[0]


def supported(operation: Operation) -> bool:
    """Whether a product can be computed natively: one dtype for all, a number of any kind."""
    if len(operation.operands) != 2:
        return False
    kinds = {name_of(v.type.dtype) for v in (*operation.operands, operation.result)}
    # (a product of booleans is an `or` of `and`s: NumPy's matter)
    return len(kinds) == 1 and is_native(operation.result.type.dtype) and kinds != {"bool"}


def _agree(scope: Scope, operation: Operation) -> None:
    """Sizes that only run time knows and that the product counts on being equal are, or the call fails."""
    left, right = (tuple(value.type.shape) for value in operation.operands)
    if operation.op is EINSUM:
        terms, _, sizes = pair_sizes(operation)
        pairs = [(n, sizes[c]) for term, shape in zip(terms, (left, right), strict=True)
                 for c, n in zip(term, shape, strict=True)]  # fmt: skip
    else:
        batch = zip(left[-3::-1], right[-3::-1], strict=False)
        pairs = [(left[-1], right[-2]), *((m, n) for m, n in batch if not is_one(m) and not is_one(n))]
    for m, n in pairs:
        if m != n:
            size, wanted = scope.program.index(m), scope.program.index(n)
            scope.fail_if(scope.writer.let(f"icmp ne i64 {size}, {wanted}"), operation)


# -- operands


class Operand(NamedTuple):
    """How an operand lies in memory, and where."""

    layout: Layout
    matrix: Matrix


def operand(scope: Scope, value: Value) -> Operand:
    """A value in memory, as it lies there; it is put there if it must."""
    # Transposes, slices and reshapes are steps and offsets here: the array they are of is multiplied as it lies.
    layout = layout_of(value, scope.program.tables.lowerings, lambda v: isinstance(scope.values.get(v), (Array, Scalar)))
    array = scope.memory(layout.base)
    kind = MEMORY[name_of(array.dtype)]
    w, index = scope.writer, scope.program.index
    offset = index(layout.offset)
    for operation, steps in layout.starts:
        for part, step in zip(scope.ready(operation).axes, steps, strict=True):
            offset = w.add(offset, w.multiply(part.index if isinstance(part, At) else part.start, index(step)))
    return Operand(layout, Matrix(w.at(kind, array.address, offset), array.dtype))


# -- the product


def product(
    scope: Scope, operation: Operation, axes: list[Axis], a: Operand, b: Operand, home: Array, add: bool = False
) -> None:
    """home = a·b, or home += a·b."""
    dtype = home.dtype
    to = Matrix(home.address, dtype)
    # BLAS refuses leading dimensions of 0, and a sum of nothing is 0
    if any(isinstance(axis.size, int) and axis.size == 0 for axis in axes):
        if not add:
            scope.clear(home)
        return
    # What is tiny, is no float, has no sum or no matrix in it is not worth a call, or not in BLAS: loops that LLVM unrolls.
    total = work(axes)
    vector = of_role(axes, "m") or of_role(axes, "n")
    if not is_float(dtype) or not of_role(axes, "k") or not vector or (total is not None and total <= TINY) or _by_lanes(axes):
        scope.program.notes.append(Note("product", (operation.op.name,), operation.loc, "loops"))
        _loops(scope, axes, a.matrix, b.matrix, to, add)
        return
    if not add:
        # the first product of a sum overwrites the result: if there is none, nobody does
        for axis in of_role(axes, "k"):
            if not isinstance(axis.size, int):  # where there is nothing to sum, no product starts the sum
                with scope.writer.when(scope.writer.let(f"icmp eq i64 {scope.program.index(axis.size)}, 0")):
                    scope.clear(home)
    scope.program.notes.append(Note("product", (operation.op.name,), operation.loc))
    # which axes become rows, columns and terms of a product; the others are loops around it
    choice = chosen(axes)
    if choice.n is not None or not of_role(axes, "n"):
        _call(scope, choice, a.matrix, b.matrix, to, add)
        return
    # no axis of the result that a product has is dense: it is computed in another order, then copied
    changed, inside = packed(axes, "c")
    slot = scope.take(
        scope.writer.multiply(scope.writer.product([scope.program.index(n.size) for n in inside]), bytes_of(dtype))
    )
    temporary = Matrix(slot.address, dtype)
    if add:
        _copy(scope, inside, to, temporary, back=False)
    _call(scope, chosen(tidy(changed)), a.matrix, b.matrix, temporary, add)
    _copy(scope, inside, temporary, to, back=True)
    scope.give(slot)


def _by_lanes(axes: Sequence[Axis]) -> bool:
    """Whether there are many short sums side by side in memory: vectors over these, not products of matrices."""
    lanes = any(axis.role == "batch" and axis.a == axis.b == axis.c == 1 for axis in axes)
    terms = work(of_role(axes, "k"))
    short = work(of_role(axes, "n"))
    # a product per lane would read memory with a stride, and pay for a call each time
    return lanes and terms is not None and terms <= 2 * UNROLLED and short is not None and short <= 4


def _copy(scope: Scope, axes: Sequence[Axis], source: Matrix, target: Matrix, back: bool) -> None:
    """The elements of a result to memory that is dense in the order of the axes, or back."""
    w, steps = scope.writer, ([axis.c for axis in axes], dense([axis.size for axis in axes]))
    with Access(scope) as access:

        def body(place: Sequence[Index]) -> None:
            number = w.load(source.kind, _spot(scope, source, steps[back], place), access.reading)
            w.store(target.kind, number, _spot(scope, target, steps[not back], place), access.writing)

        _nest(scope, axes, body, access)


def _nest(scope: Scope, axes: Sequence[Axis], body: Callable[[Sequence[Index]], None], access: Access | None = None) -> None:
    """Loops over axes, the last innermost; with `access`, its iterations are independent."""
    loops(scope, [scope.program.index(axis.size) for axis in axes], body, access)


def _spot(scope: Scope, side: Matrix, steps: Sequence[Any], place: Sequence[Index]) -> str:
    """Where an element of a matrix is; a step is None where it does not have the axis."""
    w = scope.writer
    offset: Index = 0
    for index, step in zip(place, steps, strict=True):
        if step is not None:
            offset = w.add(offset, w.multiply(index, scope.program.index(step)))
    return w.at(side.kind, side.address, offset)


def _spots(scope: Scope, axes: Sequence[Axis], place: Sequence[Index], **sides: Matrix) -> list[str]:
    """Where the elements of operands `a` and `b` and of the result `c` are, at an index of the loops over axes."""
    return [_spot(scope, side, [getattr(axis, letter) for axis in axes], place) for letter, side in sides.items()]


# -- products of matrices


def _call(scope: Scope, choice: Choice, a: Matrix, b: Matrix, c: Matrix, add: bool) -> None:
    """One product of matrices, or one for each iteration of the loops around it."""
    w = scope.writer
    more_rows, more_terms, around = _windows(choice)
    sums = of_role(around, "k")
    # sums innermost: the same part of the result is added to while it is in the cache
    outer = [*[axis for axis in around if axis.role != "k"], *sums]

    def body(place: Sequence[Index]) -> None:
        x, y, z = _spots(scope, outer, place, a=a, b=b, c=c)
        flag = "true" if add else "false"
        if sums and not add:  # the first term starts the sum
            for counter in place[len(outer) - len(sums) :]:
                flag = w.let(f"or i1 {flag}, {w.let(f'icmp ne i64 {counter}, 0')}")
        if more_rows is None and more_terms is None:
            _product(scope, choice, x, y, z, flag, c.kind)
        else:
            _window_product(scope, choice, more_rows, more_terms, x, y, z, flag, c.kind)

    inside = [axis for axis in (choice.m, choice.n, choice.k, more_rows, more_terms) if axis is not None]
    first = next((axis for axis in outer if axis.role != "k"), None)
    # A large product shares its own work among threads; small ones are shared by giving each thread some of them.
    cut = more_rows is not None or more_terms is not None or (work(inside) or gemm.large()) < gemm.large()
    if first is not None and cut and (chunks := _chunks(scope, [*inside, *outer], first)) is not None:
        (count, length), at = chunks, outer.index(first)
        rest = [*outer[:at], *outer[at + 1 :]]

        def some(begin: str, end: str) -> None:
            # the last chunk may be shorter
            last = w.smaller(w.multiply(end, length), scope.program.index(first.size)) if length != 1 else end
            with w.loop(last, start=w.multiply(begin, length)) as counter:
                _nest(scope, rest, lambda place: body((*place[:at], counter, *place[at:])))

        if shared(scope, count, some):
            return
    _nest(scope, outer, body)


def _chunks(scope: Scope, axes: Sequence[Axis], first: Axis) -> tuple[Index, Index] | None:
    """How many chunks of the first axis threads may take, and of what length; None if the work is too little to share."""
    w, size = scope.writer, scope.program.index(first.size)
    total = w.product([scope.program.index(axis.size) for axis in axes])
    if isinstance(total, int) or scope.block.layout:  # in a loop of the program, to ask at each turn is too much
        return (size, 1) if isinstance(total, int) and total >= gemm.SHARE else None
    enough = w.let(f"icmp sge i64 {total}, {gemm.SHARE}")
    # too little: one chunk of all, which one thread does
    return w.let(f"select i1 {enough}, i64 {size}, i64 1"), w.let(f"select i1 {enough}, i64 1, i64 {size}")


def _windows(choice: Choice) -> tuple[Axis | None, Axis | None, list[Axis]]:
    """One more axis of rows and one more of terms for the product to run over, where a single one would be short."""
    m, n, k = choice.m, choice.n, choice.k
    # Convolutions: few terms per window. Packing both matrices for each would take longer than multiplying.
    if m is None or n is None or k is None or choice.turned or not isinstance(k.size, int) or k.size > gemm.WINDOW:
        return None, None, choice.loops
    around = list(choice.loops)
    terms = max((axis for axis in around if axis.role == "k"), key=lambda axis: weight(axis.size), default=None)
    rows = max((axis for axis in around if axis.role == "m"), key=lambda axis: weight(axis.size), default=None)
    if rows is not None and not any(axis.role != "k" and axis is not rows for axis in around):
        # threads share this axis, unless packing the other matrix for a few rows only would take most of the time
        rows = None if terms is not None and weight(rows.size) > 1 and weight(m.size) > FEW else rows
    # long enough by itself
    if (work([m, n, k]) or 0) >= gemm.SHARE:
        return None, None, choice.loops
    around = [axis for axis in around if axis is not terms and axis is not rows]
    return rows, terms, around


def _number(scope: Scope, size: Any) -> Index:
    return 1 if size is None else scope.program.index(size)


def _product(scope: Scope, choice: Choice, x: str, y: str, z: str, add: str, kind: str) -> None:
    """z = x·y or z += x·y for matrices at these addresses."""
    w = scope.writer
    m, n, k = choice.m, choice.n, choice.k

    def step(letter: str, axis: Axis | None) -> Index:
        return _number(scope, None if axis is None else getattr(axis, letter))

    rows, columns, terms = (_number(scope, None if axis is None else axis.size) for axis in (m, n, k))
    left, right = (x, step("a", m), step("a", k)), (y, step("b", k), step("b", n))
    # rows of the result must be dense for the tiles: where columns are, the transposed product is computed
    if choice.turned:  # zᵀ = yᵀ·xᵀ
        rows, columns, left, right = columns, rows, (y, *right[:0:-1]), (x, *left[:0:-1])
    out = (z, step("c", n if choice.turned else m))
    w.do(gemm.call(w.module, kind, (rows, columns, terms), left, right, out, add))


def _window_product(
    scope: Scope, choice: Choice, rows: Axis | None, terms: Axis | None, x: str, y: str, z: str, add: str, kind: str
) -> None:
    """The same with one more axis of rows, or of terms, or both."""
    w = scope.writer
    m, n, k = choice.m, choice.n, choice.k
    assert m is not None and n is not None and k is not None
    p, q = rows or Axis(1, 0, None, 0), terms or Axis(1, 0, 0, None)
    numbers = [_number(scope, number) for number in (p.size, p.a, p.c, m.size, n.size, q.size, q.a, q.b, k.size)]
    steps = [[_number(scope, step) for step in pair] for pair in ((m.a, k.a), (k.b, n.b))]
    w.do(gemm.windows_call(w.module, kind, [*numbers, x, *steps[0], y, *steps[1], z, _number(scope, m.c), add]))


# -- loops


def _loops(scope: Scope, axes: Sequence[Axis], a: Matrix, b: Matrix, c: Matrix, add: bool) -> None:
    w = scope.writer
    sums = of_role(axes, "k")
    # the axis along which the result is dense is the innermost loop, the one that is vectorised
    outer = sorted((axis for axis in axes if axis.role != "k"), key=lambda axis: -_order(axis.c))
    total = work(sums)
    with Access(scope) as access:
        # one element after the other would read a column of b for each: a stride as long as a row
        if total is None or (total > 4 * UNROLLED and of_role(axes, "n") and not _by_lanes(axes)):
            _by_rows(scope, outer, sums, a, b, c, add, access)
            return

        def body(place: Sequence[Index]) -> None:
            x, y, z = _spots(scope, outer, place, a=a, b=b, c=c)
            total = _sum(scope, sums, Matrix(x, a.dtype), Matrix(y, b.dtype), access)
            if add:
                total = _plus(scope, c.dtype, w.load(c.kind, z, access.writing), total)
            w.store(c.kind, total, z, access.writing)

        _nest(scope, outer, body, access)


def _order(step: Any) -> int:
    return step if isinstance(step, int) else 1 << 40


def _by_rows(
    scope: Scope, outer: Sequence[Axis], sums: Sequence[Axis], a: Matrix, b: Matrix, c: Matrix, add: bool, access: Access
) -> None:
    """Long sums: rows of the result grow term by term, so that memory is read along rows."""
    w = scope.writer

    def start(place: Sequence[Index]) -> None:
        (spot,) = _spots(scope, outer, place, c=c)
        w.store(c.kind, literal(0, c.dtype), spot, access.writing)

    if not add:
        _nest(scope, outer, start, access)
    # along this axis a is one number, and b and c are rows
    inner = [axis for axis in outer if axis.role == "n"][-1:] or outer[-1:]
    order = [*[axis for axis in outer if axis not in inner], *sums, *inner]

    def body(place: Sequence[Index]) -> None:
        x, y, z = _spots(scope, order, place, a=a, b=b, c=c)
        term = _times(scope, c.dtype, w.load(a.kind, x, access.reading), w.load(b.kind, y, access.reading))
        w.store(c.kind, _plus(scope, c.dtype, w.load(c.kind, z, access.writing), term), z, access.writing)

    _nest(scope, order, body, access if inner else None)


def _sum(scope: Scope, axes: Sequence[Axis], a: Matrix, b: Matrix, access: Access) -> str:
    """The sum of products over axes; short ones are written out."""
    w, dtype = scope.writer, a.dtype
    terms = work(axes)

    def term(place: Sequence[Index]) -> str:
        x, y = _spots(scope, axes, place, a=a, b=b)
        return _times(scope, dtype, w.load(a.kind, x, access.reading), w.load(b.kind, y, access.reading))

    if terms is not None and terms <= 2 * UNROLLED:
        total = None
        for place in itertools.product(*[range(axis.size) for axis in axes]):
            total = term(place) if total is None else _plus(scope, dtype, total, term(place))
        return literal(0, dtype) if total is None else total
    kind = REGISTER[name_of(dtype)]
    cell = w.cell(kind)
    w.store(kind, literal(0, dtype), cell)

    def body(place: Sequence[Index]) -> None:
        w.store(kind, _plus(scope, dtype, w.load(kind, cell), term(place)), cell)

    _nest(scope, axes, body)
    return w.load(kind, cell)


def _times(scope: Scope, dtype: Any, x: str, y: str) -> str:
    kind = REGISTER[name_of(dtype)]
    return scope.writer.let(f"fmul contract {kind} {x}, {y}" if is_float(dtype) else f"mul {kind} {x}, {y}")


def _plus(scope: Scope, dtype: Any, x: str, y: str) -> str:
    kind = REGISTER[name_of(dtype)]
    # `reassoc`: several partial sums, as BLAS has them; in its order a sum cannot be vectorised
    return scope.writer.let(f"fadd reassoc contract {kind} {x}, {y}" if is_float(dtype) else f"add {kind} {x}, {y}")


def _dot(scope: Scope, operation: Operation, axes: Sequence[Axis], a: Operand, b: Operand) -> str:
    scope.program.notes.append(Note("product", (operation.op.name,), operation.loc, "loops"))
    with Access(scope) as access:
        return _sum(scope, axes, a.matrix, b.matrix, access)


# -- what the planner asks


def _reads(operation: Operation, value: Value, table: Lowerings) -> str:
    """An operand is read through index maps if one of its axes stays dense and it is not a small part of a recipe."""
    if not supported(operation):
        return "memory"
    layout = layout_of(value, table, lambda v: False)
    if layout.base is value:
        return "memory"
    producer = layout.base.producer
    larger = count_of(layout.base.type.shape, 64) > count_of(value.type.shape, 64)
    # for a few rows of it all of the recipe would be written to memory
    if larger and producer is not None and table.kind(producer) == "element":
        return "memory"
    return "view" if 1 in [step for step in layout.steps if isinstance(step, int)] else "memory"


def patterns(block: Block, users: dict[Value, list[Operation]]) -> dict[Operation, Special]:
    """Operations that are done by the product they use: sums over its batch, additions."""
    specials: dict[Operation, Special] = {}
    outputs = set(block.results)
    place = {operation: i for i, operation in enumerate(block.operations)}
    taken: set[Operation] = set()

    def alone(value: Value) -> bool:
        return len(users.get(value, ())) == 1 and value not in outputs

    def product_of(value: Value, user: Operation) -> Operation | None:
        """The product that makes a value for this user alone, if it can be done there."""
        producer = value.producer
        if producer is None or producer.op is not MATMUL or producer in taken or producer in specials:
            return None
        if not alone(value) or not supported(producer):
            return None
        # the product is moved down to its user
        if any(o.regions or is_twin(o.op) for o in block.operations[place[producer] + 1 : place[user]]):
            return None  # what it reads may change before the user's turn
        return producer

    for operation in block.operations:
        if operation.op is REDUCE_SUM:
            factor = product_of(operation.operands[0], operation)
            rank = len(operation.operands[0].type.shape)
            # only axes of the batch: a sum over rows or columns is no longer a product of matrices
            if factor is not None and rank > 2 and max(operation.attrs["axis"], default=rank) < rank - 2:
                specials[operation] = Special(_summed, (factor,))
                taken.add(factor)
        elif operation.op in (ADD, ARITHMETIC[ADD]):
            x, y = operation.operands
            # a product that is broadcast has fewer elements than the sum
            if x is y or any(tuple(v.type.shape) != tuple(operation.result.type.shape) for v in (x, y)):
                continue
            for k, total, part in ((0, x, y), (1, y, x)):
                factor = product_of(part, operation)
                if factor is None or not is_float(operation.result.type.dtype):
                    continue
                # the total's memory must be ours to change: `bufferize` says so, or it is another product's for this sum alone
                other = total.producer
                own = other is not None and other.op is MATMUL and supported(other) and alone(total)
                if (is_twin(operation.op) and k == 0) or (own and other not in taken):
                    specials[operation] = Special(_added, (factor,), k)
                    taken.add(factor)
                    break
    return specials


def _summed(scope: Scope, operation: Operation) -> list[Lowered]:
    """A sum over the batch of a product: the batch is one more axis to sum over."""
    factor: Operation = operation.operands[0].producer  # type: ignore[assignment]
    _agree(scope, factor)
    home = scope.room(operation.result)
    a, b = (operand(scope, value) for value in factor.operands)
    shape = tuple(factor.result.type.shape)
    axes, steps = operation.attrs["axis"], iter(dense(operation.result.type.shape))
    along: list[Any] = []
    for axis in range(len(shape)):
        step = next(steps) if operation.attrs["keepdims"] or axis not in axes else None
        along.append(None if axis in axes else step)
    product(scope, factor, of_matmul(factor, a.layout, b.layout, shape, along), a, b, home)
    return [home]


def _added(scope: Scope, operation: Operation) -> list[Lowered]:
    """A product added to what is there."""
    (factor,) = scope.plan.special[operation].absorbed
    _agree(scope, factor)
    k = operation.operands.index(factor.result)
    home = scope.memory(operation.operands[1 - k])
    a, b = (operand(scope, value) for value in factor.operands)
    shape = tuple(factor.result.type.shape)
    product(scope, factor, of_matmul(factor, a.layout, b.layout, shape, dense(shape)), a, b, home, add=True)
    return [home]


LOWERINGS: dict[Op, Lowering] = {
    MATMUL: Lowering(memory=_matmul, reads=_reads, rewrite=_outer),
    EINSUM: Lowering(memory=_einsum, reads=_reads, rewrite=_pairs),
}
