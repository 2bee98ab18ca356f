"""Reading parts of arrays: each element is an element of the operand, found by index arithmetic where it is needed.

What all elements share (bounds of slices, checks of places) is written where the operation stands, see `keys.py`.
"""

from __future__ import annotations

from typing import Any

from gradtape.backends.llvm import keys, ranges
from gradtape.backends.llvm.keys import Mapping
from gradtape.backends.llvm.scope import Scope
from gradtape.backends.llvm.types import is_integer
from gradtape.backends.llvm.values import Place
from gradtape.ir.graph import Operation, Value
from gradtape.ir.slots import Slot

Key = tuple[Any, ...]
LARGEST = 2**63 - 1  # as an index: no array has so many elements


def key_of(operation: Operation) -> tuple[Key, list[Value]]:
    """The key with which an operation reads its first operand, and what fills its slots."""
    name, attrs = operation.op.name, operation.attrs
    rest = operation.operands[1:]
    if name == "take":
        return (*((slice(None),) * attrs["axis"]), Slot(0)), rest
    if name == "index":
        return tuple(Slot(i) for i in range(len(rest))), rest
    key = attrs["key"]
    return (key if isinstance(key, tuple) else (key,)), rest


def _prepare(scope: Scope, operation: Operation) -> Mapping:
    key, indices = key_of(operation)
    mapping = keys.opened(scope, operation, key, scope.dims(operation.operands[0]), indices)
    scope.sized(operation, operation.result.type, mapping.dims)  # lengths of slices that only run time knows, among them
    return mapping


def _element(scope: Scope, operation: Operation, place: Place) -> str:
    mapping: Mapping = scope.ready(operation)
    spot = mapping.place(scope, place)
    if not len(operation.result.type.shape) and len(spot) == 1:
        register = ranges.counted(scope, operation.operands[0], spot[0])
        if register is not None:
            return register
    return scope.element(operation.operands[0], spot)


def _prepare_checked(scope: Scope, operation: Operation) -> None:
    """Places must not be negative here. Without a size there is no end: the largest that no uint64 is below stands for it."""
    x = operation.operands[0]
    given = operation.attrs["size"]
    size = LARGEST if given is None else scope.program.index(given)
    if not len(x.type.shape):
        w = scope.writer
        scope.fail_if(w.let(f"icmp uge i64 {scope.integer(x)}, {size}"), operation)
        return
    part = keys.Gather(x, None, tuple(x.type.shape), scope.dims(x), size, False)
    keys.check_all(scope, operation, part)


def _prepare_sized(scope: Scope, operation: Operation) -> None:
    """The operand has the sizes that are said."""
    (x,) = operation.operands
    scope.sized(operation, operation.result.type, scope.dims(x))


def _same(scope: Scope, operation: Operation, place: Place) -> str:
    return scope.element(operation.operands[0], place)


READS = ("getitem", "getitem_at", "take", "index")
ELEMENT: dict[str, Any] = {**dict.fromkeys(READS, _element), "checked_indices": _same, "sized": _same}
PREPARE: dict[str, Any] = {**dict.fromkeys(READS, _prepare), "checked_indices": _prepare_checked, "sized": _prepare_sized}


def accepts(operation: Operation) -> bool:
    """Whether the key is one that is written here."""
    if operation.op.name == "checked_indices":
        return is_integer(operation.operands[0].type.dtype)
    if operation.op.name == "sized":
        return len(operation.operands[0].type.shape) == len(operation.result.type.shape)
    key, indices = key_of(operation)
    return keys.accepts(key, indices)


def fails(operation: Operation) -> bool:
    """Whether reading can go wrong."""
    if operation.op.name not in PREPARE:
        return False
    if operation.op.name in ("checked_indices", "sized"):
        return True
    key, _ = key_of(operation)
    shapes = [operation.operands[0].type.shape, operation.result.type.shape]
    static = all(isinstance(size, int) for shape in shapes for size in shape)
    return (
        not static or not all(part is None or part is Ellipsis or isinstance(part, (int, slice)) for part in key) or _open(key)
    )


def _open(key: Key) -> bool:
    return any(isinstance(b, Slot) for part in key if isinstance(part, slice) for b in (part.start, part.stop))
