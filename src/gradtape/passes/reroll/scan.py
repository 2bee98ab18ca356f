"""A loop as a SCAN: its body from the first iteration, with parameters for what differs between iterations.

What differs is a function of the loop's index (affine integers), an item of a list (`xs`), or a value of an earlier
iteration (`carried`). Where values come from outside, the caller gives them (`fetch`); where an operation is to be added in
front of the scan, the caller adds it (`emit`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.types import ListSpec, TensorSpec
from gradtape.ops.elementwise import ADD, CAST, MULTIPLY, SUBTRACT
from gradtape.ops.lists import LIST_ADD_AT, LIST_FROM_TENSOR, LIST_GET, LIST_NEW, LIST_SET
from gradtape.ops.shape import RESHAPE
from gradtape.ops.staged import VOID
from gradtape.ops.structured import COUNT, SCAN
from gradtape.passes.reroll.demand import Demand, Listed
from gradtape.passes.reroll.holes import opened
from gradtape.passes.reroll.line import Item, StraightLine, Table, new_value
from gradtape.passes.reroll.rolling import LARGEST, RolledLoop

PLACED = (LIST_GET, LIST_SET, LIST_ADD_AT)  # ops that take an index of any integer type as operand 1
Column = tuple[int, ...]  # what one slot or hole is in each iteration


class Scan:
    """One SCAN in the making. After `item`, `latest` and `lists` say where a result is found outside."""

    def __init__(
        self, line: StraightLine, table: Table, loop: RolledLoop, wanted: Demand, fetch: Callable[[int], Value],
        emit: Callable[..., Value],
    ) -> None:  # fmt: skip
        self.line, self.table, self.loop, self.wanted, self.fetch, self.emit = line, table, loop, wanted, fetch, emit
        self.items = table.items[loop.start : loop.start + loop.period]
        self.types = [value.type for item in self.items for value in item.results]
        self.names = [value.name for item in self.items for value in item.results]
        self.latest: dict[tuple[int, int], Value] = {}  # (result, iterations before the last) → value
        self.lists: dict[Listed, Value] = {}  # result → list of all iterations
        # (only the first iterations read what came before the loop)
        self._chains: list[tuple[int, Column]] = []  # (result, what it is before the first iteration, latest first)
        self._carried: dict[int, tuple[int, int]] = {}  # slot → (chain, how far back)
        self._consts: dict[Value, None] = {}
        self._xs: dict[Any, Value] = {}  # column → list
        self._indices: dict[Column, tuple[int, int] | None] = {}  # column → step and start of an affine one

    def item(self) -> Item:
        """The scan."""
        loop = self.loop
        self._find_chains()
        fixed = {int(n): self.fetch(int(n)) for n in loop.sources[0][loop.fixed]}
        self._consts |= dict.fromkeys(fixed.values())
        for slot in np.flatnonzero(loop.scanned | loop.listed).tolist():
            self._add_column(slot)
        # sorted: the order of a set would give another program in another process
        for column in sorted({tuple(c) for c in loop.holes.T.tolist() if c != [c[0]] * len(c)}):
            self._index(column)
        starts = [self.fetch(n) for _, chain in self._chains for n in chain]
        # what is wanted of the last iteration only is carried, too: nobody reads what it is before the first
        voids = [self.emit(VOID, [], self.types[r], {"type": self.types[r]}) for r in self.wanted.last]
        body = self._body(fixed)
        groups: dict[str, Sequence[Value]] = {
            "length": [],
            "carried": [*starts, *voids],
            "consts": list(self._consts),
            "xs": list(self._xs.values()),
        }
        carried = [new_value(v.type) for v in groups["carried"]]
        lists = [new_value(ListSpec(v.type)) for v in body.result_group("ys")]
        places = [(r, back) for r, chain in self._chains for back in range(len(chain))]
        places += [(r, 0) for r in self.wanted.last]
        for place, value in zip(places, carried, strict=True):
            # (a chain has the last value already)
            self.latest.setdefault(place, value)
        self.lists = dict(zip(self.wanted.listed, lists, strict=True))
        return Item(
            SCAN,
            [value for group in groups.values() for value in group],
            [*carried, *lists],
            {"length": loop.count, "reverse": False},
            {"body": body},
            self.items[0].loc,
            {name: len(group) for name, group in groups.items()},
            {"carried": len(carried), "ys": len(lists)},
        )

    # -- where the operands come from ------------------------------------------------------------------------------

    def _find_chains(self) -> None:
        """Carried values: a result needed d iterations later is handed on d times. Slots that agree share a chain."""
        loop = self.loop
        slots = np.flatnonzero(loop.distance > 0).tolist()
        # the longest first, so that shorter ones find their beginning in it
        for slot in sorted(slots, key=lambda slot: -int(loop.distance[slot])):
            back, place = int(loop.distance[slot]), int(loop.place[slot])
            before = tuple(loop.sources[:back, slot][::-1].tolist())
            shared = [i for i, (known, chain) in enumerate(self._chains) if known == place and chain[:back] == before]
            if not shared:
                shared = [len(self._chains)]
                self._chains.append((place, before))
            self._carried[slot] = (shared[0], back)

    def _add_column(self, slot: int) -> None:
        column: Column = tuple(self.loop.sources[:, slot].tolist())
        if column in self._xs:
            return
        if not self.loop.scanned[slot]:
            values = [self.fetch(n) for n in column]
            item = values[0].type
            self._xs[column] = self.emit(LIST_NEW, values, ListSpec(item), {"item": item})
            return
        constants = [self.line.constants[self.table.values[n]] for n in column]
        numbers = _integers(constants)
        # 0, 1, 2, … need not be a list in memory: it is the loop's index
        if numbers is not None and affine(numbers) is not None:
            self._index(numbers)
            return
        self._xs[column] = self._stacked(np.stack(constants))

    def _stacked(self, array: Any) -> Value:
        rows = self.line.constant(array)
        return self.emit(LIST_FROM_TENSOR, [rows], ListSpec(TensorSpec(array.shape[1:], rows.type.dtype)))

    def _index(self, column: Column) -> None:
        """An integer that differs: computed from the loop's index, or read from a list."""
        if column in self._indices:
            return
        form = self._indices[column] = affine(column)
        if form is None:
            self._xs[("integers", column)] = self._stacked(np.array(column, np.int32))
            return
        step, start = form
        if abs(step) != 1:
            self._const(step)
        if start or step == -1 or self.wanted.nested:
            self._const(start)

    def _const(self, number: int) -> Value:
        value = self.line.constant(np.int32(number))
        self._consts[value] = None
        return value

    # -- the body ----------------------------------------------------------------------------------------------------

    def _body(self, fixed: dict[int, Value]) -> Block:
        loop = self.loop
        body = Block(name="body")
        index = body.add_param(COUNT, group="index")
        chains: list[list[Value]] = []
        body.layout |= {"carried": 0, "consts": 0, "xs": 0}
        for place, chain in self._chains:
            chains.append([body.add_param(self.types[place], self.names[place], "carried") for _ in chain])
        for place in self.wanted.last:
            body.add_param(self.types[place], self.names[place], "carried")
        consts = {value: body.add_param(value.type, value.name, "consts") for value in self._consts}
        lists = {column: body.add_param(value.type.item, None, "xs") for column, value in self._xs.items()}
        numbers = _Indices(self, body, index, lists, lambda number: consts[self._const(number)])
        results: list[Value] = []
        slot = hole = 0
        for item in self.items:
            operands = []
            for position in range(len(item.operands)):
                back = int(loop.distance[slot])
                if back == 0:
                    value = results[int(loop.place[slot])]
                elif back > 0:
                    chain_number, back = self._carried[slot]
                    value = chains[chain_number][back - 1]
                elif loop.fixed[slot]:
                    value = consts[fixed[int(loop.sources[0, slot])]]
                else:
                    value = self._differing(item, position, slot, lists, numbers)
                operands.append(value)
                slot += 1
            results += self._operation(body, item, operands, hole, numbers)
            hole += len(item.holes)
        carried = []
        for (place, _), values in zip(self._chains, chains, strict=True):
            # the new value in front, the oldest drops out
            carried += [results[place], *values[:-1]]
        carried += [results[place] for place in self.wanted.last]
        return body.give(carried=carried, ys=[self._listed(body, results[place], axis) for place, axis in self.wanted.listed])

    def _listed(self, body: Block, value: Value, axis: int | None) -> Value:
        if axis is None:
            return value
        # made here, where it is free: outside, all of the list would be copied into the new shape
        shape = (*value.type.shape[:axis], 1, *value.type.shape[axis:])
        loc = self.items[-1].loc
        return body.append(Operation(RESHAPE, [value], [TensorSpec(shape, value.type.dtype)], {"shape": shape}, loc=loc)).result

    def _differing(self, item: Item, position: int, slot: int, lists: dict[Any, Value], numbers: _Indices) -> Value:
        column: Column = tuple(self.loop.sources[:, slot].tolist())
        if column in lists:
            return lists[column]
        constants = [self.line.constants[self.table.values[n]] for n in column]
        value = numbers.value(tuple([int(c) for c in constants]), item)
        wanted = item.operands[position].type
        # (these take an index of any integer type)
        if wanted.dtype is COUNT.dtype or (item.op in PLACED and position == 1):
            return value
        return numbers.body.append(Operation(CAST, [value], [wanted], {"dtype": wanted.dtype}, loc=item.loc)).result

    def _operation(self, body: Block, item: Item, operands: list[Value], hole: int, numbers: _Indices) -> list[Value]:
        given = {}
        for number in range(len(item.holes)):
            column: Column = tuple(self.loop.holes[:, hole + number].tolist())
            if column != (column[0],) * len(column):
                given[number] = numbers.value(column, item)
        op, attrs, regions, layout = item.op, item.attrs, item.regions, item.layout
        if given:
            op, attrs, regions, operands, layout = opened(item, operands, item.holes, given)
        types = [value.type for value in item.results]
        copied = body.append(Operation(op, operands, types, attrs, regions, item.loc, layout, item.result_layout))
        for value, old in zip(copied.results, item.results, strict=True):
            value.name = old.name
        return copied.results


