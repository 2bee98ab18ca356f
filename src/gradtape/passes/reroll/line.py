"""The program as `reroll` sees it: a line of items without its constants, and the tables that describe one state of it.

Constants stand apart: the tracer makes equal ones once per block, so they would hide that iterations are alike. Items are
this pass's own, the operations they come from are never changed. The one invariant: equal tokens mean the same op, types,
structure and attributes, up to the numbers listed in `holes`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtape.dtypes import as_dtype
from gradtape.ir.dims import symbols_in
from gradtape.ir.graph import Block, Layout, Location, Operation, Value
from gradtape.ir.types import ListSpec, TensorSpec
from gradtape.ops.lists import LIST_FROM_TENSOR, LIST_GET
from gradtape.ops.shape import TRANSPOSE
from gradtape.ops.staged import CONSTANT
from gradtape.passes.facts import type_key
from gradtape.passes.reroll.holes import outline
from gradtape.passes.reroll.rows import Row, find_rows

SMALL = 4096  # bytes; larger constants are the same only if they are the same object
OVERHEAD = 4  # a structured operation costs as much as this many others, besides what is in it
NOWHERE = Block()  # owns the values that exist while the pass runs


@dataclass(slots=True, eq=False)
class Item:
    """One operation of the line. `results` are the values other items know it by."""

    op: Any
    operands: list[Value]
    results: list[Value]
    attrs: dict[str, Any]
    regions: dict[str, Block]
    loc: Location | None
    layout: Layout
    result_layout: Layout
    token: int = -1
    weight: int = 1
    holes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.regions:
            self.weight += OVERHEAD + sum(weight(region) for region in self.regions.values())


def weight(block: Block) -> int:
    """How large a block is: its operations, and something for each structured one."""
    inner = [region for operation in block.operations for region in operation.regions.values()]
    structured = sum(1 for operation in block.operations if operation.regions)
    return len(block.operations) + OVERHEAD * structured + sum(weight(region) for region in inner)


def is_plain(constant: Any) -> bool:
    """True for numbers and arrays of them that keep their layout in a stack (sums depend on it, in the last bit)."""
    return isinstance(constant, (np.ndarray, np.generic)) and constant.dtype.kind != "O" and constant.flags.c_contiguous


def new_value(type: Any) -> Value:
    """A value to name a result by."""
    return Value(type, NOWHERE, 0)


class StraightLine:
    """The items between the parameters and the results of a block, and the constants they use."""

    def __init__(self, block: Block, by_rows: bool) -> None:
        """`by_rows`: slices of one tensor are read from a list of them."""
        self.block = block
        self.items: list[Item] = []
        self.constants: dict[Value, Any] = {}  # constant → array or NumPy scalar
        self.same: dict[Value, Value] = {}  # value → the value that stands for it
        self.outputs: list[Value] = []  # what the block gives back
        self._known: dict[Any, Value] = {}
        self._tokens: dict[Any, int] = {}
        self._located: dict[Any, int] = {}
        self._types: dict[Any, int] = {}
        self._type_of: dict[Value, int] = {}
        self._rows, self._dropped = find_rows(block) if by_rows else ({}, set())
        self._lists: dict[tuple[Value, int], Value] = {}
        self._symbolic = False  # whether any type has a symbolic dimension
        self._sizes: set[str] = set(symbols_in([v.type for v in block.params]))
        for param in block.params:
            self._note(param)

    def renamed(self, values: Iterable[Value]) -> list[Value]:
        same = self.same
        return [same.get(value, value) for value in values] if same else list(values)

    def add(self, operation: Operation, attrs: dict[str, Any], regions: dict[str, Block]) -> None:
        """Take over an operation of the block, with attributes and regions of its own."""
        if operation.op is CONSTANT:
            self.same[operation.result] = self.constant(operation.attrs["value"], operation.result)
            return
        if self._rows:
            if operation in self._dropped:
                self._list(operation.operands[0], operation.attrs["axis"], operation.loc)
                return
            # (a slice that is read from a list is not made by itself any more: whoever uses it gets the item)
            if operation.results and operation.results[0] in self._rows:
                return
        operands = self.read(operation.operands, operation.loc)
        item = Item(
            operation.op, operands, operation.results, attrs, regions, operation.loc, operation.layout, operation.result_layout
        )  # fmt: skip
        self.items.append(self.described(item))

    def read(self, values: Iterable[Value], loc: Location | None = None) -> list[Value]:
        """Values of the block as operands of the next item; rows are read from their lists first."""
        values = self.renamed(values)
        if not self._rows:
            return values
        known: dict[Value, Value] = {}
        for value in values:
            if value in self._rows and value not in known:
                known[value] = self._row(self._rows[value], value, loc)
        return [known.get(value, value) for value in values]

    def _row(self, row: Row, value: Value, loc: Location | None) -> Value:
        index = self.constant(np.int32(row.number))
        return self.emit(LIST_GET, [self._list(row.x, row.axis, loc), index], value.type, {}, loc)

    def _list(self, x: Value, axis: int, loc: Location | None) -> Value:
        """All slices of a tensor along an axis, made once."""
        known = self._lists.get((x, axis))
        if known is None:
            (whole,) = self.read([x], loc)
            if axis:
                order = (axis, *(i for i in range(len(x.type.shape)) if i != axis))
                turned = TensorSpec([x.type.shape[i] for i in order], x.type.dtype)
                whole = self.emit(TRANSPOSE, [whole], turned, {"perm": order}, loc)
            item = TensorSpec(tuple(whole.type.shape)[1:], x.type.dtype)
            known = self._lists[x, axis] = self.emit(LIST_FROM_TENSOR, [whole], ListSpec(item), {}, loc)
        return known

    def emit(self, op: Any, operands: list[Value], type: Any, attrs: dict[str, Any], loc: Location | None) -> Value:
        """One more item with one result."""
        value = new_value(type)
        self.items.append(self.described(Item(op, operands, [value], attrs, {}, loc, {}, {})))
        return value

    def constant(self, value: Any, name: Value | None = None) -> Value:
        """The value that stands for a constant; equal small ones are one."""
        # by value where comparing is cheap: iterations that were traced apart have equal constants, not the same ones
        if not is_plain(value) or value.nbytes > SMALL:
            key: Any = id(value)
        else:
            key = (value.dtype, value.shape, value.tobytes())
        known = self._known.get(key)
        if known is None:
            known = name or new_value(TensorSpec(value.shape, as_dtype(value.dtype)))
            self._known[key] = known
            self.constants[known] = value
            self._note(known)
        return known

    def described(self, item: Item) -> Item:
        """The item with its token and holes; from now on others may use its results."""
        # what may differ from iteration to iteration (numbers in keys and paddings) is a hole: items that agree otherwise have
        # one token
        outlined, item.holes = outline(item)
        type_of = self._type_of
        for value in item.results:
            self._note(value)
        # a token of its own: in a loop, only the iterations would know the size
        if self._symbolic and self._makes_sizes(item):
            outlined = id(item)
        key = (item.op, outlined, *[type_of[v] for v in item.operands], *[type_of[v] for v in item.results])
        tokens = self._tokens
        item.token = tokens.setdefault(key, len(tokens))
        return item

    def _makes_sizes(self, item: Item) -> bool:
        """Whether a dimension is first known by the results of an item: it must stay where everybody sees it."""
        symbols = symbols_in([v.type for v in item.results])
        known = self._sizes
        new = symbols - known
        known |= new
        return bool(new)

    def _note(self, value: Value) -> None:
        """Give the type of a value a number."""
        type = value.type
        if type.__class__ is TensorSpec:
            key: Any = (id(type.dtype), *type.shape)  # dtypes are unique
            self._symbolic |= any(d.__class__ is not int for d in type.shape)
        else:
            key = type_key(type)
            self._symbolic |= bool(symbols_in(type))
        types = self._types
        self._type_of[value] = types.setdefault(key, len(types))

    def tokens(self, located: bool) -> Any:
        """The tokens of all items; with `located`, items of different source lines differ."""
        if not located:
            return np.array([item.token for item in self.items], np.int64)
        seen = self._located
        # (iterations of a loop stand at the same lines: with lines, what merely looks alike is told apart)
        return np.array([seen.setdefault((item.token, item.loc), len(seen)) for item in self.items], np.int64)


class Table:
    """Values by number: parameters, constants, then results in order; and who reads which number where."""

    def __init__(self, line: StraightLine) -> None:
        params = line.block.params
        self.items = line.items
        self.values: list[Value] = [*params, *line.constants]
        plain = [False] * len(params) + [is_plain(constant) for constant in line.constants.values()]
        numbers = {value: i for i, value in enumerate(self.values)}
        first: list[int] = []  # item → number of its first result
        offsets = [0]  # item → place of its first operand in `sources`
        sources: list[int] = []
        for item in line.items:
            first.append(len(numbers))
            sources += [numbers[v] for v in item.operands]
            offsets.append(len(sources))
            for value in item.results:
                numbers[value] = len(numbers)
            self.values += item.results
        first.append(len(numbers))
        sources += [numbers[v] for v in line.outputs]  # the block's results count as one more item
        offsets.append(len(sources))
        self.first = np.array(first, np.int64)
        self.offsets = np.array(offsets, np.int64)
        self.sources = np.array(sources, np.int64)
        self.weights = np.cumsum([0, *(item.weight for item in line.items)])
        self.users = np.repeat(np.arange(len(offsets) - 1), np.diff(self.offsets))
        self._plain = np.zeros(len(self.values), bool)
        self._plain[: len(plain)] = plain
        # readers sorted by what they read: all uses of a range of values are then one slice
        self._order = np.argsort(self.sources, kind="stable")
        self._sorted = self.sources[self._order]

    def producers(self, numbers: Any) -> Any:
        """The items that make these values; -1 for parameters and constants."""
        return np.searchsorted(self.first[:-1], numbers, "right") - 1

    def weight(self, start: int, stop: int) -> int:
        """The size of the items from `start` to `stop`."""
        return int(self.weights[stop] - self.weights[start])

    def uses(self, start: int, stop: int) -> tuple[Any, Any]:
        """Who reads the values from number `start` to `stop`: (items, numbers)."""
        low, high = np.searchsorted(self._sorted, (start, stop))
        return self.users[self._order[low:high]], self._sorted[low:high]

    def is_constant(self, numbers: Any) -> Any:
        """Which of these values are constant arrays that can be stacked."""
        return self._plain[numbers]

    def operands(self, start: int, stop: int, rows: int) -> Any:
        """The operands of items `start` to `stop` as a table of `rows` equal parts."""
        return self.sources[self.offsets[start] : self.offsets[stop]].reshape(rows, -1)
