"""From a block to Python source: one line per operation, calling the op's `impl`.

Branches become `if`, loops become `while` and `for` with their regions inline, callees become functions of their own, each
emitted once. A name is deleted right after its last use on every path, so memory is what liveness says; functions take
their arguments in a list that they empty, so a caller can let go of them too. Nothing is run here (`executable.py` does),
and nothing is optimised: a program's cost is decided by the passes.

One invariant: on every path a local name is bound when it is read, and deleted at most once.
"""

from __future__ import annotations

import builtins
import keyword
import operator
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtape.backends.numpy.attributes import Attributes
from gradtape.backends.numpy.checkpointed import Checkpointed
from gradtape.errors import InternalError
from gradtape.ir.dims import Dim, symbols_in
from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.sizes import describes
from gradtape.ir.types import TensorSpec
from gradtape.ir.walk import program
from gradtape.ops.list_values import TensorList
from gradtape.ops.staged import CONSTANT, VOID
from gradtape.ops.structured import CALL, CHECKPOINTED, COND, CUSTOM, SCAN, WHILE

INFIX = {
    operator.add: "{} + {}",
    operator.sub: "{} - {}",
    operator.mul: "{} * {}",
    operator.truediv: "{} / {}",
    operator.neg: "-{}",
}
DEEPEST = 12  # levels of nesting before a structured operation gets a function of its own; Python allows 20 loops
LOCAL = re.compile(r"v\d+|.*_\d+|size_.*")  # what locals are called, and nothing else
RESERVED = {"TensorList", "int32", "see", "tick", "build", "arguments", *dir(builtins), *keyword.kwlist}


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """What a line of the source does: the operation, and the names of its operands there."""

    operation: Operation
    operands: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProgramSource:
    """Source that defines `build`, a function without arguments that gives the program's function."""

    source: str
    namespace: dict[str, Any]
    places: dict[int, SourcePlace]  # by line number
    timed: list[Operation]  # what `tick` is called with the number of


def emit(block: Block, name: str, counting: bool = False, timing: bool = False) -> ProgramSource:
    """The source of a block. With `counting` every result is shown to `see`, with `timing` the end of each operation is told
    to `tick`; the namespace must be given them."""
    emitter = SourceWriter(block, counting)
    emitter.timed = [] if timing else None
    entry, free = emitter.function(block, name)
    if free:
        raise InternalError(f"no value of the program has the dimension {', '.join(sorted(free))}, which an attribute needs")
    lines = ["def build():"]
    places: dict[int, SourcePlace] = {}
    said = None
    for text, place in emitter.lines:
        loc = None if place is None else place.operation.loc
        lines.append(f"    {text}" if loc is None or loc == said else f"    {text}  # {os.path.basename(loc.file)}:{loc.line}")
        if place is not None:
            places[len(lines)] = place
            said = loc
    lines += [f"    return {entry}", ""]
    return ProgramSource("\n".join(lines), emitter.namespace, places, emitter.timed or [])


class SourceWriter:
    """What all functions of one program share: the namespace, the names in use, the lines written so far."""

    def __init__(self, block: Block, counting: bool) -> None:
        self.counting = counting
        self.timed: list[Operation] | None = None
        self.namespace: dict[str, Any] = {"TensorList": TensorList, "int32": np.int32}
        self.lines: list[tuple[str, SourcePlace | None]] = []
        self.names: dict[Value, str] = {}
        self.fixed: set[str] = {"None"}  # names of the namespace: never deleted
        self.attributes = Attributes(self.constant)
        self.symbols: set[str] = set()  # the dimensions attributes and the lists that loops make need
        for operation in program(block):
            for attr in operation.attrs.values():
                self.symbols |= symbols_in(attr)
            if "ys" in operation.result_layout:
                self.symbols |= symbols_in([value.type for value in operation.result_group("ys")])
        self._functions: dict[Block, tuple[str, list[str]]] = {}
        self._constants: dict[tuple[str, int], str] = {}
        self._count = 0

    def fresh(self, stem: str = "v") -> str:
        self._count += 1
        return f"v{self._count}" if stem == "v" else f"{stem}_{self._count}"

    def value_name(self, value: Value) -> str:
        return self.fresh(value.name if value.name and value.name.isidentifier() and value.name.isascii() else "v")

    def constant(self, value: Any, stem: str = "") -> str:
        """A name of the namespace for a value, like `stem` where there is one; the same object gets the same name."""
        key = (stem, id(value))  # the namespace keeps the value, so its id stays its own
        name = self._constants.get(key)
        if name is None:
            self._count += 1
            name = re.sub(r"\W", "_", stem) or f"K{self._count}"
            if name in RESERVED or name in self.namespace or not name.isidentifier() or LOCAL.fullmatch(name):
                name = f"{name}_{self._count}_"
            self._constants[key] = name
            self.namespace[name] = value
            self.fixed.add(name)
        return name

    def function(self, block: Block, name: str) -> tuple[str, list[str]]:
        """The name of a block's function and the dimensions it needs as further arguments."""
        known = self._functions.get(block)
        if known is None:
            writer = FunctionSource(self, self.fresh(re.sub(r"\W", "_", name) or "f"))
            params = []
            for value in block.params:
                self.names[value] = self.value_name(value)
                params.append(self.names[value])
            for value in block.params:
                writer.bind_sizes(value)
            writer.block(block, set(params))
            writer.line(f"return {_tuple([self.names[value] for value in block.results])}")
            self.lines += writer.finished(params)
            known = self._functions[block] = (writer.name, writer.free)
        return known


