"""Reading parts of arrays: each element is an element of the operand, found by index arithmetic where it is needed.

What all elements share (bounds of slices, checks of places) is written where the operation stands, see `keys.py`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gradtape.backends.llvm.kernels import keys
from gradtape.backends.llvm.kernels.keys import Mapping
from gradtape.backends.llvm.kernels.scope import Scope
from gradtape.backends.llvm.planning import layouts, ranges
from gradtape.backends.llvm.planning.lowering import Lowering, always
from gradtape.backends.llvm.planning.values import Place
from gradtape.backends.llvm.writing.element_types import is_integer
from gradtape.core.opdef import Op
from gradtape.ir.graph import Operation, Value
from gradtape.ir.slots import Slot
from gradtape.ops.dynamic import GETITEM_AT
from gradtape.ops.index import CHECKED_INDICES, GETITEM, TAKE
from gradtape.ops.staged import SIZED

Key = tuple[Any, ...]
LARGEST = 2**63 - 1  # as an index: no array has so many elements


def key_of(operation: Operation) -> tuple[Key, list[Value]]:
    """The key with which an operation reads its first operand, and what fills its slots."""
    op, attrs = operation.op, operation.attrs
    rest = operation.operands[1:]
    if op is TAKE:
        return (*((slice(None),) * attrs["axis"]), Slot(0)), rest
    return attrs["key"], rest


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


def _readable(operation: Operation) -> bool:
    """Whether the key is one that is written here."""
    key, indices = key_of(operation)
    return keys.accepts(key, indices)


def _fails(operation: Operation) -> bool:
    """Whether reading can go wrong."""
    key, _ = key_of(operation)
    shapes = [operation.operands[0].type.shape, operation.result.type.shape]
    static = all(isinstance(size, int) for shape in shapes for size in shape)
    return (
        not static or not all(part is None or part is Ellipsis or isinstance(part, (int, slice)) for part in key) or _open(key)
    )


def _open(key: Key) -> bool:
    return any(isinstance(b, Slot) for part in key if isinstance(part, slice) for b in (part.start, part.stop))


def _aligned(operation: Operation, shape: tuple[Any, ...], result: tuple[Any, ...]) -> int:
    """How many axes a key takes as they are before it does something else."""
    key, _ = key_of(operation)
    for count, part in enumerate(key):
        if part is Ellipsis:
            used = sum(1 for p in key if p is not None and p is not Ellipsis)
            return count + len(shape) - used
        if not isinstance(part, slice) or part != slice(None):
            return count
    return len(shape)


_READ = Lowering(element=_element, accepts=_readable, prepare=_prepare, fails=_fails, finds_sizes=True)
_CHECKED = Lowering(element=_same, pointwise=always, fails=always, finds_sizes=True)

LOWERINGS: dict[Op, Lowering] = {
    GETITEM: replace(_READ, cost=0, aligned=_aligned, strided=layouts.is_plain, layout=layouts.indexed),
    GETITEM_AT: replace(_READ, strided=layouts.is_span, layout=layouts.spanned),
    TAKE: _READ,
    CHECKED_INDICES: replace(
        _CHECKED, prepare=_prepare_checked, accepts=lambda operation: is_integer(operation.operands[0].type.dtype)
    ),
    SIZED: replace(
        _CHECKED,
        prepare=_prepare_sized,
        accepts=lambda operation: len(operation.operands[0].type.shape) == len(operation.result.type.shape),
    ),
}
