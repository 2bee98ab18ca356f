"""Keras's promotion of dtypes, for functions of one, two and many tensors. Python numbers are weak."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from keras.src.backend import config
from keras.src.backend.common import dtypes

from gradtape.core.tensor import Tensor
from gradtape.core.typing import TensorLike
from gradtape.keras.core_ops import _cast, convert_to_tensor

on_tensors: Any = np  # NumPy's functions take and give tensors here, which their types do not say
_WEAK = (int, float)


@functools.lru_cache(4096)
def _result_type(floatx: str, kinds: tuple[Any, ...]) -> str:
    return str(dtypes.result_type(*kinds))


def result_type(*kinds: Any) -> str:
    """The dtype that tensors of these dtypes (or Python types) have together."""
    return _result_type(config.floatx(), kinds)


def kind_of(x: Any) -> Any:
    """What takes part in promotion: a Python number's type, a tensor's dtype."""
    return type(x) if x.__class__ in _WEAK else x.dtype.name


def _given(x: TensorLike) -> Any:
    return x if x.__class__ in _WEAK else convert_to_tensor(x)


def promoted(*values: TensorLike) -> list[Any]:
    """The values as tensors of the dtype they have together."""
    given = [_given(x) for x in values]
    wanted = result_type(*[kind_of(x) for x in given])
    return [convert_to_tensor(x, wanted) for x in given]


def promoted_floats(*values: TensorLike) -> list[Any]:
    """The same, where the result is no integer."""
    given = [_given(x) for x in values]
    wanted = result_type(*[kind_of(x) for x in given], float)
    return [convert_to_tensor(x, wanted) for x in given]


def floating(x: TensorLike) -> Tensor:
    """`x` as a floating tensor; integers and booleans become `floatx`."""
    tensor = convert_to_tensor(x)
    if tensor.dtype.is_differentiable:
        return tensor
    return _cast(tensor, config.floatx() if tensor.dtype.name == "int64" else result_type(tensor.dtype.name, float))


def of_floats(rule: Callable[..., Any]) -> Callable[..., Any]:
    """A function of one floating tensor."""

    def function(x: TensorLike) -> Tensor:
        return rule(floating(x))

    return function


def of_tensor(rule: Callable[..., Any]) -> Callable[..., Any]:
    """A function of one tensor of any dtype."""

    def function(x: TensorLike) -> Tensor:
        return rule(convert_to_tensor(x))

    return function


def of_two(rule: Callable[..., Any]) -> Callable[..., Any]:
    """A function of two tensors in their common dtype."""

    def function(x1: TensorLike, x2: TensorLike) -> Tensor:
        return rule(*promoted(x1, x2))

    return function


def of_two_floats(rule: Callable[..., Any]) -> Callable[..., Any]:
    """A function of two tensors in their common floating dtype."""

    def function(x1: TensorLike, x2: TensorLike) -> Tensor:
        return rule(*promoted_floats(x1, x2))

    return function


def axes_of(axis: Any) -> Any:
    """Axes as NumPy takes them."""
    return tuple(axis) if isinstance(axis, list) else axis
