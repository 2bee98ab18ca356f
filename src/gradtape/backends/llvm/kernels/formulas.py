"""Formulas of element operations on numbers: arithmetic, comparisons, activations.

A formula writes the result from operands of one dtype, branch-free. Division of integers, shifts and bits are in `integers.py`.
Nothing is assumed about values: NaN, infinities and signed zeros are as in NumPy.
"""

from __future__ import annotations

from math import pi, sqrt

import numpy as np

from gradtape.backends.llvm.kernels import math_calls as functions
from gradtape.backends.llvm.kernels.code import Code, kind_of
from gradtape.backends.llvm.kernels.element_code import Formula, computes_in, lane, predicate
from gradtape.backends.llvm.kernels.joining import sum_of_paddings
from gradtape.backends.llvm.kernels.math_calls import MathFunction
from gradtape.backends.llvm.planning.lowering import Lowering
from gradtape.backends.llvm.writing.element_types import is_finite_literal
from gradtape.backends.llvm.writing.ir_text import Writer
from gradtape.core.opdef import Op
from gradtape.ir.graph import Operation
from gradtape.ops import activations, compare, composite, elementwise, select, special
from gradtape.ops.activations import SELU_ALPHA, SELU_SCALE
from gradtape.ops.losses import SIGMOID_CROSS_ENTROPY
from gradtape.ops.random import REPARAMETERIZED_GAMMA
from gradtape.ops.staged import MASKED_MULTIPLY
from gradtape.passes.inplace import ARITHMETIC


def add(c: Code, a: str, b: str) -> str:
    """The sum; of truth values, whether one is true."""
    return c.either(a, b) if c.type == "i1" else c.add(a, b)


def multiply(c: Code, a: str, b: str) -> str:
    """The product; of truth values, whether both are true."""
    return c.both(a, b) if c.type == "i1" else c.multiply(a, b)


def maximum(c: Code, a: str, b: str) -> str:
    """The larger one."""
    if not c.floating:
        return c.call("smax" if c.signed else "umax", a, b)
    # b if both are equal, as NumPy; NaN if one of them is
    return c.select(c.is_nan(a), a, c.select(c.compare("gt", a, b), a, b))


def minimum(c: Code, a: str, b: str) -> str:
    """The smaller one."""
    if not c.floating:
        return c.call("smin" if c.signed else "umin", a, b)
    return c.select(c.is_nan(a), a, c.select(c.compare("lt", a, b), a, b))


def relu(c: Code, x: str) -> str:
    """max(x, 0)."""
    zero = c.number(0)
    return c.select(c.let(f"fcmp ugt {c.type} {x}, {zero}"), x, zero) if c.floating else maximum(c, x, zero)


def masked_multiply(c: Code, x: str, y: str) -> str:
    """x · y, without what a lane of zeros would make of NaN."""
    if not c.floating:
        return c.multiply(x, y)
    if not y.startswith("%") and is_finite_literal(y):
        return c.multiply(x, y)
    if c.alone or not y.startswith("%"):
        # x · y', y' = 0 where x = 0 and y is not finite: that product is x, where the one of x and y is NaN
        product = c.multiply(x, y)
        if not c.alone:
            return _masked_product(c, x, y, product)
        # with a branch that is hardly ever taken, nothing waits for the choice
        w, name = c.writer, f"gt.careful.{c.suffix}"
        careful = w.module.library(name, lambda: _careful_product(c, name))
        before, slow, after = w.current, w.label("slow"), w.label("after")
        w.branch(c.is_nan(product), slow, after, f", !prof {c.scope.program.unlikely()}")
        w.start(slow)
        masked = c.let(f"call {c.type} {careful}({c.type} {x}, {c.type} {y})")
        w.go(after)
        w.start(after)
        return c.let(f"phi {c.type} [ {product}, %{before} ], [ {masked}, %{slow} ]")
    # x · y', y' having only the sign of y where x = 0: the same zero for a finite y, and a zero for all others, in less time
    f = c.real(y).format
    mask = c.let(f"select i1 {c.compare('ne', x, c.number(0))}, {f.whole} -1, {f.whole} {-(1 << (f.bits - 1))}")
    cleaned = c.let(f"and {f.whole} {c.real(y).as_bits().register}, {mask}")
    return c.multiply(x, c.let(f"bitcast {f.whole} {cleaned} to {f.type}"))


