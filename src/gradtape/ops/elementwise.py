"""Lane-wise arithmetic and transcendental functions: the primitives, each with its partial derivatives.

Comparisons are in `compare.py`, `where`, `maximum` and rounding in `select.py`, special functions in `special.py`.
"""

from __future__ import annotations

import builtins
import operator

import numpy as np

from gradtape.core import batching, inference
from gradtape.core.bfloat16 import BFLOAT16, rounded_once
from gradtape.core.dispatch import apply, convert, plain, promote, twin
from gradtape.core.forms import binary, unary
from gradtape.core.hooks import HOOKS
from gradtape.core.opdef import Cost, Fails, Memory, Op, Rule, Sample, SampleMaker, elementwise, general
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Array, Number, TensorLike
from gradtape.dtypes import DType, DTypeLike, as_dtype, float32, float64, numpy_dtype
from gradtape.ir.types import TensorSpec
from gradtape.ops.sampling import away, normal, positive, unit

# -- dtype changes -------------------------------------------------------------------------------------------------


def _cast_impl(x: Array, *, dtype: DType) -> Array:
    target = numpy_dtype(dtype)
    if x.dtype.kind == "c" and target.kind != "c":
        x = x.real
    return x.astype(target)


CAST = general(
    "cast", "x", _cast_impl,
    # a complex cotangent of a real input keeps its real part (cast from complex to real drops the imaginary one)
    vjps=(lambda ct, x_spec: cast(ct, x_spec.dtype) if differentiable_dtype(x_spec) else None,),
    jvps=(lambda t, dtype: cast(t, dtype),),
    infer=lambda x, *, dtype: TensorSpec(x.shape, dtype),
    batch=batching.elementwise,
    cost=Cost.LIGHT,
    samples=lambda: [
        Sample(normal(3, 2), "float64"),
        Sample(normal(3).astype(np.float32), "float64"),
        Sample(normal(4), "complex128"),
        Sample(np.arange(3), "float32"),
        Sample(normal(3), "nonsense", raises=(TypeError, "not a dtype")),
    ],
    skeleton=lambda attrs: attrs,
)  # fmt: skip
HOOKS.cast_op = CAST


def differentiable_dtype(x: Tensor) -> bool:
    """Whether values of this type carry derivatives."""
    return as_dtype(x.dtype).is_differentiable


def is_complex(x: Tensor | Number) -> bool:
    """Whether a tensor, array or number is complex."""
    if isinstance(x, (float, int, builtins.complex)):
        return isinstance(x, builtins.complex)
    return bool(x.dtype.kind == "c")


def cast(x: TensorLike, dtype: DTypeLike, name: str | None = None) -> Tensor:
    """`x` with another dtype; gradients pass between floating and complex types.

    >>> gt.cast([1.8, 2.2], gt.int32).numpy()
    array([1, 2], dtype=int32)
    """
    x = convert(x)
    target = as_dtype(dtype)
    return twin(x) if x.dtype == target else apply(CAST, x, dtype=target)


HOOKS.cast = cast


# -- arithmetic ----------------------------------------------------------------------------------------------------

_PAIR = lambda: [  # noqa: E731  (a table of samples, used by several ops)
    Sample(normal(3, 2), normal(3, 2)),
    Sample(normal(2, 1, 3), normal(4, 1)),
    Sample(normal(), normal(3)),
    Sample(normal(0, 3), normal(3)),
    Sample(normal(2), normal(2) + 1j * normal(2)),
    Sample(normal(2), 3.0),
    Sample(normal(2), normal(3), raises=(ValueError, "broadcast")),
]
_PAIR_NONZERO = lambda: [  # noqa: E731  (a table)
    Sample(normal(3, 2), away(3, 2)),
    Sample(normal(2, 1, 3), away(4, 1)),
    Sample(normal(), away(3)),
    Sample(normal(0, 3), away(3)),
    Sample(normal(2), away(2) + 1j * normal(2)),
    Sample(2.0, away(2)),
    Sample(normal(2), away(3), raises=(ValueError, "broadcast")),
]


