"""Who knows a size and who needs it: symbols on the axes of values and in the attributes of operations.

A symbol's size is read off the first value that has it alone on an axis, in the block or in one around it. An attribute that is
a type (of a list's items, of a placeholder) only describes: the operation runs without its sizes. Nothing here changes a
program.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from gradtape.ir.dims import Dim, symbols_in
from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.types import ListSpec, TensorSpec


def sizes_of(value: Value) -> list[str]:
    """The symbols that running code can read off a value: those alone on an axis of a tensor."""
    if value.type.__class__ is not TensorSpec:
        return []
    return [size.name for size in value.type.shape if size.__class__ is Dim and size.name is not None]


def describes(attr: Any) -> bool:
    """Whether an attribute is a type, or several."""
    if attr.__class__ is tuple or attr.__class__ is list:
        return bool(attr) and all(describes(part) for part in attr)
    return isinstance(attr, (TensorSpec, ListSpec))


def needed_sizes(operation: Operation) -> frozenset[str]:
    """The symbols whose sizes an operation's own attributes take to run; not those of its regions."""
    if not operation.attrs:
        return frozenset()
    return symbols_in([attr for attr in operation.attrs.values() if not describes(attr)])


def free_sizes(operations: Iterable[Operation], known: Collection[str], described: bool = False) -> dict[str, None]:
    """The symbols that operations and their regions need before any value has them; with `described`, or only mention.

    `known` are those of the surroundings. Callees know their own sizes.
    """
    known = set(known)
    needed: dict[str, None] = {}
    for operation in operations:
        own = symbols_in(list(operation.attrs.values())) if described else needed_sizes(operation)
        needed.update((name, None) for name in sorted(own - known))
        for block in operation.regions.values():
            needed.update(free_sizes(block.operations, known.union(*map(sizes_of, block.params)), described))
        known.update(name for value in operation.results for name in sizes_of(value))
    return needed


def defined_sizes(block: Block, needed: set[str] | None = None) -> set[str]:
    """The symbols that a block and its regions bind: alone on an axis of a value before an attribute needs them.

    `needed` learns the others that attributes need, those of regions too.
    """
    needed = set() if needed is None else needed
    defined = {name for value in block.params for name in sizes_of(value) if name not in needed}
    for operation in block.operations:
        needed |= needed_sizes(operation) - defined
        for region in operation.regions.values():
            within = set(needed)
            inside = defined_sizes(region, within)
            needed |= within - defined
            defined |= inside
        defined.update(name for value in operation.results for name in sizes_of(value) if name not in needed)
    return defined
