"""Keras's `numpy` functions that work element by element."""

from __future__ import annotations

from collections.abc import Callable

from keras.src.backend import config

from gradtape.core.tensor import Tensor
from gradtape.core.typing import DTypeLike, TensorLike
from gradtape.keras.core_ops import cast, convert_to_tensor, known_dtype
from gradtape.keras.numpy_types import (
    floating,
    kind_of,
    of_floats,
    of_tensor,
    of_two,
    of_two_floats,
    on_tensors as np,
    promoted,
    promoted_floats,
    result_type,
)
from gradtape.ops import compare, elementwise as e, select
from gradtape.ops.composite import divide_no_nan as quotient_or_zero, truncatemod
from gradtape.ops.create import ones_like

# -- of one floating tensor ------------------------------------------------------------------------------------------------

exp, exp2, expm1 = of_floats(e.exp), of_floats(np.exp2), of_floats(e.expm1)
log, log10, log1p, log2 = of_floats(e.log), of_floats(np.log10), of_floats(e.log1p), of_floats(np.log2)
sin, cos, tan, sinh, cosh, tanh = (of_floats(op) for op in (e.sin, e.cos, e.tan, e.sinh, e.cosh, e.tanh))
arcsin, arccos, arctan = of_floats(e.asin), of_floats(e.acos), of_floats(e.atan)
arcsinh, arccosh, arctanh = of_floats(e.asinh), of_floats(e.acosh), of_floats(e.atanh)
sqrt, cbrt, sinc, i0 = of_floats(e.sqrt), of_floats(np.cbrt), of_floats(np.sinc), of_floats(np.i0)
deg2rad, rad2deg, angle = of_floats(np.deg2rad), of_floats(np.rad2deg), of_floats(np.angle)
fabs = of_floats(e.abs)
arctan2, logaddexp, logaddexp2 = (of_two_floats(op) for op in (e.atan2, np.logaddexp, np.logaddexp2))

# -- of one tensor ---------------------------------------------------------------------------------------------------------

negative, real, imag, conjugate, signbit = (of_tensor(op) for op in (e.negative, np.real, np.imag, e.conj, np.signbit))
conj = conjugate
isfinite, isinf, isnan = (of_tensor(op) for op in (np.isfinite, np.isinf, np.isnan))


def isreal(x: TensorLike) -> Tensor:
    tensor = convert_to_tensor(x)
    return compare.equal(np.imag(tensor), 0.0) if tensor.dtype.is_complex else ones_like(tensor, "bool")


def absolute(x: TensorLike) -> Tensor:
    tensor = convert_to_tensor(x)
    return tensor if tensor.dtype.is_bool or tensor.dtype.is_unsigned else e.abs(tensor)


abs_ = absolute


def sign(x: TensorLike) -> Tensor:
    return e.sign(convert_to_tensor(x))


def square(x: TensorLike) -> Tensor:
    tensor = convert_to_tensor(x)
    return e.square(cast(tensor, "int32") if tensor.dtype.is_bool else tensor)


def reciprocal(x: TensorLike) -> Tensor:
    return e.reciprocal(floating(x))


def isposinf(x: TensorLike) -> Tensor:
    tensor = convert_to_tensor(x)
    return compare.logical_and(np.isinf(tensor), tensor > 0)


def isneginf(x: TensorLike) -> Tensor:
    tensor = convert_to_tensor(x)
    return compare.logical_and(np.isinf(tensor), compare.logical_not(tensor > 0))


def ceil(x: TensorLike) -> Tensor:
    return select.ceil(floating(x))


def floor(x: TensorLike) -> Tensor:
    return select.floor(floating(x))


def trunc(x: TensorLike) -> Tensor:
    tensor = convert_to_tensor(x)
    return np.trunc(tensor) if tensor.dtype.is_differentiable else tensor


def round_(x: TensorLike, decimals: int = 0) -> Tensor:
    tensor = convert_to_tensor(x)
    if tensor.dtype.is_bool:
        tensor = cast(tensor, "int32")
    if not tensor.dtype.is_differentiable and decimals >= 0:
        return tensor
    whole = tensor if tensor.dtype.is_differentiable else cast(tensor, config.floatx())
    return cast(np.round(whole, decimals), tensor.dtype)


