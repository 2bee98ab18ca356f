"""Running sums, products and log-sum-exps along an axis, and the linear recurrence their derivatives need."""

from __future__ import annotations

import numpy as np

from gradtape.core import batching, inference
from gradtape.core.dispatch import apply, convert
from gradtape.core.opdef import Memory, Op, Sample, composite, general, linear
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Array, Axis, TensorLike
from gradtape.ir.types import TensorSpec
from gradtape.ops.sampling import away, normal
from gradtape.ops.shape import normal_axis


def _shifted(out: Array, x: Array, axis: int, first: float) -> Array:
    """An inclusive running result turned exclusive: moved one step on, starting with `first`."""
    moved = np.roll(out, 1, axis)
    if moved.shape[axis]:
        moved[(slice(None),) * axis + (0,)] = first
    return moved


def _running(ufunc: np.ufunc, x: Array, axis: int, exclusive: bool, reverse: bool, first: float) -> Array:
    if reverse:
        x = np.flip(x, axis)
    # The dtype is said because NumPy would sum small integers in wider ones.
    out = ufunc.accumulate(x, axis, dtype=x.dtype) if x.shape[axis] else x.copy()
    if exclusive:
        out = _shifted(out, x, axis, first)
    return np.flip(out, axis) if reverse else out


def cumsum(x: TensorLike, axis: Axis = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None) -> Tensor:
    """Running sum along an axis.

    >>> gt.cumsum([1.0, 2.0, 3.0]).numpy(), gt.cumsum([1.0, 2.0, 3.0], exclusive=True).numpy()
    (array([1., 3., 6.], dtype=float32), array([0., 1., 3.], dtype=float32))
    """
    x = convert(x)
    place = normal_axis(axis, x.ndim, "cumsum")
    return apply(CUMSUM, x, axis=place, exclusive=bool(exclusive), reverse=bool(reverse))


def _samples() -> list[Sample]:
    return [
        Sample(away(3, 4), 1),
        Sample(away(4), 0, True),
        Sample(away(2, 3), -1, False, True),
        Sample(away(3), 0, True, True),
        Sample(normal(0)),
        Sample(away(3), 2, raises=(ValueError, "out of range")),
    ]


# out_i = Σ_{j≤i} x_j, so x̄_j = Σ_{i≥j} ct_i: the same sum run the other way.
CUMSUM: Op = linear(
    "cumsum", "x",
    lambda x, *, axis, exclusive, reverse: _running(np.add, x, axis, exclusive, reverse, 0.0),
    lambda ct, axis, exclusive, reverse: apply(CUMSUM, ct, axis=axis, exclusive=exclusive, reverse=not reverse),
    infer=inference.same, batch=batching.shifted("axis"), memory=Memory.FRESH, samples=_samples,
)  # fmt: skip


def cumprod(x: TensorLike, axis: Axis = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None) -> Tensor:
    """Running product along an axis; the gradient is exact at zeros.

    >>> gt.cumprod([1.0, 2.0, 3.0]).numpy()
    array([1., 2., 6.], dtype=float32)
    """
    x = convert(x)
    place = normal_axis(axis, x.ndim, "cumprod")
    return apply(CUMPROD, x, axis=place, exclusive=bool(exclusive), reverse=bool(reverse))


# ∂out_i/∂x_j is the running product without the factor x_j. Dividing out_i by x_j would be O(n), and wrong at zeros; this is
# O(n²), exact everywhere, and itself a running product, so that it can be differentiated again.
def cumprod_jacobian(x: Tensor, axis: int, exclusive: bool, reverse: bool) -> Tensor:
    """∂out_i/∂x_j as an array with i on the last axis and j before it (the running axis last): no division, so exact
    at zeros. Built from the running product of a matrix whose column j has its entry x_j replaced by 1."""
    rows = moved_last(x, axis)
    n = rows.shape[-1]
    own = cast(eye(n), rows.dtype)
    # replaced[..., j, i] = 1 if i == j else x_i
    replaced = expand_dims(rows, -2) * (1.0 - own) + own
    products = apply(CUMPROD, replaced, axis=replaced.ndim - 1, exclusive=exclusive, reverse=reverse)
    reach = cast(cumprod_reach(n, exclusive, reverse), rows.dtype)
    return products * reach


def cumprod_reach(n: int, exclusive: bool, reverse: bool) -> Tensor:
    """1 at (j, i) where out_i depends on x_j."""
    ones_matrix = ones((n, n))
    lower = apply(CUMSUM, cast(eye(n), "float32"), axis=1, exclusive=exclusive, reverse=reverse)
    return lower * ones_matrix


