"""Operations that are made of simpler ones here, so that the planner can fuse them with what stands around them.

A softmax is a maximum, an exponential, a sum and a quotient over rows; as phases of one kernel these run row by row
(`grouping.py`), with whatever makes the logits and whatever uses the result in the same loops. What two of them have in
common (the softmax and the cross entropy of the same logits) is computed once. Values are those of the ops' `impl`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape.backends.llvm import joining, products
from gradtape.backends.llvm.scope import Note, Scope
from gradtape.backends.llvm.types import MEMORY, REGISTER, is_float, is_native, is_signed, name_of
from gradtape.backends.llvm.values import Array, Flat, Lowered, Place, Scalar, UnsupportedError
from gradtape.dtypes import as_dtype
from gradtape.ir.dims import infer_by_probing, symbols_in
from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.types import TensorSpec
from gradtape.ir.verify import fits
from gradtape.ir.walk import Rebuild, rebuild
from gradtape.ops.compare import EQUAL
from gradtape.ops.elementwise import ADD, CAST, DIVIDE, EXP, LOG, MULTIPLY, SQRT, SUBTRACT
from gradtape.ops.opdef import Op
from gradtape.ops.reduce import REDUCE_ALL, REDUCE_ANY, REDUCE_MAX, REDUCE_MEAN, REDUCE_SUM
from gradtape.ops.select import FLOORDIV, WHERE
from gradtape.ops.shape import RESHAPE
from gradtape.ops.staged import CONSTANT


def expanded(block: Block) -> Block:
    """The program with composites written out."""

    def visit(scope: Rebuild, operation: Operation) -> None:
        make, made = EXPANSIONS.get(operation.op.name), None
        if make is not None and _is_native(operation) and _has_known_sizes(operation):
            made = make(Maker(scope), *scope.operands(operation), **operation.attrs)
        if made is None:
            scope.copy(operation)
        elif not fits(made.type, operation.result.type):  # what reads it counts on the type of the program
            raise UnsupportedError(f"{operation.op.name} written out is {made.type}, not {operation.result.type}", operation)
        else:
            scope.replace(operation, [made])

    return rebuild(rebuild(block, visit), _without_left_overs())


def _is_native(operation: Operation) -> bool:
    return all(is_native(value.type.dtype) for value in (*operation.operands, *operation.results))


def _has_known_sizes(operation: Operation) -> bool:
    """Whether no size of the result is a new symbol, which others know it by."""
    return symbols_in([v.type for v in operation.results]) <= symbols_in([v.type for v in operation.operands])


def _without_left_overs() -> Callable[[Rebuild, Operation], None]:
    """A pass that drops what expansions have left without use."""
    used: dict[Block, set[Value]] = {}

    def visit(scope: Rebuild, operation: Operation) -> None:
        if scope.old not in used:
            needed = used[scope.old] = set(scope.old.results)
            for o in reversed(scope.old.operations):
                if o.op.name not in joining.LEFT_OVER or not needed.isdisjoint(o.results):
                    needed.update(o.operands)
        if operation.op.name not in joining.LEFT_OVER or not used[scope.old].isdisjoint(operation.results):
            scope.copy(operation)

    return visit


class Maker:
    """Emits operations into a block, each form of one only once."""

    def __init__(self, scope: Rebuild) -> None:
        self.scope = scope

    def __call__(self, op: Op, *operands: Value, **attrs: Any) -> Value:
        """The result of an operation, of the type that the op's own rule gives: nobody tells it another one."""
        key = (op, *operands, *sorted(attrs.items()))
        known = self.scope.memory.get(key)
        if known is None:
            type, _ = infer_by_probing(op, [value.type for value in operands], attrs)
            known = self.scope.memory[key] = self.scope.emit(op, operands, [type], attrs).result
        found: Value = known
        return found

    def fold(self, op: Op, x: Value, axis: tuple[int, ...], keepdims: bool = True) -> Value:
        return self(op, x, axis=axis, keepdims=keepdims)

    def number(self, value: float, like: Value) -> Value:
        dtype = like.type.dtype
        key = ("number", dtype, repr(value))  # 0.0 is not -0.0
        if key not in self.scope.memory:
            number = dtype.dtype.type(value)
            self.scope.memory[key] = self.scope.emit(CONSTANT, [], [TensorSpec((), dtype)], {"value": number}).result
        found: Value = self.scope.memory[key]
        return found


