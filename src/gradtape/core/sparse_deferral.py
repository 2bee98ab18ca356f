"""How SciPy's sparse matrices leave `a @ t` to the tensor `t`.

Their `@` asks its right operand for an array, and gives up in the operand's favour when that is no array at all (NumPy's way of
saying so is an object of no axes). So a tensor that is asked from there answers with such an object, and its `__rmatmul__` is
called.
"""

from __future__ import annotations

from sys import _getframe
from typing import Any

import numpy as np

NO_ARRAY: np.ndarray[Any, Any] = np.array(None, dtype=object)


def asked_by_sparse_matrix() -> bool:
    """Whether the caller's caller is the `@` of a sparse matrix."""
    # Names of SciPy's own: where they change, `a @ t` raises as it did, and the tests of interchange say so.
    frame = _getframe(2)
    return frame.f_code.co_name == "_matmul_dispatch" and frame.f_globals.get("__name__", "").startswith("scipy.sparse")
