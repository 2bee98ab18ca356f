"""Complex numbers as two real ones: arithmetic on them is written in operations on their parts, which fuse like all others.

In memory a complex array is a real one with one more axis, of length 2. `PARTS` and `FROM_PARTS` are that other view of the
same memory; what has no rule here (transforms, loops, lists) has its complex arrays as before. Formulas are NumPy's, so
infinities and NaNs come out as there; last bits may differ where a product and a sum are rounded at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape.backends.llvm.planning.lowering import Lowering, Lowerings
from gradtape.backends.llvm.planning.writing_out import LEFT_OVER, Maker, has_known_sizes, native_op, without_left_overs
from gradtape.core.opdef import Op
from gradtape.dtypes import as_dtype
from gradtape.ir.dims import infer_by_probing
from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.types import TensorSpec
from gradtape.ir.walk import Rebuild, program, rebuild
from gradtape.ops.compare import (
    EQUAL,
    GREATER_EQUAL,
    IS_FINITE,
    IS_INF,
    IS_NAN,
    LOGICAL_AND,
    LOGICAL_NOT,
    LOGICAL_OR,
    NOT_EQUAL,
)
from gradtape.ops.contract import EINSUM
from gradtape.ops.create import ONES_LIKE, ZEROS_LIKE
from gradtape.ops.dynamic import ADD_AT, GETITEM_AT, PUT_AT, UPDATE_AT
from gradtape.ops.elementwise import (
    ABS,
    ADD,
    CAST,
    COMPLEX,
    CONJ,
    DIVIDE,
    IMAG,
    MULTIPLY,
    NEGATIVE,
    REAL,
    SIGN,
    SQRT,
    SQUARE,
    SUBTRACT,
)
from gradtape.ops.index import GETITEM, PUT_SLICE, UPDATE
from gradtape.ops.matmul import MATMUL
from gradtape.ops.reduce import REDUCE_MEAN, REDUCE_SUM
from gradtape.ops.select import WHERE
from gradtape.ops.shape import BROADCAST_TO, CONCAT, RESHAPE, REVERSE, ROLL, SLICE_AXIS, STACK, TRANSPOSE
from gradtape.ops.staged import CONSTANT, COPY, FILLED, MASKED_MULTIPLY
from gradtape.ops.stop import IDENTITY, STOP_GRADIENT
from gradtape.passes.inplace import TWINS, pure_op

_REAL_OF = {"complex64": as_dtype("float32"), "complex128": as_dtype("float64")}
_COMPLEX_OF = {real.name: as_dtype(name) for name, real in _REAL_OF.items()}
PARTS = native_op("parts", "x", lambda x: TensorSpec((*x.shape, 2), _REAL_OF[x.dtype.name]))
FROM_PARTS = native_op("from_parts", "x", lambda x: TensorSpec(x.shape[:-1], _COMPLEX_OF[x.dtype.name]))
LOWERINGS: dict[Op, Lowering] = {PARTS: Lowering(alias=True), FROM_PARTS: Lowering(alias=True)}

Pair = tuple[Value, Value]


def with_parts(block: Block, table: Lowerings) -> Block:
    """The program with complex arithmetic in real operations; the block itself if it has no complex numbers."""
    if not any(_is_complex(value) for operation in program(block) for value in (*operation.operands, *operation.results)):
        return block

    def visit(scope: Rebuild, operation: Operation) -> None:
        value = None
        if len(operation.results) == 1 and any(map(_is_complex, (*operation.operands, *operation.results))):
            value = _by_parts(PartsMaker(scope), operation, table)
        if value is None:
            scope.copy(operation)
        else:
            scope.replace(operation, [value])

    return rebuild(rebuild(block, visit), without_left_overs(LEFT_OVER | {PARTS, FROM_PARTS, STACK, GETITEM}))


def _by_parts(parts: PartsMaker, operation: Operation, table: Lowerings) -> Value | None:
    """The result of an operation, by operations on parts; None where there is no rule."""
    op, operands, attrs = operation.op, parts.scope.operands(operation), operation.attrs
    if not all(isinstance(value.type, TensorSpec) for value in operands) or not has_known_sizes(operation):
        return None
    if op in _IN_PLACE:
        return _changed(parts, op, operands, attrs)
    rule, lowering = RULES.get(pure_op(op)), table[op]
    if rule is not None:
        return parts.ruled(rule, operation.result.type.dtype, operands, attrs)
    return lowering.rewrite(parts, *operands, **attrs) if lowering.complex and lowering.rewrite is not None else None


class PartsMaker(Maker):
    """Emits operations, those on complex numbers by their parts, which it knows once they were asked for or made."""

    def __call__(self, op: Op, *operands: Value, **attrs: Any) -> Value:
        rule = RULES.get(op) if any(map(_is_complex, operands)) else None
        if rule is None:
            return super().__call__(op, *operands, **attrs)
        type, _ = infer_by_probing(op, [value.type for value in operands], attrs)
        value = self.ruled(rule, type.dtype, operands, attrs)
        assert value is not None
        return value

    def ruled(self, rule: Rule, result: Any, operands: Sequence[Value], attrs: dict[str, Any]) -> Value | None:
        """What a rule gives, as one value."""
        value = rule(self, result, *operands, **attrs)
        return self.joined(value) if isinstance(value, tuple) else value

    def of(self, value: Value, real: Any) -> Pair:
        """Real and imaginary part, as numbers of a real dtype."""
        if not _is_complex(value):
            re = self._as(value, real)
            return re, self(ZEROS_LIKE, re, dtype=real)
        key = ("parts", value)
        # once for each value: chains of complex arithmetic hand on their parts, and never look into the array between
        if key not in self.scope.memory:
            lanes = self(PARTS, value)
            self.scope.memory[key] = tuple(self(GETITEM, lanes, key=(Ellipsis, k)) for k in (0, 1))
        re, im = self.scope.memory[key]
        return self._as(re, real), self._as(im, real)

    def _as(self, value: Value, real: Any) -> Value:
        return value if value.type.dtype == real else self(CAST, value, dtype=real)

    def joined(self, pair: Pair) -> Value:
        """The complex value of two parts of one shape."""
        value = self(FROM_PARTS, self(STACK, *pair, axis=len(pair[0].type.shape)))
        self.scope.memory["parts", value] = pair
        return value

    def product(self, a: Pair, b: Pair, op: Op = MULTIPLY, **attrs: Any) -> Pair:
        """(a + ib)(c + id) = ac - bd + i(ad + bc)."""
        # four real products, for matrices too: the form with three loses digits where the parts cancel
        rr, ii, ri, ir = (self(op, x, y, **attrs) for x, y in ((a[0], b[0]), (a[1], b[1]), (a[0], b[1]), (a[1], b[0])))
        return self(SUBTRACT, rr, ii), self(ADD, ri, ir)

    def both(self, op: Op, test: Op, *pairs: Pair) -> Value:
        """A test of real parts and one of imaginary parts, joined by `op`."""
        return self(op, *(self(test, *lane) for lane in zip(*pairs, strict=True)))

    def chosen(self, flags: Value, a: Pair, b: Pair) -> Pair:
        """a where a flag is set, else b."""
        return self(WHERE, flags, a[0], b[0]), self(WHERE, flags, a[1], b[1])

    def is_zero(self, a: Pair) -> Value:
        zero = self.number(0.0, a[0])
        return self.both(LOGICAL_AND, EQUAL, a, (zero, zero))

    def modulus(self, a: Pair) -> Value:
        """|a|: in double precision squares of single numbers cannot overflow; of others the larger part is taken out first."""
        if a[0].type.dtype.name == "float32":
            re, im = (self(SQUARE, self(CAST, part, dtype=_REAL_OF["complex128"])) for part in a)
            size = self(CAST, self(SQRT, self(ADD, re, im)), dtype=a[0].type.dtype)
        else:
            re, im = self(ABS, a[0]), self(ABS, a[1])
            large, small = self.chosen(self(GREATER_EQUAL, re, im), (re, im), (im, re))
            one = self.number(1.0, large)
            # (0 / 0 would be NaN where |0| is 0)
            ratio = self(DIVIDE, small, self(WHERE, self.is_zero(a), one, large))
            size = self(MULTIPLY, large, self(SQRT, self(ADD, self(SQUARE, ratio), one)))
        return self(WHERE, self.both(LOGICAL_OR, IS_INF, a), self.number(np.inf, size), size)


Rule = Callable[..., "Pair | Value | None"]  # (parts, dtype of the result, *operands, **attrs)


def _is_complex(value: Value) -> bool:
    return isinstance(value.type, TensorSpec) and value.type.dtype.name in _REAL_OF


# -- operations that do the same to both parts


def _each(op: Op, first: int = 0, last: int | None = None) -> Rule:
    """The op itself on each part of the operands from `first` to `last`; others (indices, flags) are as they are."""

    def rule(parts: PartsMaker, result: Any, /, *operands: Value, **attrs: Any) -> Pair:
        pairs = [(value, value) for value in operands]
        pairs[first:last] = [parts.of(value, _REAL_OF[result.name]) for value in operands[first:last]]
        re, im = zip(*pairs, strict=True)
        return parts(op, *re, **attrs), parts(op, *im, **attrs)

    return rule


_IN_PLACE = {TWINS[op] for op in (UPDATE, UPDATE_AT, ADD_AT)}


def _changed(parts: PartsMaker, twin: Op, operands: Sequence[Value], attrs: dict[str, Any]) -> Value | None:
    """A change in place is one of the memory that both parts have."""
    target, value, *indices = operands
    # (a real value, or one of another precision, has no such parts: NumPy converts it)
    if value.type.dtype != target.type.dtype:
        return None
    key = attrs["key"]
    whole = (*key, slice(None)) if any(part is Ellipsis for part in key) else key
    return parts(FROM_PARTS, parts(twin, parts(PARTS, target), parts(PARTS, value), *indices, key=whole))


# -- arithmetic


def _pairs(formula: Callable[..., Pair]) -> Rule:
    """A rule of operands as pairs, all of the result's precision."""

    def rule(parts: PartsMaker, result: Any, /, *operands: Value, **attrs: Any) -> Pair:
        return formula(parts, *(parts.of(value, _REAL_OF[result.name]) for value in operands), **attrs)

    return rule