def _shifted(make: Maker, x: Value, axis: int) -> tuple[Value, Value]:
    """x minus its maximum, and the sum of its exponentials."""
    shifted = make(SUBTRACT, x, make.fold(REDUCE_MAX, x, (axis,)))
    return shifted, make.fold(REDUCE_SUM, make(EXP, shifted), (axis,))


def _softmax(make: Maker, x: Value, *, axis: int) -> Value:
    shifted, total = _shifted(make, x, axis)
    return make(DIVIDE, make(EXP, shifted), total)


def _log_softmax(make: Maker, x: Value, *, axis: int) -> Value:
    shifted, total = _shifted(make, x, axis)
    return make(SUBTRACT, shifted, make(LOG, total))


def _cross_entropy(make: Maker, labels: Value, logits: Value) -> Value:
    last = len(logits.type.shape) - 1
    shifted, total = _shifted(make, logits, last)
    # log softmax = log(total) - shifted; a label of 0 cancels a logit of -inf
    terms = make(MULTIPLY, make(SUBTRACT, make(LOG, total), shifted), labels)
    zero = make.number(0.0, logits)
    masked = make(WHERE, make(EQUAL, labels, zero), zero, terms)
    return make.fold(REDUCE_SUM, masked, (last,), keepdims=False)


def _sparse_cross_entropy(make: Maker, labels: Value, logits: Value) -> Value:
    last, lead = len(logits.type.shape) - 1, tuple(logits.type.shape)[:-1]
    shifted, total = _shifted(make, logits, last)
    classes = make(IN_RANGE, labels, size=logits.type.shape[-1])
    picked = make(ROW_PICK, shifted, classes)
    # log softmax = log(total) - shifted
    return make(SUBTRACT, make(RESHAPE, make(LOG, total), shape=lead), picked)


def _normalize(make: Maker, x: Value, *, axis: tuple[int, ...], epsilon: float) -> Value:
    centred = make(SUBTRACT, x, make.fold(REDUCE_MEAN, x, axis))
    variance = make.fold(REDUCE_MEAN, make(MULTIPLY, centred, centred), axis)
    return make(DIVIDE, centred, make(SQRT, make(ADD, variance, make.number(epsilon, x))))


def _sum_of_flags(make: Maker, x: Value, *, axis: tuple[int, ...], keepdims: bool) -> Value | None:
    if name_of(x.type.dtype) != "bool":
        return None
    return make.fold(REDUCE_SUM, make(CAST, x, dtype=as_dtype("int32")), axis, keepdims)


def _mean_of_integers(make: Maker, x: Value, *, axis: tuple[int, ...], keepdims: bool) -> Value | None:
    dtype = x.type.dtype
    if name_of(dtype) == "bool":
        return make.fold(REDUCE_MEAN, make(CAST, x, dtype=as_dtype("float32")), axis, keepdims)
    sizes = [x.type.shape[k] for k in axis]
    count = math.prod(sizes) if all(isinstance(n, int) for n in sizes) else 0
    if is_float(dtype) or not 0 < count <= np.iinfo(dtype.dtype).max:
        return None
    return make(FLOORDIV, make.fold(REDUCE_SUM, x, axis, keepdims), make.number(count, x))


def _of_flags(op: Op) -> Callable[..., Value | None]:
    def make_fold(make: Maker, x: Value, *, axis: tuple[int, ...], keepdims: bool) -> Value | None:
        if name_of(x.type.dtype) == "bool":
            return None
        return make.fold(op, make(CAST, x, dtype=as_dtype("bool")), axis, keepdims)

    return make_fold