def quotient_dtype(dtype: DType) -> DType:
    """The dtype of a true division, TensorFlow's: float32 of booleans and integers of up to 16 bits, float64 of wider ones."""
    return dtype if dtype.is_differentiable else float32 if dtype.size <= 2 else float64


def _quotient_spec(x: TensorSpec, y: TensorSpec) -> TensorSpec:
    spec = inference.elementwise(x, y)
    return TensorSpec(spec.shape, quotient_dtype(spec.dtype))


def _divide_impl(x: Array, y: Array) -> Array:
    out = x / y
    # NumPy divides integers of all sizes in double, TensorFlow small ones in float32. The common case, floats, is out first.
    if out.dtype is not _FLOAT64 or (y if x.__class__ in _NUMBERS else x).dtype.kind == "f":
        return out
    sizes = [v.dtype.itemsize for v in (x, y) if v.__class__ not in _NUMBERS and v.dtype.kind != "f"]
    return np.divide(x, y, dtype=np.float32) if len(sizes) == 2 and max(sizes) <= 2 else out


def quotients(x: TensorLike, y: TensorLike) -> tuple[Tensor, ...]:
    """The operands of a division. An integer tensor is converted before it meets a Python integer, which may not fit it."""
    tensors = [v if isinstance(v, Tensor) else plain(v) for v in (x, y)]
    weak = [getattr(v, "weak", not isinstance(v, Tensor)) for v in tensors]  # a Python number, or one of a program
    if any(
        v.__class__ is int or (number and isinstance(v, Tensor) and v.dtype.is_integer)
        for v, number in zip(tensors, weak, strict=True)
    ):
        tensors = [v if number else cast(v, quotient_dtype(v.dtype)) for v, number in zip(tensors, weak, strict=True)]
    return promote(*tensors)


_FLOAT64 = np.dtype(np.float64)
_NUMBERS: tuple[type, ...] = (int, float)


ADD = elementwise("add", "x y", operator.add, 1, 1, weak=True, cost=Cost.CHEAP, overwrites=operator.iadd, samples=_PAIR)
SUBTRACT = elementwise(
    "subtract", "x y", operator.sub, 1, -1, weak=True, cost=Cost.CHEAP, overwrites=operator.isub, samples=_PAIR
)
MULTIPLY = elementwise(
    "multiply", "x y", operator.mul,
    lambda y: y,
    lambda x: x,
    weak=True, cost=Cost.CHEAP, overwrites=operator.imul, samples=_PAIR,
)  # fmt: skip
# ∂(x/y)/∂x = 1/y and ∂/∂y = -(x/y)/y: with the quotient saved, x is not. `products` says ct/y for ct·(1/y): one rounding less.
DIVIDE = elementwise(
    "divide", "x y", _divide_impl,
    lambda y: 1.0 / y,
    lambda y, out: -out / y,
    products=(lambda ct, y: ct / conj(y) if is_complex(y) else ct / y, None),
    infer=_quotient_spec, weak=True, cost=Cost.DIVISION, samples=_PAIR_NONZERO,
)  # fmt: skip
NEGATIVE = elementwise(
    "negative", "x", operator.neg, -1, cost=Cost.LIGHT, samples=lambda: [Sample(normal(3, 2)), Sample(normal(0))]
)

add = binary(ADD, "x + y, element by element.")
subtract = binary(SUBTRACT, "x - y, element by element.")
multiply = binary(MULTIPLY, "x · y, element by element.")
divide = binary(
    DIVIDE,
    "x / y, element by element; the quotient of integers is a float: float32 for up to 16 bits, else float64.",
    common=quotients,
)
negative = unary(NEGATIVE, "-x.")


# -- powers --------------------------------------------------------------------------------------------------------


def _power_impl(x: Array, *, exponent: float) -> Array:
    if x.dtype.kind == "b":
        raise TypeError(inference.NO_BOOLEANS)
    # NumPy's scalars have no short way for squares, as its arrays have.
    if x.__class__ is not np.ndarray and exponent == 2:
        return x * x
    return x**exponent if x.dtype.kind != BFLOAT16 else _wide_power(x, exponent=exponent)