def _masked_product(c: Code, x: str, y: str, product: str) -> str:
    return c.select(c.both(c.compare("eq", x, c.number(0)), c.opposite(c.finite(y))), x, product)


def _careful_product(c: Code, name: str) -> str:
    """The function for a product that is NaN: hundreds of them in a long program share it, as it hardly ever runs."""
    w = Writer(c.writer.module, name, f"{c.type} %x, {c.type} %y", f"internal {c.type}", "noinline cold nounwind")
    apart = Code(w, c.dtype, {})
    w.do(f"ret {c.type} {_masked_product(apart, '%x', '%y', apart.multiply('%x', '%y'))}")
    return w.text


def absolute(c: Code, x: str) -> str:
    """|x|."""
    if c.floating:
        return c.call("fabs", x)
    return c.let(f"call {c.type} @llvm.abs.{c.type}({c.type} {x}, i1 false)") if c.signed else x


def sign(c: Code, x: str) -> str:
    """-1, 0 or 1."""
    above = c.select(c.compare("gt", x, c.number(0)), c.number(1), c.number(0))
    if not c.floating and not c.signed:
        return above
    number = c.select(c.compare("lt", x, c.number(0)), c.number(-1), above)
    return c.select(c.is_nan(x), x, number) if c.floating else number


def sign_bit(c: Code, x: str) -> str:
    """Whether the sign is set, also of zeros and NaN."""
    if c.floating:
        return c.compare("lt", c.call("copysign", c.number(1), x), c.number(0))
    return c.compare("lt", x, "0") if c.signed else "false"


def rounding(name: str) -> Formula:
    """A function to whole numbers; integers are already there."""
    return lambda c, x: c.call(name, x) if c.floating else x


def power(c: Code, x: str) -> str:
    """x to a power known when the program is made: small whole and half ones by multiplication and a root."""
    exponent = c.attrs["exponent"]
    whole = int(exponent) if float(exponent).is_integer() and abs(exponent) < 2**63 else None
    if whole is not None and (not c.floating or -3 <= whole <= 6):
        return _whole_power(c, c.divide(c.number(1), x) if whole < 0 else x, abs(whole))
    if exponent == 0.5:  # NumPy takes the root too
        return c.sqrt(x)
    if abs(exponent) in (0.5, 1.5, 2.5):
        size, root = c.call("fabs", x), c.call("fabs", c.sqrt(x))  # of negative numbers NaN
        part = _whole_power(c, c.divide(c.number(1), size) if exponent < 0 else size, int(abs(exponent)))
        result = c.divide(part, root) if exponent < 0 else c.multiply(part, root)
        least = c.compare("eq", x, c.number(-np.inf))
        return c.select(least, c.number(np.inf if exponent > 0 else 0.0), result)
    return c.math(functions.POW, x, c.number(exponent))


def _whole_power(c: Code, base: str, exponent: int) -> str:
    product = None
    while exponent:
        if exponent & 1:
            product = base if product is None else c.multiply(product, base)
        exponent >>= 1
        base = c.multiply(base, base) if exponent else base
    return c.number(1) if product is None else product


def step(c: Code, x: str) -> str:
    """1 where x is positive, else 0."""
    return c.select(c.compare("gt", x, c.number(0)), c.number(1), c.number(0))


# -- activations ---------------------------------------------------------------------------------------------------------


def sigmoid(c: Code, x: str) -> str:
    """1 / (1 + e⁻ˣ); of negative numbers eˣ / (1 + eˣ), since e⁻ˣ overflows before eˣ underflows."""
    one = c.number(1)
    small = c.math(functions.EXP, c.negative(c.call("fabs", x)))
    return c.divide(c.select(c.compare("lt", x, c.number(0)), small, one), c.add(one, small))


