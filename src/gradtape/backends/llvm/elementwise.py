"""Element operations: one register from the registers of the operands' elements at the same place.

A `Formula` writes the result from operands that have the result's dtype (or, for comparisons, their common one). Floating-point
arithmetic may be contracted to fused multiply-adds; nothing else is assumed, so NaN, infinities and signed zeros are as in
NumPy. Integers wrap around.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtape.backends.llvm import math
from gradtape.backends.llvm.scope import Scope
from gradtape.backends.llvm.text import Writer
from gradtape.backends.llvm.types import REGISTER, is_float, is_integer, is_signed, literal, name_of
from gradtape.backends.llvm.values import Flat, Place
from gradtape.ir.graph import Operation, Value

Formula = Callable[..., str]  # (code, *registers) → register


@dataclass(frozen=True, slots=True)
class Code:
    """A writer that knows the dtype it computes in."""

    writer: Writer
    dtype: Any
    attrs: dict[str, Any]

    @property
    def type(self) -> str:
        return REGISTER[name_of(self.dtype)]

    @property
    def suffix(self) -> str:
        """What intrinsics call the type."""
        return {"float": "f32", "double": "f64"}.get(self.type, self.type)

    @property
    def floating(self) -> bool:
        return is_float(self.dtype)

    def number(self, value: Any) -> str:
        return literal(value, self.dtype)

    def let(self, text: str) -> str:
        return self.writer.let(text)

    def arithmetic(self, floating: str, integer: str, a: str, b: str) -> str:
        return self.let(f"{floating} contract {self.type} {a}, {b}" if self.floating else f"{integer} {self.type} {a}, {b}")

    def add(self, a: str, b: str) -> str:
        return self.arithmetic("fadd", "add", a, b)

    def subtract(self, a: str, b: str) -> str:
        return self.arithmetic("fsub", "sub", a, b)

    def multiply(self, a: str, b: str) -> str:
        return self.arithmetic("fmul", "mul", a, b)

    def divide(self, a: str, b: str) -> str:
        return self.let(f"fdiv {self.type} {a}, {b}")

    def negative(self, a: str) -> str:
        return self.let(f"fneg {self.type} {a}" if self.floating else f"sub {self.type} 0, {a}")

    def call(self, name: str, *operands: str) -> str:
        """An intrinsic on this type."""
        arguments = ", ".join(f"{self.type} {a}" for a in operands)
        return self.let(f"call {self.type} @llvm.{name}.{self.suffix}({arguments})")

    def math(self, name: str, *operands: str) -> str:
        """A function of `math.py` on this type."""
        arguments = ", ".join(f"{self.type} {a}" for a in operands)
        return self.let(f"call {self.type} {math.function(self.writer.module, name, self.suffix)}({arguments})")

    def compare(self, how: str, a: str, b: str) -> str:
        """`how`: eq ne lt le gt ge."""
        if self.floating:
            word = "fcmp " + ("u" if how == "ne" else "o") + how
        elif how in ("eq", "ne"):
            word = f"icmp {how}"
        else:
            word = f"icmp {'s' if is_signed(self.dtype) else 'u'}{how}"
        return self.let(f"{word} {self.type} {a}, {b}")

    def select(self, flag: str, a: str, b: str) -> str:
        return self.let(f"select i1 {flag}, {self.type} {a}, {self.type} {b}")

    def both(self, a: str, b: str) -> str:
        return self.let(f"and i1 {a}, {b}")

    def opposite(self, a: str) -> str:
        return self.let(f"xor i1 {a}, true")

    def finite(self, a: str) -> str:
        size = self.call("fabs", a)
        return self.let(f"fcmp one {self.type} {size}, {self.number(np.inf)}")


def converted(writer: Writer, register: str, source: Any, target: Any) -> str:
    """A number as another dtype, as NumPy's `astype` does it."""
    a, b = name_of(source), name_of(target)
    if a == b:
        return register
    x, y = REGISTER[a], REGISTER[b]
    if b == "bool":
        return writer.let(
            f"fcmp une {x} {register}, {literal(0, source)}" if is_float(source) else f"icmp ne {x} {register}, 0"
        )
    if is_float(source) and is_float(target):
        return writer.let(f"{'fpext' if b == 'float64' else 'fptrunc'} {x} {register} to {y}")
    if is_float(target):
        return writer.let(f"{'sitofp' if is_signed(source) else 'uitofp'} {x} {register} to {y}")
    if is_float(source):
        return _to_integer(writer, register, x, b)
    if x == y:
        return register
    if int(x[1:]) > int(y[1:]):
        return writer.let(f"trunc {x} {register} to {y}")
    return writer.let(f"{'sext' if is_signed(source) else 'zext'} {x} {register} to {y}")


