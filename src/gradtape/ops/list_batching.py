"""How list ops run on a batch: the arrays of a batched list carry the batch axis first, the length is the same for all.

Indices that differ from example to example go through the stacked list, so they need items of one shape. Only batch rules
are here; the ops are in `ops/lists.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape.core.dispatch import apply
from gradtape.core.opdef import Op
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Dims, Size
from gradtape.ir.types import ListSpec
from gradtape.ops import list_values, lists
from gradtape.ops.compare import equal
from gradtape.ops.dynamic import read_places
from gradtape.ops.index import TAKE
from gradtape.ops.reduce import reduce_max
from gradtape.ops.select import where
from gradtape.ops.shape import broadcast_to, reshape, second_first

Flags = tuple[bool, ...]


def spec_of(x: Tensor) -> Any:
    """The type of a tensor or list value, traced ones too."""
    spec = getattr(x, "spec", None)
    return list_values.item_spec(x._data) if spec is None and not x.wraps else spec if spec is not None else x


def size_of(x: Tensor) -> Size:
    """The length of the batch axis of a batched tensor or list."""
    spec = spec_of(x)
    while isinstance(spec, ListSpec):
        spec = spec.item
    return spec.shape[0]


def batch_size(flags: Flags, inputs: tuple[Any, ...]) -> Size:
    """The length of the batch axis."""
    return next(size_of(x) for x, flag in zip(inputs, flags, strict=True) if flag)


def all_batched(flags: Flags, inputs: tuple[Any, ...]) -> list[Any]:
    """Every input with the batch axis, in all arrays of a list."""
    size = batch_size(flags, inputs)
    return [x if flag else apply(lists.LIST_SPREAD, x, size=size, axis=0) for x, flag in zip(inputs, flags, strict=True)]


def new(op: Op, flags: Flags, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """All items get the batch axis."""
    item = attrs["item"]
    wide = None if item is None else list_values.spread_spec(item, batch_size(flags, inputs))
    return apply(op, *all_batched(flags, inputs), item=wide)


def _wide_items(values: Tensor, item_shape: Dims | None) -> Dims | None:
    return None if item_shape is None else (size_of(values), *item_shape)


def stack(op: Op, flags: Flags, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """The axis of the items goes behind the batch axis."""
    (values,) = inputs
    return second_first(apply(op, values, length=attrs["length"], item_shape=_wide_items(values, attrs["item_shape"])))


def concat(op: Op, flags: Flags, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """Joined one axis further in."""
    (values,) = inputs
    wide = _wide_items(values, attrs["item_shape"])
    return apply(op, values, axis=attrs["axis"] + 1, length=attrs["length"], item_shape=wide)


def split(op: Op, flags: Flags, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """Lengths are the same for all examples: they come from a list."""
    x, counts = inputs
    if not flags[0]:
        x = broadcast_to(x, (size_of(counts), *tuple(x.shape)))
    return apply(op, x, counts[0] if flags[1] else counts, axis=attrs["axis"] + 1, size=attrs["size"])


def sized(op: Op, flags: Flags, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """resize and cut: zeros with the batch axis; with a length for each example, as long as the longest."""
    size = batch_size(flags, inputs)
    values = inputs[0] if flags[0] else apply(lists.LIST_SPREAD, inputs[0], size=size, axis=0)
    wide = {name: list_values.spread_spec(item, size) for name, item in attrs.items()}
    return apply(op, values, reduce_max(inputs[1]) if flags[1] else inputs[1], **wide)


def get(op: Op, flags: Flags, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """An index for each example takes from the stacked list."""
    values, index = inputs
    if not flags[1]:
        return apply(op, values, index)
    rows = _stacked(values)
    if not flags[0]:
        return apply(TAKE, rows, index, axis=0)
    return read_places(rows, index, np.arange(int(index.shape[0])))


def _stacked(values: Tensor) -> Tensor:
    return apply(lists.LIST_STACK, values, length=None, item_shape=None)


def replace(op: Op, flags: Flags, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """The number of items of what is replaced is the same for all examples; an index for each asks for items of one shape."""
    if flags[1]:
        return at(lists.LIST_SET, flags[:3], inputs[:3], {})
    values, value, old = all_batched((flags[0], *flags[2:]), (inputs[0], *inputs[2:]))
    item = attrs["item"]
    if item is not None:
        old, item = inputs[3], list_values.spread_spec(item, batch_size(flags, inputs))
    return apply(op, values, inputs[1], value, old, item=item)


def at(op: Op, flags: Flags, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """set and add_at: with an index for each example, every item is asked whether it is meant."""
    index = inputs[1]
    if not flags[1]:
        rest = all_batched((flags[0], *flags[2:]), (inputs[0], *inputs[2:]))
        return apply(op, rest[0], index, *rest[1:])
    values, _, value = all_batched(flags, inputs)
    # No list has another item for each example at one place; the stacked rows do, so all of them are compared with the index.
    rows = _stacked(values)  # (items, batch, ...)
    count = int(rows.shape[0])
    place = apply(TAKE, np.arange(count), index, axis=0)  # negative ones resolved, others refused
    meant = equal(np.arange(count)[:, None], place)
    meant = reshape(meant, (*tuple(meant.shape), *([1] * (rows.ndim - 2))))
    out = where(meant, rows + value[None] if op is lists.LIST_ADD_AT else value[None], rows)
    return apply(lists.LIST_FROM_TENSOR, out)
