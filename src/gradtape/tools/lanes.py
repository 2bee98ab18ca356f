"""Which elements of a value are non-finite, and which elements of an operation's inputs they come from.

A mask is a boolean array shaped like the value; of a list of the program, one flag per item. Where the elements of an output
come from is read off the operation itself: lane-wise ops keep their lanes, linear ones are asked by their adjoint. For every
other operation all non-finite elements of an input are taken to matter. Invariant: nothing here changes a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gradtape.ad.backward import binding, reverse_walk
from gradtape.ad.sweep import SparseRows
from gradtape.core import batching
from gradtape.core.opdef import Op
from gradtape.core.record import Record
from gradtape.ops.list_values import TensorList

Mask = Any  # an array of bool


def bad(value: ArrayLike | TensorList | SparseRows) -> Mask:
    """Where a value is NaN or infinite."""
    if value.__class__ is np.ndarray and value.dtype.kind in "fc":
        return ~np.isfinite(value)
    if isinstance(value, TensorList):
        return np.array([bool(bad(item).any()) for item in value], bool)
    if isinstance(value, SparseRows):
        value = value.dense()
    array = np.asarray(value)
    if array.dtype.kind in "biuOSU":
        return np.zeros(array.shape, bool)
    return np.asarray(~np.isfinite(array))


def cleaned(value: ArrayLike | TensorList) -> Any:
    """The value with ones where it is not finite."""
    if isinstance(value, TensorList):
        return TensorList([cleaned(item) for item in value], value.item)
    array = np.asarray(value)
    return np.where(bad(array), np.ones((), array.dtype), array)[()]


def lanewise(op: Op) -> bool:
    """Whether each element of the output comes from the same element of each (broadcast) input."""
    return batching.rule_of(op) is batching.elementwise


def shrunk(mask: Mask, shape: tuple[int, ...]) -> Mask:
    """Lanes of an output as lanes of an input that was broadcast to it."""
    if mask.shape == shape:
        return mask
    extra = mask.ndim - len(shape)
    if extra < 0:
        return np.ones(shape, bool)
    mask = mask.any(axis=tuple(range(extra))) if extra else mask
    axes = tuple(i for i, (have, want) in enumerate(zip(mask.shape, shape, strict=True)) if have != want)
    return np.asarray(mask.any(axis=axes, keepdims=True) if axes else mask)


def widened(mask: Mask, shape: tuple[int, ...]) -> Mask:
    """Lanes of an input as lanes of the output it was broadcast to."""
    if mask.shape == shape:
        return mask
    try:
        return np.broadcast_to(mask, shape)
    except ValueError:
        return np.ones(shape, bool)


def _structural(op: Op, index: int) -> bool:
    """Whether the op moves or adds elements of this input without looking at values of others."""
    name = op.args[min(index, len(op.args) - 1)]
    if op.kind == "linear":
        return len(op.args) == 1
    return op.kind == "multilinear" and op.linear_inputs == (name,)


def sources_of(
    plain: Callable[[Record], Record], record: Record, index: int, lanes: Mask, value: ArrayLike | TensorList
) -> Mask:
    """The elements of input `index` that may have gone into these lanes of the (only) output; `value` is the input,
    `plain(record)` the record with its values."""
    op, shape = record.op, np.shape(value)
    if isinstance(value, TensorList) or op.outputs != 1:
        return np.ones(len(value) if isinstance(value, TensorList) else shape, bool)
    if lanewise(op):
        return shrunk(lanes, shape)
    node = record.nodes[index]
    if node is not None and _structural(op, index):
        # The adjoint of a linear operation carries marked outputs back to the inputs they came from: a mask is a cotangent of
        # ones.
        ct = lanes.astype(np.asarray(value).dtype)[()]
        own = plain(record)
        cotangent = reverse_walk((own,), {own: ct}, {node}, binding()).get(node)
        if isinstance(cotangent, SparseRows):
            cotangent = cotangent.dense()
        if cotangent is not None and np.shape(cotangent) == shape:
            return np.asarray(cotangent) != 0
    return np.ones(shape, bool)


def targets_of(record: Record, index: int, lanes: Mask, attrs: Mapping[str, Any] | None, out: ArrayLike | TensorList) -> Mask:
    """The elements of the (only) output that these elements of input `index` may have gone into; `out` is shaped like it."""
    op, shape = record.op, np.shape(out)
    if op.outputs == 1 and not isinstance(out, TensorList):
        if lanewise(op):
            return widened(lanes, shape)
        if _structural(op, index) and len(op.args) == 1 and not op.args[0].startswith("*"):
            with np.errstate(all="ignore"):
                # And the operation itself carries marked inputs to the outputs they reach.
                image = np.asarray(op.impl(lanes.astype(np.float64)[()], **(attrs or {})))
            if image.shape == shape:
                return image != 0
    return np.ones(len(out) if isinstance(out, TensorList) else shape, bool)
