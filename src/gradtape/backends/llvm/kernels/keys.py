"""Keys: which element of x each index into x[key] is, with everything checked that run time must check.

A key has one part for every axis of x: a place (an int, a scalar of the program), a slice (bounds may be scalars of the
program, cut as in Python), or an index array; negative places count from the end. `opened` writes the code that is
the same for all elements (bounds, lengths, checks) once, where the operation stands; `Mapping.place` is the index arithmetic
for one element. Used for reading (`index.py`) and for writing (`scatter.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtape.backends.llvm.kernels.kernel_code import Access, loops
from gradtape.backends.llvm.kernels.scope import Scope
from gradtape.backends.llvm.planning import ranges
from gradtape.backends.llvm.planning.static_arrays import constant_array
from gradtape.backends.llvm.planning.values import Array
from gradtape.backends.llvm.writing.element_types import REGISTER, is_integer, name_of
from gradtape.backends.llvm.writing.ir_text import Index, Writer
from gradtape.dtypes import int64
from gradtape.ir.dims import Dim
from gradtape.ir.graph import Operation, Value
from gradtape.ir.slots import Slot
from gradtape.ops.dynamic import result_axes, whole_key

Key = tuple[Any, ...]
Reader = Callable[[Sequence[Index]], str]  # an index into x[key] → the element there


@dataclass(frozen=True, slots=True)
class At:
    """One place."""

    index: Index


@dataclass(frozen=True, slots=True)
class Span:
    """start, start + step, …, `length` of them."""

    start: Index
    step: int
    length: Index


@dataclass(frozen=True, slots=True)
class Gather:
    """The places in an array: a value of the program, or a constant."""

    value: Value | None
    array: Array | None
    shape: tuple[Any, ...]
    dims: tuple[Index, ...]
    size: Index  # of the axis
    signed: bool  # may have negative places


@dataclass(frozen=True, slots=True)
class Mapping:
    """Where the elements of x[key] are in x."""

    axes: tuple[At | Span | Gather, ...]  # of x
    sources: tuple[Any, ...]  # of the axes of x[key]: an axis of x, None for a new one, or [j] for axis j of the index arrays
    dims: tuple[Index, ...]  # of x[key]

    @property
    def repeats(self) -> bool:
        """Whether a place may come twice."""
        return any(isinstance(part, Gather) for part in self.axes)

    def place(self, scope: Scope, place: Sequence[Index]) -> tuple[Index, ...]:
        """The index into x of an element of x[key]."""
        w = scope.writer
        along: dict[int, Index] = {}
        joint: dict[int, Index] = {}
        for source, index in zip(self.sources, place, strict=True):
            if isinstance(source, list):
                joint[source[0]] = index
            elif source is not None:
                along[source] = index
        indices: list[Index] = []
        for axis, part in enumerate(self.axes):
            if isinstance(part, At):
                indices.append(part.index)
            elif isinstance(part, Span):
                indices.append(w.add(w.multiply(along[axis], part.step), part.start))
            else:
                indices.append(_gathered(scope, part, joint))
        return tuple(indices)


def _gathered(scope: Scope, part: Gather, joint: dict[int, Index]) -> Index:
    w = scope.writer
    rank = len(part.shape)
    count = len(joint)
    # index arrays are broadcast against one another, aligned at their last axes
    spot = tuple([0 if size == 1 and isinstance(size, int) else joint[count - rank + k] for k, size in enumerate(part.shape)])
    if part.value is not None:
        register = scope.element(part.value, spot)
        dtype = part.value.type.dtype
    else:
        assert part.array is not None
        register, dtype = scope.load(part.array, spot), part.array.dtype
    index = widened(w, register, dtype)
    # unsigned, or constants none of which is negative: one select less per element
    return w.from_end(index, part.size) if part.signed else index


def widened(w: Writer, register: str, dtype: Any) -> str:
    """An integer register as an i64."""
    kind = name_of(dtype)
    if REGISTER[kind] == "i64":
        return register
    return w.let(f"{'sext' if kind.startswith('int') else 'zext'} {REGISTER[kind]} {register} to i64")


def accepts(key: Any, operands: Sequence[Value]) -> bool:
    """Whether a key is made of parts that are written here."""
    if not isinstance(key, tuple):
        return False
    for part in key:
        if part is None or part is Ellipsis or (isinstance(part, Slot) and is_integer(operands[part.index].type.dtype)):
            continue
        if isinstance(part, slice):
            if not (part.step is None or (isinstance(part.step, int) and part.step != 0)):
                return False
            for bound in (part.start, part.stop):
                if not (bound is None or isinstance(bound, (int, np.integer, Dim, Slot))):
                    return False
        elif isinstance(part, np.ndarray):
            if part.dtype.kind not in "iu":
                return False
        # a bool is an int to Python, but a new axis or a mask to NumPy
        elif isinstance(part, (bool, np.bool_)) or not isinstance(part, (int, np.integer, Dim)):
            return False
    return True


def opened(scope: Scope, operation: Operation, key: Key, dims: Sequence[Index], operands: Sequence[Value]) -> Mapping:
    """The mapping of a key into an array of these dims; `operands` fill its slots. Whatever is out of range ends the call."""
    shapes = [tuple(value.type.shape) for value in operands]
    parts = [part for part in whole_key(key, len(dims)) if part is not None]
    axes: list[At | Span | Gather] = []
    for part, size in zip(parts, dims, strict=True):
        if isinstance(part, slice):
            axes.append(_span(scope, part, size, operands))
        elif isinstance(part, np.ndarray) and part.ndim:
            axes.append(_constant_gather(scope, operation, part, size))
        elif isinstance(part, Slot) and shapes[part.index]:
            axes.append(_gather(scope, operation, operands[part.index], size))
        else:
            axes.append(At(_place(scope, operation, part, size, operands)))
    arrays = [axis for axis in axes if isinstance(axis, Gather)]
    joint = _joint(scope, operation, arrays)
    # `result_axes` counts the axes of index arrays by the ranks of slots: constant arrays are given slots of their own
    slotted, ranks = _slotted(key, shapes)
    sources: list[Any] = []
    opened_dims: list[Index] = []
    for source in result_axes(slotted, len(dims), ranks):
        if source is None:
            sources.append(None)
            opened_dims.append(1)
        elif isinstance(source, int):
            sources.append([source])
            opened_dims.append(joint[source])
        else:
            span = axes[source[0]]
            assert isinstance(span, Span)
            sources.append(source[0])
            opened_dims.append(span.length)
    return Mapping(tuple(axes), tuple(sources), tuple(opened_dims))


def _slotted(key: Key, shapes: Sequence[tuple[Any, ...]]) -> tuple[Key, tuple[int, ...]]:
    ranks = [len(shape) for shape in shapes]
    parts = []
    for part in key:
        if isinstance(part, np.ndarray):
            parts.append(Slot(len(ranks)))
            ranks.append(part.ndim)
        else:
            parts.append(part)
    return tuple(parts), tuple(ranks)


def _static(scope: Scope, part: Any) -> Index:
    return scope.program.index(part) if isinstance(part, Dim) else int(part)


def _place(scope: Scope, operation: Operation, part: Any, size: Index, operands: Sequence[Value]) -> Index:
    """One place of a key, inside its axis."""
    if not isinstance(part, Slot):
        index = _static(scope, part)
        # an index that is in range by what is known of loops needs no check, which would keep the loop from being vectorised
        known = ranges.inside(scope, operation, index, size)
        return checked(scope, operation, index, size) if known is None else known
    value = operands[part.index]
    number, modular = ranges.number(scope, value)
    known = ranges.inside(scope, operation, number, size, modular)
    return checked(scope, operation, scope.integer(value) if modular else number, size) if known is None else known


def checked(scope: Scope, operation: Operation, index: Index, size: Index) -> Index:
    """A place inside an axis, negative ones counted from its end; else the call fails."""
    moved = scope.writer.from_end(index, size)
    if isinstance(moved, int) and isinstance(size, int):
        if 0 <= moved < size:
            return moved
        # not an error here: the operation may stand on a path that is never taken
        scope.fail_if("true", operation)
        return 0
    # (unsigned: what is still negative is too large)
    scope.fail_if(scope.writer.let(f"icmp uge i64 {moved}, {size}"), operation)
    return moved


def _span(scope: Scope, part: slice, size: Index, operands: Sequence[Value]) -> Span:
    """The bounds of a slice, as `slice.indices` has them."""
    w = scope.writer
    step = 1 if part.step is None else int(part.step)

    def bound(given: Any, default: Index) -> Index:
        if given is None:
            return default
        index = scope.integer(operands[given.index]) if isinstance(given, Slot) else _static(scope, given)
        # backwards, the last place before the first element is -1
        low, high = (0, size) if step > 0 else (-1, w.subtract(size, 1))
        return w.smaller(w.larger(w.from_end(index, size), low), high)

    start = bound(part.start, 0 if step > 0 else w.subtract(size, 1))
    stop = bound(part.stop, size if step > 0 else -1)
    gap = w.subtract(stop, start) if step > 0 else w.subtract(start, stop)
    # bounds that cross mean no elements; without bounds they cannot
    gap = gap if part.start is None and part.stop is None else w.larger(gap, 0)
    return Span(start, step, w.quotient(w.add(gap, abs(step) - 1), abs(step)))


def _gather(scope: Scope, operation: Operation, value: Value, size: Index) -> Gather:
    dims = scope.dims(value)
    signed = name_of(value.type.dtype).startswith("int")
    gather = Gather(value, None, tuple(value.type.shape), dims, size, signed)
    check_all(scope, operation, gather)
    return gather


def _constant_gather(scope: Scope, operation: Operation, array: Any, size: Index) -> Gather:
    data = np.minimum(array, 2**63 - 1).astype(np.int64)  # no array has so many elements
    dims = tuple(int(n) for n in data.shape)
    gather = Gather(
        None, constant_array(scope.program.module, data, int64), dims, dims, size, bool(data.size) and bool((data < 0).any())
    )
    # all of it known and in range: no check at run time
    if not isinstance(size, int) or (data.size and not -size <= data.min() <= data.max() < size):
        check_all(scope, operation, gather)
    return gather


def check_all(scope: Scope, operation: Operation, part: Gather) -> None:
    """Every place in an array is inside the axis; else the call fails."""
    w = scope.writer
    bad = w.cell("i1")
    w.store("i1", "false", bad)
    low = w.subtract(0, part.size) if part.signed else 0
    dtype = part.value.type.dtype if part.value is not None else part.array.dtype  # type: ignore[union-attr]
    with Access(scope) as access:

        def body(place: tuple[Index, ...]) -> None:
            register = scope.element(part.value, place) if part.value is not None else scope.load(part.array, place)  # type: ignore[arg-type]
            index = widened(w, register, dtype)
            # -size <= index < size as one unsigned comparison
            out = w.let(f"icmp uge i64 {w.let(f'sub i64 {index}, {low}')}, {w.subtract(part.size, low)}")
            w.store("i1", w.let(f"or i1 {w.load('i1', bad)}, {out}"), bad)

        loops(scope, list(part.dims), body, access)
    scope.fail_if(w.load("i1", bad), operation)


def _joint(scope: Scope, operation: Operation, arrays: Sequence[Gather]) -> tuple[Index, ...]:
    """The shape that index arrays have together; else the call fails."""
    w = scope.writer
    rank = max((len(part.shape) for part in arrays), default=0)
    dims: list[Index] = [1] * rank
    for part in arrays:
        for k, (size, n) in enumerate(zip(part.shape, part.dims, strict=True)):
            at = rank - len(part.shape) + k
            if size == 1 and isinstance(size, int):
                continue
            if dims[at] != 1 and dims[at] != n:
                scope.fail_if(w.let(f"icmp ne i64 {dims[at]}, {n}"), operation)
            dims[at] = n
    return tuple(dims)