_wide_power = rounded_once(lambda x, exponent: x**exponent)


def _power_partial(x: Tensor, exponent: float) -> Tensor:
    # d/dx xⁿ = n·xⁿ⁻¹, with the two cases kept exact that the formula would turn into 0·inf at x = 0
    if exponent == 0:
        return x * 0.0
    if exponent == 2:
        return x * 2.0
    return exponent * power(x, exponent - 1) if exponent != 1 else x * 0.0 + 1.0


POWER = elementwise(
    "power", "x", _power_impl,
    _power_partial,
    infer=inference.numbers,
    call=lambda x, exponent: pow(x, exponent),
    fails=Fails.INTEGERS,
    samples=lambda: [
        Sample(normal(3, 2), 2),
        Sample(normal(3), 3),
        Sample(positive(3), -1.5),
        Sample(normal(3), 1),
        Sample(normal(2), 0),
        Sample(positive(), 0.5),
        Sample(normal(0), 3),
        Sample(np.arange(3), -1, raises=(ValueError, "negative integer powers")),
    ],
)  # fmt: skip


def power(x: Tensor, exponent: float) -> Tensor:
    """x to a Python number: the exponent is part of the op, so `x**2` costs one multiplication each way."""
    return apply(POWER, x, exponent=exponent)


def _pow_impl(x: Array, y: Array) -> Array:
    if x.dtype.kind == "b":
        raise TypeError(inference.NO_BOOLEANS)
    return x**y


# d/dy x^y = x^y·log x, taken as 0 where x ≤ 0: there the power is real only at isolated y
POW = elementwise(
    "pow", "x y", _pow_impl,
    lambda x, y: y * safe_pow(x, y),
    lambda x, out: out * log_or_zero(x),
    infer=inference.numbers, fails=Fails.INTEGERS,
    samples=lambda: [
        Sample(positive(3, 2), normal(3, 2)),
        Sample(positive(2, 1), normal(3)),
        Sample(positive(), normal(2)),
        Sample(positive(0, 2), normal(2)),
        Sample(positive(2) + 1j * normal(2), normal(2) + 0j),
        Sample(normal(2), normal(3), raises=(ValueError, "broadcast")),
    ],
)  # fmt: skip
_pow = binary(POW)


