"""Programs written by hand: one with each structured operation, and what is needed to make more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from gradtape.ir.dims import Dim, infer_by_probing, symbol
from gradtape.ir.graph import Block, Location, Operation, Value
from gradtape.ir.types import ListSpec, TensorSpec
from gradtape.ops import structured as regions
from gradtape.ops.compare import GREATER, LESS
from gradtape.ops.elementwise import ADD, MULTIPLY, NEGATIVE, SIN
from gradtape.ops.index import GETITEM
from gradtape.ops.reduce import REDUCE_SUM
from gradtape.ops.shape import RESHAPE
from gradtape.ops.staged import CONSTANT, FILLED, PRINT
from gradtape.ops.structured import result_types

INT = TensorSpec((), "int32")
FLAG = TensorSpec((), "bool")


def spec(*shape: int | Dim, dtype: str = "float32") -> TensorSpec:
    return TensorSpec(shape, dtype)


def do(block: Block, op: Any, *operands: Value, line: int | None = None, **attrs: Any) -> Value:
    """Append an ordinary operation; its only result."""
    found, _ = infer_by_probing(op, [v.type for v in operands], attrs)
    types = found if isinstance(found, tuple) else (found,)
    loc = None if line is None else Location("prog.py", line)
    operation = block.append(Operation(op, operands, types, attrs, loc=loc))
    return operation.results[0] if operation.results else Value(None, operation, 0)


def structured(
    block: Block,
    op: Any,
    groups: Mapping[str, Sequence[Value]],
    inner: Mapping[str, Block] | None = None,
    line: int | None = None,
    **attrs: Any,
) -> Operation:
    """Append a structured operation."""
    types, layout = result_types(op, dict(inner or {}), attrs)
    loc = None if line is None else Location("prog.py", line)
    return block.append(
        Operation(
            op,
            [v for vs in groups.values() for v in vs],
            types,
            attrs,
            inner,
            loc,
            {k: len(v) for k, v in groups.items()},
            layout,
        )
    )


def block_of(name: str = "", **groups: Iterable[TensorSpec | ListSpec]) -> Block:
    block = Block(name=name)
    for group, types in groups.items():
        block.layout[group] = 0
        for type in types:
            block.add_param(type, None, group)
    return block


def straight() -> Block:
    """f(x, y) = sum((x·y + sin x)·c) with a constant c."""
    block = Block([spec(3), spec(3)], ["x", "y"], "f")
    x, y = block.params
    product = do(block, MULTIPLY, x, y, line=4)
    product.name = "x"  # the user's name again
    total = do(block, ADD, product, do(block, SIN, x, line=5), line=5)
    c = do(block, CONSTANT, value=np.array([1.5, -0.0, np.inf], np.float32))
    return block.give(outputs=[do(block, REDUCE_SUM, do(block, MULTIPLY, total, c), axis=(0,), keepdims=False, line=6)])


def branches() -> Block:
    block = Block([FLAG, spec(2)], ["p", "x"], "branches")
    inner = {}
    for name, op in (("then", NEGATIVE), ("orelse", SIN)):
        region = block_of(inputs=[spec(2)])
        region.give(outputs=[do(region, op, region.params[0], line=3)])
        inner[name] = region
    p, x = block.params
    made = structured(block, regions.COND, {"pred": [p], "inputs": [x]}, inner, line=2)
    return block.give(outputs=made.results)


def loop() -> Block:
    """While sum(x) < 10: x = x·y, collecting x."""
    block = Block([spec(3), spec(3)], ["x", "y"], "loop")
    test = block_of(carried=[spec(3)], consts=[spec(3)])
    limit = do(test, CONSTANT, value=np.float32(10))
    test.give(flag=[do(test, LESS, do(test, REDUCE_SUM, test.params[0], axis=(0,), keepdims=False), limit, line=8)])
    body = block_of("step", index=[INT], carried=[spec(3)], consts=[spec(3)])
    _, x, y = body.params
    body.give(carried=[do(body, MULTIPLY, x, y, line=9)], ys=[x])
    made = structured(
        block, regions.WHILE, {"carried": block.params[:1], "consts": block.params[1:]}, {"test": test, "body": body}, line=8
    )
    return block.give(outputs=made.result_group("carried"), saved=made.result_group("ys"))


def scanned() -> Block:
    """Scans over a list: one of static length and one, inside it, whose length is an operand."""
    items = ListSpec(spec(2))
    block = block_of("scanned", inputs=[spec(2), items], extra=[INT])
    start, xs, n = block.params
    inner = block_of(index=[INT], carried=[spec(2)], consts=[], xs=[])
    inner.give(carried=[do(inner, SIN, inner.params[1])], ys=[])
    body = block_of(index=[INT], carried=[spec(2)], consts=[INT], xs=[spec(2)])
    _, carried, count, item = body.params
    groups = {"length": [count], "carried": [carried], "consts": [], "xs": []}
    nested = structured(body, regions.SCAN, groups, {"body": inner}, length=None, reverse=False)
    body.give(carried=[do(body, ADD, nested.results[0], item)], ys=[item])
    made = structured(
        block,
        regions.SCAN,
        {"length": [], "carried": [start], "consts": [n], "xs": [xs]},
        {"body": body},
        length=5,
        reverse=True,
    )
    return block.give(outputs=made.results)


def calls() -> Block:
    """Two calls of one block, which calls a third; two blocks have the same name."""
    leaf = Block([spec(2)], ["x"], "g")
    leaf.give(outputs=[do(leaf, SIN, leaf.params[0])])
    middle = Block([spec(2)], ["x"], "g")
    middle.give(outputs=structured(middle, regions.CALL, {"inputs": middle.params}, callee=leaf).results)
    block = Block([spec(2)], ["x"], "<lambda>")
    once = structured(block, regions.CALL, {"inputs": block.params}, callee=middle).results
    twice = structured(block, regions.CALL, {"inputs": once}, callee=middle)
    return block.give(outputs=twice.results)


def sizes() -> Block:
    """Symbolic dimensions in types and attributes."""
    n = symbol("n")
    block = Block([spec(n, 3)], ["x"], "sizes")
    (x,) = block.params
    flat = do(block, RESHAPE, x, shape=(3 * n,))
    part = do(block, GETITEM, flat, key=(slice(1, 3 * n - 1, 2),))
    filled = do(block, FILLED, shape=(n, 2 * n + 1), dtype=flat.dtype, value=0.5)
    return block.give(outputs=[part, filled, do(block, NEGATIVE, x)])


def effects() -> Block:
    """A print inside a branch."""
    block = Block([spec()], ["x"], "effects")
    (x,) = block.params
    zero = do(block, CONSTANT, value=np.float32(0))
    inner = {}
    for name in ("then", "orelse"):
        region = block_of(inputs=[spec()])
        if name == "then":
            do(region, PRINT, region.params[0], template=("x =", "y"), sep=" ", end="\n", file=None)
        inner[name] = region.give(outputs=[])
    structured(block, regions.COND, {"pred": [do(block, GREATER, x, zero)], "inputs": [x]}, inner)
    return block.give(outputs=[x])


PROGRAMS: tuple[Callable[[], Block], ...] = (straight, branches, loop, scanned, calls, sizes, effects)


def shape_of_program(block: Block) -> Any:
    """A program as plain data, with values numbered: equal exactly when the programs are the same."""
    return _Data().function(block)


class _Data:
    def __init__(self) -> None:
        self.numbers: dict[Value, int] = {}
        self.functions: dict[Block, Any] = {}

    def function(self, block: Block) -> Any:
        if block not in self.functions:
            self.functions[block] = len(self.functions)
            return (self.functions[block], self.block(block))
        return (self.functions[block], None)

    def block(self, block: Block) -> Any:
        params = [self.define(v) for v in block.params]
        operations = [self.operation(o) for o in block.operations]
        layouts = (list(block.layout.items()), list(block.result_layout.items()))
        return (block.name, params, layouts, operations, [self.numbers[v] for v in block.results])

    def operation(self, o: Operation) -> Any:
        operands = [self.numbers[v] for v in o.operands]
        attrs = [(key, self.attribute(value)) for key, value in o.attrs.items()]
        inner = [(name, self.block(region)) for name, region in o.regions.items()]
        layouts = (list(o.layout.items()), list(o.result_layout.items()))
        return (o.op, operands, [self.define(v) for v in o.results], attrs, inner, o.loc, layouts)

    def define(self, value: Value) -> Any:
        self.numbers[value] = len(self.numbers)
        return (value.name, value.type, self.numbers[value])

    def attribute(self, value: Any) -> Any:
        if isinstance(value, Block):
            return self.function(value)
        if isinstance(value, (np.ndarray, np.generic)):
            if value.dtype == object:
                return (type(value), value.shape, value.tolist())
            return (type(value), value.dtype, value.shape, value.tobytes())
        if isinstance(value, (float, complex)):
            return (type(value), np.asarray(value).tobytes())
        if isinstance(value, (tuple, list)):
            return (type(value), *map(self.attribute, value))
        if isinstance(value, dict):
            return (dict, *((self.attribute(k), self.attribute(v)) for k, v in value.items()))
        if isinstance(value, slice):
            return (slice, *map(self.attribute, (value.start, value.stop, value.step)))
        return (type(value), value)