def _to_integer(writer: Writer, register: str, kind: str, target: str) -> str:
    """Towards zero. Out of range the x86 instruction gives the least number of its width, as NumPy shows."""
    wide = "i64" if target in ("int64", "uint32", "uint64") else "i32"
    suffix = {"float": "f32", "double": "f64"}[kind]
    bits = 63 if wide == "i64" else 31
    low = literal(-(2.0**bits), np.dtype("float64" if kind == "double" else "float32"))
    high = literal(2.0**bits, np.dtype("float64" if kind == "double" else "float32"))
    inside = writer.let(
        f"and i1 {writer.let(f'fcmp oge {kind} {register}, {low}')}, {writer.let(f'fcmp olt {kind} {register}, {high}')}"
    )
    number = writer.let(f"call {wide} @llvm.fptosi.sat.{wide}.{suffix}({kind} {register})")
    number = writer.let(f"select i1 {inside}, {wide} {number}, {wide} {-(2**bits)}")
    kind = REGISTER[target]
    return number if kind == wide else writer.let(f"trunc {wide} {number} to {kind}")


def operand_place(place: Place, shape: tuple[object, ...], result: tuple[object, ...]) -> Place:
    """The index into an operand that is broadcast to the result's shape."""
    if not shape:
        return ()
    if shape == result:
        return place
    if isinstance(place, Flat):
        raise AssertionError("a flat index into arrays of different shapes")
    offset = len(result) - len(shape)
    return tuple([0 if size == 1 and size.__class__ is int else place[offset + k] for k, size in enumerate(shape)])


def operands_at(scope: Scope, operation: Operation, place: Place) -> list[str]:
    """The elements of all operands at an index of the result."""
    shape = tuple(operation.result.type.shape)
    return [scope.element(v, operand_place(place, tuple(v.type.shape), shape)) for v in operation.operands]


def _common(operands: list[Value]) -> Any:
    from gradtape.dtypes import as_dtype

    return as_dtype(np.result_type(*(v.type.dtype.as_numpy_dtype for v in operands)))


def pointwise(formula: Formula, compare: bool = False) -> Any:
    """The element function of an op computed by a formula; of a comparison, operands keep their common dtype."""

    def write(scope: Scope, operation: Operation, place: Place) -> str:
        dtype = _common(operation.operands) if compare else operation.result.type.dtype
        found = operands_at(scope, operation, place)
        w = scope.writer
        registers = [converted(w, r, v.type.dtype, dtype) for r, v in zip(found, operation.operands, strict=True)]
        return formula(Code(w, dtype, operation.attrs), *registers)

    return write


def _cast(scope: Scope, operation: Operation, place: Place) -> str:
    (x,) = operation.operands
    return converted(scope.writer, scope.element(x, place), x.type.dtype, operation.result.type.dtype)


def _where(scope: Scope, operation: Operation, place: Place) -> str:
    flag, x, y = operands_at(scope, operation, place)
    w, dtype = scope.writer, operation.result.type.dtype
    flag = converted(w, flag, operation.operands[0].type.dtype, np.dtype("bool"))
    x, y = (converted(w, r, v.type.dtype, dtype) for r, v in zip((x, y), operation.operands[1:], strict=True))
    return Code(w, dtype, {}).select(flag, x, y)


def _maximum(c: Code, a: str, b: str) -> str:
    return c.call("maximum", a, b) if c.floating else c.call("smax" if is_signed(c.dtype) else "umax", a, b)


def _minimum(c: Code, a: str, b: str) -> str:
    return c.call("minimum", a, b) if c.floating else c.call("smin" if is_signed(c.dtype) else "umin", a, b)


def _masked(c: Code, x: str, y: str) -> str:
    # x · y', y' = 0 where x = 0 and y is not finite
    masked = c.both(c.compare("eq", x, c.number(0)), c.opposite(c.finite(y)))
    return c.multiply(x, c.select(masked, c.number(0), y))


def _abs(c: Code, x: str) -> str:
    if c.floating:
        return c.call("fabs", x)
    if not is_signed(c.dtype):
        return x
    return c.let(f"call {c.type} @llvm.abs.{c.type}({c.type} {x}, i1 false)")


def _sign(c: Code, x: str) -> str:
    above = c.select(c.compare("gt", x, c.number(0)), c.number(1), c.number(0))
    if not c.floating and not is_signed(c.dtype):
        return above
    found = c.select(c.compare("lt", x, c.number(0)), c.number(-1), above)
    return c.select(c.let(f"fcmp uno {c.type} {x}, {x}"), x, found) if c.floating else found


def _sigmoid(c: Code, x: str) -> str:
    one = c.number(1)
    return c.divide(one, c.add(one, c.math("exp", c.negative(x))))


def _softplus(c: Code, x: str) -> str:
    tail = c.math("log1p", c.math("exp", c.negative(c.call("fabs", x))))
    return c.add(_maximum(c, x, c.number(0)), tail)


