"""`check_numerics`: a value that passes through, or an error that says how many NaN and infinities it has."""

from __future__ import annotations

import numpy as np

from gradtape.core import batching, inference
from gradtape.core.dispatch import apply, convert
from gradtape.core.opdef import Fails, Memory, Sample, linear
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Array, TensorLike
from gradtape.errors import InvalidArgumentError
from gradtape.ops.sampling import normal


def check_numerics(tensor: TensorLike, message: str, name: str | None = None) -> Tensor:
    """The tensor, if it has no NaN or infinity; otherwise InvalidArgumentError with the message and the counts.

    >>> gt.debugging.check_numerics(gt.constant([1.0, 2.0]), "weights").numpy()
    array([1., 2.], dtype=float32)
    """
    x = convert(tensor)
    if not x.dtype.is_differentiable:
        raise InvalidArgumentError(f"check_numerics: {message}: the tensor must be floating or complex, got {x.dtype.name}")
    return apply(CHECK_NUMERICS, x, message=str(message))


def _check_impl(x: Array, *, message: str) -> Array:
    finite = np.isfinite(x)
    if not finite.all():
        nans, infinite = int(np.isnan(x).sum()), int(np.isinf(x).sum())
        first = tuple(int(i) for i in np.argwhere(~np.atleast_1d(finite))[0]) if np.ndim(x) else ()
        raise InvalidArgumentError(
            f"check_numerics: {message}: the tensor of shape {x.shape} has {nans} NaN and {infinite} Inf values, "
            f"the first at index {first}"
        )
    return x


CHECK_NUMERICS = linear(
    "check_numerics", "x", _check_impl,
    lambda ct: ct,
    infer=inference.same, batch=batching.elementwise, memory=Memory.SHARED, fails=Fails.VALUES,
    samples=lambda: [
        Sample(normal(2, 3), "sample"),
        Sample(normal(), "sample"),
        Sample(np.array([1.0, np.nan, np.inf]), "sample", raises=(ValueError, "1 NaN and 1 Inf")),
    ],
)  # fmt: skip

OPS = (CHECK_NUMERICS,)