def _contraction(parts: PartsMaker, a: Pair, b: Pair, *, equation: str) -> Pair:
    return parts.product(a, b, EINSUM, equation=equation)


def _masked_product(parts: PartsMaker, ct: Pair, p: Pair) -> Pair:
    # 0 · ∞ is 0 in a masked lane: the partial is cleared where no cotangent comes, not the product
    dead = parts(LOGICAL_AND, parts.is_zero(ct), parts(LOGICAL_NOT, parts.both(LOGICAL_AND, IS_FINITE, p)))
    zero = parts.number(0.0, p[0])
    return parts.product(ct, parts.chosen(dead, (zero, zero), p))


def _quotient(parts: PartsMaker, a: Pair, b: Pair) -> Pair:
    """Smith's: the larger part of the divisor is divided by first, so that squares of it cannot overflow."""
    size = parts(ABS, b[0])
    first = parts(GREATER_EQUAL, size, parts(ABS, b[1]))
    large, small = parts.chosen(first, b, b[::-1])
    x, y = parts.chosen(first, a, a[::-1])
    ratio = parts(DIVIDE, small, large)
    scale = parts(DIVIDE, parts.number(1.0, ratio), parts(ADD, large, parts(MULTIPLY, small, ratio)))
    real = parts(MULTIPLY, parts(ADD, x, parts(MULTIPLY, y, ratio)), scale)
    turned = parts(MULTIPLY, parts(SUBTRACT, y, parts(MULTIPLY, x, ratio)), scale)
    imaginary = parts(WHERE, first, turned, parts(NEGATIVE, turned))
    # as NumPy divides by zero: each part by it, which gives infinities with their signs and not what the formula makes of 0 / 0
    by_zero = parts(DIVIDE, a[0], size), parts(DIVIDE, a[1], size)
    return parts.chosen(parts.is_zero(b), by_zero, (real, imaginary))


