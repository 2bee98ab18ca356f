"""Sums with a value that is zero almost everywhere become additions at a place.

The derivative of reading a part is that part put into zeros (`put_slice`, `put_at`, `take_add`, an item added to a
list of zeros), and cotangents of several readings are added up; in a loop that costs the whole array at each step.
`add_at(acc, v, key)` costs the part, once `bufferize` has made it in place; what is added where a value was just put is added
to that value before it goes there. Where the sparse value comes out of a branch, the total goes into the branch and is added
to there; where it comes out of a loop that sums up from zero, the loop starts from the total instead. Invariant: the same
sums, added one after the other, as eager code adds cotangents. So the last bits may differ: a sum of sums is a sum of its
terms now, and an element that is not touched stays -0.0 (-0.0 + 0.0 is 0.0). Sums that have nothing to do with such values
keep their bits.
"""

from __future__ import annotations

from typing import Any

from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.slots import Slot
from gradtape.ir.types import ListSpec
from gradtape.ir.walk import Rebuild, clone, groups_of, insert_param, program, rebuild, uses
from gradtape.ops.dynamic import ADD_AT, GETITEM_AT, PUT_AT, UPDATE_AT
from gradtape.ops.elementwise import ADD
from gradtape.ops.index import GETITEM, PUT_SLICE, TAKE_ADD, UPDATE
from gradtape.ops.lists import LIST_ADD, LIST_ADD_AT, LIST_ZEROS_LIKE
from gradtape.ops.structured import CHECKPOINTED, COND, SCAN, WHILE
from gradtape.passes.facts import attr_key, same_type, uniform

_SUMS = (ADD, LIST_ADD)
_INTO_ZEROS = (PUT_SLICE, PUT_AT, TAKE_ADD)
_AT = (ADD_AT, LIST_ADD_AT)
_SPARSE = frozenset((*_INTO_ZEROS, *_AT))
_LOOPS = (SCAN, WHILE, CHECKPOINTED)
_STRUCTURED = (COND, *_LOOPS)
_Uses = dict[Value, list[tuple[Operation | None, int]]]


def accumulate(block: Block) -> Block:
    """The program with sparse sums; the block itself if nothing in it is put into zeros."""
    if not any(operation.op in _SPARSE for operation in program(block)):
        return block
    # (a sum that the user wrote stays: x + 0.0 is not x if x is -0.0)
    brought: set[Operation] = set()  # sums that were brought into a branch: adding zeros there is adding nothing
    plans: dict[Block, _Plan] = {}

    def visit(scope: Rebuild, operation: Operation) -> None:
        if scope.old not in plans:
            plans[scope.old] = _Plan(scope.old)
        plan = plans[scope.old]
        if operation in plan.done:
            scope.replace(operation, [scope[plan.done[operation]]])
        elif operation.op is ADD_AT and _replaced(scope, operation, plan.readers):
            pass
        elif operation.op in _SUMS:
            _sum(scope, operation, operation in brought)
        elif operation in plan.totals and operation.op is COND:
            _into_branches(scope, operation, plan.totals[operation], brought)
        elif operation in plan.totals:
            groups = scope.groups(operation)
            for place, total in plan.totals[operation].items():
                starts = groups[_sums_of(operation)]
                # the loop now starts from the total, so what it started from is added to that first
                before = terms_of(starts[place]) if not _is_zero(starts[place]) else []
                starts[place] = _added(scope, scope[total], before or [])
            scope.copy(operation, operands=groups)
        else:
            scope.copy(operation)

    return rebuild(block, visit)


# -- one sum


def _sum(scope: Rebuild, operation: Operation, brought: bool) -> None:
    x, y = scope.operands(operation)
    wanted = operation.results[0].type
    if same_type(x.type, wanted) and same_type(y.type, wanted):
        if brought and _is_zero(y):
            scope.replace(operation, [x])
            return
        # the right operand first: a reverse walk adds what is new to what it has
        for total, part in ((x, y), (y, x)):
            terms = _terms_for(total, part, brought)
            if terms is not None:
                scope.replace(operation, [_added(scope, total, terms)])
                return
    scope.copy(operation)


def _terms_for(total: Value, part: Value, brought: bool) -> list[Operation] | None:
    """What is to be added to a total instead of a part: one term, or several where the total is one that goes on and on."""
    producer = part.producer
    if producer is None:
        return None
    # a total from outside the block: what a loop carries, or what was brought into a branch
    lasting = brought or total.producer is None
    if producer.op is TAKE_ADD:  # users sum segments too, and expect a sum of sums
        return [producer] if lasting or total.producer.op in _AT else None  # type: ignore[union-attr]
    if producer.op in _INTO_ZEROS:
        return [producer]
    if producer.op is LIST_ADD_AT and _is_zero(producer.operands[0]):
        return [producer]
    terms = terms_of(part) if lasting else None
    return None if terms is None or any(term.op in _STRUCTURED for term in terms) else terms


