"""Writing parts of arrays: updates and sums at places, in place where `bufferize` says so, else on a copy; parts in zeros.

Cost is that of the part, plus that of the copy or the zeros where there are any. The part may be a recipe: it is computed where
it is written. Several values for one place: the last wins, sums are taken one after the other, as NumPy does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradtape.backends.llvm.kernels import keys
from gradtape.backends.llvm.kernels.code import Code, converted, plain_sum
from gradtape.backends.llvm.kernels.formulas import maximum, minimum
from gradtape.backends.llvm.kernels.kernel_code import Access, loops
from gradtape.backends.llvm.kernels.keys import Mapping
from gradtape.backends.llvm.kernels.native_lists import clear
from gradtape.backends.llvm.kernels.reads import key_of
from gradtape.backends.llvm.kernels.scope import Note, Scope
from gradtape.backends.llvm.planning.lowering import Lowering, Lowerings, computable, never
from gradtape.backends.llvm.planning.values import Array, Lowered, Scalar
from gradtape.backends.llvm.runtime.callbacks import write_callback
from gradtape.backends.llvm.writing.element_types import MEMORY, name_of
from gradtape.backends.llvm.writing.ir_text import Index
from gradtape.core.opdef import Op
from gradtape.ir.graph import Operation, Value
from gradtape.ir.slots import Slot
from gradtape.ops.dynamic import ADD_AT, PUT_AT, UPDATE_AT
from gradtape.ops.index import PUT_SLICE, TAKE_ADD, UPDATE
from gradtape.ops.padding import PAD
from gradtape.ops.scatter import EXTREME_ROWS
from gradtape.passes.inplace import TWINS, is_twin, pure_op

UPDATES = (UPDATE, UPDATE_AT, ADD_AT)  # x, a value, and what fills the slots of the key
PUTS = (PUT_SLICE, PUT_AT, TAKE_ADD, PAD)  # a part, and what fills the slots


def _key(operation: Operation) -> tuple[tuple[Any, ...], list[Value]]:
    """Where a part goes, and what fills the slots of that key."""
    op, attrs = pure_op(operation.op), operation.attrs
    if op in UPDATES:
        return attrs["key"], operation.operands[2:]
    rest = operation.operands[1:]
    if op is EXTREME_ROWS:  # x, the places of rows, and values for them
        return (Slot(0),), rest[:1]
    if op is TAKE_ADD:
        return (*((slice(None),) * attrs["axis"]), Slot(0)), rest
    if op is PAD:
        part = operation.operands[0].type.shape
        return tuple(slice(a, a + d) for d, (a, _) in zip(part, attrs["paddings"], strict=True)), []
    return key_of(operation)[0], rest


def supported(operation: Operation) -> bool:
    """Whether an update is written here: numbers that registers can hold, a key of ints, slices and integer arrays."""
    if not all(computable(value.type) for value in (*operation.operands, operation.result)):
        return False
    op = pure_op(operation.op)
    if op in UPDATES:
        x, value = operation.operands[:2]
    elif op is EXTREME_ROWS:
        x, _, value = operation.operands
    else:
        x, value = operation.result, operation.operands[0]
    kind = name_of(x.type.dtype)
    if (op is EXTREME_ROWS or _adds(operation)) and (kind != name_of(value.type.dtype) or kind == "bool"):
        return False
    return keys.accepts(*_key(operation))


def _adds(operation: Operation) -> bool:
    op = pure_op(operation.op)
    return op in (ADD_AT, TAKE_ADD) or (op is PUT_AT and _has_arrays(operation))


def _has_arrays(operation: Operation) -> bool:
    return any(len(value.type.shape) for value in operation.operands[1:])


def _update(scope: Scope, operation: Operation) -> list[Lowered]:
    if not supported(operation):
        return write_callback(scope, operation)
    x, value = operation.operands[:2]
    result = operation.result
    if not len(result.type.shape):
        return [_whole(scope, operation)]
    target = scope.memory(x) if is_twin(operation.op) else scope.placed(x, scope.room(result))
    mapping = keys.opened(scope, operation, *_opened_key(operation, target.dims))
    _write(scope, operation, target, mapping, value)
    return [Array(target.address, target.dims, target.dtype)]


def _opened_key(operation: Operation, dims: Sequence[Index]) -> tuple[Any, Sequence[Index], list[Value]]:
    key, indices = _key(operation)
    return key, dims, indices


def _whole(scope: Scope, operation: Operation) -> Lowered:
    """x of rank 0: the value takes its place, or is added."""
    x, value = operation.operands[:2]
    w, dtype = scope.writer, x.type.dtype
    place = (0,) * len(value.type.shape)
    register = converted(w, scope.element(value, place), value.type.dtype, dtype)
    return Scalar(plain_sum(scope.writer, dtype, scope.scalar(x), register) if _adds(operation) else register, dtype)


def _rows(scope: Scope, operation: Operation) -> list[Lowered]:
    if not supported(operation) or not len(operation.result.type.shape):
        return write_callback(scope, operation)
    target = scope.placed(operation.operands[0], scope.room(operation.result))
    mapping = keys.opened(scope, operation, *_opened_key(operation, target.dims))
    _write(scope, operation, target, mapping, operation.operands[2])
    return [target]


def _put(scope: Scope, operation: Operation) -> list[Lowered]:
    if operation.op is PAD and not operation.attrs["paddings"] and computable(operation.result.type):
        return [Scalar(scope.scalar(operation.operands[0]), operation.result.type.dtype)]
    if not supported(operation) or not len(operation.result.type.shape):
        return write_callback(scope, operation)
    scope.sized(operation, operation.result.type, _sizes(scope, operation))
    home = scope.room(operation.result)
    clear(scope, home)
    mapping = keys.opened(scope, operation, *_opened_key(operation, home.dims))
    _write(scope, operation, home, mapping, operation.operands[0])
    return [home]


def _sizes(scope: Scope, operation: Operation) -> list[Index]:
    """The dims of the whole that a part is put into."""
    w, index = scope.writer, scope.program.index
    if operation.op is not PAD:
        return [index(size) for size in operation.attrs["shape"]]
    pairs = zip(scope.dims(operation.operands[0]), operation.attrs["paddings"], strict=True)
    return [w.add(w.add(size, index(before)), index(after)) for size, (before, after) in pairs]


def _write(scope: Scope, operation: Operation, target: Array, mapping: Mapping, value: Value) -> None:
    """The elements of a value, broadcast to the shape of the key, at their places."""
    w = scope.writer
    adds, dtype = _adds(operation), target.dtype
    kind = MEMORY[name_of(dtype)]
    read = _broadcast(scope, operation, mapping.dims, value)

    def one(place: Sequence[Index], reading: str = "", writing: str = "") -> None:
        register = converted(w, read(place), value.type.dtype, dtype)
        spot = w.at(kind, target.address, scope.offset(target.dims, mapping.place(scope, place)))
        if adds:
            register = plain_sum(scope.writer, dtype, scope.from_memory(w.load(kind, spot, writing), dtype), register)
        elif operation.op is EXTREME_ROWS:
            larger = maximum if operation.attrs["largest"] else minimum
            register = larger(Code(w, dtype, {}), w.load(kind, spot, writing), register)
        w.store(kind, scope.to_memory(register, dtype), spot, writing)

    if not mapping.dims:
        one(())
        return
    scope.program.notes.append(Note("kernel", (operation.op.name,), operation.loc, "at places"))
    with Access(scope) as access:
        loops(scope, mapping.dims, lambda place: one(place, access.reading, access.writing), access, not mapping.repeats)


def _broadcast(scope: Scope, operation: Operation, dims: Sequence[Index], value: Value) -> Callable[[Sequence[Index]], str]:
    """The element of a value for an index of the key's shape; sizes that do not fit end the call."""
    w = scope.writer
    mine = scope.dims(value)
    extra = len(mine) - len(dims)  # leading axes of size 1 may be too many
    steps: list[Index] = []  # 0 where the value is repeated
    for size, n in zip(value.type.shape, mine, strict=True):
        axis = len(steps) - extra  # negative for leading axes that are too many
        steps.append(1)
        wanted: Index = 1 if axis < 0 else dims[axis]
        if n == wanted:
            continue
        if size == 1 and isinstance(size, int):
            steps[-1] = 0
            continue
        other = w.let(f"icmp ne i64 {n}, 1")
        scope.fail_if(w.let(f"and i1 {other}, {w.let(f'icmp ne i64 {n}, {wanted}')}"), operation)
        steps[-1] = w.let(f"zext i1 {other} to i64") if not isinstance(n, int) else 1

    def read(place: Sequence[Index]) -> str:
        spot = [0 if k < extra else w.multiply(place[k - extra], step) for k, step in enumerate(steps)]
        return scope.element(value, tuple(spot))

    return read


def _written(memory: Callable[[Scope, Operation], list[Lowered]], in_place: bool = False) -> Lowering:
    """The part may be a recipe, and so may what fills the slots of the key; an array that is changed is in memory."""

    def reads(operation: Operation, value: Value, table: Lowerings) -> str:
        recipes = supported(operation) and not (in_place and value is operation.operands[0])
        return "recipe" if recipes else "memory"

    return Lowering(memory=memory, reads=reads, changes=supported if in_place else never, finds_sizes=True)


LOWERINGS: dict[Op, Lowering] = {
    **dict.fromkeys(PUTS, _written(_put)),
    **dict.fromkeys(UPDATES, _written(_update)),
    **{TWINS[op]: _written(_update, in_place=True) for op in UPDATES},
    EXTREME_ROWS: _written(_rows),
}
