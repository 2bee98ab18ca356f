"""Zeros around an array: the primitive behind `pad`, and the adjoint of slices."""

from __future__ import annotations

import numpy as np

from gradtape.core.dispatch import apply
from gradtape.core.opdef import Memory, Sample, linear
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Array, Size
from gradtape.ir.types import TensorSpec
from gradtape.ops.sampling import normal


def _pad_impl(x: Array, *, paddings: tuple[tuple[Size, Size], ...]) -> Array:
    if not paddings:
        return x
    # `np.pad` goes through Python for each axis, and this op is in every gradient of a slice.
    out = np.zeros(tuple(d + a + b for d, (a, b) in zip(x.shape, paddings, strict=True)), x.dtype)
    out[tuple(slice(a, a + d) for d, (a, _) in zip(x.shape, paddings, strict=True))] = x
    return out


def crop(ct: Tensor, paddings: tuple[tuple[Size, Size], ...]) -> Tensor:
    """What is left when the padding is cut off."""
    for axis, (before, after) in enumerate(paddings):
        if before != 0 or after != 0:  # sizes of the program have no truth value
            size = ct.shape[axis] - before - after
            ct = apply(SLICE_AXIS, ct, axis=axis, start=before, size=size)
    return ct


PAD = linear(
    "pad_zeros", "x", _pad_impl,
    lambda ct, paddings: crop(ct, paddings),
    infer=lambda x, *, paddings: TensorSpec(tuple(d + a + b for d, (a, b) in zip(x.shape, paddings, strict=True)), x.dtype),
    batch=lambda op, flags, inputs, attrs: apply(op, *inputs, paddings=((0, 0), *attrs["paddings"])),
    memory=Memory.FRESH,
    samples=lambda: [Sample(normal(2, 3), ((1, 0), (2, 1))), Sample(normal(0), ((1, 1),)), Sample(normal(), ())],
)  # fmt: skip

OPS = (PAD,)

from gradtape.ops.shape import SLICE_AXIS
