"""Keras's `numpy` functions that make tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from keras.src.backend import config

from gradtape.core.tensor import Tensor
from gradtape.core.typing import DTypeLike, Shape, TensorLike
from gradtape.keras.core_ops import cast, convert_to_tensor
from gradtape.keras.numpy_types import kind_of, on_tensors as np, promoted_floats, result_type
from gradtape.ops import create
from gradtape.ops.elementwise import exp, log, pow as power
from gradtape.ops.shape import expand_dims
from gradtape.tape.jacobian import vectorized_map


def array(x: TensorLike, dtype: DTypeLike | None = None) -> Tensor:
    return convert_to_tensor(x, dtype=dtype)


def ones(shape: Shape, dtype: DTypeLike | None = None) -> Tensor:
    return create.ones(shape, dtype or config.floatx())


def zeros(shape: Shape, dtype: DTypeLike | None = None) -> Tensor:
    return create.zeros(shape, dtype or config.floatx())


empty = zeros


def full(shape: Shape, fill_value: TensorLike, dtype: DTypeLike | None = None) -> Tensor:
    from gradtape.ops.shape import broadcast_to

    value = convert_to_tensor(fill_value, dtype or config.floatx())
    return broadcast_to(value, shape if not isinstance(shape, int) else (shape,))


def zeros_like(x: TensorLike, dtype: DTypeLike | None = None) -> Tensor:
    return create.zeros_like(convert_to_tensor(x), dtype)


def ones_like(x: TensorLike, dtype: DTypeLike | None = None) -> Tensor:
    return create.ones_like(convert_to_tensor(x), dtype)


empty_like = zeros_like


def full_like(x: TensorLike, fill_value: TensorLike, dtype: DTypeLike | None = None) -> Tensor:
    tensor = convert_to_tensor(x)
    return full(tuple(tensor.shape), fill_value, dtype or tensor.dtype)


def arange(
    start: TensorLike, stop: TensorLike | None = None, step: TensorLike | None = None, dtype: DTypeLike | None = None
) -> Tensor:
    ends = [part for part in (start, stop, step) if part is not None]
    if dtype is None:
        dtype = result_type(*[kind_of(part) if hasattr(part, "dtype") else type(part) for part in ends])
    if stop is None:
        start, stop = 0, start
    step = 1 if step is None else step
    if not any(isinstance(part, Tensor) and part.wraps for part in ends) and all(not hasattr(part, "floor") for part in ends):
        plain = [part.numpy() if isinstance(part, Tensor) else part for part in (start, stop, step)]
        if all(isinstance(part, (int, float, np.number, np.ndarray)) for part in plain):
            return convert_to_tensor(np.arange(*plain), dtype)
    return cast(create.range(start, stop, step), dtype)


def eye(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike | None = None) -> Tensor:
    return convert_to_tensor(np.eye(int(N), None if M is None else int(M), k), dtype or config.floatx())


def identity(n: int, dtype: DTypeLike | None = None) -> Tensor:
    return eye(n, dtype=dtype)


def tri(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike | None = None) -> Tensor:
    return convert_to_tensor(np.tri(N, M, k), dtype or config.floatx())


def _spaced(
    rule: Callable[..., Any], start: TensorLike, stop: TensorLike, num: int, endpoint: bool, dtype: Any, axis: int
) -> Tensor:
    a, b = promoted_floats(start, stop)
    if dtype is None:
        dtype = result_type(*[kind_of(x) if hasattr(x, "dtype") else type(x) for x in (a, b)], float)
    return cast(rule(a, b, num, endpoint, axis), dtype)


def _line(a: Tensor, b: Tensor, num: int, endpoint: bool, axis: int) -> Tensor:
    steps = max(num - 1 if endpoint else num, 1)
    share = cast(np.arange(num) / steps, a.dtype)
    rank = max(a.ndim, b.ndim)
    from gradtape.ops.shape import reshape

    place = axis % (rank + 1)
    share = reshape(share, tuple(num if i == place else 1 for i in range(rank + 1)))
    first, last = expand_dims(a, place if a.ndim else 0), expand_dims(b, place if b.ndim else 0)
    return first * (1.0 - share) + last * share


def linspace(
    start: TensorLike, stop: TensorLike, num: int = 50, endpoint: bool = True, retstep: bool = False,
    dtype: DTypeLike | None = None, axis: int = 0,
) -> Any:  # fmt: skip
    values = _spaced(_line, start, stop, num, endpoint, dtype, axis)
    if not retstep:
        return values
    a, b = promoted_floats(start, stop)
    steps = num - 1 if endpoint else num
    return values, (b - a) / steps if steps else cast(np.nan, a.dtype)


def logspace(
    start: TensorLike, stop: TensorLike, num: int = 50, endpoint: bool = True, base: float = 10, dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Tensor:  # fmt: skip
    rule = lambda a, b, *rest: power(cast(base, a.dtype), _line(a, b, *rest))  # noqa: E731
    return _spaced(rule, start, stop, num, endpoint, dtype, axis)


def geomspace(
    start: TensorLike, stop: TensorLike, num: int = 50, endpoint: bool = True, dtype: DTypeLike | None = None, axis: int = 0
) -> Tensor:
    def rule(a: Tensor, b: Tensor, *rest: Any) -> Tensor:
        return np.sign(a) * exp(_line(log(abs(a)), log(abs(b)), *rest))

    return _spaced(rule, start, stop, num, endpoint, dtype, axis)


def _window(rule: Callable[..., Any]) -> Callable[..., Tensor]:
    def function(x: TensorLike) -> Tensor:
        return convert_to_tensor(rule(int(convert_to_tensor(x))), config.floatx())

    return function


bartlett, blackman, hamming, hanning = (_window(rule) for rule in (np.bartlett, np.blackman, np.hamming, np.hanning))


def kaiser(x: TensorLike, beta: float) -> Tensor:
    return convert_to_tensor(np.kaiser(int(convert_to_tensor(x)), float(beta)), config.floatx())


def vander(x: TensorLike, N: int | None = None, increasing: bool = False) -> Tensor:
    tensor = convert_to_tensor(x)
    wanted = result_type(tensor.dtype.name, int) if not tensor.dtype.is_bool else "int32"
    count = int(tensor.shape[0]) if N is None else N
    powers = np.arange(count) if increasing else np.arange(count)[::-1]
    base = expand_dims(cast(tensor, "float32" if not tensor.dtype.is_differentiable else tensor.dtype), -1)
    return cast(power(base, cast(powers.astype("float32"), base.dtype)), wanted)


def vectorize(pyfunc: Callable[..., Any], *, excluded: Any = None, signature: str | None = None) -> Callable[..., Any]:
    from keras.src.backend.common.backend_utils import vectorize_impl
    from keras.src.ops.numpy import vectorize as _  # noqa: F401

    def over_rows(function: Callable[..., Any], in_axes: Any = 0) -> Callable[..., Any]:
        @functools.wraps(function)
        def mapped(*args: Any) -> Any:
            axes = in_axes if isinstance(in_axes, (tuple, list)) else (in_axes,) * len(args)
            rows = [x for x, axis in zip(args, axes, strict=True) if axis is not None]

            def one(parts: Any) -> Any:
                feed = iter(parts)
                return function(*[x if axis is None else next(feed) for x, axis in zip(args, axes, strict=True)])

            return vectorized_map(one, [convert_to_tensor(row) for row in rows])

        return mapped

    return vectorize_impl(pyfunc, over_rows, excluded=excluded, signature=signature)