def _added(scope: Rebuild, total: Value, terms: list[Operation]) -> Value:
    """A total with the terms of a sparse value added, each at its place."""
    for term in terms:
        if term.op in _AT:
            total = scope.emit(term.op, [total, *term.operands[1:]], [total.type], term.attrs).result
        else:
            total = scope.emit(ADD_AT, [total, *term.operands], [total.type], {"key": _key(term)}).result
    return total


def _replaced(scope: Rebuild, operation: Operation, readers: _Uses) -> bool:
    """A sum at a place that nobody has read since it was replaced: the sum takes the place of what was there before."""
    total, value, *indices = scope.operands(operation)
    update = total.producer
    if update is None or update.op not in (UPDATE, UPDATE_AT) or len(readers[operation.operands[0]]) != 1:
        return False
    x, before, *places = update.operands
    key = operation.attrs["key"]
    # the same place for certain: the same index values, and no index arrays, which may name a place twice
    if places != indices or not _same_key(update, operation) or any(len(v.type.shape) for v in indices):
        return False
    single = all(k is None or k is Ellipsis or k.__class__ in (int, slice, Slot) for k in key)
    kinds = {v.type.dtype for v in (x, before, value)}
    # a broadcast or converted element would be added in another shape or precision than it was written in
    if not single or len(kinds) != 1 or (len(before.type.shape) and not same_type(before.type, value.type)):
        return False
    if _is_zero(before):
        total_here, read = value, value.producer
        if read is not None and read.op in (GETITEM, GETITEM_AT) and read.operands == [x, *indices] and _same_key(read, update):
            scope.replace(operation, [x])  # what was there is put back
            return True
    else:
        total_here = scope.emit(ADD, [before, value], [value.type]).result
    scope.replace(operation, [scope.emit(UPDATE_AT, [x, total_here, *indices], [total.type], {"key": key}).result])
    return True


def _same_key(a: Operation, b: Operation) -> bool:
    return bool(attr_key(a.attrs["key"]) == attr_key(b.attrs["key"]))


def _key(producer: Operation) -> tuple[Any, ...]:
    """Where an operation puts its first operand into zeros."""
    if producer.op is TAKE_ADD:
        return (*((slice(None),) * producer.attrs["axis"]), Slot(0))
    key: tuple[Any, ...] = producer.attrs["key"]
    return key


# -- which values are sparse


def _is_zero(value: Value) -> bool:
    if isinstance(value.type, ListSpec):
        return value.producer is not None and value.producer.op is LIST_ZEROS_LIKE
    number = uniform(value)
    return number is not None and bool(number == 0)


def terms_of(value: Value) -> list[Operation] | None:
    """The operations whose results (or what they add) make up a value that is zero elsewhere, in order; None if it is not so.

    A branch is such a value if one of its sides is, a loop if it starts from zero or such a value and adds such values.
    """
    terms = []
    waiting = [value]
    while waiting:
        value = waiting.pop()
        producer = value.producer
        if producer is None:
            return None
        op = producer.op
        if op in _SUMS:
            waiting += producer.operands
            continue
        terms.append(producer)
        if op in _AT:
            waiting += [] if _is_zero(producer.operands[0]) else [producer.operands[0]]
        elif op is COND:
            # `any`: what a side gives that is not sparse is added in that side, whole, as it was before
            if not any(terms_of(branch.results[value.index]) for branch in producer.regions.values()):
                return None
        elif op in _LOOPS:
            place, group = value.index, _sums_of(producer)
            # behind the carried values are lists of items, which are no sums
            if place >= producer.layout[group] or not _only_adds(producer, place, {}):
                return None
            start = producer.group(group)[place]
            waiting += [] if _is_zero(start) else [start]
        elif op not in _INTO_ZEROS:
            return None
    return terms[::-1]


def _sums_of(loop: Operation) -> str:
    """The group of operands from which a loop's first results start."""
    return "cts" if loop.op is CHECKPOINTED else "carried"


def _slot(loop: Operation, place: int) -> int:
    """Which of the values that a loop starts from an operand is."""
    slot = place
    for group, count in loop.layout.items():
        if group == _sums_of(loop):
            return slot if 0 <= slot < count else -1
        slot -= count
    return -1


