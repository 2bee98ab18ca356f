"""Straight-line programs that are loops: traced Python loops, and random bodies written out many times."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape.backends.numpy import compile_block
from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.printer import to_text
from gradtape.ir.types import TensorSpec
from gradtape.ir.verify import verify
from gradtape.ir.walk import clone, walk
from gradtape.ops.index import GETITEM
from gradtape.ops.shape import STACK
from gradtape.ops.staged import CONSTANT
from gradtape.passes.reroll import reroll
from gradtape.trace.tracing import Trace, traced, tracing
from tests.harness.checked_passes import same_bits
from tests.passes.programs import FLAG, INTEGER, MATRIX, SCALAR, TYPES, VECTOR, _array, _Maker, effects_of, same_effects


def spec(*shape: int, dtype: str = "float64") -> TensorSpec:
    """The type of a parameter."""
    return TensorSpec(shape, dtype)


def trace(function: Callable[..., Any], *specs: TensorSpec) -> Block:
    """The program of a function, its Python loops run."""
    block = Block(specs, list(inspect.signature(function).parameters), function.__name__, {"inputs": len(specs)})
    with tracing(Trace(block)):
        found = function(*[traced(v) for v in block.params])
    results = found if isinstance(found, (list, tuple)) else [found]
    return block.give(outputs=[t._data for t in results])


def size(block: Block) -> int:
    """All operations, those in regions too."""
    return sum(1 for _ in walk(block))


def arrays_for(block: Block, seed: int = 0) -> list[Any]:
    """Arrays for the parameters of a traced program."""
    rng = np.random.default_rng(seed)
    return [np.asarray(rng.normal(size=tuple(p.type.shape)), p.type.dtype.as_numpy_dtype)[()] for p in block.params]


def outcome(block: Block, arrays: list[Any]) -> Any:
    """(results, effects), or the type and text of the error the program ends with."""
    try:
        return effects_of(lambda: compile_block(block)(*arrays))
    except Exception as error:
        return type(error), str(error)


def folded(block: Block, arrays: list[Any] | None = None) -> Block:
    """The program after `reroll`: well formed, of the same meaning to the bit, and the old one unchanged."""
    text = to_text(block)
    new = verify(reroll(verify(block)))
    assert to_text(block) == text, "a pass must not change its input"
    arrays = arrays_for(block) if arrays is None else arrays
    before, after = outcome(block, arrays), outcome(new, arrays)
    if isinstance(before[0], type):
        assert before[0] is after[0]
        return new
    assert len(before[0]) == len(after[0])
    assert all(map(same_bits, before[0], after[0])), (before[0], after[0])
    assert same_effects(before[1], after[1], same_bits), (before[1], after[1])
    return new


def names(block: Block) -> list[str]:
    """The ops of the block itself, constants left out."""
    return [operation.op.name for operation in block.operations if operation.op is not CONSTANT]


def without_locations(block: Block) -> Block:
    """A copy in which all operations come from nowhere."""
    new = clone(block)
    for operation in walk(new):
        operation.loc = None
    return new


class Unrolled:
    """A random body written out `count` times: what it is carried on, what differs, and what is used of it are random."""

    def __init__(self, seed: int, count: int, size: int, depth: int = 0, effects: bool = False, inner: int = 0) -> None:
        """`inner`: the body ends with that many iterations of a loop of its own."""
        self.rng = rng = random.Random(seed)
        self.count = count
        if inner:
            self.body = Unrolled(seed + 1, inner, size, depth, effects).block
        else:
            self.body = Block([SCALAR, VECTOR, MATRIX, INTEGER, FLAG, VECTOR, SCALAR])
        maker = _Maker(rng, effects)
        least = len(self.body.operations) + (rng.randrange(3) if inner else size)
        while len(self.body.operations) < least:
            maker.fill(self.body, least - len(self.body.operations), depth)
        made = [v for operation in self.body.operations for v in operation.results]
        # parameter → what it is in the next iteration (or the one after): results of the body, by chance none
        self.next: dict[Value, tuple[Value, int]] = {}
        for param in self.body.params[:5]:
            fits = [v for v in made if v.type == param.type]
            if fits and rng.random() < 0.7:
                self.next[param] = (rng.choice(fits[-3:]), 1 if rng.random() < 0.8 else 2)
        self.varying = {o for o in self.body.operations if o.op is CONSTANT and rng.random() < 0.4}
        self.shared: dict[Any, Value] = {}
        self.used = [v for v in made if v.type in TYPES[:4] and rng.random() < 0.1]
        self.block = Block([*(p.type for p in self.body.params), TensorSpec((3 * count, 3), "float64")], name="f")
        self.values = self._written_out()

    def _written_out(self) -> list[dict[Value, Value]]:
        *start, data = self.block.params
        step, first = self.rng.choice(((1, 0), (2, 1), (-1, self.count - 1), (3, 0)))
        done: list[dict[Value, Value]] = []
        for k in range(self.count):
            known = dict(zip(self.body.params, start, strict=True))
            for param, (value, back) in self.next.items():
                if k >= back:
                    known[param] = done[k - back][value]
            row = Operation(GETITEM, [data], [VECTOR], {"key": (first + step * k,)})
            known[self.body.params[5]] = self.block.append(row).result
            for operation in self.body.operations:
                self._copy(operation, known)
            done.append(known)
        finals = [done[-1][value] for value, _ in self.next.values()]
        stacks = [self.block.append(self._stack([known[v] for known in done])).result for v in self.used[:3]]
        singles = [done[self.rng.randrange(self.count)][v] for v in self.used[3:5]]
        last = [done[-1][v] for operation in self.body.operations[-2:] for v in operation.results]
        self.block.give(outputs=[*finals, *stacks, *singles, *last])
        return done

    def _copy(self, operation: Operation, known: dict[Value, Value]) -> None:
        attrs = operation.attrs
        if operation in self.varying:
            attrs = {"value": _array(self.rng, operation.result.type)}
        if operation.op is CONSTANT:  # as the tracer does: equal ones are made once
            key = (attrs["value"].dtype, attrs["value"].shape, attrs["value"].tobytes())
            if key not in self.shared:
                types = [operation.result.type]
                self.shared[key] = self.block.append(Operation(CONSTANT, [], types, attrs, loc=operation.loc)).result
            known[operation.result] = self.shared[key]
            return
        regions = {name: clone(region) for name, region in operation.regions.items()}
        made = Operation(
            operation.op, [known[v] for v in operation.operands], [v.type for v in operation.results], attrs, regions,
            operation.loc, operation.layout, operation.result_layout,
        )  # fmt: skip
        known.update(zip(operation.results, self.block.append(made).results, strict=True))

    def _stack(self, values: list[Value]) -> Operation:
        type = values[0].type
        axis = self.rng.randrange(len(type.shape) + 1)
        shape = (*type.shape[:axis], len(values), *type.shape[axis:])
        return Operation(STACK, values, [TensorSpec(shape, type.dtype)], {"axis": axis})

    def arrays(self, seed: int) -> list[Any]:
        rng = random.Random(seed)
        return [_array(rng, param.type) for param in self.block.params]