class _Indices:
    """Integers of an iteration, as values of the body; each is computed once."""

    def __init__(self, scan: Scan, body: Block, index: Value, lists: dict[Any, Value], const: Callable[[int], Value]) -> None:
        self.body = body
        self.index = index
        self.known = scan._indices
        self.nested = scan.wanted.nested
        self.lists = lists
        self.const = const
        self.built: dict[Column, Value] = {}

    def value(self, column: Column, item: Item) -> Value:
        form = self.known[column]
        if form is None:
            return self.lists["integers", column]
        if column not in self.built:
            step, start = form
            value = self.index
            if step == -1:
                value = self._emit(SUBTRACT, self.const(start), value, item)
            else:
                if step != 1:
                    value = self._emit(MULTIPLY, value, self.const(step), item)
                if start or self.nested:
                    value = self._emit(ADD, value, self.const(start), item)
            self.built[column] = value
        return self.built[column]

    def _emit(self, op: Any, x: Value, y: Value, item: Item) -> Value:
        return self.body.append(Operation(op, [x, y], [COUNT], loc=item.loc)).result


def affine(column: Column) -> tuple[int, int] | None:
    """Step and start of an arithmetic progression; None for any other sequence."""
    step = column[1] - column[0]
    return (step, column[0]) if all(b - a == step for a, b in pairwise(column)) else None


def _integers(constants: Sequence[Any]) -> Column | None:
    """Integer scalars as Python numbers that fit the loop's index type."""
    if constants[0].ndim or constants[0].dtype.kind not in "iu":
        return None
    column = tuple([int(c) for c in constants])
    return column if max(map(abs, column)) <= LARGEST else None
