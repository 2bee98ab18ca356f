"""Values as strided memory: an index map over an array in memory that steps and an offset can express.

A transposition, a plain slice, a broadcast or a reshape of an array in memory need no copy where the reader takes any strides,
as matrix products do. Sizes, steps and offsets are dimensions (ints or symbolic), so the planner can ask before any code is
written. Knows index maps only; who needs what layout is said by the readers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

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
    # From the memory upwards. A map that steps cannot express (None) is where the value is written out: the maps above it go on
    # from there.
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
        steps.append(0 if is_one(size) and not is_one(result) else step)  # a step of 0 reads the same element again
    return below._replace(steps=tuple(steps))


def reshaped(operation: Operation, below: Layout) -> Layout | None:
    """Axes of size 1 come and go; otherwise axes that lie densely behind one another are cut anew."""
    source, target = tuple(operation.operands[0].type.shape), tuple(operation.result.type.shape)
    steps: list[Size] = []
    have = [(size, step) for size, step in zip(source, below.steps, strict=True) if not is_one(size)]
    want = [size for size in target if not is_one(size)]
    # Both shapes are read from the left, a group of axes of one against a group of the other with the same number of elements.
    # Axes of a group of the source must lie densely behind one another: their step is then that of the last.
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
    """Whether a is known to be smaller; of symbols nothing is, so groups of them match only as they are."""
    return isinstance(a, int) and isinstance(b, int) and a < b


def is_plain(operation: Operation) -> bool:
    """Whether an operation reads with a key of ints and slices whose starts are known."""
    # Of an axis whose size is a symbol, where -1 is or where a slice is cut is not known before run time.
    static = all(isinstance(size, int) for size in operation.operands[0].type.shape)

    def known(part: Any) -> bool:
        if isinstance(part, slice):
            ends = (part.start, part.stop, part.step)
            return all(n is None or isinstance(n, int) for n in ends) and (static or part == slice(None))
        return part is None or part is Ellipsis or (_is_place(part) and (static or part >= 0))

    return all(known(part) for part in operation.attrs["key"])


def _is_place(part: Any) -> bool:
    return isinstance(part, (int, np.integer)) and not isinstance(part, (bool, np.bool_))


def indexed(operation: Operation, below: Layout) -> Layout | None:
    """A place moves the offset and its axis is gone; a slice moves the offset and stretches the step."""
    shape = tuple(operation.operands[0].type.shape)
    offset, axis = below.offset, 0
    steps: list[Size] = []
    for part in whole_key(operation.attrs["key"], len(shape)):
        if part is None:
            steps.append(1)
            continue
        size, step = shape[axis], below.steps[axis]
        axis += 1
        if isinstance(part, slice) and part == slice(None):
            steps.append(step)
        elif isinstance(part, slice):
            if not isinstance(size, int):
                return None
            start, _, stride = part.indices(size)
            offset = offset + start * step
            steps.append(step * stride)
        elif part < 0 and not isinstance(size, int):
            return None
        else:
            offset = offset + (int(part) if part >= 0 else int(part) + size) * step
    return below._replace(offset=offset, steps=tuple(steps))


def is_span(operation: Operation) -> bool:
    """Whether a key with numbers of the program has places and slices only: no index arrays."""

    def known(part: Any) -> bool:
        if isinstance(part, Slot):
            return not len(operation.operands[1 + part.index].type.shape)
        if isinstance(part, slice):
            return part.step is None or isinstance(part.step, int)
        return part is None or part is Ellipsis or _is_place(part)

    return all(known(part) for part in operation.attrs["key"])


def spanned(operation: Operation, below: Layout) -> Layout | None:
    """What such a key leaves of the steps; where it starts, the code that opens it knows."""
    steps: list[Size] = []
    axis = 0
    for part in whole_key(operation.attrs["key"], len(below.steps)):
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
