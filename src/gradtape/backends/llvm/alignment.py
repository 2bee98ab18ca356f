"""How indices go through operations: of how many leading axes the index into a result is the index into an operand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradtape.ir.graph import Operation


def kept_axes(operation: Operation, k: int, pointwise: Callable[[Operation], bool]) -> int:
    """The leading axes of the result along which element i needs of operand k only what is at i."""
    shape, result = tuple(operation.operands[k].type.shape), tuple(operation.result.type.shape)
    if not shape:
        return len(result)
    name = operation.op.name
    if name == "broadcast_to" or pointwise(operation):
        return leading(shape, result) if len(shape) == len(result) else 0
    if name == "row_pick":
        return len(result)
    if name in ("max_pool", "pool_winner", "pool_take", "pool_put", "pool_sum", "pool_spread"):
        return 1
    if name == "reshape":
        return leading(shape, result)
    if name == "transpose":
        perm = operation.attrs["perm"]
        return len(result) if not perm else leading(perm, range(len(perm)))
    if name == "getitem":
        key = operation.attrs["key"]
        return _whole(key if isinstance(key, tuple) else (key,), len(shape))
    if name in ("slice_axis", "reverse", "concat", "pad_zeros", "pad"):
        return _before(operation, shape, result)
    return 0


def leading(a: Sequence[Any], b: Sequence[Any]) -> int:
    """How many first entries are the same."""
    count = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        count += 1
    return count


def _whole(key: Sequence[Any], rank: int) -> int:
    """How many axes a key takes as they are before it does something else."""
    for count, part in enumerate(key):
        if part is Ellipsis:
            used = sum(1 for p in key if p is not None and p is not Ellipsis)
            return count + rank - used
        if not isinstance(part, slice) or part != slice(None):
            return count
    return rank


def _before(operation: Operation, shape: tuple[Any, ...], result: tuple[Any, ...]) -> int:
    """Axes before the first one that the operation works on."""
    attrs = operation.attrs
    if "paddings" in attrs:
        return leading([tuple(pair) for pair in attrs["paddings"]], [(0, 0)] * len(result))
    axis = attrs.get("axis", 0)
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    return min((a % len(result) for a in axes), default=len(result)) if len(shape) == len(result) else 0
