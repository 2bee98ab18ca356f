"""Is this a program? Checks that hold for every block between two passes; a broken one is an InternalError.

What is checked: every value is defined once and before it is used, in the block that uses it; groups add up; the types of
results are what the op's type rule gives; regions and callees take and give what the operation that owns them says; every
symbol in an attribute is the size of some value before it. The checks are the tables at the end of the file. Static sizes,
ranks and dtypes must be equal; a symbolic size may stand for any size: passes learn more about operands than types say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from gradtape.errors import InternalError
from gradtape.ir.dims import Dim, infer_by_probing
from gradtape.ir.graph import Block, Layout, Operation, Value
from gradtape.ir.sizes import needed_sizes, sizes_of
from gradtape.ir.types import ListSpec, TensorSpec
from gradtape.ir.walk import callee_of, callees, groups_of

Complaints = Iterator[str]


def verify(block: Block) -> Block:
    """Raise InternalError where the block, a region in it or a block it calls breaks a rule; returns the block.

    >>> from gradtape.ir.graph import Block
    >>> verify(Block().give(outputs=[]))
    <block  (0 parameters, 0 operations)>
    """
    functions = [block, *callees(block)]
    for function in functions:
        if function in callees(function):
            raise InternalError(f"the block {function.name!r} calls itself")
    context = _Context()
    for function in functions:
        context.function(function)
    for name, operation in context.free[block].items():
        context.fail(operation, f"an attribute needs the size {name}, but no value before it has that size")
    return block


class _Context:
    """What the walk knows: where values are defined, which blocks have been seen, which sizes are known."""

    def __init__(self) -> None:
        self.defined: set[Value] = set()  # of the block at hand
        self.homes: dict[Value, Block] = {}  # of all values seen
        self.seen: set[Operation | Block] = set()
        self.known: set[str] = set()
        self.free: dict[Block, dict[str, Operation]] = {}  # of a function: sizes its callers must know, and who needs them

    def function(self, block: Block) -> None:
        if block not in self.free:
            # callees first: what sizes they leave to their callers is asked of the operations that call them
            for callee in callees(block):
                self.function(callee)
            known, self.known = self.known, set()
            self.free[block] = {}
            self.block(block, self.free[block], "")
            self.known = known

    def block(self, block: Block, free: dict[str, Operation], inside: str) -> None:
        where = f"in block {block.name!r}{inside}"
        if block in self.seen:
            raise InternalError(f"{where}: the block is used twice as a region")
        self.seen.add(block)
        # Regions are isolated: a value of the block around is no operand inside, it has to be handed in.
        outer, self.defined = self.defined, set()
        before = set(self.known)
        self.define(block, block.params, block, where)
        for operation in block.operations:
            for check in OPERATION_CHECKS:
                for complaint in check(self, operation):
                    self.fail(operation, complaint)
            self.sizes(operation, free)
            for name, region in operation.regions.items():
                self.block(region, free, f" (region {name} of {operation.op.name} at {operation.loc}){inside}")
            if operation in self.seen:
                self.fail(operation, "stands twice in the program")
            self.seen.add(operation)
            self.define(block, operation.results, operation, f"{where}, operation {operation.op.name} at {operation.loc}")
        for rule in BLOCK_CHECKS:
            for complaint in rule(self, block):
                raise InternalError(f"{where}: {complaint}")
        self.defined = outer
        # (a size that only a region has told is not known behind it)
        self.known = before

    def define(self, block: Block, values: Sequence[Value], owner: Operation | Block, where: str) -> None:
        for i, value in enumerate(values):
            if value.owner is not owner or value.index != i:
                raise InternalError(f"{where}: value {i} says it is number {value.index} of {value.owner!r}")
            if not isinstance(value.type, (TensorSpec, ListSpec)):
                raise InternalError(f"{where}: value {i} has the type {value.type!r}, which is none")
            self.homes[value] = block
            self.defined.add(value)
            self.known.update(sizes_of(value))

    def sizes(self, operation: Operation, free: dict[str, Operation]) -> None:
        needed = set(needed_sizes(operation))
        if (callee := callee_of(operation)) is not None:
            needed |= self.free[callee].keys()
        for name in sorted(needed - self.known):
            free.setdefault(name, operation)

    def fail(self, operation: Operation, complaint: str) -> NoReturn:
        raise InternalError(f"operation {operation.op.name} at {operation.loc}: {complaint}")


# --- checks of one operation: each yields complaints


def _operands_are_defined(context: _Context, operation: Operation) -> Complaints:
    for i, value in enumerate(operation.operands):
        if value not in context.defined:
            home = context.homes.get(value)
            where = "not defined before it" if home is None else f"a value of another block ({home.name!r})"
            yield f"operand {i} ({value!r}) is {where}"


def _groups_add_up(context: _Context, operation: Operation) -> Complaints:
    yield from _adds_up(operation.layout, operation.operands, "operands")
    yield from _adds_up(operation.result_layout, operation.results, "results")


def _adds_up(layout: Layout, values: Sequence[Value], what: str) -> Complaints:
    if layout and sum(layout.values()) != len(values):
        yield f"the groups {dict(layout)} do not add up to the {len(values)} {what}"


def _operands_are_as_many_as_the_op_takes(context: _Context, operation: Operation) -> Complaints:
    names, count = operation.op.args, len(operation.operands)
    variadic = bool(names) and names[-1].startswith("*")
    if count < len(names) - variadic or (count > len(names) and not variadic):
        yield f"it has {count} operands, the op takes {', '.join(names) or 'none'}"


def _types_follow_the_rule(context: _Context, operation: Operation) -> Complaints:
    if operation.op.kind == "region":
        return
    if operation.regions:
        yield "only structured operations have regions"
    try:
        inferred, _ = infer_by_probing(operation.op, [value.type for value in operation.operands], operation.attrs)
    except Exception as error:  # a rule sees operands that no call would give it: whatever it raises is the complaint
        yield f"its type rule refuses the operands {_types(operation.operands)}: {error}"
        return
    types = inferred if isinstance(inferred, tuple) else (inferred,)
    if len(types) != len(operation.results):
        yield f"its type rule gives {len(types)} results, it has {len(operation.results)}"
        return
    for i, (type, value) in enumerate(zip(types, operation.results, strict=True)):
        if not fits(type, value.type):
            yield f"result {i} is declared {value.type}, its type rule gives {type}"


def _regions_follow_the_signature(context: _Context, operation: Operation) -> Complaints:
    if operation.op.kind != "region":
        return
    regions, *rules = operation.op.signature
    places = [place for left, _, right in rules for place in (left, right) if isinstance(place, str)]
    if set(operation.regions) != set(regions):
        yield f"has the regions {tuple(operation.regions)}, not {regions}"
        return
    if any(place.startswith("callee.") for place in places) and callee_of(operation) is None:
        yield "its attribute callee is no block"
        return
    if "in.length" in places:
        if not {"length", "reverse"} <= operation.attrs.keys():
            yield "needs the attributes length (None where it is an operand) and reverse"
        elif (operation.attrs["length"] is None) != bool(operation.layout.get("length", 0)):
            yield "needs a length, either as an attribute or as an operand"
    allowed: dict[str, set[str]] = {}
    for place in places:
        side, _, group = place.rpartition(".")
        allowed.setdefault(side, set()).add(group)
    for side, groups in allowed.items():
        others = [group for group in _side(operation, side)[1] if group not in groups]
        if others and "*" not in groups:
            yield f"{side} has a group {others[0]!r}; it may have {sorted(groups)}"
    for left, relation, right in rules:
        yield from _compare(operation, left, relation, right)


def _side(operation: Operation, side: str) -> tuple[Sequence[Value], Layout]:
    owner, _, direction = side.rpartition(".")
    if not owner:
        given = direction == "in"
        return (operation.operands, operation.layout) if given else (operation.results, operation.result_layout)
    block = operation.attrs["callee"] if owner == "callee" else operation.regions[owner]
    return (block.params, block.layout) if direction == "in" else (block.results, block.result_layout)


def _group(operation: Operation, place: str) -> list[Value]:
    side, _, name = place.rpartition(".")
    values, layout = _side(operation, side)
    return list(values) if name == "*" else groups_of(values, layout).get(name, [])


def _compare(operation: Operation, left: str, relation: str, right: Any) -> Complaints:
    if relation == "any":
        return
    types = [value.type for value in _group(operation, left)]
    if relation == "is":
        exact, type = right
        if len(types) > 1 or (exact and not types) or not all(fits(own, type) for own in types):
            yield f"{left} is {types}, it should be {'' if exact else 'nothing or '}one {type}"
        return
    others = [value.type for value in _group(operation, right)]
    if len(types) != len(others):
        yield f"{left} has {len(types)} values, {right} has {len(others)}"
        return
    for i, (type, other) in enumerate(zip(types, others, strict=True)):
        if relation == "item of":
            type = ListSpec(type)
        elif relation == "list of":
            if not isinstance(type, ListSpec):
                yield f"{left} {i} is {type}, not a list"
                return
            type = type.item
        if not fits(type, other):
            yield f"{left} {i} is {type}, {right} {i} is {other}"


def fits(type: Any, declared: Any) -> bool:
    """True when a value of one type may be called by the other: the same, but for symbolic sizes of the latter."""
    if isinstance(type, ListSpec) and isinstance(declared, ListSpec):
        return fits(type.item, declared.item)
    if not (isinstance(type, TensorSpec) and isinstance(declared, TensorSpec)):
        return False
    if type.dtype is not declared.dtype or len(type.shape) != len(declared.shape):
        return False
    return all(a == b or a is None or b is None or isinstance(b, Dim) for a, b in zip(type.shape, declared.shape, strict=True))


def _types(values: Sequence[Value]) -> str:
    return ", ".join(str(value.type) for value in values)


# --- checks of one block, when its operations have been seen


def _results_are_defined(context: _Context, block: Block) -> Complaints:
    for i, value in enumerate(block.results):
        if value not in context.defined:
            yield f"result {i} ({value!r}) is not defined in the block"


def _block_groups_add_up(context: _Context, block: Block) -> Complaints:
    yield from _adds_up(block.layout, block.params, "parameters")
    yield from _adds_up(block.result_layout, block.results, "results")


# --- the tables

OPERATION_CHECKS: tuple[Callable[[_Context, Operation], Complaints], ...] = (
    _operands_are_defined,
    _groups_add_up,
    _operands_are_as_many_as_the_op_takes,
    _types_follow_the_rule,
    _regions_follow_the_signature,
)
BLOCK_CHECKS: tuple[Callable[[_Context, Block], Complaints], ...] = (_results_are_defined, _block_groups_add_up)
