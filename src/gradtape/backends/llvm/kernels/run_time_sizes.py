"""Sizes and counts that only run time knows, checks, and placeholders.

`extent` makes a dimension of an integer, `range` counts; both have no memory: their elements are computed where they are
needed. `assert` tests its flag here and calls Python only to raise.
"""

from __future__ import annotations

from gradtape.backends.llvm.kernels.callback_code import write_callback, write_failure
from gradtape.backends.llvm.kernels.code import converted
from gradtape.backends.llvm.kernels.kernel_code import Access, loops
from gradtape.backends.llvm.kernels.scope import Scope
from gradtape.backends.llvm.planning.lowering import Lowering, always, as_recipes, computable, never
from gradtape.backends.llvm.planning.nests import Level
from gradtape.backends.llvm.planning.size_checks import MOST
from gradtape.backends.llvm.planning.values import Array, Lazy, Lowered, Place
from gradtape.backends.llvm.runtime.notes import Note
from gradtape.backends.llvm.writing.element_types import REGISTER, is_integer, literal, name_of
from gradtape.backends.llvm.writing.ir_text import Index
from gradtape.core.opdef import Op
from gradtape.dtypes import bool_ as boolean, int64
from gradtape.ir.graph import Operation
from gradtape.ir.types import ListSpec
from gradtape.ops.dynamic import MASK_INDICES
from gradtape.ops.staged import ASSERT, DIM_VALUE, DIMS, EXTENT, RANGE, VOID

WORD = 64  # bits

# -- dimensions


def _extent(scope: Scope, operation: Operation) -> list[Lowered]:
    w = scope.writer
    size = scope.integer(operation.operands[0])
    scope.fail_if(w.let(f"icmp slt i64 {size}, 0"), operation)
    scope.sized(operation, operation.result.type, (size,))
    return [Lazy(operation)]


def _nothing(scope: Scope, operation: Operation, place: Place) -> str:
    return "false"


def _dim_value(scope: Scope, operation: Operation, place: Place) -> str:
    (x,) = operation.operands
    lowered = scope.find(x)
    size = (lowered.dims if isinstance(lowered, Array) else scope.dims(x))[operation.attrs["axis"]]
    return str(size) if isinstance(size, int) else scope.writer.let(f"trunc i64 {size} to i32")


def _dims(scope: Scope, operation: Operation) -> list[Lowered]:
    w = scope.writer
    home = scope.room(operation.result)
    for k, size in enumerate(operation.attrs["dims"]):
        index = scope.program.index(size)
        register = str(index) if isinstance(index, int) else converted(w, index, int64, home.dtype)
        scope.store(register, home, (k,))
    return [home]


# -- counting


def _range(scope: Scope, operation: Operation) -> list[Lowered]:
    if not _countable(operation):
        return write_callback(scope, operation)
    w = scope.writer
    start, limit, delta = (scope.integer(value) for value in operation.operands)
    scope.fail_if(w.let(f"icmp eq i64 {delta}, 0"), operation)
    # ⌈(limit − start) / delta⌉ = (gap − 1) / |delta| + 1 of numbers without a sign: a gap of int64s always fits into 64 bits
    up = w.let(f"icmp sgt i64 {delta}, 0")
    below, above = (w.let(f"select i1 {up}, i64 {a}, i64 {b}") for a, b in ((start, limit), (limit, start)))
    some = w.let(f"icmp slt i64 {below}, {above}")
    gap = w.let(f"sub i64 {w.let(f'sub i64 {above}, {below}')}, 1")
    size = w.let(f"call i64 @llvm.abs.i64(i64 {delta}, i1 false)")
    most = w.let(f"add i64 {w.let(f'udiv i64 {gap}, {size}')}, 1")
    count = w.let(f"select i1 {some}, i64 {most}, i64 0")
    scope.fail_if(w.let(f"icmp ugt i64 {count}, {MOST}"), operation)
    scope.sized(operation, operation.result.type, (count,))
    return [Lazy(operation)]


def _countable(operation: Operation) -> bool:
    """Whether it counts with integers that a register of its own type holds."""
    values = (*operation.operands, operation.result)
    return all(is_integer(value.type.dtype) and name_of(value.type.dtype) != "uint64" for value in values)


def _count(scope: Scope, operation: Operation, place: Place) -> str:
    """start + i·delta, in the type of the result, which wraps around as NumPy's does."""
    w, dtype = scope.writer, operation.result.type.dtype
    start, _, delta = operation.operands
    first, step = (converted(w, scope.scalar(value), value.type.dtype, dtype) for value in (start, delta))
    kind = REGISTER[name_of(dtype)]
    index = str(place[0]) if isinstance(place[0], int) else converted(w, place[0], int64, dtype)
    return w.let(f"add {kind} {first}, {w.let(f'mul {kind} {index}, {step}')}")


# -- checks


