"""Which op is written how: the one place where the parts of this backend meet."""

from __future__ import annotations

from typing import Any

from gradtape.backends.llvm import callbacks, checks, composites, control, cumulative, elementwise, joining, kernels, layouts, lists, products, shapes
from gradtape.backends.llvm.alignment import kept_axes
from gradtape.backends.llvm.plan import Facts
from gradtape.backends.llvm.reductions import FOLDS, Fold
from gradtape.backends.llvm.scope import Tables, computable
from gradtape.backends.llvm.types import is_float, name_of
from gradtape.ir.graph import Operation, Value

FAMILIES: tuple[Any, ...] = (elementwise, shapes, composites, joining)
ELEMENT: dict[str, Any] = {name: write for family in FAMILIES for name, write in family.ELEMENT.items()}
ACCEPTS = {name: family.accepts for family in FAMILIES for name in family.ELEMENT}
MEMORY: dict[str, Any] = {**control.MEMORY_OPS, **checks.MEMORY_OPS, **cumulative.MEMORY_OPS, **lists.MEMORY_OPS, **products.MEMORY_OPS, **composites.MEMORY_OPS, **joining.MEMORY_OPS}
TAKES: dict[str, Any] = {**products.TAKES}
CHANGES = frozenset(name for name in MEMORY if name.endswith("_into"))


def kind(operation: Operation) -> str:
    """element, scalar, reduce, alias or memory: see `plan.py`."""
    name = operation.op.name
    if name in MEMORY or operation.regions or len(operation.results) != 1:
        return "memory"
    native = computable(operation.result.type) and all(computable(v.type) for v in operation.operands)
    if name in FOLDS and native and _foldable(operation):
        return "reduce"
    if name in ELEMENT and native and ACCEPTS[name](operation):
        return "element" if len(operation.result.type.shape) else "scalar"
    return "memory"


def _foldable(operation: Operation) -> bool:
    x, out = operation.operands[0].type.dtype, operation.result.type.dtype
    if operation.op.name == "reduce_mean" and not is_float(x):
        return False
    return name_of(x) == name_of(out)


def cost(operation: Operation) -> int:
    if any(operation.op.name in family.ELEMENT for family in (shapes, composites, joining)):
        return 0
    return elementwise.COSTS.get(operation.op.name, 1)


def pointwise(operation: Operation) -> bool:
    name = operation.op.name
    if name == "broadcast_to":
        return all(n.__class__ is int and n == 1 for n in operation.operands[0].type.shape)
    return name in elementwise.ELEMENT or name in shapes.POINTWISE or name == "piece" or (name == "constant" and _is_splat(operation))


def _is_splat(operation: Operation) -> bool:
    value = operation.attrs["value"]
    return bool(value.ndim == 0 or (value.size and (value == value.reshape(-1)[0]).all()))


def changes(operation: Operation) -> bool:
    return operation.op.name in CHANGES


def space(operation: Operation) -> tuple[Any, ...]:
    value = operation.operands[0] if operation.op.name in FOLDS else operation.result
    return tuple(value.type.shape)


def free(operation: Operation) -> bool:
    return operation.op.name in shapes.FREE


def alias(operation: Operation) -> bool:
    return operation.op.name in shapes.ALIAS


def keeps(operation: Operation, k: int) -> int:
    return kept_axes(operation, k, pointwise)


def fails(operation: Operation) -> bool:
    return operation.op.name in elementwise.ELEMENT and elementwise.fails(operation)


def takes(operation: Operation, value: Value) -> str:
    """How a memory operation reads an operand: see `plan.py`."""
    take = TAKES.get(operation.op.name)
    return "memory" if take is None else str(take(operation, value, kind))


FACTS = Facts(kind, cost, pointwise, changes, space, free, alias, takes, layouts.is_map, products.patterns, Fold.axes, keeps, fails)
TABLES = Tables(FACTS, ELEMENT, FOLDS, MEMORY, kernels.write_kernel, callbacks.write_callback)
