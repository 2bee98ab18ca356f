"""What a program IS: operations in blocks, values between them, regions as a field of the operations that have them.

A `Value` is made once, by an operation or as a parameter of a block (SSA). A block sees only its own parameters and the
results of earlier operations in it: what a region needs from outside is an operand of the operation that owns the region.
Operands, results and parameters of structured operations come in named groups (`layout`), never counted by position.
Blocks are mutable while they are built; a pass makes a new block instead of changing one (`ir/walk.py` helps).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any, NamedTuple

Layout = Mapping[str, int]  # group name → how many, in order; {} means one unnamed group


class Location(NamedTuple):
    """The user's line that made an operation."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Instruction(Location):
    """A line with the very instruction; `silent` if it was traced where floating-point events are ignored."""

    code: CodeType
    lasti: int
    silent: bool


class Value:
    """One SSA value: its type, and the operation (result `index`) or block (parameter `index`) that defines it."""

    __slots__ = ("index", "name", "owner", "type")

    def __init__(self, type: Any, owner: Operation | Block, index: int, name: str | None = None) -> None:
        self.type = type  # TensorSpec or ListSpec
        self.owner = owner
        self.index = index
        self.name = name  # what the user calls it, where known

    @property
    def producer(self) -> Operation | None:
        """The operation that computes it; None for a parameter."""
        return self.owner if isinstance(self.owner, Operation) else None

    @property
    def shape(self) -> Any:
        return self.type.shape

    @property
    def dtype(self) -> Any:
        return self.type.dtype

    @property
    def ndim(self) -> int:
        return len(self.type.shape)

    @property
    def nbytes(self) -> int:
        return 0  # a traced value occupies nothing

    def __repr__(self) -> str:
        return f"<value {self.name or ''} {self.type}>"


class Operation:
    """One application of an op. `regions` maps the names of its regions to blocks; only structured ops have any."""

    __slots__ = ("attrs", "home", "layout", "loc", "op", "operands", "regions", "result_layout", "results")

    def __init__(
        self, op: Any, operands: Iterable[Value], types: Iterable[Any], attrs: Mapping[str, Any] | None = None,
        regions: Mapping[str, Block] | None = None, loc: Location | None = None, layout: Layout | None = None,
        result_layout: Layout | None = None,
    ) -> None:  # fmt: skip
        self.op = op
        self.operands = list(operands)
        self.attrs: dict[str, Any] = dict(attrs or {})
        self.regions: dict[str, Block] = dict(regions) if regions else {}
        self.loc = loc
        self.layout: dict[str, int] = dict(layout) if layout else {}
        self.result_layout: dict[str, int] = dict(result_layout) if result_layout else {}
        self.results = [Value(type, self, i) for i, type in enumerate(types)]
        self.home: Block | None = None  # the block it was traced into, while that is open

    def twin(self, operands: list[Value]) -> Operation:
        """The same operation, without regions, on other operands: the quick way to copy one.

        Attributes and layouts are shared, since nobody changes those of an operation that stands in a block.
        """
        # past `__init__`: a pass copies every operation of a program
        copy = Operation.__new__(Operation)
        copy.op = self.op
        copy.operands = operands
        copy.attrs = self.attrs
        copy.regions = {}
        copy.loc = self.loc
        copy.layout = self.layout
        copy.result_layout = self.result_layout
        copy.home = None
        results = copy.results = []
        for old in self.results:
            value = Value.__new__(Value)
            value.type = old.type
            value.owner = copy
            value.index = old.index
            value.name = old.name
            results.append(value)
        return copy

    def group(self, name: str) -> list[Value]:
        """The operands of one named group."""
        return grouped(self.operands, self.layout, name)

    def result_group(self, name: str) -> list[Value]:
        """The results of one named group."""
        return grouped(self.results, self.result_layout, name)

    def add_results(self, group: str, types: Iterable[Any]) -> list[Value]:
        """More results, in a group that must be the last one (or new)."""
        # results are numbered: one in the middle would rename all behind it
        if group in self.result_layout and list(self.result_layout)[-1] != group:
            raise ValueError(f"results can only be added to the last group, not to {group}")
        values = [Value(type, self, len(self.results) + i) for i, type in enumerate(types)]
        self.results.extend(values)
        self.result_layout[group] = self.result_layout.get(group, 0) + len(values)
        return values

    @property
    def result(self) -> Value:
        (value,) = self.results
        return value

    def __repr__(self) -> str:
        return f"<operation {self.op.name} at {self.loc}>"


def simple(
    op: Any, operands: list[Value], type: Any, loc: Location | None, home: Block, attrs: dict[str, Any] | None = None
) -> Value:
    """The one result of an operation without regions, appended to an open block: the quick way to make it."""
    # past `__init__`, as in `twin`: this is the way of nearly all traced operations
    operation = Operation.__new__(Operation)
    operation.op = op
    operation.operands = operands
    operation.attrs = {} if attrs is None else attrs
    operation.regions = {}
    operation.loc = loc
    operation.layout = {}
    operation.result_layout = {}
    operation.home = home
    value = Value.__new__(Value)
    value.type = type
    value.owner = operation
    value.index = 0
    value.name = None
    operation.results = [value]
    home.operations.append(operation)
    return value


class Block:
    """Parameters, operations in order, and the values it gives back. A program is a block; so is a region."""

    __slots__ = ("layout", "name", "operations", "params", "result_layout", "results")

    def __init__(
        self, types: Iterable[Any] = (), names: Sequence[str | None] = (), name: str = "", layout: Layout | None = None
    ):
        self.name = name
        self.params: list[Value] = []
        self.operations: list[Operation] = []
        self.results: list[Value] = []
        self.layout: dict[str, int] = dict(layout or {})
        self.result_layout: dict[str, int] = {}
        for i, type in enumerate(types):
            self.add_param(type, names[i] if i < len(names) else None)

    def add_param(self, type: Any, name: str | None = None, group: str | None = None) -> Value:
        """One more parameter; with `group`, in that (last or new) group."""
        value = Value(type, self, len(self.params), name)
        self.params.append(value)
        if group is not None:
            self.layout[group] = self.layout.get(group, 0) + 1
        return value

    def append(self, operation: Operation) -> Operation:
        self.operations.append(operation)
        return operation

    def group(self, name: str) -> list[Value]:
        """The parameters of one named group."""
        return grouped(self.params, self.layout, name)

    def result_group(self, name: str) -> list[Value]:
        return grouped(self.results, self.result_layout, name)

    def give(self, **groups: Sequence[Value]) -> Block:
        """Set the results by named groups; returns the block."""
        self.results = [value for values in groups.values() for value in values]
        self.result_layout = {name: len(values) for name, values in groups.items()}
        return self

    def __iter__(self) -> Iterator[Operation]:
        return iter(self.operations)

    def __repr__(self) -> str:
        return f"<block {self.name} ({len(self.params)} parameters, {len(self.operations)} operations)>"


def grouped(values: Sequence[Value], layout: Layout, name: str) -> list[Value]:
    """The members of one group."""
    start = 0
    for group, count in layout.items():
        if group == name:
            return list(values[start : start + count])
        start += count
    raise KeyError(f"no group {name!r} among {list(layout)}")
