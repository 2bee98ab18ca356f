"""Convolutions in native code: sums of products over windows, as axes (`contractions.py`), without copies of windows.

Steps may overlap, so a window is just more axes to sum over: out[n, o, c'] = Σ x[n, o·stride + t·dilation, c] w[t, c, c'].
Only padding is copied. The derivative with respect to the input is such a sum too, with the filter backwards: one for the
positions of each phase of the strides, over the cotangents.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from gradtape.backends.llvm.kernels.callback_code import write_callback
from gradtape.backends.llvm.kernels.kernel_code import Access, loops, rolled
from gradtape.backends.llvm.kernels.scope import Scope
from gradtape.backends.llvm.planning.layouts import dense
from gradtape.backends.llvm.planning.lowering import Lowering
from gradtape.backends.llvm.planning.values import Array, Layout, Lowered, MemorySlot
from gradtape.backends.llvm.products import depthwise
from gradtape.backends.llvm.products.contractions import Axis, tidy
from gradtape.backends.llvm.products.product_code import Matrix, Operand, operand, product
from gradtape.backends.llvm.runtime.notes import Note
from gradtape.backends.llvm.writing.element_types import MEMORY, bytes_of, is_float, name_of
from gradtape.backends.llvm.writing.ir_text import Index
from gradtape.core.opdef import Op
from gradtape.ir.graph import Operation, Value
from gradtape.ops.conv import CONV, CONV_FILTER, CONV_INPUT

Ints = Sequence[int]
PHASES = 16  # of the strides, each of which has code of its own, at most


def supported(operation: Operation) -> bool:
    """Whether sizes of space and filter are known and all dtypes are one."""
    kinds = {name_of(v.type.dtype) for v in (*operation.operands, operation.result)}
    sizes = [n for v in (*operation.operands, operation.result) for n in tuple(v.type.shape)[1:]]
    return len(kinds) == 1 and is_float(operation.result.type.dtype) and all(isinstance(n, int) for n in sizes)


class Padded:
    """An operand with zeros around its space, each group of its channels by itself: as it lies, or copied.

    `steps` are those of the batch, the axes of space and the channels of a group; `group` is the step between groups.
    """

    def __init__(self, scope: Scope, value: Value, low: Ints, space: Ints, groups: int) -> None:
        self.scope = scope
        self.slot: MemorySlot | None = None
        given = operand(scope, value)
        shape = tuple(value.type.shape)
        own = shape[-1] // groups
        group: Any = 0
        # no border, no groups: windows are read from the array as it lies
        if not any(low) and tuple(shape[1:-1]) == tuple(space) and groups == 1:
            self.operand, self.steps, self.group = given, tuple(given.layout.steps), group
            return
        wide = (groups, shape[0], *space, own)
        steps = dense(wide)
        self.group, self.steps = steps[0], tuple(steps[1:])
        w, kind = scope.writer, MEMORY[name_of(value.type.dtype)]
        count = w.multiply(w.product(scope.program.dims(wide)), bytes_of(value.type.dtype))
        self.slot = scope.take(count)
        address = self.slot.address
        # elements that no window meets are left out
        sizes = [min(n, m - a) for n, m, a in zip(shape[1:-1], space, low, strict=True)]
        self._borders(address, value, (groups, shape[0]), space, low, sizes)
        index = scope.program.index
        *outer, channel = given.layout.steps
        with Access(scope) as access:

            def body(place: Sequence[Index]) -> None:
                *spots, group, last, c = place
                source = w.multiply(w.add(w.multiply(group, own), c), index(channel))
                target = w.add(w.multiply(group, index(self.group)), c)
                for k, i in enumerate((*spots, last)):
                    source = w.add(source, w.multiply(i, index(outer[k])))
                    target = w.add(target, w.multiply(w.add(i, low[k - 1]) if k else i, index(self.steps[k])))
                read = w.load(kind, w.at(kind, given.matrix.address, source), access.reading)
                w.store(kind, read, w.at(kind, address, target), access.writing)

            # rows of all groups one after the other: what is read stays in the cache, what is written lies together
            loops(scope, [index(shape[0]), *sizes[:-1], groups, sizes[-1], own], body, access)
        self.operand = Operand(Layout(value, 0, self.steps), Matrix(address, value.type.dtype))

    def _borders(self, address: str, value: Value, outer: Sequence[Any], space: Ints, low: Ints, sizes: Ints) -> None:
        """Zeros where no elements will be: before and behind them along each axis."""
        scope, w = self.scope, self.scope.writer
        kind, index = MEMORY[name_of(value.type.dtype)], scope.program.index
        steps = [index(step) for step in (self.group, *self.steps)]

        def axis(k: int, place: list[Index]) -> None:
            start: Index = 0
            for i, step in zip(place, steps, strict=False):
                start = w.add(start, w.multiply(i, step))
            for first, count in ((0, low[k]), (low[k] + sizes[k], space[k] - low[k] - sizes[k])):
                if count:
                    to = w.at(kind, address, w.add(start, w.multiply(first, steps[k + 2])))
                    w.clear(to, w.multiply(w.multiply(count, steps[k + 2]), bytes_of(value.type.dtype)))
            # along an axis without borders behind it there is nothing left to clear
            if any(space[j] != sizes[j] for j in range(k + 1, len(space))):
                with w.loop(sizes[k], extra=rolled(scope, sizes[k], "")) as i:
                    axis(k + 1, [*place, w.add(i, low[k])])

        with w.loop(index(outer[0]), extra=rolled(scope, "", "")) as group, w.loop(index(outer[1])) as n:
            axis(0, [group, n])


def _moved(scope: Scope, given: Operand, offset: Any) -> Operand:
    """The operand from another element on."""
    w, matrix = scope.writer, given.matrix
    return Operand(given.layout, Matrix(w.at(matrix.kind, matrix.address, scope.program.index(offset)), matrix.dtype))


def _conv(scope: Scope, operation: Operation) -> list[Lowered]:
    if _by_channels(operation):
        return _depthwise(scope, operation)
    return _product_of_windows(scope, operation, operation.result, operation.operands[1])


def _conv_filter(scope: Scope, operation: Operation) -> list[Lowered]:
    if _by_channels(operation):
        return _depthwise_filter(scope, operation)
    return _product_of_windows(scope, operation, operation.operands[1], operation.result)


def _product_of_windows(scope: Scope, operation: Operation, positions: Value, taps: Value) -> list[Lowered]:
    """y[o] = Σ_t x[o, t] w[t], or w[t] = Σ_o x[o, t] y[o], for positions o of windows and their taps t, whichever is asked.

    Both are one product with the same axes; only which of them are summed over differs."""
    if not supported(operation):
        return write_callback(scope, operation)
    x, other = operation.operands
    attrs, result = operation.attrs, operation.result
    strides, dilations, groups = attrs["strides"], attrs["dilations"], attrs["groups"]
    home = scope.room(result)
    padded = [n + low + high for n, (low, high) in zip(tuple(x.type.shape)[1:-1], attrs["padding"], strict=True)]
    source = Padded(scope, x, [low for low, _ in attrs["padding"]], padded, groups)
    factor = operand(scope, other)
    # A window is steps along the padded array: stride from position to position, dilation from tap to tap. So no window is ever
    # copied out.
    a, b, c = source.steps, factor.layout.steps, dense(result.type.shape)
    p, t = (c, b) if positions is result else (b, c)  # the steps of positions and of taps

    def axis(size: Any, along: Any, position: Any, tap: Any) -> Axis:
        return Axis(size, along, *((tap, position) if positions is result else (position, tap)))

    space, kernel = tuple(positions.type.shape)[1:-1], tuple(taps.type.shape)[:-2]
    own, many = taps.type.shape[-2], taps.type.shape[-1] // groups  # channels of x and of y in a group
    axes = [axis(positions.type.shape[0], a[0], p[0], None)]
    axes += [axis(n, a[k + 1] * s, p[k + 1], None) for k, (n, s) in enumerate(zip(space, strides, strict=True))]
    axes += [axis(n, a[k + 1] * d, None, t[k]) for k, (n, d) in enumerate(zip(kernel, dilations, strict=True))]
    axes += [axis(groups, source.group, p[-1] * many, t[-1] * many), axis(own, a[-1], None, t[-2])]
    axes += [axis(many, None, p[-1], t[-1])]
    product(scope, operation, tidy(axes), source.operand, factor, home)
    scope.give(source.slot)
    return [home]


class StridePhase(NamedTuple):
    """Positions of one axis of an input that are a stride apart: the same taps of the filter meet them all."""

    start: int  # the first position
    size: int
    taps: tuple[int, ...]
    place: int  # of the cotangent that the last tap meets at the first position: the smallest


def _phases(size: int, out_stride: int, kernel: int, dilation: int, low: int) -> list[StridePhase]:
    """The phases of one axis, as many as its stride, or its size."""
    phases = []
    # With a stride of s, only every s-th tap meets a given position: each phase is a dense convolution with those, where
    # inserting zeros would multiply mostly zeros.
    for start in range(min(out_stride, size)):
        taps = tuple(t for t in range(kernel) if (start + low - t * dilation) % out_stride == 0)
        place = (start + low - taps[-1] * dilation) // out_stride if taps else 0
        phases.append(StridePhase(start, -(-(size - start) // out_stride), taps, place))
    return phases


def _conv_input(scope: Scope, operation: Operation) -> list[Lowered]:
    """Positions of the input that are a stride apart are a convolution of the cotangents, with some taps of the filter."""
    if _by_channels(operation):
        return _depthwise_input(scope, operation)
    if not supported(operation) or math.prod(operation.attrs["strides"]) > PHASES:
        return write_callback(scope, operation)
    y, w = operation.operands
    attrs, result = operation.attrs, operation.result
    strides, dilations, groups, space = attrs["strides"], attrs["dilations"], attrs["groups"], attrs["space"]
    kernel, out = tuple(w.type.shape)[:-2], tuple(y.type.shape)[1:-1]
    home = scope.room(result)
    lows = [low for low, _ in attrs["padding"]]
    phases = [_phases(*each) for each in zip(space, strides, kernel, dilations, lows, strict=True)]
    steps = [d // math.gcd(d, s) for d, s in zip(dilations, strides, strict=True)]  # between places that taps meet
    spots = [[(p.place, p.place + p.size + (len(p.taps) - 1) * step) for p in along if p.taps]
             for along, step in zip(phases, steps, strict=True)]  # fmt: skip
    # windows of the cotangent reach beyond it where those of the input began inside the padding
    before = [max([0, *(-first for first, _ in along)]) for along in spots]
    after = [max([0, *(end - n for _, end in along)]) for along, n in zip(spots, out, strict=True)]
    cts = Padded(scope, y, before, [b + n + a for b, n, a in zip(before, out, after, strict=True)], groups)
    own, many = w.type.shape[-2], w.type.shape[-1] // groups
    # the taps in the order in which positions meet them, channels of the result innermost: so that the product reads rows
    slot, filters = _backwards(scope, w, kernel, groups)
    a, b, c = cts.steps, dense((groups, *kernel, many, own)), dense(result.type.shape)
    # positions between windows (stride above the filter's size) get nothing
    if any(not p.taps for along in phases for p in along):
        scope.clear(home)
    for chosen in itertools.product(*phases):
        if not all(p.taps for p in chosen):
            continue  # no window meets these
        axes = [Axis(result.type.shape[0], a[0], None, c[0])]
        axes += [Axis(p.size, a[k + 1], None, c[k + 1] * strides[k]) for k, p in enumerate(chosen)]
        for k, p in enumerate(chosen):
            apart = strides[k] // math.gcd(dilations[k], strides[k])  # in the filter, which lies backwards
            axes.append(Axis(len(p.taps), a[k + 1] * steps[k], b[k + 1] * apart, None))
        axes += [Axis(groups, cts.group, b[0], own), Axis(many, a[-1], b[-2], None), Axis(own, None, 1, 1)]
        start = sum((p.place + before[k]) * a[k + 1] for k, p in enumerate(chosen))
        first = sum((kernel[k] - 1 - p.taps[-1]) * b[k + 1] for k, p in enumerate(chosen))
        to = sum(p.start * c[k + 1] for k, p in enumerate(chosen))
        part = Array(scope.writer.at(MEMORY[name_of(home.dtype)], home.address, scope.program.index(to)), home.dims, home.dtype)
        product(scope, operation, tidy(axes), _moved(scope, cts.operand, start), _moved(scope, filters, first), part)
    scope.give(cts.slot)
    scope.give(slot)
    return [home]


def _backwards(scope: Scope, value: Value, kernel: Ints, groups: int) -> tuple[MemorySlot, Operand]:
    """A filter [*kernel, in, groups·out] as [groups, *kernel backwards, out, in]."""
    w, dtype = scope.writer, value.type.dtype
    own, many = value.type.shape[-2], value.type.shape[-1] // groups
    shape = (groups, *kernel, many, own)
    slot = scope.take(bytes_of(dtype) * math.prod(shape))
    given, kind = operand(scope, value), MEMORY[name_of(dtype)]
    steps, index = given.layout.steps, scope.program.index
    with Access(scope) as access:

        def body(place: Sequence[Index]) -> None:
            group, *taps, m, c = place
            at = w.add(w.multiply(c, index(steps[-2])), w.multiply(w.add(w.multiply(group, many), m), index(steps[-1])))
            for k, tap in enumerate(taps):
                at = w.add(at, w.multiply(w.subtract(kernel[k] - 1, tap), index(steps[k])))
            target = scope.offset(shape, place)
            read = w.load(kind, w.at(kind, given.matrix.address, at), access.reading)
            w.store(kind, read, w.at(kind, slot.address, target), access.writing)

        loops(scope, shape, body, access)
    return slot, Operand(Layout(value, 0, dense(shape)), Matrix(slot.address, dtype))


# -- one input channel in each group: no products of matrices, but sums over taps (`depthwise.py`)


def _by_channels(operation: Operation) -> bool:
    """Whether each input channel has filters of its own, and all dtypes are one."""
    kinds = {name_of(v.type.dtype) for v in (*operation.operands, operation.result)}
    filters = operation.result if operation.op is CONV_FILTER else operation.operands[1]
    shape = tuple(filters.type.shape)
    if len(kinds) != 1 or not kinds <= {"float32", "float64"} or operation.attrs["groups"] == 1 or shape[-2] != 1:
        return False
    known = all(isinstance(n, int) and n > 0 for n in (*shape, *operation.attrs["strides"], *operation.attrs["dilations"]))
    return known and len(shape) - 2 <= depthwise.AXES and math.prod(shape[:-2]) <= depthwise.MOST_TAPS


def _task(
    scope: Scope, operation: Operation, source: str, filters: str, result: str, parts: str, of: Value, to: Value, back: bool
) -> str:
    """The words that the routines read, for the result `to` (or its cotangent) from the source `of`; their address."""
    w, index, attrs = scope.writer, scope.program.index, operation.attrs
    weights = operation.result if operation.op is CONV_FILTER else operation.operands[1]
    kernel = tuple(weights.type.shape)[:-2]
    words: list[Index] = [index(of.type.shape[0]), index(weights.type.shape[-1])]
    # missing axes are in front, of one element each: the last axis is the one that runs are made along
    words += [1, 1, 1, 1, 1, 0, 1] * (depthwise.AXES - len(kernel))
    for k, taps in enumerate(kernel):
        stride, dilation, low = attrs["strides"][k], attrs["dilations"][k], index(attrs["padding"][k][0])
        words += [taps, index(to.type.shape[k + 1]), index(of.type.shape[k + 1])]
        words += [1, -dilation, low, stride] if back else [stride, dilation, w.subtract(0, low), 1]
    cell = w.cell("i64", depthwise.GEOMETRY + 1)
    for k, address in enumerate((source, filters, result, parts)):
        w.store("ptr", address, w.at("i64", cell, k))
    for k, word in enumerate(words):
        w.store("i64", word, w.at("i64", cell, k + 4))
    return cell


def _run(scope: Scope, operation: Operation, name: str, cell: str) -> None:
    kind = MEMORY[name_of(operation.result.type.dtype)]
    scope.program.notes.append(Note("product", (operation.op.name,), operation.loc, "by channels"))
    scope.writer.do(depthwise.library(kind).part.call(scope.writer.module, f"{name}_{kind}", cell))


def _depthwise(scope: Scope, operation: Operation) -> list[Lowered]:
    x, filters = operation.operands
    home = scope.room(operation.result)
    slot, source = _repeated(scope, x, operation.result.type.shape[-1])
    weights = scope.memory(filters).address
    cell = _task(scope, operation, source, weights, home.address, "null", x, operation.result, back=False)
    _run(scope, operation, "gt_depthwise", cell)
    scope.give(slot)
    return [home]


def _depthwise_filter(scope: Scope, operation: Operation) -> list[Lowered]:
    x, y = operation.operands
    home = scope.room(operation.result)
    slot, source = _repeated(scope, x, operation.result.type.shape[-1])
    cts = scope.memory(y).address
    # threads sum into parts of their own, which are added at the end
    parts = scope.take(depthwise.PARTS * math.prod(operation.result.type.shape) * bytes_of(operation.result.type.dtype))
    cell = _task(scope, operation, source, home.address, cts, parts.address, x, y, back=False)
    _run(scope, operation, "gt_depthwise_filter", cell)
    scope.give(parts)
    scope.give(slot)
    return [home]


def _depthwise_input(scope: Scope, operation: Operation) -> list[Lowered]:
    y, filters = operation.operands
    result = operation.result
    home = scope.room(result)
    shape = (*tuple(result.type.shape)[:-1], y.type.shape[-1])
    many = y.type.shape[-1] // operation.attrs["groups"]
    w, kind = scope.writer, MEMORY[name_of(result.type.dtype)]
    slot = None
    # several filters per channel: their shares are computed side by side, then added
    if many > 1:
        slot = scope.take(w.multiply(w.product(scope.program.dims(shape)), bytes_of(result.type.dtype)))
    out = home.address if slot is None else slot.address
    weights = scope.memory(filters).address
    cell = _task(scope, operation, scope.memory(y).address, weights, out, "null", y, result, back=True)
    _run(scope, operation, "gt_depthwise", cell)
    if slot is not None:  # a channel of the input has what all of its filters send back
        with Access(scope) as access:

            def body(place: Sequence[Index]) -> None:
                first = w.multiply(place[0], many)
                total = w.load(kind, w.at(kind, out, first), access.reading)
                for k in range(1, many):
                    part = w.load(kind, w.at(kind, out, w.add(first, k)), access.reading)
                    total = w.let(f"fadd {kind} {total}, {part}")
                w.store(kind, total, w.at(kind, home.address, place[0]), access.writing)

            loops(scope, [w.product(home.dims)], body, access)
        scope.give(slot)
    return [home]


def _repeated(scope: Scope, value: Value, channels: int) -> tuple[MemorySlot | None, str]:
    """A value with each of its channels as often as it has filters; and the memory for that, if it is not once."""
    array = scope.memory(value)
    many = channels // value.type.shape[-1]
    if many == 1:
        return None, array.address
    w, kind = scope.writer, MEMORY[name_of(value.type.dtype)]
    count = w.product(array.dims)
    slot = scope.take(w.multiply(count, many * bytes_of(value.type.dtype)))
    with Access(scope) as access:

        def body(place: Sequence[Index]) -> None:
            number = w.load(kind, w.at(kind, array.address, place[0]), access.reading)
            w.store(kind, number, w.at(kind, slot.address, w.add(w.multiply(place[0], many), place[1])), access.writing)

        loops(scope, [count, many], body, access)
    return slot, slot.address


LOWERINGS: dict[Op, Lowering] = {
    CONV: Lowering(memory=_conv),
    CONV_FILTER: Lowering(memory=_conv_filter),
    CONV_INPUT: Lowering(memory=_conv_input),
}
