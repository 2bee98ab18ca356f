"""Whether what a native program gives is what the program says: dtypes, ranks and sizes, as far as types and arguments tell.

Asked at the door in debug mode (`config.debug_passes`), where a difference is an InternalError that names the program and the
line. It never looks at elements. Arrays without elements may be placeholders of any size: they say nothing about symbols.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradtape.errors import InternalError
from gradtape.ir.dims import match, substitute
from gradtape.ir.graph import Block
from gradtape.ir.types import ListSpec, TensorSpec


def check_results(name: str, block: Block, arguments: Sequence[Any], results: Sequence[Any]) -> None:
    """Raise InternalError if a result is not of the type that the block says."""
    sizes: dict[str, Any] = {}
    for param, given in zip(block.params, arguments, strict=True):
        if isinstance(param.type, TensorSpec) and np.size(given):
            match(param.type, TensorSpec(np.shape(given), param.type.dtype), sizes)
    if len(results) != len(block.results):
        raise InternalError(f"{name}: native code gave {len(results)} results, the program has {len(block.results)}")
    for i, (value, result) in enumerate(zip(block.results, results, strict=True)):
        if isinstance(value.type, ListSpec) or value.type.dtype.dtype.kind == "O":
            continue
        wanted, shape, dtype = tuple(substitute(value.type, sizes).shape), np.shape(result), np.asarray(result).dtype
        same = len(shape) == len(wanted) and all(n == m for n, m in zip(wanted, shape, strict=True) if isinstance(n, int))
        if not same or dtype != value.type.dtype.dtype:
            where = "" if value.producer is None or value.producer.loc is None else f", at {value.producer.loc}"
            raise InternalError(
                f"{name}: result {i} of native code is {dtype.name}{list(shape)}, the program says {value.type}{where}; "
                "`jit_compile=False` runs it on the NumPy backend"
            )