def _collapsed(make: Maker, x: Value, size: Any, axis: int) -> Value | None:
    return make.fold(REDUCE_SUM, x, (axis,), keepdims=False) if isinstance(x.type, TensorSpec) else None


EXPANSIONS: dict[str, Callable[..., Value | None]] = {
    **joining.EXPANSIONS,
    **products.EXPANSIONS,
    "reduce_sum": _sum_of_flags,
    "reduce_mean": _mean_of_integers,
    "reduce_all": _of_flags(REDUCE_ALL),
    "reduce_any": _of_flags(REDUCE_ANY),
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "softmax_cross_entropy": _cross_entropy,
    "sparse_softmax_cross_entropy": _sparse_cross_entropy,
    "normalize": _normalize,
    "list_collapse": _collapsed,
}


# -- ops that only stand in expanded programs


def _in_range_impl(x: Any, *, size: int) -> Any:
    return np.arange(size)[x].astype(x.dtype)


def _row_pick_impl(x: Any, index: Any) -> Any:
    return np.take_along_axis(x, np.asarray(index)[..., None], -1)[..., 0]


def _internal(name: str, args: str, impl: Any, infer: Any) -> Op:
    return Op(name, "nondiff", tuple(args.split()), impl, infer, reason="made by the native backend")


# indices as numbers from 0 on; an index out of range ends the program
IN_RANGE = _internal("in_range", "x", _in_range_impl, lambda x, *, size: x)
# one element of each row
ROW_PICK = _internal("row_pick", "x index", _row_pick_impl, lambda x, index: TensorSpec(x.shape[:-1], x.dtype))


def _in_range(scope: Scope, operation: Operation) -> list[Lowered]:
    w, program = scope.writer, scope.program
    (x,) = operation.operands
    dtype, size = x.type.dtype, program.index(operation.attrs["size"])
    kind = REGISTER[name_of(dtype)]
    bad = w.cell("i1")
    w.store("i1", "false", bad)

    def checked(place: Place) -> str:
        register = scope.element(x, place)
        wide = register if kind == "i64" else w.let(f"{'sext' if is_signed(dtype) else 'zext'} {kind} {register} to i64")
        below = w.let(f"icmp slt i64 {wide}, 0")
        moved = w.let(f"select i1 {below}, i64 {w.let(f'add i64 {wide}, {size}')}, i64 {wide}")
        outside = w.let(f"icmp uge i64 {moved}, {size}")
        w.store("i1", w.let(f"or i1 {w.load('i1', bad)}, {outside}"), bad)
        found = w.let(f"select i1 {outside}, i64 0, i64 {moved}")
        return found if kind == "i64" else w.let(f"trunc i64 {found} to {kind}")

    program.notes.append(Note("kernel", ("in_range",), operation.loc))
    made: Lowered
    if not len(x.type.shape):
        made = Scalar(checked(()), dtype)
    else:
        source, home = scope.memory(x), scope.room(operation.result)
        with w.loop(w.product(home.dims)) as i:
            scope.enter()
            w.store(MEMORY[name_of(dtype)], checked(Flat(i)), w.at(MEMORY[name_of(dtype)], home.address, i))
            scope.leave()
        made = Array(home.address, source.dims, dtype)
    scope.fail_if(w.load("i1", bad), operation)
    return [made]


def _row_pick(scope: Scope, operation: Operation, place: Place) -> str:
    x, index = operation.operands
    register = scope.element(index, place)
    kind = name_of(index.type.dtype)
    if kind not in ("int64", "uint64"):
        how = "sext" if kind.startswith("int") else "zext"
        register = scope.writer.let(f"{how} {REGISTER[kind]} {register} to i64")
    return scope.element(x, (*place, register))


def accepts(operation: Operation) -> bool:
    return is_float(operation.result.type.dtype)


ELEMENT: dict[str, Any] = {"row_pick": _row_pick}
MEMORY_OPS: dict[str, Any] = {"in_range": _in_range}
