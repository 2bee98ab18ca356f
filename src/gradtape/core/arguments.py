"""Checks of the arguments of public functions, shared by all of them: each says which function, which argument, and what was
given instead of what it takes.

They look at Python values, dtypes and shapes, which are known while a function is traced: eager and compiled calls fail alike,
in the same words. What only run time knows (the values of indices) is checked by ops: see `index.check_range`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from gradtape.core.dispatch import convert, promote
from gradtape.core.hooks import HOOKS
from gradtape.core.inference import broadcast_shapes
from gradtape.core.tensor import Readable, Tensor
from gradtape.core.typing import Dims, Integer, TensorLike
from gradtape.dtypes import DType, DTypeLike, as_dtype, float32
from gradtape.errors import InvalidArgumentError, OpError

T = TypeVar("T")
N = TypeVar("N", int, float)


def numeric(value: TensorLike, argument: str, op: str, hint: DTypeLike | None = None) -> Tensor:
    """A tensor of numbers."""
    try:
        tensor = convert(value, hint=hint)
    except OpError:
        raise
    except (TypeError, ValueError) as error:
        raise type(error)(f"{op}: {argument}: {error}") from None
    if tensor.dtype.name == "string":
        raise TypeError(f"{op}: {argument} must be numbers, got {value!r}")
    return tensor


def differentiable(value: TensorLike, argument: str, op: str) -> Tensor:
    """A tensor with a floating or complex dtype: integers and booleans become float32."""
    tensor = numeric(value, argument, op)
    return tensor if tensor.dtype.is_differentiable else HOOKS.cast(tensor, float32)


def real_numbers(value: TensorLike, argument: str, op: str, hint: DTypeLike | None = None) -> Tensor:
    """As `numeric`, refusing complex numbers."""
    tensor = numeric(value, argument, op, hint)
    if tensor.dtype.is_complex:
        raise InvalidArgumentError(
            f"{op}: {argument} must be real, got dtype {tensor.dtype.name}; take gt.abs or gt.math.real first"
        )
    return tensor


def real_floats(value: TensorLike, argument: str, op: str) -> Tensor:
    """As `differentiable`, refusing complex numbers."""
    tensor = real_numbers(value, argument, op)
    return tensor if tensor.dtype.is_differentiable else HOOKS.cast(tensor, float32)


def integral(value: TensorLike, argument: str, op: str) -> Tensor:
    """A tensor of integers."""
    tensor = numeric(value, argument, op)
    if not tensor.dtype.is_integer:
        raise InvalidArgumentError(f"{op}: {argument} must be integers, got dtype {tensor.dtype.name}")
    return tensor


def promoted(op: str, **values: TensorLike) -> tuple[Tensor, ...]:
    """The named arguments as tensors of numbers of one dtype."""
    try:
        tensors = promote(*values.values())
    except (TypeError, ValueError):
        for argument, value in values.items():
            numeric(value, argument, op)
        raise
    return tuple(numeric(tensor, argument, op) for argument, tensor in zip(values, tensors, strict=True))


def of_rank(tensor: Tensor, rank: int, argument: str, op: str, most: int | None = None) -> Tensor:
    """A tensor of at least this rank, and at most of that."""
    if tensor.ndim < rank or (most is not None and tensor.ndim > most):
        wanted = f"{rank} or more" if most is None else str(rank) if most == rank else f"{rank} to {most}"
        raise InvalidArgumentError(f"{op}: {argument} needs rank {wanted}, got shape {tuple(tensor.shape)}")
    return tensor


def broadcasting(op: str, **tensors: Tensor) -> Dims:
    """The shape that the named tensors broadcast to."""
    try:
        return broadcast_shapes(*(t.shape for t in tensors.values()))
    except InvalidArgumentError:
        shapes = " and ".join(str(tuple(t.shape)) for t in tensors.values())
        raise InvalidArgumentError(f"{op}: {' and '.join(tensors)} do not broadcast: shapes {shapes}") from None


def whole(value: Integer, argument: str, op: str, least: int | None = None) -> int:
    """A Python integer, a NumPy one, or a tensor or variable that has its value now; not below `least`."""
    number = _known(value, operator.index)
    if number is None or (least is not None and number < least):
        kind = {None: "an integer", 0: "zero or a positive number", 1: "a positive number"}.get(least, f"at least {least}")
        raise InvalidArgumentError(f"{op}: {argument} must be {kind}, got {value!r}")
    return int(number)


def real_number(value: TensorLike, argument: str, op: str) -> float:
    """A finite number of Python or NumPy, or a tensor or variable that has its value now."""
    number = _known(value, float)
    if number is None or not math.isfinite(number):
        raise InvalidArgumentError(f"{op}: {argument} must be a finite real number, got {value!r}")
    return float(number)


def _known(value: object, number: Callable[[Any], N]) -> N | None:
    """The number that a value is, or None; a value of a program says itself why it has none."""
    # True is an int to Python, but never a size or a count that somebody meant.
    if isinstance(value, (bool, str, bytes)) or getattr(value, "ndim", None):
        return None
    if isinstance(value, (Tensor, Readable)):
        dtype: DType = value.dtype
        if not (dtype.is_integer or (dtype.is_floating and number is float)):
            return None
    try:
        return number(value)
    except OpError:
        raise
    except (TypeError, ValueError):
        return None


def option(value: T, argument: str, op: str, options: Iterable[object]) -> T:
    """One of a few values, of the same type too: True is not 1."""
    options = tuple(options)
    if any(value.__class__ is o.__class__ and value == o for o in options):
        return value
    *some, last = map(repr, options)
    raise InvalidArgumentError(f"{op}: {argument} must be {', '.join(some)}{' or ' if some else ''}{last}, got {value!r}")


def function_of(value: object, argument: str, op: str) -> Callable[..., Any]:
    """Something that can be called."""
    if not callable(value):
        raise TypeError(f"{op}: {argument} must be a function, got {value!r}")
    function: Callable[..., Any] = value
    return function


def dtype_of(value: DTypeLike, argument: str, op: str) -> DType:
    """A dtype, by itself or by its name."""
    try:
        return as_dtype(value)
    except TypeError as error:
        raise TypeError(f"{op}: {argument}: {error}") from None


def floating_dtype(value: DTypeLike, argument: str, op: str) -> DType:
    """A real floating dtype."""
    dtype = dtype_of(value, argument, op)
    if not dtype.is_floating:
        raise InvalidArgumentError(f"{op}: {argument} must be a floating type, got {dtype.name}")
    return dtype
