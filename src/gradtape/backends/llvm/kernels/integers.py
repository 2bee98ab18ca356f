"""Division with its remainder, shifts, bits, and powers of integers.

Quotients are rounded down, remainders have the sign of the divisor, integers wrap around, as in NumPy; an integer divided by
zero fails. Floating-point remainders are exact, whatever the quotient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape.backends.llvm.kernels import math_calls as functions
from gradtape.backends.llvm.kernels.code import Code, kind_of
from gradtape.backends.llvm.kernels.element_code import Formula, lane
from gradtape.backends.llvm.planning.lowering import Asked, Lowering
from gradtape.backends.llvm.writing.algebra import Integer, select
from gradtape.backends.llvm.writing.builder import Builder
from gradtape.backends.llvm.writing.ir_text import ModuleText, Writer
from gradtape.core.opdef import Op
from gradtape.ir.graph import Operation
from gradtape.ops.compare import BITWISE_AND, BITWISE_OR, BITWISE_XOR, INVERT, LEFT_SHIFT, RIGHT_SHIFT
from gradtape.ops.elementwise import POW
from gradtape.ops.select import FLOORDIV, MOD
from gradtape.ops.staged import CONSTANT


def _truncated(c: Code, a: str, b: str) -> str:
    """a / b towards zero; b is neither 0 nor -1."""
    bits = int(c.type[1:])
    if not c.signed or bits > 32:
        return c.let(f"{'sdiv' if c.signed else 'udiv'} {c.type} {a}, {b}")
    # there are no vector instructions for this; a float64 quotient of such integers is never rounded up to a whole number
    x, y = c.let(f"sitofp {c.type} {a} to double"), c.let(f"sitofp {c.type} {b} to double")
    whole = c.let(f"fptosi double {c.let(f'fdiv double {x}, {y}')} to i32")
    return whole if bits == 32 else c.let(f"trunc i32 {whole} to {c.type}")


def _divided(c: Code, a: str, b: str) -> tuple[str, str]:
    """The quotient rounded down and the remainder of integers; fails where the divisor is 0."""
    if b.lstrip("-").isdigit():
        if int(b) == 0:
            c.fail_if("true")
    else:
        c.fail_if(c.compare("eq", b, "0"))
    unsafe = c.compare("eq", b, "0")
    if c.signed:  # least number / -1 does not fit
        unsafe = c.either(unsafe, c.compare("eq", b, "-1"))
    divisor = c.select(unsafe, "1", b)
    quotient = _truncated(c, a, divisor)
    rest = c.subtract(a, c.multiply(quotient, divisor))
    if not c.signed:
        return quotient, rest
    opposite = c.let(f"xor i1 {c.compare('lt', rest, '0')}, {c.compare('lt', divisor, '0')}")
    down = c.both(c.compare("ne", rest, "0"), opposite)
    quotient = c.select(down, c.subtract(quotient, "1"), quotient)
    quotient = c.select(c.compare("eq", b, "-1"), c.negative(a), quotient)
    return quotient, c.select(down, c.add(rest, divisor), rest)


def floordiv(c: Code, a: str, b: str) -> str:
    """a / b rounded down."""
    if not c.floating:
        return _divided(c, a, b)[0]
    rest = c.math(functions.FMOD, a, b)
    zero, one = c.number(0), c.number(1)
    quotient = c.divide(c.let(f"fsub {c.type} {a}, {rest}"), b)
    opposite = c.let(f"xor i1 {c.compare('lt', rest, zero)}, {c.compare('lt', b, zero)}")
    down = c.both(c.compare("ne", rest, zero), opposite)
    quotient = c.select(down, c.let(f"fsub {c.type} {quotient}, {one}"), quotient)
    # nearly whole already: to the next whole number
    floor = c.call("floor", quotient)
    above = c.compare("gt", c.let(f"fsub {c.type} {quotient}, {floor}"), c.number(0.5))
    floor = c.select(above, c.let(f"fadd {c.type} {floor}, {one}"), floor)
    plain = c.divide(a, b)
    rounded = c.select(c.compare("eq", quotient, zero), c.call("copysign", zero, plain), floor)
    infinite = c.compare("eq", c.call("maxnum", c.call("fabs", a), c.call("fabs", b)), c.number(float("inf")))
    rounded = c.select(infinite, c.call("floor", plain), rounded)
    return c.select(c.compare("eq", b, zero), plain, rounded)


def mod(c: Code, a: str, b: str) -> str:
    """What `floordiv` leaves over, with the sign of b."""
    if not c.floating:
        return _divided(c, a, b)[1]
    rest = c.math(functions.FMOD, a, b)
    zero = c.number(0)
    opposite = c.let(f"xor i1 {c.compare('lt', rest, zero)}, {c.compare('lt', b, zero)}")
    signed = c.select(opposite, c.let(f"fadd {c.type} {rest}, {b}"), rest)
    return c.select(c.compare("eq", rest, zero), c.call("copysign", zero, b), signed)


def shift(left: bool) -> Formula:
    """A shift by the width or more, or by less than nothing, leaves only zeros, or the sign."""

    def formula(c: Code, a: str, b: str) -> str:
        bits = int(c.type[1:])
        inside = c.let(f"icmp ult {c.type} {b}, {bits}")
        word = "shl" if left else "ashr" if c.signed else "lshr"
        if not left and c.signed:
            return c.let(f"ashr {c.type} {a}, {c.select(inside, b, str(bits - 1))}")
        return c.select(inside, c.let(f"{word} {c.type} {a}, {c.select(inside, b, '0')}"), "0")

    return formula


def bits(word: str) -> Formula:
    """An operation on all bits."""
    return lambda c, x, y: c.let(f"{word} {c.type} {x}, {y}")


def pow(c: Code, x: str, y: str) -> str:
    """By squaring, modulo 2^width; fails for negative exponents."""
    if c.floating:
        return c.math(functions.POW, x, y)
    if c.signed:
        c.fail_if(c.compare("lt", y, "0"))
    return c.let(f"call {c.type} {_power(c.writer.module, c.type)}({c.type} {x}, {c.type} {y})")


def _power(module: ModuleText, type: str) -> str:
    name, kind = f"gt.power.{type}", Integer(int(type[1:]))

    def make() -> str:
        f = Builder(Writer(module, name, f"{type} %x, {type} %y", f"internal {type}", "nounwind memory(none)"))
        # x^y = power · base^left, invariant: the bits of y from the lowest on say which squares of x are factors
        power, base, left = (f.variable(kind, kind.wrap(f.writer, start)) for start in ("1", "%x", "%y"))
        with f.forever() as squares:
            squares.leave_if(left.value.equals(0))
            power.value = select((left.value & 1).differs(0), power.value * base.value, power.value)
            base.value = base.value * base.value
            left.value = left.value >> 1
        f.leave(power.value)
        return f.writer.text

    return module.library(name, make)


def _fails(trap: Callable[[Any], Any]) -> Asked:
    """Whether an operation on integers may leave the program: its second operand may be what `trap` says."""

    def fails(operation: Operation) -> bool:
        if kind_of(operation.result.type.dtype) == "f":
            return False
        producer = operation.operands[1].producer
        return producer is None or producer.op is not CONSTANT or bool(np.any(trap(producer.attrs["value"])))

    return fails


_BY_ZERO = _fails(lambda divisor: divisor == 0)
LOWERINGS: dict[Op, Lowering] = {
    FLOORDIV: lane(floordiv, "fiu", 12, fails=_BY_ZERO),
    MOD: lane(mod, "fiu", 12, fails=_BY_ZERO),
    POW: lane(pow, "fiu", 30, fails=_fails(lambda exponent: exponent < 0)),
    LEFT_SHIFT: lane(shift(left=True), "iu"),
    RIGHT_SHIFT: lane(shift(left=False), "iu"),
    BITWISE_AND: lane(bits("and"), "iub"),
    BITWISE_OR: lane(bits("or"), "iub"),
    BITWISE_XOR: lane(bits("xor"), "iub"),
    INVERT: lane(lambda c, x: c.let(f"xor {c.type} {x}, {'true' if c.type == 'i1' else -1}"), "iub"),
}
