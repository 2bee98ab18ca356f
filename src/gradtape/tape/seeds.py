"""The cotangents a backward pass starts with: `output_gradients`, checked against the targets, or ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape.core.dispatch import convert
from gradtape.core.tensor import Tensor, box
from gradtape.errors import InvalidArgumentError
from gradtape.ops.create import ones_like
from gradtape.ops.elementwise import cast
from gradtape.tape.tape_messages import UnconnectedGradients, aligned
from gradtape.tree import Structure


def seeds_of(targets: list[Tensor], target: Structure, output_gradients: Structure | None) -> list[Tensor]:
    """One seed per target (`target` is how the user arranged them): the weight that was given, or ones."""
    if output_gradients is None:
        return [_ones(tensor) for tensor in targets]
    if isinstance(output_gradients, UnconnectedGradients):
        raise TypeError("gradient: after the sources come output_gradients; give unconnected_gradients by name")
    given = aligned(output_gradients, target)
    seeds = []
    for tensor, weight in zip(targets, given, strict=True):
        if weight is None:
            seeds.append(_ones(tensor))
            continue
        weight = convert(weight, hint=tensor.dtype)
        if tuple(weight.shape) != tuple(tensor.shape):
            raise InvalidArgumentError(
                f"gradient: output_gradients has shape {tuple(weight.shape)} where the target has shape {tuple(tensor.shape)}"
            )
        if weight.dtype.is_complex and not tensor.dtype.is_complex:
            raise InvalidArgumentError(
                f"gradient: output_gradients has dtype {weight.dtype.name} where the target has the real dtype "
                f"{tensor.dtype.name}; use gt.math.real(...)"
            )
        seeds.append(weight if weight.dtype == tensor.dtype else cast(weight, tensor.dtype))
    return seeds


_ONE: dict[np.dtype[Any], Any] = {}  # scalars do not change, and making one takes as long as ten steps of Python


def _ones(tensor: Tensor) -> Tensor:
    """The default seed, made without recording anything."""
    return ones_like(tensor) if tensor.wraps else box(ones_of(tensor._data))


def ones_of(data: Any) -> Any:
    """Ones like an array or a number."""
    if data.shape:
        ones: Any = np.empty(data.shape, data.dtype)
        ones.fill(1)  # (what `np.ones` does, in a fraction of its time)
    elif (ones := _ONE.get(data.dtype)) is None:
        ones = _ONE[data.dtype] = data.dtype.type(1)
    return ones