def _log_tail(c: Code, x: str) -> str:
    """log(1 + e^-|x|)."""
    return c.math(functions.LOG1P, c.math(functions.EXP, c.negative(c.call("fabs", x))))


def softplus(c: Code, x: str) -> str:
    """log(1 + eˣ)."""
    return c.add(relu(c, x), _log_tail(c, x))


def sigmoid_cross_entropy(c: Code, labels: str, logits: str) -> str:
    """-z·log σ(x) - (1 - z)·log(1 - σ(x))."""
    product = c.let(f"fmul {c.type} {logits}, {labels}")  # not fused: for labels near 1 the difference is all rounding
    return c.add(c.subtract(relu(c, logits), product), _log_tail(c, logits))


def relu6(c: Code, x: str) -> str:
    """min(max(x, 0), 6)."""
    return minimum(c, relu(c, x), c.number(6))


def leaky_relu(c: Code, x: str) -> str:
    """x, and alpha · x below 0."""
    return c.select(c.compare("gt", x, c.number(0)), x, c.multiply(x, c.number(c.attrs["alpha"])))


def elu(c: Code, x: str) -> str:
    """x, and eˣ - 1 below 0."""
    return c.select(c.compare("gt", x, c.number(0)), x, c.math(functions.EXPM1, minimum(c, x, c.number(0))))


def selu(c: Code, x: str) -> str:
    """The elu, scaled."""
    below = c.multiply(c.math(functions.EXPM1, minimum(c, x, c.number(0))), c.number(SELU_ALPHA))
    return c.select(c.compare("gt", x, c.number(0)), c.multiply(x, c.number(SELU_SCALE)), below)


def gelu(c: Code, x: str) -> str:
    """x · Φ(x)."""
    if not c.attrs["approximate"]:
        return c.multiply(x, c.math(functions.NDTR, x))
    cubic = c.multiply(c.multiply(c.multiply(x, x), x), c.number(0.044715))
    t = c.math(functions.TANH, c.multiply(c.add(x, cubic), c.number(sqrt(2.0 / pi))))
    return c.multiply(c.multiply(c.add(t, c.number(1)), x), c.number(0.5))


# -- zero by definition ----------------------------------------------------------------------------------------------------


def zero_where(c: Code, switch: str, value: str) -> str:
    """0 where the switch is 0."""
    return c.select(c.compare("eq", switch, c.number(0)), c.number(0), value)


# -- predicates ------------------------------------------------------------------------------------------------------------


def is_inf(c: Code, x: str) -> str:
    """Whether a number is infinite."""
    return c.let(f"fcmp oeq {c.type} {c.call('fabs', x)}, {c.number(np.inf)}") if c.floating else "false"


def is_close(c: Code, x: str, y: str) -> str:
    """|x - y| ≤ atol + rtol·|y|."""
    # in this order and without fusing, so that the limit itself is where NumPy has it
    size = c.call("fabs", y)
    limit = c.let(f"fmul {c.type} {c.number(c.attrs['rtol'])}, {size}")
    limit = c.let(f"fadd {c.type} {c.number(c.attrs['atol'])}, {limit}")
    gap = c.call("fabs", c.let(f"fsub {c.type} {x}, {y}"))
    near = c.both(c.compare("le", gap, limit), c.finite(y))
    return c.either(near, c.compare("eq", x, y))


def nextafter(c: Code, x: str, y: str) -> str:
    """One step in the order of bits: away from zero if y is further out on the same side."""
    whole = {"float": "i32", "double": "i64"}[c.type]
    bits, other = c.let(f"bitcast {c.type} {x} to {whole}"), c.let(f"bitcast {c.type} {y} to {whole}")
    outward = c.either(
        c.both(c.compare("gt", x, c.number(0)), c.compare("gt", y, x)),
        c.both(c.compare("lt", x, c.number(0)), c.compare("lt", y, x)),
    )
    moved = c.let(f"add {whole} {bits}, {c.let(f'select i1 {outward}, {whole} 1, {whole} -1')}")
    least = c.let(f"or {whole} {c.let(f'and {whole} {other}, {-(2 ** (int(whole[1:]) - 1))}')}, 1")  # of the sign of y
    moved = c.let(f"select i1 {c.compare('eq', x, c.number(0))}, {whole} {least}, {whole} {moved}")
    number = c.select(c.compare("eq", x, y), y, c.let(f"bitcast {whole} {moved} to {c.type}"))
    return c.select(c.let(f"fcmp uno {c.type} {x}, {y}"), c.let(f"fadd {c.type} {x}, {y}"), number)


