"""Small functions that programs written for TensorFlow's graphs use: `identity_n`, `shape_n`, `get_static_value`, and what
asks where one is: `inside_function`, `is_symbolic_tensor`, `get_logger`.

None of them computes anything new; while a function is traced, only constants have a value that is known.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradtape.core.dispatch import convert
from gradtape.core.tensor import Readable, Tensor
from gradtape.core.typing import DTypeLike, TensorLike
from gradtape.ops.create import constant, shape
from gradtape.ops.stop import identity
from gradtape.surface.misc import executing_eagerly
from gradtape.trace.tracing import TracedTensor
from gradtape.variables.indexed_slices import static_value


def identity_n(input: Sequence[Any], name: str | None = None) -> list[Tensor]:
    """The same tensors as new ones, in a list.

    >>> [float(t) for t in gt.identity_n([1.0, gt.constant(2.0)])]
    [1.0, 2.0]
    """
    return [identity(convert(value)) for value in _listed(input, "identity_n")]


def shape_n(input: Sequence[Any], out_type: DTypeLike | None = None, name: str | None = None) -> list[Tensor]:
    """The shape of each tensor, as tensors in a list.

    >>> [s.numpy().tolist() for s in gt.shape_n([gt.ones([2, 3]), gt.zeros([4])])]
    [[2, 3], [4]]
    """
    return [shape(convert(value), out_type) for value in _listed(input, "shape_n")]


def _listed(values: object, name: str) -> list[Any]:
    if not isinstance(values, (list, tuple)):
        raise TypeError(f"{name}: `input` must be a list of tensors, got {type(values).__name__}")
    return list(values)


def get_static_value(tensor: TensorLike, partial: bool = False) -> np.ndarray[Any, Any] | None:
    """The value of a tensor as an array if it is known now; None for one that exists only when the program runs.

    >>> gt.get_static_value(gt.constant([1, 2]))
    array([1, 2], dtype=int32)
    >>> @gt.function
    ... def f(x):
    ...     return 1 if gt.get_static_value(x) is None else 0
    >>> int(f(gt.constant(1.0)))
    1

    Args:
        tensor: a tensor, or what can become one.
        partial: accepted as in TensorFlow; a value is known as a whole or not at all.
    """
    if isinstance(tensor, Readable) and not isinstance(tensor, Tensor):
        tensor = convert(tensor)
    return static_value(tensor if isinstance(tensor, Tensor) else constant(tensor))


def inside_function() -> bool:
    """Whether a function is being traced: the contrary of `executing_eagerly`.

    >>> gt.inside_function(), bool(gt.function(lambda: gt.inside_function())())
    (False, True)
    """
    return not executing_eagerly()


def is_symbolic_tensor(tensor: object) -> bool:
    """Whether a tensor stands for a value that exists only when the program runs.

    >>> gt.is_symbolic_tensor(gt.constant(1.0)), bool(gt.function(lambda x: gt.is_symbolic_tensor(x))(gt.constant(1.0)))
    (False, True)
    """
    return isinstance(tensor, TracedTensor)


def get_logger() -> logging.Logger:
    """Python's logger of the name `gradtape`, whose level programs set; gradtape itself warns and raises.

    >>> gt.get_logger().setLevel("ERROR")
    """
    return logging.getLogger("gradtape")
