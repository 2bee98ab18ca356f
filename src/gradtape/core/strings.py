"""Strings as elements of tensors: arrays of Python bytes that stay arrays.

NumPy gives the bare object where a result has no axes, and a bare `bytes` has neither shape nor dtype; arrays of this class
give a 0-d array instead, so that a single string goes through every operation that NumPy has for bytes (`+` joins them).
"""

from __future__ import annotations

from typing import Any

import numpy as np


class Text(np.ndarray):
    """An array of bytes; results of NumPy's functions on it are arrays, also without axes."""

    def __array_wrap__(self, array: np.ndarray, context: object = None, return_scalar: bool = False) -> Any:
        return array.view(Text) if array.dtype == object else array[()]


def text(value: bytes | np.ndarray) -> Text:
    """Bytes, or an array of them, as such an array."""
    return np.array(value, object).view(Text)