def _compare(how: str) -> Lowering:
    return predicate(lambda c, x, y: c.compare(how, x, y), "fiub")


def _function(function: MathFunction, cost: int = 20) -> Lowering:
    return lane(lambda c, *xs: c.math(function, *xs), "f", cost)


def _divides(operation: Operation) -> bool:
    """The quotient of integers is that of floating-point numbers."""
    result, given = operation.result.type.dtype, [v.type.dtype for v in operation.operands]
    return kind_of(result) == "f" and (not any(kind_of(d) == "f" for d in given) or computes_in(result, given))


def _powers(operation: Operation) -> bool:
    """Of integers only whole powers that are not negative."""
    result, exponent = operation.result.type.dtype, operation.attrs["exponent"]
    if kind_of(result) == "f":
        return computes_in(result, [operation.operands[0].type.dtype])
    return kind_of(result) in "iu" and isinstance(exponent, int) and exponent >= 0


_ADD, _SUBTRACT, _MULTIPLY = lane(add, "fiub", rewrite=sum_of_paddings), lane(Code.subtract, "fiu"), lane(multiply, "fiub")

LOWERINGS: dict[Op, Lowering] = {
    elementwise.ADD: _ADD,
    elementwise.SUBTRACT: _SUBTRACT,
    elementwise.MULTIPLY: _MULTIPLY,
    # where these get their memory is the planner's to say, as it is for the ops they stand for
    ARITHMETIC[elementwise.ADD]: _ADD,
    ARITHMETIC[elementwise.SUBTRACT]: _SUBTRACT,
    ARITHMETIC[elementwise.MULTIPLY]: _MULTIPLY,
    elementwise.DIVIDE: lane(Code.divide, "f", 4, accepts=_divides),
    elementwise.NEGATIVE: lane(Code.negative, "fiu"),
    elementwise.SQUARE: lane(lambda c, x: multiply(c, x, x), "fiub"),
    elementwise.SQRT: lane(Code.sqrt, "f", 5),
    elementwise.RSQRT: lane(lambda c, x: c.divide(c.number(1), c.sqrt(x)), "f", 6),
    elementwise.RECIPROCAL: lane(lambda c, x: c.divide(c.number(1), x), "f", 4),
    elementwise.ABS: lane(absolute, "fiub"),
    elementwise.SIGN: lane(sign, "fiu"),
    select.MAXIMUM: lane(maximum, "fiub"),
    select.MINIMUM: lane(minimum, "fiub"),
    select.FLOOR: lane(rounding("floor"), "fiub"),
    select.CEIL: lane(rounding("ceil"), "fiub"),
    select.ROUND: lane(rounding("roundeven"), "fiu"),
    elementwise.POWER: lane(power, "fiu", 4, accepts=_powers),
    MASKED_MULTIPLY: lane(masked_multiply, "fiu"),
    elementwise.REAL: lane(lambda c, x: x, "fiub"),
    elementwise.CONJ: lane(lambda c, x: x, "fiu"),
    elementwise.IMAG: lane(lambda c, x: c.number(0), "fiub"),
    composite.ANGLE: lane(lambda c, x: c.select(c.compare("lt", x, c.number(0)), c.number(pi), c.number(0)), "f"),
    composite.NEXTAFTER: lane(nextafter, "f"),
    REPARAMETERIZED_GAMMA: lane(lambda c, alpha, z: z, "fiu"),
    # functions
    elementwise.EXP: _function(functions.EXP),
    elementwise.EXPM1: _function(functions.EXPM1),
    elementwise.LOG: _function(functions.LOG),
    elementwise.LOG1P: _function(functions.LOG1P),
    elementwise.SIN: _function(functions.SIN),
    elementwise.COS: _function(functions.COS),
    elementwise.TAN: _function(functions.TAN),
    elementwise.ASIN: _function(functions.ASIN),
    elementwise.ACOS: _function(functions.ACOS),
    elementwise.ATAN: _function(functions.ATAN),
    elementwise.ATAN2: _function(functions.ATAN2, 25),
    elementwise.SINH: _function(functions.SINH),
    elementwise.COSH: _function(functions.COSH),
    elementwise.TANH: _function(functions.TANH),
    elementwise.ASINH: _function(functions.ASINH),
    elementwise.ACOSH: _function(functions.ACOSH),
    elementwise.ATANH: _function(functions.ATANH),
    special.ERF: _function(functions.ERF),
    special.ERFC: _function(functions.ERFC),
    special.NDTR: _function(functions.NDTR),
    special.LGAMMA: _function(functions.LGAMMA, 60),
    special.DIGAMMA: _function(functions.DIGAMMA, 60),
    special.ERFINV: _function(functions.ERFINV, 50),
    special.ERFCINV: _function(functions.ERFCINV, 50),
    special.NDTRI: _function(functions.NDTRI, 50),
    # activations
    activations.STEP: lane(step, "fiu"),
    activations.SIGMOID: lane(sigmoid, "f", 20),
    activations.SOFTPLUS: lane(softplus, "f", 30),
    SIGMOID_CROSS_ENTROPY: lane(sigmoid_cross_entropy, "f", 30),
    activations.RELU: lane(relu, "fiu"),
    activations.RELU6: lane(relu6, "fiu"),
    activations.LEAKY_RELU: lane(leaky_relu, "f"),
    activations.ELU: lane(elu, "f", 20),
    activations.SELU: lane(selu, "f", 20),
    activations.GELU: lane(gelu, "f", 30),
    # zero by definition
    composite.DIVIDE_NO_NAN: lane(lambda c, x, y: zero_where(c, y, c.divide(x, y)), "f", 4),
    composite.MULTIPLY_NO_NAN: lane(lambda c, x, y: zero_where(c, y, c.multiply(x, y)), "f"),
    composite.XLOGY: lane(lambda c, x, y: zero_where(c, x, c.multiply(x, c.math(functions.LOG, y))), "f", 20),
    composite.XLOG1PY: lane(lambda c, x, y: zero_where(c, x, c.multiply(x, c.math(functions.LOG1P, y))), "f", 20),
    composite.XDIVY: lane(lambda c, x, y: zero_where(c, x, c.divide(x, y)), "f", 4),
    # predicates
    compare.EQUAL: _compare("eq"),
    compare.NOT_EQUAL: _compare("ne"),
    compare.LESS: _compare("lt"),
    compare.LESS_EQUAL: _compare("le"),
    compare.GREATER: _compare("gt"),
    compare.GREATER_EQUAL: _compare("ge"),
    compare.IS_NAN: predicate(lambda c, x: c.is_nan(x) if c.floating else "false", "fiub"),
    compare.IS_INF: predicate(is_inf, "fiub"),
    compare.IS_FINITE: predicate(lambda c, x: c.finite(x) if c.floating else "true", "fiub"),
    compare.SIGN_BIT: predicate(sign_bit, "fiu"),
    compare.IS_CLOSE: predicate(is_close, "f", floating=True),
    compare.LOGICAL_AND: predicate(lambda c, x, y: c.both(c.true(x), c.true(y)), "fiub"),
    compare.LOGICAL_OR: predicate(lambda c, x, y: c.either(c.true(x), c.true(y)), "fiub"),
    compare.LOGICAL_XOR: predicate(lambda c, x, y: c.let(f"xor i1 {c.true(x)}, {c.true(y)}"), "fiub"),
    compare.LOGICAL_NOT: predicate(lambda c, x: c.opposite(c.true(x)), "fiub"),
}
