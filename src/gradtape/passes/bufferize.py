"""Updates in place where nobody can tell: replacing one element of an array in a loop costs O(1), not a copy.

An operation gets its in-place twin (`passes/inplace.py`) when its first operand is dead afterwards and the buffer is owned:
made in this program, by an op that surely allocates, and not reachable through any other live value. Each value has a set of
tokens, the buffers it may be; a token counts the live values that have it. Parameters, constants and items of lists are
nobody's to change. A carried value may be changed in a loop if every iteration gives back a buffer of the loop's own; if the
initial value is not the loop's to change, it is copied once before the loop. Programs stay pure in what they compute.

Must be the last pass: it makes operations whose order matters though they have no effect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gradtape.core.opdef import Memory
from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.types import ListSpec, TensorSpec
from gradtape.ir.walk import Rebuild, program, rebuild
from gradtape.ops.dynamic import UPDATE_AT
from gradtape.ops.index import UPDATE
from gradtape.ops.structured import CALL, CHECKPOINTED, COND, CUSTOM, WHILE
from gradtape.passes.facts import same_type, static_bytes, uniform
from gradtape.passes.inplace import ARITHMETIC, COPY_OF, TWINS

Tokens = frozenset[int]
FOREIGN = 0  # whatever is not this program's to change
NOTHING: Tokens = frozenset()
LARGE = 1 << 14  # bytes from which arithmetic in place pays


def bufferize(block: Block) -> Block:
    """The same program with updates in place where the old version is dead and nothing else holds its buffer."""
    if any(map(_fills, program(block))):
        block = rebuild(block, _fill_late)
    plan = Plan()
    plan.callee(block)

    def visit(scope: Rebuild, operation: Operation) -> None:
        if operation in plan.in_place:
            scope.copy(operation, op=TWINS.get(operation.op) or ARITHMETIC[operation.op])
        elif places := plan.copies.get(operation):
            groups = scope.groups(operation)
            for k in places:
                value = groups["carried"][k]
                groups["carried"][k] = scope.emit(COPY_OF[type(value.type)], [value], [value.type]).result
            scope.copy(operation, operands=groups)
        else:
            scope.copy(operation)

    return rebuild(block, visit)


def _fills(operation: Operation) -> bool:
    """Whether a part of an array is set to one number: the derivative of a write does so to what it has read."""
    return operation.op in (UPDATE, UPDATE_AT) and uniform(operation.operands[1]) is not None


def _fill_late(scope: Rebuild, operation: Operation) -> None:
    """Fills wait until somebody needs them: while they do, the array has what it had, and reads of it need no copy."""
    waiting = scope.memory  # what they give → the fills

    def write(values: Sequence[Value]) -> None:
        for value in values:
            fills = []
            while value in waiting:
                fills.append(waiting.pop(value))
                value = fills[-1].operands[0]
            for fill in reversed(fills):
                scope.copy(fill)

    if _fills(operation):
        waiting[operation.result] = operation
    else:
        write(operation.operands)
        scope.copy(operation)
    # before the block ends, in the order in which they were written
    if operation is scope.old.operations[-1]:
        write(list(waiting))


class Summary:
    """What a call of a block does with buffers: tokens of its parameters, results and of what went into lists."""

    def __init__(self, params: Sequence[int], results: Sequence[Tokens], escaped: set[int], owned: set[int]) -> None:
        self.params = params
        self.results = results
        self.escaped = escaped
        self.owned = owned


class Plan:
    """The analysis: a walk in program order that decides on every operation as it meets it."""

    def __init__(self) -> None:
        self.in_place: set[Operation] = set()
        self.copies: dict[Operation, list[int]] = {}
        self._tokens: dict[Value, Tokens] = {}
        self._owned: set[int] = set()
        self._live: Counter[int] = Counter()  # live values per token
        self._escaped: set[int] = set()  # put into a list or given to Python: never changed again
        self._changed: set[int] = set()  # changed in place somewhere
        self._summaries: dict[Block, Summary] = {}
        self._next = FOREIGN

    # --- tokens

    def _new(self, owned: bool = True) -> int:
        self._next += 1
        if owned:
            self._owned.add(self._next)
        return self._next

    def _escape(self, tokens: Tokens) -> None:
        self._owned -= tokens
        self._escaped |= tokens

    def _hold(self, value: Value) -> None:
        for token in self._tokens[value]:
            self._live[token] += 1

    def _release(self, value: Value) -> None:
        for token in self._tokens[value]:
            self._live[token] -= 1

    def _union(self, values: Sequence[Value]) -> Tokens:
        return NOTHING.union(*(self._tokens[value] for value in values))

    def _exclusive(self, value: Value) -> bool:
        """Whether the value's buffer is ours and no other live value has it."""
        tokens = self._tokens[value]
        # one live value: the operand itself, which dies there
        return bool(tokens) and tokens <= self._owned and all(self._live[token] == 1 for token in tokens)

    # --- blocks

    def callee(self, block: Block) -> Summary:
        """A program or callee: its parameters are the caller's."""
        summary = self._summaries.get(block)
        if summary is None:
            params = [self._new(owned=False) for _ in block.params]
            results = self._block(block, [_of(value, frozenset({t})) for value, t in zip(block.params, params, strict=True)])
            # one for all calls: what is the caller's is not the callee's to change, whoever calls
            summary = self._summaries[block] = Summary(params, results, set(self._escaped), set(self._owned))
        return summary

    def _block(self, block: Block, params: Sequence[Tokens]) -> list[Tokens]:
        """Decide on the operations of a block whose parameters may have these buffers; gives those of the results."""
        last: dict[Value, int] = {}
        for i, operation in enumerate(block.operations):
            for value in operation.operands:
                last[value] = i
        end = len(block.operations)
        for value in block.results:
            last[value] = end
        for value, tokens in zip(block.params, params, strict=True):
            self._tokens[value] = tokens
            if value in last:
                self._hold(value)
        for i, operation in enumerate(block.operations):
            # an operand given twice dies once
            dying = [value for value in dict.fromkeys(operation.operands) if last[value] == i]
            for value, tokens in zip(operation.results, self._operation(operation, dying), strict=True):
                self._tokens[value] = _of(value, tokens)
                if value in last:
                    self._hold(value)
        for value in dict.fromkeys(block.results):
            self._release(value)
        return [self._tokens[value] for value in block.results]

    def _operation(self, operation: Operation, dying: Sequence[Value]) -> Sequence[Tokens]:
        """Decide on one operation and let go of the operands that die there; the tokens of its results."""
        results: Sequence[Tokens]
        if operation.op is CALL:
            results = self._call(operation)
        elif operation.op is COND:
            for value in dying:
                self._release(value)
            # a branch may change what dies at it, in whichever side: so they are let go before the sides are looked at
            return self._cond(operation)
        elif operation.op is CUSTOM:
            results = [self._tokens[value] for value in operation.group("values")]
        elif operation.op is CHECKPOINTED:
            results = self._checkpointed(operation)
        elif operation.regions:
            results = self._loop(operation, dying)
        else:
            results = self._plain(operation, dying)
        for value in dying:
            self._release(value)
        return results

    # --- operations without regions

    def _plain(self, operation: Operation, dying: Sequence[Value]) -> Sequence[Tokens]:
        operands = operation.operands
        # a loop's body is looked at again and again, with less that is its own each time: an earlier decision may no longer
        # hold
        self.in_place.discard(operation)
        if self._may_change(operation, dying):
            self.in_place.add(operation)
            tokens = self._tokens[operands[0]]
            self._changed |= tokens
            if isinstance(operands[0].type, ListSpec):
                # the list has them as items from now on
                self._escape(self._union(operands[1:]))
            return [tokens]
        memory, tokens = operation.op.memory, self._union(operands)
        if operation.op.effect:
            self._escape(tokens)  # Python may keep what it was given
        elif any(isinstance(value.type, ListSpec) for value in operation.results):
            # a new list has the items of the list it was made from, and may have anything else it was made from as an item
            keeps = memory is Memory.FRESH and bool(operands) and isinstance(operands[0].type, ListSpec)
            self._escape(self._union(operands[1:]) if keeps else tokens)
        if memory is Memory.FRESH:
            return [frozenset({self._new()}) for _ in operation.results]
        if memory is Memory.VIEW:
            return [self._tokens[value] for value in operands[: len(operation.results)]]
        # an item of a list may be any of them; shared memory may be an operand's or a constant's
        return [frozenset({FOREIGN}) if memory is Memory.ITEM else tokens | {FOREIGN} for _ in operation.results]

    def _may_change(self, operation: Operation, dying: Sequence[Value]) -> bool:
        op, operands = operation.op, operation.operands
        if op in ARITHMETIC:
            size = static_bytes(operation.result.type)
            if size is None or size < LARGE or not same_type(operation.result.type, operands[0].type):
                return False
        elif op not in TWINS:
            return False
        # appending an item of another size
        elif isinstance(operation.result.type, ListSpec) and not same_type(operation.result.type, operands[0].type):
            return False  # the sizes of its items are open from here on: they lie in another way
        return operands[0] in dying and operands.count(operands[0]) == 1 and self._exclusive(operands[0])

    # --- calls and branches

    def _call(self, operation: Operation) -> Sequence[Tokens]:
        summary = self.callee(operation.attrs["callee"])
        meaning: dict[int, Tokens] = {FOREIGN: frozenset({FOREIGN})}
        for token, value in zip(summary.params, operation.operands, strict=True):
            meaning[token] = self._tokens[value]
            if token in summary.escaped:
                self._escape(self._tokens[value])
        for token in NOTHING.union(*summary.results):  # what the callee made is new at each call
            if token not in meaning:
                meaning[token] = frozenset({self._new(owned=token in summary.owned)})
        return [NOTHING.union(*(meaning[token] for token in tokens)) for tokens in summary.results]

    def _cond(self, operation: Operation) -> Sequence[Tokens]:
        inputs = [self._tokens[value] for value in operation.group("inputs")]
        branches = [self._block(operation.regions[name], inputs) for name in ("then", "orelse")]
        return [a | b for a, b in zip(*branches, strict=True)]

    def _checkpointed(self, operation: Operation) -> Sequence[Tokens]:
        """Its regions run many times on the same states, so nothing they are given is theirs to change."""
        for block in operation.regions.values():
            self.callee(block)
        self._escape(self._union(operation.operands))
        return [frozenset({FOREIGN}) for _ in operation.results]

    # --- loops

    def _loop(self, operation: Operation, dying: Sequence[Value]) -> Sequence[Tokens]:
        initial = operation.group("carried")
        own = [bool(_of(value, frozenset({FOREIGN}))) for value in initial]  # may the loop change it? at first: yes
        changed_before, self._changed = self._changed, set()
        while True:
            # A fixpoint from the best case: all carried values are the loop's own until an iteration shows otherwise.
            self._changed.clear()
            first = self._next
            carried = [self._new(owned=mine) for mine in own]
            given, items = self._iteration(operation, carried)
            broken = [k for k, mine in enumerate(own) if mine and not self._stays_own(k, carried, given, first)]
            if not broken:
                break
            for k in broken:
                own[k] = False
        # what the loop changes, also as another carried value's later buffer, must not be anybody else's at the start
        # only these need a copy at the start, if they are somebody else's; what is read only may be shared
        dirty = {k for k, token in enumerate(carried) if token in self._changed}
        while more := {j for k in dirty for j, token in enumerate(carried) if token in given[k]} - dirty:
            dirty |= more
        starts = [self._tokens[value] for value in initial]
        copied = [k for k in sorted(dirty) if not self._is_free(operation, initial[k], dying)]
        self.copies[operation] = copied
        for k in copied:
            starts[k] = frozenset({self._new()})
        self._changed = self._changed.union(changed_before, *(starts[k] for k in dirty))
        ends = _closure(carried, given, starts)
        for k, token in enumerate(carried):
            if token in self._escaped or token in items:
                self._escape(ends[k])
        lists = [frozenset({self._new()}) for _ in operation.result_group("ys")]
        return [*ends, *([NOTHING] if operation.op is WHILE else []), *lists]

    def _iteration(self, operation: Operation, carried: Sequence[int]) -> tuple[list[Tokens], Tokens]:
        """Test and body once, with these tokens for the carried values: tokens of what it gives on, and of the items."""
        state = [frozenset({token}) for token in carried]
        consts = [self._tokens[value] for value in operation.group("consts")]
        body = operation.regions["body"]
        if operation.op is WHILE:
            # what the test does in place the body would see
            self._live.update(carried)  # the body still needs them
            self._block(operation.regions["test"], _parameters(operation.regions["test"], state, consts))
            self._live.subtract(carried)
        results = self._block(body, _parameters(body, state, consts))
        items = NOTHING.union(*results[len(carried) :])
        self._escape(items)
        return results[: len(carried)], items

    def _stays_own(self, k: int, carried: Sequence[int], given: Sequence[Tokens], first: int) -> bool:
        """Whether what carried value k becomes is a buffer of the loop that nothing else in it has."""
        mine = given[k]
        # tokens up to `first` are from before the loop: the same buffer in every iteration
        if not mine <= self._owned or not all(token > first for token in mine) or carried[k] in self._escaped:
            return False
        return all(mine.isdisjoint(other) for j, other in enumerate(given) if j != k)

    def _is_free(self, operation: Operation, value: Value, dying: Sequence[Value]) -> bool:
        return value in dying and operation.operands.count(value) == 1 and self._exclusive(value)


