"""Which op is written how: the one place where the parts of this backend meet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradtape.backends.llvm import (
    callbacks,
    checks,
    composites,
    control,
    convolution,
    cumulative,
    dynamic,
    elementwise,
    index,
    joining,
    joins,
    kernels,
    layouts,
    list_ops,
    lists,
    places,
    pooling,
    products,
    scatter,
    shapes,
)
from gradtape.backends.llvm.alignment import kept_axes
from gradtape.backends.llvm.plan import Facts
from gradtape.backends.llvm.reductions import FOLDS, Fold
from gradtape.backends.llvm.scope import Tables, computable
from gradtape.backends.llvm.types import is_float, name_of
from gradtape.ir.graph import Operation, Value
from gradtape.ir.types import ListSpec

FAMILIES: tuple[Any, ...] = (elementwise, shapes, index, joins, dynamic, composites, joining, pooling, places)
ELEMENT: dict[str, Any] = {name: write for family in FAMILIES for name, write in family.ELEMENT.items()}
ACCEPTS = {name: family.accepts for family in FAMILIES for name in family.ELEMENT}
MEMORY_FAMILIES: tuple[Any, ...] = (
    control,
    checks,
    list_ops,
    products,
    scatter,
    joins,
    dynamic,
    composites,
    joining,
    convolution,
    cumulative,
    places,
)
MEMORY: dict[str, Any] = {name: write for family in MEMORY_FAMILIES for name, write in family.MEMORY_OPS.items()}
# on arrays these are element operations
ON_LISTS: dict[str, Any] = {
    name: MEMORY.pop(name) for name in ("list_zeros_like", "list_ones_like", "list_spread")
} | list_ops.ON_LISTS
TAKES: dict[str, Any] = {**products.TAKES}
# operations that find sizes of their results; `composites.py` makes the last two
SIZED = frozenset({*index.PREPARE, *places.PREPARE, *places.MEMORY_OPS,
                   *dynamic.MEMORY_OPS, *list_ops.MEMORY_OPS, *scatter.MEMORY_OPS, "concat", "call", "custom",
                   "piece", "joined"})  # fmt: skip
CHANGES = frozenset(name for name in MEMORY if name.endswith("_into"))


def kind(operation: Operation) -> str:
    """element, scalar, reduce, alias or memory: see `plan.py`."""
    name = operation.op.name
    if name in MEMORY or operation.regions or len(operation.results) != 1:
        return "memory"
    if any(isinstance(value.type, ListSpec) for value in (*operation.operands, *operation.results)):
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
    name = operation.op.name
    if any(name in family.ELEMENT for family in (shapes, composites, joining)) or name == "getitem":
        return 0
    if operation.op.name in pooling.ELEMENT:
        return pooling.cost(operation)
    return elementwise.COSTS.get(operation.op.name, 1)


def pointwise(operation: Operation) -> bool:
    name = operation.op.name
    if name == "broadcast_to":
        return all(n.__class__ is int and n == 1 for n in operation.operands[0].type.shape)
    if name == "constant":
        return shapes.is_splat(operation.attrs["value"])
    return (
        name in elementwise.ELEMENT
        or name in shapes.POINTWISE
        or name in dynamic.POINTWISE
        or name in ("add_n", "checked_indices", "piece", "sized")
    )


def changes(operation: Operation) -> bool:
    name = operation.op.name
    return name in CHANGES and (name not in scatter.MEMORY_OPS or scatter.supported(operation))


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
    if joining.stays(operation):
        return True
    return (
        operation.op.name in places.PREPARE
        or index.fails(operation)
        or (operation.op.name in elementwise.ELEMENT and elementwise.fails(operation))
    )


def repeats(operation: Operation) -> bool:
    return operation.op.name in pooling.ELEMENT and pooling.overlaps(operation)


def sizes(operation: Operation) -> bool:
    return operation.op.name in SIZED


def takes(operation: Operation, value: Value) -> str:
    """How a memory operation reads an operand: see `plan.py`."""
    name = operation.op.name
    if (
        name in dynamic.RECIPES
        or (name in places.MEMORY_OPS and places.supported(operation))
        or (name in joins.MEMORY_OPS and joins.supported(operation))
    ):
        return "recipe"
    recipes: Sequence[int] = list_ops.RECIPES.get(name, ())
    if name in scatter.RECIPES and scatter.supported(operation):
        recipes = range(scatter.RECIPES[name], len(operation.operands))
    if recipes and all(k in recipes for k, operand in enumerate(operation.operands) if operand is value):
        return "recipe"
    take = TAKES.get(name)
    return "memory" if take is None else str(take(operation, value, kind))


def part(operation: Operation) -> bool:
    return operation.op.name in list_ops.PARTS


FACTS = Facts(
    kind,
    cost,
    pointwise,
    changes,
    space,
    free,
    alias,
    takes,
    layouts.is_map,
    products.patterns,
    Fold.axes,
    keeps,
    fails,
    sizes,
    repeats,
    shapes.is_static,
    part,
)
TABLES = Tables(
    FACTS,
    ELEMENT,
    FOLDS,
    {**MEMORY, **ON_LISTS, **shapes.WHEN_UNSURE},
    kernels.write_kernel,
    callbacks.write_callback,
    {**index.PREPARE, **places.PREPARE},
    lists.free_list,
    callbacks.write_failure,
    shapes.constant_of,
    lambda operation: operation.op.name in elementwise.ELEMENT or operation.op.name == "add_n",
)
