"""Operations along one axis that go step by step: running sums, products and log-sum-exps, recurrences, places of extremes.

An array is seen as [outer, steps, inner]. If there are inner elements, the innermost loop is over them and uses vectors; else
the running value is in a register. Steps are taken in NumPy's order, so that running sums are NumPy's to the last digit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape.backends.llvm.kernels import math_calls as functions
from gradtape.backends.llvm.kernels.callback_code import write_callback
from gradtape.backends.llvm.kernels.code import Code, converted, kind_of
from gradtape.backends.llvm.kernels.fold_table import extreme
from gradtape.backends.llvm.kernels.kernel_code import Access
from gradtape.backends.llvm.kernels.scope import Scope
from gradtape.backends.llvm.planning.lowering import Lowering, computable
from gradtape.backends.llvm.planning.values import Array, Flat, Lowered, Scalar
from gradtape.backends.llvm.runtime.notes import Note
from gradtape.backends.llvm.writing.element_types import MEMORY, bytes_of, literal, name_of
from gradtape.backends.llvm.writing.ir_text import Index
from gradtape.core.opdef import Op
from gradtape.ir.graph import Operation
from gradtape.ops.cumulative import CUMPROD, CUMSUM, CUMULATIVE_LOGSUMEXP, RECURRENCE
from gradtape.ops.sorting import ARG_EXTREME

Step = Callable[[Code, str, Index], str]  # (code, the value before, the place in memory) → the value after


class Lines:
    """The loops over an array as [outer, steps, inner]."""

    def __init__(self, scope: Scope, operation: Operation, axis: int) -> None:
        self.scope = scope
        self.operation = operation
        w = scope.writer
        dims = scope.dims(operation.operands[-1])
        self.outer, self.steps, self.inner = w.product(dims[:axis]), dims[axis], w.product(dims[axis + 1 :])
        self.reverse = bool(operation.attrs.get("reverse", False))
        scope.program.notes.append(Note("kernel", (operation.op.name,), operation.loc, "step by step"))

    def place(self, o: Index, step: Index, j: Index) -> Index:
        """Where an element is; step 0 is the first in the direction of the operation."""
        w = self.scope.writer
        k = w.subtract(w.subtract(self.steps, 1), step) if self.reverse else step
        return w.add(w.multiply(w.add(w.multiply(o, self.steps), k), self.inner), j)


def _cumulative(scope: Scope, operation: Operation, step: Step, first: Any) -> list[Lowered]:
    """home[0] = first element, home[k] = step(home[k - 1], k); exclusive: home[0] = first, then all one step later."""
    w = scope.writer
    home, exclusive = scope.room(operation.result), bool(operation.attrs.get("exclusive", False))
    lines = Lines(scope, operation, operation.attrs["axis"])
    dtype = operation.result.type.dtype
    code = Code(w, dtype, operation.attrs, scope, operation)
    source = scope.memory(operation.operands[-1])
    start = literal(first, dtype)

    def row(o: Index, k: Index, value: Callable[[Index, Index], str]) -> None:
        """One step for all inner elements."""
        with Access(scope) as access, w.loop(lines.inner, extra=access.loop(lines.inner)) as j:
            at = lines.place(o, k, j)
            scope.store(value(at, j), home, Flat(at), access.writing)

    def before(o: Index, k: Index, j: Index) -> str:
        return scope.load(home, Flat(lines.place(o, w.subtract(k, 1), j)))

    with w.loop(lines.outer) as o:
        if lines.inner == 1:
            cell = w.cell(code.type)
            with w.loop(w.smaller(lines.steps, 1)):
                at = lines.place(o, 0, 0)
                w.store(code.type, scope.load(source, Flat(at)), cell)
                scope.store(start if exclusive else w.load(code.type, cell), home, Flat(at))
            with w.loop(lines.steps, start=1) as k:
                at = lines.place(o, k, 0)
                have = w.load(code.type, cell)
                after = step(code, have, at)
                w.store(code.type, after, cell)
                scope.store(have if exclusive else after, home, Flat(at))
        else:
            with w.loop(w.smaller(lines.steps, 1)):
                # whole rows at once: neighbours do not wait for each other, so vectors do them
                row(o, 0, lambda at, j: start if exclusive else scope.load(source, Flat(at)))
            if exclusive:  # home[1] = x[0], home[k] = step(home[k - 1], x[k - 1])
                with w.loop(w.smaller(lines.steps, 2), start=1):
                    row(o, 1, lambda at, j: scope.load(source, Flat(lines.place(o, 0, j))))
            with w.loop(lines.steps, start=1 + exclusive) as k:
                row(o, k, lambda at, j: step(code, before(o, k, j), lines.place(o, w.subtract(k, int(exclusive)), j)))
    return [home]


def _native(operation: Operation, kinds: str) -> bool:
    types = [v.type for v in (*operation.operands, *operation.results)]
    return all(computable(t) for t in types) and kind_of(operation.operands[-1].type.dtype) in kinds


def _folded(words: dict[str, str], first: int) -> Callable[[Scope, Operation], list[Lowered]]:
    """Sums and products: the instruction for each kind of dtype, and what an empty one is."""

    def write(scope: Scope, operation: Operation) -> list[Lowered]:
        # (complex numbers, strings: NumPy's)
        if not _native(operation, "fiub"):
            return write_callback(scope, operation)
        source = scope.memory(operation.operands[0])
        word = words[kind_of(source.dtype)]
        step: Step = lambda c, have, at: c.let(f"{word} {c.type} {have}, {scope.load(source, Flat(at))}")  # noqa: E731
        return _cumulative(scope, operation, step, first)

    return write


def _recurrence(scope: Scope, operation: Operation) -> list[Lowered]:
    decay, x = operation.operands
    if not _native(operation, "fiu") or decay.type != x.type:
        return write_callback(scope, operation)
    factors, source = scope.memory(decay), scope.memory(x)

    def step(c: Code, have: str, at: Index) -> str:
        return c.add(scope.load(source, Flat(at)), c.multiply(scope.load(factors, Flat(at)), have))

    return _cumulative(scope, operation, step, 0)


def _logsumexp(scope: Scope, operation: Operation) -> list[Lowered]:
    if not _native(operation, "f"):
        return write_callback(scope, operation)
    source = scope.memory(operation.operands[0])

    def step(c: Code, a: str, at: Index) -> str:
        # log(eᵃ + eᵇ) = max + log(1 + e^-|a - b|); equal ones (infinities too) are shifted by log 2
        b = scope.load(source, Flat(at))
        gap = c.let(f"fsub {c.type} {a}, {b}")
        top = c.select(c.compare("gt", gap, c.number(0)), a, b)
        more = c.math(functions.LOG1P, c.math(functions.EXP, c.negative(c.call("fabs", gap))))
        total = c.let(f"fadd {c.type} {c.select(c.is_nan(gap), gap, top)}, {more}")
        equal = c.let(f"fadd {c.type} {a}, {c.number(np.log(2.0))}")
        return c.select(c.compare("eq", a, b), equal, total)

    return _cumulative(scope, operation, step, 0)


# -- the place of an extreme -------------------------------------------------------------------------------------------


def _arg_extreme(scope: Scope, operation: Operation) -> list[Lowered]:
    """The first place of the largest (least) element; of the first NaN, if there is one."""
    (x,) = operation.operands
    size = x.type.shape[operation.attrs["axis"]]
    if not _native(operation, "fiub") or (isinstance(size, int) and size == 0):
        return write_callback(scope, operation)
    w = scope.writer
    lines = Lines(scope, operation, operation.attrs["axis"])
    if not isinstance(lines.steps, int):
        # NumPy raises for the largest of nothing
        scope.fail_if(w.let(f"icmp eq i64 {lines.steps}, 0"), operation)
    dtype, rank = operation.result.type.dtype, len(operation.result.type.shape)
    home = scope.room(operation.result) if rank else Array(w.cell(MEMORY[name_of(dtype)]), (), dtype)
    code = Code(w, x.type.dtype, operation.attrs, scope, operation)

    def put(position: str, place: Index) -> None:
        scope.store(converted(w, position, np.dtype("int64"), dtype), home, Flat(place) if rank else ())

    if lines.inner == 1:
        _in_lines(scope, lines, code, scope.memory(x), put)
    else:
        _in_columns(scope, lines, code, scope.memory(x), put)
    return [home if rank else Scalar(scope.load(home, ()), dtype)]


def _in_lines(scope: Scope, lines: Lines, c: Code, source: Array, put: Callable[[str, Index], None]) -> None:
    """The extreme first, which vectors do well, then where it is."""
    w = scope.writer
    top, count = w.cell(c.type), w.cell("i64")
    with w.loop(lines.outer) as o:
        w.store(c.type, scope.load(source, Flat(lines.place(o, 0, 0))), top)
        with w.loop(lines.steps, start=1) as k:
            better = extreme(c, c.attrs["largest"], w.load(c.type, top), scope.load(source, Flat(lines.place(o, k, 0))))
            w.store(c.type, better, top)
        best = w.load(c.type, top)
        # it is there: the search needs no end, and stops at the first
        w.store("i64", -1, count)
        look, here = w.label("look"), w.label("here")
        w.go(look)
        w.start(look)
        place = w.let(f"add i64 {w.load('i64', count)}, 1")
        w.store("i64", place, count)
        value = scope.load(source, Flat(lines.place(o, place, 0)))
        same = c.compare("eq", value, best)
        if c.floating:
            same = c.either(same, c.is_nan(value))
        w.branch(same, here, look)
        w.start(here)
        put(w.load("i64", count), o)


def _in_columns(scope: Scope, lines: Lines, c: Code, source: Array, put: Callable[[str, Index], None]) -> None:
    """Row by row, with the best of each column so far and its place in memory."""
    w = scope.writer
    kind = MEMORY[name_of(c.dtype)]
    slots = scope.take(w.multiply(lines.inner, bytes_of(c.dtype))), scope.take(w.multiply(lines.inner, 8))
    with w.loop(lines.outer) as o:
        with Access(scope) as access, w.loop(lines.inner, extra=access.loop(lines.inner)) as j:
            value = scope.to_memory(scope.load(source, Flat(lines.place(o, 0, j))), c.dtype)
            w.store(kind, value, w.at(kind, slots[0].address, j), access.writing)
            w.store("i64", 0, w.at("i64", slots[1].address, j), access.writing)
        with (
            w.loop(lines.steps, start=1) as k,
            Access(scope) as access,
            w.loop(lines.inner, extra=access.loop(lines.inner)) as j,
        ):
            best, where = w.at(kind, slots[0].address, j), w.at("i64", slots[1].address, j)
            have = scope.from_memory(w.load(kind, best, access.writing), c.dtype)
            value = scope.load(source, Flat(lines.place(o, k, j)))
            beyond = c.compare("gt" if c.attrs["largest"] else "lt", value, have)
            if c.floating:  # a NaN beats every number, and nothing beats it
                beyond = c.both(c.either(beyond, c.is_nan(value)), c.opposite(c.is_nan(have)))
            w.store(kind, scope.to_memory(c.select(beyond, value, have), c.dtype), best, access.writing)
            place = w.let(f"select i1 {beyond}, i64 {k}, i64 {w.load('i64', where, access.writing)}")
            w.store("i64", place, where, access.writing)
        with w.loop(lines.inner) as j:
            put(w.load("i64", w.at("i64", slots[1].address, j)), w.add(w.multiply(o, lines.inner), j))
    for slot in slots:
        scope.give(slot)


LOWERINGS: dict[Op, Lowering] = {
    CUMSUM: Lowering(memory=_folded({"f": "fadd", "i": "add", "u": "add", "b": "or"}, 0)),
    CUMPROD: Lowering(memory=_folded({"f": "fmul", "i": "mul", "u": "mul", "b": "and"}, 1)),
    RECURRENCE: Lowering(memory=_recurrence),
    CUMULATIVE_LOGSUMEXP: Lowering(memory=_logsumexp),
    ARG_EXTREME: Lowering(memory=_arg_extreme),
}