def _of(value: Value, tokens: Tokens) -> Tokens:
    """The tokens of a value: a 0-d value is a NumPy scalar, which nobody can change."""
    return NOTHING if isinstance(value.type, TensorSpec) and not len(value.type.shape) else tokens


def _parameters(block: Block, carried: Sequence[Tokens], consts: Sequence[Tokens]) -> list[Tokens]:
    """Tokens for the parameters of a loop's region, by group; items of lists are foreign."""
    groups: dict[str, Sequence[Tokens]] = {"carried": carried, "consts": consts, "index": [NOTHING]}
    given: list[Tokens] = []
    for name, count in block.layout.items():
        given += groups.get(name, [frozenset({FOREIGN})] * count)
    return [_of(value, tokens) for value, tokens in zip(block.params, given, strict=True)]


def _closure(carried: Sequence[int], given: Sequence[Tokens], starts: Sequence[Tokens]) -> list[Tokens]:
    """What carried values may be after the loop: how they start, or what iterations give, through one another."""
    place = {token: k for k, token in enumerate(carried)}
    ends = [start | (more - place.keys()) for start, more in zip(starts, given, strict=True)]
    while True:  # each round follows the values one iteration further
        further = [end.union(*(ends[place[t]] for t in more if t in place)) for end, more in zip(ends, given, strict=True)]
        if further == ends:
            return ends
        ends = further
