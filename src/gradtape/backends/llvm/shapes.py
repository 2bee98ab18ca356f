"""Shape operations as index maps: which element of the operand an element of the result is. Nothing is copied."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gradtape.backends.llvm.code import converted
from gradtape.backends.llvm.elementwise import operand_place
from gradtape.backends.llvm.scope import Scope, copy
from gradtape.backends.llvm.text import Index
from gradtape.backends.llvm.types import REGISTER, bytes_of, is_integer, literal, name_of
from gradtape.backends.llvm.values import Array, Flat, Lowered, Place, Scalar
from gradtape.dtypes import int64
from gradtape.ir.dims import Dim
from gradtape.ir.graph import Operation
from gradtape.ir.polynomial import Opaque

SMALL = 1024  # bytes up to which a constant of one number is written out


def _identity(scope: Scope, operation: Operation, place: Place) -> str:
    return scope.element(operation.operands[0], place)


def _broadcast(scope: Scope, operation: Operation, place: Place) -> str:
    (x,) = operation.operands
    return scope.element(x, operand_place(place, tuple(x.type.shape), tuple(operation.result.type.shape)))


def _reshape(scope: Scope, operation: Operation, place: Place) -> str:
    (x,) = operation.operands
    if isinstance(place, Flat):
        return scope.element(x, place)
    source, target = scope.dims(x), scope.dims(operation.result)
    return scope.element(x, _unravelled(scope, source, target, place) if source != target else place)


def _unravelled(scope: Scope, source: Sequence[Index], target: Sequence[Index], place: Place) -> tuple[Index, ...]:
    """The index into `source` of the element at `place` in an array of dims `target`: axes of size 1 come and go for free."""
    w = scope.writer
    big = [(size, index) for size, index in zip(target, place, strict=True) if size != 1]
    if [size for size in source if size != 1] == [size for size, _ in big]:
        rest = iter(big)
        return tuple([0 if size == 1 else next(rest)[1] for size in source])
    offset = scope.offset(target, place)
    found: list[Index] = []
    for k in range(len(source) - 1, -1, -1):
        found.append(w.remainder(offset, source[k]) if k else offset)
        offset = w.quotient(offset, source[k]) if k else offset
    return tuple(found[::-1])


def _transpose(scope: Scope, operation: Operation, place: Place) -> str:
    (x,) = operation.operands
    perm = operation.attrs["perm"]
    if not perm:
        return scope.element(x, place)
    found: list[Index] = [0] * len(perm)
    for k, axis in enumerate(perm):
        found[axis] = place[k]
    return scope.element(x, tuple(found))


def _reverse(scope: Scope, operation: Operation, place: Place) -> str:
    (x,) = operation.operands
    axes = operation.attrs["axis"]
    axes = (axes,) if isinstance(axes, int) else tuple(axes)
    dims, w = scope.dims(x), scope.writer
    rank = len(dims)
    flipped = {a % rank for a in axes} if rank else set()
    return scope.element(x, tuple([w.subtract(w.subtract(dims[k], 1), i) if k in flipped else i for k, i in enumerate(place)]))


def constant_array(scope: Scope, value: np.ndarray[Any, Any], dtype: Any) -> Array:
    """A constant as memory of the module."""
    data = np.ascontiguousarray(value)
    raw = data.tobytes()
    text = 'c"' + "".join(f"\\{byte:02X}" for byte in raw) + '"' if raw else "zeroinitializer"
    address = scope.program.module.constant((raw, data.dtype.str), f"[{len(raw)} x i8]", text)
    return Array(address, tuple(int(n) for n in data.shape), dtype)


def _constant(scope: Scope, operation: Operation, place: Place) -> str:
    value = np.asarray(operation.attrs["value"])
    dtype = operation.result.type.dtype
    if is_splat(value):
        return literal(value.reshape(-1)[0], dtype)
    return scope.load(constant_array(scope, value, dtype), place)


def is_splat(value: Any) -> bool:
    """Whether an array is one number, many times."""
    return bool(value.size) and (value.ndim == 0 or (value.reshape(-1)[:1].tobytes() * value.size) == value.tobytes())


def is_static(operation: Operation) -> bool:
    """Whether a constant is in memory before the program runs: one that is not worth filling in."""
    if operation.op.name != "constant":
        return False
    value = np.asarray(operation.attrs["value"])
    return value.ndim > 0 and (value.nbytes <= SMALL or not is_splat(value))


def constant_of(scope: Scope, operation: Operation) -> Array | None:
    """The memory of a constant that has some."""
    if not is_static(operation):
        return None
    return constant_array(scope, np.asarray(operation.attrs["value"]), operation.result.type.dtype)


def _filled(scope: Scope, operation: Operation, place: Place) -> str:
    return literal(operation.attrs["value"], operation.result.type.dtype)


def _spread(scope: Scope, operation: Operation, place: Place) -> str:
    axis = operation.attrs["axis"]
    return scope.element(operation.operands[0], (*place[:axis], *place[axis + 1 :]))


def _like(number: int) -> Any:
    return lambda scope, operation, place: literal(number, operation.result.type.dtype)


def _dim(scope: Scope, operation: Operation, place: Place) -> str:
    size = scope.program.index(operation.attrs["dim"])
    if isinstance(size, int):
        return str(size)
    register = scope.writer.let(f"trunc i64 {size} to i32")
    scope.program.wide[register] = size
    return register


def plain_key(key: Any, shape: Sequence[Any]) -> bool:
    """Whether a key is of ints and slices whose starts are known."""
    parts = list(key) if isinstance(key, tuple) else [key]
    static = all(isinstance(size, int) for size in shape)
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
            rest = w.let(f"srem i64 {steps}, {w.larger(size, 1)}")
            back = w.let(f"select i1 {w.let(f'icmp slt i64 {rest}, 0')}, i64 {w.add(rest, size)}, i64 {rest}")
        if back == 0:
            continue
        index = w.subtract(moved[axis], back)
        if isinstance(index, int):
            moved[axis] = index % size
        else:
            moved[axis] = w.let(f"select i1 {w.let(f'icmp slt i64 {index}, 0')}, i64 {w.add(index, size)}, i64 {index}")
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


def checked_reshape(scope: Scope, operation: Operation) -> list[Lowered]:
    """A reshape to sizes that run time finds: they may not fit."""
    w = scope.writer
    (x,) = operation.operands
    for size in operation.result.type.shape:
        for divisor in _divisors(size):  # of nothing, any number of parts is the rest
            scope.fail_if(w.let(f"icmp eq i64 {scope.program.index(divisor)}, 0"), operation)
    source = scope.memory(x)
    count = w.product(scope.dims(operation.result))
    scope.fail_if(w.let(f"icmp ne i64 {w.product(source.dims)}, {count}"), operation)
    home = scope.room(operation.result)
    copy(w, home.address, source.address, w.multiply(count, bytes_of(home.dtype)))
    scalar = not home.dims and name_of(home.dtype) in REGISTER
    return [Scalar(scope.load(home, ()), home.dtype) if scalar else home]


def _divisors(size: Any) -> Iterator[Any]:
    """The sizes by which another one is divided to find this one."""
    for monomial, _ in size._terms if isinstance(size, Dim) else ():
        for atom in monomial:
            if isinstance(atom, Opaque):
                yield from (*_divisors(atom.left), *_divisors(atom.right))
                if atom.kind in ("//", "%") and isinstance(atom.right, Dim):
                    yield atom.right


WHEN_UNSURE: dict[str, Any] = {"reshape": checked_reshape}  # how operations are written that `accepts` refuses
ELEMENT: dict[str, Any] = {
    "identity": _identity,
    "stop_gradient": _identity,
    "assign": _identity,
    "gradient": _identity,
    "copy": _identity,
    "broadcast_to": _broadcast,
    "reshape": _reshape,
    "transpose": _transpose,
    "reverse": _reverse,
    "constant": _constant,
    "filled": _filled,
    "zeros_like": _like(0),
    "ones_like": _like(1),
    "dim": _dim,
    "slice_axis": _slice_axis,
    "roll": _roll,
    "one_hot": _one_hot,
    "list_zeros_like": _like(0),
    "list_ones_like": _like(1),
    "list_spread": _spread,
}
POINTWISE = frozenset({"identity", "stop_gradient", "assign", "gradient", "copy", "filled", "zeros_like", "ones_like",
                       "list_zeros_like", "list_ones_like"})  # fmt: skip
FREE = frozenset({"constant", "filled"})
ALIAS = frozenset({"reshape", "identity", "stop_gradient", "assign", "gradient"})


def accepts(operation: Operation) -> bool:
    """Whether the index map can be written for these attributes."""
    name, attrs = operation.op.name, operation.attrs
    if name == "one_hot":
        return is_integer(operation.operands[0].type.dtype) and name_of(operation.operands[0].type.dtype) != "uint64"
    if name == "filled":
        return isinstance(attrs["value"], (int, float, bool, np.generic)) or np.ndim(attrs["value"]) == 0
    if name == "constant":
        return not isinstance(attrs["value"], list)
    if name == "broadcast_to":  # what does not fit NumPy refuses
        source, target = tuple(operation.operands[0].type.shape), tuple(operation.result.type.shape)
        pairs = zip(source[::-1], target[::-1], strict=False)
        return len(source) <= len(target) and all((a.__class__ is int and a == 1) or a == b for a, b in pairs)
    shape = tuple(operation.result.type.shape)
    if name == "reshape":  # else it is `checked_reshape`
        return bool(math.prod(operation.operands[0].type.shape) == math.prod(shape))
    return name != "identity" or all(tuple(v.type.shape) == shape for v in operation.operands)
