"""Reading and writing a variable's array directly: the fast way to train when nobody records.

The one invariant: an array that a tensor, a tape or a NumPy view may still show to somebody is never written to.
`writable` looks at reference counts to know; what it cannot be sure of, it copies.
"""

from __future__ import annotations

from sys import getrefcount
from typing import Any

import numpy as np

from gradtape.core.tensor import Tensor, box
from gradtape.core.typing import Array
from gradtape.variables.variable import Variable


class _Slot:
    __slots__ = ("content",)

    def __init__(self, content: Array) -> None:
        self.content = content


def _count_of_sole_reference() -> int:
    """What `getrefcount(local)` says for an object held by one attribute and one local name (it differs by version)."""
    slot = _Slot(np.empty(1))
    content = slot.content
    return getrefcount(content)


_ALONE = _count_of_sole_reference()


def writable(variable: Variable) -> Any:
    """An array with the variable's values that may be written to: its own buffer if nobody else can see it, else a
    copy. `bind` must follow once the new values are in it."""
    tensor = variable._tensor
    data = tensor._data
    if data.__class__ is not np.ndarray:
        return np.array(data)
    # A tensor that the user got from the variable shares its array, and versions never change: then the step writes a copy.
    if data.base is None and getrefcount(data) <= _ALONE and getrefcount(tensor) <= _ALONE and data.flags.carray:
        node = tensor._node
        if node is None or not any(key.open for key in node.keys):
            return data
    return np.array(data, order="C")


def bind(variable: Variable, data: Array | np.generic) -> None:
    """Make `data` the variable's value, a version no tape knows."""
    tensor = variable._tensor
    if tensor._data is data:
        tensor._node = None
    else:
        variable._tensor = box(data)


def is_plain(variable: Variable) -> bool:
    """Whether the variable holds an ordinary array, not a traced or batched stand-in."""
    return variable._tensor.__class__ is Tensor
