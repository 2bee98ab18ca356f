"""Lane-wise choice and rounding: where, maximum, minimum, clip, floor, mod.

At a tie `maximum` and `minimum` give the whole cotangent to x, as TensorFlow does (any convex split is a subgradient).
"""

from __future__ import annotations

import math

import numpy as np

from gradtape.core import batching, inference
from gradtape.core.dispatch import apply, convert, promote
from gradtape.core.forms import binary, unary
from gradtape.core.opdef import Cost, Fails, Op, Rule, Sample, composite, elementwise, general, nondiff
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Array, Number, TensorLike
from gradtape.errors import InvalidArgumentError
from gradtape.ir.types import TensorSpec
from gradtape.ops.sampling import away, normal, positive, spread

# -- where ---------------------------------------------------------------------------------------------------------


def _where_spec(condition: TensorSpec, x: TensorSpec, y: TensorSpec) -> TensorSpec:
    spec = inference.elementwise(x, y)
    return TensorSpec(inference.broadcast_shapes(condition.shape, spec.shape), spec.dtype)


def where(condition: TensorLike, x: TensorLike | None = None, y: TensorLike | None = None, name: str | None = None) -> Tensor:
    """`x` where the condition holds, else `y`; with one argument, the indices of the true elements.

    The lane that was not chosen gets no gradient, not even a NaN from its own computation.

    >>> gt.where([True, False], [1.0, 2.0], 0.0).numpy()
    array([1., 0.], dtype=float32)
    """
    if x is None and y is None:
        return apply(WHERE_TRUE, convert(condition))
    if x is None or y is None:
        raise InvalidArgumentError("where() takes both x and y, or neither (then it returns indices)")
    x, y = promote(x, y)
    return apply(WHERE, convert(condition), x, y)


def _where_impl(condition: Array, x: Array, y: Array) -> Array:
    out = np.where(condition, x, y)
    return out if out.ndim else out[()]


# the unchosen lane gets an exact zero: select, never multiply
WHERE = general(
    "where", "condition x y", _where_impl,
    vjps=(
        None,
        lambda ct, condition, x_spec: unbroadcast(select_ct(condition, ct, True), x_spec.shape),
        lambda ct, condition, y_spec: unbroadcast(select_ct(condition, ct, False), y_spec.shape),
    ),
    jvps=(
        None,
        lambda t, condition, out_spec: broadcast_to(select_ct(condition, t, True), out_spec.shape),
        lambda t, condition, out_spec: broadcast_to(select_ct(condition, t, False), out_spec.shape),
    ),
    infer=_where_spec, batch=batching.elementwise, cost=Cost.CHEAP,
    samples=lambda: [
        Sample(np.array([True, False, True]), normal(3), normal(3)),
        Sample(np.array([[True], [False]]), normal(3), normal(2, 1)),
        Sample(np.array(True), normal(2), 0.0),
        Sample(np.ones(0, bool), normal(0), normal(0)),
        Sample(np.array([True]), normal(1), None, raises=(ValueError, "both x and y")),
    ],
)  # fmt: skip
WHERE_TRUE = nondiff(
    "where_true", "condition",
    lambda condition: np.argwhere(condition).astype(np.int64),
    infer=lambda condition: TensorSpec((None, condition.ndim), "int64"),
    reason="indices have no derivative", batch=batching.looped, call=where,
    samples=lambda: [Sample(np.array([[True, False], [True, True]]))],
)  # fmt: skip


def select_ct(condition: Tensor, ct: Tensor, chosen: bool) -> Tensor:
    """ct on the lanes where the condition is `chosen`, an exact zero elsewhere."""
    return apply(WHERE, condition, ct, zeros_like(ct)) if chosen else apply(WHERE, condition, zeros_like(ct), ct)


# -- maximum and minimum -------------------------------------------------------------------------------------------


def _extremes() -> list[Sample]:
    x = spread(3, 2)
    return [
        Sample(x, -x[::-1]),
        Sample(spread(3), spread(2, 1) + 0.07),
        Sample(away(), away(0)),
        Sample(normal(2), normal(3), raises=(ValueError, "broadcast")),
    ]


# One of the two partials is 1 and the other 0, also at a tie; next to a NaN, which compares as false, both are 0.
MAXIMUM = elementwise(
    "maximum", "x y", np.maximum,
    lambda x, y: cast(x >= y, x.dtype),
    lambda x, y: cast(x < y, y.dtype),
    cost=Cost.CHEAP, samples=_extremes,
)  # fmt: skip
MINIMUM = elementwise(
    "minimum", "x y", np.minimum,
    lambda x, y: cast(x <= y, x.dtype),
    lambda x, y: cast(x > y, y.dtype),
    cost=Cost.CHEAP, samples=_extremes,
)  # fmt: skip
maximum = binary(MAXIMUM, "The larger of x and y, element by element; at a tie the gradient goes to x.")
minimum = binary(MINIMUM, "The smaller of x and y, element by element; at a tie the gradient goes to x.")


# -- rounding, integer division ------------------------------------------------------------------------------------


