"""Registers with Python's operators, so that a numerical method is written as mathematics and becomes instructions.

A `Real` is a floating-point register (or a vector of them), a `Whole` an integer one, a `Flag` a truth value; `builder.py`
adds pointers and control flow. Instructions are written as they stand: nothing is reordered or fused unless the text says
`fma`, which exact algorithms (`two_sum`, `two_product`) rely on. Python numbers are constants of the type of the other
operand. No branches: loops made of these can use vector registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from gradtape.backends.llvm.writing.element_types import literal
from gradtape.backends.llvm.writing.ir_text import Writer

T_co = TypeVar("T_co", covariant=True)
R = TypeVar("R", bound="Register")


class Kind(Protocol[T_co]):
    """A type of registers: how LLVM writes it, and what a register of it is made into."""

    @property
    def type(self) -> str: ...

    @property
    def align(self) -> int: ...

    def literal(self, value: float) -> str: ...

    def wrap(self, writer: Writer, register: str) -> T_co: ...


class Register(Protocol):
    """What all values have in common."""

    @property
    def writer(self) -> Writer: ...

    @property
    def register(self) -> str: ...

    @property
    def type(self) -> str: ...

    def operand(self, other: Any) -> str: ...

    def like(self, register: str) -> Self: ...


@dataclass(frozen=True, slots=True)
class Integer:
    """The type of a `Whole`."""

    bits: int

    @property
    def type(self) -> str:
        return f"i{self.bits}"

    def __str__(self) -> str:
        return self.type

    @property
    def align(self) -> int:
        return self.bits // 8

    def literal(self, value: float) -> str:
        return str(value)

    def wrap(self, writer: Writer, register: str) -> Whole:
        return Whole(writer, self, register)


I8, I32, I64 = Integer(8), Integer(32), Integer(64)


@dataclass(frozen=True, slots=True)
class Format:
    """The type of a `Real`: `digits` bits after the leading one, exponents offset by `bias`; `lanes` numbers in a vector."""

    name: str  # of the dtype
    scalar: str
    bits: int
    digits: int
    bias: int
    lanes: int = 1

    def vector(self, lanes: int) -> Format:
        return replace(self, lanes=lanes)

    @property
    def type(self) -> str:
        return self.scalar if self.lanes == 1 else f"<{self.lanes} x {self.scalar}>"

    @property
    def align(self) -> int:
        """Vectors may lie wherever a number may."""
        return self.bits // 8

    @property
    def suffix(self) -> str:
        """What intrinsics call it."""
        return f"f{self.bits}" if self.lanes == 1 else f"v{self.lanes}f{self.bits}"

    @property
    def whole(self) -> Integer:
        """The integer type of the same size."""
        return Integer(self.bits)

    @property
    def rounder(self) -> float:
        """Added to a number and taken away again, it leaves the nearest whole number."""
        return 1.5 * 2.0**self.digits

    def literal(self, value: float) -> str:
        number = literal(value, np.dtype(self.name))
        return number if self.lanes == 1 else f"splat ({self.scalar} {number})"

    def wrap(self, writer: Writer, register: str) -> Real:
        return Real(writer, self, register)


SINGLE = Format("float32", "float", 32, 23, 127)
DOUBLE = Format("float64", "double", 64, 52, 1023)
FORMATS = {"f32": SINGLE, "f64": DOUBLE}


@dataclass(frozen=True, slots=True)
class Flag:
    """A truth value."""

    writer: Writer
    register: str

    @property
    def type(self) -> str:
        return "i1"

    def operand(self, other: Flag | bool) -> str:
        return other.register if isinstance(other, Flag) else str(other).lower()

    def like(self, register: str) -> Flag:
        return Flag(self.writer, register)

    def _binary(self, word: str, other: Flag | bool) -> Flag:
        return self.like(self.writer.let(f"{word} i1 {self.register}, {self.operand(other)}"))

    def __and__(self, other: Flag) -> Flag:
        return self._binary("and", other)

    def __or__(self, other: Flag) -> Flag:
        return self._binary("or", other)

    def __xor__(self, other: Flag) -> Flag:
        return self._binary("xor", other)

    def __invert__(self) -> Flag:
        return self._binary("xor", True)

    def count(self) -> Whole:
        """1 if it is set, else 0."""
        return I64.wrap(self.writer, self.writer.let(f"zext i1 {self.register} to i64"))


@dataclass(frozen=True, slots=True)
class Whole:
    """An integer. Comparisons are signed, shifts to the right bring in zeros, quotients are of numbers not below zero."""

    writer: Writer
    kind: Integer
    register: str

    @property
    def format(self) -> Format:
        """The floating-point type of the same size."""
        return FORMATS[f"f{self.kind.bits}"]

    @property
    def type(self) -> str:
        return self.kind.type

    def operand(self, other: Whole | int) -> str:
        return other.register if isinstance(other, Whole) else str(other)

    def like(self, register: str) -> Whole:
        return Whole(self.writer, self.kind, register)

    def _binary(self, word: str, a: Whole | int, b: Whole | int) -> Whole:
        return self.like(self.writer.let(f"{word} {self.type} {self.operand(a)}, {self.operand(b)}"))

    def _called(self, name: str, other: Whole | int) -> Whole:
        type = self.type
        return self.like(
            self.writer.let(f"call {type} @llvm.{name}.{type}({type} {self.register}, {type} {self.operand(other)})")
        )

    def __add__(self, other: Whole | int) -> Whole:
        return self if other == 0 else self._binary("add", self, other)

    __radd__ = __add__

    def __sub__(self, other: Whole | int) -> Whole:
        return self if other == 0 else self._binary("sub", self, other)

    def __rsub__(self, other: int) -> Whole:
        return self._binary("sub", other, self)

    def __mul__(self, other: Whole | int) -> Whole:
        return self if other == 1 else self._binary("mul", self, other)

    __rmul__ = __mul__

    def __floordiv__(self, other: Whole | int) -> Whole:
        return self._binary("udiv", self, other)

    def __rfloordiv__(self, other: int) -> Whole:
        return self._binary("udiv", other, self)

    def __mod__(self, other: Whole | int) -> Whole:
        return self._binary("urem", self, other)

    def __and__(self, other: Whole | int) -> Whole:
        return self._binary("and", self, other)

    def __or__(self, other: Whole | int) -> Whole:
        return self._binary("or", self, other)

    def __xor__(self, other: Whole | int) -> Whole:
        return self._binary("xor", self, other)

    def __lshift__(self, count: int) -> Whole:
        return self._binary("shl", self, count)

    def __rshift__(self, count: int) -> Whole:
        return self._binary("lshr", self, count)

    def at_most(self, limit: Whole | int) -> Whole:
        return self._called("smin", limit)

    def at_least(self, limit: Whole | int) -> Whole:
        return self._called("smax", limit)

    def compare(self, word: str, other: Whole | int) -> Flag:
        return Flag(self.writer, self.writer.let(f"icmp {word} {self.type} {self.register}, {self.operand(other)}"))

    def equals(self, other: Whole | int) -> Flag:
        return self.compare("eq", other)

    def differs(self, other: Whole | int) -> Flag:
        return self.compare("ne", other)

    def __lt__(self, other: Whole | int) -> Flag:
        return self.compare("slt", other)

    def __le__(self, other: Whole | int) -> Flag:
        return self.compare("sle", other)

    def __gt__(self, other: Whole | int) -> Flag:
        return self.compare("sgt", other)

    def __ge__(self, other: Whole | int) -> Flag:
        return self.compare("sge", other)

    def as_float(self) -> Real:
        """The number with these bits."""
        return self.format.wrap(self.writer, self.writer.let(f"bitcast {self.type} {self.register} to {self.format.type}"))

    def resized(self, kind: Integer, signed: bool = False) -> Whole:
        """The low bits, or with more in front: zeros, or copies of the sign."""
        if kind == self.kind:
            return self
        word = "trunc" if kind.bits < self.kind.bits else "sext" if signed else "zext"
        return kind.wrap(self.writer, self.writer.let(f"{word} {self.type} {self.register} to {kind.type}"))


@dataclass(frozen=True, slots=True)
class Real:
    """A floating-point number."""

    writer: Writer
    format: Format
    register: str

    @property
    def type(self) -> str:
        return self.format.type

    def operand(self, other: Real | float) -> str:
        return other.register if isinstance(other, Real) else self.format.literal(other)

    def like(self, register: str) -> Real:
        return Real(self.writer, self.format, register)

    def number(self, value: float) -> Real:
        return self.like(self.format.literal(value))

    # --- arithmetic

    def _let(self, text: str) -> Real:
        return self.like(self.writer.let(text))

    def _binary(self, word: str, a: Real | float, b: Real | float) -> Real:
        return self._let(f"{word} {self.type} {self.operand(a)}, {self.operand(b)}")

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
        return self._let(f"fneg {self.type} {self.register}")

    def call(self, name: str, *others: Real | float) -> Real:
        """An intrinsic."""
        f = self.format
        arguments = ", ".join(f"{f.type} {self.operand(x)}" for x in (self, *others))
        return self._let(f"call {f.type} @llvm.{name}.{f.suffix}({arguments})")

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
        return Flag(self.writer, self.writer.let(f"fcmp {word} {self.type} {self.register}, {self.operand(other)}"))

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
        return f.whole.wrap(self.writer, self.writer.let(f"bitcast {f.type} {self.register} to {f.whole.type}"))

    def as_format(self, format: Format) -> Real:
        """The number, rounded if need be, in another format."""
        if format is self.format:
            return self
        word = "fpext" if format.bits > self.format.bits else "fptrunc"
        return format.wrap(self.writer, self.writer.let(f"{word} {self.type} {self.register} to {format.type}"))

    # --- vectors

    def spread(self, lanes: int) -> Real:
        """The number in each lane of a vector."""
        f = self.format.vector(lanes)
        one = self.writer.let(f"insertelement {f.type} poison, {self.type} {self.register}, i64 0")
        return f.wrap(
            self.writer, self.writer.let(f"shufflevector {f.type} {one}, {f.type} poison, <{lanes} x i32> zeroinitializer")
        )

    def shuffled(self, other: Real, lanes: Sequence[int]) -> Real:
        """Numbers of two vectors, by their place in the one and then the other."""
        chosen = ", ".join(f"i32 {lane}" for lane in lanes)
        return self._let(
            f"shufflevector {self.type} {self.register}, {self.type} {other.register}, <{len(lanes)} x i32> <{chosen}>"
        )

    def total(self) -> Real:
        """The sum over the lanes, in the order that is fastest."""
        f = replace(self.format, lanes=1)
        # (`reassoc`: in order, it would be one addition after the other)
        text = f"call reassoc {f.type} @llvm.vector.reduce.fadd.{self.format.suffix}({f.type} 0.0, {self.type} {self.register})"
        return f.wrap(self.writer, self.writer.let(text))

    # --- limits; NaN stays

    def at_most(self, limit: float) -> Real:
        return select(self > limit, self.number(limit), self)

    def at_least(self, limit: float) -> Real:
        return select(self < limit, self.number(limit), self)


def select(flag: Flag, a: R, b: R | float) -> R:
    """a where the flag is set, else b."""
    return a.like(a.writer.let(f"select i1 {flag.register}, {a.type} {a.register}, {a.type} {a.operand(b)}"))


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
    # each round halves the number of terms and squares the power: log₂ n products wait for each other, not n
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
