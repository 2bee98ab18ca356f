"""bfloat16 is a format to keep numbers in, not to add them up in: with 8 bits a sum stands still at 256.

What sums, or scales by counts, runs in float32 and is rounded once. NumPy does so by itself for float16, not for bfloat16,
whose products with NumPy's own types come out wider than they went in. Invariant: the result has the dtype the operands had.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

BFLOAT16 = "V"  # NumPy's letter for types it does not know itself; of dtypes gradtape has, only this


def rounded_once(impl: Callable[..., Any]) -> Callable[..., Any]:
    """An impl that computes in float32 on bfloat16 operands; on all others it is what it was."""

    @functools.wraps(impl)
    def run(*arrays: Any, **attrs: Any) -> Any:
        kept = [x.dtype for x in arrays if getattr(x, "dtype", None) is not None and x.dtype.kind == BFLOAT16]
        if not kept:
            return impl(*arrays, **attrs)
        out = impl(*(_widened(x) for x in arrays), **attrs)
        return tuple(_narrowed(part, kept[0]) for part in out) if isinstance(out, tuple) else _narrowed(out, kept[0])

    return run


def _widened(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float32) if getattr(x, "dtype", None) is not None and x.dtype.kind == BFLOAT16 else x


def _narrowed(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    return x.astype(dtype) if x.dtype == np.float32 else x
