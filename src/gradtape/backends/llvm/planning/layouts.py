"""Values as strided memory: an index map over an array in memory that steps and an offset can express.

A transposition, a plain slice, a broadcast or a reshape of an array in memory need no copy where the reader takes any strides,
as matrix products do. Sizes, steps and offsets are dimensions (ints or symbolic), so the planner can ask before any code is
written. Knows index maps only; who needs what layout is said by the readers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gradtape.backends.llvm.planning.lowering import Lowerings
from gradtape.backends.llvm.planning.values import Layout, Size
from gradtape.ir.graph import Operation, Value
from gradtape.ir.slots import Slot
from gradtape.ops.dynamic import whole_key


def layout_of(value: Value, table: Lowerings, has_memory: Callable[[Value], bool]) -> Layout:
    """The layout of a value over the nearest value below it that has memory; of itself if no index map leads to one."""
    chain: list[Operation] = []
    while (producer := value.producer) is not None and not has_memory(value) and table[producer.op].strided(producer):
        chain.append(producer)
        value = producer.operands[0]
    layout = Layout(value, 0, dense(value.type.shape))
    for operation in reversed(chain):
        map_layout = table[operation.op].layout
        mapped = None if map_layout is None else map_layout(operation, layout)
        layout = Layout(operation.result, 0, dense(operation.result.type.shape)) if mapped is None else mapped
    return layout


def dense(shape: Sequence[Size]) -> tuple[Size, ...]:
    """The steps of row-major memory without gaps."""
    steps: list[Size] = []
    total: Size = 1
    for size in reversed(tuple(shape)):
        steps.append(total)
        total = total * size
    return tuple(reversed(steps))


def is_one(size: Size | None) -> bool:
    """Whether a size is known to be 1."""
    return isinstance(size, int) and size == 1


def same(operation: Operation, below: Layout) -> Layout | None:
    return below if tuple(operation.operands[0].type.shape) == tuple(operation.result.type.shape) else None


def transposed(operation: Operation, below: Layout) -> Layout | None:
    perm = operation.attrs["perm"]
    return below if not perm else below._replace(steps=tuple([below.steps[axis] for axis in perm]))


def broadcast(operation: Operation, below: Layout) -> Layout | None:
    shape, wide = tuple(operation.operands[0].type.shape), tuple(operation.result.type.shape)
    steps: list[Size] = [0] * (len(wide) - len(shape))
    for size, result, step in zip(shape, wide[len(wide) - len(shape) :], below.steps, strict=True):
        steps.append(0 if is_one(size) and not is_one(result) else step)
    return below._replace(steps=tuple(steps))


def reshaped(operation: Operation, below: Layout) -> Layout | None:
    """Axes of size 1 come and go; otherwise axes that lie densely behind one another are cut anew."""
    source, target = tuple(operation.operands[0].type.shape), tuple(operation.result.type.shape)
    steps: list[Size] = []
    have = [(size, step) for size, step in zip(source, below.steps, strict=True) if not is_one(size)]
    want = [size for size in target if not is_one(size)]
    while want:
        if not have:
            return None
        size, step = have.pop(0)
        wanted = [want.pop(0)]
        total: Size = wanted[0]
        while size != total:
            if _less(total, size) and want:
                wanted.append(want.pop(0))
                total = total * wanted[-1]
            elif _less(size, total) and have:
                following, inner = have.pop(0)
                if step != inner * following:
                    return None
                size, step = size * following, inner
            else:
                return None
        parts = dense(wanted)
        steps += [part * step for part in parts]
    if have:
        return None
    rest = iter(steps)
    return below._replace(steps=tuple([1 if is_one(size) else next(rest) for size in target]))


def _less(a: Size, b: Size) -> bool:
    return isinstance(a, int) and isinstance(b, int) and a < b


def is_plain(operation: Operation) -> bool:
    """Whether an operation reads with a key of ints and slices whose starts are known."""
    key = operation.attrs["key"]
    parts = list(key) if isinstance(key, tuple) else [key]
    static = all(isinstance(size, int) for size in operation.operands[0].type.shape)
    for part in parts:
        if part is None or part is Ellipsis:
            continue
        if isinstance(part, slice):
            if not all(n is None or isinstance(n, int) for n in (part.start, part.stop, part.step)):
                return False
            if not static and part != slice(None):
                return False
        elif isinstance(part, (bool, np.bool_)) or not isinstance(part, (int, np.integer)) or (not static and part < 0):
            return False
    return True


def indexed(operation: Operation, below: Layout) -> Layout | None:
    shape = tuple(operation.operands[0].type.shape)
    key = operation.attrs["key"]
    parts = list(key) if isinstance(key, tuple) else [key]
    used = sum(1 for part in parts if part is not None and part is not Ellipsis)
    full = [slice(None)] * (len(shape) - used)
    at = next((k for k, part in enumerate(parts) if part is Ellipsis), None)
    parts = [*parts, *full] if at is None else [*parts[:at], *full, *parts[at + 1 :]]
    offset, axis = below.offset, 0
    steps: list[Size] = []
    for part in parts:
        if part is None:
            steps.append(1)
            continue
        size, step = shape[axis], below.steps[axis]
        axis += 1
        if isinstance(part, slice):
            if part == slice(None):
                steps.append(step)
            elif isinstance(size, int):
                start, _, stride = part.indices(size)
                offset = offset + start * step
                steps.append(step * stride)
            else:
                return None
        else:
            if part < 0 and not isinstance(size, int):
                return None
            offset = offset + (int(part) if part >= 0 else int(part) + size) * step
    return below._replace(offset=offset, steps=tuple(steps))


def is_span(operation: Operation) -> bool:
    """Whether a key with numbers of the program has places and slices only: no index arrays."""
    key = operation.attrs["key"]
    parts = key if isinstance(key, tuple) else (key,)
    for part in parts:
        if isinstance(part, Slot):
            if len(operation.operands[1 + part.index].type.shape):
                return False
        elif isinstance(part, slice):
            if not (part.step is None or isinstance(part.step, int)):
                return False
        elif not (
            part is None or part is Ellipsis or (isinstance(part, (int, np.integer)) and not isinstance(part, (bool, np.bool_)))
        ):
            return False
    return True


def spanned(operation: Operation, below: Layout) -> Layout | None:
    """What such a key leaves of the steps; where it starts, the code that opens it knows."""
    key = operation.attrs["key"]
    steps: list[Size] = []
    axis = 0
    for part in whole_key(key if isinstance(key, tuple) else (key,), len(below.steps)):
        if part is None:
            steps.append(1)
            continue
        if isinstance(part, slice):
            steps.append(below.steps[axis] * (1 if part.step is None else part.step))
        axis += 1
    return below._replace(steps=tuple(steps), starts=(*below.starts, (operation, below.steps)))


def sliced(operation: Operation, below: Layout) -> Layout | None:
    axis, start = operation.attrs["axis"], operation.attrs["start"]
    return below._replace(offset=below.offset + start * below.steps[axis])