def nan_to_num(x: TensorLike, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    tensor = convert_to_tensor(x)
    if tensor.dtype.name != "bfloat16":
        return np.nan_to_num(tensor, nan=nan, posinf=posinf, neginf=neginf) if tensor.dtype.is_differentiable else tensor
    largest = float(tensor.dtype.max)
    tensor = select.where(np.isnan(tensor), cast(nan, tensor.dtype), tensor)
    tensor = select.where(isposinf(tensor), cast(largest if posinf is None else posinf, tensor.dtype), tensor)
    return select.where(isneginf(tensor), cast(-largest if neginf is None else neginf, tensor.dtype), tensor)


def logical_not(x: TensorLike) -> Tensor:
    return compare.logical_not(cast(x, "bool"))


def bitwise_invert(x: TensorLike) -> Tensor:
    return np.invert(convert_to_tensor(x))


bitwise_not = bitwise_invert


def view(x: TensorLike, dtype: DTypeLike | None = None) -> Tensor:
    """The same bytes under another dtype: NumPy's, so without a derivative."""
    tensor = convert_to_tensor(x)
    if dtype is None or tensor.dtype == dtype:
        return tensor
    return convert_to_tensor(np.asarray(tensor.numpy()).view(known_dtype(dtype)), dtype)


# -- of two tensors --------------------------------------------------------------------------------------------------------


def add(x1: TensorLike, x2: TensorLike) -> Tensor:
    a, b = promoted(x1, x2)
    return compare.logical_or(a, b) if a.dtype.is_bool else e.add(a, b)


def subtract(x1: TensorLike, x2: TensorLike) -> Tensor:
    a, b = promoted(x1, x2)
    return compare.logical_xor(a, b) if a.dtype.is_bool else e.subtract(a, b)


def multiply(x1: TensorLike, x2: TensorLike) -> Tensor:
    a, b = promoted(x1, x2)
    return compare.logical_and(a, b) if a.dtype.is_bool else e.multiply(a, b)


def divide(x1: TensorLike, x2: TensorLike) -> Tensor:
    return e.divide(*promoted_floats(x1, x2))


true_divide = divide


def divide_no_nan(x1: TensorLike, x2: TensorLike) -> Tensor:
    return quotient_or_zero(*promoted_floats(x1, x2))


def _no_bools(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    return (cast(a, "int32"), cast(b, "int32")) if a.dtype.is_bool else (a, b)


def power(x1: TensorLike, x2: TensorLike) -> Tensor:
    return e.pow(*_no_bools(*promoted(x1, x2)))


def mod(x1: TensorLike, x2: TensorLike) -> Tensor:
    return select.mod(*_no_bools(*promoted(x1, x2)))


def fmod(x1: TensorLike, x2: TensorLike) -> Tensor:
    return truncatemod(*_no_bools(*promoted(x1, x2)))


def floor_divide(x1: TensorLike, x2: TensorLike) -> Tensor:
    return select.floordiv(*_no_bools(*promoted(x1, x2)))


maximum, minimum, fmax, fmin = (of_two(op) for op in (select.maximum, select.minimum, np.fmax, np.fmin))
gcd, lcm = of_two(np.gcd), of_two(np.lcm)
equal, not_equal = of_two(compare.equal), of_two(compare.not_equal)
greater, greater_equal, less, less_equal = (
    of_two(op) for op in (compare.greater, compare.greater_equal, compare.less, compare.less_equal)
)
nextafter = of_two_floats(np.nextafter)


def hypot(x1: TensorLike, x2: TensorLike) -> Tensor:
    a, b = promoted_floats(x1, x2)
    return cast(np.hypot(a, b), a.dtype)


def heaviside(x1: TensorLike, x2: TensorLike) -> Tensor:
    return np.heaviside(*promoted_floats(x1, x2))


def ldexp(x1: TensorLike, x2: TensorLike) -> Tensor:
    exponent = convert_to_tensor(x2)
    if not exponent.dtype.is_integer:
        raise TypeError(f"ldexp exponent must be an integer type. Received: x2 dtype={exponent.dtype.name}")
    base = floating(x1)
    wanted = result_type(kind_of(base), kind_of(exponent), float)
    return e.multiply(cast(base, wanted), e.pow(convert_to_tensor(2.0, wanted), cast(exponent, wanted)))


def logical_and(x1: TensorLike, x2: TensorLike) -> Tensor:
    return compare.logical_and(cast(x1, "bool"), cast(x2, "bool"))


def logical_or(x1: TensorLike, x2: TensorLike) -> Tensor:
    return compare.logical_or(cast(x1, "bool"), cast(x2, "bool"))


def logical_xor(x1: TensorLike, x2: TensorLike) -> Tensor:
    return compare.logical_xor(cast(x1, "bool"), cast(x2, "bool"))


def _of_bits(rule: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Operations on bits name their operands otherwise."""

    def function(x: TensorLike, y: TensorLike) -> Tensor:
        return rule(*promoted(x, y))

    return function


bitwise_and, bitwise_or, bitwise_xor = map(_of_bits, (np.bitwise_and, np.bitwise_or, np.bitwise_xor))
bitwise_left_shift, bitwise_right_shift = map(_of_bits, (np.left_shift, np.right_shift))
left_shift, right_shift = bitwise_left_shift, bitwise_right_shift


def clip(x: TensorLike, x_min: TensorLike, x_max: TensorLike) -> Tensor:
    tensor = convert_to_tensor(x)
    if tensor.dtype.is_bool:
        tensor = cast(tensor, "int32")
    return select.minimum(select.maximum(tensor, cast(x_min, tensor.dtype)), cast(x_max, tensor.dtype))


def isclose(x1: TensorLike, x2: TensorLike, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    a, b = promoted(x1, x2)
    if not a.dtype.is_differentiable:
        a, b = cast(a, "float32"), cast(b, "float32")
    near = compare.less_equal(e.abs(a - b), atol + rtol * e.abs(b))
    close = select.where(compare.logical_and(np.isfinite(a), np.isfinite(b)), near, compare.equal(a, b))
    return compare.logical_or(close, compare.logical_and(np.isnan(a), np.isnan(b))) if equal_nan else close


def where(condition: TensorLike, x1: TensorLike | None = None, x2: TensorLike | None = None) -> Tensor | tuple[Tensor, ...]:
    test = cast(condition, "bool")
    if x1 is not None and x2 is not None:
        return select.where(test, *promoted(x1, x2))
    return tuple(cast(part, "int32") for part in np.nonzero(test))