def _direction(parts: PartsMaker, a: Pair) -> Pair:
    """z / |z|: 0 of 0; of one infinite part its sign, of two NaN."""
    size, zero, one = parts.modulus(a), parts.number(0.0, a[0]), parts.number(1.0, a[0])
    divisor = parts(WHERE, parts.is_zero(a), one, size)
    infinite = parts(IS_INF, a[0]), parts(IS_INF, a[1])
    signs = tuple(parts(WHERE, flag, parts(SIGN, part), zero) for flag, part in zip(infinite, a, strict=True))
    both = parts(LOGICAL_OR, parts(LOGICAL_AND, *infinite), parts(IS_NAN, size))
    nan = parts.number(np.nan, a[0])
    beyond = parts.chosen(both, (nan, nan), signs)  # type: ignore[arg-type]
    return parts.chosen(parts(IS_FINITE, size), (parts(DIVIDE, a[0], divisor), parts(DIVIDE, a[1], divisor)), beyond)


def _constant(parts: PartsMaker, result: Any, /, *, value: Any) -> Pair | None:
    if isinstance(value, list):
        return None
    array = np.asarray(value)
    return parts(CONSTANT, value=np.array(array.real)[()]), parts(CONSTANT, value=np.array(array.imag)[()])


def _filled(parts: PartsMaker, result: Any, /, *, shape: Any, dtype: Any, value: Any) -> Pair:
    number, real = np.complex128(value), _REAL_OF[result.name]
    return parts(FILLED, shape=shape, dtype=real, value=number.real), parts(FILLED, shape=shape, dtype=real, value=number.imag)


