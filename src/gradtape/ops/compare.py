"""Comparisons, predicates and logic: no derivative, boolean results."""

from __future__ import annotations

import numpy as np

from gradtape.core import batching, inference
from gradtape.core.dispatch import apply, convert
from gradtape.core.forms import binary, unary
from gradtape.core.opdef import Cost, Op, Rule, Sample, nondiff
from gradtape.core.tensor import Tensor
from gradtape.core.typing import TensorLike
from gradtape.ops.sampling import normal

_REASON = "a comparison is constant almost everywhere"


def _compare(name: str, impl: Rule) -> Op:
    return nondiff(
        name, "x y", impl, infer=inference.predicate, reason=_REASON, batch=batching.elementwise, cost=Cost.LIGHT,
        samples=lambda: [Sample(normal(3, 2), normal(2)), Sample(np.arange(3), 1), Sample(normal(), 0.0)],
    )  # fmt: skip


def _predicate(name: str, impl: Rule) -> Op:
    return nondiff(
        name, "x", impl, infer=inference.predicate, reason=_REASON, batch=batching.elementwise, cost=Cost.LIGHT,
        samples=lambda: [Sample(np.array([1.0, np.nan, np.inf, -np.inf])), Sample(normal())],
    )  # fmt: skip


def _logic(name: str, args: str, impl: Rule) -> Op:
    count = len(args.split())
    return nondiff(
        name, args, impl, infer=inference.predicate, reason="logic has no derivative", batch=batching.elementwise,
        cost=Cost.LIGHT, samples=lambda: [Sample(*(normal(3) > 0 for _ in range(count))), Sample(*([np.True_] * count))],
    )  # fmt: skip


EQUAL = _compare("equal", np.equal)
NOT_EQUAL = _compare("not_equal", np.not_equal)
LESS = _compare("less", np.less)
LESS_EQUAL = _compare("less_equal", np.less_equal)
GREATER = _compare("greater", np.greater)
GREATER_EQUAL = _compare("greater_equal", np.greater_equal)
IS_NAN = _predicate("is_nan", np.isnan)
IS_INF = _predicate("is_inf", np.isinf)
IS_FINITE = _predicate("is_finite", np.isfinite)
SIGN_BIT = _predicate("sign_bit", np.signbit)
LOGICAL_AND = _logic("logical_and", "x y", np.logical_and)
LOGICAL_OR = _logic("logical_or", "x y", np.logical_or)
LOGICAL_XOR = _logic("logical_xor", "x y", np.logical_xor)
LOGICAL_NOT = _logic("logical_not", "x", np.logical_not)

equal = binary(EQUAL, "Whether x = y, element by element.")
not_equal = binary(NOT_EQUAL, "Whether x ≠ y, element by element.")
less = binary(LESS, "Whether x < y, element by element.")
less_equal = binary(LESS_EQUAL, "Whether x <= y, element by element.")
greater = binary(GREATER, "Whether x > y, element by element.")
greater_equal = binary(GREATER_EQUAL, "Whether x >= y, element by element.")
is_nan = unary(IS_NAN, "Whether each element is NaN.")
is_inf = unary(IS_INF, "Whether each element is infinite, of either sign.")
is_finite = unary(IS_FINITE, "Whether each element is neither infinite nor NaN.")
sign_bit = unary(SIGN_BIT, "Whether the sign is set: of negative numbers, and of -0.0.")
logical_and = binary(LOGICAL_AND, "Whether both are true.")
logical_or = binary(LOGICAL_OR, "Whether at least one is true.")
logical_xor = binary(LOGICAL_XOR, "Whether exactly one is true.")
logical_not = unary(LOGICAL_NOT, "Whether it is false.")


def _bitwise(name: str, args: str, impl: Rule) -> Op:
    count = len(args.split())
    return nondiff(
        name, args, impl, infer=inference.elementwise, reason="bits have no derivative", batch=batching.elementwise,
        cost=Cost.LIGHT, samples=lambda: [Sample(*(np.array([1, 6, 3]) for _ in range(count)))],
    )  # fmt: skip


BITWISE_AND = _bitwise("bitwise_and", "x y", np.bitwise_and)
BITWISE_OR = _bitwise("bitwise_or", "x y", np.bitwise_or)
BITWISE_XOR = _bitwise("bitwise_xor", "x y", np.bitwise_xor)
LEFT_SHIFT = _bitwise("left_shift", "x y", np.left_shift)
RIGHT_SHIFT = _bitwise("right_shift", "x y", np.right_shift)
INVERT = _bitwise("invert", "x", np.invert)
bitwise_and = binary(BITWISE_AND, "Bits set in both integers.")
bitwise_or = binary(BITWISE_OR, "Bits set in either integer.")
bitwise_xor = binary(BITWISE_XOR, "Bits set in exactly one of the integers.")
left_shift = binary(LEFT_SHIFT, "x shifted left by y bits.")
right_shift = binary(RIGHT_SHIFT, "x shifted right by y bits, keeping the sign.")
invert = unary(INVERT, "All bits of an integer flipped.")


def is_close(x: TensorLike, y: TensorLike, rtol: float = 1e-5, atol: float = 1e-8) -> Tensor:
    """|x - y| <= atol + rtol·|y|, lane by lane."""
    x, y = convert(x), convert(y)
    return apply(IS_CLOSE, x, y, rtol=rtol, atol=atol)


IS_CLOSE = nondiff(
    "is_close", "x y",
    lambda x, y, *, rtol, atol: np.isclose(x, y, rtol, atol),
    infer=inference.predicate, reason=_REASON, batch=batching.elementwise,
    samples=lambda: [Sample(normal(3), normal(3))],
)  # fmt: skip

OPS = (
    EQUAL, NOT_EQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, IS_NAN, IS_INF, IS_FINITE, SIGN_BIT, LOGICAL_AND, LOGICAL_OR,
    LOGICAL_XOR, LOGICAL_NOT, BITWISE_AND, BITWISE_OR, BITWISE_XOR, LEFT_SHIFT, RIGHT_SHIFT, INVERT, IS_CLOSE,
)  # fmt: skip
__all__ = [
    "equal", "greater", "greater_equal", "is_finite", "is_inf", "is_nan", "less", "less_equal", "logical_and", "logical_not",
    "logical_or", "logical_xor", "not_equal",
]  # fmt: skip
