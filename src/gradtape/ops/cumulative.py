"""Running sums and products along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape.ops import batching, inference
from gradtape.ops.dispatch import apply, convert
from gradtape.ops.opdef import Sample, general, linear
from gradtape.ops.sampling import away, normal
from gradtape.ops.shape import normal_axis


def _shifted(out: Any, x: Any, axis: int, first: float) -> Any:
    """An inclusive running result turned exclusive: moved one step on, starting with `first`."""
    moved = np.roll(out, 1, axis)
    if moved.shape[axis]:
        moved[(slice(None),) * axis + (0,)] = first
    return moved


def _running(ufunc: Any, x: Any, axis: int, exclusive: bool, reverse: bool, first: float) -> Any:
    if reverse:
        x = np.flip(x, axis)
    out = ufunc.accumulate(x, axis, dtype=x.dtype) if x.shape[axis] else x.copy()
    if exclusive:
        out = _shifted(out, x, axis, first)
    return np.flip(out, axis) if reverse else out


def cumsum(x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None) -> Any:
    """Running sum along an axis.

    >>> import gradtape as gt
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


CUMSUM = linear(
    "cumsum",
    "x",
    lambda x, *, axis, exclusive, reverse: _running(np.add, x, axis, exclusive, reverse, 0.0),
    lambda ct, axis, exclusive, reverse: apply(CUMSUM, ct, axis=axis, exclusive=exclusive, reverse=not reverse),
    infer=inference.same,
    batch=batching.shifted("axis"),
    call=cumsum,
    samples=_samples,
)


def cumprod(x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None) -> Any:
    """Running product along an axis; the gradient is exact at zeros.

    >>> import gradtape as gt
    >>> gt.cumprod([1.0, 2.0, 3.0]).numpy()
    array([1., 2., 6.], dtype=float32)
    """
    x = convert(x)
    place = normal_axis(axis, x.ndim, "cumprod")
    return apply(CUMPROD, x, axis=place, exclusive=bool(exclusive), reverse=bool(reverse))


def cumprod_jacobian(x: Any, axis: int, exclusive: bool, reverse: bool) -> Any:
    """∂out_i/∂x_j as an array with i on the last axis and j before it (the running axis last): no division, so exact
    at zeros. Built from the running product of a matrix whose column j has its entry x_j replaced by 1."""
    rows = moved_last(x, axis)
    n = int(rows.shape[-1])
    own = cast(eye(n), rows.dtype)
    # replaced[..., j, i] = 1 if i == j else x_i
    replaced = expand_dims(rows, -2) * (1.0 - own) + own
    products = apply(CUMPROD, replaced, axis=replaced.ndim - 1, exclusive=exclusive, reverse=reverse)
    reach = cast(cumprod_reach(n, exclusive, reverse), rows.dtype)
    return products * reach


def cumprod_reach(n: int, exclusive: bool, reverse: bool) -> Any:
    """1 at (j, i) where out_i depends on x_j."""
    ones_matrix = ones((n, n))
    lower = apply(CUMSUM, cast(eye(n), "float32"), axis=1, exclusive=exclusive, reverse=reverse)
    return lower * ones_matrix


def moved_last(x: Any, axis: int) -> Any:
    """The given axis moved to the end."""
    return transpose(x, (*(i for i in range(x.ndim) if i != axis), axis))


def moved_from_last(x: Any, axis: int) -> Any:
    """The last axis moved back to its place."""
    rest = x.ndim - 1
    return transpose(x, (*range(axis), rest, *range(axis, rest)))


def cumprod_vjp(ct: Any, x: Any, axis: int, exclusive: bool, reverse: bool) -> Any:
    jacobian = conj(cumprod_jacobian(x, axis, exclusive, reverse))
    rows = reduce_sum(jacobian * expand_dims(moved_last(ct, axis), -2), -1)
    return moved_from_last(rows, axis)


def cumprod_jvp(t: Any, x: Any, axis: int, exclusive: bool, reverse: bool) -> Any:
    jacobian = cumprod_jacobian(x, axis, exclusive, reverse)
    rows = reduce_sum(jacobian * expand_dims(moved_last(t, axis), -1), -2)
    return moved_from_last(rows, axis)


CUMPROD = general(
    "cumprod",
    "x",
    lambda x, *, axis, exclusive, reverse: _running(np.multiply, x, axis, exclusive, reverse, 1.0),
    vjps=(lambda ct, x, axis, exclusive, reverse: cumprod_vjp(ct, x, axis, exclusive, reverse),),
    jvps=(lambda t, x, axis, exclusive, reverse: cumprod_jvp(t, x, axis, exclusive, reverse),),
    infer=inference.same,
    batch=batching.shifted("axis"),
    call=cumprod,
    samples=lambda: [*_samples(), Sample(np.array([1.5, 0.0, 2.0, 0.0, 3.0]))],
)

OPS = (CUMSUM, CUMPROD)

from gradtape.ops.create import eye, ones  # noqa: E402  (used by functions above)
from gradtape.ops.elementwise import cast, conj  # noqa: E402
from gradtape.ops.reduce import reduce_sum  # noqa: E402
from gradtape.ops.shape import expand_dims, transpose  # noqa: E402
