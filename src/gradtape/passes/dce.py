"""Dead code elimination, through loops, branches and calls.

One walk writes down what each value needs, one search from the program's results and effects marks what is live, one rebuild
drops the rest: unused operations, carried values, `ys`, constants, `xs`, outputs and inputs of branches and of callees. Since
a carried value needs itself only through its own slot, one that only feeds itself is never reached: no iteration to a fixed
point. Effects and what decides whether they run stay, in their order. A loop that nobody needs goes, even an endless one.
The parameters and results of the program itself stay.
"""

from __future__ import annotations

from collections.abc import Iterable

from gradtape.ir.dims import Dim, symbols_in
from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.types import TensorSpec
from gradtape.ir.walk import Groups, Rebuild, callee_of, groups_of, program, rebuild
from gradtape.ops.structured import COND, SCAN, WHILE


def dce(block: Block) -> Block:
    """The program without what neither its results nor its effects need; the block itself if they need all of it."""
    live = _Live(block)
    if live.is_everything(block):
        return block
    removal = _Removal(live)
    return rebuild(block, removal.visit, removal.callees)


class _Removal:
    """Copies a program without what is dead."""

    def __init__(self, live: _Live) -> None:
        self.live = live
        self.callees: dict[Block, Block] = {}

    def visit(self, scope: Rebuild, operation: Operation) -> None:
        # its results have no translation either: whoever used them is dead, too
        if operation not in self.live.operations:
            return
        op = operation.op
        if op is COND:
            self._branches(scope, operation)
        elif op is WHILE or op is SCAN:
            self._loop(scope, operation)
        elif (callee := callee_of(operation)) is not None:
            self._call(scope, operation, callee)
        else:
            scope.copy(operation)

    def _flags(self, values: Iterable[Value]) -> list[bool]:
        return [v in self.live.values for v in values]

    def _region(self, old: Block, keep: Iterable[Value], results: Groups) -> Block:
        inner = Rebuild(old, self.visit, set(keep), self.callees)
        inner.run(old.operations)
        return inner.finish({name: [inner[v] for v in values] for name, values in results.items()})

    def _branches(self, scope: Rebuild, operation: Operation) -> None:
        then, orelse = operation.regions["then"], operation.regions["orelse"]
        outputs = self._flags(operation.results)
        # both sides take the same inputs: one that either needs stays for both
        inputs = [a or b for a, b in zip(self._flags(then.params), self._flags(orelse.params), strict=True)]
        regions = {
            name: self._region(part, _where(inputs, part.params), {"outputs": _where(outputs, part.results)})
            for name, part in operation.regions.items()
        }
        operands = _operands(scope, operation, {"inputs": inputs})
        scope.copy(operation, operands=operands, regions=regions, keep=set(_where(outputs, operation.results)))

    def _call(self, scope: Rebuild, operation: Operation, callee: Block) -> None:
        live = self.live
        # one callee for all its calls, as before: copies would be compiled once each
        new = self.callees.get(callee)
        if new is None:
            results = {name: live.of(vs) for name, vs in groups_of(callee.results, callee.result_layout).items()}
            new = self.callees[callee] = self._region(callee, live.of(callee.params), results)
        groups = _filtered(scope, operation, self._flags(callee.params))
        # not by what this call needs: the callee gives what any of its calls needs
        kept = set(_where(self._flags(callee.results), operation.results))
        scope.copy(operation, operands=groups, attrs={**operation.attrs, "callee": new}, keep=kept)

    def _loop(self, scope: Rebuild, operation: Operation) -> None:
        body, test = operation.regions["body"], operation.regions.get("test")
        given = groups_of(body.results, body.result_layout)
        results = groups_of(operation.results, operation.result_layout)
        slots, ys = self.live.slots(operation), self._flags(results["ys"])
        keep = {name: self._flags(vs) for name, vs in groups_of(body.params, body.layout).items() if name in ("consts", "xs")}
        # a slot stays as a whole (start, parameter, end, result), or goes: the groups are matched by position
        keep["carried"] = slots
        regions = {}
        if test is not None:
            # test and body take the same constants
            read = self._flags(groups_of(test.params, test.layout)["consts"])
            keep["consts"] = [a or b for a, b in zip(keep["consts"], read, strict=True)]
            regions["test"] = self._region(test, _kept(test, keep), {"flag": test.results})
        stay = {"carried": _where(slots, given["carried"]), "ys": _where(ys, given["ys"])}
        regions["body"] = self._region(body, _kept(body, keep), stay)
        kept = {*_where(slots, results["carried"]), *_where(ys, results["ys"]), *results.get("count", ())}
        scope.copy(operation, operands=_operands(scope, operation, keep), regions=regions, keep=kept)