def moved_last(x: Tensor, axis: int) -> Tensor:
    """The given axis moved to the end."""
    return transpose(x, (*(i for i in range(x.ndim) if i != axis), axis))


def moved_from_last(x: Tensor, axis: int) -> Tensor:
    """The last axis moved back to its place."""
    rest = x.ndim - 1
    return transpose(x, (*range(axis), rest, *range(axis, rest)))


def cumprod_vjp(ct: Tensor, x: Tensor, axis: int, exclusive: bool, reverse: bool) -> Tensor:
    """The cotangent of x: the conjugated Jacobian times ct."""
    jacobian = conj(cumprod_jacobian(x, axis, exclusive, reverse))
    rows = reduce_sum(jacobian * expand_dims(moved_last(ct, axis), -2), -1)
    return moved_from_last(rows, axis)


def cumprod_jvp(t: Tensor, x: Tensor, axis: int, exclusive: bool, reverse: bool) -> Tensor:
    """The tangent of the result: the Jacobian times t."""
    jacobian = cumprod_jacobian(x, axis, exclusive, reverse)
    rows = reduce_sum(jacobian * expand_dims(moved_last(t, axis), -1), -2)
    return moved_from_last(rows, axis)


CUMPROD: Op = general(
    "cumprod", "x",
    lambda x, *, axis, exclusive, reverse: _running(np.multiply, x, axis, exclusive, reverse, 1.0),
    vjps=(lambda ct, x, axis, exclusive, reverse: cumprod_vjp(ct, x, axis, exclusive, reverse),),
    jvps=(lambda t, x, axis, exclusive, reverse: cumprod_jvp(t, x, axis, exclusive, reverse),),
    infer=inference.same, batch=batching.shifted("axis"),
    samples=lambda: [*_samples(), Sample(np.array([1.5, 0.0, 2.0, 0.0, 3.0]))],
)  # fmt: skip

# -- linear recurrence -------------------------------------------------------------------------------------------------


def _recurrence_impl(decay: Array, x: Array, *, axis: int, reverse: bool) -> Array:
    out = np.array(x)
    steps = np.moveaxis(out, axis, 0)
    factors = np.moveaxis(decay, axis, 0)
    count = steps.shape[0]
    for i in range(count - 2, -1, -1) if reverse else range(1, count):
        steps[i] += factors[i] * steps[i + 1 if reverse else i - 1]
    return out


# h_{i-1} in the formulas below.
def previous(h: Tensor, axis: int, reverse: bool) -> Tensor:
    """h moved one step on in the direction of the recurrence, 0 at its start."""
    # longer first, then cut: an axis without elements, which may show only at run time, is no special case
    longer = apply(PAD, h, paddings=tuple(((0, 1) if reverse else (1, 0)) if i == axis else (0, 0) for i in range(h.ndim)))
    return apply(SLICE_AXIS, longer, axis=axis, start=1 if reverse else 0, size=h.shape[axis])


def next_decay(decay: Tensor, axis: int, reverse: bool) -> Tensor:
    """The factors of the adjoint recurrence, which runs the other way."""
    return previous(decay, axis, not reverse)


# h_i = decay_i h_{i-1} + x_i. With g the same recurrence run backwards over ct: x gets g_i, decay gets g_i h_{i-1}
RECURRENCE: Op = general(
    "linear_recurrence", "decay x", _recurrence_impl,
    vjps=(
        lambda ct, decay, out, axis, reverse: (
            apply(RECURRENCE, next_decay(conj(decay), axis, reverse), ct, axis=axis, reverse=not reverse)
            * conj(previous(out, axis, reverse))
        ),
        lambda ct, decay, axis, reverse: apply(
            RECURRENCE, next_decay(conj(decay), axis, reverse), ct, axis=axis, reverse=not reverse
        ),
    ),
    jvps=(
        lambda t, decay, out, axis, reverse: apply(
            RECURRENCE, decay, t * previous(out, axis, reverse), axis=axis, reverse=reverse
        ),
        lambda t, decay, axis, reverse: apply(RECURRENCE, decay, t, axis=axis, reverse=reverse),
    ),
    infer=lambda decay, x, *, axis, reverse: TensorSpec(x.shape, x.dtype),
    batch=batching.shifted("axis"),
    samples=lambda: [
        Sample(normal(4), normal(4), 0, False),
        Sample(normal(2, 3), normal(2, 3), 1, True),
        Sample(normal(2) + 1j * normal(2), normal(2) + 1j * normal(2), 0, False),
        Sample(normal(0), normal(0), 0, False),
        Sample(normal(1, 2), normal(1, 2), 0, True),
    ],
)  # fmt: skip