class FunctionSource:
    """One Python function in the making."""

    def __init__(self, emitter: SourceWriter, name: str) -> None:
        self.emitter = emitter
        self.names = emitter.names
        self.name = name
        self.free: list[str] = []  # dimensions the caller must give
        self.depth = 1
        self.lines: list[tuple[str, SourcePlace | None]] = []
        self._place: SourcePlace | None = None
        self._bound: set[str] = set()  # dimensions known on this path

    # --- lines

    def line(self, text: str) -> None:
        self.lines.append(("    " * self.depth + text, self._place))

    def delete(self, names: Iterable[str]) -> None:
        if gone := list(dict.fromkeys(names)):
            self.line(f"del {', '.join(gone)}")

    def finished(self, params: Sequence[str]) -> list[tuple[str, SourcePlace | None]]:
        """All lines, with the head that unpacks and empties the list of arguments."""
        sizes = "".join(f", size_{symbol}" for symbol in self.free)
        head = [f"def {self.name}(arguments{sizes}):"]
        if params:
            head.append(f"    {_targets(params)} = arguments")
        head.append("    arguments.clear()")
        return [*((text, None) for text in head), *self.lines]

    # --- dimensions

    def bind_sizes(self, value: Value) -> None:
        """Names for the dimensions that a value is the first to have."""
        wanted = self.emitter.symbols
        if not wanted or not isinstance(value.type, TensorSpec):
            return
        for axis, size in enumerate(value.type.shape):
            if isinstance(size, Dim) and (symbol := size.name) in wanted and symbol not in self._bound:
                self._bound.add(symbol)
                self.line(f"size_{symbol} = {self.names[value]}.shape[{axis}]")

    def _tells_sizes(self, value: Value) -> bool:
        return isinstance(value.type, TensorSpec) and not self._bound.issuperset(self.emitter.symbols & symbols_in(value.type))

    def size(self, symbol: str) -> str:
        """The name of a dimension; one nobody here has is asked of the caller."""
        if symbol not in self._bound and symbol not in self.free:
            self.free.append(symbol)
        return f"size_{symbol}"

    def item_type(self, type: Any) -> str:
        """The type of a new list's items (or several types), with the dimensions known by now."""
        known = self._bound | set(self.free)
        return self.emitter.attributes.text(type, lambda symbol: f"size_{symbol}" if symbol in known else None)

    # --- blocks

    def block(self, block: Block, owned: set[str], prefer: dict[Value, str] | None = None) -> set[str]:
        """The operations of a block whose parameters have names already.

        `owned` names die with the block: each is deleted after its last use in it. Returns those names, of `owned` or
        made here, that are results and so still bound. `prefer` says what to call some of the block's values.
        """
        names, fixed = self.names, self.emitter.fixed
        last: dict[str, int] = {}
        results: set[str] = set()
        for i, operation in enumerate(block.operations):
            for value in operation.operands:
                last[names[value]] = i
            for value in operation.results:
                name = self._result_name(operation, value, prefer)
                names[value] = name
                if name not in fixed:
                    results.add(name)
                    last[name] = i
        for value in block.results:
            last[names[value]] = len(block.operations)
        # (names of the namespace, and those that belong to the code around, are not this block's to delete)
        mortal = owned | results
        ends: dict[int, list[str]] = {}
        for name, i in last.items():
            if name in mortal:
                ends.setdefault(i, []).append(name)
        self._place = None
        # what the block is given and never uses goes before it begins
        self.delete(sorted(owned - last.keys()))
        for i, operation in enumerate(block.operations):
            if operation.op is not CONSTANT and operation.op is not VOID:
                self._operation(operation, ends.get(i, ()))
        self._place = None
        return set(ends.get(len(block.operations), ()))

    def _result_name(self, operation: Operation, value: Value, prefer: dict[Value, str] | None) -> str:
        if operation.op is CONSTANT or operation.op is VOID:
            return self.emitter.constant(operation.op.impl(**operation.attrs))
        if prefer is not None and value in prefer:
            return prefer[value]
        return self.emitter.value_name(value)

    def _operation(self, operation: Operation, ends: Sequence[str]) -> None:
        names = self.names
        self._place = SourcePlace(operation, tuple([names[value] for value in operation.operands]))
        results = {names[value] for value in operation.results}
        # A result that nobody reads dies with its operation, but after it: it has to be bound first.
        dying = [name for name in ends if name not in results]
        op = operation.op
        if op is CALL:
            self._call(operation, dying)
        elif op is CUSTOM:  # its region is for derivatives only
            for value, result in zip(operation.group("values"), operation.results, strict=True):
                self.line(f"{names[result]} = {names[value]}")
            self.delete(dying)
        elif not operation.regions:
            self._plain(operation)
            self._see(operation)
            self._tick(operation)
            self.delete(dying)
        elif self.depth > DEEPEST:
            self._outline(operation, dying)
        elif op is COND:
            self._cond(operation, dying)
        elif op is WHILE:
            self._while(operation, dying)
        elif op is SCAN:
            self._scan(operation, dying)
        elif op is CHECKPOINTED:
            self._checkpointed(operation, dying)
        else:
            raise InternalError(f"the NumPy backend does not know the structured op {op.name}")
        for value in operation.results:
            self.bind_sizes(value)
        self.delete([name for name in ends if name in results])

    def _plain(self, operation: Operation) -> None:
        op = operation.op
        operands = [self.names[value] for value in operation.operands]
        template = INFIX.get(op.impl) if not operation.attrs else None
        if template is not None:
            text = template.format(*operands)
        else:
            attrs = [f"{key}={self._attribute(attr)}" for key, attr in operation.attrs.items()]
            text = f"{self.emitter.constant(op.impl, op.name)}({', '.join([*operands, *attrs])})"
        results = [self.names[value] for value in operation.results]
        if not results:
            self.line(text)
        else:
            self.line(f"{results[0] if op.outputs == 1 else _targets(results)} = {text}")

    def _attribute(self, attr: Any) -> str:
        return self.item_type(attr) if describes(attr) else self.emitter.attributes.text(attr, self.size)

    def _see(self, operation: Operation) -> None:
        if self.emitter.counting and operation.results:
            self.line(f"see({', '.join(self.names[value] for value in operation.results)})")

    def _tick(self, operation: Operation) -> None:
        timed = self.emitter.timed
        if timed is not None:
            self.line(f"tick({len(timed)})")
            timed.append(operation)

    # --- calls

    def _call(self, operation: Operation, dying: Sequence[str]) -> None:
        callee = operation.attrs["callee"]
        self._invoke(operation, *self.emitter.function(callee, callee.name or "callee"), dying)

    def _outline(self, operation: Operation, dying: Sequence[str]) -> None:
        """A function of its own for an operation that is nested too deep for Python; names stay as they are."""
        emitter = self.emitter
        part = FunctionSource(emitter, emitter.fresh(operation.op.name + "_part"))
        params = list(dict.fromkeys(name for v in operation.operands if (name := self.names[v]) not in emitter.fixed))
        part._operation(operation, params)
        part.line(f"return {_tuple([self.names[value] for value in operation.results])}")
        emitter.lines += part.finished(params)
        self._invoke(operation, part.name, part.free, dying, params)

    def _invoke(
        self, operation: Operation, function: str, free: Sequence[str], dying: Sequence[str], given: Sequence[str] | None = None
    ) -> None:
        names = [self.names[value] for value in operation.operands] if given is None else given
        arguments = f"[{', '.join(names)}]"
        # The callee empties the list it is given: with the caller's names gone too, its arguments die where it uses them last.
        if dying:
            packed = self.emitter.fresh("arguments")
            self.line(f"{packed} = {arguments}")
            self.delete(dying)
            arguments = packed
        sizes = "".join(f", {self.size(symbol)}" for symbol in free)
        results = [self.names[value] for value in operation.results]
        self.line(f"{_targets(results)} = {function}({arguments}{sizes})" if results else f"{function}({arguments}{sizes})")

    def _checkpointed(self, operation: Operation, dying: Sequence[str]) -> None:
        """A call of the driver, which calls functions made of the regions."""
        emitter = self.emitter
        runs = []
        for name in ("advance", "backward"):
            function, free = emitter.function(operation.regions[name], name)
            sizes = "".join(f", {self.size(symbol)}" for symbol in free)
            runs.append(f"lambda arguments: {function}(arguments{sizes})" if free else function)
        given = operation.group("length")
        length = self.names[given[0]] if given else emitter.attributes.text(operation.attrs["length"], self.size)
        count, packed = emitter.fresh("n"), emitter.fresh("arguments")
        self.line(f"{count} = int({length})")
        self.line(f"{packed} = [{', '.join(self.names[value] for value in operation.operands[len(given) :])}]")
        self.delete(dying)
        items = _tuple([self.item_type(value.type.item) for value in operation.result_group("ys")])
        saved = self.item_type(operation.attrs["saved"])
        driver = emitter.constant(Checkpointed(operation), "checkpointed")
        see = ", see" if emitter.counting else ""
        results = _targets([self.names[value] for value in operation.results])
        self.line(f"{results} = {driver}({packed}, {count}, {saved}, {items}, {', '.join(runs)}{see})")

    # --- branches

    def _cond(self, operation: Operation, dying: Sequence[str]) -> None:
        (pred,) = operation.group("pred")
        place, bound = self._place, set(self._bound)
        for head, region in ((f"if {self.names[pred]}:", "then"), ("else:", "orelse")):
            block = operation.regions[region]
            self._place = place
            self.line(head)
            self.depth += 1
            start = len(self.lines)
            self._rename(block.params, [self.names[value] for value in operation.group("inputs")])
            # a result made in the branch gets its outer name at once, so that nothing is left to do at the end
            prefer: dict[Value, str] = {}
            for value, result in zip(block.results, operation.results, strict=True):
                if value.producer is not None:
                    prefer.setdefault(value, self.names[result])
            kept = self.block(block, set(dying), prefer)
            self._place = place
            outer = [self.names[result] for result in operation.results]
            for value, name in zip(block.results, outer, strict=True):
                if self.names[value] != name:
                    self.line(f"{name} = {self.names[value]}")
            self.delete(sorted(kept.difference(outer)))
            if len(self.lines) == start:
                self.line("pass")
            self.depth -= 1
            self._bound = set(bound)

    # --- loops

    def _while(self, operation: Operation, dying: Sequence[str]) -> None:
        test, body = operation.regions["test"], operation.regions["body"]
        carried = self._start(operation, dying)
        ys = self._new_lists(operation)
        counter = self.emitter.fresh("i")
        self.line(f"{counter} = 0")
        self.line("while True:")
        place, bound = self._place, set(self._bound)
        self.depth += 1
        consts = [self.names[value] for value in operation.group("consts")]
        self._rename(test.group("carried"), carried)
        self._rename(test.group("consts"), consts)
        self.block(test, set())
        self._place = place
        self.line(f"if not {self.names[test.results[0]]}:")
        self.line("    break")
        kept = self._iteration(body, counter, carried, consts, ())
        for name, value in zip(ys, body.result_group("ys"), strict=True):
            self.line(f"{name}.append({self.names[value]})")
        self._advance(body, carried, kept)
        self.line(f"{counter} += 1")
        self.depth -= 1
        self._place, self._bound = place, bound
        (count,) = operation.result_group("count")
        self.line(f"{self.names[count]} = int32({counter})")
        self.delete(name for name in dying if name in consts)

    def _scan(self, operation: Operation, dying: Sequence[str]) -> None:
        body = operation.regions["body"]
        reverse = bool(operation.attrs.get("reverse"))
        given = operation.group("length") if "length" in operation.layout else []
        length = self.names[given[0]] if given else self.emitter.attributes.text(operation.attrs["length"], self.size)
        lists = [self.names[value] for value in operation.group("xs")]
        consts = [self.names[value] for value in operation.group("consts")]
        stays = {*lists, *consts}
        if given:
            count = self.emitter.fresh("n")
            self.line(f"{count} = int({length})")
            length = count
        carried = self._start(operation, dying)
        ys = self._new_lists(operation, length if reverse else None)
        counter = self.emitter.fresh("i")
        self.line(f"for {counter} in range({f'{length} - 1, -1, -1' if reverse else length}):")
        place, bound = self._place, set(self._bound)
        self.depth += 1
        start = len(self.lines)
        kept = self._iteration(body, counter, carried, consts, lists)
        for name, value in zip(ys, body.result_group("ys"), strict=True):
            item = self.names[value]
            self.line(f"{name}[{counter}] = {item}" if reverse else f"{name}.append({item})")
        self._advance(body, carried, kept)
        if len(self.lines) == start:
            self.line("pass")
        self.depth -= 1
        self._place, self._bound = place, bound
        self.delete(name for name in dying if name in stays)

    def _start(self, operation: Operation, dying: Sequence[str]) -> list[str]:
        """The carried values take their initial values, under the names of the loop's results."""
        carried = [self.names[value] for value in operation.result_group("carried")]
        for name, value in zip(carried, operation.group("carried"), strict=True):
            self.line(f"{name} = {self.names[value]}")
        # (each iteration reads these again: they live until the loop is over)
        later = {self.names[v] for group in ("consts", "xs") if group in operation.layout for v in operation.group(group)}
        self.delete(name for name in dying if name not in later)
        return carried

    def _new_lists(self, operation: Operation, length: str | None = None) -> list[str]:
        names = []
        for value in operation.result_group("ys"):
            names.append(self.names[value])
            items = "()" if length is None else f"[None] * {length}"
            self.line(f"{names[-1]} = TensorList({items}, {self.item_type(value.type.item)})")
        if self.emitter.counting and names:
            self.line(f"see({', '.join(names)})")
        return names

    def _iteration(
        self, body: Block, counter: str, carried: Sequence[str], consts: Sequence[str], lists: Sequence[str]
    ) -> set[str]:
        """One run of the body; its parameters die in it, except `consts`."""
        used = {value for operation in body.operations for value in operation.operands}.union(body.results)
        owned = set(carried)
        self._rename(body.group("carried"), carried)
        self._rename(body.group("consts"), consts)
        (index,) = body.group("index")
        if index in used:
            self.names[index] = self.emitter.fresh("index")
            owned.add(self.names[index])
            self.line(f"{self.names[index]} = int32({counter})")
        for value, name in zip(body.group("xs") if lists else (), lists, strict=True):
            if value in used or self._tells_sizes(value):
                self.names[value] = self.emitter.value_name(value)
                owned.add(self.names[value])
                self.line(f"{self.names[value]} = {name}[{counter}]")
                self.bind_sizes(value)
        place = self._place
        kept = self.block(body, owned)
        self._place = place
        return kept

    def _advance(self, body: Block, carried: Sequence[str], kept: set[str]) -> None:
        """What the body gives is what the next iteration takes, all at once; then the body's own names go."""
        given = [self.names[value] for value in body.result_group("carried")]
        moves = [(to, name) for to, name in zip(carried, given, strict=True) if to != name]
        if moves:
            self.line(f"{', '.join(to for to, _ in moves)} = {', '.join(name for _, name in moves)}")
        self.delete(sorted(kept.difference(carried)))

    def _rename(self, values: Sequence[Value], names: Sequence[str]) -> None:
        for value, name in zip(values, names, strict=True):
            self.names[value] = name
            self.bind_sizes(value)


def _targets(names: Sequence[str]) -> str:
    return f"{', '.join(names)}{',' if len(names) == 1 else ''}"


def _tuple(names: Sequence[str]) -> str:
    return f"({_targets(names)})"