def _step(name: str, impl: Rule) -> Op:
    # piecewise constant: the derivative is 0, not missing
    return elementwise(
        name, "x", impl, lambda x: x * 0.0, samples=lambda: [Sample(away(3, 2) + 0.03), Sample(away()), Sample(away(0))]
    )


def _round_impl(x: Array) -> Array:
    return np.round(x) if x.dtype.kind != "b" else x  # NumPy makes float16 of booleans


FLOOR, CEIL, ROUND = _step("floor", np.floor), _step("ceil", np.ceil), _step("round", _round_impl)
floor = unary(FLOOR, "The largest whole number not above x; its derivative is 0.")
ceil = unary(CEIL, "The smallest whole number not below x; its derivative is 0.")
round = unary(ROUND, "The nearest whole number, halves to the even one; its derivative is 0.")
rint = round


def _floordiv_impl(x: Array, y: Array) -> Array:
    _check_divisor(y, "floordiv")
    out = x // y
    if out.dtype.kind != "f" or (np.isfinite(x).all() and np.isfinite(y).all()):
        return out
    # ⌊x / y⌋ at infinity, as in TensorFlow; NumPy pairs // with %, and says NaN for inf // 2 and -1 for 2 // -inf
    quotient = x / y
    return np.where(np.isinf(x) | np.isinf(y), np.floor(quotient), out).astype(out.dtype, copy=False)[()]


def _check_divisor(y: Array | Number, op: str) -> None:
    if isinstance(y, (bool, int, float, complex)) or y.dtype.kind not in "iub":
        return
    if y.dtype.kind == "b":
        raise TypeError(inference.NO_BOOLEANS)
    if not y.all():
        raise InvalidArgumentError(f"{op}: integer division by zero")


def _mod_impl(x: Array, y: Array) -> Array:
    _check_divisor(y, "mod")
    return x % y


def _quotients() -> list[Sample]:
    return [
        Sample(np.array([5.3, -2.2, 7.7]), np.array([2.0, 1.5, -3.0])),
        Sample(np.array([[5.3], [1.2]]), np.array([2.0, 0.7])),
        Sample(np.array(5.3), np.array(2.0)),
        Sample(normal(0), positive(0)),
        Sample(np.array([7, -7]), np.array([2, 2])),
        Sample(normal(2), positive(3), raises=(ValueError, "broadcast")),
        Sample(np.array([7, -7]), np.array([2, 0]), raises=(ValueError, "division by zero")),
    ]


FLOORDIV = elementwise(
    "floordiv", "x y", _floordiv_impl, lambda x: x * 0.0, lambda y: y * 0.0,
    infer=inference.numbers, weak=True, fails=Fails.INTEGERS, samples=_quotients,
)  # fmt: skip
# x mod y = x - y·floor(x/y)
MOD = elementwise(
    "mod", "x y", _mod_impl,
    1,
    lambda x, y: -floordiv(x, y),
    infer=inference.numbers, weak=True, fails=Fails.INTEGERS, samples=_quotients,
)  # fmt: skip
floordiv = binary(FLOORDIV, "x / y rounded down; its derivative is 0.")
mod = binary(MOD, "x - y · floor(x / y): the remainder with the sign of y.")


# -- composites ----------------------------------------------------------------------------------------------------


@composite(
    samples=lambda: [
        Sample(spread(3, 2), -0.31, 0.44),
        Sample(spread(4), np.array([-0.5, -0.4, 0.1, 0.2]), 0.77),
        Sample(spread(2), 1.0, -1.0, kinks=True),
    ]
)
def clip_by_value(t: TensorLike, clip_value_min: TensorLike, clip_value_max: TensorLike, name: str | None = None) -> Tensor:
    """`t` limited to [clip_value_min, clip_value_max]; elements at a limit keep their gradient.

    >>> gt.clip_by_value([-2.0, 0.5, 9.0], -1.0, 1.0).numpy()
    array([-1. ,  0.5,  1. ], dtype=float32)
    """
    return maximum(minimum(t, clip_value_max), clip_value_min)


def cleaned(seed: Tensor, partial: Tensor | float) -> Tensor | float:
    """`partial` with zeros where it is non-finite and the seed (cotangent or tangent) is zero."""
    if isinstance(partial, (int, float)) and math.isfinite(partial):
        return partial  # a constant factor, kept weakly typed
    # The partial is cleaned, not the product: what is left is linear in the seed wherever the partial is finite, so that its
    # derivative, at every order, is the one of the product.
    return where(logical_and(equal(seed, 0.0), logical_not(is_finite(partial))), 0.0, partial)


OPS = (WHERE, WHERE_TRUE, MAXIMUM, MINIMUM, FLOOR, CEIL, ROUND, FLOORDIV, MOD)

from gradtape.ops.compare import equal, is_finite, logical_and, logical_not
from gradtape.ops.create import zeros_like
from gradtape.ops.elementwise import cast
from gradtape.ops.shape import broadcast_to, unbroadcast

__all__ = ["ceil", "clip_by_value", "floor", "floordiv", "maximum", "minimum", "mod", "rint", "round", "where"]
