"""Keras's `nn` functions that are activations; each keeps the dtype it is given."""

from __future__ import annotations

import math

import numpy as np

from gradtape.core.tensor import Tensor
from gradtape.core.typing import TensorLike
from gradtape.keras.core_ops import cast, convert_to_tensor
from gradtape.keras.numpy_types import floating, of_floats
from gradtape.ops import activations as a, select
from gradtape.ops.create import zeros_like
from gradtape.ops.cumulative import cumsum
from gradtape.ops.elementwise import abs as magnitude, exp, expm1, log, sqrt, tanh as hyperbolic_tangent
from gradtape.ops.reduce import reduce_max, reduce_sum
from gradtape.ops.shape import reshape, split
from gradtape.ops.sorting import sort

relu6, sigmoid, tanh = of_floats(a.relu6), of_floats(a.sigmoid), of_floats(hyperbolic_tangent)
softplus, softsign, silu, selu, log_sigmoid = (of_floats(op) for op in (a.softplus, a.softsign, a.silu, a.selu, a.log_sigmoid))


def relu(x: TensorLike) -> Tensor:
    return a.relu(convert_to_tensor(x))


def sparse_sigmoid(x: TensorLike) -> Tensor:
    tensor = floating(x)
    return select.clip_by_value(0.5 * (tensor + 1.0), 0.0, 1.0)


def tanh_shrink(x: TensorLike) -> Tensor:
    tensor = floating(x)
    return tensor - hyperbolic_tangent(tensor)


def soft_shrink(x: TensorLike, threshold: float = 0.5) -> Tensor:
    tensor = floating(x)
    nothing = zeros_like(tensor)
    return select.where(tensor > threshold, tensor - threshold, select.where(tensor < -threshold, tensor + threshold, nothing))


def sparse_plus(x: TensorLike) -> Tensor:
    tensor = floating(x)
    bent = 0.25 * (tensor + 1.0) * (tensor + 1.0)
    return select.where(tensor <= -1.0, zeros_like(tensor), select.where(tensor < 1.0, bent, tensor))


def squareplus(x: TensorLike, b: float = 4) -> Tensor:
    tensor = floating(x)
    return (tensor + sqrt(tensor * tensor + cast(b, tensor.dtype))) / 2.0


def leaky_relu(x: TensorLike, negative_slope: float = 0.2) -> Tensor:
    return a.leaky_relu(floating(x), negative_slope)


def hard_sigmoid(x: TensorLike) -> Tensor:
    return select.clip_by_value(floating(x) / 6.0 + 0.5, 0.0, 1.0)


def hard_silu(x: TensorLike) -> Tensor:
    tensor = floating(x)
    return tensor * hard_sigmoid(tensor)


def elu(x: TensorLike, alpha: float = 1.0) -> Tensor:
    tensor = floating(x)
    return select.where(tensor >= 0.0, tensor, alpha * expm1(select.minimum(tensor, 0.0)))


def gelu(x: TensorLike, approximate: bool = True) -> Tensor:
    return a.gelu(floating(x), approximate)


def celu(x: TensorLike, alpha: float = 1.0) -> Tensor:
    tensor = floating(x)
    return select.maximum(tensor, 0.0) + alpha * expm1(select.minimum(tensor, 0.0) / alpha)


def glu(x: TensorLike, axis: int = -1) -> Tensor:
    tensor = floating(x)
    if tensor.shape[axis] % 2:
        raise ValueError(f"axis size must be divisible by 2. Received: x.shape={tuple(tensor.shape)} with axis={axis}")
    linear, gate = split(tensor, 2, axis)
    return linear * a.sigmoid(gate)


def hard_tanh(x: TensorLike) -> Tensor:
    return select.clip_by_value(floating(x), -1.0, 1.0)


def hard_shrink(x: TensorLike, threshold: float = 0.5) -> Tensor:
    tensor = floating(x)
    return select.where(magnitude(tensor) > threshold, tensor, zeros_like(tensor))


def threshold(x: TensorLike, threshold: float, default_value: float) -> Tensor:
    tensor = floating(x)
    return select.where(tensor > threshold, tensor, cast(default_value, tensor.dtype))


def softmax(x: TensorLike, axis: int | None = -1) -> Tensor:
    tensor = floating(x)
    if axis is None:
        return reshape(a.softmax(reshape(tensor, (-1,))), tensor.shape)
    if isinstance(axis, (tuple, list)):
        top = exp(tensor - reduce_max(tensor, tuple(axis), True))
        return top / reduce_sum(top, tuple(axis), True)
    return a.softmax(tensor, axis)


def log_softmax(x: TensorLike, axis: int | None = -1) -> Tensor:
    tensor = floating(x)
    if axis is None:
        return reshape(a.log_softmax(reshape(tensor, (-1,))), tensor.shape)
    if isinstance(axis, (tuple, list)):
        lower = tensor - reduce_max(tensor, tuple(axis), True)
        return lower - log(reduce_sum(exp(lower), tuple(axis), True))
    return a.log_softmax(tensor, axis)


def sparsemax(x: TensorLike, axis: int = -1) -> Tensor:
    """The projection on the simplex: the values above a threshold τ with Σ max(x - τ, 0) = 1 (Martins and Astudillo, 2016)."""
    tensor = floating(x)
    ordered = sort(tensor, axis, "DESCENDING")
    sums = cumsum(ordered, axis)
    count = tensor.shape[axis]
    ranks = reshape(
        cast(np.arange(1, count + 1), tensor.dtype), [-1 if i == axis % tensor.ndim else 1 for i in range(tensor.ndim)]
    )
    inside = cast(ordered - (sums - 1.0) / ranks > 0.0, tensor.dtype)
    size = reduce_sum(inside, axis, True)
    last = reduce_sum(ordered * inside, axis, True)
    return select.maximum(tensor - (last - 1.0) / size, 0.0)


def psnr(x1: TensorLike, x2: TensorLike, max_val: float) -> Tensor:
    a_, b_ = floating(x1), floating(x2)
    if tuple(a_.shape) != tuple(b_.shape):
        raise ValueError(f"Input shapes {tuple(a_.shape)} and {tuple(b_.shape)} must match for PSNR calculation. ")
    from gradtape.ops.reduce import reduce_mean

    error = reduce_mean((a_ - b_) * (a_ - b_))
    return (20.0 * log(cast(max_val, b_.dtype)) - 10.0 * log(error)) / math.log(10.0)