def _only_adds(loop: Operation, place: int, known: dict[Block, _Uses]) -> bool:
    """Whether a loop does nothing with a carried value but add sparse values to it."""
    if loop.op is CHECKPOINTED:
        part = loop.regions["backward"]
        return _leads(part, part.group("cts")[place], part.result_group("cts")[place], known)
    body, test = loop.regions["body"], loop.regions.get("test")
    # a test that looks at the sum would see the total with it
    if test is not None and _uses(test, known)[test.group("carried")[place]]:
        return False
    return _leads(body, body.group("carried")[place], body.result_group("carried")[place], known)


def _leads(block: Block, value: Value, result: Value, known: dict[Block, _Uses]) -> bool:
    """Whether `result` is `value` with sparse values added, and nobody else looks at the sums on the way."""
    readers = _uses(block, known)
    while value is not result:
        if len(readers[value]) != 1:
            return False
        operation, place = readers[value][0]
        if operation is None:
            return False
        op = operation.op
        if op in _SUMS:
            if not terms_of(operation.operands[1 - place]):
                return False
            value = operation.results[0]
        elif op in _AT and place == 0:
            value = operation.results[0]
        elif op is COND and place > 0:
            output = _through(operation, place - 1, known)
            if output is None:
                return False
            value = operation.results[output]
        elif op in _LOOPS and (slot := _slot(operation, place)) >= 0:
            if not _only_adds(operation, slot, known):
                return False
            value = operation.results[slot]
        else:
            return False
    # the reader None is the end of the block: `result` is given and nothing else is done with it
    return [reader for reader, _ in readers[value]] == [None]


def _through(cond: Operation, place: int, known: dict[Block, _Uses]) -> int | None:
    """The output of a cond that is this input with sparse values added, in both branches."""
    then, orelse = cond.regions["then"], cond.regions["orelse"]
    for i, (a, b) in enumerate(zip(then.results, orelse.results, strict=True)):
        if _leads(then, then.params[place], a, known) and _leads(orelse, orelse.params[place], b, known):
            return i
    return None


def _uses(block: Block, known: dict[Block, _Uses]) -> _Uses:
    if block not in known:
        known[block] = uses(block)
    return known[block]


# -- sums that move into branches and loops


class _Plan:
    """Which sums of a block can be made where their sparse operand comes from: in the branches of a cond, in a loop."""

    def __init__(self, block: Block) -> None:
        self.readers = uses(block) if any(o.op is ADD_AT for o in block.operations) else {}
        self.done: dict[Operation, Value] = {}  # sum → the result that stands for it
        self.totals: dict[Operation, dict[int, Value]] = {}  # cond or loop → place of a result → what it adds to
        sums = [o for o in block.operations if o.op in _SUMS and any(map(_structured, o.operands))]
        if not sums:
            return
        order = {operation: i for i, operation in enumerate(block.operations)}
        readers = uses(block)
        for operation in sums:
            # the right operand first, as in `_sum`
            for part, total in (operation.operands[::-1], operation.operands):
                producer = part.producer
                # somebody else reads the part: it must stay what it is, without the total
                if producer is None or not _structured(part) or len(readers[part]) != 1 or part is total:
                    continue
                # the total must be there before the branch or loop that is to start from it
                before = total.producer is None or order[total.producer] < order[producer]
                same = same_type(total.type, part.type) and same_type(part.type, operation.results[0].type)
                if before and same and terms_of(part) and _starts_simply(producer, part.index):
                    self.done[operation] = part
                    self.totals.setdefault(producer, {})[part.index] = total
                    break


def _starts_simply(producer: Operation, place: int) -> bool:
    """Whether what a loop starts from can be added to a total term by term."""
    if producer.op is COND:
        return True
    start = producer.group(_sums_of(producer))[place]
    if _is_zero(start):
        return True
    terms = terms_of(start)
    return terms is not None and not any(term.op in _STRUCTURED for term in terms)


def _structured(value: Value) -> bool:
    return value.producer is not None and value.producer.op in _STRUCTURED


def _into_branches(scope: Rebuild, operation: Operation, totals: dict[int, Value], brought: set[Operation]) -> None:
    """A cond that takes the totals and gives the sums."""
    groups = scope.groups(operation)
    groups["inputs"] += [scope[total] for total in totals.values()]
    regions = {}
    for name, old in operation.regions.items():
        region = clone(old)
        given = groups_of(region.results, region.result_layout)["outputs"]
        for place, total in totals.items():
            param = insert_param(region, "inputs", total.type, total.name)
            op = LIST_ADD if isinstance(total.type, ListSpec) else ADD
            added = region.append(Operation(op, [param, given[place]], [total.type], loc=operation.loc))
            brought.add(added)
            given[place] = added.result
        regions[name] = scope.block(region.give(outputs=given))
    scope.copy(operation, operands=groups, regions=regions)
