"""Registers with Python's operators, so that a numerical method is written as mathematics and becomes instructions.

A `Real` is a floating-point register, a `Whole` an integer one, a `Flag` a truth value. Instructions are written as they
stand: nothing is reordered or fused unless the text says `fma`, which exact algorithms (`two_sum`, `two_product`) rely on.
Python numbers are constants of the type of the other operand. No branches: loops made of these can use vector registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtape.backends.llvm.text import Writer
from gradtape.backends.llvm.types import literal


@dataclass(frozen=True, slots=True)
class Format:
    """A floating-point type: `digits` bits after the leading one, exponents offset by `bias`."""

    name: str  # of the dtype
    type: str
    suffix: str  # what intrinsics call it
    bits: int
    digits: int
    bias: int

    @property
    def whole(self) -> str:
        """The integer type of the same size."""
        return f"i{self.bits}"

    @property
    def rounder(self) -> float:
        """Added to a number and taken away again, it leaves the nearest whole number."""
        return 1.5 * 2.0**self.digits

    def literal(self, value: Any) -> str:
        return literal(value, np.dtype(self.name))


SINGLE = Format("float32", "float", "f32", 32, 23, 127)
DOUBLE = Format("float64", "double", "f64", 64, 52, 1023)
FORMATS = {"f32": SINGLE, "f64": DOUBLE}


@dataclass(frozen=True, slots=True)
class Flag:
    """A truth value."""

    writer: Writer
    register: str

    def __and__(self, other: Flag) -> Flag:
        return Flag(self.writer, self.writer.let(f"and i1 {self.register}, {other.register}"))

    def __or__(self, other: Flag) -> Flag:
        return Flag(self.writer, self.writer.let(f"or i1 {self.register}, {other.register}"))

    def __xor__(self, other: Flag) -> Flag:
        return Flag(self.writer, self.writer.let(f"xor i1 {self.register}, {other.register}"))

    def __invert__(self) -> Flag:
        return Flag(self.writer, self.writer.let(f"xor i1 {self.register}, true"))


@dataclass(frozen=True, slots=True)
class Whole:
    """An integer as wide as a floating-point type; shifts to the right bring in zeros."""

    writer: Writer
    format: Format
    register: str

    def _made(self, word: str, other: Whole | int) -> Whole:
        b = other.register if isinstance(other, Whole) else str(other)
        return Whole(self.writer, self.format, self.writer.let(f"{word} {self.format.whole} {self.register}, {b}"))

    def __add__(self, other: Whole | int) -> Whole:
        return self._made("add", other)

    def __sub__(self, other: Whole | int) -> Whole:
        return self._made("sub", other)

    def __mul__(self, other: Whole | int) -> Whole:
        return self._made("mul", other)

    def __and__(self, other: Whole | int) -> Whole:
        return self._made("and", other)

    def __or__(self, other: Whole | int) -> Whole:
        return self._made("or", other)

    def __xor__(self, other: Whole | int) -> Whole:
        return self._made("xor", other)

    def __lshift__(self, count: int) -> Whole:
        return self._made("shl", count)

    def __rshift__(self, count: int) -> Whole:
        return self._made("lshr", count)

    def compare(self, word: str, other: Whole | int) -> Flag:
        b = other.register if isinstance(other, Whole) else str(other)
        return Flag(self.writer, self.writer.let(f"icmp {word} {self.format.whole} {self.register}, {b}"))

    def equals(self, other: Whole | int) -> Flag:
        return self.compare("eq", other)

    def as_float(self) -> Real:
        """The number with these bits."""
        f = self.format
        return Real(self.writer, f, self.writer.let(f"bitcast {f.whole} {self.register} to {f.type}"))

    def narrowed(self, format: Format) -> Whole:
        """The low bits."""
        text = f"trunc {self.format.whole} {self.register} to {format.whole}"
        return Whole(self.writer, format, self.writer.let(text))


@dataclass(frozen=True, slots=True)
class Real:
    """A floating-point number."""

    writer: Writer
    format: Format
    register: str

    # --- arithmetic

    def operand(self, other: Real | float) -> str:
        return other.register if isinstance(other, Real) else self.format.literal(other)

    def number(self, value: float) -> Real:
        return Real(self.writer, self.format, self.format.literal(value))

    def _made(self, text: str) -> Real:
        return Real(self.writer, self.format, self.writer.let(text))

    def _binary(self, word: str, a: Real | float, b: Real | float) -> Real:
        return self._made(f"{word} {self.format.type} {self.operand(a)}, {self.operand(b)}")

    def __add__(self, other: Real | float) -> Real:
        return self._binary("fadd", self, other)

    def __radd__(self, other: float) -> Real:
        return self._binary("fadd", other, self)

    def __sub__(self, other: Real | float) -> Real:
        return self._binary("fsub", self, other)

    def __rsub__(self, other: float) -> Real:
        return self._binary("fsub", other, self)

    def __mul__(self, other: Real | float) -> Real:
        return self._binary("fmul", self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Real | float) -> Real:
        return self._binary("fdiv", self, other)

    def __rtruediv__(self, other: float) -> Real:
        return self._binary("fdiv", other, self)

    def __neg__(self) -> Real:
        return self._made(f"fneg {self.format.type} {self.register}")

    def call(self, name: str, *others: Real | float) -> Real:
        """An intrinsic."""
        f = self.format
        arguments = ", ".join(f"{f.type} {self.operand(x)}" for x in (self, *others))
        return self._made(f"call {f.type} @llvm.{name}.{f.suffix}({arguments})")

    def fma(self, factor: Real | float, term: Real | float) -> Real:
        """self·factor + term, rounded once where the processor can."""
        return self.call("fmuladd", factor, term)

    def exact_fma(self, factor: Real | float, term: Real | float) -> Real:
        """self·factor + term, rounded once."""
        return self.call("fma", factor, term)

    def abs(self) -> Real:
        return self.call("fabs")

    def sqrt(self) -> Real:
        return self.call("sqrt")

    def floor(self) -> Real:
        return self.call("floor")

    def with_sign_of(self, other: Real) -> Real:
        return self.call("copysign", other)

    # --- comparisons: false if one of the two is NaN, except `is_nan` and `differs`

    def compare(self, word: str, other: Real | float) -> Flag:
        text = f"fcmp {word} {self.format.type} {self.register}, {self.operand(other)}"
        return Flag(self.writer, self.writer.let(text))

    def __lt__(self, other: Real | float) -> Flag:
        return self.compare("olt", other)

    def __le__(self, other: Real | float) -> Flag:
        return self.compare("ole", other)

    def __gt__(self, other: Real | float) -> Flag:
        return self.compare("ogt", other)

    def __ge__(self, other: Real | float) -> Flag:
        return self.compare("oge", other)

    def equals(self, other: Real | float) -> Flag:
        return self.compare("oeq", other)

    def differs(self, other: Real | float) -> Flag:
        return self.compare("une", other)

    def is_nan(self) -> Flag:
        return self.compare("uno", self)

    # --- conversions

    def as_bits(self) -> Whole:
        f = self.format
        return Whole(self.writer, f, self.writer.let(f"bitcast {f.type} {self.register} to {f.whole}"))

    def as_format(self, format: Format) -> Real:
        """The number, rounded if need be, in another format."""
        if format is self.format:
            return self
        word = "fpext" if format.bits > self.format.bits else "fptrunc"
        text = f"{word} {self.format.type} {self.register} to {format.type}"
        return Real(self.writer, format, self.writer.let(text))

    # --- limits; NaN stays

    def at_most(self, limit: float) -> Real:
        return select(self > limit, self.number(limit), self)

    def at_least(self, limit: float) -> Real:
        return select(self < limit, self.number(limit), self)


def select(flag: Flag, a: Real, b: Real | float) -> Real:
    """a where the flag is set, else b."""
    text = f"select i1 {flag.register}, {a.format.type} {a.register}, {a.format.type} {a.operand(b)}"
    return Real(a.writer, a.format, a.writer.let(text))


def choose(flag: Flag, like: Real, a: float, b: float) -> Real:
    """One of two constants."""
    return select(flag, like.number(a), like.number(b))


def two_sum(a: Real, b: Real) -> tuple[Real, Real]:
    """a + b and its rounding error, exactly."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def fast_two_sum(a: Real, b: Real) -> tuple[Real, Real]:
    """As `two_sum` where |a| ≥ |b| or a = 0."""
    total = a + b
    return total, b - (total - a)


def two_product(a: Real, b: Real | float) -> tuple[Real, Real]:
    """a · b and its rounding error, exactly."""
    product = a * b
    return product, a.exact_fma(b, -product)


def polynomial(x: Real, coefficients: Sequence[float]) -> Real:
    """Σ cₖ xᵏ in pairs, pairs of pairs and so on (Estrin): a short chain, since processors start several products at once."""
    terms: list[Real | float] = list(coefficients)
    power = x
    while len(terms) > 1:
        pairs: list[Real | float] = []
        for k in range(0, len(terms) - 1, 2):
            low, high = terms[k], terms[k + 1]
            pairs.append(high.fma(power, low) if isinstance(high, Real) else power.fma(high, low))
        if len(terms) % 2:
            pairs.append(terms[-1])
        terms = pairs
        if len(terms) > 1:
            power = power * power
    only = terms[0]
    return only if isinstance(only, Real) else x.number(only)
