"""From a block to a Python function: one line per operation, calling the op's `impl`; loops and branches run such functions.

A function takes its arguments in a list that it empties, and deletes a name right after its last use, so that memory is what
liveness says. Nothing is optimised here: a program's cost is decided by the passes.

One invariant: a symbol's size is read off the first value that has it, in the block or in one around it; a callee is given the
sizes that no value of its own has.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

from gradtape.backends.numpy.checkpointed import Checkpointed
from gradtape.errors import InternalError
from gradtape.ir.dims import substitute, symbols_in
from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.sizes import defined_sizes, describes, needed_sizes, settled
from gradtape.ir.types import TensorSpec
from gradtape.ir.walk import program, values_used
from gradtape.ops.list_values import TensorList
from gradtape.ops.staged import CONSTANT, VOID
from gradtape.ops.structured import CALL, CHECKPOINTED, COND, CUSTOM, SCAN, WHILE

Sizes = dict[str, int]
Run = Callable[[list[Any], Sizes], Sequence[Any]]  # from operands, in a list that it empties, to results
Told = Callable[[Operation, Sequence[Any]], None]  # the results of each operation, and the lists that loops begin with
INFIX = {
    operator.add: "{} + {}",
    operator.sub: "{} - {}",
    operator.mul: "{} * {}",
    operator.truediv: "{} / {}",
    operator.neg: "-{}",
}


class SourcePlace(NamedTuple):
    """What a line does: the operation, and the names of its operands there."""

    operation: Operation
    operands: list[str]


Places = dict[CodeType, list[SourcePlace | None]]  # of the lines of each function


class FunctionSource:
    """One block as a function in the making."""

    def __init__(self, program: ProgramSource, block: Block, known: frozenset[str]) -> None:
        self._program = program
        self._known = known  # the symbols whose sizes are
        self._names = {value: f"v{i}" for i, value in enumerate(block.params)}
        self._lines: list[str] = ["def run(arguments, sizes):"]
        self._places: list[SourcePlace | None] = [None]
        # its own, and no function of another block reads it: a program has no reference cycles
        self._namespace: dict[str, Any] = {"substitute": substitute, "settled": settled, "told": program.told}
        if block.params:
            self._line(f"{', '.join(self._names.values())}, = arguments")
        self._line("arguments.clear()")
        if program.symbols:
            self._line("sizes = dict(sizes)")  # nobody around it sees those that are added
        self._bind(block.params)
        used, ends = values_used(block), _last_uses(block)
        self._delete([value for value in block.params if value not in used])
        for operation in block.operations:
            if operation.op is CONSTANT or operation.op is VOID:
                self._names[operation.result] = self._constant(operation.op.impl(**operation.attrs))
                continue
            first = len(self._lines)
            self._operation(operation, ends.get(operation, []))
            place = SourcePlace(operation, [self._names[value] for value in operation.operands])
            self._places[first:] = [place] * (len(self._lines) - first)
        self._line(f"return ({''.join(self._names[value] + ', ' for value in block.results)})")

    def function(self, name: str) -> Run:
        code = compile("\n".join(self._lines), f"<gradtape {name}>", "exec")
        exec(code, self._namespace)  # noqa: S102  (our own source)
        run: Any = self._namespace.pop("run")
        self._program.places[run.__code__] = self._places
        function: Run = run
        return function

    def _line(self, text: str) -> None:
        self._lines.append("    " + text if len(self._lines) else text)
        self._places += [None] * (len(self._lines) - len(self._places))

    def _constant(self, value: Any) -> str:
        name = f"K{len(self._namespace)}"
        self._namespace[name] = value
        return name

    def _delete(self, values: Sequence[Value]) -> None:
        if names := [self._names[value] for value in values if self._names[value] not in self._namespace]:
            self._line(f"del {', '.join(names)}")

    def _bind(self, values: Sequence[Value]) -> None:
        """The sizes that these values are the first to have."""
        for value in values if self._program.symbols else ():
            for axis, size in enumerate(value.type.shape if isinstance(value.type, TensorSpec) else ()):
                name = getattr(size, "name", None)
                if name in self._program.symbols and name not in self._known:
                    self._known |= {name}
                    self._line(f"sizes[{name!r}] = {self._names[value]}.shape[{axis}]")

    def _operation(self, operation: Operation, dying: list[Value]) -> None:
        whole, op = self._program, operation.op
        if missing := needed_sizes(operation) - self._known:
            names = ", ".join(sorted(missing))
            raise InternalError(f"no value of the program has the dimension {names}, which an attribute needs")
        operands = [self._names[value] for value in operation.operands]
        for value in operation.results:
            self._names[value] = f"v{len(self._names)}"
        results = [self._names[value] for value in operation.results]
        targets = "" if not results else f"{', '.join(results)}{'' if op.outputs == 1 and op.kind != 'region' else ','} = "
        if op.kind == "region":
            run = self._constant(whole.structured(operation, self._known))
            self._line(f"arguments = [{', '.join(operands)}]")
            # whoever runs blocks lets go of what it is given before they do
            self._delete([value for value in dying if value not in operation.results])
            self._line(f"{targets}{run}(arguments, sizes)")
            dying = [value for value in dying if value in operation.results]
        else:
            infix = INFIX.get(op.impl) if not operation.attrs else None
            attrs = [f"{key}={self._attribute(attr)}" for key, attr in operation.attrs.items()]
            call = infix.format(*operands) if infix else f"{self._constant(op.impl)}({', '.join([*operands, *attrs])})"
            self._line(targets + call)
            if whole.told is not None:
                self._line(f"told({self._constant(operation)}, [{', '.join(results)}])")
        self._bind(operation.results)
        self._delete(dying)

    def _attribute(self, attr: Any) -> str:
        name = self._constant(attr)
        return f"{'settled' if describes(attr) else 'substitute'}({name}, sizes)" if symbols_in(attr) else name


def _last_uses(block: Block) -> dict[Operation, list[Value]]:
    """By operation the values that nobody reads after it."""
    last: dict[Value, Operation] = {}
    for operation in block.operations:
        last.update((value, operation) for value in (*operation.operands, *operation.results))
    ends: dict[Operation, list[Value]] = {}
    for value in last.keys() - set(block.results):
        ends.setdefault(last[value], []).append(value)
    return ends


class ProgramSource:
    """What all functions of one program share while they are made."""

    def __init__(self, block: Block, name: str, told: Told | None) -> None:
        self.told = told
        self.places: Places = {}
        self.symbols: set[str] = set()  # that attributes need, and the types of lists that loops make
        self._name = name
        self._callees: dict[Block, Run] = {}
        for operation in program(block):
            self.symbols |= symbols_in(list(operation.attrs.values()))
            if "ys" in operation.result_layout:
                self.symbols |= symbols_in([value.type for value in operation.result_group("ys")])

    def function(self, block: Block, known: frozenset[str] = frozenset()) -> Run:
        """The function of a block, where the sizes of these symbols are known."""
        return FunctionSource(self, block, known).function(self._name)

    def structured(self, operation: Operation, known: frozenset[str]) -> Run:
        make = _REGIONS.get(operation.op)
        if make is None:
            raise InternalError(f"the NumPy backend does not know the structured op {operation.op.name}")
        return make(self, operation, known)

    def call(self, operation: Operation, known: frozenset[str]) -> Run:
        callee = operation.attrs["callee"]
        own = defined_sizes(callee)
        if callee not in self._callees:
            self._callees[callee] = self.function(callee, known - own)
        run = self._callees[callee]
        return lambda given, sizes: run(given, {name: size for name, size in sizes.items() if name not in own})

    def cond(self, operation: Operation, known: frozenset[str]) -> Run:
        then, orelse = self.function(operation.regions["then"], known), self.function(operation.regions["orelse"], known)

        def run(given: list[Any], sizes: Sizes) -> Sequence[Any]:
            return (then if given.pop(0) else orelse)(given, sizes)

        return run

    def custom(self, operation: Operation, known: frozenset[str]) -> Run:
        """The values themselves: the region is for derivatives only."""
        first = operation.layout["inputs"]
        values = slice(first, first + operation.layout["values"])
        return lambda given, sizes: given[values]

    def loop(self, operation: Operation, known: frozenset[str]) -> Run:
        """WHILE."""
        test, body = self.function(operation.regions["test"], known), self.function(operation.regions["body"], known)
        count, told, counts = operation.layout["carried"], self.told, _counts(operation.regions["body"])

        def run(given: list[Any], sizes: Sizes) -> Sequence[Any]:
            carried: Sequence[Any] = given[:count]
            consts = given[count:]
            given.clear()
            ys = _lists(operation, sizes, told)
            turn = 0
            while test([*carried, *consts], sizes)[0]:
                arguments = [np.int32(turn) if counts else None, *carried, *consts]
                del carried  # the body lets go of its arguments
                carried = body(arguments, sizes)
                if ys:
                    for values, item in zip(ys, carried[count:], strict=True):
                        values.append(item)
                    carried = carried[:count]
                turn += 1
            return [*carried, np.int32(turn), *ys]

        return run

    def scan(self, operation: Operation, known: frozenset[str]) -> Run:
        body, length = self.function(operation.regions["body"], known), _length(operation)
        layout, backwards = operation.layout, bool(operation.attrs.get("reverse"))
        count, told, counts = layout["carried"], self.told, _counts(operation.regions["body"])
        shared = count + layout["consts"]

        def run(given: list[Any], sizes: Sizes) -> Sequence[Any]:
            turns = length(given, sizes)
            carried: Sequence[Any] = given[:count]
            consts, lists = given[count:shared], given[shared:]
            given.clear()
            ys = _lists(operation, sizes, told, turns if backwards else 0)
            for turn in range(turns - 1, -1, -1) if backwards else range(turns):
                arguments = [np.int32(turn) if counts else None, *carried, *consts]
                if lists:
                    arguments += [values[turn] for values in lists]
                del carried
                carried = body(arguments, sizes)
                if ys:
                    for values, item in zip(ys, carried[count:], strict=True):
                        values[turn : turn + 1] = (item,)  # at its place, or behind the last one
                    carried = carried[:count]
            return [*carried, *ys]

        return run

    def checkpointed(self, operation: Operation, known: frozenset[str]) -> Run:
        advance, backward = (self.function(operation.regions[name], known) for name in ("advance", "backward"))
        length, driver = _length(operation), Checkpointed(operation)
        items = tuple(value.type.item for value in operation.result_group("ys"))
        told = self.told
        see = None if told is None else lambda *lists: told(operation, lists)

        def run(given: list[Any], sizes: Sizes) -> Sequence[Any]:
            turns, saved = length(given, sizes), settled(operation.attrs["saved"], sizes)
            forwards, backwards = (lambda values: advance(values, sizes)), (lambda values: backward(values, sizes))
            return driver(given, turns, saved, settled(items, sizes), forwards, backwards, see)

        return run


def _lists(operation: Operation, sizes: Sizes, told: Told | None, length: int = 0) -> list[TensorList]:
    """The lists that a loop fills."""
    ys = [TensorList([None] * length, settled(value.type.item, sizes)) for value in operation.result_group("ys")]
    if told is not None and ys:
        told(operation, ys)
    return ys


def _counts(body: Block) -> bool:
    """Whether an iteration reads its index."""
    (index,) = body.group("index")
    return index in values_used(body)


def _length(operation: Operation) -> Callable[[list[Any], Sizes], int]:
    """The number of iterations; where it is an operand, that is taken off."""
    if operation.layout.get("length"):
        return lambda given, sizes: int(given.pop(0))
    return lambda given, sizes: int(substitute(operation.attrs["length"], sizes))


_REGIONS: dict[Any, Callable[[ProgramSource, Operation, frozenset[str]], Run]] = {
    CALL: ProgramSource.call,
    COND: ProgramSource.cond,
    CUSTOM: ProgramSource.custom,
    WHILE: ProgramSource.loop,
    SCAN: ProgramSource.scan,
    CHECKPOINTED: ProgramSource.checkpointed,
}
