"""Sums with zero taken out of loop indices.

Inner loops of one nest must look alike to be folded, so all of them compute an index as `i + start`, also where start is 0.
When all is folded, starts that are still the constant 0 go. Exact: these are integers.
"""

from __future__ import annotations

from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.walk import Rebuild, flat, groups_of, layout_of, rebuild, values_used
from gradtape.ops.elementwise import ADD
from gradtape.ops.regions import COUNT, SCAN
from gradtape.ops.staged import CONSTANT
from gradtape.passes.facts import is_number, same_type


def without_zeros(block: Block) -> Block:
    """A copy of the program without them."""
    new = rebuild(block, _visit)
    used = values_used(new)
    new.operations = [o for o in new.operations if o.op is not CONSTANT or o.result in used]
    return new


def _visit(scope: Rebuild, operation: Operation) -> None:
    if operation.op is ADD and same_type(operation.result.type, COUNT):
        x, y = scope.operands(operation)
        if _is_zero(scope, y) and same_type(x.type, COUNT):
            scope.replace(operation, [x])
            return
    if operation.op is not SCAN:
        scope.copy(operation, attrs=operation.attrs)  # callees stay
        return
    groups = scope.groups(operation)
    old = operation.regions["body"]
    inner = Rebuild(old, _visit)
    zeros = [new for new, given in zip(map(inner.__getitem__, old.group("consts")), groups["consts"], strict=True)
             if _is_zero(scope, given)]  # fmt: skip
    inner.memory["zeros"] = set(zeros)
    inner.run(old.operations)
    body = inner.finish()
    dead = set(zeros) - values_used(body)
    groups["consts"] = [v for v, param in zip(groups["consts"], body.group("consts"), strict=True) if param not in dead]
    _drop(body, dead)
    scope.copy(operation, operands=groups, regions={"body": body})


def _is_zero(scope: Rebuild, value: Value) -> bool:
    return value in scope.memory.get("zeros", ()) or (same_type(value.type, COUNT) and is_number(value, 0))


def _drop(block: Block, dead: set[Value]) -> None:
    groups = {name: [v for v in values if v not in dead] for name, values in groups_of(block.params, block.layout).items()}
    block.params, block.layout = flat(groups), layout_of(groups)
    for i, param in enumerate(block.params):
        param.index = i
