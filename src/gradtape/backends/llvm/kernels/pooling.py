"""Pooling as element operations: the elements of a window, one after the other, without branches.

An index outside the array (padding) reads the nearest element instead, and what it gives is left out. Which windows meet an
element is arithmetic on its index, done outside the loop over channels.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from math import prod
from typing import Any

import numpy as np

from gradtape.backends.llvm.kernels.code import Code
from gradtape.backends.llvm.kernels.fold_table import extreme
from gradtape.backends.llvm.kernels.scope import Scope
from gradtape.backends.llvm.planning.lowering import Lowering
from gradtape.backends.llvm.planning.values import Place
from gradtape.backends.llvm.writing.element_types import REGISTER, is_float, is_integer, literal, name_of
from gradtape.backends.llvm.writing.ir_text import Index, Writer
from gradtape.core.opdef import Op
from gradtape.dtypes import DType
from gradtape.ir.graph import Operation, Value
from gradtape.ops.pool import MAX_POOL, POOL_PUT, POOL_SPREAD, POOL_SUM, POOL_TAKE, POOL_WINNER

TAPS = 64  # of a window that is written out


def _inside(w: Writer, index: Index, size: int) -> tuple[Index, str | None]:
    """An index moved into the array, and whether it was there (None: surely)."""
    if isinstance(index, int):
        return min(max(index, 0), size - 1), None if 0 <= index < size else "false"
    # Moved inside, then masked: an element is read in any case, as vectors cannot branch. The one test is unsigned, so that
    # negative places are too large.
    return w.larger(w.smaller(index, size - 1), 0), w.let(f"icmp ult i64 {index}, {size}")


def _both(w: Writer, a: str | None, b: str | None) -> str | None:
    return b if a is None else a if b is None else w.let(f"and i1 {a}, {b}")


def _window(scope: Scope, x: Value, attrs: dict[str, Any], place: Place) -> Iterator[tuple[str, str | None]]:
    """The elements of the window at an index of the result, in order, and whether each is there."""
    w = scope.writer
    space = tuple(x.type.shape)[1:-1]
    for tap in itertools.product(*map(range, attrs["ksize"])):
        at: list[Index] = [place[0]]
        good: str | None = None
        for k, (t, size) in enumerate(zip(tap, space, strict=True)):
            low, high = attrs["padding"][k]
            index = w.add(w.multiply(place[k + 1], attrs["strides"][k]), t - low)
            if low or high:
                index, there = _inside(w, index, size)
                good = _both(w, good, there)
            at.append(index)
        yield scope.element(x, (*at, place[-1])), good


def _windows(
    scope: Scope, y: Value, attrs: dict[str, Any], place: Place
) -> Iterator[tuple[tuple[Index, ...], str, list[Index]]]:
    """The windows that meet an element of the input: their place, whether there is one, and the tap of each axis."""
    w = scope.writer
    out = tuple(y.type.shape)[1:-1]
    spots: list[list[tuple[Index, str, Index]]] = []
    for k, (size, stride, reach) in enumerate(zip(out, attrs["strides"], attrs["ksize"], strict=True)):
        index = w.add(place[k + 1], attrs["padding"][k][0])
        # the last window that begins at or before the element; those before it reach it as long as their taps do
        last = w.quotient(index, stride)
        along: list[tuple[Index, str, Index]] = []
        for back in range(-(-reach // stride)):
            o = w.subtract(last, back)
            tap = w.subtract(index, w.multiply(o, stride))
            moved, there = _inside(w, o, size)
            # (a tap is never negative: the window begins at or before the element)
            good = _both(w, there, w.let(f"icmp slt i64 {tap}, {reach}"))
            along.append((moved, good or "true", tap))
        spots.append(along)
    for chosen in itertools.product(*spots):
        flag: str | None = None
        for _, good, _ in chosen:
            flag = _both(w, flag, good)
        yield (place[0], *[o for o, _, _ in chosen], place[-1]), flag or "true", [tap for _, _, tap in chosen]


def _lowest(dtype: DType) -> str:
    return literal(-np.inf if is_float(dtype) else np.iinfo(dtype.dtype).min, dtype)


def _max_pool(scope: Scope, operation: Operation, place: Place) -> str:
    dtype = operation.result.type.dtype
    code = Code(scope.writer, dtype, {})
    window = _window(scope, operation.operands[0], operation.attrs, place)
    numbers = (register if good is None else code.select(good, register, _lowest(dtype)) for register, good in window)
    return reduce(partial(extreme, code, True), numbers)


def _winner(scope: Scope, operation: Operation, place: Place) -> str:
    x, out = operation.operands
    w = scope.writer
    kind = REGISTER[name_of(operation.result.type.dtype)]
    code = Code(w, x.type.dtype, {})
    best = scope.element(out, place)
    before, tap = "true", "0"
    lowest = _lowest(x.type.dtype)
    taps = list(_window(scope, x, operation.attrs, place))
    # The first tap that equals the largest wins, as in NumPy's argmax: so many come before it. If none of the others does it is
    # the last, which need not be compared.
    for register, good in taps[:-1]:
        if good is not None:
            register = code.select(good, register, lowest)
        before = w.let(f"and i1 {before}, {code.compare('ne', register, best)}")
        tap = w.let(f"add {kind} {tap}, {w.let(f'zext i1 {before} to {kind}')}")
    return tap


def _take(scope: Scope, operation: Operation, place: Place) -> str:
    x, tap = operation.operands
    w, dtype = scope.writer, operation.result.type.dtype
    code = Code(w, dtype, {})
    chosen, kind = scope.element(tap, place), REGISTER[name_of(tap.type.dtype)]
    taken = literal(0, dtype)
    for k, (register, good) in enumerate(_window(scope, x, operation.attrs, place)):
        flag = _both(w, w.let(f"icmp eq {kind} {chosen}, {k}"), good)
        assert flag is not None
        taken = code.select(flag, register, taken)
    return taken


def _put(scope: Scope, operation: Operation, place: Place) -> str:
    y, tap = operation.operands
    w, dtype = scope.writer, operation.result.type.dtype
    code, kind = Code(w, dtype, {}), REGISTER[name_of(tap.type.dtype)]
    parts = []
    for at, good, taps in _windows(scope, y, operation.attrs, place):
        number: Index = 0
        for size, t in zip(operation.attrs["ksize"], taps, strict=True):
            number = w.add(w.multiply(number, size), t)
        mine = number if isinstance(number, int) or kind == "i64" else w.let(f"trunc i64 {number} to {kind}")
        flag = w.let(f"and i1 {good}, {w.let(f'icmp eq {kind} {scope.element(tap, at)}, {mine}')}")
        # selected, not multiplied by the flag: an infinite cotangent of another window must not become NaN here
        parts.append(code.select(flag, scope.element(y, at), code.number(0)))
    return reduce(code.add, parts)


def _sum(scope: Scope, operation: Operation, place: Place) -> str:
    code = Code(scope.writer, operation.result.type.dtype, {})
    window = _window(scope, operation.operands[0], operation.attrs, place)
    parts = (register if good is None else code.select(good, register, code.number(0)) for register, good in window)
    return reduce(code.add, parts)


def _spread(scope: Scope, operation: Operation, place: Place) -> str:
    (y,) = operation.operands
    code = Code(scope.writer, operation.result.type.dtype, {})
    windows = _windows(scope, y, operation.attrs, place)
    return reduce(code.add, (code.select(good, scope.element(y, at), code.number(0)) for at, good, _ in windows))


def _accepts(operation: Operation) -> bool:
    """Whether sizes are known and the window is small enough to be written out."""
    shapes = [tuple(v.type.shape)[1:-1] for v in (*operation.operands, operation.result)]
    # clamping a place into an axis of no elements would read outside of it
    known = all(isinstance(n, int) and n > 0 for shape in shapes for n in shape)
    number = operation.operands[0].type.dtype
    return known and _taps(operation) <= TAPS and (is_float(number) or is_integer(number))


def _taps(operation: Operation) -> int:
    """The elements of a window."""
    return prod(operation.attrs["ksize"])


def _cost(operation: Operation) -> int:
    """What an element costs."""
    return 2 * _taps(operation)


def _overlaps(operation: Operation) -> bool:
    """Whether an element is in several windows: computing it again for each has its price."""
    sizes: Sequence[int] = operation.attrs["ksize"]
    return any(size > stride for size, stride in zip(sizes, operation.attrs["strides"], strict=True))


def _pooled(element: Callable[[Scope, Operation, Place], str]) -> Lowering:
    # the batch is the one axis that no window goes along
    return Lowering(
        element=element, accepts=_accepts, cost=_cost, repeats=_overlaps, aligned=lambda operation, shape, result: 1
    )


LOWERINGS: dict[Op, Lowering] = {
    MAX_POOL: _pooled(_max_pool),
    POOL_WINNER: _pooled(_winner),
    POOL_TAKE: _pooled(_take),
    POOL_PUT: _pooled(_put),
    POOL_SUM: _pooled(_sum),
    POOL_SPREAD: _pooled(_spread),
}
