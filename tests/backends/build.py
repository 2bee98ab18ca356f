"""Blocks by hand: a builder that infers types, and one function per structured op."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape.ir.dims import infer_by_probing
from gradtape.ir.graph import Block, Location, Operation, Value
from gradtape.ir.types import ListSpec, TensorSpec
from gradtape.ops.list_values import item_spec
from gradtape.ops.staged import CONSTANT
from gradtape.ops.structured import CALL, COND, SCAN, WHILE, result_types

F = "float64"


def tensor(*shape: Any, dtype: str = F) -> TensorSpec:
    return TensorSpec(shape, dtype)


def items(*shape: Any, dtype: str = F) -> ListSpec:
    return ListSpec(tensor(*shape, dtype=dtype))


INT = tensor(dtype="int32")


class Build:
    """A block in the making; call it with an op to append an operation, located at the caller's line."""

    def __init__(self, block: Block) -> None:
        self.block = block

    def __call__(self, op: Any, *values: Value, **attrs: Any) -> Any:
        types, _ = infer_by_probing(op, [v.type for v in values], attrs)
        several = isinstance(types, tuple)
        operation = Operation(op, values, types if several else [types], attrs, loc=_here())
        self.block.append(operation)
        return tuple(operation.results) if several else operation.result

    def constant(self, value: Any) -> Value:
        value = np.asarray(value)[()]
        return self.block.append(Operation(CONSTANT, [], [item_spec(value)], {"value": value})).result

    def _structured(self, op: Any, operands: dict[str, Sequence[Value]], regions: dict[str, Block], **attrs: Any) -> Operation:
        types, layout = result_types(op, regions, attrs)
        flat = [v for group in operands.values() for v in group]
        counts = {name: len(group) for name, group in operands.items()}
        return self.block.append(Operation(op, flat, types, attrs, regions, _here(), counts, layout))

    def cond(
        self, pred: Value, inputs: Sequence[Value], then: Callable[..., Any], orelse: Callable[..., Any]
    ) -> tuple[Value, ...]:
        regions = {}
        for name, make in (("then", then), ("orelse", orelse)):
            block = Block([v.type for v in inputs], layout={"inputs": len(inputs)})
            regions[name] = block.give(outputs=_several(make(Build(block), *block.params)))
        return tuple(self._structured(COND, {"pred": [pred], "inputs": inputs}, regions).results)

    def loop(self, carried: Sequence[Value], test: Any, body: Any, consts: Sequence[Value] = ()) -> tuple[Value, ...]:
        """`test(b, *carried, *consts)` gives the flag; `body(b, i, *carried, *consts)` gives (carried, ys)."""
        types = [v.type for v in (*carried, *consts)]
        first = Block(types, layout={"carried": len(carried), "consts": len(consts)})
        first.give(flag=[test(Build(first), *first.params)])
        second = Block([INT, *types], layout={"index": 1, "carried": len(carried), "consts": len(consts)})
        given, ys = body(Build(second), *second.params)
        second.give(carried=given, ys=ys)
        return tuple(self._structured(WHILE, {"carried": carried, "consts": consts}, {"test": first, "body": second}).results)

    def scan(
        self,
        length: Any,
        carried: Sequence[Value],
        body: Any,
        consts: Sequence[Value] = (),
        xs: Sequence[Value] = (),
        reverse: bool = False,
    ) -> tuple[Value, ...]:
        """`body(b, i, *carried, *consts, *xs)` gives (carried, ys)."""
        types = [INT, *(v.type for v in (*carried, *consts)), *(v.type.item for v in xs)]
        block = Block(types, layout={"index": 1, "carried": len(carried), "consts": len(consts), "xs": len(xs)})
        given, ys = body(Build(block), *block.params)
        block.give(carried=given, ys=ys)
        dynamic = isinstance(length, Value)
        operands = {"length": [length] if dynamic else [], "carried": carried, "consts": consts, "xs": xs}
        attrs = {} if dynamic else {"length": length}
        return tuple(self._structured(SCAN, operands, {"body": block}, reverse=reverse, **attrs).results)

    def call(self, callee: Block, *inputs: Value) -> tuple[Value, ...]:
        return tuple(self._structured(CALL, {"inputs": inputs}, {}, callee=callee).results)


def program(types: Sequence[Any], make: Callable[..., Any], names: Sequence[str] = (), name: str = "") -> Block:
    """The block of `make(builder, *params)`, which gives its results."""
    block = Block(types, names, name)
    return block.give(outputs=_several(make(Build(block), *block.params)))


def _several(values: Any) -> Sequence[Value]:
    return [values] if isinstance(values, Value) else list(values)


def _here() -> Location:
    frame = sys._getframe(1)
    while frame.f_code.co_filename == __file__ and frame.f_back is not None:
        frame = frame.f_back
    return Location(frame.f_code.co_filename, frame.f_lineno)
