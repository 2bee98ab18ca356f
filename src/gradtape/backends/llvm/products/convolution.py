"""Convolutions in native code: sums of products over windows, as axes (`contractions.py`), without copies of windows.

Steps may overlap, so a window is just more axes to sum over: out[n, o, c'] = Σ x[n, o·stride + t·dilation, c] w[t, c, c'].
Only padding is copied. The derivative with respect to the input is such a sum too: over the cotangents, spread by the strides
and padded, with the filter backwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradtape.backends.llvm.kernels.kernel_code import Access, loops
from gradtape.backends.llvm.kernels.scope import Scope
from gradtape.backends.llvm.planning.layouts import dense
from gradtape.backends.llvm.planning.lowering import Lowering
from gradtape.backends.llvm.planning.values import Layout, Lowered, MemorySlot
from gradtape.backends.llvm.products.contractions import Axis, tidy
from gradtape.backends.llvm.products.product_code import Matrix, Operand, operand, product
from gradtape.backends.llvm.runtime.callbacks import write_callback
from gradtape.backends.llvm.writing.element_types import MEMORY, bytes_of, is_float, name_of
from gradtape.backends.llvm.writing.ir_text import Index
from gradtape.core.opdef import Op
from gradtape.ir.graph import Operation, Value
from gradtape.ops.conv import CONV, CONV_FILTER, CONV_INPUT

Ints = Sequence[int]


def supported(operation: Operation) -> bool:
    """Whether sizes of space and filter are known and all dtypes are one."""
    kinds = {name_of(v.type.dtype) for v in (*operation.operands, operation.result)}
    sizes = [n for v in (*operation.operands, operation.result) for n in tuple(v.type.shape)[1:]]
    return len(kinds) == 1 and is_float(operation.result.type.dtype) and all(isinstance(n, int) for n in sizes)


class Padded:
    """An operand with zeros around its space (and between its elements): as it lies, or copied."""

    def __init__(self, scope: Scope, value: Value, low: Ints, space: Ints, spread: Ints) -> None:
        self.scope = scope
        self.slot: MemorySlot | None = None
        given = operand(scope, value)
        shape = tuple(value.type.shape)
        if not any(low) and tuple(shape[1:-1]) == tuple(space) and all(s == 1 for s in spread):
            self.operand, self.steps = given, given.layout.steps
            return
        wide = (shape[0], *space, shape[-1])
        self.steps = dense(wide)
        w, kind = scope.writer, MEMORY[name_of(value.type.dtype)]
        count = w.multiply(w.product(scope.program.dims(wide)), bytes_of(value.type.dtype))
        self.slot = scope.take(count)
        address = self.slot.address
        w.do(f"call void @llvm.memset.p0.i64(ptr {address}, i8 0, i64 {count}, i1 false)")
        # elements that no window meets are left out
        sizes = [min(n, -(-(m - a) // s)) for n, m, a, s in zip(shape[1:-1], space, low, spread, strict=True)]
        index = scope.program.index
        with Access(scope) as access:

            def body(place: Sequence[Index]) -> None:
                source: Index = 0
                target: Index = 0
                for k, i in enumerate(place):
                    source = w.add(source, w.multiply(i, index(given.layout.steps[k])))
                    inner = 0 < k < len(place) - 1
                    j = w.add(w.multiply(i, spread[k - 1]), low[k - 1]) if inner else i
                    target = w.add(target, w.multiply(j, index(self.steps[k])))
                read = w.load(kind, w.at(kind, given.matrix.address, source), access.reading)
                w.store(kind, read, w.at(kind, address, target), access.writing)

            loops(scope, [index(shape[0]), *sizes, shape[-1]], body, access)
        self.operand = Operand(Layout(value, 0, self.steps), Matrix(address, value.type.dtype))

    def close(self) -> None:
        if self.slot is not None:
            self.scope.give(self.slot)


def _moved(scope: Scope, given: Operand, offset: Any) -> Operand:
    """The operand from another element on."""
    w, matrix = scope.writer, given.matrix
    return Operand(given.layout, Matrix(w.at(matrix.kind, matrix.address, scope.program.index(offset)), matrix.dtype))


def _conv(scope: Scope, operation: Operation) -> list[Lowered]:
    if not supported(operation):
        return write_callback(scope, operation)
    x, w = operation.operands
    attrs, result = operation.attrs, operation.result
    strides, dilations, groups = attrs["strides"], attrs["dilations"], attrs["groups"]
    out, kernel = tuple(result.type.shape)[1:-1], tuple(w.type.shape)[:-2]
    home = scope.room(result)
    source = Padded(scope, x, [low for low, _ in attrs["padding"]], _padded_space(x, attrs["padding"]), (1,) * len(out))
    filters = operand(scope, w)
    a, b, c = source.steps, filters.layout.steps, dense(result.type.shape)
    own, many = w.type.shape[-2], w.type.shape[-1] // groups
    axes = [Axis(result.type.shape[0], a[0], None, c[0])]
    axes += [Axis(n, a[k + 1] * s, None, c[k + 1]) for k, (n, s) in enumerate(zip(out, strides, strict=True))]
    axes += [Axis(n, a[k + 1] * d, b[k], None) for k, (n, d) in enumerate(zip(kernel, dilations, strict=True))]
    axes += [Axis(groups, a[-1] * own, b[-1] * many, many), Axis(own, a[-1], b[-2], None), Axis(many, None, b[-1], 1)]
    product(scope, operation, tidy(axes), source.operand, filters, home)
    source.close()
    return [home]


def _padded_space(x: Value, padding: Any) -> list[int]:
    return [n + low + high for n, (low, high) in zip(tuple(x.type.shape)[1:-1], padding, strict=True)]


def _conv_filter(scope: Scope, operation: Operation) -> list[Lowered]:
    if not supported(operation):
        return write_callback(scope, operation)
    x, y = operation.operands
    attrs, result = operation.attrs, operation.result
    strides, dilations, groups = attrs["strides"], attrs["dilations"], attrs["groups"]
    out, kernel = tuple(y.type.shape)[1:-1], tuple(result.type.shape)[:-2]
    home = scope.room(result)
    source = Padded(scope, x, [low for low, _ in attrs["padding"]], _padded_space(x, attrs["padding"]), (1,) * len(out))
    cts = operand(scope, y)
    a, b, c = source.steps, cts.layout.steps, dense(result.type.shape)
    own, many = result.type.shape[-2], result.type.shape[-1] // groups
    axes = [Axis(y.type.shape[0], a[0], b[0], None)]
    axes += [Axis(n, a[k + 1] * s, b[k + 1], None) for k, (n, s) in enumerate(zip(out, strides, strict=True))]
    axes += [Axis(n, a[k + 1] * d, None, c[k]) for k, (n, d) in enumerate(zip(kernel, dilations, strict=True))]
    axes += [Axis(groups, a[-1] * own, b[-1] * many, many), Axis(own, a[-1], None, c[-2]), Axis(many, None, b[-1], 1)]
    product(scope, operation, tidy(axes), source.operand, cts, home)
    source.close()
    return [home]


def _conv_input(scope: Scope, operation: Operation) -> list[Lowered]:
    if not supported(operation):
        return write_callback(scope, operation)
    y, w = operation.operands
    attrs, result = operation.attrs, operation.result
    strides, dilations, groups, space = attrs["strides"], attrs["dilations"], attrs["groups"], attrs["space"]
    kernel = tuple(w.type.shape)[:-2]
    home = scope.room(result)
    reach = [(k - 1) * d for k, d in zip(kernel, dilations, strict=True)]
    before = [max(r - low, 0) for r, (low, _) in zip(reach, attrs["padding"], strict=True)]
    first = [max(low - r, 0) for r, (low, _) in zip(reach, attrs["padding"], strict=True)]
    wide = [n + low + b for n, (low, _), b in zip(space, attrs["padding"], before, strict=True)]
    cts = Padded(scope, y, before, wide, strides)
    own, many = w.type.shape[-2], w.type.shape[-1] // groups
    slot, filters = _backwards(scope, w, kernel, groups)
    a, c = cts.steps, dense(result.type.shape)
    b = dense((groups, *kernel, many, own))
    axes = [Axis(result.type.shape[0], a[0], None, c[0])]
    axes += [Axis(n, a[k + 1], None, c[k + 1]) for k, n in enumerate(space)]
    axes += [Axis(n, a[k + 1] * d, b[k + 1], None) for k, (n, d) in enumerate(zip(kernel, dilations, strict=True))]
    axes += [Axis(groups, a[-1] * many, b[0], own), Axis(many, a[-1], b[-2], None), Axis(own, None, 1, 1)]
    from_start = _moved(scope, cts.operand, sum(f * step for f, step in zip(first, a[1:-1], strict=True)))
    product(scope, operation, tidy(axes), from_start, filters, home)
    cts.close()
    scope.give(slot)
    return [home]


def _backwards(scope: Scope, value: Value, kernel: Ints, groups: int) -> tuple[MemorySlot, Operand]:
    """A filter [*kernel, in, groups·out] as [groups, *kernel backwards, out, in]."""
    w, dtype = scope.writer, value.type.dtype
    own, many = value.type.shape[-2], value.type.shape[-1] // groups
    shape = (groups, *kernel, many, own)
    count = bytes_of(dtype)
    for size in shape:
        count *= size
    slot = scope.take(count)
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


LOWERINGS: dict[Op, Lowering] = {
    CONV: Lowering(memory=_conv),
    CONV_FILTER: Lowering(memory=_conv_filter),
    CONV_INPUT: Lowering(memory=_conv_input),
}
