"""Writing parts of arrays: updates and sums at places, in place where `bufferize` says so, else on a copy; parts in zeros.

Cost is that of the part, plus that of the copy or the zeros where there are any. The part may be a recipe: it is computed where
it is written. Several values for one place: the last wins, sums are taken one after the other, as NumPy does.

Writes to shifted boxes of one array are one pass over it. The backward pass of `a[2:] - 2 * a[1:-1] + a[:-2]` adds a
cotangent at three places; one by one, each addition reads and writes the whole array. So the last write of such a chain, of
which nobody else reads what is in between, does the work of all: what an element gets from each is put or added to it in a
register, in the order of the program. A box that ends before the row does is a mask of the loop that uses vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from math import prod
from typing import Any

from gradtape.backends.llvm.kernels import keys
from gradtape.backends.llvm.kernels.callback_code import write_callback
from gradtape.backends.llvm.kernels.code import Code, converted, plain_sum
from gradtape.backends.llvm.kernels.formulas import maximum, minimum
from gradtape.backends.llvm.kernels.kernel_code import Access, loops
from gradtape.backends.llvm.kernels.reads import key_of
from gradtape.backends.llvm.kernels.scope import Scope
from gradtape.backends.llvm.planning.lowering import Lowering, Lowerings, computable, never
from gradtape.backends.llvm.planning.nests import Level
from gradtape.backends.llvm.planning.plan import Special
from gradtape.backends.llvm.planning.values import Array, Lowered, Scalar
from gradtape.backends.llvm.runtime.notes import Note
from gradtape.backends.llvm.writing.element_types import MEMORY, name_of
from gradtape.backends.llvm.writing.ir_text import Index
from gradtape.core.opdef import Op
from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.slots import Slot
from gradtape.ops.dynamic import ADD_AT, PUT_AT, UPDATE_AT, whole_key
from gradtape.ops.index import PUT_SLICE, TAKE_ADD, UPDATE
from gradtape.ops.padding import PAD
from gradtape.ops.scatter import EXTREME_ROWS
from gradtape.passes.inplace import TWINS, is_twin, pure_op

UPDATES = (UPDATE, UPDATE_AT, ADD_AT)  # x, a value, and what fills the slots of the key
PUTS = (PUT_SLICE, PUT_AT, TAKE_ADD, PAD)  # a part, and what fills the slots
Box = tuple[tuple[int, int], ...]  # start and stop on each axis
MOST = 32  # writes of a chain
WIDEST = 1 << 30  # elements of a row: places in it are numbers of 32 bits, which are compared faster
NOWHERE = 1 << 31  # where the box begins in rows that it does not reach


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


def _part(operation: Operation) -> Value:
    """What is written."""
    op = pure_op(operation.op)
    return operation.operands[1 if op in UPDATES else 2 if op is EXTREME_ROWS else 0]


def supported(operation: Operation) -> bool:
    """Whether an update is written here: numbers that registers can hold, a key of ints, slices and integer arrays."""
    if not all(computable(value.type) for value in (*operation.operands, operation.result)):
        return False
    kind = name_of(operation.result.type.dtype)
    # These read what is there: both must be one type, and NumPy's sum of booleans is an `or`.
    counts = operation.op is EXTREME_ROWS or _adds(operation)
    if counts and (kind != name_of(_part(operation).type.dtype) or kind == "bool"):
        return False
    return keys.accepts(*_key(operation))


def _adds(operation: Operation) -> bool:
    op = pure_op(operation.op)
    # index arrays may name a place twice, and a part put into zeros is the adjoint of a read: both readers count
    return op in (ADD_AT, TAKE_ADD) or (op is PUT_AT and _has_arrays(operation))


def _has_arrays(operation: Operation) -> bool:
    return any(len(value.type.shape) for value in operation.operands[1:])


def _update(scope: Scope, operation: Operation) -> list[Lowered]:
    x, whole = operation.operands[0], not len(operation.result.type.shape)
    if not supported(operation) or (whole and operation.op is EXTREME_ROWS):
        return write_callback(scope, operation)
    if whole:
        return [_whole(scope, operation)]
    # the twin of an update was chosen by `bufferize` because nobody reads the array afterwards
    target = scope.memory(x) if is_twin(operation.op) else scope.placed(x, scope.room(operation.result))
    _write(scope, operation, target)
    return [Array(target.address, target.dims, target.dtype)]


def _whole(scope: Scope, operation: Operation) -> Lowered:
    """x of rank 0: the value takes its place, or is added."""
    x, value = operation.operands[:2]
    w, dtype = scope.writer, x.type.dtype
    place = (0,) * len(value.type.shape)
    register = converted(w, scope.element(value, place), value.type.dtype, dtype)
    return Scalar(plain_sum(scope.writer, dtype, scope.scalar(x), register) if _adds(operation) else register, dtype)


def _put(scope: Scope, operation: Operation) -> list[Lowered]:
    if operation.op is PAD and not operation.attrs["paddings"] and computable(operation.result.type):
        return [Scalar(scope.scalar(operation.operands[0]), operation.result.type.dtype)]
    if not supported(operation) or not len(operation.result.type.shape):
        return write_callback(scope, operation)
    scope.sized(operation, operation.result.type, _sizes(scope, operation))
    home = scope.room(operation.result)
    # zeros first, all of it: what the key leaves out cannot be said as loops
    scope.clear(home)
    _write(scope, operation, home)
    return [home]


def _sizes(scope: Scope, operation: Operation) -> list[Index]:
    """The dims of the whole that a part is put into."""
    w, index = scope.writer, scope.program.index
    if operation.op is not PAD:
        return [index(size) for size in operation.attrs["shape"]]
    pairs = zip(scope.dims(operation.operands[0]), operation.attrs["paddings"], strict=True)
    return [w.add(w.add(size, index(before)), index(after)) for size, (before, after) in pairs]


def _write(scope: Scope, operation: Operation, target: Array) -> None:
    """The elements of a part, broadcast to the shape of the key, at their places."""
    w, value = scope.writer, _part(operation)
    key, indices = _key(operation)
    mapping = keys.opened(scope, operation, key, target.dims, indices)
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
        # two threads must not write to one place
        apart = None if mapping.repeats else access
        loops(scope, mapping.dims, lambda place: one(place, access.reading, access.writing), apart)


def _broadcast(scope: Scope, operation: Operation, dims: Sequence[Index], value: Value) -> keys.Reader:
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
        # a size of 1 that only run time knows is asked below
        if size == 1 and isinstance(size, int):
            steps[-1] = 0
            continue
        other = w.let(f"icmp ne i64 {n}, 1")
        scope.fail_if(w.let(f"and i1 {other}, {w.let(f'icmp ne i64 {n}, {wanted}')}"), operation)
        # 0 or 1: a multiplication in place of a branch for each element
        steps[-1] = w.let(f"zext i1 {other} to i64") if not isinstance(n, int) else 1

    def read(place: Sequence[Index]) -> str:
        spot = [0 if k < extra else w.multiply(place[k - extra], step) for k, step in enumerate(steps)]
        return scope.element(value, tuple(spot))

    return read


def box_of(operation: Operation) -> Box | None:
    """What an operation writes, if that is a box of known size in an array of numbers that vectors are masked for."""
    if pure_op(operation.op) not in (*UPDATES, *PUTS) or not all(computable(v.type) for v in operation.operands):
        return None
    whole, part = operation.result.type, _part(operation).type
    key, slots = _key(operation)
    sizes = (*whole.shape, *part.shape)
    # boxes are compared and counted while the program is written: nothing may depend on run time
    if slots or not whole.shape or not all(isinstance(n, int) for n in sizes) or whole.shape[-1] > WIDEST:
        return None
    # (`fadd` below is for these)
    if name_of(whole.dtype) not in ("float32", "float64") or name_of(part.dtype) != name_of(whole.dtype):
        return None
    box = []
    for k, size in zip(whole_key(tuple(k for k in key if k is not None), len(whole.shape)), whole.shape, strict=True):
        bounds = (k.start, k.stop, k.step) if isinstance(k, slice) else (k,)
        if not all(bound is None or type(bound) is int for bound in bounds):
            return None
        places = range(size)[k if isinstance(k, slice) else slice(k, k + 1 or None)]
        # a box is tested by its ends
        if places.step != 1 or not places:
            return None
        box.append((places.start, places.stop))
    return tuple(box)


def patterns(block: Block, users: dict[Value, list[Operation]]) -> dict[Operation, Special]:
    """Chains of writes, each the only reader of the one before it: the last one writes for all."""
    outputs = set(block.results)
    chains: dict[Operation, dict[Operation, Box]] = {}  # by the last of each
    for operation in block.operations:
        box = box_of(operation)
        if box is None:
            continue
        array = operation.operands[0]
        # a step between that somebody else reads must be in memory by itself
        alone = is_twin(operation.op) and users[array] == [operation] and array not in outputs
        before = chains.get(array.producer, {}) if alone and array.producer is not None else {}
        chain = {**before, operation: box}
        # the longer chain takes the shorter one's place: each write belongs to one
        if before and _is_dense(chain):
            del chains[array.producer]  # type: ignore[arg-type]
        chains[operation] = chain if _is_dense(chain) else {operation: box}
    return {last: Special(_gathered, tuple(chain)[:-1], 0) for last, chain in chains.items() if len(chain) > 1}


def _is_dense(chain: dict[Operation, Box]) -> bool:
    """Whether most boxes hold most of the elements that one pass has to look at."""
    boxes = list(chain.values())
    volumes = [prod(stop - start for start, stop in box) for box in boxes]
    # One pass asks every box at every place. If most answers are no, separate loops over the boxes touch fewer elements.
    return len(boxes) <= MOST and 2 * sum(volumes) >= len(boxes) * prod(stop - start for start, stop in _around(boxes))


def _around(boxes: Sequence[Box]) -> Box:
    return tuple((min(start for start, _ in axis), max(stop for _, stop in axis)) for axis in zip(*boxes, strict=True))


def _gathered(scope: Scope, operation: Operation) -> list[Lowered]:
    """All writes of a chain, element by element."""
    w = scope.writer
    chain = (*scope.plan.special[operation].absorbed, operation)
    boxes: list[Box] = [box_of(one) for one in chain]  # type: ignore[misc]
    head, dtype = chain[0], operation.result.type.dtype
    kind = MEMORY[name_of(dtype)]
    in_place = is_twin(head.op)
    target = scope.memory(head.operands[0]) if in_place else scope.room(head.result)
    # in place, what no box reaches is right already; new memory must be filled everywhere
    space = _around(boxes) if in_place else tuple((0, int(size)) for size in operation.result.type.shape)
    parts = [keys.opened(scope, one, _key(one)[0], target.dims, ()) for one in chain]
    readers = [_broadcast(scope, one, part.dims, _part(one)) for one, part in zip(chain, parts, strict=True)]
    # a cell in place of phis: LLVM makes a register of it, and masks instead of branches
    total = w.cell(kind)

    def element(place: Sequence[Index], access: Access) -> None:
        at = tuple(w.add(index, start) for index, (start, _) in zip(place, space, strict=True))
        spot = w.at(kind, target.address, scope.offset(target.dims, at))
        if in_place:
            w.store(kind, w.load(kind, spot, access.writing), total)
        elif pure_op(head.op) in UPDATES:
            w.store(kind, scope.element(head.operands[0], at), total)
        else:
            w.store(kind, "0.0", total)
        for one, box, part, read in zip(chain, boxes, parts, readers, strict=True):
            flag = _inside(scope, at, box, space)
            with nullcontext() if flag is None else w.when(flag), Level(scope):
                register = read([0 if axis is None else w.subtract(at[axis], box[axis][0]) for axis in part.sources])
                if _adds(one):
                    # in the order of the program: the sum is that of one write after the other
                    register = w.let(f"fadd contract {kind} {w.load(kind, total)}, {register}")
                w.store(kind, register, total)
        w.store(kind, w.load(kind, total), spot, access.writing)

    scope.program.notes.append(Note("kernel", tuple(one.op.name for one in chain), operation.loc, "gathered"))
    with Access(scope) as access:
        loops(scope, [stop - start for start, stop in space], lambda place: element(place, access), access, masked=True)
    return [Array(target.address, target.dims, target.dtype)]


def _inside(scope: Scope, at: Sequence[Index], box: Box, space: Box) -> str | None:
    """Whether a place lies in a box; None if all places do.

    In a row that the box does not reach, it begins where no place is. So the test that is left for the places of a row
    is the same in all rows, and LLVM does not write a loop for each kind of row.
    """
    w = scope.writer
    reached = ""
    for index, (start, stop), (low, high) in zip(at[:-1], box[:-1], space[:-1], strict=True):
        if (start, stop) != (low, high):
            flag = w.let(f"icmp ult i64 {w.subtract(index, start)}, {stop - start}")
            reached = w.let(f"and i1 {reached}, {flag}") if reached else flag
    start, stop = box[-1]
    if not reached and box[-1] == space[-1]:
        return None
    first: Index = w.let(f"select i1 {reached}, i32 {start}, i32 {NOWHERE}") if reached else start
    place = w.let(f"trunc i64 {at[-1]} to i32")
    return w.let(f"icmp ult i32 {w.let(f'sub i32 {place}, {first}')}, {stop - start}")


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
    EXTREME_ROWS: _written(_update),
}
