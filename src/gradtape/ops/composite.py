"""Arithmetic with a convention at zero (divide_no_nan, xlogy, …) and small public functions made of other ops.

Primitives are only what a composite would compute badly: the products and quotients that are 0 by definition, the
angle of a complex number, a sum of many tensors. Norms and clipping are in `clipping.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gradtape.core import batching, inference
from gradtape.core.dispatch import apply, convert, promote, twin
from gradtape.core.forms import binary
from gradtape.core.opdef import Memory, Sample, composite, elementwise, general, linear, nondiff
from gradtape.core.tensor import Readable, Tensor
from gradtape.core.typing import Array, Axes, Integers, TensorLike
from gradtape.dtypes import DTypeLike, as_dtype, float32
from gradtape.errors import InvalidArgumentError
from gradtape.ir.types import TensorShape, TensorSpec
from gradtape.ops.create import static_shape
from gradtape.ops.elementwise import divide, quotient_dtype, quotients
from gradtape.ops.sampling import away, integers, normal, positive, spread
from gradtape.ops.select import floordiv, mod

# -- products and quotients that are 0 by definition -----------------------------------------------------------------


def _pairs() -> list[Sample]:
    return [
        Sample(away(3, 2), positive(3, 2)),
        Sample(away(2, 1), positive(3)),
        Sample(away(), positive()),
        Sample(away(0), positive(0)),
        Sample(np.array([0.0, 1.0]), np.array([0.0, 0.7]), kinks=True),
        Sample(away(2), positive(3), raises=(ValueError, "broadcast")),
    ]


def _where_nonzero(switch: Array, value: Array) -> Array:
    return np.where(switch == 0, value.dtype.type(0), value)[()]


def _divide_no_nan_impl(x: Array, y: Array) -> Array:
    with np.errstate(all="ignore"):
        return _where_nonzero(y, np.true_divide(x, y))


def _multiply_no_nan_impl(x: Array, y: Array) -> Array:
    with np.errstate(all="ignore"):
        return _where_nonzero(y, np.multiply(x, y))


def _xlogy_impl(x: Array, y: Array) -> Array:
    with np.errstate(all="ignore"):
        return _where_nonzero(x, x * np.log(y))


def _xlog1py_impl(x: Array, y: Array) -> Array:
    with np.errstate(all="ignore"):
        return _where_nonzero(x, x * np.log1p(y))


def _xdivy_impl(x: Array, y: Array) -> Array:
    with np.errstate(all="ignore"):
        return _where_nonzero(x, np.true_divide(x, y))


def one_where_both_zero(x: Tensor, y: Tensor) -> Tensor:
    """y, and 1 on the lanes where x and y are both zero: there the derivative is 0 by convention."""
    return where(logical_and(equal(x, 0.0), equal(y, 0.0)), ones_like(y), y)


def inverse_or_zero(x: Tensor, y: Tensor) -> Tensor:
    """1/y, and 0 where x and y are both zero."""
    safe = one_where_both_zero(x, y)
    return where(logical_and(equal(x, 0.0), equal(y, 0.0)), zeros_like(safe), 1.0 / safe)


DIVIDE_NO_NAN = elementwise(
    "divide_no_nan", "x y", _divide_no_nan_impl,
    lambda y: divide_no_nan(ones_like(y), y),
    lambda y, out: -divide_no_nan(out, y),
    floating=True, infer=inference.elementwise_float, samples=_pairs,
)  # fmt: skip
MULTIPLY_NO_NAN = elementwise(
    "multiply_no_nan", "x y", _multiply_no_nan_impl,
    lambda y: y,
    lambda x: x,
    floating=True, infer=inference.elementwise_float, samples=_pairs,
)  # fmt: skip
# ∂(x log y)/∂x = log y, ∂/∂y = x/y; at x = y = 0 both are 0
XLOGY = elementwise(
    "xlogy", "x y", _xlogy_impl,
    lambda x, y: log(one_where_both_zero(x, y)),
    lambda x, y: xdivy(x, y),
    floating=True, infer=inference.elementwise_float, samples=_pairs,
)  # fmt: skip
XLOG1PY = elementwise(
    "xlog1py", "x y", _xlog1py_impl,
    lambda x, y: log1p(where(logical_and(equal(x, 0.0), equal(y, -1.0)), zeros_like(y), y)),
    lambda x, y: xdivy(x, y + 1.0),
    floating=True, infer=inference.elementwise_float, samples=_pairs,
)  # fmt: skip
XDIVY = elementwise(
    "xdivy", "x y", _xdivy_impl,
    lambda x, y: inverse_or_zero(x, y),
    lambda y, out: -xdivy(out, y),
    floating=True, infer=inference.elementwise_float, samples=_pairs,
)  # fmt: skip


def _quotients_as_floats(x: TensorLike, y: TensorLike) -> tuple[Tensor, ...]:
    return tuple(cast(t, quotient_dtype(t.dtype)) for t in quotients(x, y))


divide_no_nan: Any = binary(
    DIVIDE_NO_NAN, "x / y, and 0 where y is 0; there the derivatives are 0 too.", common=_quotients_as_floats
)
multiply_no_nan = binary(MULTIPLY_NO_NAN, "x · y, and 0 where y is 0, even if x is infinite or NaN.")
xlogy = binary(XLOGY, "x · log y, and 0 where x is 0; the derivatives at x = y = 0 are 0.")
xlog1py = binary(XLOG1PY, "x · log(1 + y), and 0 where x is 0.")
xdivy: Any = binary(XDIVY, "x / y, and 0 where x is 0; the derivatives at x = y = 0 are 0.")


@composite(samples=lambda: [Sample(positive(3)), Sample(np.array([0.0, 2.0]), kinks=True)])
def reciprocal_no_nan(x: TensorLike, name: str | None = None) -> Tensor:
    """1/x, and 0 where x is 0.

    >>> gt.math.reciprocal_no_nan([2.0, 0.0]).numpy()
    array([0.5, 0. ], dtype=float32)
    """
    x = convert(x)
    return divide_no_nan(ones_like(x), x)


# -- other arithmetic ------------------------------------------------------------------------------------------------

truediv = realdiv = divide
floormod = mod
NEXTAFTER = elementwise(
    "nextafter", "x1 x2", np.nextafter,
    1,
    lambda x2: x2 * 0.0,
    floating=True, infer=inference.elementwise_float,
    samples=lambda: [Sample(normal(3), normal(3) + 9.0), Sample(normal(2, 1), normal(2) - 9.0), Sample(normal(), normal())],
)  # fmt: skip
nextafter = binary(NEXTAFTER, "The next floating-point number after x1 in the direction of x2.")


GCD = nondiff(
    "gcd", "x y", np.gcd, infer=inference.elementwise, reason="whole numbers have no derivative", batch=batching.elementwise,
    samples=lambda: [Sample(np.array([12, -8, 0, 0]), np.array([18, 12, 5, 0])), Sample(np.arange(6).reshape(2, 3), 4)],
)  # fmt: skip
gcd = binary(GCD, "The greatest common divisor of whole numbers.")


def _quotients() -> list[Sample]:
    return [
        Sample(np.array([5.3, -2.2, 7.7]), np.array([2.0, 1.5, -3.0])),
        Sample(np.array([[7], [-7]]), np.array([2, -3])),
        Sample(np.array(5.3), np.array(-2.0)),
    ]


@composite(samples=_quotients)
def truncatediv(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """x / y rounded towards zero, as in C.

    >>> gt.truncatediv([7, -7], 2).numpy()
    array([ 3, -3], dtype=int32)
    """
    x, y = promote(x, y)
    down = floordiv(x, y)
    short = logical_and(not_equal(down * y, x), less(down, 0))
    return down + cast(short, down.dtype)


@composite(samples=_quotients)
def truncatemod(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """What `truncatediv` leaves over: it has the sign of x. Exact for floats, whatever the quotient.

    >>> gt.truncatemod([7, -7], 3).numpy()
    array([ 1, -1], dtype=int32)
    """
    x, y = promote(x, y)
    if x.dtype.is_integer:
        return x - truncatediv(x, y) * y
    size = abs(y)
    return where(less(x, 0), -mod(-x, size), mod(x, size))


@composite(
    samples=lambda: [Sample(normal(3, 2), normal(2)), Sample(normal(), normal()), Sample(normal(2) + 1j, normal(2) + 0j)]
)
def squared_difference(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """(x - y)², or (x - y)·conj(x - y) for complex numbers.

    >>> gt.math.squared_difference([1.0, 2.0], 4.0).numpy()
    array([9., 4.], dtype=float32)
    """
    difference = subtract(x, y)
    return difference * conj(difference) if is_complex(difference) else square(difference)


@composite(samples=lambda: [Sample(normal(), normal(3)), Sample(normal(2), normal(2), raises=(ValueError, "scalar"))])
def scalar_mul(scalar: TensorLike, x: TensorLike, name: str | None = None) -> Tensor:
    """A scalar times a tensor."""
    scalar, x = promote(scalar, x)
    if scalar.ndim:
        raise InvalidArgumentError(f"scalar_mul: only scalar multiply works, got a factor of shape {tuple(scalar.shape)}")
    return scalar * x


def _add_n_impl(*inputs: Array) -> Array:
    total = inputs[0]
    for x in inputs[1:]:
        total = total + x
    return total


ADD_N = linear(
    "add_n", "*inputs", _add_n_impl,
    lambda ct, inputs_spec: (ct,) * len(inputs_spec),
    infer=inference.same, batch=batching.leading,
    memory=Memory.FRESH,
    samples=lambda: [
        Sample([normal(2, 3), normal(2, 3), normal(2, 3)]),
        Sample([normal()]),
        Sample([normal(0), normal(0)]),
        Sample([normal(2), normal(3)], raises=(ValueError, "same shape")),
        Sample([], raises=(ValueError, "at least one")),
    ],
)  # fmt: skip


def add_n(inputs: Sequence[TensorLike], name: str | None = None) -> Tensor:
    """The sum of a list of tensors of one shape.

    >>> gt.add_n([[1.0, 2.0], [3.0, 4.0]]).numpy()
    array([4., 6.], dtype=float32)
    """
    if isinstance(inputs, (Tensor, Readable)) or list_value(inputs) is not None:
        return reduce_sum(stack(inputs), 0)
    tensors = promote(*inputs)
    if not tensors:
        raise InvalidArgumentError("add_n: needs at least one tensor")
    shapes = {tuple(t.shape) for t in tensors}
    if not all(fits(shape, tensors[0].shape) for shape in shapes):
        raise InvalidArgumentError(f"add_n: all tensors must have the same shape, got {sorted(shapes)}")
    return apply(ADD_N, *tensors)


@composite(
    samples=lambda: [
        Sample([normal(2), normal(2)]),
        Sample([normal(2), normal(2)], (None,), fixed=(1,)),
        Sample([np.arange(2), np.arange(2)], (2,), "int64", fixed=(1, 2)),
        Sample([normal(2), normal(2)], (3,), fixed=(1,), raises=(ValueError, "not compatible")),
        Sample([normal(2)], None, "int32", fixed=(2,), raises=(ValueError, "not int32")),
    ]
)
def accumulate_n(
    inputs: Sequence[TensorLike], shape: Iterable[int | None] | None = None, tensor_dtype: DTypeLike | None = None,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """`add_n`; `shape` and `tensor_dtype` are checked when given."""
    tensors = [convert(x) for x in inputs]
    for x in tensors:
        if tensor_dtype is not None and x.dtype != as_dtype(tensor_dtype):
            raise InvalidArgumentError(f"accumulate_n: a tensor is {x.dtype.name}, not {as_dtype(tensor_dtype).name}")
        if shape is not None:
            ensure_shape(x, shape)
    return add_n(tensors)


@composite(
    samples=lambda: [
        Sample([normal(), normal(), normal()], normal(3)),
        Sample([normal(2), normal(2)], normal(2)),
        Sample([], normal(2)),
        Sample(normal(2), normal(2), raises=(ValueError, "list")),
    ]
)
def polyval(coeffs: TensorLike, x: TensorLike, name: str | None = None) -> Tensor:
    """The polynomial with the given coefficients, highest power first, at x (Horner's rule).

    >>> gt.math.polyval([2.0, 0.0, 1.0], 3.0).numpy()
    np.float32(19.0)
    """
    if not isinstance(coeffs, (list, tuple)):
        raise InvalidArgumentError(f"polyval: coeffs must be a list, got {type(coeffs).__name__}")
    x = convert(x)
    if not coeffs:
        return zeros_like(x)
    total = convert(coeffs[0], hint=x.dtype) + zeros_like(x)
    for c in coeffs[1:]:
        total = total * x + c
    return total


# -- complex numbers -------------------------------------------------------------------------------------------------


def _angle_impl(x: Array) -> Array:
    if x.dtype.kind == "c":
        return np.angle(x)[()]
    return np.where(x < 0, x.dtype.type(np.pi), x.dtype.type(0))[()]


def turn(x: Tensor) -> Tensor:
    """i·x/|x|²: how the angle of a complex x moves; 0 at x = 0."""
    size = square(abs(x))
    return x * 1j * cast(divide_no_nan(ones_like(size), size), x.dtype)


# θ = arg(x + iy): ∂θ/∂x + i ∂θ/∂y = (-y + ix)/|z|²; of a real number it is a step, with derivative 0
ANGLE = general(
    "angle", "x", _angle_impl,
    vjps=(lambda ct, x: cast(ct, x.dtype) * turn(x) if is_complex(x) else ct * 0.0,),
    jvps=(lambda t, x: real(conj(turn(x)) * t) if is_complex(x) else t * 0.0,),
    infer=inference.real_part, batch=batching.elementwise,
    samples=lambda: [Sample(away(3) + 1j * away(3)), Sample(away(2, 2)), Sample(away()), Sample(away(0) + 0j)],
)  # fmt: skip


def angle(input: TensorLike, name: str | None = None) -> Tensor:
    """The argument of each number, in (-π, π]; 0 or π for real numbers.

    >>> gt.math.angle(gt.constant([1 + 1j, -2 + 0j])).numpy()
    array([0.78539816, 3.14159265])
    """
    x = convert(input)
    return apply(ANGLE, x if x.dtype.is_differentiable else cast(x, float32))


# -- shapes ----------------------------------------------------------------------------------------------------------


@composite(
    samples=lambda: [
        Sample(normal(3), normal(2)),
        Sample(normal(3), normal(2), normal(2), indexing="ij"),
        Sample(normal(), normal(2)),
        Sample(normal(2), indexing="yx", raises=(ValueError, "indexing")),
    ]
)
def meshgrid(*args: TensorLike, indexing: str = "xy", name: str | None = None) -> list[Tensor]:
    """Coordinate tensors of the grid spanned by the vectors: `meshgrid(x, y, indexing="xy")`.

    >>> [g.numpy().tolist() for g in gt.meshgrid([1, 2, 3], [4, 5])]
    [[[1, 2, 3], [1, 2, 3]], [[4, 4, 4], [5, 5, 5]]]
    """
    if indexing not in ("xy", "ij"):
        raise InvalidArgumentError(f"meshgrid: indexing must be 'xy' or 'ij', got {indexing!r}")
    vectors = [reshape(convert(a), (-1,)) for a in args]
    places = list(range(len(vectors)))
    if indexing == "xy" and len(vectors) > 1:
        places[:2] = [1, 0]
    dims = [0] * len(vectors)
    for place, vector in zip(places, vectors, strict=True):
        dims[place] = vector.shape[0]
    lines = [[-1 if i == place else 1 for i in range(len(dims))] for place in places]
    return [broadcast_to(reshape(v, line), dims) for v, line in zip(vectors, lines, strict=True)]


@composite(
    samples=lambda: [Sample(normal(2, 3), (2, None)), Sample(normal(2, 3), (3, None), raises=(ValueError, "not compatible"))]
)
def ensure_shape(x: TensorLike, shape: Iterable[int | None] | None, name: str | None = None) -> Tensor:
    """`x` if its shape fits `shape` (None fits any size), an error otherwise.

    >>> gt.ensure_shape([[1.0, 2.0]], [None, 2]).shape
    TensorShape([1, 2])
    """
    x = convert(x)
    wanted = shape if isinstance(shape, TensorShape) else TensorShape(shape)
    if x.shape.rank is None:  # only a program has such: what Python gave back, which is looked at when it has come
        from gradtape.ops.python_calls import PY_FUNCTION  # such a program has loaded it

        return apply(PY_FUNCTION, x, func=lambda t: t, dtypes=(TensorSpec(wanted, x.dtype),))[0]
    if not TensorShape(x.shape).is_compatible_with(wanted):
        raise InvalidArgumentError(f"ensure_shape: shape {tuple(x.shape)} is not compatible with {wanted}")
    return twin(x)


def broadcast_static_shape(shape_x: Iterable[int | None] | None, shape_y: Iterable[int | None] | None) -> TensorShape:
    """The shape two shapes broadcast to; an unknown size (None) stays unknown unless the other is larger than 1.

    >>> gt.broadcast_static_shape([2, 1], [3])
    TensorShape([2, 3])
    """
    x, y = TensorShape(shape_x), TensorShape(shape_y)
    rank = max(len(x), len(y))
    pairs = zip((1,) * (rank - len(x)) + tuple(x), (1,) * (rank - len(y)) + tuple(y), strict=True)
    dims: list[Any] = []
    for a, b in pairs:
        if a is None or b is None:
            known = b if a is None else a
            dims.append(known if known is not None and known > 1 else None)
        elif a == b or 1 in (a, b):
            dims.append(b if a == 1 else a)
        else:
            raise InvalidArgumentError(f"shapes {tuple(x)} and {tuple(y)} do not broadcast")
    return TensorShape(dims)


@composite(samples=lambda: [Sample(np.array([2, 1]), np.array([3])), Sample((2, 1), (4,))], differentiable=False)
def broadcast_dynamic_shape(shape_x: Integers, shape_y: Integers) -> Tensor:
    """The shape two shapes (integer tensors) broadcast to, as an integer tensor."""
    dims = inference.broadcast_shapes(static_shape(shape_x), static_shape(shape_y))
    return convert(np.array(dims, convert(shape_x).dtype.dtype))


# -- counting and order ----------------------------------------------------------------------------------------------


@composite(samples=lambda: [Sample(integers(3, 2, 4)), Sample(integers(2, 2, 3), 1, True)], differentiable=False)
def count_nonzero(
    input: TensorLike, axis: Axes = None, keepdims: bool | None = None, dtype: DTypeLike = "int64", name: str | None = None
) -> Tensor:
    """How many elements are not zero.

    >>> gt.math.count_nonzero([[0, 1], [2, 3]], axis=0).numpy()
    array([1, 2])
    """
    return reduce_sum(cast(not_equal(convert(input), 0), dtype), axis, bool(keepdims))


@composite(samples=lambda: [Sample(integers(2, 2, 4))], differentiable=False)
def zero_fraction(value: TensorLike, name: str | None = None) -> Tensor:
    """The fraction of zeros among all elements."""
    return reduce_mean(cast(equal(convert(value), 0), float32))


@composite(samples=lambda: [Sample(np.array([1, 1, 2])), Sample(spread(4)), Sample(spread(0))], differentiable=False)
def is_non_decreasing(x: TensorLike, name: str | None = None) -> Tensor:
    """Whether the elements never fall, in reading order."""
    flat = reshape(convert(x), (-1,))
    return reduce_all(less_equal(flat[:-1], flat[1:]))


@composite(samples=lambda: [Sample(np.array([1, 1, 2])), Sample(spread(4)), Sample(spread(0))], differentiable=False)
def is_strictly_increasing(x: TensorLike, name: str | None = None) -> Tensor:
    """Whether the elements always rise, in reading order."""
    flat = reshape(convert(x), (-1,))
    return reduce_all(less(flat[:-1], flat[1:]))


__all__ = [  # of `gt.math`
    "accumulate_n", "add_n", "angle", "count_nonzero", "divide_no_nan", "floormod",
    "is_non_decreasing", "is_strictly_increasing", "multiply_no_nan", "nextafter", "polyval", "reciprocal_no_nan",
    "scalar_mul", "squared_difference", "truediv", "truncatediv", "truncatemod", "xdivy", "xlog1py", "xlogy",
    "zero_fraction",
]  # fmt: skip
OPS = (DIVIDE_NO_NAN, MULTIPLY_NO_NAN, XLOGY, XLOG1PY, XDIVY, NEXTAFTER, GCD, ADD_N, ANGLE)

from gradtape.ops.compare import equal, less, less_equal, logical_and, not_equal
from gradtape.ops.create import fits, ones_like, zeros_like
from gradtape.ops.elementwise import abs, cast, conj, is_complex, log, log1p, real, square, subtract
from gradtape.ops.reduce import reduce_all, reduce_mean, reduce_sum
from gradtape.ops.select import where
from gradtape.ops.shape import broadcast_to, list_value, reshape, stack
