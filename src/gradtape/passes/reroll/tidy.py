"""Constants go back into the loops that use them, and sums with zero out of loop indices.

While loops are folded, constants are operands, so that those of several alike loops can differ; and inner loops compute an
index as `i + start` also where start is 0, so that they are alike. When all is folded, what is still a constant stands
where it is used, for the passes that come later to see, and starts that are 0 go. Exact: they are integers.
"""

from __future__ import annotations

from gradtape.ir.graph import Block, Operation
from gradtape.ir.walk import Rebuild, rebuild, values_used
from gradtape.ops.elementwise import ADD
from gradtape.ops.staged import CONSTANT
from gradtape.ops.structured import COUNT, SCAN
from gradtape.passes.facts import is_number, same_type


def with_constants_inside(block: Block) -> Block:
    """A copy of the program in which scans have their constants in the body."""
    return _without_unused(rebuild(block, _visit))


def without_zeros(block: Block) -> Block:
    """A copy of the program in which nothing adds zero to an index."""
    return _without_unused(rebuild(block, _visit_sum))


def _visit(scope: Rebuild, operation: Operation) -> None:
    if operation.op is not SCAN:
        scope.copy(operation, attrs=operation.attrs)  # callees stay
        return
    groups = scope.groups(operation)
    body = operation.regions["body"]
    constants = {
        param: given.owner
        for param, given in zip(body.group("consts"), groups["consts"], strict=True)
        if isinstance(given.owner, Operation) and given.owner.op is CONSTANT
    }
    inner = Rebuild(body, _visit, keep=[param for param in body.params if param not in constants])
    for param, constant in constants.items():
        inner.loc = constant.loc
        inner[param] = inner.emit(CONSTANT, [], [param.type], constant.attrs).result
    inner.run(body.operations)
    pairs = zip(groups["consts"], body.group("consts"), strict=True)
    groups["consts"] = [value for value, param in pairs if param not in constants]
    scope.copy(operation, operands=groups, regions={"body": _without_unused(inner.finish())})


def _visit_sum(scope: Rebuild, operation: Operation) -> None:
    if operation.op is ADD and same_type(operation.result.type, COUNT):
        x, y = scope.operands(operation)
        if is_number(y, 0) and same_type(x.type, COUNT):
            scope.replace(operation, [x])
            return
    regions = {name: _without_unused(scope.block(region)) for name, region in operation.regions.items()}
    scope.copy(operation, attrs=operation.attrs, regions=regions)


def _without_unused(block: Block) -> Block:
    used = values_used(block)
    block.operations = [o for o in block.operations if o.op is not CONSTANT or o.result in used]
    return block