def _assert(scope: Scope, operation: Operation) -> list[Lowered]:
    w = scope.writer
    cond = operation.operands[0]
    if len(cond.type.shape) or name_of(cond.type.dtype) not in REGISTER:
        return write_callback(scope, operation)
    flag = converted(w, scope.scalar(cond), cond.type.dtype, boolean)
    scope.program.notes.append(Note("check", (operation.op.name,), operation.loc))
    with w.when(w.let(f"xor i1 {flag}, true"), f", !prof {scope.program.unlikely()}"), scope.aside():
        write_failure(scope, operation)
    return []


# -- masks


def _mask_indices(scope: Scope, operation: Operation) -> list[Lowered]:
    """The places of True, one array per axis: a mask becomes words of bits, which are counted, then the bits that are set."""
    w, program = scope.writer, scope.program
    (mask,) = operation.operands
    dims = scope.dims(mask)
    for size, n in zip(operation.attrs["shape"], dims, strict=True):
        wanted = program.index(size)
        if wanted != n:
            scope.fail_if(w.let(f"icmp ne i64 {wanted}, {n}"), operation)
    if not dims:
        return write_callback(scope, operation)
    *outer, last = dims
    rows = [*outer, w.quotient(w.add(last, WORD - 1), WORD)]
    words = scope.take(w.multiply(w.product(rows), WORD // 8))
    count, flags = w.cell("i64"), w.cell("i8", WORD, WORD)
    w.store("i64", 0, count)
    with Access(scope) as access:

        def gather(place: tuple[Index, ...]) -> None:
            first = w.multiply(place[-1], WORD)
            length = w.smaller(w.subtract(last, first), WORD)
            w.store(f"<{WORD} x i8>", "zeroinitializer", flags)
            with w.loop(length, extra=access.loop(length)) as j, Level(scope):
                flag = scope.element(mask, (*place[:-1], w.add(first, j)))
                w.store("i8", w.let(f"zext i1 {flag} to i8"), w.at("i8", flags, j), access.writing)
            bits = w.let(f"icmp ne <{WORD} x i8> {w.load(f'<{WORD} x i8>', flags)}, zeroinitializer")
            word = w.let(f"bitcast <{WORD} x i1> {bits} to i64")
            w.store("i64", word, w.at("i64", words.address, scope.offset(rows, place)))
            w.store("i64", w.add(w.load("i64", count), _bits(scope, word)), count)

        loops(scope, rows, gather, None)
    total = w.load("i64", count)
    homes = []
    for value in operation.results:
        program.bind(value.type, (total,))
        homes.append(scope.room(value))
    w.store("i64", 0, count)
    rest = w.cell("i64")

    def note(place: tuple[Index, ...]) -> None:
        word = w.load("i64", w.at("i64", words.address, scope.offset(rows, place)))
        first = w.multiply(place[-1], WORD)
        w.store("i64", word, rest)
        with w.loop(_bits(scope, word)):
            bits = w.load("i64", rest)
            w.store("i64", w.let(f"and i64 {bits}, {w.let(f'sub i64 {bits}, 1')}"), rest)
            index = w.add(first, w.let(f"call i64 @llvm.cttz.i64(i64 {bits}, i1 true)"))
            at = w.load("i64", count)
            for home, i in zip(homes, (*place[:-1], index), strict=True):
                scope.store(str(i), home, (at,))
            w.store("i64", w.add(at, 1), count)

    loops(scope, rows, note, None)
    scope.give(words)
    return list(homes)


def _bits(scope: Scope, word: str) -> str:
    """How many are set."""
    return scope.writer.let(f"call i64 @llvm.ctpop.i64(i64 {word})")


# -- placeholders


def _void(scope: Scope, operation: Operation, place: Place) -> str:
    """Never read: any number will do."""
    return literal(0, operation.result.type.dtype)


def _void_list(scope: Scope, operation: Operation) -> list[Lowered]:
    from gradtape.backends.llvm.kernels.native_lists import new_list

    type = operation.result.type
    if isinstance(type, ListSpec):
        return [new_list(scope, type)]
    for size in type.shape:  # a size that nobody has: none
        for name in getattr(size, "symbols", ()):
            scope.program.sizes.setdefault(name, 0)
    return [Lazy(operation) if computable(type) else scope.room(operation.result)]


# the code of these finds a size and leaves a recipe: no operation of theirs is planned as one
LOWERINGS: dict[Op, Lowering] = {
    EXTENT: Lowering(memory=_extent, element=_nothing, accepts=never, pointwise=always, finds_sizes=True),
    RANGE: Lowering(memory=_range, element=_count, accepts=never, pointwise=always, finds_sizes=True),
    VOID: Lowering(memory=_void_list, element=_void, accepts=never, pointwise=always, finds_sizes=True),
    DIM_VALUE: Lowering(element=_dim_value),
    DIMS: Lowering(memory=_dims, finds_sizes=True),
    ASSERT: Lowering(memory=_assert, reads=as_recipes(), finds_sizes=True),
    MASK_INDICES: Lowering(memory=_mask_indices, reads=as_recipes(), finds_sizes=True),
}