def _power(c: Code, x: str) -> str:
    """x to a power known when the program is made: by multiplication for small whole ones."""
    exponent = c.attrs["exponent"]
    whole = int(exponent) if float(exponent).is_integer() and abs(exponent) <= 16 else None
    if whole is not None and (whole >= 0 or c.floating):
        left, base, found = abs(whole), x, None
        while left:
            if left & 1:
                found = base if found is None else c.multiply(found, base)
            left >>= 1
            base = c.multiply(base, base) if left else base
        found = c.number(1) if found is None else found
        return found if whole >= 0 else c.divide(c.number(1), found)
    if exponent == 0.5:
        return c.call("sqrt", x)
    return c.math("pow", x, c.number(exponent))


def _integers_only(formula: Formula) -> Formula:
    return formula


MATH = ("exp expm1 log log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc").split()
COMPARISONS = {"equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge"}

FORMULAS: dict[str, Formula] = {
    "add": Code.add,
    "subtract": Code.subtract,
    "multiply": Code.multiply,
    "divide": Code.divide,
    "negative": Code.negative,
    "square": lambda c, x: c.multiply(x, x),
    "sqrt": lambda c, x: c.call("sqrt", x),
    "rsqrt": lambda c, x: c.divide(c.number(1), c.call("sqrt", x)),
    "reciprocal": lambda c, x: c.divide(c.number(1), x),
    "abs": _abs,
    "sign": _sign,
    "maximum": _maximum,
    "minimum": _minimum,
    "floor": lambda c, x: c.call("floor", x),
    "ceil": lambda c, x: c.call("ceil", x),
    "round": lambda c, x: c.call("roundeven", x),
    "sigmoid": _sigmoid,
    "softplus": _softplus,
    "relu": lambda c, x: _maximum(c, x, c.number(0)),
    "power": _power,
    "pow": lambda c, x, y: c.math("pow", x, y),
    "atan2": lambda c, x, y: c.math("atan2", x, y),
    "masked_multiply": _masked,
    "bitwise_and": lambda c, x, y: c.let(f"and {c.type} {x}, {y}"),
    "bitwise_or": lambda c, x, y: c.let(f"or {c.type} {x}, {y}"),
    "bitwise_xor": lambda c, x, y: c.let(f"xor {c.type} {x}, {y}"),
    "invert": lambda c, x: c.let(f"xor {c.type} {x}, {'true' if c.type == 'i1' else -1}"),
    **{name: (lambda c, x, name=name: c.math(name, x)) for name in MATH},
}
PREDICATES: dict[str, Formula] = {
    **{name: (lambda c, x, y, how=how: c.compare(how, x, y)) for name, how in COMPARISONS.items()},
    "is_nan": lambda c, x: c.let(f"fcmp uno {c.type} {x}, {x}") if c.floating else "false",
    "is_inf": lambda c, x: c.let(f"fcmp oeq {c.type} {c.call('fabs', x)}, {c.number(np.inf)}") if c.floating else "false",
    "is_finite": lambda c, x: c.finite(x) if c.floating else "true",
    "logical_and": lambda c, x, y: c.both(_true(c, x), _true(c, y)),
    "logical_or": lambda c, x, y: c.let(f"or i1 {_true(c, x)}, {_true(c, y)}"),
    "logical_xor": lambda c, x, y: c.let(f"xor i1 {_true(c, x)}, {_true(c, y)}"),
    "logical_not": lambda c, x: c.opposite(_true(c, x)),
}


def _true(c: Code, x: str) -> str:
    return converted(c.writer, x, c.dtype, np.dtype("bool"))


# floating-point results only; integers and booleans are left to NumPy, whose rules for them are its own
FLOATING = frozenset({
    "divide", "sqrt", "rsqrt", "reciprocal", "floor", "ceil", "round", "sigmoid", "softplus", "pow", "atan2", "masked_multiply", *MATH,
})  # fmt: skip
WHOLE = frozenset({"bitwise_and", "bitwise_or", "bitwise_xor", "invert"})
NOT_BOOL = frozenset({"subtract", "negative", "square", "sign", "power", "abs"})

ELEMENT: dict[str, Any] = {
    **{name: pointwise(formula) for name, formula in FORMULAS.items()},
    **{name: pointwise(formula, compare=True) for name, formula in PREDICATES.items()},
    "cast": _cast,
    "where": _where,
}


def accepts(operation: Operation) -> bool:
    """Whether the op's formula holds for the dtypes at hand."""
    name, dtype = operation.op.name, operation.result.type.dtype
    kind = name_of(dtype)
    if name in FLOATING:
        return is_float(dtype) and all(is_float(v.type.dtype) for v in operation.operands)
    if name in WHOLE:
        return is_integer(dtype) or kind == "bool"
    if name in NOT_BOOL and kind == "bool":
        return False
    if name == "power" and is_integer(dtype):
        exponent = operation.attrs["exponent"]
        return float(exponent).is_integer() and 0 <= exponent <= 16
    if name in ("add", "multiply", "relu") and kind == "bool":
        return False
    return True


COSTS = {name: 20 for name in (*MATH, "pow", "atan2", "sigmoid", "softplus", "power")} | {
    "divide": 4,
    "sqrt": 5,
    "rsqrt": 6,
    "reciprocal": 4,
}
COSTS["power"] = 4