def pow(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:  # TensorFlow's name
    """x to the power y.

    >>> gt.pow([2.0, 3.0], 2).numpy()
    array([4., 9.], dtype=float32)
    """
    if isinstance(y, (int, float)) and not isinstance(y, bool):
        base = convert(x)
        if base.dtype.is_differentiable or isinstance(y, int):
            return apply(POWER, base, exponent=y)
        x = base
    return _pow(x, y)


def safe_pow(x: Tensor, y: Tensor) -> Tensor:
    """x^(y-1), and 1 where y = 0, so that y·x^(y-1) is 0 there even at x = 0."""
    zero = y == 0
    return _pow(where(zero, ones_like(x + y), x), where(zero, ones_like(x + y), y) - 1.0)


def log_or_zero(x: Tensor) -> Tensor:
    """log x, and 0 where x is zero or a negative real number."""
    if is_complex(x):
        usable = x != 0
        return where(usable, log(where(usable, x, ones_like(x))), zeros_like(x))
    usable = x > 0
    return where(usable, log(where(usable, x, ones_like(x))), zeros_like(x))


# -- one-input functions -------------------------------------------------------------------------------------------


def _unary(
    name: str, impl: Rule, partial: Rule | Number, samples: SampleMaker, product: Rule | None = None, floating: bool = True,
    cost: Cost = Cost.DEAR,
    expand: Rule | None = None,
) -> Op:  # fmt: skip
    return elementwise(
        name, "x", impl, partial, samples=samples, floating=floating, cost=cost, expand=expand,
        products=(product,) if product is not None else (),
        infer=inference.elementwise_float if floating else None,
    )  # fmt: skip


def _any() -> list[Sample]:
    return [Sample(normal(3, 2)), Sample(normal()), Sample(normal(0, 2)), Sample(normal(2) + 1j * normal(2))]


def _positive() -> list[Sample]:
    return [Sample(positive(3, 2)), Sample(positive()), Sample(positive(0)), Sample(positive(2) + 1j * normal(2))]


def _unit() -> list[Sample]:
    return [Sample(unit(3, 2)), Sample(unit()), Sample(unit(0)), Sample(unit(2) + 1j * unit(2))]


def _reciprocal_impl(x: Array) -> Array:
    return x.dtype.type(1.0) / x  # a Python number would make float32 of bfloat16


def _rsqrt_impl(x: Array) -> Array:
    return x.dtype.type(1.0) / np.sqrt(x)


def _square_impl(x: Array) -> Array:
    return x * x


# Where a derivative can be said in terms of the result, it is: the result is computed anyway, and often what others save too.
SQUARE = _unary("square", _square_impl, lambda x: x * 2.0, _any, floating=False, cost=Cost.CHEAP)
SQRT = _unary("sqrt", np.sqrt, lambda out: 0.5 / out, _positive, cost=Cost.DIVISION)
RSQRT = _unary("rsqrt", _rsqrt_impl, lambda x, out: -0.5 * out / x, _positive)
RECIPROCAL = _unary("reciprocal", _reciprocal_impl, lambda out: -out * out, _positive, cost=Cost.DIVISION)
EXP = _unary("exp", np.exp, lambda out: out, _any)
EXPM1 = _unary("expm1", np.expm1, lambda out: out + 1.0, _any)
LOG = _unary("log", np.log, lambda x: 1.0 / x, _positive)
LOG1P = _unary("log1p", np.log1p, lambda x: 1.0 / (x + 1.0), _positive)
SIN = _unary("sin", np.sin, lambda x: cos(x), _any)
COS = _unary("cos", np.cos, lambda x: -sin(x), _any)
TAN = _unary("tan", np.tan, lambda out: out * out + 1.0, _unit)
ASIN = _unary("asin", np.arcsin, lambda x: rsqrt(1.0 - x * x), _unit)
ACOS = _unary("acos", np.arccos, lambda x: -rsqrt(1.0 - x * x), _unit)
ATAN = _unary("atan", np.arctan, lambda x: 1.0 / (x * x + 1.0), _unit)
SINH = _unary("sinh", np.sinh, lambda x: cosh(x), _any)
COSH = _unary("cosh", np.cosh, lambda x: sinh(x), _any)
TANH = _unary("tanh", np.tanh, lambda out: 1.0 - out * out, _any)
ASINH = _unary("asinh", np.arcsinh, lambda x: rsqrt(x * x + 1.0), _unit)
# 1/√(x² - 1) as a product of roots: the difference of squares would cancel near 1, and lose the branch of complex numbers.
ACOSH = _unary(
    "acosh",
    np.arccosh,
    lambda x: rsqrt(x - 1.0) * rsqrt(x + 1.0),
    lambda: [Sample(positive(3, 2) + 1.5), Sample(positive() + 1.5), Sample(positive(2) + 1.5 + 1j * normal(2))],
)
ATANH = _unary("atanh", np.arctanh, lambda x: 1.0 / (1.0 - x * x), _unit)

square = unary(SQUARE, "x².")
sqrt = unary(SQRT, "Square root; NaN for negative numbers.")
rsqrt = unary(RSQRT, "1 / √x.")
reciprocal = unary(RECIPROCAL, "1 / x.")
exp = unary(EXP, "e to the power x.")
expm1 = unary(EXPM1, "exp(x) - 1, exact for small x.")
log = unary(LOG, "Natural logarithm.")
log1p = unary(LOG1P, "log(1 + x), exact for small x.")
sin = unary(SIN, "Sine of an angle in radians.")
cos = unary(COS, "Cosine of an angle in radians.")
tan = unary(TAN, "Tangent of an angle in radians.")
asin = unary(ASIN, "The angle in [-π/2, π/2] with this sine.")
acos = unary(ACOS, "The angle in [0, π] with this cosine.")
atan = unary(ATAN, "The angle in (-π/2, π/2) with this tangent.")
sinh = unary(SINH, "Hyperbolic sine.")
cosh = unary(COSH, "Hyperbolic cosine.")
tanh = unary(TANH, "Hyperbolic tangent.")
asinh = unary(ASINH, "Inverse hyperbolic sine.")
acosh = unary(ACOSH, "Inverse hyperbolic cosine, of numbers from 1 on.")
atanh = unary(ATANH, "Inverse hyperbolic tangent, of numbers in (-1, 1).")

ATAN2 = elementwise(
    "atan2", "y x", np.arctan2,
    lambda y, x: x / (x * x + y * y),
    lambda y, x: -y / (x * x + y * y),
    floating=True, infer=inference.elementwise_float,
    samples=lambda: [
        Sample(away(3, 2), away(3, 2)),
        Sample(away(3, 1), away(2)),
        Sample(away(), away(0)),
        Sample(away(2), away(3), raises=(ValueError, "broadcast")),
    ],
)  # fmt: skip
_atan2 = binary(ATAN2)


def atan2(y: TensorLike, x: TensorLike, name: str | None = None) -> Tensor:
    """The angle of the point (x, y), in (-π, π].

    >>> gt.atan2(y=1.0, x=0.0).numpy()
    np.float32(1.5707964)
    """
    return _atan2(y, x)


# -- complex numbers: real and imaginary parts, conjugate, modulus ---------------------------------------------------
# Convention: the cotangent of z = x + iy is ∂L/∂x + i ∂L/∂y.


def _both() -> list[Sample]:
    return [Sample(normal(3) + 1j * normal(3)), Sample(away(2, 2)), Sample(normal(0) + 0j), Sample(away())]


# For the real inner product Re⟨a, b⟩, d|z| = Re(conj(u) dz) with u = z/|z|, so the cotangent of z is ct·u. No holomorphic
# function: hence `general`, with the two modes written out. At 0 the derivative is 0, as in TensorFlow.
ABS = general(
    "abs", "x", np.abs,
    vjps=(lambda ct, x: sign(x) * cast(ct, x.dtype) if is_complex(x) else ct * sign(x),),
    jvps=(lambda t, x: real(conj(sign(x)) * t) if is_complex(x) else t * sign(x),),
    infer=inference.real_part, batch=batching.elementwise, cost=Cost.CHEAP, samples=_both,
)  # fmt: skip
SIGN = general(
    "sign", "x", np.sign,
    # real: 0. complex u = z/|z| turns only: du = (dz - u Re(conj(u) dz)) / |z|, self-adjoint
    vjps=(lambda ct, x, out: sign_tangent(ct, x, out),),
    jvps=(lambda t, x, out: sign_tangent(t, x, out),),
    infer=inference.same, batch=batching.elementwise, samples=_both,
)  # fmt: skip


def sign_tangent(t: Tensor, x: Tensor, out: Tensor) -> Tensor:
    """The derivative of x/|x| in direction t."""
    if not is_complex(x):
        return t * 0.0
    size = abs(x)
    inverse = where(size == 0, zeros_like(size), 1.0 / where(size == 0, ones_like(size), size))
    return (t - out * cast(real(conj(out) * t), x.dtype)) * cast(inverse, x.dtype)


REAL = general(
    "real", "x",
    lambda x: np.array(x.real)[()] if x.dtype.kind == "c" else x,
    vjps=(lambda ct, x_spec: cast(ct, x_spec.dtype),),
    jvps=(lambda t: real(t),),
    infer=inference.real_part, batch=batching.elementwise,
    memory=Memory.SHARED, samples=_both,
)  # fmt: skip
IMAG = general(
    "imag", "x",
    lambda x: np.array(x.imag)[()],
    # d Im(z): the cotangent of z is i·ct
    vjps=(lambda ct, x_spec: cast(ct, x_spec.dtype) * 1j if is_complex(x_spec) else ct * 0.0,),
    jvps=(lambda t: imag(t),),
    infer=inference.real_part, batch=batching.elementwise,
    samples=_both,
)  # fmt: skip
CONJ = general(
    "conj", "x",
    lambda x: np.conj(x) if x.dtype.kind != "b" else x,
    vjps=(lambda ct: conj(ct),),
    jvps=(lambda t: conj(t),),
    infer=inference.same, batch=batching.elementwise, samples=_both,
)  # fmt: skip


def _complex_impl(real: Array, imag: Array) -> Array:
    # put together, not computed: inf · 1j would be nan + inf j, and the sign of zeros would be lost
    shape = np.broadcast_shapes(real.shape, imag.shape)
    out = np.empty(shape, np.complex128 if real.dtype.itemsize == 8 else np.complex64)
    out.real, out.imag = real, imag
    return out if shape else out[()]


COMPLEX = general(
    "complex", "real imag", _complex_impl,
    vjps=(lambda ct: real(ct), lambda ct: imag(ct)),
    jvps=(lambda t: complex(t, zeros_like(t)), lambda t: complex(zeros_like(t), t)),
    infer=lambda real, imag: TensorSpec(
        inference.broadcast_shapes(real.shape, imag.shape), "complex128" if real.dtype.size == 8 else "complex64"
    ),
    batch=batching.elementwise,
    samples=lambda: [
        Sample(normal(3), normal(3)),
        Sample(normal(), normal()),
        Sample(normal(0), normal(0)),
        Sample(normal(2, 1), normal(3)),
        Sample(normal(), normal(2)),
        Sample(np.arange(2), np.arange(2), raises=(TypeError, "floating")),
    ],
)  # fmt: skip

abs = unary(ABS, "Absolute value; of complex numbers the modulus.")
sign = unary(SIGN, "-1, 0 or 1; of complex numbers x / |x|.")
_real, _imag = unary(REAL), unary(IMAG)
conj = unary(CONJ, "Complex conjugate.")


def real(input: TensorLike, name: str | None = None) -> Tensor:
    """Real part."""
    return _real(input)


def imag(input: TensorLike, name: str | None = None) -> Tensor:
    """Imaginary part; zero for real numbers."""
    return _imag(input)


def complex(real: TensorLike, imag: TensorLike, name: str | None = None) -> Tensor:
    """The complex tensor real + i·imag."""
    real, imag = promote(real, imag)
    if not real.dtype.is_floating:
        raise TypeError(f"complex: both parts must be floating, got dtype {real.dtype.name}; use gt.cast first")
    if real.dtype.size < 4:  # there are no complex numbers of halves
        real, imag = cast(real, "float32"), cast(imag, "float32")
    if tuple(real.shape) != tuple(imag.shape):  # the op's rules are for parts of one shape
        shape = inference.broadcast_shapes(real.shape, imag.shape)
        real, imag = broadcast_to(real, shape), broadcast_to(imag, shape)
    return apply(COMPLEX, real, imag)


__all__ = [  # of `gt.math`
    "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "complex", "conj", "cos", "cosh", "divide",
    "exp", "expm1", "imag", "log", "log1p", "multiply", "negative", "pow", "real", "reciprocal", "rsqrt", "sign", "sin",
    "sinh", "sqrt", "square", "subtract", "tan", "tanh",
]  # fmt: skip
OPS = (
    CAST, ADD, SUBTRACT, MULTIPLY, DIVIDE, NEGATIVE, POWER, POW, SQUARE, SQRT, RSQRT, RECIPROCAL, EXP, EXPM1, LOG, LOG1P,
    SIN, COS, TAN, ASIN, ACOS, ATAN, SINH, COSH, TANH, ASINH, ACOSH, ATANH, ATAN2, ABS, SIGN, REAL, IMAG, CONJ, COMPLEX,
)  # fmt: skip

from gradtape.ops.create import ones_like, zeros_like
from gradtape.ops.select import where
from gradtape.ops.shape import broadcast_to