# -- log-sum-exp -------------------------------------------------------------------------------------------------------


def finite_or_zero(x: Tensor) -> Tensor:
    """x, and 0 where it is infinite or NaN."""
    return where(is_finite(x), x, zeros_like(x))


def logsumexp_ct(ct: Tensor, x: Tensor, out: Tensor, axis: int, reverse: bool) -> Tensor:
    """Σ_{i≥j} ct_i exp(x_j - out_i), as exp(x_j - out_j) times a recurrence with factors exp(out_j - out_{j+1}) ≤ 1."""
    weight, decay = logsumexp_factors(x, out, axis, reverse)
    return weight * apply(RECURRENCE, decay, ct, axis=axis, reverse=not reverse)


def logsumexp_tangent(t: Tensor, x: Tensor, out: Tensor, axis: int, reverse: bool) -> Tensor:
    """The transpose of `logsumexp_ct`."""
    weight, decay = logsumexp_factors(x, out, axis, reverse)
    return apply(RECURRENCE, next_decay(decay, axis, not reverse), weight * t, axis=axis, reverse=reverse)


def logsumexp_factors(x: Tensor, out: Tensor, axis: int, reverse: bool) -> tuple[Tensor, ...]:
    """(exp(x_j - out_j), exp(out_j - out_{j+1}))."""
    # out_i = -inf where all so far is -inf: there exp(-inf - 0) = 0 is the right weight, and -inf - (-inf) would be NaN.
    base = finite_or_zero(out)
    ahead = previous(base, axis, not reverse)
    there = previous(ones_like(base), axis, not reverse) != 0.0  # the last factor is never used: exp(0)
    return exp(x - base), exp(where(there, out - ahead, zeros_like(base)))


CUMULATIVE_LOGSUMEXP: Op = general(
    "running_logsumexp", "x",
    lambda x, *, axis, reverse: _running(np.logaddexp, x, axis, False, reverse, 0.0),
    vjps=(lambda ct, x, out, axis, reverse: logsumexp_ct(ct, x, out, axis, reverse),),
    jvps=(lambda t, x, out, axis, reverse: logsumexp_tangent(t, x, out, axis, reverse),),
    infer=inference.same, batch=batching.shifted("axis"),
    samples=lambda: [
        Sample(normal(4), 0, False),
        Sample(normal(2, 3), 1, True),
        Sample(np.array([-40.0, 0.5, 30.0, 29.0]), 0, False),
        Sample(normal(0), 0, False),
    ],
)  # fmt: skip


@composite(
    samples=lambda: [
        Sample(away(3, 4), 1),
        Sample(away(2, 3), -1, False, True),
        Sample(away(4), 0, True, kinks=True),  # starts with -inf, which has no finite difference
        Sample(away(3), 0, True, True, kinks=True),
        Sample(normal(0)),
        Sample(np.array([[-np.inf, 0.3, 1.0]]), 1, fixed=(0,)),
        Sample(away(3), 2, raises=(ValueError, "out of range")),
    ]
)
def cumulative_logsumexp(
    x: TensorLike, axis: Axis = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None
) -> Tensor:
    """log of the running sum of exp(x), without overflow; an exclusive one starts with -inf.

    >>> gt.math.cumulative_logsumexp([1000.0, 1000.0]).numpy()
    array([1000.    , 1000.6932], dtype=float32)
    """
    x = convert(x)
    x = x if x.dtype.is_differentiable else cast(x, "float32")
    place = normal_axis(axis, x.ndim, "cumulative_logsumexp")
    out = apply(CUMULATIVE_LOGSUMEXP, x, axis=place, reverse=bool(reverse))
    if not exclusive:
        return out
    # Ones moved in step with the values say which places got one and which are the start, whatever the values are.
    there = previous(ones_like(out), place, bool(reverse)) != 0.0
    return where(there, previous(out, place, bool(reverse)), zeros_like(out) - np.inf)


OPS = (CUMSUM, CUMPROD, RECURRENCE, CUMULATIVE_LOGSUMEXP)

from gradtape.ops.compare import is_finite
from gradtape.ops.create import eye, ones, ones_like, zeros_like
from gradtape.ops.elementwise import cast, conj, exp
from gradtape.ops.padding import PAD
from gradtape.ops.reduce import reduce_sum
from gradtape.ops.select import where
from gradtape.ops.shape import SLICE_AXIS, expand_dims, transpose
