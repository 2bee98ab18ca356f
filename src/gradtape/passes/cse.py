"""Common subexpressions: what is computed twice from the same operands is computed once.

Equal means the same op, operands, attributes, types and (for branches, loops and calls) the same regions, compared as
programs; attributes and constants are compared by type and bytes, so 1, 1.0 and True stay apart, and so do 0.0 and -0.0.
Parameters of a region that stand for one outside value count as one. Effects, and whatever contains one, are never merged.
Invariant: every remaining operation computes what it did, from the same bits.
"""

from __future__ import annotations

from typing import Any

from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.walk import Rebuild, callee_of, groups_of, rebuild
from gradtape.ops.structured import CALL, COND, SCAN, WHILE
from gradtape.passes.canonicalize import commutes
from gradtape.passes.facts import attrs_key, type_key


def cse(block: Block) -> Block:
    """The program with equal computations merged."""
    keys: dict[Block, Any] = {}  # of finished regions and callees; None where there is an effect

    def visit(scope: Rebuild, operation: Operation) -> None:
        regions: dict[str, Block] | None = None
        if operation.regions:
            regions = {name: region(scope, operation, name, old) for name, old in operation.regions.items()}
        attrs = operation.attrs
        if (callee := callee_of(operation)) is not None:
            attrs = {**attrs, "callee": scope.callee(callee)}
        operands = scope.operands(operation)
        key = _key(operation, [id(v) for v in operands], attrs, regions or {}, keys)
        # the memory is that of one block: what a region computes is not there outside of it, nor in its sibling
        known = scope.memory.get(key) if key is not None else None
        if known is not None:
            scope.replace(operation, known.results)
            return
        new = scope.copy(operation, operands=operands, attrs=attrs, regions=regions)
        if key is not None:
            scope.memory[key] = new

    def region(scope: Rebuild, operation: Operation, name: str, old: Block) -> Block:
        inner = scope.inner(old)
        params, operands = groups_of(old.params, old.layout), scope.groups(operation)
        # a value given twice is one value inside: without this, a region could not see that two of its operations are the same
        for group in ("inputs", "consts", "xs"):
            seen: dict[Value, Value] = {}
            if operation.op in (COND, SCAN, WHILE) and group in params and group in operands:
                for param, value in zip(params[group], operands[group], strict=True):
                    inner[param] = seen.setdefault(value, inner[param])
        inner.run(old.operations)
        return inner.finish()

    return rebuild(block, visit)


def _key(operation: Operation, operands: list[int], attrs: Any, regions: dict[str, Block], keys: dict[Block, Any]) -> Any:
    """What two operations must have in common to be one; None for an operation that must stay as it is."""
    op = operation.op
    if op.effect:
        return None
    # any order will do as long as it is the same for both: ids here, numbers of values in `block_key`
    if len(operands) == 2 and operands[0] > operands[1] and commutes(operation):
        operands = operands[::-1]
    inner: tuple[Any, ...] = ()
    if regions or op is CALL:
        inner = tuple([(name, block_key(part, keys)) for name, part in regions.items()])
        if any(key is None for _, key in inner) or (op is CALL and block_key(attrs["callee"], keys) is None):
            return None
    types = tuple([type_key(v.type) for v in operation.results])
    return (op, tuple(operands), attrs_key(attrs), types, inner, tuple(operation.layout.items()) if inner else ())


def block_key(block: Block, keys: dict[Block, Any]) -> Any:
    """A key equal for blocks that are the same program up to the names of values; None if there is an effect."""
    if block in keys:
        return keys[block]
    # values by their place in the block, so that equal programs have equal keys whoever owns the values
    number = {value: i for i, value in enumerate(block.params)}
    lines: list[Any] = [tuple(block.layout.items()), tuple(block.result_layout.items())]
    lines += [type_key(v.type) for v in block.params]
    whole: Any = None
    for operation in block.operations:
        key = _key(operation, [number[v] for v in operation.operands], operation.attrs, operation.regions, keys)
        if key is None:
            break
        lines.append(key)
        for value in operation.results:
            number[value] = len(number)
    else:
        whole = _Key((*lines, *(number[v] for v in block.results)))
    keys[block] = whole
    return whole


class _Key:
    """A long tuple that knows its hash, since a region's key is hashed again with every region around it."""

    __slots__ = ("_hash", "_parts")

    def __init__(self, parts: tuple[Any, ...]) -> None:
        self._parts = parts
        self._hash = hash(parts)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self._hash == other._hash and self._parts == other._parts
