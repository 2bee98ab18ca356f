"""Random programs as IR: operations, branches, loops and calls, on numbers of every kind (NaN, infinities, -0.0).

`program(seed)` is a well-formed block, the same for the same seed and options; `inputs(block, seed)` are arrays for it. All
operations give the same bits whatever the memory layout of their operands, so any two runs can be compared bit by bit.
With `effects=True` programs call back: `effects_of(run)` is what they said, in order.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape.ir.graph import Block, Location, Operation, Value
from gradtape.ir.slots import Slot
from gradtape.ir.types import ListSpec, TensorSpec
from gradtape.ops.compare import GREATER, LESS, LOGICAL_AND, LOGICAL_NOT, NOT_EQUAL
from gradtape.ops.create import ONES_LIKE, ZEROS_LIKE
from gradtape.ops.dynamic import GETITEM_AT, PUT_AT, UPDATE_AT
from gradtape.ops.elementwise import ABS, ADD, CAST, DIVIDE, MULTIPLY, NEGATIVE, POWER, SQUARE, SUBTRACT
from gradtape.ops.index import GETITEM, PUT_SLICE
from gradtape.ops.lists import LIST_GET, LIST_LEN, LIST_NEW, LIST_PUSH
from gradtape.ops.reduce import REDUCE_SUM
from gradtape.ops.select import FLOORDIV, MAXIMUM, MOD, WHERE
from gradtape.ops.shape import BROADCAST_TO, CONCAT, RESHAPE, TRANSPOSE
from gradtape.ops.staged import CONSTANT, FILLED, PY_CALL
from gradtape.ops.stop import IDENTITY
from gradtape.ops.structured import CALL, COND, SCAN, WHILE, result_types

SCALAR, VECTOR, MATRIX = (TensorSpec(shape, "float64") for shape in ((), (3,), (2, 3)))
INTEGER, FLAG = TensorSpec((), "int32"), TensorSpec((), "bool")
LIST = ListSpec(VECTOR)
TYPES = (SCALAR, VECTOR, MATRIX, INTEGER, FLAG, LIST)
WEIGHTS = (5, 5, 3, 2, 2, 1)
NUMBERS = (0.0, -0.0, 1.0, -1.0, 2.0, -0.5, 3.5, 0.1, np.inf, -np.inf, np.nan, 1e300, 5e-324)

_said: list[Any] = []


def say(*values: Any) -> None:
    """The effect of random programs."""
    _said.append([np.array(v)[()] for v in values])


def effects_of(run: Callable[[], Any]) -> tuple[Any, list[Any]]:
    """What `run()` gives, and what was said meanwhile."""
    _said.clear()
    result = run()
    return result, list(_said)


def same_effects(before: list[Any], after: list[Any], same: Callable[[Any, Any], bool]) -> bool:
    """Whether the same was said, in the same order."""
    return len(before) == len(after) and all(
        len(a) == len(b) and all(map(same, a, b)) for a, b in zip(before, after, strict=True)
    )


def program(seed: int, size: int = 12, depth: int = 2, effects: bool = False) -> Block:
    """A random program of about `size` operations per block, with structured operations nested up to `depth` deep."""
    return _Maker(random.Random(seed), effects).program(size, depth)


def inputs(block: Block, seed: int) -> list[Any]:
    """Random arrays for the parameters of a program; every special number turns up."""
    rng = random.Random(seed)
    return [_array(rng, param.type) for param in block.params]


def _array(rng: random.Random, type: Any) -> Any:
    if type.dtype.name == "bool":
        return np.bool_(rng.random() < 0.5)
    if type.dtype.name == "int32":
        return np.int32(rng.randint(-3, 3))
    numbers = [rng.choice(NUMBERS) if rng.random() < 0.4 else rng.gauss(0, 2) for _ in range(int(np.prod(type.shape)))]
    return np.array(numbers).reshape(type.shape)[()]


class _Maker:
    def __init__(self, rng: random.Random, effects: bool) -> None:
        self.rng = rng
        self.effects = effects
        self.line = 0
        self.callees: list[Block] = []
        self.used: set[Value] = set()

    def program(self, size: int, depth: int) -> Block:
        types = [SCALAR, VECTOR, MATRIX, INTEGER, FLAG, *self.rng.choices(TYPES[:5], k=2)]
        block = Block(types, ["x", "v", "m", "n", "p"], "f")
        self.fill(block, size, depth)
        results = [self.value(block, type) for type in self.rng.choices(TYPES, WEIGHTS, k=self.rng.randint(2, 6))]
        return block.give(outputs=results)

    # -- values

    def emit(self, block: Block, op: Any, operands: Sequence[Value], attrs: dict[str, Any] | None = None) -> Value:
        self.line += 1
        inferred = op.infer(*[v.type for v in operands], **(attrs or {}))
        types = list(inferred) if isinstance(inferred, tuple) else [inferred]
        operation = block.append(Operation(op, operands, types, attrs, loc=Location("prog.py", self.line)))
        return operation.results[0] if operation.results else None  # type: ignore[return-value]

    def pool(self, block: Block, type: Any) -> list[Value]:
        made = [v for operation in block.operations for v in operation.results if v.type == type]
        return [v for v in block.params if v.type == type] + made

    def value(self, block: Block, type: Any) -> Value:
        """A value of the block of this type: one that is there, more likely a late and unused one, or a new constant."""
        known = self.pool(block, type)
        fresh = [v for v in known if v not in self.used]
        if fresh and self.rng.random() < 0.6:
            known = fresh
        if known and self.rng.random() < 0.9:
            value = known[max(self.rng.randrange(len(known)), self.rng.randrange(len(known)))]
            self.used.add(value)
            return value
        return self.constant(block, type)

    def constant(self, block: Block, type: Any) -> Value:
        if type == LIST:
            return self.emit(
                block, LIST_NEW, [self.value(block, VECTOR) for _ in range(self.rng.randint(1, 2))], {"item": VECTOR}
            )
        if type.shape and self.rng.random() < 0.3:
            return self.emit(
                block, FILLED, [], {"shape": tuple(type.shape), "dtype": type.dtype, "value": self.rng.choice(NUMBERS)}
            )
        value = _array(self.rng, type)
        if type.shape and self.rng.random() < 0.4:
            value = np.full(type.shape, self.rng.choice(NUMBERS))
        return self.emit(block, CONSTANT, [], {"value": value})

    # -- operations

    def fill(self, block: Block, size: int, depth: int) -> None:
        for _ in range(self.rng.randint(1 + size // 2, 1 + size)):
            choice = self.rng.random()
            if depth and choice < 0.25:
                self.rng.choice([self.cond, self.scan, self.loop, self.call])(block, size, depth - 1)
            elif self.effects and choice < 0.33:
                said = [self.value(block, self.rng.choice((SCALAR, VECTOR, INTEGER))) for _ in range(self.rng.randint(0, 2))]
                self.emit(block, PY_CALL, said, {"function": say, "types": ()})
            else:
                self.ordinary(block)

    def ordinary(self, block: Block) -> Value:
        rng, emit = self.rng, lambda *args: self.emit(block, *args)
        s, v, m, n, p = (lambda t=t: self.value(block, t) for t in (SCALAR, VECTOR, MATRIX, INTEGER, FLAG))
        place = lambda: emit(MOD, [n(), emit(CONSTANT, [], {"value": np.int32(3)})])  # noqa: E731
        f = lambda: self.value(block, rng.choice((SCALAR, SCALAR, VECTOR, VECTOR, MATRIX)))  # noqa: E731
        makers: list[Callable[[], Value]] = [
            lambda: emit(rng.choice((ADD, SUBTRACT, MULTIPLY, DIVIDE, MAXIMUM)), [f(), f()]),
            lambda: emit(rng.choice((ADD, SUBTRACT, MULTIPLY, DIVIDE)), [f(), self.constant(block, rng.choice(TYPES[:3]))]),
            lambda: emit(rng.choice((ADD, MULTIPLY)), [self.constant(block, rng.choice(TYPES[:3])), f()]),
            lambda: emit(rng.choice((NEGATIVE, NEGATIVE, ABS, SQUARE, IDENTITY)), [f()]),
            lambda: emit(NEGATIVE, [emit(NEGATIVE, [f()])]),
            lambda: emit(POWER, [f()], {"exponent": rng.choice((1, 2, 1.0, 2.0))}),
            lambda: emit(rng.choice((ZEROS_LIKE, ONES_LIKE)), [f()], {"dtype": None}),
            lambda: emit(WHERE, [p(), f(), f()]),
            lambda: emit(rng.choice((LESS, GREATER, NOT_EQUAL)), [s(), s()]),
            lambda: emit(rng.choice((LESS, GREATER)), [n(), n()]),
            lambda: emit(LOGICAL_AND, [p(), p()]),
            lambda: emit(LOGICAL_NOT, [p()]),
            lambda: emit(rng.choice((ADD, SUBTRACT, MULTIPLY)), [n(), n()]),
            lambda: emit(FLOORDIV, [n(), emit(CONSTANT, [], {"value": np.int32(rng.choice((1, 2, -3)))})]),
            lambda: emit(CAST, [emit(CAST, [rng.choice((s, v, n, p))()], {"dtype": "float64"})], {"dtype": "float64"}),
            lambda: emit(CAST, [n()], {"dtype": "float64"}),
            lambda: emit(RESHAPE, [emit(RESHAPE, [v()], {"shape": (1, 3, 1)})], {"shape": (3,)}),
            lambda: emit(TRANSPOSE, [emit(TRANSPOSE, [m()], {"perm": (1, 0)})], {"perm": (1, 0)}),
            lambda: emit(BROADCAST_TO, [rng.choice((s, v))()], {"shape": rng.choice(((3,), (2, 3)))}),
            lambda: emit(REDUCE_SUM, [m()], {"axis": (0,), "keepdims": False}),
            lambda: emit(REDUCE_SUM, [v()], {"axis": (0,), "keepdims": False}),
            lambda: emit(GETITEM, [m()], {"key": (rng.choice((0, 1)),)}),
            lambda: emit(GETITEM, [v()], {"key": (rng.choice((0, 1, -1)),)}),
            lambda: emit(GETITEM, [v()], {"key": (slice(None, None, rng.choice((-1, None))),)}),
            lambda: emit(ADD, [v(), emit(PUT_SLICE, [s()], {"key": (rng.choice((0, 2)),), "shape": (3,)})]),
            lambda: emit(GETITEM, [emit(PUT_SLICE, [v()], {"key": (1,), "shape": (2, 3)})], {"key": (1,)}),
            lambda: emit(CONCAT, [v()], {"axis": 0}),
            lambda: emit(GETITEM_AT, [v(), place()], {"key": (Slot(0),), "size": None}),
            lambda: emit(PUT_AT, [s(), place()], {"key": (Slot(0),), "shape": (3,)}),
            lambda: emit(ADD, [v(), emit(PUT_AT, [s(), place()], {"key": (Slot(0),), "shape": (3,)})]),
            lambda: emit(UPDATE_AT, [v(), s(), place()], {"key": (Slot(0),)}),
            lambda: emit(LIST_PUSH, [self.value(block, LIST), v()]),
            lambda: emit(LIST_LEN, [self.value(block, LIST)]),
            lambda: emit(LIST_GET, [self.value(block, LIST), emit(CONSTANT, [], {"value": np.int32(rng.choice((0, -1)))})]),
        ]  # fmt: skip
        return rng.choice(makers)()

    # -- structured operations

    def structured(self, block: Block, op: Any, groups: dict[str, list[Value]], regions: Any, attrs: Any = None) -> None:
        self.line += 1
        types, layout = result_types(op, regions, attrs or {})
        operands = [v for group in groups.values() for v in group]
        sizes = {name: len(group) for name, group in groups.items()}
        block.append(Operation(op, operands, types, attrs, regions, Location("prog.py", self.line), sizes, layout))

    def some(self, block: Block, most: int) -> list[Value]:
        """Values to bring into a region; the same one may come twice."""
        count = max(self.rng.randint(0, most), self.rng.randint(0, most))
        return [self.value(block, type) for type in self.rng.choices(TYPES, WEIGHTS, k=count)]

    def region(self, groups: dict[str, list[Any]]) -> Block:
        block = Block()
        for name, types in groups.items():
            block.layout.setdefault(name, 0)
            for type in types:
                block.add_param(type, group=name)
        return block

    def cond(self, block: Block, size: int, depth: int) -> None:
        pred, given = self.value(block, FLAG), self.some(block, 5)
        outputs = self.rng.choices(TYPES, WEIGHTS, k=self.rng.randint(0, 3))
        regions = {}
        for name in ("then", "orelse"):
            regions[name] = self.region({"inputs": [v.type for v in given]})
            self.fill(regions[name], size // 2, depth)
            regions[name].give(outputs=[self.value(regions[name], type) for type in outputs])
        self.structured(block, COND, {"pred": [pred], "inputs": given}, regions)

    def body(self, carried: list[Any], consts: list[Any], xs: list[Any] | None, size: int, depth: int) -> Block:
        groups = {"index": [INTEGER], "carried": carried, "consts": consts}
        return self.filled(groups if xs is None else {**groups, "xs": xs}, size, depth)

    def filled(self, groups: dict[str, list[Any]], size: int, depth: int) -> Block:
        block = self.region(groups)
        self.fill(block, size // 2, depth)
        return block

    def ended(self, body: Block, skip: int = 0) -> tuple[list[Value], list[Value]]:
        """What a body gives: new carried values (some unchanged), and items."""
        unchanged = lambda v: self.rng.random() < 0.25  # noqa: E731
        carried = [v if unchanged(v) else self.value(body, v.type) for v in body.group("carried")[skip:]]
        return carried, [self.value(body, type) for type in self.rng.choices(TYPES[:4], k=self.rng.randint(0, 2))]

    def scan(self, block: Block, size: int, depth: int) -> None:
        carried, consts = self.some(block, 3), self.some(block, 3)
        length = self.rng.choice((0, 1, 1, 2, 3))
        items = [[self.value(block, VECTOR) for _ in range(length)] for _ in range(self.rng.randint(0, 1 if length else 0))]
        xs = [self.emit(block, LIST_NEW, vectors, {"item": VECTOR}) for vectors in items]
        body = self.body([v.type for v in carried], [v.type for v in consts], [VECTOR] * len(xs), size, depth)
        given, ys = self.ended(body)
        attrs: dict[str, Any] = {"length": None, "reverse": self.rng.random() < 0.3}
        groups = {"length": [], "carried": carried, "consts": consts, "xs": xs}
        if self.rng.random() < 0.3:
            groups["length"] = [self.emit(block, CONSTANT, [], {"value": np.int32(length)})]
        else:
            attrs["length"] = length
        self.structured(block, SCAN, groups, {"body": body.give(carried=given, ys=ys)}, attrs)

    def loop(self, block: Block, size: int, depth: int) -> None:
        """A while that counts from the first carried value, so that it ends."""
        start = self.emit(block, CONSTANT, [], {"value": np.int32(self.rng.randint(-1, 3))})
        carried, consts = [start, *self.some(block, 2)], self.some(block, 3)
        types, others = [v.type for v in carried], [v.type for v in consts]
        test = self.filled({"carried": types, "consts": others}, min(size, 4), 0)
        limit = self.emit(test, CONSTANT, [], {"value": np.int32(2)})
        flag = self.emit(test, LESS, [test.params[0], limit])
        if self.rng.random() < 0.5:
            flag = self.emit(test, LOGICAL_AND, [flag, self.value(test, FLAG)])
        body = self.body(types, others, None, size, depth)
        given, ys = self.ended(body, 1)
        one = self.emit(body, CONSTANT, [], {"value": np.int32(1)})
        count = self.emit(body, ADD, [body.group("carried")[0], one])
        regions = {"test": test.give(flag=[flag]), "body": body.give(carried=[count, *given], ys=ys)}
        self.structured(block, WHILE, {"carried": carried, "consts": consts}, regions)

    def call(self, block: Block, size: int, depth: int) -> None:
        if not self.callees or self.rng.random() < 0.5:
            made = self.region({"inputs": self.rng.choices(TYPES, WEIGHTS, k=self.rng.randint(0, 3))})
            made.name = f"g{len(self.callees)}"
            self.fill(made, size // 2, 0)
            made.give(outputs=[self.value(made, type) for type in self.rng.choices(TYPES, WEIGHTS, k=self.rng.randint(1, 3))])
            self.callees.append(made)
        callee = self.rng.choice(self.callees)
        given = [self.value(block, param.type) for param in callee.params]
        self.structured(block, CALL, {"inputs": given}, {}, {"callee": callee})