def _cast(parts: PartsMaker, result: Any, x: Value, /, *, dtype: Any) -> Pair | Value | None:
    if result.name in _REAL_OF:
        return parts.of(x, _REAL_OF[result.name])
    return parts(CAST, parts.of(x, _REAL_OF[x.type.dtype.name])[0], dtype=dtype) if result.name in _COMPLEX_OF else None


def _complex(parts: PartsMaker, result: Any, re: Value, im: Value) -> Pair | None:
    return (re, im) if tuple(re.type.shape) == tuple(im.type.shape) and re.type.dtype == im.type.dtype else None


def _like(op: Op) -> Rule:
    """Zeros or ones in the real part, of a shape that any part has."""

    def rule(parts: PartsMaker, result: Any, x: Value, /, *, dtype: Any) -> Pair | Value:
        real = _REAL_OF.get(result.name, result)
        shaped = parts.of(x, _REAL_OF[x.type.dtype.name])[0] if _is_complex(x) else x
        numbers = parts(op, shaped, dtype=real)
        return (numbers, parts(ZEROS_LIKE, shaped, dtype=real)) if result.name in _REAL_OF else numbers

    return rule


def _part(k: int) -> Rule:
    return lambda parts, result, x: parts.of(x, result)[k]


def _test(op: Op, test: Op) -> Rule:
    """A test that asks both parts; numbers are compared in the wider of their precisions."""

    def rule(parts: PartsMaker, result: Any, /, *operands: Value) -> Value | None:
        kinds = {value.type.dtype.name for value in operands}
        # (left to NumPy, which knows the wider of two precisions)
        if len(kinds) > 1:
            return None
        return parts.both(op, test, *(parts.of(value, _REAL_OF[value.type.dtype.name]) for value in operands))

    return rule


RULES: dict[Op, Rule] = {
    **{op: _each(op) for op in (
        ADD, SUBTRACT, NEGATIVE, REDUCE_SUM, REDUCE_MEAN, TRANSPOSE, RESHAPE, BROADCAST_TO, CONCAT, STACK, GETITEM, PUT_SLICE,
        SLICE_AXIS, REVERSE, ROLL, COPY, IDENTITY, STOP_GRADIENT, UPDATE,
    )},
    WHERE: _each(WHERE, 1), GETITEM_AT: _each(GETITEM_AT, 0, 1), PUT_AT: _each(PUT_AT, 0, 1),
    ADD_AT: _each(ADD_AT, 0, 2), UPDATE_AT: _each(UPDATE_AT, 0, 2),
    ZEROS_LIKE: _like(ZEROS_LIKE), ONES_LIKE: _like(ONES_LIKE),
    CONJ: _pairs(lambda parts, x: (x[0], parts(NEGATIVE, x[1]))),
    MULTIPLY: _pairs(PartsMaker.product),
    SQUARE: _pairs(lambda parts, x: parts.product(x, x)),
    MATMUL: _pairs(lambda parts, x, y: parts.product(x, y, MATMUL)),
    EINSUM: lambda parts, result, *xs, **attrs: _pairs(_contraction)(parts, result, *xs, **attrs) if len(xs) == 2 else None,
    MASKED_MULTIPLY: _pairs(_masked_product),
    DIVIDE: _pairs(_quotient),
    ABS: lambda parts, result, x: parts.modulus(parts.of(x, result)),
    SIGN: _pairs(_direction),
    REAL: _part(0), IMAG: _part(1), COMPLEX: _complex, CAST: _cast, CONSTANT: _constant, FILLED: _filled,
    EQUAL: _test(LOGICAL_AND, EQUAL), NOT_EQUAL: _test(LOGICAL_OR, NOT_EQUAL), IS_FINITE: _test(LOGICAL_AND, IS_FINITE),
    IS_INF: _test(LOGICAL_OR, IS_INF), IS_NAN: _test(LOGICAL_OR, IS_NAN),
}  # fmt: skip
