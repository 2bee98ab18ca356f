"""What a formula is written with: instructions on registers of one dtype, and the conversions between dtypes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtape.backends.llvm.kernels import math_calls as functions
from gradtape.backends.llvm.kernels.math_calls import MathFunction
from gradtape.backends.llvm.writing.algebra import FORMATS, Real, select
from gradtape.backends.llvm.writing.element_types import REGISTER, is_float, is_integer, is_signed, literal, name_of
from gradtape.backends.llvm.writing.ir_text import Writer
from gradtape.dtypes import DType
from gradtape.ir.graph import Operation


@dataclass(frozen=True, slots=True)
class Code:
    """A writer that knows the dtype it computes in, and for whom."""

    writer: Writer
    dtype: Any
    attrs: dict[str, Any]
    scope: Any = None
    operation: Operation | None = None
    alone: bool = False  # for one number, not for elements in a loop

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

    @property
    def signed(self) -> bool:
        return is_signed(self.dtype)

    def number(self, value: Any) -> str:
        return literal(value, self.dtype)

    def let(self, text: str) -> str:
        return self.writer.let(text)

    def real(self, register: str) -> Real:
        """A floating-point register as an operand of `algebra.py`."""
        return Real(self.writer, FORMATS[self.suffix], register)

    # --- arithmetic; floating-point products and sums may be fused

    def arithmetic(self, floating: str, integer: str, a: str, b: str) -> str:
        return self.let(f"{floating} contract {self.type} {a}, {b}" if self.floating else f"{integer} {self.type} {a}, {b}")

    def add(self, a: str, b: str) -> str:
        return self.let(f"fadd {self.type} {a}, {b}") if self.in_chain else self.arithmetic("fadd", "add", a, b)

    def subtract(self, a: str, b: str) -> str:
        return self.let(f"fsub {self.type} {a}, {b}") if self.in_chain else self.arithmetic("fsub", "sub", a, b)

    @property
    def in_chain(self) -> bool:
        """Whether a number that a loop carries is added to: a product of other numbers is better ready before, not fused in."""
        return self.alone and self.floating and self.operation is not None and any(
            value.producer is None for value in self.operation.operands
        )  # fmt: skip

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

    def sqrt(self, a: str) -> str:
        return self.call("sqrt", a)

    def math(self, function: MathFunction, *operands: str) -> str:
        """A function of `functions.py` on this type."""
        return functions.call(self.writer, function, self.suffix, operands, self.alone)

    # --- comparisons and choice

    def compare(self, how: str, a: str, b: str) -> str:
        """`how`: eq ne lt le gt ge."""
        if self.floating:
            word = "fcmp " + ("u" if how == "ne" else "o") + how
        elif how in ("eq", "ne"):
            word = f"icmp {how}"
        else:
            word = f"icmp {'s' if self.signed else 'u'}{how}"
        return self.let(f"{word} {self.type} {a}, {b}")

    def select(self, flag: str, a: str, b: str) -> str:
        return self.let(f"select i1 {flag}, {self.type} {a}, {self.type} {b}")

    def both(self, a: str, b: str) -> str:
        return self.let(f"and i1 {a}, {b}")

    def either(self, a: str, b: str) -> str:
        return self.let(f"or i1 {a}, {b}")

    def opposite(self, a: str) -> str:
        return self.let(f"xor i1 {a}, true")

    def is_nan(self, a: str) -> str:
        return self.let(f"fcmp uno {self.type} {a}, {a}")

    def finite(self, a: str) -> str:
        return self.let(f"fcmp one {self.type} {self.call('fabs', a)}, {self.number(np.inf)}")

    def true(self, a: str) -> str:
        """Whether a number is not zero."""
        return converted(self.writer, a, self.dtype, np.dtype("bool"))

    # --- failures

    def fail_if(self, flag: str) -> None:
        """Leave the program in this operation if the flag is set."""
        assert self.operation is not None
        self.scope.fail_if(flag, self.operation)


def plain_sum(writer: Writer, dtype: DType, a: str, b: str) -> str:
    """A sum that is not fused with what made its terms: as NumPy adds."""
    return writer.let(f"{'f' if is_float(dtype) else ''}add {REGISTER[name_of(dtype)]} {a}, {b}")


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
        return _to_integer(writer, Real(writer, FORMATS["f64" if a == "float64" else "f32"], register), b)
    if x == y:
        return register
    if int(x[1:]) > int(y[1:]):
        return writer.let(f"trunc {x} {register} to {y}")
    return writer.let(f"{'sext' if is_signed(source) else 'zext'} {x} {register} to {y}")


def _to_integer(writer: Writer, x: Real, target: str) -> str:
    """Towards zero. What does not fit gives the least number of the instruction's width, as x86 does and NumPy shows."""
    wide = "i64" if target in ("int64", "uint64") else "i32"
    limit = 2.0**63 if wide == "i64" else 2.0**31
    top = None
    if target in ("uint32", "uint64"):  # the upper half: less 2³¹ or 2⁶³, then with the first bit changed
        top = x >= limit
        x = select(top, x - limit, x)
    inside = (x >= -limit) & (x < limit)
    safe = select(inside, x, 0.0)
    number = writer.let(f"fptosi {x.format.type} {safe.register} to {wide}")
    number = writer.let(f"select i1 {inside.register}, {wide} {number}, {wide} {-int(limit)}")
    if top is not None:
        other = writer.let(f"xor {wide} {number}, {-int(limit)}")
        number = writer.let(f"select i1 {top.register}, {wide} {other}, {wide} {number}")
    return number if REGISTER[target] == wide else writer.let(f"trunc {wide} {number} to {REGISTER[target]}")


def kind_of(dtype: Any) -> str:
    """f, i, u or b: floating, signed, unsigned, bool."""
    return "f" if is_float(dtype) else ("i" if is_signed(dtype) else "u") if is_integer(dtype) else "b"
