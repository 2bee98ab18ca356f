"""Permutations as vectors of indices."""

from __future__ import annotations

import numpy as np

from gradtape.core import batching, inference
from gradtape.core.dispatch import apply, convert
from gradtape.core.opdef import Fails, Sample, nondiff
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Array, TensorLike
from gradtape.errors import InvalidArgumentError


def _invert_permutation_impl(x: Array) -> Array:
    if x.ndim != 1 or not np.array_equal(np.sort(x), np.arange(x.size)):
        raise InvalidArgumentError(f"invert_permutation: {x.tolist()} is not a permutation of 0 … {x.size - 1}")
    out = np.empty_like(x)
    out[x] = np.arange(x.size, dtype=x.dtype)
    return out


INVERT_PERMUTATION = nondiff(
    "invert_permutation", "x", _invert_permutation_impl,
    infer=inference.same, reason="indices have no derivative", batch=batching.looped,
    fails=Fails.VALUES,
    samples=lambda: [Sample(np.array([2, 0, 1])), Sample(np.array([0, 0]), raises=(ValueError, "permutation"))],
)  # fmt: skip


def invert_permutation(x: TensorLike, name: str | None = None) -> Tensor:
    """The permutation y with y[x[i]] = i.

    >>> gt.math.invert_permutation([2, 0, 1]).numpy()
    array([1, 2, 0], dtype=int32)
    """
    return apply(INVERT_PERMUTATION, convert(x))


OPS = (INVERT_PERMUTATION,)