def _where(flags: list[bool], values: list[Value]) -> list[Value]:
    return [v for flag, v in zip(flags, values, strict=True) if flag]


def _kept(block: Block, keep: dict[str, list[bool]]) -> list[Value]:
    """The parameters that stay; those of groups not mentioned (the index) all do."""
    groups = groups_of(block.params, block.layout)
    return [v for name, values in groups.items() for v in (_where(keep[name], values) if name in keep else values)]


def _operands(scope: Rebuild, operation: Operation, keep: dict[str, list[bool]]) -> Groups:
    """The operands that stay, translated (what is dead has no translation), by group."""
    flags = [
        keep[name][i] if name in keep else True
        for name, values in groups_of(operation.operands, operation.layout).items()
        for i in range(len(values))
    ]
    return _filtered(scope, operation, flags)


def _filtered(scope: Rebuild, operation: Operation, flags: list[bool]) -> Groups:
    groups, start = {}, 0
    for name, values in groups_of(operation.operands, operation.layout).items():
        groups[name] = [scope[v] for v in _where(flags[start : start + len(values)], values)]
        start += len(values)
    return groups


def _groups(block: Block) -> list[tuple[str, list[Value]]]:
    return list(groups_of(block.params, block.layout).items())


class _Live:
    """Which values and operations are needed. Context-insensitive for callees: live for one call is live for all."""

    def __init__(self, block: Block) -> None:
        self.values: set[Value] = set()
        self.operations: set[Operation] = set()
        # (what other values need is read off their operations)
        self._needs: dict[Value, list[Value]] = {}  # of region parameters and of results of structured operations
        self._control: dict[Operation, list[Value]] = {}  # what a structured operation needs to run at all
        self._calls: dict[Block, list[Operation]] = {}
        self._running: dict[Block, list[Operation]] = {}  # callee → its live calls
        self._effects: dict[Block, bool] = {}
        self._sizes: dict[Operation, list[Value]] = {}  # values whose sizes an operation's attributes mention
        self._roots: list[Operation] = []
        self._waiting: list[Value] = []
        # Effects first, then results: both are roots, and the search does not care which reached a value.
        self._read(block, {})
        for operation in self._roots:
            self._operation(operation)
        self._mark(block.results)
        while self._waiting:
            self._value(self._waiting.pop())

    def of(self, values: Iterable[Value]) -> list[Value]:
        return [v for v in values if v in self.values]

    def is_everything(self, block: Block) -> bool:
        """Whether all operations are needed, and all that goes into and comes out of regions and callees."""
        for operation in program(block):
            if operation not in self.operations:
                return False
            inner = [*operation.regions.values(), *filter(None, [callee_of(operation)])]
            if not inner:
                continue
            crossing = [v for part in inner for name, vs in _groups(part) if name != "index" for v in vs]
            # (an index is a parameter that always stays)
            if any(v not in self.values for v in (*operation.results, *crossing)):
                return False
        return True

    def slots(self, operation: Operation) -> list[bool]:
        """Which carried values a loop must still carry: those whose result, or whose value in an iteration, is needed."""
        parts = [operation.result_group("carried"), *(r.group("carried") for r in operation.regions.values())]
        return [any(v in self.values for v in slot) for slot in zip(*parts, strict=True)]

    # -- reading the program

    def _read(self, block: Block, sizes: dict[str, Value]) -> bool:
        """Note what everything in the block needs; True when it has an effect. `sizes`: symbol → the value it is taken from."""
        self._define(block.params, sizes)
        has_effects = False
        for operation in block.operations:
            effect = operation.op.effect
            if operation.attrs and (symbols := symbols_in(operation.attrs)):
                # A size is read off some value's shape when the program runs: that value must live, though it is no operand.
                self._sizes[operation] = [sizes[s] for s in symbols if s in sizes]
            if operation.regions or "callee" in operation.attrs:
                effect = self._structured(operation, sizes)
            if effect:
                has_effects = True
                self._roots.append(operation)
            self._define(operation.results, sizes)
        return has_effects

    def _define(self, values: Iterable[Value], sizes: dict[str, Value]) -> None:
        for value in values:
            if value.type.__class__ is TensorSpec:
                for size in value.type.shape:
                    if size.__class__ is Dim and size.name is not None:
                        # the first that has it: later ones might be dead but for this
                        sizes.setdefault(size.name, value)

    def _structured(self, operation: Operation, sizes: dict[str, Value]) -> bool:
        needs = self._needs
        if (callee := callee_of(operation)) is not None:
            if callee not in self._calls:
                self._calls[callee] = []
                # a callee knows no sizes from around: its parameters tell them
                self._effects[callee] = self._read(callee, {})
            self._calls[callee].append(operation)
            for value, inner in zip(operation.results, callee.results, strict=True):
                needs[value] = [inner]
            return self._effects[callee]
        effects = [self._read(region, dict(sizes)) for region in operation.regions.values()]
        effect = any(effects)
        operands = groups_of(operation.operands, operation.layout)
        if operation.op is COND:
            self._control[operation] = operands["pred"]
            branches = list(operation.regions.values())
            for value, a, b in zip(operation.results, *(branch.results for branch in branches), strict=True):
                needs[value] = [a, b]
            for branch in branches:
                for param, value in zip(branch.params, operands["inputs"], strict=True):
                    needs[param] = [value]
            return effect
        if operation.op is not WHILE and operation.op is not SCAN:  # all of it stays, or none
            self._control[operation] = [*operation.operands, *(v for part in operation.regions.values() for v in part.results)]
            return effect
        test, body = operation.regions.get("test"), operation.regions["body"]
        self._control[operation] = operands.get("length", []) if test is None else list(test.results)
        results = groups_of(operation.results, operation.result_layout)
        given = groups_of(body.results, body.result_layout)
        for value, init, next_value in zip(results["carried"], operands["carried"], given["carried"], strict=True):
            needs[value] = [init, next_value]
        for value, item in zip(results["ys"], given["ys"], strict=True):
            needs[value] = [item]
        for region in (body,) if test is None else (test, body):
            params = groups_of(region.params, region.layout)
            for param, result in zip(params["carried"], results["carried"], strict=True):
                # one list for the slot: the start, and what the body gives. A slot that only feeds itself is reached from
                # nowhere else.
                needs[param] = needs[result]
            for name in ("consts", "xs"):
                for param, value in zip(params.get(name, ()), operands.get(name, ()), strict=name in params):
                    needs[param] = [value]
        return effect

    # -- marking

    def _mark(self, values: Iterable[Value]) -> None:
        for value in values:
            if value not in self.values:
                self.values.add(value)
                self._waiting.append(value)

    def _value(self, value: Value) -> None:
        owner = value.owner
        if isinstance(owner, Operation):
            self._operation(owner)
        elif owner in self._calls:
            # only of calls that are live: a dead call must not keep its operands
            self._mark([call.operands[value.index] for call in self._running.get(owner, ())])
        if value in self._needs:
            self._mark(self._needs[value])

    def _operation(self, operation: Operation) -> None:
        if operation in self.operations:
            return
        self.operations.add(operation)
        self._mark(self._sizes.get(operation, ()))
        if (callee := callee_of(operation)) is not None:
            self._running.setdefault(callee, []).append(operation)
            self._mark([v for p, v in zip(callee.params, operation.operands, strict=True) if p in self.values])
        else:
            self._mark(self._control.get(operation, operation.operands))
