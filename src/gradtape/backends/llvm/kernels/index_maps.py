"""Shape operations as index maps: which element of the operand an element of the result is. Nothing is copied."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradtape.backends.llvm.kernels import list_ops
from gradtape.backends.llvm.kernels.code import converted
from gradtape.backends.llvm.kernels.element_code import operand_place
from gradtape.backends.llvm.kernels.scope import Scope
from gradtape.backends.llvm.planning import layouts
from gradtape.backends.llvm.planning.lowering import Lowering, always, common
from gradtape.backends.llvm.planning.static_arrays import constant_array, is_splat
from gradtape.backends.llvm.planning.values import Flat, Lowered, Place, Scalar, Size
from gradtape.backends.llvm.writing.element_types import REGISTER, bytes_of, is_integer, literal, name_of
from gradtape.backends.llvm.writing.ir_text import Index
from gradtape.core.opdef import Op
from gradtape.dtypes import int64
from gradtape.ir.dims import Dim
from gradtape.ir.graph import Operation
from gradtape.ir.polynomial import Opaque
from gradtape.ops.create import ONE_HOT, ONES_LIKE, ZEROS_LIKE
from gradtape.ops.lists import LIST_SPREAD, LIST_ZEROS_LIKE
from gradtape.ops.shape import BROADCAST_TO, RESHAPE, REVERSE, ROLL, SLICE_AXIS, TRANSPOSE
from gradtape.ops.staged import CONSTANT, COPY, DIM, FILLED
from gradtape.ops.stop import ASSIGN, IDENTITY, STOP_GRADIENT

Shape = tuple[Any, ...]


def _identity(scope: Scope, operation: Operation, place: Place) -> str:
    return scope.element(operation.operands[0], place)


def _broadcast(scope: Scope, operation: Operation, place: Place) -> str:
    (x,) = operation.operands
    return scope.element(x, operand_place(place, tuple(x.type.shape), tuple(operation.result.type.shape)))


def _reshape(scope: Scope, operation: Operation, place: Place) -> str:
    (x,) = operation.operands
    # the number of the element in memory, which a reshape does not change
    if isinstance(place, Flat):
        return scope.element(x, place)
    source, target = scope.dims(x), scope.dims(operation.result)
    return scope.element(x, _unravelled(scope, source, target, place) if source != target else place)


def _unravelled(scope: Scope, source: Sequence[Index], target: Sequence[Index], place: Place) -> tuple[Index, ...]:
    """The index into `source` of the element at `place` in an array of dims `target`: axes of size 1 come and go for free."""
    w = scope.writer
    big = [(size, index) for size, index in zip(target, place, strict=True) if size != 1]
    # only axes of one element come or go: no division, which is slow and keeps loops from being vectorised
    if [size for size in source if size != 1] == [size for size, _ in big]:
        rest = iter(big)
        return tuple([0 if size == 1 else next(rest)[1] for size in source])
    offset = scope.offset(target, place)
    indices: list[Index] = []
    for k in range(len(source) - 1, -1, -1):
        indices.append(w.remainder(offset, source[k]) if k else offset)
        offset = w.quotient(offset, source[k]) if k else offset
    return tuple(indices[::-1])


def _transpose(scope: Scope, operation: Operation, place: Place) -> str:
    (x,) = operation.operands
    perm = operation.attrs["perm"]
    if not perm:
        return scope.element(x, place)
    turned: list[Index] = [0] * len(perm)
    for k, axis in enumerate(perm):
        turned[axis] = place[k]
    return scope.element(x, tuple(turned))


def _reverse(scope: Scope, operation: Operation, place: Place) -> str:
    (x,) = operation.operands
    axes = operation.attrs["axis"]
    axes = (axes,) if isinstance(axes, int) else tuple(axes)
    dims, w = scope.dims(x), scope.writer
    rank = len(dims)
    flipped = {a % rank for a in axes} if rank else set()
    return scope.element(x, tuple([w.subtract(w.subtract(dims[k], 1), i) if k in flipped else i for k, i in enumerate(place)]))


def _constant(scope: Scope, operation: Operation, place: Place) -> str:
    value = np.asarray(operation.attrs["value"])
    dtype = operation.result.type.dtype
    # one number all over: no memory is read
    if is_splat(value):
        return literal(value.reshape(-1)[0], dtype)
    return scope.load(constant_array(scope.program.module, value, dtype), place)


def _filled(scope: Scope, operation: Operation, place: Place) -> str:
    return literal(operation.attrs["value"], operation.result.type.dtype)


def _spread(scope: Scope, operation: Operation, place: Place) -> str:
    axis = operation.attrs["axis"]
    return scope.element(operation.operands[0], (*place[:axis], *place[axis + 1 :]))


def _like(number: int) -> Callable[[Scope, Operation, Place], str]:
    return lambda scope, operation, place: literal(number, operation.result.type.dtype)


def _dim(scope: Scope, operation: Operation, place: Place) -> str:
    size = scope.program.index(operation.attrs["dim"])
    if isinstance(size, int):
        return str(size)
    register = scope.writer.let(f"trunc i64 {size} to i32")
    # places are computed with 64 bits: whoever uses the size for one finds it unshortened
    scope.program.wide[register] = size
    return register


def _roll(scope: Scope, operation: Operation, place: Place) -> str:
    """Element i is element i − shift, around the end."""
    w, (x,) = scope.writer, operation.operands
    dims, moved = scope.dims(x), list(place)
    for shift, axis in zip(operation.attrs["shift"], operation.attrs["axis"], strict=True):
        size = dims[axis]
        steps = scope.program.index(shift)
        if isinstance(size, int) and isinstance(steps, int):
            back: Index = steps % size if size else 0
        else:  # an axis without elements has no index either
            # a division by 0 would end the process
            rest = w.let(f"srem i64 {steps}, {w.larger(size, 1)}")
            back = w.from_end(rest, size)
        if back == 0:
            continue
        # one comparison in place of a remainder: both numbers are below the size
        moved[axis] = w.from_end(w.subtract(moved[axis], back), size)
    return scope.element(x, tuple(moved))


def _one_hot(scope: Scope, operation: Operation, place: Place) -> str:
    """Whether the index along the axis is the number that the operand has."""
    w, (x,) = scope.writer, operation.operands
    axis = operation.attrs["axis"] % len(place)
    number = converted(w, scope.element(x, (*place[:axis], *place[axis + 1 :])), x.type.dtype, int64)
    return w.let(f"icmp eq i64 {number}, {place[axis]}")


def _slice_axis(scope: Scope, operation: Operation, place: Place) -> str:
    (x,) = operation.operands
    attrs = operation.attrs
    axis = attrs["axis"]
    moved = list(place)
    moved[axis] = scope.writer.add(place[axis], scope.program.index(attrs["start"]))
    return scope.element(x, tuple(moved))


def _checked_reshape(scope: Scope, operation: Operation) -> list[Lowered]:
    """A reshape to sizes that run time finds: they may not fit."""
    w = scope.writer
    (x,) = operation.operands
    for size in operation.result.type.shape:
        # x // 0 would end the process, where NumPy raises
        for divisor in _divisors(size):  # of nothing, any number of parts is the rest
            scope.fail_if(w.let(f"icmp eq i64 {scope.program.index(divisor)}, 0"), operation)
    source = scope.memory(x)
    count = w.product(scope.dims(operation.result))
    scope.fail_if(w.let(f"icmp ne i64 {w.product(source.dims)}, {count}"), operation)
    home = scope.room(operation.result)
    w.copy(home.address, source.address, w.multiply(count, bytes_of(home.dtype)))
    scalar = not home.dims and name_of(home.dtype) in REGISTER
    return [Scalar(scope.load(home, ()), home.dtype) if scalar else home]


def _divisors(size: Size) -> Iterator[Size]:
    """The sizes by which another one is divided to find this one."""
    for monomial, _ in size._terms if isinstance(size, Dim) else ():
        for atom in monomial:
            if isinstance(atom, Opaque):
                yield from (*_divisors(atom.left), *_divisors(atom.right))
                if atom.kind in ("//", "%") and isinstance(atom.right, Dim):
                    yield atom.right


# -- which of them can be written, and what is known about them


def _same_shape(operation: Operation) -> bool:
    shape = tuple(operation.result.type.shape)
    return all(tuple(v.type.shape) == shape for v in operation.operands)


def _same_count(operation: Operation) -> bool:
    """Else it is `_checked_reshape`."""
    return bool(math.prod(operation.operands[0].type.shape) == math.prod(operation.result.type.shape))


def _broadcastable(operation: Operation) -> bool:
    """What does not fit NumPy refuses."""
    source, target = tuple(operation.operands[0].type.shape), tuple(operation.result.type.shape)
    pairs = zip(source[::-1], target[::-1], strict=False)
    return len(source) <= len(target) and all((a.__class__ is int and a == 1) or a == b for a, b in pairs)


def _of_one_number(operation: Operation) -> bool:
    return all(n.__class__ is int and n == 1 for n in operation.operands[0].type.shape)


def _takes_classes(operation: Operation) -> bool:
    dtype = operation.operands[0].type.dtype
    # (numbers above 2⁶³ would be negative here)
    return is_integer(dtype) and name_of(dtype) != "uint64"


def _reshape_aligned(operation: Operation, shape: Shape, result: Shape) -> int:
    return common(shape, result)


def _broadcast_aligned(operation: Operation, shape: Shape, result: Shape) -> int:
    return common(shape, result) if len(shape) == len(result) else 0


def _transpose_aligned(operation: Operation, shape: Shape, result: Shape) -> int:
    perm = operation.attrs["perm"]
    return common(tuple(perm), tuple(range(len(perm)))) if perm else len(result)


def _axes_before(operation: Operation, shape: Shape, result: Shape) -> int:
    """Axes before the first one that the operation works on."""
    axis = operation.attrs["axis"]
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    # up to there the loops of operand and result are the same ones
    return min((a % len(result) for a in axes), default=len(result))


_SAME = Lowering(
    element=_identity, memory=list_ops.same, cost=0, pointwise=always, alias=True, strided=always, layout=layouts.same
)
_ZEROS, _ONES = (Lowering(element=_like(n), cost=0, pointwise=always, shape_only=True) for n in (0, 1))

LOWERINGS: dict[Op, Lowering] = {
    STOP_GRADIENT: _SAME,
    ASSIGN: _SAME,
    IDENTITY: replace(_SAME, accepts=_same_shape),
    COPY: replace(_SAME, memory=list_ops.copied, alias=False),
    BROADCAST_TO: Lowering(
        element=_broadcast, accepts=_broadcastable, cost=0, pointwise=_of_one_number, aligned=_broadcast_aligned,
        strided=always, layout=layouts.broadcast,
    ),
    RESHAPE: Lowering(
        element=_reshape, memory=_checked_reshape, accepts=_same_count, cost=0, aligned=_reshape_aligned, alias=True,
        strided=always, layout=layouts.reshaped,
    ),
    TRANSPOSE: Lowering(
        element=_transpose, cost=0, aligned=_transpose_aligned, strided=always, layout=layouts.transposed
    ),
    SLICE_AXIS: Lowering(element=_slice_axis, cost=0, aligned=_axes_before, strided=always, layout=layouts.sliced),
    REVERSE: Lowering(element=_reverse, cost=0, aligned=_axes_before),
    ROLL: Lowering(element=_roll, cost=0),
    ONE_HOT: Lowering(element=_one_hot, accepts=_takes_classes, cost=0),
    CONSTANT: Lowering(
        element=_constant, accepts=lambda operation: not isinstance(operation.attrs["value"], list), cost=0,
        pointwise=lambda operation: is_splat(operation.attrs["value"]), free=True,
    ),
    FILLED: Lowering(
        element=_filled, accepts=lambda operation: np.ndim(operation.attrs["value"]) == 0, cost=0, pointwise=always, free=True
    ),
    DIM: Lowering(element=_dim, cost=0),
    ZEROS_LIKE: _ZEROS,
    ONES_LIKE: _ONES,
    LIST_ZEROS_LIKE: replace(_ZEROS, memory=list_ops.zeros_like, finds_sizes=True),
    LIST_SPREAD: Lowering(element=_spread, memory=list_ops.spread, cost=0, finds_sizes=True),
}  # fmt: skip
