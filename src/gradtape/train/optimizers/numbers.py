"""The few functions an update rule or a schedule may call, once for bare NumPy values and once for tensors.

A rule is written once, with Python operators and one of these tables: `ARRAYS` when nobody records, `TENSORS` when a tape
does (so that gradients flow through the update) or a function is traced. Both tables have the same names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from gradtape.core.tensor import Tensor
from gradtape.core.typing import Array
from gradtape.ops.elementwise import cast, cos, sign, sqrt
from gradtape.ops.reduce import reduce_sum
from gradtape.ops.select import clip_by_value, floor, maximum, minimum, where

# What a rule computes with. It is typed as if that were always tensors; bare arrays have the same operators.
RuleValue: TypeAlias = Tensor


@dataclass(frozen=True)
class Numbers:
    """One binding of the functions rules use."""

    sqrt: Callable[[Any], Any]
    sign: Callable[[Any], Any]
    maximum: Callable[[Any, Any], Any]
    minimum: Callable[[Any, Any], Any]
    clip: Callable[[Any, Any, Any], Any]
    where: Callable[[Any, Any, Any], Any]
    floor: Callable[[Any], Any]
    cos: Callable[[Any], Any]
    log: Callable[[Any], Any]
    sum: Callable[[Any], Any]
    cast: Callable[[Any, Any], Any]

    def ceil(self, x: RuleValue) -> Any:
        return -self.floor(-x)


def _log(x: Tensor) -> Any:
    from gradtape.ops.elementwise import log

    return log(x)


def _cast_array(x: Array, dtype: np.dtype) -> Any:
    return x.astype(dtype)


ARRAYS = Numbers(np.sqrt, np.sign, np.maximum, np.minimum, np.clip, np.where, np.floor, np.cos, np.log, np.sum, _cast_array)
TENSORS = Numbers(sqrt, sign, maximum, minimum, clip_by_value, where, floor, cos, _log, reduce_sum, cast)
