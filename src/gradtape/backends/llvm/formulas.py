"""Formulas of element operations on numbers: arithmetic, comparisons, activations.

A formula writes the result from operands of one dtype, branch-free. Division of integers, shifts and bits are in `integers.py`.
Nothing is assumed about values: NaN, infinities and signed zeros are as in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi, sqrt

import numpy as np

from gradtape.backends.llvm.code import Code
from gradtape.ops.activations import SELU_ALPHA, SELU_SCALE

Formula = Callable[..., str]  # (code, *registers) → register


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
    if c.alone or not y.startswith("%"):
        # x · y', y' = 0 where x = 0 and y is not finite: that product is x, where the one of x and y is NaN
        w, product = c.writer, c.multiply(x, y)
        if not c.alone:
            return c.select(c.both(c.compare("eq", x, c.number(0)), c.opposite(c.finite(y))), x, product)
        found = w.cell(c.type)  # with a branch that is hardly ever taken, nothing waits for the choice
        w.store(c.type, product, found)
        with w.when(c.let(f"fcmp uno {c.type} {product}, {product}"), f", !prof {c.scope.program.unlikely()}"):
            masked = c.both(c.compare("eq", x, c.number(0)), c.opposite(c.finite(y)))
            w.store(c.type, c.select(masked, x, product), found)
        return w.load(c.type, found)
    # x · y', y' having only the sign of y where x = 0: the same zero for a finite y, and a zero for all others, in less time
    f = c.real(y).format
    mask = c.let(f"select i1 {c.compare('ne', x, c.number(0))}, {f.whole} -1, {f.whole} {-(1 << (f.bits - 1))}")
    cleaned = c.let(f"and {f.whole} {c.real(y).as_bits().register}, {mask}")
    return c.multiply(x, c.let(f"bitcast {f.whole} {cleaned} to {f.type}"))


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
    found = c.select(c.compare("lt", x, c.number(0)), c.number(-1), above)
    return c.select(c.is_nan(x), x, found) if c.floating else found


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
        return c.call("sqrt", x)
    if abs(exponent) in (0.5, 1.5, 2.5):
        size, root = c.call("fabs", x), c.call("fabs", c.call("sqrt", x))  # of negative numbers NaN
        part = _whole_power(c, c.divide(c.number(1), size) if exponent < 0 else size, int(abs(exponent)))
        found = c.divide(part, root) if exponent < 0 else c.multiply(part, root)
        least = c.compare("eq", x, c.number(-np.inf))
        return c.select(least, c.number(np.inf if exponent > 0 else 0.0), found)
    return c.math("pow", x, c.number(exponent))


def _whole_power(c: Code, base: str, exponent: int) -> str:
    found = None
    while exponent:
        if exponent & 1:
            found = base if found is None else c.multiply(found, base)
        exponent >>= 1
        base = c.multiply(base, base) if exponent else base
    return c.number(1) if found is None else found


def step(c: Code, x: str) -> str:
    """1 where x is positive, else 0."""
    return c.select(c.compare("gt", x, c.number(0)), c.number(1), c.number(0))


# -- activations ---------------------------------------------------------------------------------------------------------


def sigmoid(c: Code, x: str) -> str:
    """1 / (1 + e⁻ˣ); of negative numbers eˣ / (1 + eˣ), since e⁻ˣ overflows before eˣ underflows."""
    one = c.number(1)
    small = c.math("exp", c.negative(c.call("fabs", x)))
    return c.divide(c.select(c.compare("lt", x, c.number(0)), small, one), c.add(one, small))


def _log_tail(c: Code, x: str) -> str:
    """log(1 + e^-|x|)."""
    return c.math("log1p", c.math("exp", c.negative(c.call("fabs", x))))


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
    return c.select(c.compare("gt", x, c.number(0)), x, c.math("expm1", minimum(c, x, c.number(0))))


def selu(c: Code, x: str) -> str:
    """The elu, scaled."""
    below = c.multiply(c.math("expm1", minimum(c, x, c.number(0))), c.number(SELU_ALPHA))
    return c.select(c.compare("gt", x, c.number(0)), c.multiply(x, c.number(SELU_SCALE)), below)


def gelu(c: Code, x: str) -> str:
    """x · Φ(x)."""
    if not c.attrs["approximate"]:
        return c.multiply(x, c.math("ndtr", x))
    cubic = c.multiply(c.multiply(c.multiply(x, x), x), c.number(0.044715))
    t = c.math("tanh", c.multiply(c.add(x, cubic), c.number(sqrt(2.0 / pi))))
    return c.multiply(c.multiply(c.add(t, c.number(1)), x), c.number(0.5))


# -- zero by definition ----------------------------------------------------------------------------------------------------


def zero_where(c: Code, switch: str, value: str) -> str:
    """0 where the switch is 0."""
    return c.select(c.compare("eq", switch, c.number(0)), c.number(0), value)


# -- predicates ------------------------------------------------------------------------------------------------------------


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
    found = c.select(c.compare("eq", x, y), y, c.let(f"bitcast {whole} {moved} to {c.type}"))
    return c.select(c.let(f"fcmp uno {c.type} {x}, {y}"), c.let(f"fadd {c.type} {x}, {y}"), found)


MATH = (
    "exp", "expm1", "log", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh",
    "atanh", "erf", "erfc", "ndtr", "lgamma", "digamma", "erfinv", "erfcinv", "ndtri",
)  # fmt: skip
COMPARISONS = {"equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge"}

# name: (formula, the kinds of dtype it holds for: floating, signed, unsigned, bool)
FORMULAS: dict[str, tuple[Formula, str]] = {
    "add": (add, "fiub"),
    "subtract": (Code.subtract, "fiu"),
    "multiply": (multiply, "fiub"),
    "divide": (Code.divide, "f"),
    "negative": (Code.negative, "fiu"),
    "square": (lambda c, x: multiply(c, x, x), "fiub"),
    "sqrt": (lambda c, x: c.call("sqrt", x), "f"),
    "rsqrt": (lambda c, x: c.divide(c.number(1), c.call("sqrt", x)), "f"),
    "reciprocal": (lambda c, x: c.divide(c.number(1), x), "f"),
    "abs": (absolute, "fiub"),
    "sign": (sign, "fiu"),
    "maximum": (maximum, "fiub"),
    "minimum": (minimum, "fiub"),
    "floor": (rounding("floor"), "fiub"),
    "ceil": (rounding("ceil"), "fiub"),
    "round": (rounding("roundeven"), "fiu"),
    "power": (power, "fiu"),
    "atan2": (lambda c, x, y: c.math("atan2", x, y), "f"),
    "masked_multiply": (masked_multiply, "fiu"),
    "step": (step, "fiu"),
    "sigmoid": (sigmoid, "f"),
    "softplus": (softplus, "f"),
    "sigmoid_cross_entropy": (sigmoid_cross_entropy, "f"),
    "relu": (relu, "fiu"),
    "relu6": (relu6, "fiu"),
    "leaky_relu": (leaky_relu, "f"),
    "elu": (elu, "f"),
    "selu": (selu, "f"),
    "gelu": (gelu, "f"),
    "divide_no_nan": (lambda c, x, y: zero_where(c, y, c.divide(x, y)), "f"),
    "multiply_no_nan": (lambda c, x, y: zero_where(c, y, c.multiply(x, y)), "f"),
    "xlogy": (lambda c, x, y: zero_where(c, x, c.multiply(x, c.math("log", y))), "f"),
    "xlog1py": (lambda c, x, y: zero_where(c, x, c.multiply(x, c.math("log1p", y))), "f"),
    "xdivy": (lambda c, x, y: zero_where(c, x, c.divide(x, y)), "f"),
    "nextafter": (nextafter, "f"),
    "reparameterized_gamma": (lambda c, alpha, z: z, "fiu"),
    "real": (lambda c, x: x, "fiub"),
    "conj": (lambda c, x: x, "fiu"),
    "imag": (lambda c, x: c.number(0), "fiub"),
    "angle": (lambda c, x: c.select(c.compare("lt", x, c.number(0)), c.number(pi), c.number(0)), "f"),
    **{name: ((lambda c, x, name=name: c.math(name, x)), "f") for name in MATH},
    # where these get their memory is the planner's to say, as it is for the ops they stand for
    "add_into": (add, "fiub"),
    "subtract_into": (Code.subtract, "fiu"),
    "multiply_into": (multiply, "fiub"),
}
PREDICATES: dict[str, tuple[Formula, str]] = {
    **{name: ((lambda c, x, y, how=how: c.compare(how, x, y)), "fiub") for name, how in COMPARISONS.items()},
    "is_nan": (lambda c, x: c.is_nan(x) if c.floating else "false", "fiub"),
    "is_inf": (
        lambda c, x: c.let(f"fcmp oeq {c.type} {c.call('fabs', x)}, {c.number(np.inf)}") if c.floating else "false",
        "fiub",
    ),
    "is_finite": (lambda c, x: c.finite(x) if c.floating else "true", "fiub"),
    "sign_bit": (sign_bit, "fiu"),
    "is_close": (is_close, "f"),
    "logical_and": (lambda c, x, y: c.both(c.true(x), c.true(y)), "fiub"),
    "logical_or": (lambda c, x, y: c.either(c.true(x), c.true(y)), "fiub"),
    "logical_xor": (lambda c, x, y: c.let(f"xor i1 {c.true(x)}, {c.true(y)}"), "fiub"),
    "logical_not": (lambda c, x: c.opposite(c.true(x)), "fiub"),
}
COSTS = dict.fromkeys(MATH, 20) | {
    "lgamma": 60, "digamma": 60, "erfinv": 50, "erfcinv": 50, "ndtri": 50,
    "pow": 30, "atan2": 25, "gelu": 30, "sigmoid": 20, "softplus": 30, "sigmoid_cross_entropy": 30,
    "elu": 20, "selu": 20, "xlogy": 20, "xlog1py": 20, "divide": 4, "sqrt": 5, "rsqrt": 6, "reciprocal": 4, "power": 4,
    "divide_no_nan": 4, "xdivy": 4,
}  # fmt: skip
