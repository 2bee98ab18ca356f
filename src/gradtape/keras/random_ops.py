"""Keras's random functions: each is a function of the seed that Keras draws, two unsigned integers."""

from __future__ import annotations

from typing import Any

from keras.src.backend import config
from keras.src.random.seed_generator import draw_seed

from gradtape.core.tensor import Tensor
from gradtape.core.typing import DTypeLike, Shape, TensorLike
from gradtape.keras.core_ops import cast, convert_to_tensor, known_dtype
from gradtape.keras.numpy_types import floating
from gradtape.ops import random as engine
from gradtape.ops.create import zeros_like
from gradtape.ops.index import gather
from gradtape.ops.select import where


def _key(seed: Any) -> Tensor:
    return cast(draw_seed(seed), "int32")


def _wide(dtype: DTypeLike | None) -> tuple[str, str]:
    """The dtype asked for, and the one to draw in."""
    name = known_dtype(dtype or config.floatx())
    return name, "float32" if name in ("float16", "bfloat16") else name


def normal(shape: Shape, mean: float = 0.0, stddev: float = 1.0, dtype: DTypeLike | None = None, seed: Any = None) -> Tensor:
    name, wide = _wide(dtype)
    return cast(engine.stateless_normal(shape, _key(seed), cast(mean, wide), cast(stddev, wide), wide), name)


def truncated_normal(
    shape: Shape, mean: float = 0.0, stddev: float = 1.0, dtype: DTypeLike | None = None, seed: Any = None
) -> Tensor:
    name, wide = _wide(dtype)
    return cast(engine.stateless_truncated_normal(shape, _key(seed), cast(mean, wide), cast(stddev, wide), wide), name)


def uniform(shape: Shape, minval: float = 0.0, maxval: float = 1.0, dtype: DTypeLike | None = None, seed: Any = None) -> Tensor:
    name, wide = _wide(dtype)
    low, high = cast(minval, wide), cast(maxval, wide)
    drawn = low + engine.stateless_uniform(shape, _key(seed), dtype=wide) * (high - low)
    # rounding to fewer digits must not reach the upper end, which is excluded
    result = cast(drawn, name)
    return result if wide == name else where(result >= cast(high, name), cast(low, name), result)


def randint(shape: Shape, minval: int, maxval: int, dtype: DTypeLike = "int32", seed: Any = None) -> Tensor:
    drawn = engine.stateless_uniform(shape, _key(seed), cast(minval, "int32"), cast(maxval, "int32"), "int32")
    return cast(drawn, dtype)


def categorical(logits: TensorLike, num_samples: int, dtype: DTypeLike = "int64", seed: Any = None) -> Tensor:
    return cast(engine.stateless_categorical(floating(logits), num_samples, _key(seed)), dtype)


def dropout(inputs: TensorLike, rate: float, noise_shape: Any = None, seed: Any = None) -> Tensor:
    x = floating(inputs)
    sizes = tuple(x.shape) if noise_shape is None else _noise(noise_shape, x)
    kept = 1.0 - rate
    mask = engine.stateless_uniform(sizes, _key(seed), dtype="float32") < kept
    return where(mask, x / cast(kept, x.dtype), zeros_like(x))


def _noise(noise_shape: Any, x: Tensor) -> tuple[Any, ...]:
    if len(noise_shape) != x.ndim:
        raise ValueError(
            "Argument `noise_shape` should have as many entries as the input has axes. "
            f"Received: noise_shape={noise_shape} and input.shape={tuple(x.shape)}"
        )
    return tuple(n if wanted is None else wanted for wanted, n in zip(noise_shape, x.shape, strict=True))


def shuffle(x: TensorLike, axis: int = 0, seed: Any = None) -> Tensor:
    tensor = convert_to_tensor(x)
    size = tensor.shape[axis]
    from gradtape.ops.create import range as counting

    return gather(tensor, engine.stateless_shuffle(counting(size), _key(seed)), axis=axis)


def gamma(shape: Shape, alpha: TensorLike, dtype: DTypeLike | None = None, seed: Any = None) -> Tensor:
    name, wide = _wide(dtype)
    return cast(engine.stateless_gamma(shape, _key(seed), cast(alpha, wide), dtype=wide), name)


def binomial(
    shape: Shape, counts: TensorLike, probabilities: TensorLike, dtype: DTypeLike | None = None, seed: Any = None
) -> Tensor:
    name, wide = _wide(dtype)
    return cast(engine.stateless_binomial(shape, _key(seed), cast(counts, wide), cast(probabilities, wide), wide), name)


def beta(shape: Shape, alpha: TensorLike, beta: TensorLike, dtype: DTypeLike | None = None, seed: Any = None) -> Tensor:
    """X / (X + Y) for two gamma variables."""
    name, wide = _wide(dtype)
    first, second = engine.split(_key(seed))
    x = engine.stateless_gamma(shape, first, cast(alpha, wide), dtype=wide)
    y = engine.stateless_gamma(shape, second, cast(beta, wide), dtype=wide)
    return cast(x / (x + y), name)
