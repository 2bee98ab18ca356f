"""Values of primitive calls that may be lists: their types, batches of them, comparison."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape.core.tensor import Tensor, box
from gradtape.ir.types import ListSpec
from gradtape.ops.list_values import TensorList, item_spec, spread_spec


def bare(value: Any) -> Any:
    """Python numbers as arrays; lists as they are."""
    return value if isinstance(value, TensorList) else np.asarray(value)


def specs_of(values: tuple[Any, ...]) -> list[Any]:
    return [item_spec(bare(value)) for value in values]


def fits(spec: Any, value: Any) -> bool:
    """Whether a value has a type, in which None is any dimension."""
    if isinstance(spec, ListSpec) or isinstance(value, TensorList):
        return isinstance(spec, ListSpec) and isinstance(value, TensorList) and all(fits(spec.item, v) for v in value)
    same = len(spec.shape) == value.ndim and all(a is None or a == b for a, b in zip(spec.shape, value.shape, strict=True))
    return bool(same and spec.dtype == value.dtype)


def column(rows: list[Any]) -> Any:
    """One batched value from the values of all examples: the arrays of a list carry the batch axis."""
    if isinstance(rows[0], TensorList):
        item = None if rows[0].item is None else spread_spec(rows[0].item, len(rows))
        return TensorList([column([row[i] for row in rows]) for i in range(len(rows[0]))], item)
    return np.stack(rows)


def shape_of(value: Any) -> Any:
    return [shape_of(v) for v in value] if isinstance(value, TensorList) else np.shape(value)


def flat(value: Any) -> list[Any]:
    """The arrays in a value."""
    return [a for v in value for a in flat(v)] if isinstance(value, TensorList) else [value]


def tensor(value: Any) -> Tensor:
    """A tensor around a list, or around a read-only view of an array."""
    from tests.harness.cases import tensor as plain

    return box(value) if isinstance(value, TensorList) else plain(value)
