"""Loop-invariant code motion: what an iteration computes from the loop's constants alone is computed once, before the loop.

Out of the bodies of scans and whiles and out of the tests of whiles, inner loops first, so that work moves outwards as far as
it can. A moved operation runs even if the loop does not, and before everything the loop does; so only operations that have no
effect, always end and cannot fail are moved: reading at an index known at run time, checks, decompositions, integer
division and while loops stay. Nothing leaves a branch. Invariant: the same values, and errors and effects as before.
"""

from __future__ import annotations

from gradtape.core.opdef import Fails
from gradtape.ir.dims import symbols_in
from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.types import TensorSpec
from gradtape.ir.walk import Rebuild, groups_of, insert_param, program, rebuild
from gradtape.ops.lists import LIST_LEN, LIST_ZEROS_LIKE
from gradtape.ops.staged import CONSTANT, DIM, DIMS, FILLED
from gradtape.ops.structured import COND, SCAN, WHILE
from gradtape.passes.facts import static_shape

_LOOPS = (SCAN, WHILE)
_NULLARY = (CONSTANT, FILLED, DIM, DIMS)  # nothing to save by moving them alone
_ON_LISTS = (LIST_LEN, LIST_ZEROS_LIKE)  # what else makes lists is better made where it can be changed in place


def hoist(block: Block) -> Block:
    """The program with the invariant parts of its loops in front of them; the block itself if it has no loops."""
    return rebuild(block, _visit) if any(operation.op in _LOOPS for operation in program(block)) else block


def _visit(scope: Rebuild, operation: Operation) -> None:
    new = scope.copy(operation)  # inner loops first: what leaves them is now in the regions of `new`
    if new.op in _LOOPS:
        # `copy` has appended it; what moves goes in front of it
        scope.new.operations.pop()
        _move(scope, new)
        scope.new.operations.append(new)
    _note_sizes(scope, new)


def _sizes_of(scope: Rebuild) -> set[str]:
    """The symbols the block being built knows the sizes of."""
    if "sizes" not in scope.memory:
        tensors = [v.type for v in scope.new.params if v.type.__class__ is TensorSpec]  # items of lists differ in size
        scope.memory["sizes"] = {s for type in tensors for s in symbols_in(type)}
    known: set[str] = scope.memory["sizes"]
    return known


def _note_sizes(scope: Rebuild, operation: Operation) -> None:
    for value in operation.results:
        if value.type.__class__ is TensorSpec and (symbols := symbols_in(value.type)):
            _sizes_of(scope).update(symbols)


def _move(scope: Rebuild, loop: Operation) -> None:
    """Move what is invariant in a loop's regions (both are new, so they are changed in place) to the block being built."""
    consts = loop.group("consts")
    moved: dict[Value, Value] = {}  # value of a region → value in front of the loop
    for region in loop.regions.values():
        outer: dict[Value, Value] = dict(zip(region.group("consts"), consts, strict=True))
        leaves = _leaving(scope, region, outer)
        if not leaves:
            continue
        for operation in leaves:
            operands = [outer[v] if v in outer else _constant(scope, v, outer) for v in operation.operands]
            copied = Operation(
                operation.op, operands, [v.type for v in operation.results], operation.attrs, operation.regions,
                operation.loc, operation.layout, operation.result_layout,
            )  # fmt: skip
            for old, new in zip(operation.results, copied.results, strict=True):
                new.name = old.name
                # `outer` is of this region; `moved` of both, for what either of them still uses
                moved[old] = outer[old] = new
            scope.new.operations.append(copied)
            _note_sizes(scope, copied)
        gone = set(leaves)
        region.operations = [operation for operation in region.operations if operation not in gone]
    _bring_in(loop, moved)


def _leaving(scope: Rebuild, region: Block, outer: dict[Value, Value]) -> list[Operation]:
    """The operations of a region that can run in front of the loop, in order."""
    known = set(outer)
    sizes = _sizes_of(scope)
    leaving = []
    for operation in region.operations:
        if operation.op in _NULLARY:
            # constants do not move by themselves, only along with what uses them (`_constant`): in a loop they cost nothing
            if _symbols(operation) <= sizes:
                known.update(operation.results)
        elif (
            operation.operands
            and all(v in known for v in operation.operands)
            and _symbols(operation) <= sizes
            and cannot_fail(operation)
        ):
            leaving.append(operation)
            known.update(operation.results)
    return leaving


def _symbols(operation: Operation) -> frozenset[str]:
    """The symbols an operation mentions, those in its regions too."""
    symbols = symbols_in(operation.attrs) | symbols_in([v.type for v in operation.results])
    return symbols.union(*(_symbols(inner) for region in operation.regions.values() for inner in region.operations))


def _constant(scope: Rebuild, value: Value, outer: dict[Value, Value]) -> Value:
    """A constant of the region, repeated in front of the loop."""
    producer = value.producer
    assert producer is not None
    outer[value] = scope.emit(producer.op, [], [value.type], producer.attrs).result
    return outer[value]


def _bring_in(loop: Operation, moved: dict[Value, Value]) -> None:
    """Give the loop what was moved and is still used in it as further constants."""
    used: dict[Value, None] = {}
    for region in loop.regions.values():
        for value in [v for operation in region.operations for v in operation.operands] + region.results:
            if value in moved:
                used[value] = None
    if not used:
        return
    operands = groups_of(loop.operands, loop.layout)
    # all regions of a loop take the same constants, whether they use them or not
    for value in used:
        operands["consts"].append(moved[value])
    loop.operands = [v for group in operands.values() for v in group]
    loop.layout = {name: len(group) for name, group in operands.items()}
    for region in loop.regions.values():
        inside = {value: insert_param(region, "consts", value.type, value.name) for value in used}
        for operation in region.operations:
            operation.operands = [inside.get(v, v) for v in operation.operands]
        region.results = [inside.get(v, v) for v in region.results]


def cannot_fail(operation: Operation) -> bool:
    """True when an operation has no effect, always ends, and raises for no operands of its types."""
    op = operation.op
    if op.effect or op is WHILE or "callee" in operation.attrs:
        return False
    if op is COND or op is SCAN:
        inside = [o for region in operation.regions.values() for o in region.operations]
        return (op is COND or not operation.layout.get("xs")) and all(map(cannot_fail, inside))
    if op in _NULLARY or op in _ON_LISTS:
        return True
    types = [v.type for v in operation.operands]
    if not types or any(type.__class__ is not TensorSpec for type in types) or op.fails is Fails.VALUES:
        return False
    if op.fails is Fails.INTEGERS and not all(type.dtype.kind in "fc" for type in types):
        return False
    if not all(static_shape(type.shape) for type in types):  # do they fit together at run time?
        shape = tuple(operation.results[0].type.shape)
        return op.kind == "elementwise" and all(tuple(type.shape) in ((), shape) for type in types)
    # an axis without elements is where ops that are not lane-wise may fail
    return op.kind == "elementwise" or all(all(type.shape) for type in types)
